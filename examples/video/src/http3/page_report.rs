//! What a page tells.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Where pages tell it.
pub const PATH: &[u8] = b"/report";
/// The longest, bytes.
pub const MAX_LEN: usize = 4096;

/// What a page tells once a second, and when it ends. None of it is more than the word of the browser.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PageReport {
    /// A number that the page has drawn, since several may share a connection.
    pub page: u32,
    /// How much of the media was played, seconds.
    pub seconds: f64,
    /// Pictures that were shown.
    pub shown: u64,
    /// Pictures that were decoded and not shown, because the browser was late.
    pub dropped: u64,
    /// Segments that came and were taken.
    pub segments: u64,
    /// Segments that the server had at no bit rate.
    pub missing: u64,
    /// Changes of the bit rate.
    pub switches: u64,
    /// How often the picture stood still because nothing was buffered.
    pub stalls: u64,
    /// For how long it did, milliseconds.
    pub stalled_ms: u64,
    /// The bit rate of the last segment, of the master playlist.
    pub bits_per_second: u64,
    /// The throughput that was measured.
    pub throughput: u64,
    /// The protocols by which the page and all that it asked for came (ALPN).
    pub protocols: Vec<String>,
    /// The size of the last picture.
    pub size: String,
    /// Whether it was played to its end.
    pub ended: bool,
    /// Whether the page was closed.
    pub left: bool,
    /// What ended playback too early.
    pub error: String,
}

impl PageReport {
    /// Whether the page plays no more.
    pub fn is_over(&self) -> bool {
        self.ended || self.left || !self.error.is_empty()
    }
}

impl fmt::Display for PageReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:.1} s played, {} pictures shown, {} dropped; {} segments over {}, {} missing; {} stalls, {} ms",
            self.seconds,
            self.shown,
            self.dropped,
            self.segments,
            // It is the client's, and may be anything.
            self.protocols.join(", ").escape_debug(),
            self.missing,
            self.stalls,
            self.stalled_ms
        )?;
        if self.error.is_empty() {
            return Ok(());
        }
        write!(f, "; it ended with: {}", self.error.escape_debug())
    }
}
