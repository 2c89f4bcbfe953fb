//! What was played, as a fragmented MP4: a fragment for each sample.

use std::collections::BTreeMap;
use std::io::Write;

use anyhow::{Context, Result};
use mp4_atom::{Encode, Mfhd, Moof, Tfdt, Tfhd, Traf, Trun, TrunEntry};

use crate::init::Init;
use crate::sample::{Sample, TrackKind};

/// The header of an mdat, bytes.
const MDAT_HEADER: usize = 8;
/// Sample flags: needs no other; needs another.
const SYNC_FLAGS: u32 = 0x0200_0000;
const NON_SYNC_FLAGS: u32 = 0x0101_0000;

/// Writes samples of one or more renditions into one file.
///
/// Each key frame begins with the parameter sets of its rendition, so that the resolution may change from
/// one to the next.
#[derive(Debug)]
pub struct Recording<W> {
    out: W,
    first: Init,
    /// The rendition that the last key frame was of.
    current: Init,
    sequence: u32,
    /// Where each track's last sample ends.
    ends: BTreeMap<u32, u64>,
}

/// What has become of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// It is in the file.
    Whole,
    /// It is not: it goes back in time, or is of a track that the file has not.
    LeftOut,
}

impl<W: Write> Recording<W> {
    /// Begins a file with the tracks of `init`.
    pub fn new(mut out: W, init: Init) -> Result<Self> {
        out.write_all(&init.with_inline_parameter_sets()?).context("writing the video")?;
        let current = init.clone();
        Ok(Self { out, first: init, current, sequence: 0, ends: BTreeMap::new() })
    }

    /// The initialisation segment of what follows; false if it cannot follow in this file.
    pub fn set_init(&mut self, init: Init) -> bool {
        let fits = self.first.goes_with(&init);
        if fits {
            self.current = init;
        }
        fits
    }

    /// Appends a sample.
    pub fn write(&mut self, sample: &Sample) -> Result<Written> {
        let Some(track) = self.current.track(sample.track) else { return Ok(Written::LeftOut) };
        let end = self.ends.entry(sample.track).or_default();
        if sample.decode_time < *end || track.timescale != sample.timescale {
            return Ok(Written::LeftOut);
        }
        *end = sample.decode_time.saturating_add(sample.duration.into());
        let sets: &[u8] = if sample.is_sync && sample.kind == TrackKind::Video {
            &track.parameter_sets
        } else {
            &[]
        };
        self.sequence = self.sequence.wrapping_add(1);
        let size = sets.len() + sample.data.len();
        let mut head = fragment(self.sequence, sample, size, 0)?;
        // The offset of the data follows from the length of what holds the offset.
        let offset = i32::try_from(head.len() + MDAT_HEADER)?;
        head = fragment(self.sequence, sample, size, offset)?;
        head.extend_from_slice(&u32::try_from(size + MDAT_HEADER)?.to_be_bytes());
        head.extend_from_slice(b"mdat");
        for part in [&head, sets, &sample.data] {
            self.out.write_all(part).context("writing the video")?;
        }
        Ok(Written::Whole)
    }

    /// Where it writes to.
    pub fn out(&mut self) -> &mut W {
        &mut self.out
    }
}

fn fragment(sequence: u32, sample: &Sample, size: usize, offset: i32) -> Result<Vec<u8>> {
    let entry = TrunEntry {
        duration: Some(sample.duration),
        size: Some(u32::try_from(size)?),
        flags: Some(if sample.is_sync { SYNC_FLAGS } else { NON_SYNC_FLAGS }),
        cts: Some(sample.composition_offset.into()),
    };
    let traf = Traf {
        tfhd: Tfhd { track_id: sample.track, default_base_is_moof: true, ..Tfhd::default() },
        tfdt: Some(Tfdt { base_media_decode_time: sample.decode_time }),
        trun: vec![Trun { data_offset: Some(offset), samples: vec![entry].into() }],
        ..Traf::default()
    };
    let moof = Moof { mfhd: Mfhd { sequence_number: sequence }, traf: vec![traf] };
    let mut out = Vec::new();
    moof.encode(&mut out)?;
    Ok(out)
}
