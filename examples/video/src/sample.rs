//! A sample: one picture, or one piece of sound, with its times.

use std::time::Duration;

use tack_media::FrameKind;

/// What a track holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrackKind {
    /// Pictures.
    Video,
    /// Sound.
    Audio,
}

/// A sample as it is in an MP4 file, with the times of the whole stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    /// ID of its track.
    pub track: u32,
    /// What it is of.
    pub kind: TrackKind,
    /// Ticks in a second; the times below are in them.
    pub timescale: u32,
    /// When it is decoded.
    pub decode_time: u64,
    /// Until the next sample of the track.
    pub duration: u32,
    /// From then on it is shown.
    pub composition_offset: i32,
    /// Whether it needs no other sample.
    pub is_sync: bool,
    /// Whether others need it.
    pub is_reference: bool,
    /// The coded picture or sound.
    pub data: Vec<u8>,
}

impl Sample {
    /// When it is decoded, from the beginning of the stream.
    pub fn time(&self) -> Duration {
        ticks(self.decode_time, self.timescale)
    }

    /// For how long it lasts.
    pub fn lasts(&self) -> Duration {
        ticks(self.duration.into(), self.timescale)
    }

    /// What tack-media is told that it is.
    pub fn frame_kind(&self) -> FrameKind {
        match self.kind {
            TrackKind::Audio => FrameKind::Audio,
            TrackKind::Video if self.is_sync => FrameKind::Key,
            TrackKind::Video => FrameKind::Delta,
        }
    }
}

/// A number of ticks as a time.
pub fn ticks(count: u64, timescale: u32) -> Duration {
    let nanos = u128::from(count) * 1_000_000_000 / u128::from(timescale.max(1));
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}
