//! Frames that wait to be shown, in their order, and how much there may be of them.

use std::collections::BTreeMap;

use crate::frame::FrameKind;
use crate::receiver::ReceivedFrame;

/// Frames that wait to be shown, at most; half of them, the oldest, give way then.
pub(super) const MOST_WAITING: usize = 2048;

/// Bytes of them, at most: ten seconds of 50 Mbit/s.
pub(super) const MOST_WAITING_BYTES: usize = 64 << 20;

/// Frames by number.
#[derive(Debug, Default)]
pub(super) struct WaitingFrames {
    by_number: BTreeMap<u64, ReceivedFrame>,
    bytes: usize,
}

impl WaitingFrames {
    /// Takes a frame whose number is not there.
    pub(super) fn insert(&mut self, frame: ReceivedFrame) {
        self.bytes += frame.payload.len();
        self.by_number.insert(frame.header.number, frame);
    }

    /// Whether the frame with this number waits.
    pub(super) fn contains(&self, number: u64) -> bool {
        self.by_number.contains_key(&number)
    }

    /// The frame with the lowest number, which stays.
    pub(super) fn first(&self) -> Option<&ReceivedFrame> {
        self.by_number.first_key_value().map(|(_, frame)| frame)
    }

    /// Removes the frame with the lowest number.
    pub(super) fn take_first(&mut self) -> Option<ReceivedFrame> {
        let (_, frame) = self.by_number.pop_first()?;
        self.bytes -= frame.payload.len();
        Some(frame)
    }

    /// Whether more waits than may.
    pub(super) fn is_overfull(&self) -> bool {
        self.len() > MOST_WAITING || self.bytes > MOST_WAITING_BYTES
    }

    /// Removes the first frame as long as more than half of what may wait is there, or a later frame is a better one to
    /// go on with.
    pub(super) fn take_surplus(&mut self) -> Option<ReceivedFrame> {
        let gives_way = self.len() > MOST_WAITING / 2
            || self.bytes > MOST_WAITING_BYTES / 2
            || self.is_delta_before_key();
        if gives_way { self.take_first() } else { None }
    }

    /// Whether the first frame needs others, and a later one does not.
    fn is_delta_before_key(&self) -> bool {
        self.first().is_some_and(|frame| frame.header.kind == FrameKind::Delta)
            && self.has_key_frame()
    }

    /// Whether one of the frames is a key frame.
    pub(super) fn has_key_frame(&self) -> bool {
        self.by_number.values().any(|frame| frame.header.kind == FrameKind::Key)
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.by_number.len()
    }

    /// Whether there is none.
    pub(super) fn is_empty(&self) -> bool {
        self.by_number.is_empty()
    }

    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}
