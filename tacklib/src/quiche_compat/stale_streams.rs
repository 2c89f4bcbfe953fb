//! Streams that quiche asks for data that they do not have any more.
//!
//! What: makes idle streams the least urgent ones when quiche says that it has nothing to send although
//! something was lost since it last did, and asks again, once for each of them; what is written to them later has its
//! priority back. Why: quiche (0.30, `send_single`) queues a stream whose data was lost. If that data is
//! acknowledged before it is sent again (a late acknowledgement after a probe timeout does it), the
//! stream stays in the queue, and each time that it is its turn no stream is served: one that is not
//! incremental, as HTTP/3's control streams are, or that is more urgent, holds up all others for ever.
//! The priority that HTTP/3 gave to a stream is not known, so that a control stream stays behind.
//! Upstream: not reported. To delete: when quiche passes over streams that have nothing to send.

use std::collections::{BTreeMap, BTreeSet};

use quiche::BufFactory;

/// Urgency and whether the stream is incremental.
type Priority = (u8, bool);

/// What quiche gives to a new stream.
const DEFAULT: Priority = (127, true);

/// Behind all others, and in turns.
const LAST: Priority = (255, true);

/// Streams that are looked at before quiche is asked again: no call takes longer for more of them.
const LOOKED_AT: usize = 256;

/// What was done about streams that may be stale.
#[derive(Debug, Default)]
pub struct StaleStreams {
    /// Something was lost since quiche last had nothing to send.
    is_possible: bool,
    /// Priorities that the application has set.
    priorities: BTreeMap<u64, Priority>,
    /// Streams that were made the least urgent.
    moved: BTreeSet<u64>,
    /// Lengths of the two at which those of streams that are gone are forgotten.
    priorities_limit: usize,
    moved_limit: usize,
}

impl StaleStreams {
    /// quiche has something to send again, or believes so.
    #[inline]
    pub fn on_lost(&mut self) {
        self.is_possible = true;
    }

    /// Whether quiche may have something to send again.
    #[inline]
    pub fn is_repeating(&self) -> bool {
        self.is_possible
    }

    /// Sets the priority of a stream for the application: at once, or when it is written to.
    pub fn set_priority<F: BufFactory>(
        &mut self,
        connection: &mut quiche::Connection<F>,
        stream_id: u64,
        (urgency, incremental): Priority,
    ) -> quiche::Result<()> {
        if !self.moved.contains(&stream_id) {
            connection.stream_priority(stream_id, urgency, incremental)?;
        }
        self.priorities.insert(stream_id, (urgency, incremental));
        if self.priorities.len() > self.priorities_limit.max(LOOKED_AT) {
            self.priorities.retain(|id, _| !connection.stream_closed(*id));
            self.priorities_limit = 2 * self.priorities.len();
        }
        Ok(())
    }

    /// The application has written to a stream: it is not idle any more.
    #[inline]
    pub fn on_written<F: BufFactory>(
        &mut self,
        connection: &mut quiche::Connection<F>,
        stream_id: u64,
    ) {
        if !self.moved.is_empty() && self.moved.remove(&stream_id) {
            let (urgency, incremental) =
                self.priorities.get(&stream_id).copied().unwrap_or(DEFAULT);
            // It fails for streams that are gone only.
            let _ = connection.stream_priority(stream_id, urgency, incremental);
        }
    }

    /// quiche has nothing to send: moves streams behind the others that have nothing unsent, those that it has on its
    /// list of writable ones and the `unfinished` ones, which it may have told of before or which have to wait for their
    /// window. How many questions quiche is worth: with each that is in vain it goes on to the next stream of those.
    pub fn on_nothing_to_send<F: BufFactory>(
        &mut self,
        connection: &mut quiche::Connection<F>,
        unfinished: impl Iterator<Item = u64>,
        has_unsent: impl Fn(u64) -> bool,
    ) -> usize {
        if !std::mem::take(&mut self.is_possible) {
            return 0;
        }
        let (urgency, incremental) = LAST;
        // Those that were moved before must not keep others from being looked at.
        let is_candidate = |id: &u64| !self.moved.contains(id) && !has_unsent(*id);
        // They come with the most urgent ones first.
        let writable = connection.writable().filter(is_candidate).take(LOOKED_AT);
        let mut candidates: BTreeSet<u64> = writable.collect();
        candidates.extend(unfinished.filter(is_candidate).take(LOOKED_AT));
        let moved_before = self.moved.len();
        for stream_id in candidates {
            // It fails for streams that are gone only.
            if connection.stream_priority(stream_id, urgency, incremental).is_ok() {
                self.moved.insert(stream_id);
            }
        }
        // There may be more.
        self.is_possible = self.moved.len() >= moved_before + LOOKED_AT;
        if self.moved.len() > self.moved_limit.max(LOOKED_AT) {
            self.moved.retain(|id| !connection.stream_closed(*id));
            self.moved_limit = 2 * self.moved.len();
        }
        self.moved.len().min(LOOKED_AT)
    }
}
