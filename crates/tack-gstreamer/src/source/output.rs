//! What the element's thread has received and the pipeline has not taken.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tack_media::FrameKind;

use super::session::{Counters, Received};
use crate::link::WakerSlot;

/// Buffers that wait for the pipeline, at most: some seconds.
const MOST_QUEUED: usize = 256;
/// Bytes of them.
const MOST_QUEUED_BYTES: usize = 32 << 20;

/// What the element tells of its sender.
#[derive(Clone, Debug)]
pub(super) struct SenderStats {
    pub address: String,
    pub is_tack: bool,
    pub media: tacklib::MediaStats,
    pub tack: tacklib::TackStats,
}

/// What the threads share.
#[derive(Debug, Default)]
pub(super) struct State {
    queue: VecDeque<Received>,
    queued_bytes: usize,
    /// Caps of buffers that were dropped: the next has them.
    pending_caps: Option<String>,
    /// Buffers were dropped: what comes is worth nothing until a key frame.
    waits_for_key_frame: bool,
    /// Nothing more will come.
    pub is_ended: bool,
    /// The element stops.
    pub stops: bool,
    /// The pipeline must not wait.
    pub is_unlocked: bool,
    /// The thread cannot go on.
    pub has_failed: bool,
    /// The sender should be asked for a key frame.
    pub wants_key_frame: bool,
    pub current_port: Option<u16>,
    pub fingerprint: Option<String>,
    pub sender: Option<SenderStats>,
    pub counters: Counters,
    /// Buffers that were dropped since the pipeline took none.
    pub overflow: u64,
}

/// What the pipeline gets.
#[derive(Debug)]
pub(super) enum Next {
    Buffer(Box<Received>),
    End,
    Failed,
    Unlocked,
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

    /// Changes the state, and wakes whoever waits in [`Shared::next`].
    pub fn update<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let result = change(&mut self.lock());
        self.changed.notify_all();
        result
    }

    /// Waits for the next buffer.
    pub fn next(&self) -> Next {
        let mut state = self.lock();
        loop {
            if state.is_unlocked || state.stops {
                return Next::Unlocked;
            }
            if let Some(buffer) = state.pop() {
                return Next::Buffer(Box::new(buffer));
            }
            if state.has_failed {
                return Next::Failed;
            }
            if state.is_ended {
                return Next::End;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl State {
    /// Queues a buffer for the pipeline. True if it takes none, so that buffers were dropped; told once for each
    /// gap.
    pub fn push(&mut self, mut buffer: Received) -> bool {
        if self.waits_for_key_frame && buffer.kind == FrameKind::Delta {
            self.overflow += 1;
            self.wants_key_frame = true;
            self.keep_caps(buffer.caps.take());
            return false;
        }
        let bytes = self.queued_bytes + buffer.data.len();
        let is_full = self.queue.len() >= MOST_QUEUED || bytes > MOST_QUEUED_BYTES;
        if is_full {
            self.drop_queued();
            if buffer.kind == FrameKind::Delta {
                self.overflow += 1;
                self.keep_caps(buffer.caps.take());
                return true;
            }
        }
        if std::mem::take(&mut self.waits_for_key_frame) {
            buffer.is_discontinuous = true;
        }
        buffer.caps = buffer.caps.or(self.pending_caps.take());
        self.pending_caps = None;
        self.queued_bytes += buffer.data.len();
        self.queue.push_back(buffer);
        is_full
    }

    /// When the first buffer that waits was captured.
    pub fn first_captured(&self) -> Option<Instant> {
        self.queue.front().map(|buffer| buffer.captured_at)
    }

    /// Drops all that waits; what comes is worth nothing until a key frame.
    pub fn drop_queued(&mut self) {
        self.overflow += self.queue.len() as u64;
        while let Some(buffer) = self.pop() {
            self.keep_caps(buffer.caps);
        }
        self.waits_for_key_frame = true;
        self.wants_key_frame = true;
    }

    fn keep_caps(&mut self, caps: Option<String>) {
        self.pending_caps = caps.or(self.pending_caps.take());
    }

    fn pop(&mut self) -> Option<Received> {
        let buffer = self.queue.pop_front()?;
        self.queued_bytes -= buffer.data.len();
        Some(buffer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::payload::BufferMeta;

    fn buffer(kind: FrameKind, caps: Option<&str>, len: usize) -> Received {
        let flags = gst::BufferFlags::empty();
        Received {
            kind,
            meta: BufferMeta { pts: None, dts: None, duration: None, flags, caps_number: 1 },
            caps: caps.map(str::to_owned),
            captured_at: Instant::now(),
            is_discontinuous: false,
            data: vec![0; len],
        }
    }

    #[test]
    fn a_pipeline_that_takes_nothing_costs_bounded_memory_and_goes_on_at_a_key_frame() {
        for (len, most) in [(1, MOST_QUEUED), (1 << 20, 32)] {
            let mut state = State::default();
            let mut told = 0;
            state.push(buffer(FrameKind::Key, Some("video/x-h264"), len));
            for _ in 0..3 * MOST_QUEUED {
                told += u32::from(state.push(buffer(FrameKind::Delta, None, len)));
                assert!(state.queue.len() <= most && state.queued_bytes <= MOST_QUEUED_BYTES);
            }
            assert_eq!((told, state.queue.len()), (1, 0));
            assert!(state.wants_key_frame);
            state.push(buffer(FrameKind::Key, None, len));
            state.push(buffer(FrameKind::Delta, None, len));
            let next = state.pop().unwrap();
            assert!(next.is_discontinuous);
            assert_eq!(
                next.caps.as_deref(),
                Some("video/x-h264"),
                "the pipeline never got them"
            );
            assert!(!state.pop().unwrap().is_discontinuous);
        }
    }
}
