//! How a jitter buffer delays, and what it does about frames that are missing.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// [`JitterBufferConfig::shortest`] is no longer than that: it can be added to any time.
const LONGEST_SHORTEST: Duration = Duration::from_secs(24 * 3600);

/// What to do when the next frame is not there at its time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Missing {
    /// Go on with those that are there: a frame that comes later is not shown.
    #[default]
    Skip,
    /// Stand still until it comes, or is known to be lost, or its deadline has passed by
    /// [`JitterBufferConfig::longest`]: a frame that the sender drops before any of it has left is not told of. Nor is it
    /// waited for when more frames have come behind it than the buffer holds.
    ///
    /// Its deadline is as far behind its capture as those of the frames next to it. A sender that gives its frames a
    /// day is waited for however late they come.
    Wait,
}

/// How a [`JitterBuffer`](crate::JitterBuffer) delays.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct JitterBufferConfig {
    /// The shortest delay behind the fastest frame: 10 ms. More than a day counts as a day.
    pub shortest: Duration,
    /// The longest: 1 s. A missing frame that is waited for may come so long behind its deadline.
    pub longest: Duration,
    /// The share of frames that should be there in time: 0.98.
    pub in_time: f64,
    /// What is done about a missing frame.
    pub missing: Missing,
}

impl Default for JitterBufferConfig {
    fn default() -> Self {
        Self {
            shortest: Duration::from_millis(10),
            longest: Duration::from_secs(1),
            in_time: 0.98,
            missing: Missing::Skip,
        }
    }
}

impl JitterBufferConfig {
    /// The same with a shortest delay that can be added to any time.
    pub(super) fn bounded(self) -> Self {
        Self { shortest: self.shortest.min(LONGEST_SHORTEST), ..self }
    }
}
