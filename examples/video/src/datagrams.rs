//! Frames in DATAGRAMs: cut into parts, none of which is sent twice.
//!
//! ```text
//! Datagram {
//!   Frame (i),                number of the frame
//!   Part (i),                 from 0
//!   Parts (i),                how many the frame has
//!   Bytes (..),               of tack-media's frame header and the payload
//! }
//! ```

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use tack_media::{
    DropCause, Frame, FrameHeader, MAX_PAYLOAD, ReceivedFrame, ReceiverEvent, SendError,
    SenderEvent,
};
use tack_proto::varint::{self, Reader};
use tacklib::Connection;

use crate::partial_frames::PartialFrames;

/// The longest header of a part: three varints.
const MAX_HEADER: usize = 3 * 8;
/// Room in a packet that the layer's own frames may take while a DATAGRAM waits.
const RESERVE: usize = 40;
/// Frames that wait for room in the queue of the connection, at most.
const MOST_WAITING: usize = 256;
/// How long behind its deadline the connection may tell that a frame was dropped.
const TOLD_WITHIN: Duration = Duration::from_millis(500);
/// How far below the newest frames are remembered that were dropped.
const REMEMBERED: u64 = 1024;

/// A frame whose parts are not all with the stack.
#[derive(Debug)]
struct Waiting {
    number: u64,
    depends_on: Option<u64>,
    deadline: Instant,
    parts: VecDeque<Vec<u8>>,
    has_begun: bool,
}

/// A frame whose parts are all with the stack.
#[derive(Debug)]
struct Taken {
    depends_on: Option<u64>,
    deadline: Instant,
}

/// Sends frames in DATAGRAMs, as [`tack_media::FrameSender`] does on streams.
#[derive(Debug)]
pub struct DatagramSender {
    epoch: Instant,
    next_number: u64,
    waiting: VecDeque<Waiting>,
    /// By number, until their deadline: parts of them may wait in the connection.
    taken: BTreeMap<u64, Taken>,
    dropped: BTreeSet<u64>,
    events: VecDeque<SenderEvent>,
    /// DATAGRAMs that the stack has taken.
    sent: u64,
}

impl DatagramSender {
    /// A sender whose frames are captured from `now` on.
    pub fn new(now: Instant) -> Self {
        Self {
            epoch: now,
            next_number: 0,
            waiting: VecDeque::new(),
            taken: BTreeMap::new(),
            dropped: BTreeSet::new(),
            events: VecDeque::new(),
            sent: 0,
        }
    }

    /// Takes a frame, as [`tack_media::FrameSender::send_frame`].
    pub fn send_frame(
        &mut self,
        connection: &mut Connection,
        now: Instant,
        frame: Frame,
        payload: &[u8],
    ) -> Result<u64, SendError> {
        if payload.len() > MAX_PAYLOAD {
            return Err(SendError::TooLong(payload.len()));
        }
        let number = self.next_number;
        self.next_number += 1;
        let longest = connection.dgram_max_writable_len().unwrap_or(0);
        let room = longest.saturating_sub(MAX_HEADER + RESERVE);
        if self.waiting.len() >= MOST_WAITING || room == 0 {
            self.drop_frame(number, DropCause::Backlog);
            return Ok(number);
        }
        let header = FrameHeader {
            kind: frame.kind,
            layer: frame.layer,
            number,
            depends_on: frame.depends_on,
            captured: frame.captured_at.saturating_duration_since(self.epoch),
            lifetime: frame.deadline.saturating_duration_since(frame.captured_at),
            len: payload.len(),
        };
        let mut bytes = Vec::with_capacity(MAX_HEADER + payload.len());
        header.encode(&mut bytes);
        bytes.extend_from_slice(payload);
        self.waiting.push_back(Waiting {
            number,
            depends_on: frame.depends_on,
            deadline: frame.deadline,
            parts: cut(number, &bytes, room),
            has_begun: false,
        });
        self.flush(connection, now)?;
        Ok(number)
    }

    /// Hands over what the connection takes, and drops what is too late.
    pub fn flush(
        &mut self,
        connection: &mut Connection,
        now: Instant,
    ) -> Result<(), SendError> {
        if connection.is_closed() || connection.is_draining() {
            return Err(SendError::Closed);
        }
        self.follow_dropped(connection);
        'frames: while let Some(mut frame) = self.waiting.pop_front() {
            if let Some(cause) = self.drops(&frame, now) {
                self.drop_frame(frame.number, cause);
                continue;
            }
            while let Some(part) = frame.parts.front() {
                match connection.dgram_send_tagged(part, frame.deadline, frame.number) {
                    Ok(()) => {
                        frame.parts.pop_front();
                        frame.has_begun = true;
                        self.sent += 1;
                    }
                    // The queue is full.
                    Err(quiche::Error::Done) => {
                        self.waiting.push_front(frame);
                        return Ok(());
                    }
                    // The path's MTU has fallen since the frame was cut.
                    Err(quiche::Error::BufferTooShort) => {
                        self.drop_frame(frame.number, DropCause::Backlog);
                        continue 'frames;
                    }
                    Err(error) => return Err(error.into()),
                }
            }
            let Waiting { number, depends_on, deadline, .. } = frame;
            self.taken.insert(number, Taken { depends_on, deadline });
            self.events.push_back(SenderEvent::Taken { number });
        }
        // The connection drops at its deadline what has not left then, and tells at the next call.
        self.taken.retain(|_, taken| now < taken.deadline + TOLD_WITHIN);
        Ok(())
    }

    /// Whether a frame that waits is worth nothing any more, and why.
    fn drops(&self, frame: &Waiting, now: Instant) -> Option<DropCause> {
        if frame.depends_on.is_some_and(|on| self.dropped.contains(&on)) {
            return Some(DropCause::Dependency);
        }
        let is_late = frame.deadline <= now || self.dropped.contains(&frame.number);
        is_late.then_some(if frame.has_begun { DropCause::Expired } else { DropCause::Late })
    }

    /// Frames of which the connection has dropped a part are gone, and so is all that depends on them: what of that waits
    /// in the connection would take the place of frames that can be shown.
    fn follow_dropped(&mut self, connection: &mut Connection) {
        let mut has_dropped = false;
        while let Some(number) = connection.dgram_dropped_next() {
            if self.taken.remove(&number).is_some() {
                self.drop_frame(number, DropCause::Expired);
                has_dropped = true;
            } else if self.waiting.front().is_some_and(|frame| frame.number == number) {
                self.waiting.pop_front();
                self.drop_frame(number, DropCause::Expired);
                has_dropped = true;
            }
        }
        if !has_dropped {
            return;
        }
        let mut gone = BTreeSet::new();
        for number in self.taken.keys().copied().collect::<Vec<_>>() {
            // Frames depend on earlier ones: one look in that order is enough.
            let on = self.taken.get(&number).and_then(|taken| taken.depends_on);
            if on.is_some_and(|on| self.dropped.contains(&on)) {
                self.taken.remove(&number);
                self.drop_frame(number, DropCause::Dependency);
                gone.insert(number);
            }
        }
        connection.dgram_purge_outgoing(|datagram: &[u8]| {
            Reader::new(datagram).read_varint().is_ok_and(|number| gone.contains(&number))
        });
    }

    /// What has become of frames since the last call.
    pub fn poll_event(&mut self) -> Option<SenderEvent> {
        self.events.pop_front()
    }

    /// Frames of which the stack has not taken all.
    pub fn backlog(&self) -> usize {
        self.waiting.len()
    }

    /// Bytes of these frames that the stack has not taken.
    pub fn unwritten(&self) -> u64 {
        let parts = self.waiting.iter().flat_map(|frame| &frame.parts);
        parts.map(|part| part.len() as u64).sum()
    }

    /// DATAGRAMs that the stack has taken.
    pub fn sent(&self) -> u64 {
        self.sent
    }

    fn drop_frame(&mut self, number: u64, cause: DropCause) {
        self.dropped.insert(number);
        self.dropped = self.dropped.split_off(&number.saturating_sub(REMEMBERED));
        self.events.push_back(SenderEvent::Dropped { number, cause });
    }
}

/// Cuts a frame into parts of `room` bytes, a header before each.
fn cut(number: u64, bytes: &[u8], room: usize) -> VecDeque<Vec<u8>> {
    let count = bytes.len().div_ceil(room.max(1)) as u64;
    let parts = bytes.chunks(room.max(1)).zip(0..);
    parts
        .map(|(bytes, part)| {
            let mut out = Vec::with_capacity(MAX_HEADER + bytes.len());
            for field in [number, part, count] {
                varint::put(&mut out, field);
            }
            out.extend_from_slice(bytes);
            out
        })
        .collect()
}

/// Puts frames together from DATAGRAMs, and counts what is lost.
#[derive(Debug, Default)]
pub struct DatagramReceiver {
    frames: PartialFrames,
    malformed: u64,
    buffer: Vec<u8>,
    events: VecDeque<ReceiverEvent>,
}

impl DatagramReceiver {
    /// Reads all DATAGRAMs that have come.
    pub fn read(&mut self, now: Instant, connection: &mut Connection) {
        self.buffer.resize(usize::from(u16::MAX), 0);
        while let Ok(len) = connection.dgram_recv(&mut self.buffer) {
            let datagram = self.buffer[..len].to_vec();
            self.on_datagram(now, &datagram);
        }
        for number in self.frames.give_up(now) {
            self.events.push_back(ReceiverEvent::Lost { header: number });
        }
    }

    /// What has come since the last call.
    pub fn poll_event(&mut self) -> Option<ReceiverEvent> {
        self.events.pop_front()
    }

    /// Parts that never came, of frames of which others did.
    pub fn parts_lost(&self) -> u64 {
        self.frames.parts_lost()
    }

    /// DATAGRAMs that hold no part of a frame.
    pub fn malformed(&self) -> u64 {
        self.malformed
    }

    fn on_datagram(&mut self, now: Instant, datagram: &[u8]) {
        let mut reader = Reader::new(datagram);
        let fields = (reader.read_varint(), reader.read_varint(), reader.read_varint());
        let (Ok(number), Ok(part), Ok(parts)) = fields else {
            self.malformed += 1;
            return;
        };
        let bytes = &datagram[reader.position()..];
        if !self.frames.on_part(now, number, (part, parts), bytes) {
            self.malformed += 1;
            return;
        }
        let Some(whole) = self.frames.take_whole(number) else { return };
        match FrameHeader::decode(&whole) {
            Ok((header, len)) if header.number == number && whole.len() == len + header.len => {
                let payload = whole[len..].to_vec();
                let frame = ReceivedFrame { header, payload, arrived: now };
                self.events.push_back(ReceiverEvent::Frame(frame));
            }
            _ => self.malformed += 1,
        }
    }
}

/// How long parts of a frame wait for the others, if nothing says how long they are worth something.
pub(crate) const PATIENCE: Duration = Duration::from_secs(1);

#[cfg(test)]
#[path = "../../../tacklib/tests/common/mod.rs"]
mod common;

#[cfg(test)]
mod tests {
    use tack_media::FrameKind;

    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn frame(number: u64, len: usize) -> Vec<u8> {
        let header = FrameHeader {
            kind: FrameKind::Key,
            layer: 0,
            number,
            depends_on: None,
            captured: 33 * MS,
            lifetime: 200 * MS,
            len,
        };
        let mut bytes = Vec::new();
        header.encode(&mut bytes);
        bytes.extend((0..len).map(|at| at as u8));
        bytes
    }

    #[test]
    fn parts_in_any_order_and_twice_make_one_frame() {
        let now = Instant::now();
        let mut receiver = DatagramReceiver::default();
        let parts: Vec<_> = cut(7, &frame(7, 5000), 1000).into();
        assert_eq!(parts.len(), 6);
        for part in parts.iter().rev().chain(&parts) {
            receiver.on_datagram(now, part);
        }
        let Some(ReceiverEvent::Frame(whole)) = receiver.poll_event() else { panic!() };
        assert_eq!((whole.header.number, whole.payload.len()), (7, 5000));
        assert_eq!(receiver.poll_event(), None, "only once");
        assert_eq!((receiver.parts_lost(), receiver.malformed()), (0, 0));
    }

    #[test]
    fn a_part_that_never_comes_is_counted_and_its_frame_told() {
        let now = Instant::now();
        let mut receiver = DatagramReceiver::default();
        for part in cut(0, &frame(0, 5000), 1000).iter().skip(2) {
            receiver.on_datagram(now, part);
        }
        assert_eq!(receiver.frames.give_up(now + 900 * MS).len(), 0, "it may still come");
        assert_eq!(receiver.frames.give_up(now + 1100 * MS).len(), 1);
        assert_eq!(receiver.parts_lost(), 2);
        // What comes after that makes no frame again.
        for part in cut(0, &frame(0, 5000), 1000) {
            receiver.on_datagram(now + 1100 * MS, &part);
        }
        assert_eq!(receiver.poll_event(), None);
    }

    #[test]
    fn what_no_sender_sends_is_counted_and_costs_nothing() {
        let now = Instant::now();
        let mut receiver = DatagramReceiver::default();
        for datagram in [&[][..], &[0x40], &[1, 5, 3, 9], &[1, 0, 0, 9]] {
            receiver.on_datagram(now, datagram);
        }
        let mut many = Vec::new();
        for field in [3, 0, 1 << 40] {
            varint::put(&mut many, field);
        }
        receiver.on_datagram(now, &many);
        assert_eq!(receiver.malformed(), 5);
        assert_eq!(receiver.poll_event(), None);
    }

    #[test]
    fn a_frame_that_was_cut_for_a_longer_mtu_is_dropped_and_the_next_one_leaves() {
        let config = || {
            let mut config = common::profile_config(tacklib::Profile::Video);
            config.enable_dgram(true, 1000, 1000);
            config
        };
        let client = common::tack_client(&mut config());
        let server = common::tack_server(&mut config());
        let mut pair = common::Pair::new(client, server);
        pair.handshake();
        let now = Instant::now();
        let mut sender = DatagramSender::new(now);
        let deadline = now + 200 * MS;
        for (number, room) in [(0, 60_000), (1, 1000)] {
            let parts = cut(number, &frame(number, 60_000), room);
            let depends_on = None;
            let waiting = Waiting { number, depends_on, deadline, parts, has_begun: false };
            sender.waiting.push_back(waiting);
        }
        assert_eq!(sender.flush(&mut pair.client, now), Ok(()));
        let cause = DropCause::Backlog;
        assert_eq!(sender.poll_event(), Some(SenderEvent::Dropped { number: 0, cause }));
        assert_eq!(sender.poll_event(), Some(SenderEvent::Taken { number: 1 }));
    }
}
