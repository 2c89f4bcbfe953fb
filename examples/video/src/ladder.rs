//! Media on disk: HLS with fragmented MP4, the same pictures at several bit rates.
//!
//! `video make` writes this form, and so do ffmpeg and packagers: a master playlist names a playlist for each
//! bit rate, and that an initialisation segment and segments of a group of pictures each. A playlist without
//! an end is live: it is read again until it has one.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use hls_m3u8::tags::VariantStream;
use hls_m3u8::{MasterPlaylist, MediaPlaylist};

use crate::init::Init;
use crate::payload::MAX_INIT;
use crate::sample::Sample;
use crate::segment::{self, MAX_SEGMENT};

/// The name of the master playlist in a directory of media.
pub const MASTER: &str = "master.m3u8";

/// The longest playlist that is read, bytes: some days of segments.
const MAX_PLAYLIST: u64 = 16 << 20;

/// One bit rate.
#[derive(Debug)]
pub struct Rendition {
    /// What the master playlist says: the rate in its highest segment, bits per second.
    pub bits_per_second: u64,
    /// Its initialisation segment.
    pub init: Init,
    playlist: PathBuf,
    /// The number of the first segment (EXT-X-MEDIA-SEQUENCE).
    first: usize,
    segments: Vec<String>,
    has_ended: bool,
}

/// Reads the renditions that a master playlist, or one in the directory, names; the lowest bit rate first.
pub fn open(path: &Path) -> Result<Vec<Rendition>> {
    let master = if path.is_dir() { path.join(MASTER) } else { path.to_owned() };
    let text = read_text(&master)?;
    let playlist = MasterPlaylist::try_from(text.as_str())
        .map_err(|error| unreadable(&master, "a master playlist", &error))?;
    let directory = master.parent().unwrap_or(Path::new("."));
    let mut renditions = Vec::new();
    for stream in &playlist.variant_streams {
        let VariantStream::ExtXStreamInf { uri, stream_data, .. } = stream else { continue };
        let rate = stream_data.average_bandwidth().unwrap_or(stream_data.bandwidth());
        renditions.push(Rendition::open(local(directory, uri)?, rate)?);
    }
    renditions.sort_by_key(|rendition| rendition.bits_per_second);
    let Some((first, others)) = renditions.split_first() else {
        bail!("{}: it names no playlist", master.display())
    };
    if let Some(other) = others.iter().find(|other| !first.init.goes_with(&other.init)) {
        bail!(
            "{} and {} have other tracks or timescales: make both in one go",
            first.playlist.display(),
            other.playlist.display()
        );
    }
    Ok(renditions)
}

impl Rendition {
    fn open(playlist: PathBuf, bits_per_second: u64) -> Result<Self> {
        let read = read_playlist(&playlist)?;
        let map = read.map.as_ref().with_context(|| {
            format!("{}: no EXT-X-MAP, so it is not of fragmented MP4", playlist.display())
        })?;
        let path = local(playlist.parent().unwrap_or(Path::new(".")), map)?;
        let init = Init::parse(&read_file(&path, MAX_INIT as u64)?)
            .with_context(|| path.display().to_string())?;
        let Playlist { first, segments, has_ended, .. } = read;
        Ok(Self { bits_per_second, init, playlist, first, segments, has_ended })
    }

    /// The name of a segment; `None` if the playlist does not have it.
    pub fn segment(&self, number: usize) -> Option<&str> {
        let place = number.checked_sub(self.first)?;
        self.segments.get(place).map(String::as_str)
    }

    /// The number of the first segment that the playlist has.
    pub fn first(&self) -> usize {
        self.first
    }

    /// Whether no segments will be added.
    pub fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Reads the playlist again.
    pub fn reload(&mut self) -> Result<()> {
        let read = read_playlist(&self.playlist)?;
        // A packager that has begun anew would count its segments from there.
        ensure!(
            read.first + read.segments.len() >= self.first + self.segments.len(),
            "{}: its last segments are gone, or EXT-X-MEDIA-SEQUENCE counts anew",
            self.playlist.display()
        );
        (self.first, self.segments) = (read.first, read.segments);
        self.has_ended = read.has_ended;
        Ok(())
    }

    /// The samples of a segment.
    pub fn read(&self, number: usize) -> Result<Vec<Sample>> {
        let name = self.segment(number).context("the playlist has no such segment")?;
        let path = local(self.playlist.parent().unwrap_or(Path::new(".")), name)?;
        segment::read(&self.init, &read_file(&path, MAX_SEGMENT)?)
    }
}

struct Playlist {
    map: Option<String>,
    first: usize,
    segments: Vec<String>,
    has_ended: bool,
}

fn read_playlist(path: &Path) -> Result<Playlist> {
    let text = read_text(path)?;
    let playlist = MediaPlaylist::try_from(text.as_str())
        .map_err(|error| unreadable(path, "a playlist of segments", &error))?;
    let mut segments: Vec<_> = playlist.segments.iter().collect();
    segments.sort_by_key(|(index, _)| *index);
    let map = segments.first().and_then(|(_, segment)| segment.map.as_ref());
    Ok(Playlist {
        map: map.map(|map| map.uri().to_string()),
        first: playlist.media_sequence,
        segments: segments.iter().map(|(_, segment)| segment.uri().to_string()).collect(),
        has_ended: playlist.has_end_list,
    })
}

/// What is wrong with a playlist. The parser quotes the rest of the file.
fn unreadable(path: &Path, form: &str, error: &hls_m3u8::Error) -> anyhow::Error {
    const LONGEST: usize = 120;
    let error = error.to_string();
    let mut said: String = error.chars().take(LONGEST).collect();
    if said.len() < error.len() {
        said.push('…');
    }
    anyhow::anyhow!("{}: not {form} of HLS: {said}", path.display())
}

/// A file that a playlist names. It may be an address on the web, or lead elsewhere on this machine: those
/// are refused.
fn local(directory: &Path, name: &str) -> Result<PathBuf> {
    use std::path::Component;
    let path = Path::new(name);
    let is_inside = path.components().all(|part| matches!(part, Component::Normal(_)));
    ensure!(
        is_inside && !name.contains("://"),
        "{name}: a playlist may only name files beside it or below"
    );
    Ok(directory.join(path))
}

fn read_text(path: &Path) -> Result<String> {
    let bytes = read_file(path, MAX_PLAYLIST)?;
    String::from_utf8(bytes).with_context(|| format!("{}: not a text", path.display()))
}

fn read_file(path: &Path, longest: u64) -> Result<Vec<u8>> {
    let reading = || path.display().to_string();
    let len = fs::metadata(path).with_context(reading)?.len();
    ensure!(len <= longest, "{}: {len} bytes; up to {longest} are read", path.display());
    fs::read(path).with_context(reading)
}
