//! Media without an encoder: frames of the sizes that one makes, of bytes that mean nothing.

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use crate::sample::{Sample, TrackKind};

/// Pictures in a second, and in a group: a segment is one group, of a second.
pub const FPS: u32 = 30;
const VIDEO: u32 = 1;
const VIDEO_TIMESCALE: u32 = 15_360;
const AUDIO: u32 = 2;
const AUDIO_TIMESCALE: u32 = 48_000;
/// A piece of AAC, and its bytes at 64 kbit/s.
const AUDIO_SAMPLES: u32 = 1024;
const AUDIO_BYTES: usize = 171;
const AUDIO_BITS_PER_SECOND: u64 = 64_000;
/// The size of a key frame in others: x264 for live video makes them 3 to 6 times as large.
const KEY_SIZE: f64 = 4.5;
/// Sizes vary by this share up and down, from picture to picture.
const VARIATION: f64 = 0.25;

/// A source of segments of a second each.
#[derive(Debug)]
pub struct Synthetic {
    rates: Vec<u64>,
    segments: u64,
    next: u64,
    random: Pcg64Mcg,
}

impl Synthetic {
    /// Media of so many seconds; `rates` in bits per second, from the lowest.
    pub fn new(rates: Vec<u64>, seconds: u64, seed: u64) -> Self {
        Self { rates, segments: seconds, next: 0, random: Pcg64Mcg::seed_from_u64(seed) }
    }

    /// The bit rates.
    pub fn rates(&self) -> &[u64] {
        &self.rates
    }

    /// The next segment, of the rendition at that place.
    pub fn next(&mut self, rendition: usize) -> Option<Vec<Sample>> {
        if self.next >= self.segments {
            return None;
        }
        let second = self.next;
        self.next += 1;
        let rate = self.rates.get(rendition).or(self.rates.last()).copied().unwrap_or(0);
        let bytes = rate.saturating_sub(AUDIO_BITS_PER_SECOND) as f64 / 8.0;
        let part = bytes / (f64::from(FPS) - 1.0 + KEY_SIZE);
        let mut samples: Vec<_> = (0..FPS)
            .map(|picture| {
                let varies = self.random.random_range(1.0 - VARIATION..1.0 + VARIATION);
                let size = part * varies * if picture == 0 { KEY_SIZE } else { 1.0 };
                let duration = VIDEO_TIMESCALE / FPS;
                let decode_time =
                    second * u64::from(VIDEO_TIMESCALE) + u64::from(picture * duration);
                Sample {
                    track: VIDEO,
                    kind: TrackKind::Video,
                    timescale: VIDEO_TIMESCALE,
                    decode_time,
                    duration,
                    composition_offset: 0,
                    is_sync: picture == 0,
                    is_reference: true,
                    data: vec![picture as u8; (size as usize).max(1)],
                }
            })
            .collect();
        let tick = u64::from(AUDIO_TIMESCALE);
        let piece = u64::from(AUDIO_SAMPLES);
        let pieces = (second * tick).div_ceil(piece)..((second + 1) * tick).div_ceil(piece);
        samples.extend(pieces.map(|number| Sample {
            track: AUDIO,
            kind: TrackKind::Audio,
            timescale: AUDIO_TIMESCALE,
            decode_time: number * piece,
            duration: AUDIO_SAMPLES,
            composition_offset: 0,
            is_sync: true,
            is_reference: false,
            data: vec![number as u8; AUDIO_BYTES],
        }));
        samples.sort_by_key(Sample::time);
        Some(samples)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segment_has_the_bit_rate_and_a_key_frame_in_front() {
        let mut source = Synthetic::new(vec![400_000, 6_000_000], 40, 1);
        for (rendition, rate) in [(0, 400_000.0), (1, 6_000_000.0)] {
            let mut bits = 0.0;
            for _ in 0..20 {
                let samples = source.next(rendition).unwrap();
                let video: Vec<_> =
                    samples.iter().filter(|sample| sample.kind == TrackKind::Video).collect();
                assert_eq!(video.len(), 30);
                assert!(video[0].is_sync && video[0].data.len() > 2 * video[1].data.len());
                assert!(video[1..].iter().all(|sample| !sample.is_sync));
                bits +=
                    samples.iter().map(|sample| sample.data.len() as f64 * 8.0).sum::<f64>();
            }
            assert!((0.95..1.05).contains(&(bits / 20.0 / rate)), "{bits} for {rate}");
        }
        assert_eq!(source.next(0), None);
    }

    #[test]
    fn sound_has_no_gaps_between_segments() {
        let mut source = Synthetic::new(vec![400_000], 30, 1);
        let mut expected = 0;
        while let Some(samples) = source.next(0) {
            for sample in samples.iter().filter(|sample| sample.kind == TrackKind::Audio) {
                assert_eq!(sample.decode_time, expected);
                expected += u64::from(sample.duration);
            }
        }
        assert!(expected >= 30 * 48_000);
    }
}
