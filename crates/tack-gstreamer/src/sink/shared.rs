//! What the pipeline's threads and the element's share.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use super::outgoing::OutgoingBuffer;
use super::session::Counters;
use crate::link::WakerSlot;

/// Buffers that wait for the element's thread, which takes them all each time.
const MOST_QUEUED: usize = 512;
/// Bytes of them.
const MOST_QUEUED_BYTES: usize = 64 << 20;

/// What the element tells of one peer.
#[derive(Clone, Debug)]
pub(super) struct PeerStats {
    pub address: String,
    pub is_tack: bool,
    pub rate: u64,
    pub media: tacklib::MediaStats,
    pub tack: tacklib::TackStats,
    pub counters: Counters,
}

/// What the threads share.
#[derive(Debug, Default)]
pub(super) struct State {
    queue: VecDeque<OutgoingBuffer>,
    queued_bytes: usize,
    /// The pipeline has ended: what is queued is the last.
    pub is_ended: bool,
    /// The element stops.
    pub stops: bool,
    /// How often waits of the pipeline have had to end.
    pub unlocks: u64,
    /// The thread cannot go on.
    pub has_failed: bool,
    /// Each peer has all it will get.
    pub is_drained: bool,
    /// How often the stream has begun anew behind its end.
    pub restarts: u64,
    /// A peer has come for what is sent now.
    pub has_peer: bool,
    pub current_port: Option<u16>,
    pub fingerprint: Option<String>,
    /// Connected at present.
    pub peers: Vec<PeerStats>,
    /// Peers since the start.
    pub peers_seen: u64,
    /// What was counted of peers that are gone.
    pub gone: Counters,
    /// Buffers that came, and that no peer was there for, and that were too many.
    pub buffers: u64,
    pub no_peer: u64,
    pub overflow: u64,
    pub key_frame_requests: u64,
    /// What the encoder may produce, bits per second.
    pub estimated_bitrate: Option<u64>,
}

/// The state, and what tells that it has changed.
#[derive(Default)]
pub(super) struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    pub waker: WakerSlot,
}

impl Shared {
    pub fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the state, and wakes whoever waits in [`Shared::wait`].
    pub fn update<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let result = change(&mut self.lock());
        self.changed.notify_all();
        result
    }

    /// Waits until it is so. False if the time is up, the thread does not go on, or there have been other than so many
    /// unlocks: one that comes before the wait ends it, too.
    pub fn wait(
        &self,
        until: Option<Instant>,
        unlocks: u64,
        is: impl Fn(&State) -> bool,
    ) -> bool {
        let mut state = self.lock();
        loop {
            if is(&state) {
                return true;
            }
            if state.unlocks != unlocks || state.stops || state.has_failed {
                return false;
            }
            state = match until {
                None => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(until) => {
                    let left = until.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return false;
                    }
                    let waited = self.changed.wait_timeout(state, left);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }

    /// Queues a buffer for the thread. False if the thread does not take them.
    pub fn push(&self, buffer: OutgoingBuffer) -> bool {
        let mut state = self.lock();
        state.buffers += 1;
        let bytes = state.queued_bytes + buffer.data.size();
        if state.queue.len() >= MOST_QUEUED || bytes > MOST_QUEUED_BYTES {
            state.overflow += 1;
            return false;
        }
        state.queued_bytes = bytes;
        state.queue.push_back(buffer);
        drop(state);
        self.waker.wake();
        true
    }
}

impl State {
    /// No more buffers come.
    pub fn end(&mut self) {
        self.is_ended = true;
    }

    /// More buffers come all the same: the pipeline was flushed. False if it had not ended.
    pub fn restart(&mut self) -> bool {
        if !self.is_ended {
            return false;
        }
        self.is_ended = false;
        self.is_drained = false;
        self.has_peer = false;
        self.restarts += 1;
        true
    }

    /// All buffers that wait, and whether they are the last. Both are told at once: a thread that looked
    /// for the end later would cut off the buffers that were queued in between.
    pub fn take_queue(&mut self) -> (VecDeque<OutgoingBuffer>, bool) {
        self.queued_bytes = 0;
        (std::mem::take(&mut self.queue), self.is_ended)
    }

    /// What was counted of all peers.
    pub fn totals(&self) -> Counters {
        let mut totals = self.gone;
        self.peers.iter().for_each(|peer| totals.add(&peer.counters));
        totals
    }
}

#[cfg(test)]
mod tests {
    use tack_media::FrameKind;

    use super::*;
    use crate::payload::BufferMeta;

    fn buffer() -> OutgoingBuffer {
        let flags = gst::BufferFlags::empty();
        let data = gst::Buffer::from_slice([0; 8]).into_mapped_buffer_readable().unwrap();
        OutgoingBuffer {
            kind: FrameKind::Key,
            captured_at: Instant::now(),
            meta: BufferMeta { pts: None, dts: None, duration: None, flags, caps_number: 1 },
            caps: "video/x-test".into(),
            data,
        }
    }

    #[test]
    fn an_unlock_that_comes_just_before_a_wait_ends_it() {
        let shared = Shared::default();
        let unlocks = shared.lock().unlocks;
        shared.update(|state| state.unlocks += 1);
        assert!(!shared.wait(None, unlocks, |_| false));
    }

    #[test]
    fn the_end_comes_with_the_buffers_that_were_queued_before_it() {
        gst::init().unwrap();
        let shared = Shared::default();
        let take = || {
            let (queue, is_last) = shared.lock().take_queue();
            (queue.len(), is_last)
        };
        assert!(shared.push(buffer()));
        assert_eq!(take(), (1, false));
        assert!(shared.push(buffer()) && shared.push(buffer()));
        shared.update(State::end);
        assert_eq!(take(), (2, true));
        assert_eq!(take(), (0, true));
    }
}
