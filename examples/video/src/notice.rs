//! What a person should know of a sender or a player: lines of the log.

use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

/// Notices that wait to be taken; of more, the newest are left out.
const MOST: usize = 256;

/// Something out of the ordinary, from which the program goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Notice {
    /// The next segment does not come.
    SourceStalled(Duration),
    /// It has come.
    SourceResumed(Duration),
    /// A segment cannot be read; that of another bit rate takes its place, or none.
    SegmentMissing {
        /// Which.
        segment: String,
        /// Why.
        why: String,
        /// What is sent instead.
        instead: Option<String>,
    },
    /// Times in the media jump; they are taken as if they went on.
    TimestampJump(i128),
    /// Sending came so late that the frames in between are sent as if captured now.
    Behind(Duration),
    /// The player has taken no frame for some time, while some were sent.
    NothingTaken(Duration),
    /// It takes frames again.
    TakenAgain {
        /// After that time.
        after: Duration,
        /// Frames that were dropped in it.
        dropped: u64,
    },
    /// The resolution of what is played is another.
    Resolution {
        /// Width and height so far.
        from: (u16, u16),
        /// From now on.
        to: (u16, u16),
    },
    /// A frame cannot be used.
    BadFrame(String),
    /// The output takes nothing more.
    OutputLost(String),
    /// The output takes less than comes: frames are left out up to the next key frame.
    OutputSlow,
}

impl Notice {
    /// How loud it is told: another resolution is nothing bad.
    pub fn level(&self) -> log::Level {
        match self {
            Self::Resolution { .. } | Self::TakenAgain { .. } | Self::SourceResumed(_) => {
                log::Level::Info
            }
            _ => log::Level::Warn,
        }
    }
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SourceStalled(since) => write!(
                f,
                "the source stalls: no segment for {since:.1?}; waiting for it, the connection stays open"
            ),
            Self::SourceResumed(after) => write!(f, "the source goes on after {after:.1?}"),
            Self::SegmentMissing { segment, why, instead: Some(instead) } => {
                write!(f, "segment {segment} cannot be read ({why}); sending {instead} instead")
            }
            Self::SegmentMissing { segment, why, instead: None } => write!(
                f,
                "segment {segment} cannot be read at any bit rate ({why}); it is left out"
            ),
            Self::TimestampJump(micros) => write!(
                f,
                "the times in the media jump by {:.3} s; going on as if they did not",
                *micros as f64 / 1e6
            ),
            Self::Behind(by) => write!(
                f,
                "the clock or the source is {by:.1?} ahead of what was sent; going on from now"
            ),
            Self::NothingTaken(since) => {
                write!(
                    f,
                    "the player has taken no frame for {since:.1?}; dropping what gets too late"
                )
            }
            Self::TakenAgain { after, dropped } => {
                write!(
                    f,
                    "the player takes frames again after {after:.1?}; {dropped} were dropped"
                )
            }
            Self::Resolution { from, to } => {
                write!(
                    f,
                    "the resolution changes from {}x{} to {}x{}",
                    from.0, from.1, to.0, to.1
                )
            }
            Self::BadFrame(why) => write!(f, "a frame cannot be used: {why}"),
            Self::OutputLost(why) => {
                write!(f, "the output is lost: {why}; playing on without it")
            }
            Self::OutputSlow => f.write_str(
                "the output takes less than comes; leaving out frames up to a key frame",
            ),
        }
    }
}

/// Notices in the order of their coming.
#[derive(Debug, Default)]
pub struct Notices(VecDeque<Notice>);

impl Notices {
    /// Adds one, if there is room.
    pub fn push(&mut self, notice: Notice) {
        if self.0.len() < MOST {
            self.0.push_back(notice);
        }
    }

    /// Adds one, if there is one.
    pub fn extend(&mut self, notice: Option<Notice>) {
        if let Some(notice) = notice {
            self.push(notice);
        }
    }

    /// Takes the oldest.
    pub fn pop(&mut self) -> Option<Notice> {
        self.0.pop_front()
    }
}
