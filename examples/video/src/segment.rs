//! A segment of fragmented MP4, taken apart into samples.

use anyhow::{Context, Result, ensure};
use mp4_atom::{Atom, Moof, Traf};

use crate::init::{Init, next_box};
use crate::sample::{Sample, TrackKind};

/// The longest segment that is read, bytes.
pub const MAX_SEGMENT: u64 = 64 << 20;

/// Samples of a segment at most: some minutes of them.
const MAX_SAMPLES: usize = 100_000;

// Bits of the sample flags, ISO/IEC 14496-12 section 8.8.3.1.
const IS_NON_SYNC: u32 = 1 << 16;
const IS_DEPENDED_ON: u32 = 0b11 << 22;
const IS_DISPOSABLE: u32 = 0b10 << 22;

/// The samples of a segment, in the order in which they are decoded.
pub fn read(init: &Init, bytes: &[u8]) -> Result<Vec<Sample>> {
    let mut samples = Vec::new();
    let mut rest = bytes;
    loop {
        let start = bytes.len() - rest.len();
        let Some((kind, mut body)) = next_box(&mut rest)? else { break };
        if kind != Moof::KIND {
            continue;
        }
        let moof = Moof::decode_body(&mut body).context("the box moof")?;
        let mut end_of_last = start;
        for traf in &moof.traf {
            end_of_last = read_track(init, bytes, start, end_of_last, traf, &mut samples)?;
        }
    }
    ensure!(!samples.is_empty(), "the segment has no samples");
    let begins = samples.iter().find(|sample| sample.kind == TrackKind::Video);
    ensure!(
        begins.is_some_and(|sample| sample.is_sync),
        "the segment does not begin with a key frame"
    );
    samples.sort_by_key(Sample::time);
    Ok(samples)
}

/// Appends the samples of a track fragment; where its data ends.
fn read_track(
    init: &Init,
    bytes: &[u8],
    moof: usize,
    behind: usize,
    traf: &Traf,
    samples: &mut Vec<Sample>,
) -> Result<usize> {
    let header = &traf.tfhd;
    let id = header.track_id;
    let track = init.track(id).with_context(|| format!("track {id} is not in the init"))?;
    let mut decode_time = traf
        .tfdt
        .as_ref()
        .with_context(|| format!("track {id} has no decode time"))?
        .base_media_decode_time;
    // ISO/IEC 14496-12 section 8.8.7: offsets count from the moof, or from where the last track's data ended.
    let base = match header.base_data_offset {
        Some(offset) => usize::try_from(offset)?,
        None if header.default_base_is_moof => moof,
        None => behind,
    };
    let mut at = base;
    for run in &traf.trun {
        if let Some(offset) = run.data_offset {
            at = base
                .checked_add_signed(isize::try_from(offset)?)
                .context("data before the file")?;
        }
        for entry in &run.samples {
            ensure!(
                samples.len() < MAX_SAMPLES,
                "more than {MAX_SAMPLES} samples in a segment"
            );
            let defaults = &track.defaults;
            let or = |own: Option<u32>, of_track: Option<u32>, of_all: u32| {
                own.or(of_track).unwrap_or(of_all)
            };
            let size = or(entry.size, header.default_sample_size, defaults.default_sample_size);
            let duration = or(
                entry.duration,
                header.default_sample_duration,
                defaults.default_sample_duration,
            );
            let flags =
                or(entry.flags, header.default_sample_flags, defaults.default_sample_flags);
            let end = at.checked_add(size as usize).context("a sample is too long")?;
            let data = bytes.get(at..end).context("a sample lies outside of the segment")?;
            at = end;
            samples.push(Sample {
                track: id,
                kind: track.kind,
                timescale: track.timescale,
                decode_time,
                duration,
                composition_offset: i32::try_from(entry.cts.unwrap_or(0))?,
                is_sync: flags & IS_NON_SYNC == 0,
                is_reference: flags & IS_DEPENDED_ON != IS_DISPOSABLE,
                data: data.to_vec(),
            });
            decode_time = decode_time.saturating_add(duration.into());
        }
    }
    Ok(at)
}
