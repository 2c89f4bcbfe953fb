//! What is in flight on one path, and the rate at which it is delivered
//! (draft-cheng-iccrg-delivery-rate-estimation).

use std::time::Duration;

use super::{Pace, Sent, State, Time, TxInFlight};
use crate::bandwidth::Bandwidth;

/// A delivery-rate sample computed from the sender's own record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateSample {
    /// Bytes delivered over the longer of the send and the acknowledgement
    /// interval: never above what was really sent in that time.
    pub rate: Bandwidth,
    /// The rate at which those bytes were sent.
    pub send_rate: Option<Bandwidth>,
    /// The time that it spans.
    pub interval: Duration,
    /// Whether the application, not the path, limited it.
    pub app_limited: bool,
    /// `delivered` when the newest packet of the sample was sent: rounds are
    /// counted with it.
    pub prior_delivered: u64,
    /// What was in flight when that packet had left.
    pub tx_in_flight: TxInFlight,
    /// The rate over the last stretch of a quarter of `interval` or more: what grows shows there sooner.
    /// `None` until there is one since nothing was in flight.
    pub recent: Option<Bandwidth>,
}

/// Tells the paths of a connection apart, and a path that was forgotten from the same path when
/// data goes over it again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlightId(pub u32);

/// Where a stretch of the record begins.
#[derive(Clone, Copy, Debug)]
struct Mark {
    delivered: u64,
    /// When the newest packet of that had left, and when it was acknowledged.
    left: Time,
    acked: Time,
}

/// Bytes in flight and delivered on one path.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flight {
    id: FlightId,
    bytes: u64,
    delivered: u64,
    delivered_time: Time,
    first_sent_time: Time,
    mark: Mark,
    /// The rate over the last whole stretch.
    recent: Option<Bandwidth>,
    /// While `delivered` is at most this, samples are application limited.
    app_limited_until: u64,
    /// The application has had nothing more to send, and nothing of it has had to wait since.
    has_run_dry: bool,
}

impl Flight {
    pub fn new(now: Time, id: FlightId) -> Self {
        Self {
            id,
            bytes: 0,
            delivered: 0,
            delivered_time: now,
            first_sent_time: now,
            mark: Mark { delivered: 0, left: now, acked: now },
            recent: None,
            app_limited_until: 0,
            has_run_dry: false,
        }
    }

    pub fn id(&self) -> FlightId {
        self.id
    }

    pub fn in_flight(&self) -> u64 {
        self.bytes
    }

    pub fn delivered(&self) -> u64 {
        self.delivered
    }

    pub fn is_app_limited(&self) -> bool {
        self.delivered < self.app_limited_until
    }

    pub fn on_app_limited(&mut self) {
        self.app_limited_until = self.delivered + self.bytes.max(1);
    }

    /// The application has nothing more to send. What it writes next leaves behind a pause, whatever has
    /// been delivered until then (C.app_limited is set by each write that finds nothing to send, section
    /// 3.4 of the draft).
    pub fn on_run_dry(&mut self) {
        self.on_app_limited();
        self.has_run_dry = true;
    }

    /// Data of the application waits: what leaves from now on is limited by the path.
    pub fn on_data_waits(&mut self) {
        self.has_run_dry = false;
    }

    /// Whether the next packet leaves behind a pause in which nothing was on its way.
    pub fn restarts_from_idle(&self) -> bool {
        self.bytes == 0 && (self.has_run_dry || self.is_app_limited())
    }

    /// A packet leaves; its entry.
    pub fn on_sent(&mut self, now: Time, bytes: u32, ack_eliciting: bool) -> Sent {
        if ack_eliciting && self.has_run_dry {
            self.on_app_limited();
        }
        if self.bytes == 0 && ack_eliciting {
            self.first_sent_time = now;
            self.delivered_time = now;
            self.mark = Mark { delivered: self.delivered, left: now, acked: now };
            self.recent = None;
        }
        let mut sent = self.skipped(now);
        sent.bytes = bytes;
        sent.state = State::Uncounted;
        if ack_eliciting {
            sent.state = State::InFlight;
            self.bytes += u64::from(bytes);
            sent.tx_in_flight = u32::try_from(self.bytes).unwrap_or(u32::MAX);
        }
        sent
    }

    /// The entry of a number that is not sent.
    pub fn skipped(&self, now: Time) -> Sent {
        Sent {
            state: State::Skipped,
            app_limited: self.delivered < self.app_limited_until,
            pace: Pace::default(),
            is_marked: false,
            bytes: 0,
            flight: self.id,
            tx_in_flight: 0,
            time: now,
            delivered: self.delivered,
            delivered_time: self.delivered_time,
            first_sent_time: self.first_sent_time,
        }
    }

    /// A packet in flight is acknowledged, or lost.
    pub fn land(&mut self, sent: &Sent, delivered: bool) {
        let bytes = u64::from(sent.bytes);
        self.bytes = self.bytes.saturating_sub(bytes);
        if delivered {
            self.delivered += bytes;
        }
    }

    /// The newest packet of an acknowledgement, which begins the next sample and ends its own.
    pub fn on_newest_acked(&mut self, now: Time, sent: &Sent) -> Option<RateSample> {
        self.delivered_time = now;
        self.first_sent_time = sent.time;
        let bytes = self.delivered.saturating_sub(sent.delivered);
        let send = sent.time.since(sent.first_sent_time);
        let ack = now.since(sent.delivered_time);
        self.measure_stretch(now, sent.time, send.max(ack) / 4);
        Some(RateSample {
            rate: Bandwidth::from_delta(bytes, send.max(ack))?,
            send_rate: Bandwidth::from_delta(bytes, send),
            interval: send.max(ack),
            app_limited: sent.app_limited,
            prior_delivered: sent.delivered,
            tx_in_flight: sent.tx_in_flight(),
            recent: self.recent,
        })
    }

    /// A packet that left at `left` is the newest acknowledged one. A stretch lasts `at_least` so long.
    fn measure_stretch(&mut self, now: Time, left: Time, at_least: Duration) {
        let Mark { delivered, left: left_before, acked } = self.mark;
        let span = now.since(acked).max(left.since(left_before));
        if span >= at_least {
            self.recent = Bandwidth::from_delta(self.delivered.saturating_sub(delivered), span);
            self.mark = Mark { delivered: self.delivered, left, acked: now };
        }
    }
}
