//! The end that pushes the file.

use std::time::Duration;

use tack_link::Time;

use super::MAX_PAYLOAD;
use super::packet::{Command, Packet, violation};
use super::trace::Trace;
use crate::application::{Application, ApplicationError, ByteStream, Inbox, Outbox};
use crate::sim::Content;

/// What is pushed, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Push {
    /// Length of the file, 1 at least.
    pub bytes: u64,
    /// Bytes of a full `A_WRTE`, up to [`MAX_PAYLOAD`].
    pub payload: usize,
    /// The ASB that is wished for; `None` to send one `A_WRTE` at a time.
    pub wish: Option<u32>,
}

/// A host.
#[derive(Debug)]
pub struct Host {
    push: Push,
    state: State,
    /// What is left of the ASB; `None` without delayed ACK.
    available: Option<i64>,
    sent: u64,
    acknowledged: u64,
    /// When the first `A_WRTE` was handed over, and when the last `A_OKAY` came.
    began: Option<Time>,
    ended: Option<Time>,
    refused: bool,
    content: Content,
    inbox: Inbox,
    outbox: Outbox,
    trace: Trace,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Connecting,
    /// `A_OPEN` is on its way, for the stream of this number and with this wish.
    Opening {
        local: u32,
        wish: u32,
    },
    Writing {
        local: u32,
        remote: u32,
    },
    Closing,
    Finished,
}

impl Host {
    /// A host that opens the stream as soon as there is a connection.
    pub fn new(push: Push) -> Self {
        let (bytes, payload) = (push.bytes.max(1), push.payload.clamp(1, MAX_PAYLOAD));
        let push = Push { bytes, payload, ..push };
        Self {
            push,
            state: State::Connecting,
            available: None,
            sent: 0,
            acknowledged: 0,
            began: None,
            ended: None,
            refused: false,
            content: Content::new(),
            inbox: Packet::inbox(),
            outbox: Outbox::default(),
            trace: Trace::default(),
        }
    }

    /// From the first `A_WRTE` to the last `A_OKAY`; `None` before that.
    pub fn took(&self) -> Option<Duration> {
        Some(self.ended?.since(self.began?))
    }

    /// Whether the device refused delayed ACK.
    pub const fn was_refused(&self) -> bool {
        self.refused
    }

    /// Whether more than one `A_WRTE` may be in flight.
    pub const fn uses_delayed_ack(&self) -> bool {
        self.available.is_some()
    }

    /// The first packets.
    pub const fn trace(&self) -> &Trace {
        &self.trace
    }

    fn open(&mut self, local: u32, wish: u32, now: Time) {
        let payload = b"sync:\0".to_vec();
        let open = Packet { command: Command::Open, arg0: local, arg1: wish, payload };
        self.send(&open, now);
        self.state = State::Opening { local, wish };
    }

    fn send(&mut self, packet: &Packet, now: Time) {
        packet.encode(&mut self.outbox);
        let of_wish = (packet.command == Command::Open && packet.arg1 > 0).then_some(0);
        self.trace.sent(packet, self.available.or(of_wish), now);
    }

    fn on_packet(&mut self, packet: &Packet, now: Time) -> Result<(), ApplicationError> {
        match (packet.command, self.state) {
            (Command::Okay, State::Opening { local, wish }) if packet.arg1 == local => {
                self.available = match (packet.acknowledged()?, wish) {
                    (Some(granted), 1..) => Some(i64::from(granted.min(wish))),
                    (None, 0) => None,
                    (_, wish) => {
                        let problem = format!("an answer to arg1={wish} in the other form");
                        return Err(violation(problem));
                    }
                };
                self.state = State::Writing { local, remote: packet.arg0 };
            }
            (Command::Close, State::Opening { local, wish: 1.. }) => {
                self.refused = true;
                self.trace.received(packet, None, now);
                self.open(local + 1, 0, now);
                return Ok(());
            }
            (Command::Okay, State::Writing { local, remote }) if packet.arg1 == local => {
                self.on_okay(packet)?;
                if self.acknowledged == self.push.bytes {
                    self.ended = Some(now);
                    self.trace.received(packet, self.available, now);
                    let (command, payload) = (Command::Close, Vec::new());
                    self.send(&Packet { command, arg0: local, arg1: remote, payload }, now);
                    self.state = State::Closing;
                    return Ok(());
                }
            }
            (Command::Close, State::Closing) => self.state = State::Finished,
            (command, _) => {
                return Err(violation(format!("{} that was not expected", command.name())));
            }
        }
        self.trace.received(packet, self.available, now);
        Ok(())
    }

    fn on_okay(&mut self, packet: &Packet) -> Result<(), ApplicationError> {
        let in_flight = self.sent - self.acknowledged;
        let bytes = match (packet.acknowledged()?, &mut self.available) {
            (Some(bytes), Some(available)) => {
                *available += i64::from(bytes);
                u64::from(bytes)
            }
            (None, None) => in_flight,
            _ => return Err(violation("an A_OKAY in the other form".to_owned())),
        };
        if bytes > in_flight || in_flight == 0 {
            let problem = format!("an A_OKAY of {bytes} bytes, with {in_flight} in flight");
            return Err(violation(problem));
        }
        self.acknowledged += bytes;
        Ok(())
    }

    /// Whether another `A_WRTE` may leave.
    fn may_send(&self) -> bool {
        match self.available {
            Some(available) => available > 0,
            None => self.sent == self.acknowledged,
        }
    }

    fn write(&mut self, stream: &mut dyn ByteStream, now: Time) {
        while self.outbox.flush(stream)
            && let State::Writing { local, remote } = self.state
        {
            let left = self.push.bytes - self.sent;
            if left == 0 {
                return;
            }
            if !self.may_send() {
                self.trace.waits(self.available, now);
                return;
            }
            let len = left.min(self.push.payload as u64) as usize;
            let mut payload = Vec::with_capacity(len);
            while payload.len() < len {
                let at = self.sent + payload.len() as u64;
                payload.extend_from_slice(self.content.at(at, (len - payload.len()) as u64));
            }
            self.sent += len as u64;
            if let Some(available) = &mut self.available {
                *available = available.saturating_sub_unsigned(len as u64);
            }
            self.began.get_or_insert(now);
            let command = Command::Write;
            self.send(&Packet { command, arg0: local, arg1: remote, payload }, now);
        }
    }
}

impl Application for Host {
    fn turn(&mut self, stream: &mut dyn ByteStream, now: Time) -> Result<(), ApplicationError> {
        if self.state == State::Connecting {
            if !stream.is_open() {
                return Ok(());
            }
            self.open(1, self.push.wish.unwrap_or_default(), now);
        }
        loop {
            let arrived = self.inbox.fill(stream);
            while let Some(packet) = Packet::decode(&mut self.inbox)? {
                self.on_packet(&packet, now)?;
            }
            if arrived == 0 {
                break;
            }
        }
        self.write(stream, now);
        Ok(())
    }

    fn next_event(&self) -> Option<Time> {
        None
    }

    fn is_finished(&self) -> bool {
        self.state == State::Finished
    }
}

#[cfg(test)]
mod tests {
    use super::super::Device;
    use super::*;
    use crate::application::cable::Cable;

    /// A byte each nanosecond, and a millisecond there and back.
    const CABLE: Cable = Cable { bytes_per_second: 1e9, delay: Duration::from_micros(500) };
    const PUSH: Push = Push { bytes: 64 << 16, payload: 1 << 16, wish: None };

    fn push(push: Push, device: Option<u32>) -> (Host, Device) {
        let (mut host, mut device) = (Host::new(push), Device::new(device));
        CABLE.run(&mut host, &mut device, Duration::from_secs(10)).unwrap();
        assert_eq!(device.received(), push.bytes);
        (host, device)
    }

    fn seconds(host: &Host) -> f64 {
        host.took().unwrap().as_secs_f64()
    }

    #[test]
    fn one_write_at_a_time_takes_a_round_trip_each() {
        let (host, _) = push(PUSH, Some(1 << 20));
        assert!(!host.uses_delayed_ack() && !host.was_refused());
        let each = 1e-3 + 65_536e-9;
        assert!((seconds(&host) - 64.0 * each).abs() < 1e-4, "{}", seconds(&host));
    }

    #[test]
    fn with_credit_for_a_round_trip_the_cable_is_full() {
        let (host, _) = push(Push { wish: Some(4 << 20), ..PUSH }, Some(8 << 20));
        let full = 1e-3 + 64.0 * 65_536e-9;
        assert!((seconds(&host) - full).abs() < 1e-4, "{}", seconds(&host));
    }

    #[test]
    fn credit_of_half_a_round_trip_fills_half_the_cable() {
        // Of a round trip's million bytes.
        let (host, _) = push(Push { wish: Some(8 << 16), ..PUSH }, Some(8 << 20));
        let expected = 8.0 * (1e-3 + 65_536e-9) + 7.0 * 65_536e-9;
        assert!((seconds(&host) / expected - 1.0).abs() < 0.01, "{}", seconds(&host));
    }

    #[test]
    fn a_positive_rest_lets_one_more_write_leave() {
        let (_, device) = push(Push { wish: Some(65_537), ..PUSH }, Some(8 << 20));
        assert_eq!(device.granted(), Some(65_537));
        let (host, _) = push(Push { wish: Some(65_537), ..PUSH }, Some(8 << 20));
        let (exact, _) = push(Push { wish: Some(65_536), ..PUSH }, Some(8 << 20));
        assert!(seconds(&host) < 0.6 * seconds(&exact));
        assert!(host.trace().lines().iter().any(|line| line.available == Some(-65_535)));
    }

    #[test]
    fn a_device_grants_no_more_than_it_has_and_than_was_wished_for() {
        for (wish, most, granted) in [(1 << 20, 1 << 18, 1 << 18), (1 << 18, 1 << 20, 1 << 18)]
        {
            let (_, device) = push(Push { wish: Some(wish), ..PUSH }, Some(most));
            assert_eq!(device.granted(), Some(granted));
        }
    }

    #[test]
    fn a_device_that_refuses_gets_one_write_at_a_time() {
        let (host, device) = push(Push { wish: Some(1 << 20), ..PUSH }, None);
        assert!(host.was_refused() && !host.uses_delayed_ack());
        assert_eq!(device.granted(), None);
        let (plain, _) = push(PUSH, None);
        assert_eq!(host.took(), plain.took());
        let lines: Vec<_> = host.trace().lines().iter().map(ToString::to_string).collect();
        assert_eq!(lines[0], "Host(ASB=0)         > A_OPEN(arg1=1MiB)         > Device");
        assert_eq!(lines[1], "Host                < A_CLSE                    < Device");
        assert_eq!(lines[2], "Host                > A_OPEN                    > Device");
    }

    #[test]
    fn the_trace_shows_writes_in_a_burst_and_their_answers() {
        let small = Push { bytes: 30, payload: 10, wish: Some(20) };
        let (host, _) = push(small, Some(1 << 20));
        let lines: Vec<_> = host.trace().lines().iter().map(ToString::to_string).collect();
        let expected = [
            "Host(ASB=0)         > A_OPEN(arg1=20)           > Device",
            "Host(ASB=20)        < A_OKAY(<20>)              < Device",
            "Host(ASB=10)        > A_WRTE(payload size=10)   > Device",
            "Host(ASB=0)         > A_WRTE(payload size=10)   > Device",
            "Nothing is sent before an A_OKAY.",
            "Host(ASB=10)        < A_OKAY(<10>)              < Device",
            "Host(ASB=0)         > A_WRTE(payload size=10)   > Device",
            "Host(ASB=10)        < A_OKAY(<10>)              < Device",
            "Host(ASB=20)        < A_OKAY(<10>)              < Device",
        ];
        assert_eq!(lines[..expected.len()], expected);
    }

    #[test]
    fn an_okay_for_what_was_not_sent_is_refused() {
        let mut host = Host::new(PUSH);
        host.state = State::Writing { local: 1, remote: 2 };
        let okay = Packet { command: Command::Okay, arg0: 2, arg1: 1, payload: Vec::new() };
        assert!(host.on_packet(&okay, Time::ZERO).is_err());
        (host.available, host.sent) = (Some(10), 10);
        let okay = Packet { payload: 11_u32.to_le_bytes().to_vec(), ..okay };
        assert!(host.on_packet(&okay, Time::ZERO).is_err());
    }
}
