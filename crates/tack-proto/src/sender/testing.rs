//! A sender and the frames that a test lets its receiver send.

use std::ops::{Range, RangeInclusive};
use std::time::{Duration, Instant};

use super::{AckOutcome, Departure, PathId, Peer, Sender, SenderConfig, Violation};
use crate::frame::{
    EcnCounts, Frame, Frames, IackEvent, IackFields, Rate, TackFields, Timing, encode_ack,
    encode_iack, encode_tack,
};
use crate::profiles::Profile;

pub const MS: Duration = Duration::from_millis(1);
pub const RTT: Duration = Duration::from_millis(40);
pub const PACKET: usize = 1250;

pub struct Harness {
    pub sender: Sender,
    pub now: Instant,
    pub epoch: Instant,
    pub next: u64,
    pub sequence: u64,
    /// What TACKs say of the rate.
    pub rate: Option<u64>,
    pub bubbles: Vec<(u64, Range<u64>)>,
    /// What TACKs say of ECN.
    pub ecn: Option<EcnCounts>,
}

impl Harness {
    /// A sender that the handshake has told a round trip of 40 ms.
    pub fn new() -> Self {
        Self::with(|_| {})
    }

    pub fn with(change: impl FnOnce(&mut SenderConfig)) -> Self {
        let now = crate::test_clock();
        let mut config = SenderConfig::new(Profile::DEFAULT, PACKET as u64, 7);
        config.peer = Some(Peer::Tack { min_ack_delay: MS, max_ack_delay: 50 * MS });
        config.timestamp_exponent = 0;
        config.is_server = true;
        change(&mut config);
        Self {
            sender: Sender::new(now, config, Some(RTT)),
            now,
            epoch: now,
            next: 0,
            sequence: 0,
            rate: None,
            bubbles: Vec::new(),
            ecn: None,
        }
    }

    pub fn pass(&mut self, time: Duration) {
        self.now += time;
    }

    /// Sends so many packets at once; the numbers.
    pub fn send(&mut self, count: u64) -> RangeInclusive<u64> {
        self.send_on(None, count)
    }

    pub fn send_on(&mut self, path: Option<PathId>, count: u64) -> RangeInclusive<u64> {
        let first = self.next;
        for _ in 0..count {
            self.send_one(|departure| Departure { path, ..departure });
        }
        first..=self.next - 1
    }

    /// Sends so many packets that every path takes; the numbers.
    pub fn send_short(&mut self, count: u64) -> RangeInclusive<u64> {
        let first = self.next;
        for _ in 0..count {
            self.send_one(|departure| Departure { bytes: 100, ..departure });
        }
        first..=self.next - 1
    }

    /// Sends a probe for the path MTU, which is twice as long as a packet; its number.
    pub fn send_mtu_probe(&mut self) -> u64 {
        self.send_one(|departure| Departure {
            bytes: 2 * PACKET,
            is_mtu_probe: true,
            ..departure
        });
        self.next - 1
    }

    fn send_one(&mut self, change: impl Fn(Departure) -> Departure) {
        let departure = Departure {
            packet_number: self.next,
            bytes: PACKET,
            ack_eliciting: true,
            path: None,
            is_probe: false,
            is_mtu_probe: false,
            update: None,
            has_timestamp: false,
        };
        self.sender.on_packet_sent(self.now, &change(departure));
        self.next += 1;
    }

    pub fn skip(&mut self) -> u64 {
        self.sender.on_packet_skipped(self.now, self.next, 7);
        self.next += 1;
        self.next - 1
    }

    /// The timestamp of a departure at `at`.
    pub fn departure(&self, at: Instant) -> u64 {
        (at - self.epoch).as_micros() as u64
    }

    pub fn tack_frame(
        &mut self,
        ranges: &[RangeInclusive<u64>],
        left: Option<Instant>,
    ) -> Vec<u8> {
        let timing = left.map(|at| Timing { departure: self.departure(at), hold_us: 0 });
        let rate = self.rate.map(|delivery_rate| Rate { delivery_rate, loss_rate: 0 });
        let (sequence, ecn) = (self.sequence, self.ecn);
        let fields = TackFields { sequence, timing, rate, ecn, ..TackFields::default() };
        self.sequence += 1;
        let mut out = Vec::new();
        let bubbles = self.bubbles.iter().cloned();
        encode_tack(&mut out, &fields, ranges.iter().cloned(), bubbles, usize::MAX).unwrap();
        out
    }

    /// A TACK, with the departure of the packet that queued least.
    pub fn tack(
        &mut self,
        ranges: &[RangeInclusive<u64>],
        left: Option<Instant>,
    ) -> Result<AckOutcome, Violation> {
        let frame = self.tack_frame(ranges, left);
        let Frame::Tack(tack) = read(&frame) else { panic!("not a TACK") };
        self.sender.check_tack(self.now, &tack)?;
        let expected = self.sender.newly_acknowledged(&tack);
        if self.sender.is_left_to_long_tack(&tack) {
            self.sender.on_left_tack(tack.sequence);
            assert!(expected.is_empty());
            return Ok(AckOutcome::default());
        }
        let outcome = self.sender.on_tack(self.now, &tack);
        assert_eq!(outcome.acked, expected, "what was said before it was applied");
        Ok(outcome)
    }

    pub fn iack(
        &mut self,
        event: IackEvent,
        ranges: &[RangeInclusive<u64>],
    ) -> Result<AckOutcome, Violation> {
        let frame = iack_frame(event, ranges);
        let Frame::Iack(iack) = read(&frame) else { panic!("not an IACK") };
        self.sender.check_iack(self.now, &iack)?;
        let expected = self.sender.newly_acknowledged_by_iack(&iack);
        let outcome = self.sender.on_iack(self.now, &iack);
        assert_eq!(outcome.acked, expected, "what was said before it was applied");
        Ok(outcome)
    }

    pub fn ack(
        &mut self,
        ranges: &[RangeInclusive<u64>],
        delay: Duration,
    ) -> Result<AckOutcome, Violation> {
        let mut out = Vec::new();
        encode_ack(&mut out, ranges.iter().cloned(), 0, None, usize::MAX);
        let Frame::Ack(ack) = read(&out) else { panic!("not an ACK") };
        self.sender.check_ack(self.now, &ack)?;
        let expected = self.sender.unacknowledged(ack.ranges.iter());
        let outcome = self.sender.on_ack(self.now, &ack, delay);
        assert_eq!(outcome.acked, expected, "what was said before it was applied");
        Ok(outcome)
    }
}

pub fn iack_frame(event: IackEvent, ranges: &[RangeInclusive<u64>]) -> Vec<u8> {
    let fields =
        IackFields { event, received_bytes: 0, ack_delay_us: 0, ecn: None, grease: false };
    let mut out = Vec::new();
    assert!(encode_iack(&mut out, &fields, ranges.iter().cloned(), usize::MAX) > 0);
    out
}

pub fn read(bytes: &[u8]) -> Frame<'_> {
    Frames::new(bytes).next().unwrap().unwrap().frame
}
