//! What comes from the sender: frames in their order, the caps, and the end.

use std::time::{Duration, Instant};

use quiche::BufFactory;
use tack_media::{
    Due, FrameKind, FrameReceiver, JitterBuffer, JitterBufferConfig, Missing, ReceiverEvent,
};
use tacklib::Connection;

use crate::messages::{End, KEY_FRAME_REQUEST, MAX_END, end_stream, request_stream};
use crate::payload::{self, BufferMeta};

/// How long behind the end, and the last deadline, a frame may come.
const STRAGGLES: Duration = Duration::from_millis(500);
/// The longest that frames are waited for behind the end.
const GIVES_UP: Duration = Duration::from_secs(10);
/// Requests for key frames that are remembered while the stream takes none.
const MOST_REQUESTS: usize = 1;

/// What has become of the frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counters {
    /// Frames that have come whole.
    pub received: u64,
    /// Of these, frames that were handed on.
    pub handed_on: u64,
    /// Frames that came behind their time, and that were handed on if those behind them need them.
    pub late: u64,
    /// Frames that came without what they depend on.
    pub broken: u64,
    /// Frames whose caps were not known.
    pub no_caps: u64,
    /// Frames that began and did not come whole.
    pub lost: u64,
    /// Streams and payloads that no sender of this kind writes.
    pub malformed: u64,
}

/// A buffer to hand on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Received {
    pub kind: FrameKind,
    pub meta: BufferMeta,
    /// The caps, if they are other than before.
    pub caps: Option<String>,
    /// When it was captured, as far as arrivals tell.
    pub captured_at: Instant,
    /// Whether buffers before it are missing.
    pub is_discontinuous: bool,
    pub data: Vec<u8>,
}

/// Receives from one sender. It takes the time as an argument, and owns no socket.
#[derive(Debug)]
pub(super) struct ReceiveSession {
    frames: FrameReceiver,
    buffer: JitterBuffer,
    lifetime: Duration,
    /// The number of the caps that were handed on, and their text.
    caps: Option<(u64, String)>,
    is_discontinuous: bool,
    /// The number of the frame that was handed on last.
    last: Option<u64>,
    counters: Counters,
    /// Streams of frames that have come to an end, whatever was on them.
    ended_streams: u64,
    /// The connection is over: nothing that is missing will come.
    is_closed: bool,
    end: Option<(Instant, Option<End>)>,
    end_bytes: Vec<u8>,
    requests: usize,
    last_problem: Option<String>,
}

impl ReceiveSession {
    /// A sender is there; frames are held for `latency` behind the fastest.
    pub fn new(latency: Duration) -> Self {
        let mut config = JitterBufferConfig::default();
        config.missing = Missing::Skip;
        // GStreamer wants to know it in advance.
        (config.shortest, config.longest) = (latency, latency);
        Self {
            frames: FrameReceiver::new(),
            buffer: JitterBuffer::new(config),
            lifetime: Duration::ZERO,
            caps: None,
            is_discontinuous: false,
            last: None,
            counters: Counters::default(),
            ended_streams: 0,
            is_closed: false,
            end: None,
            end_bytes: Vec::new(),
            requests: 0,
            last_problem: None,
        }
    }

    /// Reads what has come.
    pub fn read<F: BufFactory>(&mut self, connection: &mut Connection<F>, now: Instant) {
        self.frames.read(now, connection);
        while let Some(event) = self.frames.poll_event() {
            self.on_event(event);
        }
        self.read_end(connection, now);
        self.send_requests(connection);
    }

    /// The next buffer that can be handed on.
    pub fn pop(&mut self, now: Instant) -> Option<Received> {
        // Each turn takes a frame from the buffer.
        while let Some(due) = self.next_due(now) {
            if !due.is_whole {
                // A decoder would make a grey picture of it.
                self.counters.broken += 1;
                self.is_discontinuous = true;
                continue;
            }
            let captured_at = due.at.checked_sub(self.buffer.delay()).unwrap_or(due.at);
            let (number, kind) = (due.frame.header.number, due.frame.header.kind);
            let mut data = due.frame.payload;
            let (meta, caps, begins) = match payload::decode(&data) {
                Ok(decoded) => decoded,
                Err(error) => {
                    self.on_malformed(error.to_string());
                    self.is_discontinuous = true;
                    continue;
                }
            };
            let Some(caps) = self.follow_caps(meta.caps_number, caps) else {
                self.counters.no_caps += 1;
                self.is_discontinuous = true;
                self.request_key_frame();
                continue;
            };
            data.drain(..begins);
            self.counters.handed_on += 1;
            // Frames that the sender has dropped are missing without a trace.
            let follows = self.last.is_none_or(|last| last + 1 == number);
            self.last = Some(number);
            let is_discontinuous = std::mem::take(&mut self.is_discontinuous) || !follows;
            return Some(Received { kind, meta, caps, captured_at, is_discontinuous, data });
        }
        None
    }

    fn next_due(&mut self, now: Instant) -> Option<Due> {
        if !self.is_closed {
            return self.buffer.pop_early(now);
        }
        // Each turn takes a frame from the buffer, if only one that is of no use.
        while let Some(at) = self.buffer.next_at() {
            if let Some(due) = self.buffer.pop(at.max(now)) {
                return Some(due);
            }
        }
        None
    }

    /// The connection is over: what waits behind a gap can be handed on.
    pub fn close(&mut self) {
        self.is_closed = true;
    }

    /// When there may be something to hand on, if nothing comes before.
    pub fn next_at(&self) -> Option<Instant> {
        self.buffer.next_at()
    }

    /// Whether all has been handed on that will come.
    pub fn is_over(&self, now: Instant) -> bool {
        let Some((told, end)) = self.end else { return false };
        let behind = now.saturating_duration_since(told);
        let has_all = end.is_some_and(|end| self.ended_streams >= end.begun());
        let is_late = behind > self.lifetime.min(GIVES_UP) + STRAGGLES;
        self.buffer.next_at().is_none() && (has_all || is_late) || behind > 2 * GIVES_UP
    }

    /// Whether the sender has said how many frames there were.
    pub fn has_end(&self) -> bool {
        self.end.is_some()
    }

    /// Asks the sender for a key frame, with the next call of [`ReceiveSession::read`].
    pub fn request_key_frame(&mut self) {
        self.requests = (self.requests + 1).min(MOST_REQUESTS);
    }

    /// What has been counted.
    pub fn counters(&self) -> Counters {
        Counters { late: self.buffer.late(), ..self.counters }
    }

    /// What is wrong with what the sender sends, the last of it since the last call.
    pub fn take_problem(&mut self) -> Option<String> {
        self.last_problem.take()
    }

    fn on_event(&mut self, event: ReceiverEvent) {
        self.ended_streams += 1;
        match event {
            ReceiverEvent::Frame(frame) => {
                self.counters.received += 1;
                self.lifetime = frame.header.lifetime;
                self.buffer.push(frame);
            }
            ReceiverEvent::Lost { header } => {
                self.counters.lost += 1;
                if let Some(header) = header {
                    self.buffer.on_lost(header.number);
                }
            }
            ReceiverEvent::Malformed { stream_id, error } => {
                self.on_malformed(format!("stream {stream_id}: {error}"));
            }
            _ => {}
        }
    }

    fn on_malformed(&mut self, problem: String) {
        self.counters.malformed += 1;
        self.last_problem = Some(problem);
    }

    /// The caps of a buffer, if they are new: `None` within; `None` if they are not known.
    #[allow(clippy::option_option, reason = "both are answers")]
    fn follow_caps(&mut self, number: u64, caps: Option<String>) -> Option<Option<String>> {
        match (&self.caps, caps) {
            (Some((known, _)), None) if *known == number => Some(None),
            (Some((_, known)), Some(caps)) if *known == caps => {
                self.caps = Some((number, caps));
                Some(None)
            }
            (_, Some(caps)) => {
                self.caps = Some((number, caps.clone()));
                Some(Some(caps))
            }
            (_, None) => None,
        }
    }

    fn read_end<F: BufFactory>(&mut self, connection: &mut Connection<F>, now: Instant) {
        let stream_id = end_stream(!connection.is_server());
        let mut chunk = [0; MAX_END + 1];
        while self.end.is_none() {
            // Fails as long as the stream does not exist.
            let Ok((len, is_end)) = connection.stream_recv(stream_id, &mut chunk) else {
                return;
            };
            self.end_bytes.extend_from_slice(&chunk[..len]);
            if !is_end && self.end_bytes.len() <= MAX_END {
                continue;
            }
            let end = End::decode(&self.end_bytes);
            if end.is_none() {
                self.on_malformed("the end cannot be read".to_owned());
            }
            self.end = Some((now, end));
        }
    }

    fn send_requests<F: BufFactory>(&mut self, connection: &mut Connection<F>) {
        if self.requests == 0 || self.end.is_some() {
            return;
        }
        let stream_id = request_stream(connection.is_server());
        // Without room the request waits; it fails if the connection is over.
        if connection.stream_send(stream_id, &[KEY_FRAME_REQUEST], false).is_ok_and(|n| n > 0) {
            self.requests -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use tack_media::{FrameHeader, HeaderError, ReceivedFrame};

    use super::*;

    const MS: Duration = Duration::from_millis(1);
    const LIFETIME: Duration = Duration::from_millis(300);

    fn event(start: Instant, number: u64) -> ReceiverEvent {
        let flags = gst::BufferFlags::empty();
        let meta = BufferMeta { pts: None, dts: None, duration: None, flags, caps_number: 1 };
        let payload = payload::encode(&meta, Some("video/x-test"), &[1; 8]);
        let captured = u32::try_from(number).unwrap() * 33 * MS;
        let header = FrameHeader {
            kind: FrameKind::Key,
            layer: 0,
            number,
            depends_on: None,
            captured,
            lifetime: LIFETIME,
            len: payload.len(),
        };
        ReceiverEvent::Frame(ReceivedFrame { header, payload, arrived: start + captured })
    }

    fn session() -> ReceiveSession {
        ReceiveSession::new(200 * MS)
    }

    /// How many buffers there are to hand on.
    fn hand_on(session: &mut ReceiveSession, now: Instant) -> usize {
        std::iter::from_fn(|| session.pop(now)).count()
    }

    #[test]
    fn the_end_waits_for_frames_that_are_still_repaired() {
        let start = Instant::now();
        let mut session = session();
        // Frame 1 has never begun, and 2 was reset.
        session.end = Some((start, Some(End { frames: 4, never_begun: 1 })));
        session.on_event(event(start, 0));
        assert_eq!(hand_on(&mut session, start), 1);
        session.on_event(ReceiverEvent::Lost { header: None });
        assert!(!session.is_over(start + 100 * MS), "frame 3 has not come");
        session.on_event(event(start, 3));
        assert!(!session.is_over(start + 100 * MS), "it waits for those before it");
        assert_eq!(hand_on(&mut session, start + 400 * MS), 1);
        assert!(session.is_over(start + 400 * MS));
    }

    #[test]
    fn the_end_waits_no_longer_than_the_last_frame_lives() {
        let start = Instant::now();
        let mut session = session();
        session.end = Some((start, Some(End { frames: 2, never_begun: 0 })));
        session.on_event(event(start, 0));
        assert_eq!(hand_on(&mut session, start), 1);
        assert!(!session.is_over(start + LIFETIME + STRAGGLES));
        assert!(session.is_over(start + LIFETIME + STRAGGLES + MS));
    }

    #[test]
    fn a_stream_that_holds_no_frame_is_not_waited_for() {
        let start = Instant::now();
        let mut session = session();
        session.end = Some((start, Some(End { frames: 1, never_begun: 0 })));
        let error = HeaderError::Version(9);
        session.on_event(ReceiverEvent::Malformed { stream_id: 2, error });
        assert!(session.is_over(start));
    }

    #[test]
    fn what_waits_behind_a_gap_is_handed_on_when_the_connection_is_over() {
        let start = Instant::now();
        let mut session = session();
        for number in [0, 2, 3, 5] {
            session.on_event(event(start, number));
        }
        assert_eq!(hand_on(&mut session, start), 1);
        session.close();
        let rest: Vec<_> = std::iter::from_fn(|| session.pop(start)).collect();
        let gaps: Vec<_> = rest.iter().map(|buffer| buffer.is_discontinuous).collect();
        assert_eq!(gaps, [true, false, true]);
        assert_eq!(rest[0].captured_at, start + 2 * 33 * MS);
        assert!(session.next_at().is_none());
    }
}
