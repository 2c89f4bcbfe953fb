//! The models of congestion. docs/bbr-draft-tests.md says which tests hold which case of the
//! draft's appendix.

mod congestion;
mod drain_and_probe_rtt;
mod marks;
mod probe_bw;
mod slower_path;
mod startup;

use super::tests::{MS, NO_NEWS, PATH, SAMPLE, cruising, rate};
use super::*;
use crate::sender::{RateSample, TxInFlight};

/// What 6.25 MB/s carry in 40 ms.
const BDP: u64 = 250_000;

struct Flow {
    bbr: Bbr,
    now: Instant,
    delivered: u64,
}

impl Flow {
    /// In Startup.
    fn starting() -> Self {
        let now = crate::test_clock();
        let bbr = Bbr::new(BbrConfig::DEFAULT, Ecn::Off, now, 7);
        Self { bbr, now, delivered: 0 }
    }

    fn cruising() -> Self {
        let (bbr, now, delivered) = cruising();
        Self { bbr, now, delivered }
    }

    /// A round trip at 6.25 MB/s with changes.
    fn round(&mut self, change: impl FnOnce(&mut Feedback)) -> Option<MinRttNews> {
        self.round_over(&PATH, change)
    }

    fn round_over(
        &mut self,
        path: &PathModel,
        change: impl FnOnce(&mut Feedback),
    ) -> Option<MinRttNews> {
        self.now += 40 * MS;
        let prior_delivered = self.delivered;
        self.delivered += BDP;
        let mut feedback = Feedback {
            sample: Some(RateSample {
                rate: rate(6_250_000),
                send_rate: None,
                interval: 40 * MS,
                app_limited: false,
                prior_delivered,
                tx_in_flight: TxInFlight { bytes: BDP, since_ack: Duration::ZERO },
                recent: None,
            }),
            delivered: self.delivered,
            acked: BDP,
            in_flight: BDP,
            round_trip: Some(40 * MS),
            ..NO_NEWS
        };
        change(&mut feedback);
        self.bbr.on_feedback(self.now, &feedback, path)
    }

    /// The path becomes slower, half as fast as it was.
    fn becomes_slower(&mut self) {
        while !matches!(self.bbr.state, State::Drain(_)) {
            self.round(|feedback| {
                feedback.round_trip = Some(100 * MS);
                feedback.reported = Some(rate(3_000_000));
            });
        }
    }

    fn phase(&self) -> Option<ProbeBwPhase> {
        match self.bbr.state {
            State::ProbeBw(phase) => Some(phase),
            _ => None,
        }
    }

    /// Goes on, an acknowledgement in each millisecond, until a phase of the cycle.
    fn until(&mut self, phase: ProbeBwPhase) {
        for _ in 0..10_000 {
            if self.phase() == Some(phase) {
                return;
            }
            self.now += MS;
            let quiet = Feedback { delivered: self.delivered, in_flight: 100_000, ..NO_NEWS };
            self.bbr.on_feedback(self.now, &quiet, &PATH);
        }
        panic!("{:?} never becomes {phase:?}", self.bbr.state);
    }

    /// The probe now loses so much of what it sent with so much in flight.
    fn lose_of_probe(&mut self, lost: u64, tx_in_flight: u64) {
        let feedback = Feedback {
            delivered: self.delivered,
            lost,
            probe_lost: lost,
            probe_lost_at: Some(TxInFlight { bytes: tx_in_flight, since_ack: Duration::ZERO }),
            lost_packets: lost / PATH.mss,
            in_flight: tx_in_flight,
            ..NO_NEWS
        };
        self.bbr.on_feedback(self.now, &feedback, &PATH);
    }
}
fn queued(feedback: &mut Feedback) {
    feedback.round_trip = Some(60 * MS);
}

/// An acknowledgement with so much in flight, in the same millisecond.
fn in_flight(flow: &mut Flow, bytes: u64) {
    let feedback = Feedback { delivered: flow.delivered, in_flight: bytes, ..NO_NEWS };
    flow.bbr.on_feedback(flow.now, &feedback, &PATH);
}

/// How long a phase lasts, in ms, while each millisecond says that so much is in flight.
fn lasts(flow: &mut Flow, bytes: u64) -> u32 {
    let phase = flow.phase();
    for passed in 0..10_000 {
        if flow.phase() != phase {
            return passed;
        }
        flow.now += MS;
        in_flight(flow, bytes);
    }
    panic!("{phase:?} does not end");
}

fn limited(bytes_per_second: u64) -> impl Fn(&mut Feedback) {
    move |feedback| {
        let sample = feedback.sample.as_mut().unwrap();
        (sample.app_limited, sample.rate) = (true, rate(bytes_per_second));
    }
}
