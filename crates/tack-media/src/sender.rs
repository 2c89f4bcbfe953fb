//! Frames on their way: each on a stream, none that is too late.

use std::collections::{BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use quiche::{BufFactory, Shutdown};
use tacklib::Connection;
use thiserror::Error;

use crate::frame::{Frame, FrameHeader, MAX_HEADER, MAX_PAYLOAD};
use crate::gone::Gone;
use crate::taken_frames::{TakenFrame, TakenFrames};

/// Frames that wait for the stack at most: five seconds of thirty a second, with sound.
const MOST_WAITING: usize = 512;

/// Bytes of them.
const MOST_WAITING_BYTES: usize = 2 * MAX_PAYLOAD;

/// Events that wait to be polled for at most: the oldest gives way.
const MOST_EVENTS: usize = 4096;

/// A frame begins when no more is left of those before it than leaves in this time: what is with the stack
/// can only be reset, and what it has sent by then is wasted.
const READY: Duration = Duration::from_millis(10);

/// The application error code of RESET_STREAM for a frame that the sender drops, if no other is set.
const DROPPED: u64 = 2;

/// How long behind its deadline a stream is remembered that is not delivered: some round trips. It is reset at its
/// deadline, or when it turns out that something of it was lost.
const REMEMBERED: Duration = Duration::from_secs(3);

/// Why a frame is not delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DropCause {
    /// It would have come behind its deadline, and none of it has left.
    Late,
    /// Its deadline passed while it was on its way; its stream was reset, and it is not known to have arrived.
    Expired,
    /// A frame that it depends on is not delivered.
    Dependency,
    /// Too many others were waiting. A [`FrameSender`] refuses such a frame instead ([`SendError::Full`]).
    Backlog,
    /// The receiver has stopped its stream.
    Refused,
}

/// What has become of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SenderEvent {
    /// The stack has taken all of it.
    Taken {
        /// The frame.
        number: u64,
    },
    /// It is not delivered, nor is what depends on it: that has events of its own.
    Dropped {
        /// The frame.
        number: u64,
        /// Why.
        cause: DropCause,
    },
    /// A stream that is not a frame's was reset at its deadline: the application's.
    OtherExpired {
        /// The stream.
        stream_id: u64,
    },
    /// The receiver has stopped a stream that is not a frame's: the application's.
    OtherStopped {
        /// The stream.
        stream_id: u64,
    },
}

/// Why a frame cannot be sent.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum SendError {
    /// It is longer than [`MAX_PAYLOAD`].
    #[error("a frame of {0} bytes is longer than 16 MiB; split it")]
    TooLong(usize),
    /// It depends on a frame that has not been given to the sender.
    #[error("frame {0} that it depends on has not been sent yet")]
    UnknownDependency(u64),
    /// 512 frames wait, or 32 MiB of them. The frame has no number, and can be given again when some have left; the
    /// frames that depend on one that is left out cannot be decoded.
    #[error("512 frames or 32 MiB wait to be sent; give the frame again when some have left")]
    Full,
    /// The connection is closed, or about to be.
    #[error("the connection is over; no frame will leave")]
    Closed,
    /// The connection failed.
    #[error("the connection fails: {0}")]
    Connection(#[from] quiche::Error),
}

/// A frame of which the stack has not taken all.
#[derive(Debug)]
struct Waiting {
    number: u64,
    depends_on: Option<u64>,
    urgency: u8,
    deadline: Instant,
    /// How old it may become.
    lifetime: Duration,
    /// Header and payload.
    bytes: Vec<u8>,
    /// Its stream and how much of it is written there, once it has one.
    begun: Option<(u64, usize)>,
}

/// Sends frames over a connection.
///
/// It opens the unidirectional streams of its end; an application that opens some itself says where the
/// sender's begin ([`FrameSender::with_first_stream`]).
///
/// Its events tell of all streams that expire or that the receiver stops: [`Connection::stream_expired_next`] and
/// [`Connection::stream_stopped_next`] must not be called beside it.
///
/// Other streams share the send buffer of the connection, and a frame begins when no more waits there than leaves in
/// 10 ms. An application that sends other data beside frames writes it at a lower urgency than theirs, and only while
/// [`MediaStats::backlog`](tacklib::MediaStats::backlog) is less than that: else frames wait behind it until they are late.
#[derive(Debug)]
pub struct FrameSender {
    epoch: Instant,
    preamble: Vec<u8>,
    next_number: u64,
    /// Counted from 0: stream IDs follow from it (RFC 9000 section 2.1).
    next_stream: u64,
    /// The stack has opened that stream, and taken nothing for it yet.
    is_next_open: bool,
    drop_error: u64,
    /// What failed when a frame was taken, until it is told.
    failed: Option<quiche::Error>,
    waiting: Vec<Waiting>,
    waiting_bytes: usize,
    taken: TakenFrames,
    /// Frames that wait or were taken, and are neither dropped nor known to be delivered.
    open: BTreeSet<u64>,
    /// When the stack last took something, or still had some of it.
    last_busy: Option<Instant>,
    gone: Gone,
    /// Frames were dropped since the taken ones were searched for those that depend on them.
    has_dropped: bool,
    never_begun: u64,
    events: VecDeque<SenderEvent>,
}

impl FrameSender {
    /// A sender whose frames are captured from `now` on.
    pub fn new(now: Instant) -> Self {
        Self::with_first_stream(now, 0)
    }

    /// The same, which leaves the first unidirectional streams to the application, so many.
    pub fn with_first_stream(now: Instant, first: u64) -> Self {
        Self {
            epoch: now,
            preamble: Vec::new(),
            next_number: 0,
            next_stream: first,
            is_next_open: false,
            drop_error: DROPPED,
            failed: None,
            waiting: Vec::new(),
            waiting_bytes: 0,
            taken: TakenFrames::default(),
            open: BTreeSet::new(),
            last_busy: None,
            gone: Gone::default(),
            has_dropped: false,
            never_begun: 0,
            events: VecDeque::new(),
        }
    }

    /// Begins each stream with these bytes, in front of the frame's header: a protocol between QUIC and the frames
    /// may mark its streams so, as WebTransport over HTTP/3 does. A [`FrameReceiver`](crate::FrameReceiver) expects
    /// none.
    pub fn set_preamble(&mut self, preamble: &[u8]) {
        self.preamble = preamble.to_vec();
    }

    /// Sets the application error code of RESET_STREAM for frames that the sender drops; 2 if it is not set. Those that
    /// the connection resets at their deadline have [`TackConfig::deadline_error`](tacklib::TackConfig::deadline_error).
    pub fn set_drop_error(&mut self, code: u64) {
        self.drop_error = code;
    }

    /// Takes a frame, and writes what the connection takes of it now. Its number; what is not delivered is told
    /// by [`FrameSender::poll_event`]. If the connection fails at that, the next [`FrameSender::flush`] tells.
    ///
    /// Fails with [`SendError::Full`] while too many frames wait: a receiver would not hear of one that is dropped then,
    /// and of frames that live for days would wait for it as long.
    pub fn send_frame<F: BufFactory>(
        &mut self,
        connection: &mut Connection<F>,
        now: Instant,
        frame: Frame,
        payload: impl AsRef<[u8]>,
    ) -> Result<u64, SendError> {
        let payload = payload.as_ref();
        if payload.len() > MAX_PAYLOAD {
            return Err(SendError::TooLong(payload.len()));
        }
        check_open(connection)?;
        if let Some(on) = frame.depends_on.filter(|on| *on >= self.next_number) {
            return Err(SendError::UnknownDependency(on));
        }
        if !self.has_room(payload.len()) {
            // What is too late makes room.
            self.flush(connection, now)?;
            if !self.has_room(payload.len()) {
                return Err(SendError::Full);
            }
        }
        let number = self.next_number;
        self.next_number += 1;
        self.open.insert(number);
        let frame = self.encode(number, &frame, payload);
        self.waiting_bytes += frame.bytes.len();
        self.waiting.push(frame);
        if let Err(SendError::Connection(error)) = self.flush(connection, now) {
            // The frame has its number, and others may depend on it.
            self.failed = Some(error);
        }
        Ok(number)
    }

    fn has_room(&self, len: usize) -> bool {
        self.waiting.len() < MOST_WAITING && self.waiting_bytes + len <= MOST_WAITING_BYTES
    }

    /// A frame with its bytes as they go onto its stream.
    fn encode(&self, number: u64, frame: &Frame, payload: &[u8]) -> Waiting {
        let header = FrameHeader {
            kind: frame.kind,
            layer: frame.layer,
            number,
            depends_on: frame.depends_on,
            captured: frame.captured_at.saturating_duration_since(self.epoch),
            lifetime: frame.deadline.saturating_duration_since(frame.captured_at),
            len: payload.len(),
        };
        let mut bytes = Vec::with_capacity(self.preamble.len() + MAX_HEADER + payload.len());
        bytes.extend_from_slice(&self.preamble);
        header.encode(&mut bytes);
        bytes.extend_from_slice(payload);
        Waiting {
            number,
            depends_on: frame.depends_on,
            urgency: frame.kind.urgency(frame.layer),
            deadline: frame.deadline,
            lifetime: header.lifetime,
            bytes,
            begun: None,
        }
    }

    /// Writes what the connection takes of the frames that wait, and drops what is too late. To be called
    /// when the connection has received something, and when a timer of it has expired.
    pub fn flush<F: BufFactory>(
        &mut self,
        connection: &mut Connection<F>,
        now: Instant,
    ) -> Result<(), SendError> {
        check_open(connection)?;
        if let Some(error) = self.failed.take() {
            return Err(SendError::Connection(error));
        }
        self.follow_stopped(connection);
        self.follow_expired(connection);
        self.drop_late(connection, now);
        // The most urgent first, and of these the oldest: numbers ascend.
        self.waiting.sort_by_key(|waiting| (waiting.urgency, waiting.number));
        let mut waiting = std::mem::take(&mut self.waiting);
        let mut kept = Vec::new();
        let (mut is_open, mut may_begin) = (true, true);
        let mut result = Ok(());
        for mut frame in waiting.drain(..) {
            let is_tried = is_open && (may_begin || frame.begun.is_some());
            let written = if is_tried && result.is_ok() {
                self.write(connection, now, &mut frame)
            } else {
                Ok(Written::NotTried)
            };
            match written {
                Ok(Written::All(stream_id)) => {
                    self.waiting_bytes -= frame.bytes.len();
                    let (number, depends_on) = (frame.number, frame.depends_on);
                    let until = frame.deadline + REMEMBERED;
                    self.taken.insert(stream_id, TakenFrame { number, depends_on, until });
                    self.tell(SenderEvent::Taken { number: frame.number });
                }
                Ok(Written::Part) => {
                    is_open = false;
                    kept.push(frame);
                }
                Ok(Written::NoStream) => {
                    // The peer grants more when those that have begun are over.
                    may_begin = false;
                    kept.push(frame);
                }
                Ok(Written::NotTried) => kept.push(frame),
                Ok(Written::Never(cause)) => {
                    self.waiting_bytes -= frame.bytes.len();
                    self.never_begun += u64::from(frame.begun.is_none());
                    self.drop_frame(frame.number, cause);
                }
                Err(error) => {
                    result = Err(SendError::Connection(error));
                    kept.push(frame);
                }
            }
        }
        self.waiting = kept;
        self.drop_late(connection, now);
        self.forget_delivered(connection, now);
        result
    }

    /// What has become of frames since the last call. Of more than 4,096 events that were not asked for the last ones
    /// are told.
    pub fn poll_event(&mut self) -> Option<SenderEvent> {
        self.events.pop_front()
    }

    /// Frames of which the stack has not taken all, and their bytes.
    pub fn backlog(&self) -> (usize, usize) {
        (self.waiting.len(), self.waiting_bytes)
    }

    /// Bytes of these frames that the stack has not taken: what an encoder's rate control adds to
    /// [`MediaStats::backlog`](tacklib::MediaStats::backlog), which counts those that it has.
    pub fn unwritten(&self) -> u64 {
        let written = |frame: &Waiting| frame.begun.map_or(0, |(_, written)| written);
        self.waiting.iter().map(|frame| (frame.bytes.len() - written(frame)) as u64).sum()
    }

    /// Frames that were dropped before the stack had taken any of them: they have no stream, and the receiver hears of
    /// none. Of each other frame it gets all, or the reset.
    pub fn never_begun(&self) -> u64 {
        self.never_begun
    }

    /// Streams that the receiver has stopped. Of frames that the stack has not taken whole the next write tells it.
    fn follow_stopped<F: BufFactory>(&mut self, connection: &mut Connection<F>) {
        while let Some(stream_id) = connection.stream_stopped_next() {
            let is_begun = |frame: &Waiting| frame.begun.is_some_and(|(id, _)| id == stream_id);
            if let Some(taken) = self.taken.remove(stream_id) {
                // It fails if the stream is over: then it has no deadline.
                let _ = connection.set_stream_deadline(stream_id, None);
                self.drop_frame(taken.number, DropCause::Refused);
            } else if !self.waiting.iter().any(is_begun) {
                self.tell(SenderEvent::OtherStopped { stream_id });
            }
        }
    }

    /// Streams that were reset at their deadlines.
    fn follow_expired<F: BufFactory>(&mut self, connection: &mut Connection<F>) {
        while let Some(stream_id) = connection.stream_expired_next() {
            let of_waiting =
                |frame: &Waiting| frame.begun.is_some_and(|(id, _)| id == stream_id);
            if let Some(taken) = self.taken.remove(stream_id) {
                self.drop_frame(taken.number, DropCause::Expired);
            } else if let Some(at) = self.waiting.iter().position(of_waiting) {
                let frame = self.waiting.remove(at);
                self.waiting_bytes -= frame.bytes.len();
                self.drop_frame(frame.number, DropCause::Expired);
            } else {
                self.tell(SenderEvent::OtherExpired { stream_id });
            }
        }
    }

    /// Forgets frames that have arrived, and their deadlines, and those that are long too late.
    fn forget_delivered<F: BufFactory>(
        &mut self,
        connection: &mut Connection<F>,
        now: Instant,
    ) {
        let Self { taken, open, .. } = self;
        taken.forget_settled(|stream_id, frame| {
            // Should what it depends on be dropped, it is worth nothing either, nor is what depends on it.
            let may_be_dropped = frame.depends_on.is_some_and(|on| open.contains(&on));
            let is_delivered = !may_be_dropped && connection.stream_delivered(stream_id);
            if is_delivered {
                // It fails for streams of the peer's only.
                let _ = connection.set_stream_deadline(stream_id, None);
            }
            let is_settled = is_delivered || frame.until <= now;
            if is_settled {
                open.remove(&frame.number);
            }
            is_settled
        });
    }

    /// Drops frames that are too late, and all without what they depend on; those that are on their way are reset. One
    /// that the stack has taken whole is reset by the connection at its deadline, if some of it is lost or waits still.
    /// Of one that it has not, the connection cannot know that there is more.
    fn drop_late<F: BufFactory>(&mut self, connection: &mut Connection<F>, now: Instant) {
        let mut reset = Vec::new();
        if std::mem::take(&mut self.has_dropped) {
            for (stream_id, number) in self.taken.take_dependent(&mut self.gone) {
                reset.push(stream_id);
                self.drop_frame(number, DropCause::Dependency);
            }
        }
        self.waiting.sort_by_key(|waiting| waiting.number);
        let mut waiting = std::mem::take(&mut self.waiting);
        waiting.retain(|frame| {
            let is_late = frame.deadline <= now;
            let lacks = frame.depends_on.is_some_and(|on| self.gone.contains(on));
            let cause = match frame.begun {
                None if is_late => DropCause::Late,
                _ if lacks => DropCause::Dependency,
                Some(_) if is_late => DropCause::Expired,
                _ => return true,
            };
            reset.extend(frame.begun.map(|(stream_id, _)| stream_id));
            self.never_begun += u64::from(frame.begun.is_none());
            self.waiting_bytes -= frame.bytes.len();
            self.drop_frame(frame.number, cause);
            false
        });
        self.waiting = waiting;
        for stream_id in reset {
            // It fails if the stream is over: then there is nothing to reset.
            let _ = connection.set_stream_deadline(stream_id, None);
            let _ = connection.stream_shutdown(stream_id, Shutdown::Write, self.drop_error);
        }
    }

    fn tell(&mut self, event: SenderEvent) {
        if self.events.len() >= MOST_EVENTS {
            self.events.pop_front();
        }
        self.events.push_back(event);
    }

    fn drop_frame(&mut self, number: u64, cause: DropCause) {
        self.gone.insert(number);
        self.open.remove(&number);
        self.has_dropped = true;
        self.tell(SenderEvent::Dropped { number, cause });
    }

    fn write<F: BufFactory>(
        &mut self,
        connection: &mut Connection<F>,
        now: Instant,
        frame: &mut Waiting,
    ) -> quiche::Result<Written> {
        if frame.begun.is_none() {
            match self.prospect(connection, now, frame) {
                Prospect::InTime => {}
                Prospect::NotYet => return Ok(Written::Part),
                Prospect::TooLate => return Ok(Written::Never(DropCause::Late)),
            }
        }
        let (stream_id, written) = match frame.begun {
            Some(begun) => begun,
            None if !self.is_next_open && connection.peer_streams_left_uni() == 0 => {
                return Ok(Written::NoStream);
            }
            None => (self.next_stream * 4 + if connection.is_server() { 3 } else { 2 }, 0),
        };
        if frame.begun.is_none() {
            // Not incremental: streams that take turns are all late together.
            match connection.stream_priority(stream_id, frame.urgency, false) {
                Ok(()) => self.is_next_open = true,
                // The application's own streams come first, and not all of them are granted yet.
                Err(quiche::Error::StreamLimit) => return Ok(Written::NoStream),
                Err(error) => return Err(error),
            }
        }
        let taken = match connection.stream_send(stream_id, &frame.bytes[written..], true) {
            Ok(taken) => taken,
            Err(quiche::Error::Done) => 0,
            Err(quiche::Error::StreamStopped(_) | quiche::Error::StreamReset(_)) => {
                return Ok(Written::Never(DropCause::Refused));
            }
            // The connection has reset it, and does not yet know whether what had left of it has arrived.
            Err(quiche::Error::FinalSize) if frame.begun.is_some() => {
                return Ok(Written::Never(DropCause::Expired));
            }
            Err(error) => return Err(error),
        };
        if frame.begun.is_none() {
            if taken == 0 {
                return Ok(Written::Part);
            }
            self.next_stream += 1;
            self.is_next_open = false;
            connection.set_stream_deadline(stream_id, Some(frame.deadline))?;
        }
        if taken > 0 {
            self.last_busy = Some(now);
        }
        frame.begun = Some((stream_id, written + taken));
        Ok(if written + taken == frame.bytes.len() {
            Written::All(stream_id)
        } else {
            Written::Part
        })
    }

    fn prospect<F: BufFactory>(
        &mut self,
        connection: &Connection<F>,
        now: Instant,
        frame: &Waiting,
    ) -> Prospect {
        let stats = connection.media_stats();
        if stats.time_to_leave > READY {
            self.last_busy = Some(now);
            return Prospect::NotYet;
        }
        // Before the path has been measured nothing is known to be late.
        let (Some(arrival), Some(_)) = (stats.time_to_arrive_p50, stats.rate_age) else {
            return Prospect::InTime;
        };
        let quiet = self.last_busy.map(|at| now.saturating_duration_since(at));
        if quiet.is_none_or(|quiet| quiet >= frame.lifetime) {
            // What is known is older than the frame may become, and only a frame shows what the path is now.
            return Prospect::InTime;
        }
        // A round trip in which nothing left empties the queue that this end has made.
        let is_empty = quiet.is_some_and(|quiet| quiet >= 2 * arrival);
        let arrival = match stats.min_rtt {
            Some(min_rtt) if is_empty => min_rtt / 2,
            _ => arrival,
        };
        let rate = stats.estimated_send_rate.max(1) as f64;
        let own = Duration::from_secs_f64((frame.bytes.len() as f64 / rate).min(3600.0));
        if now + arrival + own > frame.deadline { Prospect::TooLate } else { Prospect::InTime }
    }
}

/// Fails if the connection is over.
fn check_open<F: BufFactory>(connection: &Connection<F>) -> Result<(), SendError> {
    let is_over = connection.is_closed() || connection.is_draining();
    if is_over { Err(SendError::Closed) } else { Ok(()) }
}

/// What would become of a frame that begins now.
enum Prospect {
    InTime,
    NotYet,
    TooLate,
}

/// How much of a frame is with the stack.
enum Written {
    All(u64),
    Part,
    /// The peer lets no more streams be opened.
    NoStream,
    NotTried,
    Never(DropCause),
}

#[cfg(test)]
mod tests;
