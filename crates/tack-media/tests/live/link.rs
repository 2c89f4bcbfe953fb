//! An encoder, a sender and a viewer over a link that has outages, in virtual time.

#[path = "../../../../tacklib/tests/common/mod.rs"]
mod common;

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use common::{End, advance_to, client_address, profile_config, server_address};
use common::{tack_client, tack_server};
use quiche::RecvInfo;
use tack_media::{
    EncoderControl, Frame, FrameKind, FrameReceiver, FrameSender, JitterBuffer,
    JitterBufferConfig, Playback, RateControlConfig,
};
use tacklib::{Connection, Profile};

pub const MS: Duration = Duration::from_millis(1);
const INTERVAL: Duration = Duration::from_millis(33);
const LIFETIME: Duration = Duration::from_millis(200);
/// The share of its rate that the encoder fills between key frames.
const FILLED: f64 = 0.92;
/// Frames from one key frame to the next, if none is asked for before.
const GROUP: u64 = 90;

/// One direction of the link.
pub struct Way {
    delay: Duration,
    pub bytes_per_second: u64,
    /// Bytes that may wait for the rate.
    buffer: u64,
    /// Nothing gets through.
    pub is_out: bool,
    busy_until: Option<Instant>,
    queue: VecDeque<(Instant, Vec<u8>)>,
}

impl Way {
    fn new(megabits: u64, delay: Duration) -> Self {
        Self {
            delay,
            bytes_per_second: megabits * 125_000,
            buffer: 200_000,
            is_out: false,
            busy_until: None,
            queue: VecDeque::new(),
        }
    }

    fn carry(&mut self, from: &mut Connection) {
        let mut datagram = [0; 2000];
        while let Some((len, _)) = from.transmit(&mut datagram) {
            let now = Instant::now();
            let free = self.busy_until.map_or(now, |busy| busy.max(now));
            let waits = (free - now).as_secs_f64() * self.bytes_per_second as f64;
            if self.is_out || waits > self.buffer as f64 {
                continue;
            }
            let takes = Duration::from_secs_f64(len as f64 / self.bytes_per_second as f64);
            self.busy_until = Some(free + takes);
            self.queue.push_back((free + takes + self.delay, datagram[..len].to_vec()));
        }
    }

    fn deliver(&mut self, to: &mut Connection, info: RecvInfo) {
        while self.queue.front().is_some_and(|(at, _)| *at <= Instant::now()) {
            let Some((_, mut datagram)) = self.queue.pop_front() else { return };
            to.receive(&mut datagram, info);
        }
    }
}

/// All of it.
pub struct Live {
    client: Connection,
    server: Connection,
    pub up: Way,
    down: Way,
    pub control: EncoderControl,
    lifetime: Duration,
    sent: u64,
    /// When pictures were shown whole, and which.
    pub shown: Vec<(Instant, u64)>,
    pub start: Instant,
    pub sender: FrameSender,
    receiver: FrameReceiver,
    buffer: JitterBuffer,
    playback: Playback,
    last: Option<u64>,
    next_frame: Instant,
}

impl Live {
    pub fn over(megabits: u64, delay: Duration, viewer: JitterBufferConfig) -> Self {
        Self::with_lifetime(megabits, delay, viewer, LIFETIME)
    }

    /// The same, of frames that live for that time.
    pub fn with_lifetime(
        megabits: u64,
        delay: Duration,
        viewer: JitterBufferConfig,
        lifetime: Duration,
    ) -> Self {
        let client = tack_client(&mut profile_config(Profile::Video));
        let server = tack_server(&mut profile_config(Profile::Default));
        let now = Instant::now();
        let mut config = RateControlConfig::default();
        config.highest = 4_000_000;
        let mut live = Self {
            client,
            server,
            up: Way::new(megabits, delay),
            down: Way::new(megabits, delay),
            control: EncoderControl::new(now, config, lifetime),
            lifetime,
            sent: 0,
            shown: Vec::new(),
            start: now,
            sender: FrameSender::new(now),
            receiver: FrameReceiver::new(),
            buffer: JitterBuffer::new(viewer),
            playback: Playback::new(now),
            last: None,
            next_frame: now,
        };
        while !live.client.is_established() || !live.server.is_established() {
            live.carry();
            advance_to(Instant::now() + MS);
        }
        live.next_frame = Instant::now();
        live
    }

    /// Captures, sends, receives and shows for so long.
    pub fn run_for(&mut self, time: Duration) {
        let end = Instant::now() + time;
        while Instant::now() < end {
            self.carry();
            let now = Instant::now();
            self.control.update(now, &self.client, self.sender.unwritten());
            if now >= self.next_frame {
                self.next_frame += INTERVAL;
                self.capture(now);
            }
            self.sender.flush(&mut self.client, now).unwrap();
            self.follow_sender(now);
            self.receiver.read(now, &mut self.server);
            self.follow_receiver(now);
            self.carry();
            advance_to(now + MS);
        }
    }

    fn capture(&mut self, now: Instant) {
        let is_key = self.control.wants_key_frame(now) || self.sent.is_multiple_of(GROUP);
        let bits = self.control.rate() as f64 * FILLED * INTERVAL.as_secs_f64();
        let bytes = (bits / 8.0) as usize;
        let frame = Frame {
            kind: if is_key { FrameKind::Key } else { FrameKind::Delta },
            layer: 0,
            captured_at: now,
            deadline: now + self.lifetime,
            depends_on: self.last.filter(|_| !is_key),
        };
        let payload = vec![7; if is_key { 3 * bytes } else { bytes }];
        let number = self.sender.send_frame(&mut self.client, now, frame, &payload).unwrap();
        self.control.on_sent(now, number, frame.kind, true);
        (self.last, self.sent) = (Some(number), number + 1);
    }

    fn follow_sender(&mut self, now: Instant) {
        while let Some(event) = self.sender.poll_event() {
            self.control.on_event(now, &event);
        }
    }

    fn follow_receiver(&mut self, now: Instant) {
        while let Some(event) = self.receiver.poll_event() {
            self.playback.on_event(&mut self.buffer, event);
        }
        while let Some(due) = self.buffer.pop(now) {
            self.playback.on_shown(&due);
            if due.is_whole && !due.is_late {
                self.shown.push((now, due.frame.header.number));
            }
        }
    }

    fn carry(&mut self) {
        for end in [&mut self.client, &mut self.server] {
            if end.deadline().is_some_and(|at| at <= Instant::now()) {
                end.expire();
            }
        }
        let (here, there) = (client_address(), server_address());
        self.up.deliver(&mut self.server, RecvInfo { from: here, to: there });
        self.down.deliver(&mut self.client, RecvInfo { from: there, to: here });
        self.up.carry(&mut self.client);
        self.down.carry(&mut self.server);
    }

    /// When a picture stood for longer than `least`, from the start, and for how long.
    pub fn freezes(&self, least: Duration) -> Vec<(Duration, Duration)> {
        let pairs = self.shown.windows(2).map(|pair| (pair[0].0, pair[1].0 - pair[0].0));
        let long = pairs.filter(|(_, stood)| *stood > least);
        long.map(|(at, stood)| (at - self.start, stood)).collect()
    }
}
