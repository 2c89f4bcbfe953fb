//! The initialisation segment of fragmented MP4: which tracks there are.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail, ensure};
use mp4_atom::{Atom, Avc3, Codec, DecodeMaybe, Encode, Ftyp, Header, Moov, Trex};

use crate::payload::MAX_INIT;
use crate::sample::TrackKind;

/// Bytes in front of each unit of H.264 in a sample. Files with others are refused: ffmpeg writes none.
const LENGTH_SIZE: u8 = 4;

/// An initialisation segment.
#[derive(Clone, Debug)]
pub struct Init {
    bytes: Vec<u8>,
    ftyp: Ftyp,
    moov: Moov,
    tracks: BTreeMap<u32, Track>,
}

/// A track that a segment has samples of.
#[derive(Clone, Debug)]
pub struct Track {
    /// What it holds.
    pub kind: TrackKind,
    /// Ticks in a second.
    pub timescale: u32,
    /// What holds for samples that say nothing else.
    pub defaults: Trex,
    /// Width and height; zero for sound.
    pub resolution: (u16, u16),
    /// The parameter sets of H.264 as they are written into a sample; empty for sound.
    pub parameter_sets: Vec<u8>,
}

impl Init {
    /// Reads `ftyp` and `moov` of a file, or of what a peer sent.
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        ensure!(
            bytes.len() <= MAX_INIT,
            "an initialisation segment of {} bytes; up to {MAX_INIT} are read",
            bytes.len()
        );
        let mut rest = bytes;
        let mut ftyp = None;
        while let Some((header, body)) = next_box(&mut rest)? {
            let mut body = body;
            match header {
                Ftyp::KIND => ftyp = Some(Ftyp::decode_body(&mut body)?),
                Moov::KIND => {
                    let moov = Moov::decode_body(&mut body)?;
                    let ftyp = ftyp.context("no ftyp before moov")?;
                    return Self::new(bytes.to_vec(), ftyp, moov);
                }
                _ => {}
            }
        }
        bail!("no moov: this is not the beginning of an MP4 file")
    }

    fn new(bytes: Vec<u8>, ftyp: Ftyp, moov: Moov) -> Result<Self> {
        let extends = moov.mvex.as_ref().map_or(&[][..], |mvex| &mvex.trex);
        ensure!(
            !extends.is_empty(),
            "the file is not fragmented (no mvex); make it with `video make`"
        );
        let mut tracks = BTreeMap::new();
        for trak in &moov.trak {
            let id = trak.tkhd.track_id;
            let defaults = extends.iter().find(|trex| trex.track_id == id);
            let defaults = defaults.with_context(|| format!("track {id} has no trex"))?.clone();
            let timescale = trak.mdia.mdhd.timescale;
            ensure!(timescale > 0, "track {id} has a timescale of 0");
            let codec = trak.mdia.minf.stbl.stsd.codecs.first();
            let (kind, resolution, parameter_sets) = match codec {
                Some(Codec::Avc1(entry)) => video(&entry.visual, &entry.avcc)?,
                Some(Codec::Avc3(entry)) => video(&entry.visual, &entry.avcc)?,
                Some(Codec::Mp4a(_)) => (TrackKind::Audio, (0, 0), Vec::new()),
                _ => bail!("track {id} is neither H.264 nor AAC; make it with `video make`"),
            };
            tracks.insert(id, Track { kind, timescale, defaults, resolution, parameter_sets });
        }
        ensure!(
            tracks.values().filter(|track| track.kind == TrackKind::Video).count() == 1,
            "there has to be one track of video"
        );
        Ok(Self { bytes, ftyp, moov, tracks })
    }

    /// The segment as it was read.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// A track by its ID.
    pub fn track(&self, id: u32) -> Option<&Track> {
        self.tracks.get(&id)
    }

    /// Width and height of the video.
    pub fn resolution(&self) -> (u16, u16) {
        let video = self.tracks.values().find(|track| track.kind == TrackKind::Video);
        video.map_or((0, 0), |track| track.resolution)
    }

    /// Whether samples of the other can follow those of this one in a file: the same tracks and timescales.
    pub fn goes_with(&self, other: &Self) -> bool {
        let of = |init: &Self| -> Vec<_> {
            init.tracks.iter().map(|(id, track)| (*id, track.kind, track.timescale)).collect()
        };
        of(self) == of(other)
    }

    /// The segment for a file in which parameter sets may change: `avc3` (ISO/IEC 14496-15) allows them in
    /// samples, `avc1` does not.
    pub fn with_inline_parameter_sets(&self) -> Result<Vec<u8>> {
        let mut moov = self.moov.clone();
        for trak in &mut moov.trak {
            for codec in &mut trak.mdia.minf.stbl.stsd.codecs {
                if let Codec::Avc1(entry) = codec {
                    let entry = entry.clone();
                    *codec = Codec::Avc3(Avc3 {
                        visual: entry.visual,
                        avcc: entry.avcc,
                        btrt: entry.btrt,
                        colr: entry.colr,
                        pasp: entry.pasp,
                        taic: entry.taic,
                        fiel: entry.fiel,
                        spatial: entry.spatial,
                    });
                }
            }
        }
        let mut out = Vec::with_capacity(self.bytes.len() + 64);
        self.ftyp.encode(&mut out)?;
        moov.encode(&mut out)?;
        Ok(out)
    }
}

type Video = (TrackKind, (u16, u16), Vec<u8>);

fn video(visual: &mp4_atom::Visual, avcc: &mp4_atom::Avcc) -> Result<Video> {
    ensure!(
        avcc.length_size == LENGTH_SIZE,
        "units of H.264 with lengths of {} bytes; only {LENGTH_SIZE} are supported",
        avcc.length_size
    );
    let mut sets = Vec::new();
    for set in avcc.sequence_parameter_sets.iter().chain(&avcc.picture_parameter_sets) {
        sets.extend_from_slice(&u32::try_from(set.len())?.to_be_bytes());
        sets.extend_from_slice(set);
    }
    Ok((TrackKind::Video, (visual.width, visual.height), sets))
}

/// The kind and the body of the next box; an error if it does not end where the bytes do or before.
pub(crate) fn next_box<'a>(
    rest: &mut &'a [u8],
) -> Result<Option<(mp4_atom::FourCC, &'a [u8])>> {
    let Some(header) = Header::decode_maybe(rest)? else {
        ensure!(rest.is_empty(), "the file ends inside the header of a box");
        return Ok(None);
    };
    let len = header.size.unwrap_or(rest.len());
    let (body, behind) = rest
        .split_at_checked(len)
        .with_context(|| format!("the box {} is cut short", header.kind))?;
    *rest = behind;
    Ok(Some((header.kind, body)))
}
