//! One player's share of the sender: which bit rate, which frame when.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use tack_media::{
    EncoderRateControl, Frame, FrameKind, FrameSender, RateControlConfig, SendError,
    SenderEvent,
};
use tack_proto::varint;
use tacklib::Connection;

use crate::capture_clock::CaptureClock;
use crate::notice::{Notice, Notices};
use crate::payload::Payload;
use crate::report::SenderReport;
use crate::sample::{Sample, TrackKind};
use crate::sink::Sink;
use crate::source::{Next, Source};
use crate::timeline::{Timeline, since};

/// The stream on which the sender tells the end: its first bidirectional one (RFC 9000 section 2.1).
pub const END_STREAM: u64 = 1;

/// The type of WebTransport's unidirectional streams (draft-ietf-webtrans-http3, section 4.2).
const WEB_TRANSPORT_STREAM: u64 = 0x54;
/// The error code of streams that are reset there because their frame is dropped: 2 of the application, as HTTP/3 has it
/// (draft-ietf-webtrans-http3, section 4.4).
pub const WEB_TRANSPORT_DROPPED: u64 = 0x52e4_a40f_a8dd;
/// The unidirectional streams that are left to HTTP/3: control, two of QPACK, grease, and some to spare.
const HTTP_STREAMS: u64 = 8;

/// Until then the source is asked again for a group that it has not yet.
const ASKS_EVERY: Duration = Duration::from_millis(50);
/// A source that has nothing for so long stalls; a live one has nothing for a second at most, as a rule.
const STALLS: Duration = Duration::from_secs(2);
/// While a source stalls, or the player reads nothing, the connection is kept open.
const KEEPS_ALIVE: Duration = Duration::from_secs(2);
/// So long after the last frame that was taken, the player is said to take none.
const NOTHING_TAKEN: Duration = Duration::from_secs(1);
/// Where no frame is dropped, the source waits while so many are with the sender.
const MOST_UNSENT: usize = 64;
/// A bit rate is taken that is below the path's by so much, so that small changes do not switch it back.
const MARGIN: f64 = 1.05;
/// How much the bit rate may rise in a second: there are few steps to rise by.
const RECOVERY: f64 = 0.5;
/// The deadline of frames that are to come in any case.
const NO_DEADLINE: Duration = Duration::from_secs(24 * 3600);

/// How a session sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendOptions {
    /// Whether frames go into DATAGRAMs.
    pub as_datagrams: bool,
    /// From capture to the deadline; `None`: every frame comes, however late, and the source waits for the path.
    pub lifetime: Option<Duration>,
    /// How much of the media is sent.
    pub longest: Option<Duration>,
}

/// Sends media to one player. It takes the time as an argument, and does no input or output but reading segments.
#[derive(Debug)]
pub struct Session {
    options: SendOptions,
    source: Source,
    rates: Vec<u64>,
    control: EncoderRateControl,
    sink: Sink,
    clock: CaptureClock,
    timeline: Timeline,
    /// Where the media begin on the time line.
    start: Option<Duration>,
    /// The rest of the group that is being sent, and the place of its bit rate.
    group: VecDeque<Sample>,
    rendition: Option<usize>,
    /// The last picture that others need.
    reference: Option<u64>,
    asked: Option<Instant>,
    starved_since: Option<Instant>,
    has_told_stall: bool,
    /// When a frame was last taken, or the connection kept open.
    active: Instant,
    /// When the stack last took a frame, or had none to take; and what was dropped since.
    taken: Instant,
    dropped_since: u64,
    has_told_nothing_taken: bool,
    /// No more groups come, or are wanted.
    is_over: bool,
    end: End,
    end_stream: EndStream,
    report: SenderReport,
    notices: Notices,
}

/// Where the end is told, and what is in front of it there.
#[derive(Debug)]
struct EndStream {
    id: u64,
    preamble: Vec<u8>,
}

/// How far the end is told.
#[derive(Clone, Debug, PartialEq, Eq)]
enum End {
    NotYet,
    Telling { message: Vec<u8>, written: usize },
    Told,
}

impl Session {
    /// Begins to send now.
    pub fn new(now: Instant, source: Source, options: SendOptions) -> Self {
        let rates = source.rates();
        let (lowest, highest) = (rates.first().copied(), rates.last().copied());
        let mut control = RateControlConfig::default();
        control.recovery = RECOVERY;
        control.lowest = lowest.unwrap_or(control.lowest) / 2;
        // What fits the path comes down to the highest rate at once, not from far above it.
        control.highest = (highest.unwrap_or(control.highest) as f64 * 1.5) as u64;
        control.first = control.first.max(lowest.unwrap_or(0)).min(control.highest);
        Self {
            options,
            source,
            rates,
            control: EncoderRateControl::new(control),
            sink: Sink::new(now, options.as_datagrams),
            clock: CaptureClock::default(),
            timeline: Timeline::default(),
            start: None,
            group: VecDeque::new(),
            rendition: None,
            reference: None,
            asked: None,
            starved_since: None,
            has_told_stall: false,
            active: now,
            taken: now,
            dropped_since: 0,
            has_told_nothing_taken: false,
            is_over: false,
            end: End::NotYet,
            end_stream: EndStream { id: END_STREAM, preamble: Vec::new() },
            report: SenderReport { datagrams: options.as_datagrams, ..SenderReport::default() },
            notices: Notices::default(),
        }
    }

    /// The same over a session of WebTransport, at the server: frames and the end are on unidirectional streams that
    /// are marked as the session's. The end begins with a zero, where a frame has its version.
    pub fn over_web_transport(
        now: Instant,
        source: Source,
        options: SendOptions,
        session_id: u64,
    ) -> Self {
        let mut session =
            Self::new(now, source, SendOptions { as_datagrams: false, ..options });
        let mut preamble = Vec::new();
        varint::put(&mut preamble, WEB_TRANSPORT_STREAM);
        varint::put(&mut preamble, session_id);
        let mut frames = FrameSender::with_first_stream(now, HTTP_STREAMS + 1);
        frames.set_preamble(&preamble);
        frames.set_drop_error(WEB_TRANSPORT_DROPPED);
        session.sink = Sink::Streams(frames);
        preamble.push(0);
        // RFC 9000 section 2.1: the server's unidirectional streams.
        session.end_stream = EndStream { id: HTTP_STREAMS * 4 + 3, preamble };
        session
    }

    /// Sends what is due. To be called when the connection has something new, and at [`Session::next_at`].
    pub fn run(&mut self, connection: &mut Connection, now: Instant) -> Result<(), SendError> {
        let mut stats = tack_media::path_stats(connection);
        stats.backlog += self.sink.unwritten();
        self.control.update(now, &stats);
        self.sink.flush(connection, now)?;
        self.send_due(connection, now)?;
        self.follow_events(now);
        if now.saturating_duration_since(self.active) > KEEPS_ALIVE {
            self.active = now;
            // Fails only if the connection is about to be closed.
            let _ = connection.send_ack_eliciting();
        }
        self.tell_end(connection)
    }

    /// When there is something to do, if nothing comes before.
    pub fn next_at(&mut self, now: Instant) -> Instant {
        match self.group.front().map(|sample| since(self.start.unwrap_or_default(), sample)) {
            Some(time) if self.may_read() => self.clock.captured_at(now, time),
            _ => now + ASKS_EVERY,
        }
    }

    /// What a person should know, since the last call.
    pub fn poll_notice(&mut self) -> Option<Notice> {
        self.notices.pop()
    }

    /// Whether the stack has all there is, the end included.
    pub fn has_ended(&self) -> bool {
        self.end == End::Told
    }

    /// What has been counted.
    pub fn report(&self, connection: &Connection) -> SenderReport {
        let stats = connection.stats();
        SenderReport {
            tack: connection.is_tack(),
            datagrams_sent: self.sink.datagrams_sent(),
            datagrams_expired: connection.media_stats().expired_datagrams,
            packets_sent: stats.sent as u64,
            packets_received: stats.recv as u64,
            packets_lost: stats.lost as u64,
            ..self.report.clone()
        }
    }

    /// The bit rate of what is sent, bits per second; zero before the first group.
    pub fn bits_per_second(&self) -> u64 {
        self.rendition.map_or(0, |rendition| self.rate_of(rendition))
    }

    /// Frames of which the stack has not taken all.
    pub fn backlog(&self) -> usize {
        self.sink.backlog()
    }

    fn may_read(&self) -> bool {
        self.options.lifetime.is_some() || self.sink.backlog() < MOST_UNSENT
    }

    fn send_due(&mut self, connection: &mut Connection, now: Instant) -> Result<(), SendError> {
        while !self.is_over && self.may_read() {
            let Some(sample) = self.group.front() else {
                match self.ask(now) {
                    Asked::Group => continue,
                    Asked::Nothing => return Ok(()),
                    Asked::End => {
                        self.is_over = true;
                        return Ok(());
                    }
                }
            };
            let time = since(self.start.unwrap_or_default(), sample);
            if self.options.longest.is_some_and(|longest| time >= longest) {
                self.group.clear();
                self.is_over = true;
                return Ok(());
            }
            if let Some(behind) = self.clock.catch_up(now, time) {
                self.notices.push(Notice::Behind(behind));
            }
            let captured_at = self.clock.captured_at(now, time);
            if captured_at > now {
                return Ok(());
            }
            if let Some(sample) = self.group.pop_front() {
                self.send(connection, now, captured_at, sample)?;
            }
        }
        Ok(())
    }

    /// Asks the source for the next group.
    fn ask(&mut self, now: Instant) -> Asked {
        if self.asked.is_some_and(|at| now < at + ASKS_EVERY) {
            return Asked::Nothing;
        }
        let wanted = self.wanted();
        let mut group = match self.source.next(wanted, now, &mut self.notices) {
            Next::Group(group) => group,
            Next::NotYet => {
                self.asked = Some(now);
                let since = *self.starved_since.get_or_insert(now);
                let starved = now.saturating_duration_since(since);
                if starved >= STALLS && !self.has_told_stall {
                    self.has_told_stall = true;
                    self.notices.push(Notice::SourceStalled(starved));
                }
                return Asked::Nothing;
            }
            Next::End => return Asked::End,
        };
        self.asked = None;
        let jump = self.timeline.place(&mut group.samples).filter(|_| group.follows);
        self.notices.extend(jump.map(Notice::TimestampJump));
        let Some(first) = group.samples.first() else { return Asked::Nothing };
        let start = *self.start.get_or_insert(first.time());
        if let Some(since) = self.starved_since.take() {
            // What was captured meanwhile is what comes now: nothing of it is late yet.
            let time = crate::timeline::since(start, first);
            if self.clock.captured_at(now, time) < now {
                self.clock.restart(now, time);
            }
            if std::mem::take(&mut self.has_told_stall) {
                self.notices.push(Notice::SourceResumed(now.saturating_duration_since(since)));
            }
        }
        let rendition = group.rendition;
        if self.rendition.replace(rendition).is_some_and(|last| last != rendition) {
            self.report.switches += 1;
        }
        *self.report.groups.entry(self.rate_of(rendition)).or_default() += 1;
        self.group = group.samples.into();
        Asked::Group
    }

    /// The highest bit rate below that of the control.
    fn wanted(&self) -> usize {
        let rate = self.control.rate() as f64;
        let fits = self.rates.iter().rposition(|own| *own as f64 * MARGIN <= rate);
        fits.unwrap_or(0)
    }

    fn rate_of(&self, rendition: usize) -> u64 {
        self.rates.get(rendition).copied().unwrap_or(0)
    }

    fn send(
        &mut self,
        connection: &mut Connection,
        now: Instant,
        captured_at: Instant,
        sample: Sample,
    ) -> Result<(), SendError> {
        let rendition = self.rendition.unwrap_or(0);
        let kind = sample.frame_kind();
        let lifetime = self.options.lifetime.unwrap_or(NO_DEADLINE);
        let frame = Frame {
            kind,
            layer: 0,
            captured_at,
            deadline: captured_at + lifetime,
            depends_on: self.reference.filter(|_| kind == FrameKind::Delta),
        };
        let (is_video, is_reference) = (sample.kind == TrackKind::Video, sample.is_reference);
        let init = match kind {
            FrameKind::Key => self.source.init(rendition).to_vec(),
            _ => Vec::new(),
        };
        let payload = Payload {
            rendition: rendition as u64,
            bits_per_second: self.rate_of(rendition),
            init,
            sample,
        };
        let number = match self.sink.send_frame(connection, now, frame, &payload.encode()) {
            Ok(number) => number,
            Err(SendError::Full) => {
                // The rest of the group depends on it, and the next one begins with a key frame.
                self.report.dropped.backlog += 1 + self.group.len() as u64;
                self.group.clear();
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        self.report.frames = number + 1;
        if is_video && is_reference {
            self.reference = Some(number);
        }
        Ok(())
    }

    fn follow_events(&mut self, now: Instant) {
        while let Some(event) = self.sink.poll_event() {
            match event {
                SenderEvent::Taken { .. } => {
                    self.report.taken += 1;
                    self.active = now;
                    let after = now.saturating_duration_since(self.taken);
                    if std::mem::take(&mut self.has_told_nothing_taken) {
                        let dropped = self.dropped_since;
                        self.notices.push(Notice::TakenAgain { after, dropped });
                    }
                    (self.taken, self.dropped_since) = (now, 0);
                }
                SenderEvent::Dropped { cause, .. } => {
                    self.report.dropped.count(cause);
                    self.dropped_since += 1;
                }
                _ => {}
            }
        }
        if self.sink.backlog() == 0 && self.dropped_since == 0 {
            self.taken = now;
        }
        let since = now.saturating_duration_since(self.taken);
        if since > NOTHING_TAKEN && !self.has_told_nothing_taken {
            self.has_told_nothing_taken = true;
            self.notices.push(Notice::NothingTaken(since));
        }
    }

    /// Tells the player how many frames there were and what became of them, once all have left.
    fn tell_end(&mut self, connection: &mut Connection) -> Result<(), SendError> {
        if self.is_over && self.end == End::NotYet && self.sink.backlog() == 0 {
            let mut message = self.end_stream.preamble.clone();
            message.extend(serde_json::to_vec(&self.report(connection)).unwrap_or_default());
            self.end = End::Telling { message, written: 0 };
        }
        let End::Telling { message, written } = &mut self.end else { return Ok(()) };
        match connection.stream_send(self.end_stream.id, &message[*written..], true) {
            Ok(taken) => *written += taken,
            Err(quiche::Error::Done) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
        if *written == message.len() {
            self.end = End::Told;
        }
        Ok(())
    }
}

/// What came of asking the source.
enum Asked {
    Group,
    Nothing,
    End,
}
