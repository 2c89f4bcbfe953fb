//! Frames of which some parts have come.

use std::collections::BTreeMap;
use std::time::Instant;

use tack_media::{FrameHeader, MAX_PAYLOAD};

use crate::datagrams::PATIENCE;

/// Bytes of frames that are not whole, at most; the oldest gives way.
const MOST_BYTES: usize = 16 << 20;
/// Frames that are not whole, at most.
const MOST_FRAMES: usize = 256;
/// Parts of a frame, at most: a sender cuts it into some of a thousand bytes.
const MOST_PARTS: u64 = (MAX_PAYLOAD / 256) as u64;

#[derive(Debug)]
struct Partial {
    began: Instant,
    count: u64,
    parts: BTreeMap<u64, Vec<u8>>,
}

/// Keeps the parts of frames until they are whole, or given up.
#[derive(Debug, Default)]
pub struct PartialFrames {
    frames: BTreeMap<u64, Partial>,
    bytes: usize,
    /// Below it no frame is taken any more.
    next: u64,
    /// Frames that were whole, from there on.
    done: std::collections::BTreeSet<u64>,
    parts_lost: u64,
    given_up: Vec<Option<FrameHeader>>,
}

impl PartialFrames {
    /// Takes a part; false if there can be none such.
    pub fn on_part(
        &mut self,
        now: Instant,
        number: u64,
        (part, count): (u64, u64),
        bytes: &[u8],
    ) -> bool {
        if part >= count || count > MOST_PARTS {
            return false;
        }
        if number < self.next || self.done.contains(&number) {
            return true;
        }
        let frame = self.frames.entry(number).or_insert_with(|| Partial {
            began: now,
            count,
            parts: BTreeMap::new(),
        });
        if frame.count != count {
            return false;
        }
        if let std::collections::btree_map::Entry::Vacant(vacant) = frame.parts.entry(part) {
            vacant.insert(bytes.to_vec());
            self.bytes += bytes.len();
        }
        while self.frames.len() > MOST_FRAMES || self.bytes > MOST_BYTES {
            self.give_up_first();
        }
        true
    }

    /// The bytes of a frame, if all its parts have come.
    pub fn take_whole(&mut self, number: u64) -> Option<Vec<u8>> {
        let frame = self.frames.get(&number)?;
        if frame.parts.len() as u64 != frame.count {
            return None;
        }
        let frame = self.take(number)?;
        self.done.insert(number);
        while self.done.len() > MOST_FRAMES
            && let Some(first) = self.done.pop_first()
        {
            self.next = self.next.max(first + 1);
        }
        Some(frame.parts.into_values().flatten().collect())
    }

    /// Gives up frames whose parts have waited too long; their headers, as far as they have come.
    pub fn give_up(&mut self, now: Instant) -> Vec<Option<FrameHeader>> {
        let waits = |frame: &Partial| now.saturating_duration_since(frame.began) > PATIENCE;
        let late: Vec<_> =
            self.frames.iter().filter(|(_, frame)| waits(frame)).map(|(at, _)| *at).collect();
        for number in late {
            self.lose(number);
        }
        std::mem::take(&mut self.given_up)
    }

    /// Parts that were missing from frames that were given up.
    pub fn parts_lost(&self) -> u64 {
        self.parts_lost
    }

    fn give_up_first(&mut self) {
        let first = self.frames.first_key_value().map(|(number, _)| *number);
        if let Some(number) = first {
            self.lose(number);
        }
    }

    fn lose(&mut self, number: u64) {
        let Some(frame) = self.take(number) else { return };
        self.next = self.next.max(number + 1);
        self.parts_lost += frame.count - frame.parts.len() as u64;
        let first = frame.parts.get(&0).and_then(|part| FrameHeader::decode(part).ok());
        self.given_up.push(first.map(|(header, _)| header));
    }

    fn take(&mut self, number: u64) -> Option<Partial> {
        let frame = self.frames.remove(&number)?;
        self.bytes -= frame.parts.values().map(Vec::len).sum::<usize>();
        Some(frame)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn memory_is_bounded_however_many_frames_begin_and_never_end() {
        let now = Instant::now();
        let mut frames = PartialFrames::default();
        for number in 0..100_000 {
            assert!(frames.on_part(now, number, (0, 2), &[0; 100]));
        }
        assert!(frames.frames.len() <= MOST_FRAMES);
        for part in 0..MOST_PARTS {
            frames.on_part(now, 100_000, (part, MOST_PARTS), &[0; 1200]);
        }
        assert!(frames.bytes <= MOST_BYTES + 1200);
        let lost = frames.give_up(now + 2 * PATIENCE + Duration::from_secs(1));
        assert!(lost.len() >= 100_000 && frames.bytes == 0 && frames.frames.is_empty());
        assert!(frames.parts_lost() >= 100_000);
    }
}
