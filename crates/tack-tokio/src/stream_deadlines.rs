//! When the deadlines of unfinished streams pass, for all connections of an endpoint.

use std::collections::BTreeSet;
use std::time::Instant;

use tack_endpoint::Handle;

use crate::stream_id::StreamId;

/// Deadlines, soonest first. Each is that of a [`StreamState`](crate::stream_state::StreamState), too.
#[derive(Debug, Default)]
pub(crate) struct StreamDeadlines(BTreeSet<(Instant, Handle, StreamId)>);

impl StreamDeadlines {
    /// Replaces the deadline of a stream, which was `old`.
    pub(crate) fn replace(
        &mut self,
        (handle, id): (Handle, StreamId),
        old: Option<Instant>,
        new: Option<Instant>,
    ) {
        if let Some(at) = old {
            self.0.remove(&(at, handle, id));
        }
        if let Some(at) = new {
            self.0.insert((at, handle, id));
        }
    }

    /// When the next one passes.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.0.first().map(|(at, ..)| *at)
    }

    /// Takes a stream whose deadline has passed.
    pub(crate) fn take_due(&mut self, now: Instant) -> Option<(Handle, StreamId)> {
        let first = self.0.first().copied().filter(|(at, ..)| *at <= now)?;
        self.0.remove(&first);
        let (_, handle, id) = first;
        Some((handle, id))
    }
}
