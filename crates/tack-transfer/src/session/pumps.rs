//! All streams of a connection that have workers.

use std::collections::BTreeMap;
use std::time::Instant;

use super::pump::Pump;
use super::rate_limit::RateLimits;
use crate::protocol::WireError;

/// The pumps of a connection, by stream, and what they may move together.
#[derive(Default)]
pub(super) struct Pumps {
    streams: BTreeMap<u64, Pump>,
    pub(super) limits: RateLimits,
    /// The stream that has used up what might be moved: the next one is first next time.
    last: u64,
}

impl Pumps {
    pub(super) fn new(limits: RateLimits) -> Self {
        Self { limits, ..Self::default() }
    }

    pub(super) fn insert(&mut self, stream: u64, pump: Pump) {
        self.streams.insert(stream, pump);
    }

    pub(super) fn contains(&self, stream: u64) -> bool {
        self.streams.contains_key(&stream)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.streams.is_empty()
    }

    /// Moves what can and may be moved, and forgets streams that are over. An error means that the
    /// peer sent something unreadable.
    pub(super) fn drive(
        &mut self,
        conn: &mut tacklib::Connection,
        now: Instant,
    ) -> Result<(), WireError> {
        let (limits, mut last) = (&mut self.limits, None);
        let (first, rest): (Vec<_>, Vec<_>) =
            self.streams.iter_mut().partition(|(stream, _)| **stream > self.last);
        for (stream, pump) in first.into_iter().chain(rest) {
            let before = limits.resumes_at(now);
            pump.drive(conn, limits, now)?;
            if before.is_none() && limits.resumes_at(now).is_some() {
                last = Some(*stream);
            }
        }
        self.last = last.unwrap_or(self.last);
        self.streams.retain(|_, pump| !pump.is_done());
        Ok(())
    }
}
