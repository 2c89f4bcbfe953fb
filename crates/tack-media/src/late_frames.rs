//! Frames that came too late to be shown, and what they still are good for: a decoder that gets them can go on from
//! there, and what depends on them is whole again, though some pictures were not seen.

use std::collections::{BTreeMap, VecDeque};

use crate::frame::FrameKind;
use crate::gone::Gone;
use crate::receiver::ReceivedFrame;

/// Frames that are kept, at most: some seconds of a group.
const MOST_FRAMES: usize = 256;

/// Bytes of them, at most.
const MOST_BYTES: usize = 16 << 20;

/// Keeps frames whose dependency is missing until it comes, or a key frame makes it needless.
#[derive(Debug, Default)]
pub(crate) struct LateFrames {
    /// By number: they lack what they depend on.
    broken: BTreeMap<u64, ReceivedFrame>,
    /// In the order in which a decoder needs them.
    ready: VecDeque<ReceivedFrame>,
    bytes: usize,
    /// The last key frame whose time has come.
    last_key: Option<u64>,
}

impl LateFrames {
    /// The time of a frame has come, and it lacks what it depends on.
    pub fn on_broken(&mut self, frame: &ReceivedFrame) {
        self.keep(frame.clone());
    }

    /// The time of a frame has come that lacks nothing.
    pub fn on_whole(&mut self, number: u64, kind: FrameKind) {
        if kind != FrameKind::Key {
            return;
        }
        self.last_key = Some(number);
        let newer = self.broken.split_off(&number);
        let older = std::mem::replace(&mut self.broken, newer);
        self.bytes -= older.values().map(|frame| frame.payload.len()).sum::<usize>();
    }

    /// A frame has come whose time had passed: what depends on it and on nothing else that is gone is ready, too.
    pub fn on_late(&mut self, frame: ReceivedFrame, gone: &mut Gone) {
        let number = frame.header.number;
        let is_needed = frame.header.kind != FrameKind::Audio
            && self.last_key.is_none_or(|key| number > key)
            && gone.contains(number);
        if !is_needed {
            return;
        }
        self.keep(frame);
        // Frames depend on earlier ones: one look in that order is enough.
        let numbers: Vec<_> = self.broken.keys().copied().collect();
        for number in numbers {
            let lacks = |frame: &ReceivedFrame| {
                frame.header.depends_on.is_some_and(|on| gone.contains(on))
            };
            if self.broken.get(&number).is_some_and(|frame| !lacks(frame))
                && let Some(frame) = self.broken.remove(&number)
            {
                gone.remove(number);
                self.ready.push_back(frame);
            }
        }
    }

    /// The next frame that a decoder can take.
    pub fn pop(&mut self) -> Option<ReceivedFrame> {
        let frame = self.ready.pop_front()?;
        self.bytes -= frame.payload.len();
        Some(frame)
    }

    /// The next frame that a decoder can take, which stays.
    pub fn peek(&self) -> Option<&ReceivedFrame> {
        self.ready.front()
    }

    fn keep(&mut self, frame: ReceivedFrame) {
        let number = frame.header.number;
        let len = frame.payload.len();
        // What is ready is not taken back; without room the frame stays gone.
        let is_full = self.bytes + len > MOST_BYTES
            || self.broken.len() + self.ready.len() >= MOST_FRAMES;
        if !is_full && !self.broken.contains_key(&number) {
            self.bytes += len;
            self.broken.insert(number, frame);
        }
    }

    #[cfg(test)]
    pub fn kept(&self) -> (usize, usize) {
        (self.broken.len() + self.ready.len(), self.bytes)
    }
}
