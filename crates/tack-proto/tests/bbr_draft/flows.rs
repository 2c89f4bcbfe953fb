//! Cases of the appendix of draft-ietf-ccwg-bbr that are flows. docs/bbr-draft-tests.md says which
//! tests hold which case.

use std::time::Duration;

use tack_proto::profiles::Profile;
use tack_proto::sender::Phase;

use super::{Link, MS, PACKET, Policer, Simulation, p95, with_every_profile};

const SECOND: Duration = Duration::from_secs(1);

/// A flow that is stopped at any time, to look at it and to change its path.
struct Flow(Simulation);

/// What a flow did in a time.
#[derive(Debug)]
struct Stretch {
    /// Megabits per second that arrived.
    goodput: f64,
    /// The share of the packets sent that the path's buffer or policer dropped.
    dropped: f64,
    /// The 95th percentile of the queueing delays.
    queueing: Duration,
    /// The states that the controller was in, one after the other.
    phases: Vec<Phase>,
    /// The most bytes in flight.
    most_in_flight: u64,
    /// The least that the controller has allowed to be in flight.
    least_cap: u64,
}

impl Flow {
    fn new(link: Link, profile: Profile) -> Self {
        let mut simulation = Simulation::new(link, profile, 1);
        simulation.measure_from = Duration::ZERO;
        Self(simulation)
    }

    /// One that has been in ProbeBW for a time, behind the end of Startup.
    fn in_probe_bw(link: Link, profile: Profile, time: Duration) -> Self {
        let mut flow = Self::new(link, profile);
        flow.until(Phase::ProbeBw, 10 * SECOND);
        flow.go_on(time);
        flow
    }

    /// Goes on until `reached`, for `most` at most; the time that took, if it was reached.
    fn goes_on_until(
        &mut self,
        most: Duration,
        mut reached: impl FnMut(&Simulation) -> bool,
    ) -> Option<Duration> {
        let began = self.0.now;
        // What has changed since acts at once.
        self.0.wake_at(began);
        while !reached(&self.0) {
            self.0.wake_at(began + most);
            self.0.now = self.0.next_event()?;
            self.0.step();
            if self.0.now >= began + most {
                return None;
            }
        }
        Some(self.0.now - began)
    }

    /// Goes on until the controller is in a state; the time that took.
    fn until(&mut self, phase: Phase, most: Duration) -> Duration {
        let time = self.goes_on_until(most, |simulation| simulation.sender.phase() == phase);
        time.unwrap_or_else(|| panic!("no {phase:?} within {most:?}"))
    }

    /// Changes the path.
    fn change(&mut self, change: impl FnOnce(&mut Link)) {
        self.0.path.change(self.0.now, change);
    }

    /// Time since the start.
    fn time(&self) -> Duration {
        self.0.now - self.0.start
    }

    /// How long the first packet queued that was sent then or later, and that has arrived.
    fn queue_at(&self, time: Duration) -> Duration {
        let mut queueing = self.0.outcome.queueing.iter();
        queueing.find(|(sent, _)| *sent >= time).unwrap().1
    }

    /// Goes on for a time.
    fn go_on(&mut self, time: Duration) -> Stretch {
        let outcome = &self.0.outcome;
        let (dropped, sent, queued) =
            (self.0.path.dropped(), outcome.sent.len(), outcome.queueing.len());
        let arrived = self.0.arrived;
        let mut phases = Vec::new();
        let (mut most_in_flight, mut least_cap) = (0, u64::MAX);
        self.goes_on_until(time, |simulation| {
            let sender = &simulation.sender;
            if phases.last() != Some(&sender.phase()) {
                phases.push(sender.phase());
            }
            most_in_flight = most_in_flight.max(sender.in_flight());
            least_cap = least_cap.min(sender.inflight_cap());
            false
        });
        let outcome = &self.0.outcome;
        let sent = (outcome.sent.len() - sent).max(1);
        Stretch {
            goodput: (self.0.arrived - arrived) as f64 / 125_000.0 / time.as_secs_f64(),
            dropped: (self.0.path.dropped() - dropped) as f64 / sent as f64,
            queueing: p95(&outcome.queueing[queued..]),
            phases,
            most_in_flight,
            least_cap,
        }
    }

    /// The application offers no more than this from now on.
    fn offer(&mut self, megabits: f64) {
        let elapsed = (self.0.now - self.0.start).as_secs_f64();
        self.0.written = (megabits * 125_000.0 * elapsed) as u64;
        self.0.offered = Some(megabits);
    }
}

/// Megabits per second that the controller takes the path for.
fn estimate(simulation: &Simulation) -> f64 {
    simulation.sender.bandwidth().bytes_per_second() as f64 / 125_000.0
}

/// How fast data leaves, in terms of what the path is taken for.
fn gain(simulation: &Simulation) -> f64 {
    simulation.sender.pacing_rate().bytes_per_second() as f64 / 125_000.0 / estimate(simulation)
}

fn is_up(simulation: &Simulation) -> bool {
    simulation.sender.phase() == Phase::ProbeBw && gain(simulation) > 1.2
}

fn is_down(simulation: &Simulation) -> bool {
    simulation.sender.phase() == Phase::ProbeBw && gain(simulation) < 0.8
}

/// A path that queues a second of data.
fn deep(megabits: f64, round_trip: Duration) -> Link {
    let link = Link::new(megabits, round_trip);
    Link { buffer: link.bytes_in(SECOND), ..link }
}

/// Packets that the path has dropped so far.
fn dropped(flow: &Flow) -> u64 {
    flow.0.path.dropped()
}

// A.1
#[test]
fn startup_ends_with_the_rate_of_the_path_and_drain_follows() {
    with_every_profile(|profile| {
        for (megabits, round_trip) in [(10.0, 20 * MS), (50.0, 40 * MS), (200.0, 100 * MS)] {
            let mut flow = Flow::new(Link::new(megabits, round_trip), profile);
            let startup = flow.until(Phase::Drain, SECOND);
            let found = estimate(&flow.0) / megabits;
            let drain = flow.until(Phase::ProbeBw, SECOND);
            println!("{megabits} Mbit/s: {found:.3} in {startup:?}, Drain {drain:?}");
            // The initial window of `video` overflows the buffer, and losses end its Startup.
            let least = if profile == Profile::VIDEO { 0.9 } else { 0.98 };
            assert!((least..1.02).contains(&found), "{megabits} Mbit/s: {found:.3}");
            assert!(startup < 10 * round_trip, "{megabits} Mbit/s: {startup:?}");
            assert!(drain < 3 * round_trip / 2, "{megabits} Mbit/s: {drain:?}");
        }
    });
}

// A.3, A.4
#[test]
fn drain_lasts_until_no_more_than_a_bdp_is_in_flight_on_a_path_that_has_become_slower_too() {
    with_every_profile(|profile| {
        for slower in [1.0, 0.9] {
            let mut flow = Flow::new(deep(50.0, 40 * MS), profile);
            flow.until(Phase::Drain, SECOND);
            let before = flow.0.sender.in_flight();
            assert!(before > 300_000, "a BDP are 250,000 bytes, {before}");
            let gain = gain(&flow.0);
            assert!((gain - 1.0 / 2.885).abs() < 0.01, "{gain}");
            flow.change(|link| link.megabits *= slower);
            let drain = flow.until(Phase::ProbeBw, SECOND);
            let left = flow.0.sender.in_flight();
            println!("{slower}: {before} bytes in flight, {left} behind {drain:?}");
            // What the last acknowledgement says, and 4 % that have been sent since.
            assert!((200_000..270_000).contains(&left), "{slower}: {left}");
            assert!(drain < 80 * MS, "{slower}: {drain:?}");
        }
    });
}

// A.5, A.8
#[test]
fn a_probe_lasts_a_round_trip_by_the_clock_and_its_queue_is_gone_within_another() {
    with_every_profile(|profile| {
        let mut flow = Flow::in_probe_bw(deep(50.0, 40 * MS), profile, SECOND);
        for _ in 0..3 {
            flow.goes_on_until(5 * SECOND, is_up).unwrap();
            let up = flow.goes_on_until(SECOND, |simulation| !is_up(simulation)).unwrap();
            assert!(is_down(&flow.0));
            let up_ended = flow.time();
            let down = flow.goes_on_until(SECOND, |simulation| !is_down(simulation)).unwrap();
            let down_ended = flow.time();
            flow.go_on(60 * MS);
            let (probed, drained) = (flow.queue_at(up_ended), flow.queue_at(down_ended));
            println!("Up {up:?}, Down {down:?}, a queue of {probed:?} and {drained:?}");
            // Four probe units, or three.
            let units = 10 * MS * profile.bbr.probe_up_units;
            assert!(up >= units && up < units + 5 * MS, "{up:?}");
            assert!(down > 20 * MS && down < 80 * MS, "{down:?}");
            // A quarter of the rate for so long, and what leaves at once.
            assert!(probed > up / 8 && probed < up / 2, "{probed:?}");
            assert!(drained < 2 * MS, "{drained:?}");
        }
        assert_eq!(dropped(&flow), 0);
    });
}

// A.7
#[test]
fn an_application_that_sends_little_and_loses_nothing_stays_in_startup() {
    with_every_profile(|profile| {
        let mut flow = Flow::new(Link::new(50.0, 40 * MS), profile);
        flow.offer(5.0);
        let stretch = flow.go_on(30 * SECOND);
        println!("{stretch:?}");
        assert_eq!(stretch.phases, [Phase::Startup]);
        assert!(stretch.goodput > 4.99 && stretch.queueing < MS && stretch.dropped <= 0.0);
        flow.0.offered = None;
        let startup = flow.until(Phase::ProbeBw, SECOND);
        println!("{:.1} Mbit/s behind {startup:?}", estimate(&flow.0));
        assert!(startup < 12 * 40 * MS, "{startup:?}");
        assert!(estimate(&flow.0) > 45.0, "{}", estimate(&flow.0));
    });
}

// A.7
#[test]
fn probes_of_an_application_that_sends_little_end_and_leave_the_estimate_as_it_was() {
    with_every_profile(|profile| {
        let mut flow = Flow::in_probe_bw(Link::new(50.0, 40 * MS), profile, 2 * SECOND);
        flow.goes_on_until(5 * SECOND, is_up).unwrap();
        flow.offer(5.0);
        let up = flow.goes_on_until(SECOND, |simulation| !is_up(simulation)).unwrap();
        assert!(up <= 45 * MS, "{up:?}");
        let stretch = flow.go_on(9 * SECOND);
        println!("Up {up:?}, {stretch:?}");
        assert_eq!(stretch.phases, [Phase::ProbeBw]);
        assert!(estimate(&flow.0) > 49.0, "{}", estimate(&flow.0));
        assert!(stretch.queueing < MS && stretch.dropped <= 0.0, "{stretch:?}");
    });
}

// A.9
#[test]
fn draining_behind_a_probe_ends_where_the_path_has_become_slower_and_the_rate_follows() {
    with_every_profile(|profile| {
        let mut flow = Flow::in_probe_bw(deep(50.0, 40 * MS), profile, SECOND);
        flow.goes_on_until(5 * SECOND, is_down).unwrap();
        flow.change(|link| link.megabits = 45.0);
        let down = flow.goes_on_until(SECOND, |simulation| !is_down(simulation)).unwrap();
        let followed = flow.goes_on_until(5 * SECOND, |now| estimate(now) < 45.9).unwrap();
        flow.go_on(2 * SECOND);
        let stretch = flow.go_on(5 * SECOND);
        println!("Down {down:?}, followed within {followed:?}, {stretch:?}");
        // Sixteen units, and the wait for an acknowledgement.
        assert!(down < 180 * MS, "{down:?}");
        assert!(followed < SECOND, "{followed:?}");
        assert!(stretch.goodput > 0.98 * 45.0 && stretch.dropped <= 0.0, "{stretch:?}");
        assert!(stretch.queueing < 12 * MS, "{stretch:?}");
    });
}

// A.10
#[test]
fn a_route_that_has_become_longer_is_found_by_a_visit_to_probe_rtt() {
    with_every_profile(|profile| {
        let mut flow = Flow::in_probe_bw(Link::new(50.0, 40 * MS), profile, 2 * SECOND);
        flow.change(|link| link.round_trip = 60 * MS);
        let expires = flow.until(Phase::ProbeRtt, 20 * SECOND);
        let allowed = flow.0.sender.inflight_cap();
        let visit = flow.until(Phase::ProbeBw, SECOND);
        let min_rtt = flow.0.sender.min_rtt().unwrap();
        let stretch = flow.go_on(2 * SECOND);
        println!("behind {expires:?} for {visit:?}: {min_rtt:?}, {allowed} bytes, {stretch:?}");
        let after = profile.bbr.probe_rtt_after;
        assert!(expires + 100 * MS > after && expires < after + 100 * MS, "{expires:?}");
        // A part of a BDP of 250,000 bytes and of what waits for a TACK.
        let span = 375_000.0 * profile.bbr.probe_rtt_gain;
        assert!(allowed as f64 <= 1.02 * span, "{allowed}");
        assert!(visit >= 200 * MS && visit < 300 * MS, "{visit:?}");
        assert!(min_rtt >= 60 * MS && min_rtt < 61 * MS, "{min_rtt:?}");
        assert!(stretch.goodput > 0.97 * 50.0, "{stretch:?}");
    });
}

// A.11
#[test]
fn an_application_that_was_silent_for_longer_than_the_window_of_rtt_min_resumes_at_its_rate() {
    with_every_profile(|profile| {
        let mut flow = Flow::in_probe_bw(Link::new(50.0, 40 * MS), profile, 2 * SECOND);
        flow.0.is_silent = true;
        flow.go_on(15 * SECOND);
        assert_eq!(flow.0.sender.in_flight(), 0);
        flow.0.is_silent = false;
        let stretch = flow.go_on(2 * SECOND);
        println!("{stretch:?}");
        assert_eq!(stretch.phases, [Phase::ProbeBw], "no visit to ProbeRTT");
        assert!(stretch.goodput > 0.97 * 50.0 && stretch.dropped <= 0.0, "{stretch:?}");
        assert!(stretch.queueing < 12 * MS, "{stretch:?}");
    });
}

// A.12
#[test]
fn startup_finds_the_rate_of_a_path_that_delivers_in_batches() {
    with_every_profile(|profile| {
        for batch in [10 * MS, 20 * MS, 40 * MS] {
            let mut flow = Flow::new(Link { batch, ..deep(50.0, 40 * MS) }, profile);
            let startup = flow.until(Phase::ProbeBw, 3 * SECOND);
            let (found, cap) = (estimate(&flow.0), flow.0.sender.inflight_cap());
            println!("{batch:?}: {found:.1} Mbit/s behind {startup:?}, cap {cap}");
            assert!((46.0..51.0).contains(&found), "{batch:?}: {found:.1}");
            assert!(startup < 2 * SECOND, "{batch:?}: {startup:?}");
            assert!(cap > 500_000, "two BDP, {batch:?}: {cap}");
        }
    });
}

// A.13
#[test]
fn a_path_that_begins_to_deliver_in_batches_stays_full() {
    with_every_profile(|profile| {
        for (batch, least) in [(10 * MS, 0.95), (20 * MS, 0.9), (40 * MS, 0.95)] {
            let mut flow = Flow::in_probe_bw(deep(50.0, 40 * MS), profile, 2 * SECOND);
            let before = flow.0.sender.inflight_cap();
            flow.change(|link| link.batch = batch);
            let first = flow.go_on(SECOND);
            let then = flow.go_on(5 * SECOND);
            let after = flow.0.sender.inflight_cap();
            println!("{batch:?}: {before} and {after}, {first:?}, {then:?}");
            // The first batch is late.
            let in_time = least - batch.as_secs_f64();
            assert!(first.goodput > in_time * 50.0, "{batch:?}: {first:?}");
            assert!(then.goodput > least * 50.0, "{batch:?}: {then:?}");
            assert!(after >= before / 100 * 99, "{batch:?}: {after}");
            // What comes in longer intervals than TACKs needs more in flight.
            assert!(batch < 40 * MS || after > before + 250_000, "{batch:?}: {after}");
        }
    });
}

// A.14
#[test]
fn a_path_that_holds_less_than_a_packet_is_filled_with_a_few() {
    with_every_profile(|profile| {
        for megabits in [0.064, 0.256] {
            let mut flow = Flow::new(Link::new(megabits, 20 * MS), profile);
            flow.go_on(20 * SECOND);
            let stretch = flow.go_on(30 * SECOND);
            let found = estimate(&flow.0) / megabits;
            println!("{megabits} Mbit/s: {found:.3}, {stretch:?}");
            assert!(stretch.goodput > 0.97 * megabits, "{stretch:?}");
            assert!((0.95..1.05).contains(&found), "{found:.3}");
            assert!(stretch.least_cap >= 4 * PACKET, "{stretch:?}");
            assert!(stretch.most_in_flight <= 8 * PACKET, "{stretch:?}");
            assert!(stretch.dropped <= 0.0, "{stretch:?}");
        }
    });
}

// A.15
#[test]
fn a_path_that_becomes_ten_times_as_fast_is_found_in_one_series_of_probes() {
    with_every_profile(|profile| {
        let link = Link { buffer: 500_000, ..Link::new(10.0, 40 * MS) };
        let mut flow = Flow::in_probe_bw(link, profile, 2 * SECOND);
        flow.change(|link| link.megabits = 100.0);
        let begun = flow.goes_on_until(5 * SECOND, |now| estimate(now) > 11.5).unwrap();
        let found = flow.goes_on_until(5 * SECOND, |now| estimate(now) > 95.0).unwrap();
        let stretch = flow.go_on(2 * SECOND);
        println!("begun behind {begun:?}, found within {found:?}, {stretch:?}");
        // A cycle is longer at random by up to a third.
        assert!(begun < 3 * SECOND, "{begun:?}");
        assert!(found < 50 * 40 * MS, "{found:?}");
        assert!(stretch.goodput > 0.95 * 100.0, "{stretch:?}");
        assert!(stretch.queueing < 40 * MS, "{stretch:?}");
    });
}

// A.16
#[test]
fn a_path_that_becomes_ten_times_as_slow_is_followed() {
    with_every_profile(|profile| {
        for (buffer, most, lost) in [
            (20_000, 2 * SECOND, 2500),
            (500_000, 3 * SECOND, 1200),
            (2_000_000, 2 * SECOND, 0),
        ] {
            let link = Link { buffer, ..Link::new(100.0, 40 * MS) };
            let mut flow = Flow::in_probe_bw(link, profile, 2 * SECOND);
            flow.change(|link| link.megabits = 10.0);
            // `video` takes the newest reported rate, however low.
            let most = if profile == Profile::VIDEO { 200 * MS } else { most };
            let drops = dropped(&flow);
            let followed = flow.goes_on_until(most, |now| estimate(now) < 11.0);
            let drops = dropped(&flow) - drops;
            flow.go_on(2 * SECOND);
            let stretch = flow.go_on(3 * SECOND);
            println!("{buffer} bytes: {followed:?}, {drops} dropped, {stretch:?}");
            assert!(followed.is_some(), "{buffer} bytes");
            assert!(drops <= lost, "{buffer} bytes: {drops} dropped");
            assert!(stretch.goodput > 0.94 * 10.0, "{buffer} bytes: {stretch:?}");
            assert!(stretch.dropped < 0.05, "{buffer} bytes: {stretch:?}");
            assert!(stretch.queueing < 70 * MS, "{buffer} bytes: {stretch:?}");
        }
    });
}

// A.17
#[test]
fn what_a_policer_lets_through_is_used_and_what_it_drops_becomes_less() {
    with_every_profile(|profile| {
        for (burst, most) in [(30_000, 0.03), (125_000, 0.1)] {
            let policer = Some(Policer { megabits: 10.0, burst });
            let link = Link { policer, ..Link::new(100.0, 40 * MS) };
            let mut flow = Flow::in_probe_bw(link, profile, 10 * SECOND);
            let early = flow.go_on(10 * SECOND);
            flow.go_on(30 * SECOND);
            let late = flow.go_on(10 * SECOND);
            let found = estimate(&flow.0);
            println!("{burst} bytes: {found:.2} Mbit/s, {early:?}, {late:?}");
            for stretch in [&early, &late] {
                assert!((9.9..10.1).contains(&stretch.goodput), "{burst} bytes: {stretch:?}");
            }
            assert!(early.dropped < most, "{burst} bytes: {early:?}");
            assert!(late.dropped < 0.03, "{burst} bytes: {late:?}");
            assert!(found < 12.5, "{burst} bytes: {found:.2}");
        }
    });
}

// A.18
#[test]
fn packets_that_arrive_late_and_are_taken_for_lost_cost_no_rate() {
    with_every_profile(|profile| {
        let link = Link { reordering: (0.02, 30 * MS), ..Link::new(50.0, 40 * MS) };
        let mut flow = Flow::in_probe_bw(link, profile, 2 * SECOND);
        let stretch = flow.go_on(5 * SECOND);
        let stats = flow.0.sender.stats();
        println!("{} of {} are late, {stretch:?}", stats.spurious_losses, stats.lost_packets);
        assert!(stats.spurious_losses > 400, "{}", stats.spurious_losses);
        assert_eq!(stretch.phases, [Phase::ProbeBw]);
        assert!(stretch.goodput > 0.97 * 50.0, "{stretch:?}");
        assert!(stretch.queueing < 15 * MS, "{stretch:?}");
    });
}

// A.20
#[test]
fn a_startup_that_lasts_is_not_interrupted_by_probe_rtt() {
    with_every_profile(|profile| {
        let mut flow = Flow::new(Link::new(50.0, 40 * MS), profile);
        flow.offer(5.0);
        flow.go_on(SECOND);
        flow.change(|link| link.round_trip = 60 * MS);
        let stretch = flow.go_on(25 * SECOND);
        let min_rtt = flow.0.sender.min_rtt().unwrap();
        println!("{min_rtt:?}, {stretch:?}");
        assert_eq!(stretch.phases, [Phase::Startup]);
        // Twice the window of RTTmin have passed.
        assert!(min_rtt >= 60 * MS && min_rtt < 61 * MS, "{min_rtt:?}");
        flow.0.offered = None;
        let startup = flow.until(Phase::ProbeBw, SECOND);
        println!("{:.1} Mbit/s behind {startup:?}", estimate(&flow.0));
        assert!(estimate(&flow.0) > 45.0, "{}", estimate(&flow.0));
    });
}
