//! What one peer gets: frames, the caps, and the end.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use quiche::BufFactory;
use tack_media::{
    DropCause, EncoderControl, Frame, FrameKind, FrameSender, RateControlConfig, SendError,
    SenderEvent,
};
use tacklib::Connection;

use super::outgoing::OutgoingBuffer;
use crate::messages::{End, KEY_FRAME_REQUEST, end_stream, request_stream};
use crate::payload;

/// Where each buffer is a key frame, the caps come again after that time, and for each KiB of them as much later.
const CAPS_AGAIN: Duration = Duration::from_secs(1);
/// While there is nothing to send, the connection is kept open.
const KEEPS_ALIVE: Duration = Duration::from_secs(2);

/// What has become of the buffers for one peer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counters {
    /// Buffers that were to be sent.
    pub frames: u64,
    /// Of these, buffers that the stack has taken whole and not reset since.
    pub taken: u64,
    /// Dropped since they would have come too late, before anything of them left.
    pub late: u64,
    /// Reset at their deadlines.
    pub expired: u64,
    /// Dropped since a buffer that they depend on was.
    pub dependency: u64,
    /// Dropped since too many waited.
    pub backlog: u64,
    /// Refused by the peer.
    pub refused: u64,
    /// Dropped since the peer had no key frame yet.
    pub no_key_frame: u64,
}

impl Counters {
    fn count(&mut self, cause: DropCause) {
        *match cause {
            DropCause::Late => &mut self.late,
            DropCause::Expired => &mut self.expired,
            DropCause::Dependency => &mut self.dependency,
            DropCause::Backlog => &mut self.backlog,
            // A cause that is new is the stack's, as this one.
            _ => &mut self.refused,
        } += 1;
    }

    /// Adds what was counted of another peer.
    pub fn add(&mut self, other: &Self) {
        self.frames += other.frames;
        self.taken += other.taken;
        self.late += other.late;
        self.expired += other.expired;
        self.dependency += other.dependency;
        self.backlog += other.backlog;
        self.refused += other.refused;
        self.no_key_frame += other.no_key_frame;
    }
}

/// How far the end is told.
#[derive(Clone, Debug, PartialEq, Eq)]
enum EndState {
    NotYet,
    Wanted,
    Telling { message: Vec<u8>, written: usize },
    Told,
}

/// Sends buffers to one peer. It takes the time as an argument, and owns no socket.
#[derive(Debug)]
pub(super) struct SendSession {
    frames: FrameSender,
    control: EncoderControl,
    lifetime: Duration,
    /// The last frame that others need.
    reference: Option<u64>,
    /// Only sound is sent.
    is_sound: bool,
    /// The caps that were sent last, and when.
    caps: Option<(u64, Instant)>,
    /// Frames that the frame sender has given a number.
    numbered: u64,
    /// Frames of which the stack has not taken all; the frame sender bounds them.
    untaken: BTreeSet<u64>,
    counters: Counters,
    /// When something was sent.
    active: Instant,
    end: EndState,
}

impl SendSession {
    /// A peer has come. `epoch` is an instant before any capture.
    pub fn new(
        now: Instant,
        epoch: Instant,
        lifetime: Duration,
        control: RateControlConfig,
    ) -> Self {
        Self {
            frames: FrameSender::new(epoch),
            control: EncoderControl::new(now, control, lifetime),
            lifetime,
            reference: None,
            is_sound: false,
            caps: None,
            numbered: 0,
            untaken: BTreeSet::new(),
            counters: Counters::default(),
            active: now,
            end: EndState::NotYet,
        }
    }

    /// Takes a buffer.
    pub fn push<F: BufFactory>(
        &mut self,
        connection: &mut Connection<F>,
        now: Instant,
        buffer: &OutgoingBuffer,
    ) -> Result<(), SendError> {
        self.counters.frames += 1;
        self.is_sound = buffer.kind == FrameKind::Audio;
        let is_delta = buffer.kind == FrameKind::Delta;
        if is_delta && self.reference.is_none() {
            self.counters.no_key_frame += 1;
            return Ok(());
        }
        let has_new_caps = self.caps.is_none_or(|(number, _)| number != buffer.caps_number());
        let again = CAPS_AGAIN * (1 + buffer.caps.len() as u32 / 1024);
        let is_due = self.caps.is_none_or(|(_, sent)| now >= sent + again);
        let with_caps = has_new_caps || !is_delta && is_due;
        let frame = Frame {
            kind: buffer.kind,
            layer: 0,
            captured_at: buffer.captured_at,
            deadline: buffer.captured_at + self.lifetime,
            depends_on: self.reference.filter(|_| is_delta),
        };
        let payload = payload::encode(
            &buffer.meta,
            with_caps.then_some(&*buffer.caps),
            buffer.data.as_slice(),
        );
        let number = match self.frames.send_frame(connection, now, frame, payload) {
            Ok(number) => number,
            Err(error) => {
                self.counters.refused += 1;
                if buffer.is_needed() {
                    // What follows needs it.
                    self.reference = None;
                    self.control.on_skipped();
                }
                return Err(error);
            }
        };
        self.numbered += 1;
        if with_caps {
            self.caps = Some((buffer.caps_number(), now));
        }
        self.untaken.insert(number);
        self.control.on_sent(now, number, buffer.kind, buffer.is_needed());
        if buffer.is_needed() {
            self.reference = Some(number);
        }
        Ok(())
    }

    /// Sends what can leave. To be called when the connection has something new, and now and then.
    pub fn run<F: BufFactory>(
        &mut self,
        connection: &mut Connection<F>,
        now: Instant,
    ) -> Result<(), SendError> {
        self.read_requests(connection, now);
        self.frames.flush(connection, now)?;
        self.control.update(now, connection, self.frames.unwritten());
        self.follow_events(now);
        if now.saturating_duration_since(self.active) > KEEPS_ALIVE {
            self.active = now;
            // Fails only if the connection is about to be closed.
            let _ = connection.send_ack_eliciting();
        }
        self.tell_end(connection)
    }

    /// No more buffers come.
    pub fn end(&mut self) {
        if self.end == EndState::NotYet {
            self.end = EndState::Wanted;
        }
    }

    /// More buffers come all the same. False if the peer was told the end already, and gets nothing more.
    pub fn resume(&mut self) -> bool {
        if self.end == EndState::Wanted {
            self.end = EndState::NotYet;
        }
        self.end == EndState::NotYet
    }

    /// Whether the stack has all there is, the end included.
    pub fn has_told_end(&self) -> bool {
        self.end == EndState::Told
    }

    /// Whether the encoder is to make a key frame: the peer can do nothing with what comes until then.
    pub fn wants_key_frame(&self, now: Instant) -> bool {
        !self.is_sound && self.control.wants_key_frame(now)
    }

    /// What the encoder may produce for this peer, bits per second. `None` before something was sent: nothing is
    /// known of its path.
    pub fn rate(&self) -> Option<u64> {
        self.has_begun().then_some(self.control.rate())
    }

    /// Whether the peer has got a key frame, or is getting it.
    fn has_begun(&self) -> bool {
        self.reference.is_some()
    }

    /// What has been counted.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    fn follow_events(&mut self, now: Instant) {
        while let Some(event) = self.frames.poll_event() {
            self.control.on_event(now, &event);
            match event {
                SenderEvent::Taken { number } => {
                    self.untaken.remove(&number);
                    self.counters.taken += 1;
                    self.active = now;
                }
                SenderEvent::Dropped { number, cause } => {
                    self.counters.count(cause);
                    if !self.untaken.remove(&number) {
                        // It had been taken, and was reset on its way.
                        self.counters.taken = self.counters.taken.saturating_sub(1);
                    }
                    // They may have been with it.
                    self.caps = None;
                }
                _ => {}
            }
        }
    }

    fn read_requests<F: BufFactory>(&mut self, connection: &mut Connection<F>, now: Instant) {
        let stream_id = request_stream(!connection.is_server());
        let mut requests = [0; 64];
        // Fails as long as there is nothing. A peer cannot send more than a window in between.
        while let Ok((len, is_end)) = connection.stream_recv(stream_id, &mut requests) {
            if requests[..len].contains(&KEY_FRAME_REQUEST) {
                self.control.on_key_frame_request(now);
                // The peer may have dropped what had them.
                self.caps = None;
            }
            if is_end || len == 0 {
                return;
            }
        }
    }

    /// Tells the peer how many frames there were, once all have left.
    fn tell_end<F: BufFactory>(
        &mut self,
        connection: &mut Connection<F>,
    ) -> Result<(), SendError> {
        if self.end == EndState::Wanted && self.frames.backlog().0 == 0 {
            let end = End { frames: self.numbered, never_begun: self.frames.never_begun() };
            self.end = EndState::Telling { message: end.encode(), written: 0 };
        }
        let EndState::Telling { message, written } = &mut self.end else { return Ok(()) };
        let stream_id = end_stream(connection.is_server());
        match connection.stream_send(stream_id, &message[*written..], true) {
            Ok(taken) => *written += taken,
            Err(quiche::Error::Done) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
        if *written == message.len() {
            self.end = EndState::Told;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddr};
    use std::sync::Arc;

    use quiche::{ConnectionId, RecvInfo};
    use tack_media::{FrameReceiver, MAX_PAYLOAD, ReceiverEvent};

    use super::*;
    use crate::payload::BufferMeta;
    use crate::settings::{Mode, Settings};
    use crate::transport::{Direction, configure};

    const LIFETIME: Duration = Duration::from_millis(200);

    fn addresses() -> (SocketAddr, SocketAddr) {
        ((Ipv4Addr::LOCALHOST, 4001).into(), (Ipv4Addr::LOCALHOST, 4002).into())
    }

    /// A sink that calls, and a source.
    struct Pair {
        sink: Connection,
        source: Connection,
    }

    impl Pair {
        fn connected() -> Self {
            gst::init().unwrap();
            let (here, there) = addresses();
            let caller = Settings { insecure: true, ..Settings::default() };
            let listener = Settings { mode: Mode::Listener, ..Settings::default() };
            let mut config = configure(&caller, Direction::Send).unwrap().config;
            let id = ConnectionId::from_ref(&[1; 16]);
            let sink = tacklib::connect(None, &id, here, there, &mut config).unwrap();
            let mut config = configure(&listener, Direction::Receive).unwrap().config;
            let id = ConnectionId::from_ref(&[2; 16]);
            let source = tacklib::accept(&id, None, there, here, &mut config).unwrap();
            let mut pair = Self { sink, source };
            pair.run_until(true, |pair| {
                pair.sink.is_established() && pair.source.is_established()
            });
            pair
        }

        /// Carries datagrams both ways, or those of the source alone.
        fn run_until(&mut self, has_way: bool, mut done: impl FnMut(&mut Self) -> bool) {
            let (here, there) = addresses();
            for _ in 0..5000 {
                if done(self) {
                    return;
                }
                carry(&mut self.sink, &mut self.source, has_way, (here, there));
                carry(&mut self.source, &mut self.sink, true, (there, here));
                std::thread::sleep(Duration::from_millis(1));
            }
            panic!("not within five seconds");
        }
    }

    fn carry(
        from: &mut Connection,
        to: &mut Connection,
        has_way: bool,
        (source, destination): (SocketAddr, SocketAddr),
    ) {
        let mut datagram = [0; 2000];
        if from.timeout().is_some_and(|timeout| timeout.is_zero()) {
            from.on_timeout();
        }
        while let Ok((len, _)) = from.send(&mut datagram) {
            if has_way {
                let info = RecvInfo { from: source, to: destination };
                to.recv(&mut datagram[..len], info).unwrap();
            }
        }
    }

    fn key_frame(captured_at: Instant) -> OutgoingBuffer {
        key_frame_of(500, captured_at)
    }

    fn key_frame_of(len: usize, captured_at: Instant) -> OutgoingBuffer {
        let flags = gst::BufferFlags::empty();
        let data = gst::Buffer::from_slice(vec![0; len]).into_mapped_buffer_readable().unwrap();
        let meta = BufferMeta { pts: None, dts: None, duration: None, flags, caps_number: 1 };
        let caps = "video/x-test".into();
        OutgoingBuffer { kind: FrameKind::Key, captured_at, meta, caps, data }
    }

    /// The end, as the source is told it.
    fn read_end(pair: &mut Pair, session: &mut SendSession) -> End {
        let (mut message, mut end) = ([0; 32], None);
        pair.run_until(true, |pair| {
            session.run(&mut pair.sink, Instant::now()).unwrap();
            let read = pair.source.stream_recv(end_stream(false), &mut message);
            end = read.ok().and_then(|(len, _)| End::decode(&message[..len]));
            end.is_some()
        });
        end.unwrap()
    }

    #[test]
    fn the_end_counts_no_frame_as_dropped_whose_reset_the_receiver_gets() {
        let mut pair = Pair::connected();
        let now = Instant::now();
        let mut session = SendSession::new(now, now, LIFETIME, RateControlConfig::default());
        let push = |session: &mut SendSession, pair: &mut Pair, age: Duration| {
            let now = Instant::now();
            let buffer = key_frame(now.checked_sub(age).unwrap());
            session.push(&mut pair.sink, now, &buffer).unwrap();
        };
        push(&mut session, &mut pair, Duration::ZERO);
        // It is on its way until its deadline, and comes to nothing.
        pair.run_until(false, |pair| {
            session.run(&mut pair.sink, Instant::now()).unwrap();
            session.counters().expired == 1
        });
        // Too late before it begins.
        push(&mut session, &mut pair, 2 * LIFETIME);
        session.run(&mut pair.sink, Instant::now()).unwrap();
        assert_eq!(session.counters().late, 1);
        session.end();
        assert_eq!(read_end(&mut pair, &mut session), End { frames: 2, never_begun: 1 });
    }

    /// A session that has had a frame refused, and then sent another one. What has come of that.
    fn send_behind_a_refused_frame(pair: &mut Pair) -> (SendSession, Vec<u8>) {
        let now = Instant::now();
        let mut session = SendSession::new(now, now, LIFETIME, RateControlConfig::default());
        let refused = session.push(&mut pair.sink, now, &key_frame_of(MAX_PAYLOAD, now));
        assert!(matches!(refused, Err(SendError::TooLong(_))), "{refused:?}");
        session.push(&mut pair.sink, now, &key_frame(now)).unwrap();
        let (mut receiver, mut come) = (FrameReceiver::new(), None);
        pair.run_until(true, |pair| {
            session.run(&mut pair.sink, Instant::now()).unwrap();
            receiver.read(Instant::now(), &mut pair.source);
            come = receiver.poll_event();
            come.is_some()
        });
        let Some(ReceiverEvent::Frame(frame)) = come else { panic!("{come:?}") };
        (session, frame.payload)
    }

    #[test]
    fn a_frame_that_is_refused_leaves_its_caps_to_the_next() {
        let (_, payload) = send_behind_a_refused_frame(&mut Pair::connected());
        let (_, caps, _) = payload::decode(&payload).unwrap();
        assert_eq!(caps.as_deref(), Some("video/x-test"));
    }

    #[test]
    fn the_end_does_not_count_a_frame_that_was_refused() {
        let mut pair = Pair::connected();
        let (mut session, _) = send_behind_a_refused_frame(&mut pair);
        session.end();
        assert_eq!(read_end(&mut pair, &mut session), End { frames: 1, never_begun: 0 });
    }

    #[test]
    fn what_follows_a_frame_that_no_other_needs_can_be_sent_if_that_is_refused() {
        let mut pair = Pair::connected();
        let now = Instant::now();
        let mut session = SendSession::new(now, now, LIFETIME, RateControlConfig::default());
        session.push(&mut pair.sink, now, &key_frame(now)).unwrap();
        let mut droppable = key_frame_of(MAX_PAYLOAD, now);
        droppable.kind = FrameKind::Delta;
        droppable.meta.flags = gst::BufferFlags::DROPPABLE;
        assert!(session.push(&mut pair.sink, now, &droppable).is_err());
        let next = OutgoingBuffer { kind: FrameKind::Delta, ..key_frame(now) };
        session.push(&mut pair.sink, now, &next).unwrap();
        assert_eq!(session.counters().no_key_frame, 0);
    }

    /// Whether each of the buffers that came has caps.
    fn have_caps(pair: &mut Pair, session: &mut SendSession, count: usize) -> Vec<bool> {
        let (mut receiver, mut come) = (FrameReceiver::new(), Vec::new());
        pair.run_until(true, |pair| {
            session.run(&mut pair.sink, Instant::now()).unwrap();
            receiver.read(Instant::now(), &mut pair.source);
            while let Some(ReceiverEvent::Frame(frame)) = receiver.poll_event() {
                let (_, caps, _) = payload::decode(&frame.payload).unwrap();
                come.push((frame.header.number, caps.is_some()));
            }
            come.len() == count
        });
        come.sort_unstable();
        come.into_iter().map(|(_, has_caps)| has_caps).collect()
    }

    #[test]
    fn long_caps_come_again_less_often_and_when_the_receiver_asks() {
        let mut pair = Pair::connected();
        let start = Instant::now();
        let lifetime = Duration::from_secs(60);
        let mut session =
            SendSession::new(start, start, lifetime, RateControlConfig::default());
        let caps: Arc<str> = format!("video/x-test,headers={}", "ab".repeat(2000)).into();
        let push = |session: &mut SendSession, pair: &mut Pair, second: u64| {
            let now = start + Duration::from_secs(second);
            let buffer = OutgoingBuffer { caps: Arc::clone(&caps), ..key_frame(now) };
            session.push(&mut pair.sink, now, &buffer).unwrap();
        };
        for second in [0, 3, 4] {
            push(&mut session, &mut pair, second);
        }
        assert_eq!(have_caps(&mut pair, &mut session, 3), [true, false, true]);
        let requests = request_stream(true);
        pair.source.stream_send(requests, &[KEY_FRAME_REQUEST], false).unwrap();
        pair.run_until(true, |pair| {
            session.run(&mut pair.sink, Instant::now()).unwrap();
            session.caps.is_none()
        });
        push(&mut session, &mut pair, 5);
        assert_eq!(have_caps(&mut pair, &mut session, 1), [true]);
    }
}
