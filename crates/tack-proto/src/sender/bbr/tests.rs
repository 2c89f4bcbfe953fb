use super::super::{RateSample, TxInFlight};
use super::*;

pub(super) const MS: Duration = Duration::from_millis(1);
pub(in crate::sender) const PATH: PathModel = PathModel {
    ack_path: Duration::ZERO,
    jitter: Duration::ZERO,
    usual_jitter: Duration::ZERO,
    jitter_both_ways: Duration::ZERO,
    forward_rtt: None,

    min_rtt: Some(Duration::from_millis(40)),
    smoothed_rtt: Some(Duration::from_millis(40)),
    ack_late: Duration::ZERO,
    own_late: Duration::ZERO,
    ack_interval: Duration::from_millis(10),
    usual_ack_interval: Duration::from_millis(10),
    mss: 1250,
    initial_window: 12_500,
};

/// Feedback that says nothing.
pub(super) const NO_NEWS: Feedback = Feedback {
    sample: None,
    reported: None,
    delivered: 0,
    acked: 0,
    lost: 0,
    probe_acked: 0,
    slow_acked: 0,
    slow_lost: 0,
    probe_lost: 0,
    probe_lost_at: None,
    lost_packets: 0,
    spurious: 0,
    ce: 0,
    is_persistent_congestion: false,
    was_no_persistent_congestion: false,
    in_flight: 0,
    round_trip: None,
    newest: None,
    min_rtt_expired: false,
};

/// A kilobyte per second.
pub(super) const SAMPLE: RateSample = RateSample {
    rate: Bandwidth::from_bytes_per_second(1000),
    send_rate: None,
    interval: Duration::from_millis(40),
    app_limited: false,
    prior_delivered: 0,
    tx_in_flight: TxInFlight { bytes: 0, since_ack: Duration::ZERO },
    recent: None,
};

pub(super) fn rate(bytes_per_second: u64) -> Bandwidth {
    Bandwidth::from_bytes_per_second(bytes_per_second)
}

/// One round trip in which `bandwidth` was delivered.
fn round(
    bbr: &mut Bbr,
    now: &mut Instant,
    delivered: &mut u64,
    bandwidth: u64,
    in_flight: u64,
) {
    let prior_delivered = *delivered;
    *delivered += bandwidth / 25;
    *now += 40 * MS;
    let sample = RateSample {
        rate: rate(bandwidth),
        send_rate: None,
        interval: 40 * MS,
        app_limited: false,
        prior_delivered,
        tx_in_flight: TxInFlight::default(),
        recent: None,
    };
    let feedback = Feedback {
        sample: Some(sample),
        delivered: *delivered,
        acked: bandwidth / 25,
        in_flight,
        ..NO_NEWS
    };
    bbr.on_feedback(*now, &feedback, &PATH);
}

pub(super) fn cruising() -> (Bbr, Instant, u64) {
    let mut bbr = Bbr::new(BbrConfig::default(), Ecn::Off, crate::test_clock(), 7);
    let (mut now, mut delivered) = (crate::test_clock(), 0);
    for bandwidth in [312_500, 1_000_000, 3_000_000, 6_250_000, 6_250_000, 6_250_000] {
        round(&mut bbr, &mut now, &mut delivered, bandwidth, 600_000);
        assert_eq!(bbr.phase(), Phase::Startup);
    }
    round(&mut bbr, &mut now, &mut delivered, 6_250_000, 600_000);
    assert_eq!(bbr.phase(), Phase::Drain);
    assert!(bbr.pacing_rate(&PATH) < rate(3_000_000));
    round(&mut bbr, &mut now, &mut delivered, 6_250_000, 240_000);
    assert_eq!(bbr.phase(), Phase::ProbeBw);
    (bbr, now, delivered)
}

#[test]
fn startup_fills_the_pipe_drains_and_cruises_at_its_rate() {
    let (bbr, _, _) = cruising();
    assert_eq!(bbr.pacing_rate(&PATH), rate(6_250_000));
    // 6.25 MB/s for 40 ms, 60 ms for the queue, and 10 ms for the next TACK.
    assert_eq!(bbr.inflight_cap(&PATH), 687_500);
}

#[test]
fn time_changes_the_rate_no_sooner_than_was_said() {
    let (mut bbr, mut now, _) = cruising();
    let mut changes = 0;
    for _ in 0..2000 {
        now += MS;
        let is_time = bbr.next_change(&PATH).is_some_and(|at| at <= now);
        if bbr.on_time(now, &PATH) {
            assert!(is_time);
            changes += 1;
        }
    }
    assert_eq!(changes, 3, "to refill, to probe, and to drain until an acknowledgement comes");
}

#[test]
fn more_bandwidth_is_found_by_probing_and_less_within_the_filter() {
    let (mut bbr, mut now, mut delivered) = cruising();
    for _ in 0..9 {
        round(&mut bbr, &mut now, &mut delivered, 7_000_000, 300_000);
    }
    assert_eq!(bbr.bandwidth(), rate(7_000_000));
    // The filter spans 600 ms.
    for _ in 0..16 {
        round(&mut bbr, &mut now, &mut delivered, 3_000_000, 300_000);
    }
    assert_eq!(bbr.bandwidth(), rate(3_000_000));
}

#[test]
fn a_receiver_that_lies_upwards_is_not_believed() {
    let (mut bbr, now, delivered) = cruising();
    let sample = RateSample {
        rate: rate(6_250_000),
        send_rate: None,
        interval: 40 * MS,
        app_limited: false,
        prior_delivered: delivered,
        tx_in_flight: TxInFlight::default(),
        recent: None,
    };
    for lie in [u64::MAX / 2, 62_500_000] {
        let feedback = Feedback {
            sample: Some(sample),
            reported: Some(rate(lie)),
            delivered: delivered + 1,
            acked: 1,
            in_flight: 250_000,
            ..NO_NEWS
        };
        bbr.on_feedback(now + MS, &feedback, &PATH);
        assert!(bbr.bandwidth() <= rate(6_250_000));
    }
}

#[test]
fn an_application_limited_sample_does_not_lower_the_estimate() {
    let (mut bbr, mut now, delivered) = cruising();
    for i in 0..20 {
        now += 40 * MS;
        let sample = RateSample {
            rate: rate(1000),
            send_rate: None,
            interval: 40 * MS,
            app_limited: true,
            prior_delivered: delivered + i * 40,
            tx_in_flight: TxInFlight::default(),
            recent: None,
        };
        let feedback = Feedback {
            sample: Some(sample),
            delivered: delivered + (i + 1) * 40,
            acked: 40,
            in_flight: 40,
            ..NO_NEWS
        };
        bbr.on_feedback(now, &feedback, &PATH);
    }
    assert_eq!(bbr.bandwidth(), rate(6_250_000));
}

#[test]
fn one_low_sample_after_a_limited_time_does_not_replace_the_estimate() {
    let (mut bbr, mut now, mut delivered) = cruising();
    for _ in 0..100 {
        now += 40 * MS;
        delivered += 40;
        let sample = RateSample {
            rate: rate(1000),
            send_rate: None,
            interval: 40 * MS,
            app_limited: true,
            prior_delivered: delivered - 40,
            tx_in_flight: TxInFlight::default(),
            recent: None,
        };
        let feedback =
            Feedback { sample: Some(sample), delivered, acked: 40, in_flight: 40, ..NO_NEWS };
        bbr.on_feedback(now, &feedback, &PATH);
    }
    round(&mut bbr, &mut now, &mut delivered, 100_000, 4000);
    assert_eq!(bbr.bandwidth(), rate(6_250_000));
    for _ in 0..16 {
        round(&mut bbr, &mut now, &mut delivered, 100_000, 4000);
    }
    assert_eq!(bbr.bandwidth(), rate(100_000), "many of them do");
}

/// An acknowledgement by which RTTmin is out of date.
const EXPIRED: Feedback = Feedback { in_flight: 250_000, min_rtt_expired: true, ..NO_NEWS };

#[test]
fn an_expired_minimum_is_probed_for_and_then_the_rate_is_resumed() {
    let (mut bbr, mut now, _) = cruising();
    let mut feedback = EXPIRED;
    bbr.on_feedback(now, &feedback, &PATH);
    assert_eq!(bbr.phase(), Phase::ProbeRtt);
    assert_eq!(bbr.pacing_rate(&PATH), rate(3_125_000), "half the rate");
    // Half of 6.25 MB/s in 40 ms and 10 ms more, which the next TACK may wait for.
    assert_eq!(bbr.inflight_cap(&PATH), 156_250);
    feedback.in_flight = 5_000;
    for stays in [true, true, true, true, true, false] {
        now += 40 * MS;
        let news = bbr.on_feedback(now, &feedback, &PATH);
        assert_eq!(news, (!stays).then_some(MinRttNews::Probed));
        assert_eq!(bbr.phase() == Phase::ProbeRtt, stays);
    }
    assert_eq!(bbr.phase(), Phase::ProbeBw);
}

#[test]
fn a_minimum_that_shows_again_ends_the_visit() {
    let (mut bbr, now, _) = cruising();
    let mut feedback = EXPIRED;
    bbr.on_feedback(now, &feedback, &PATH);
    assert_eq!(bbr.on_feedback(now + 40 * MS, &feedback, &PATH), None);
    assert_eq!(bbr.phase(), Phase::ProbeRtt);
    feedback.min_rtt_expired = false;
    assert_eq!(bbr.on_feedback(now + 60 * MS, &feedback, &PATH), Some(MinRttNews::Probed));
    assert_eq!(bbr.pacing_rate(&PATH), rate(6_250_000));
}

#[test]
fn what_is_less_than_the_grain_of_timers_or_this_ends_lateness_is_no_queue() {
    let micros = Duration::from_micros;
    let short = PathModel { min_rtt: Some(micros(30)), ..PATH };
    assert!(!short.is_queueing(Some(micros(900))));
    assert!(short.is_queueing(Some(micros(1100))));
    let busy = PathModel { own_late: Duration::from_millis(5), ..short };
    assert!(!busy.is_queueing(Some(micros(6000))), "TACK-6.2-11");
    assert!(busy.is_queueing(Some(micros(6100))));
}

#[test]
fn startup_doubles_with_each_tack_where_one_comes_in_many_round_trips() {
    let mut bbr = Bbr::new(BbrConfig::DEFAULT, Ecn::Off, crate::test_clock(), 7);
    bbr.max_bw.update(0, Bandwidth::from_bytes_per_second(100_000_000));
    let short = PathModel { min_rtt: Some(Duration::from_micros(30)), ..PATH };
    let held = bbr.bandwidth().bytes_in(short.ack_interval);
    assert!(bbr.inflight_cap(&short) > 2 * held);
    let long = PathModel { min_rtt: Some(10 * short.ack_interval), ..PATH };
    let bdp = bbr.bandwidth().bytes_in(10 * long.ack_interval);
    assert!(bbr.inflight_cap(&long) < 3 * bdp + held);
}

#[test]
fn the_end_of_an_outage_begins_drain_and_not_probe_rtt() {
    // TACK-6.6-5
    let (mut bbr, now, delivered) = cruising();
    let now = now + 500 * MS;
    bbr.on_feedback(now, &Feedback { delivered, ..EXPIRED }, &PATH);
    assert_eq!(bbr.phase(), Phase::Drain);
    bbr.on_feedback(now + 60 * MS, &Feedback { delivered, ..EXPIRED }, &PATH);
    assert_eq!(bbr.phase(), Phase::ProbeBw);
    bbr.on_feedback(now + 61 * MS, &Feedback { delivered, ..EXPIRED }, &PATH);
    assert_eq!(bbr.phase(), Phase::ProbeRtt);
}

#[test]
fn persistent_congestion_leaves_two_packets_and_the_rate() {
    // TACK-6.6-3
    let (mut bbr, mut now, mut delivered) = cruising();
    let (cap, pace) = (bbr.inflight_cap(&PATH), bbr.pacing_rate(&PATH));
    let lost =
        Feedback { delivered, is_persistent_congestion: true, in_flight: 240_000, ..NO_NEWS };
    bbr.on_feedback(now, &lost, &PATH);
    assert_eq!((bbr.inflight_cap(&PATH), bbr.pacing_rate(&PATH)), (2 * PATH.mss, pace));
    round(&mut bbr, &mut now, &mut delivered, 6_250_000, 240_000);
    assert_eq!(bbr.inflight_cap(&PATH), cap);
}

// TACK-5.1-9
#[test]
fn a_longer_wait_for_acknowledgements_that_seem_to_queue_lets_no_more_be_in_flight() {
    let (bbr, ..) = cruising();
    let spaced = PathModel { ack_interval: 2 * PATH.ack_interval, ..PATH };
    assert_eq!(bbr.inflight_cap(&spaced), bbr.inflight_cap(&PATH));
}
