//! Sender and receiver over a link of `tack-link` in virtual time: the control loop without
//! quiche, sockets or clocks, with the constants of every profile. Deterministic
//! for a seed, so rates may be asserted.

#![allow(clippy::unwrap_used)] // a simulation that goes wrong has failed

#[path = "bbr_draft/flows.rs"]
mod bbr_draft;
#[path = "control_loop/lying_peer.rs"]
mod lying_peer;
#[path = "control_loop/path.rs"]
mod path;

use std::time::{Duration, Instant};

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use tack_link::Direction;
use tack_proto::bandwidth::Bandwidth;
use tack_proto::ecn::EcnCodepoint;
use tack_proto::frame::{AckFrequency, Frame, Frames};
use tack_proto::profiles::Profile;
use tack_proto::receiver::{Received, Receiver, ReceiverConfig};
use tack_proto::sender::{Departure, Peer, Sender, SenderConfig};

use path::{Arrived, Link, Path, Policer};

const MS: Duration = Duration::from_millis(1);
const PACKET: u64 = 1250;
/// That of quiche, and RFC 9000's default.
const MAX_ACK_DELAY: Duration = Duration::from_millis(25);
/// In a data packet without a TIMESTAMP.
const NO_TIMESTAMP: u64 = u64::MAX;

/// What a run showed.
#[derive(Debug, Default)]
struct Outcome {
    /// Bytes that arrived in the measured time, over what the link could carry.
    utilisation: f64,
    /// When packets that arrived had been sent in the measured time, and how long they queued.
    queueing: Vec<(Duration, Duration)>,
    tacks: u64,
    iacks: u64,
    timestamps: u64,
    dropped: u64,
    min_rtt: Duration,
    /// When packets were sent in the measured time.
    sent: Vec<Duration>,
    most_in_flight: u64,
    /// The same in the measured time.
    most_in_flight_measured: u64,
    spurious: u64,
    skipped: u64,
}

impl Outcome {
    fn queueing_p95(&self) -> Duration {
        p95(&self.queueing)
    }
}

/// The 95th percentile of queueing delays.
fn p95(queueing: &[(Duration, Duration)]) -> Duration {
    let mut delays: Vec<_> = queueing.iter().map(|(_, delay)| *delay).collect();
    delays.sort_unstable();
    delays.get(delays.len() * 95 / 100).copied().unwrap_or_default()
}

struct Simulation {
    start: Instant,
    now: Instant,
    path: Path,
    sender: Sender,
    receiver: Receiver,
    /// When something is due that comes over no path.
    wake: Option<Instant>,
    next_pn: u64,
    /// When the QUIC stack's probe timer expires, and how often it has since the last
    /// acknowledgement (RFC 9002 section 6.2).
    probe_at: Instant,
    probes: u32,
    random: Pcg64Mcg,
    outcome: Outcome,
    arrived: u64,
    measure_from: Duration,
    /// What the application offers, megabits per second.
    offered: Option<f64>,
    /// The application has nothing to send.
    is_silent: bool,
    written: u64,
    /// The receiver reports its delivery rate times this.
    exaggeration: f64,
}

impl Simulation {
    fn new(link: Link, profile: Profile, seed: u64) -> Self {
        let start = epoch();
        let mut config = SenderConfig::new(profile, PACKET, seed);
        config.peer = Some(Peer::Tack { min_ack_delay: MS, max_ack_delay: MAX_ACK_DELAY });
        config.max_in_flight = 100_000_000;
        config.is_server = true;
        Self {
            start,
            now: start,
            path: Path::new(link, start, seed),
            sender: Sender::new(start, config, Some(link.round_trip)),
            receiver: Receiver::new(start, ReceiverConfig::new(MAX_ACK_DELAY)),
            wake: Some(start),
            next_pn: 0,
            probe_at: start,
            probes: 0,
            random: Pcg64Mcg::seed_from_u64(seed),
            outcome: Outcome::default(),
            arrived: 0,
            measure_from: Duration::from_secs(2),
            offered: None,
            is_silent: false,
            written: 0,
            exaggeration: 1.0,
        }
    }

    /// Runs for `time`; `change` may alter the link on the way.
    fn run(mut self, time: Duration, mut change: impl FnMut(Duration, &mut Link)) -> Outcome {
        while let Some(at) = self.next_event().filter(|at| *at <= self.start + time) {
            self.now = at;
            self.path.change(at, |link| change(at - self.start, link));
            self.step();
        }
        let measured = time.saturating_sub(self.measure_from);
        let possible = self.path.link().bytes_in(measured);
        self.outcome.utilisation = self.arrived as f64 / possible as f64;
        self.outcome.dropped = self.path.dropped();
        self.outcome.min_rtt = self.sender.min_rtt().unwrap();
        self.outcome.spurious = self.sender.stats().spurious_losses;
        self.outcome.skipped = self.sender.stats().skipped_packets;
        self.outcome
    }

    /// When something is due next.
    fn next_event(&self) -> Option<Instant> {
        [self.wake, self.path.next_event()].into_iter().flatten().min()
    }

    /// Wakes the simulation at `at`, unless something wakes it before: one wake-up is enough, if it
    /// is the earliest.
    fn wake_at(&mut self, at: Instant) {
        self.wake = Some(self.wake.map_or(at, |wake| wake.min(at)));
    }

    /// Does what is due now. Each arrival is answered before the next.
    fn step(&mut self) {
        if self.wake.is_some_and(|at| at <= self.now) {
            self.wake = None;
            self.turn();
        }
        while let Some(arrived) = self.path.arrival(self.now) {
            match arrived.direction {
                Direction::Forward => self.on_data(&arrived),
                Direction::Reverse => self.on_ack(&arrived.bytes),
            }
            self.turn();
        }
    }

    /// Both ends send what they may.
    fn turn(&mut self) {
        self.acknowledge();
        self.transmit();
        self.probe();
    }

    fn transmit(&mut self) {
        if self.is_silent {
            return self.sender.on_app_limited();
        }
        loop {
            if let Some(offered) = self.offered {
                let elapsed = (self.now - self.start).as_secs_f64();
                if self.written as f64 > offered * 125_000.0 * elapsed {
                    self.sender.on_app_limited();
                    let next = self.written as f64 / (offered * 125_000.0);
                    let at = self.start + Duration::from_secs_f64(next) + MS / 100;
                    return self.wake_at(at);
                }
            }
            if self.sender.is_inflight_limited() {
                return;
            }
            if !self.sender.may_send(self.now, true) {
                let at = self.sender.release_time();
                return self.wake_at(at);
            }
            self.send();
        }
    }

    fn send(&mut self) {
        if self.sender.wants_skip() {
            let random = self.random.random();
            self.sender.on_packet_skipped(self.now, self.next_pn, random);
            self.next_pn += 1;
        }
        let departure = self.sender.timestamp(self.now).map(|timestamp| timestamp.0);
        let update = self.sender.frequency_update();
        let pn = self.next_pn;
        self.next_pn += 1;
        self.written += PACKET;
        let leaving = Departure {
            packet_number: pn,
            bytes: PACKET as usize,
            ack_eliciting: true,
            path: None,
            is_probe: false,
            is_mtu_probe: false,
            update,
            has_timestamp: false,
        };
        self.sender.on_packet_sent(self.now, &leaving);
        if self.measuring() {
            self.outcome.timestamps += u64::from(departure.is_some());
            self.outcome.sent.push(self.now - self.start);
            let most = &mut self.outcome.most_in_flight_measured;
            *most = (*most).max(self.sender.in_flight());
        }
        let most = self.outcome.most_in_flight.max(self.sender.in_flight());
        self.outcome.most_in_flight = most;
        let mut bytes = Vec::from(pn.to_be_bytes());
        bytes.extend(departure.unwrap_or(NO_TIMESTAMP).to_be_bytes());
        if let Some(update) = update {
            update.encode(&mut bytes);
        }
        self.path.send(self.now, Direction::Forward, bytes);
        self.set_probe_timer();
    }

    /// What the QUIC stack sends, in flight or not, when nothing has been acknowledged for too
    /// long.
    fn probe(&mut self) {
        if self.sender.in_flight() == 0 {
            return;
        }
        if self.probe_at <= self.now {
            self.probes += 1;
            self.sender.on_probe_timeout();
            self.send();
        }
        self.wake_at(self.probe_at);
    }

    fn set_probe_timer(&mut self) {
        let smoothed = self.sender.smoothed_rtt().unwrap_or_default();
        let timeout = self.path.link().round_trip.max(smoothed) * 3 / 2 + MAX_ACK_DELAY;
        self.probe_at = self.now + timeout * 2_u32.pow(self.probes.min(10));
    }

    fn on_data(&mut self, arrived: &Arrived) {
        if self.measuring() {
            self.arrived += PACKET;
        }
        let sent = arrived.sent - self.start;
        if sent >= self.measure_from {
            self.outcome.queueing.push((sent, arrived.queueing));
        }
        let (pn, rest) = arrived.bytes.split_first_chunk().unwrap();
        let (departure, update) = rest.split_first_chunk().unwrap();
        let departure = u64::from_be_bytes(*departure);
        let received = Received {
            packet_number: u64::from_be_bytes(*pn),
            bytes: PACKET as usize,
            ack_eliciting: true,
            departure: (departure != NO_TIMESTAMP).then_some(departure),
            ends_stream: false,
            ecn: EcnCodepoint::NotEct,
        };
        self.receiver.on_packet(self.now, received);
        if !update.is_empty() {
            let Frame::AckFrequency(update) = decode(update) else { panic!("not an update") };
            self.receiver.on_frequency_update(&update);
        }
    }

    fn acknowledge(&mut self) {
        while let Some(due) = self.receiver.due(self.now) {
            let mut frames = Vec::new();
            assert!(self.receiver.write(self.now, due, 1200, &mut frames));
            self.path.send(self.now, Direction::Reverse, frames);
        }
        if let Some(at) = self.receiver.deadline() {
            self.wake_at(at.max(self.now));
        }
    }

    fn on_ack(&mut self, bytes: &[u8]) {
        self.probes = 0;
        self.set_probe_timer();
        match decode(bytes) {
            Frame::Tack(mut tack) => {
                lying_peer::exaggerate(&mut tack, self.exaggeration);
                self.sender.check_tack(self.now, &tack).unwrap();
                self.sender.on_tack(self.now, &tack);
                self.outcome.tacks += u64::from(self.measuring());
            }
            Frame::Iack(iack) => {
                self.sender.check_iack(self.now, &iack).unwrap();
                self.sender.on_iack(self.now, &iack);
                self.outcome.iacks += u64::from(self.measuring());
            }
            other => panic!("{other:?}"),
        }
    }

    fn measuring(&self) -> bool {
        self.now - self.start >= self.measure_from
    }
}

#[allow(clippy::disallowed_methods)] // an arbitrary instant to count from
fn epoch() -> Instant {
    Instant::now()
}

fn decode(bytes: &[u8]) -> Frame<'_> {
    Frames::new(bytes).next().unwrap().unwrap().frame
}

fn steady(_: Duration, _: &mut Link) {}

/// Runs a test for each profile, and names it where that fails.
fn with_every_profile(test: impl Fn(Profile)) {
    for profile in Profile::ALL {
        println!("profile {}", profile.name);
        test(profile);
    }
}

#[test]
fn links_from_one_megabit_to_a_gigabit_are_filled_without_a_standing_queue() {
    with_every_profile(|profile| {
        for (megabits, round_trip) in
            [(1.0, 200), (10.0, 20), (50.0, 40), (200.0, 100), (1000.0, 10)]
        {
            let link = Link::new(megabits, round_trip * MS);
            let outcome =
                Simulation::new(link, profile, 1).run(Duration::from_secs(12), steady);
            let p95 = outcome.queueing_p95();
            let context = format!(
                "{megabits} Mbit/s {round_trip} ms: {:.3}, p95 queue {p95:?}, {} TACKs, {} dropped, min {:?}",
                outcome.utilisation, outcome.tacks, outcome.dropped, outcome.min_rtt
            );
            println!("{context}");
            assert!(outcome.utilisation > 0.95, "{context}");
            assert!(p95 < link.round_trip / 2 + link.time_for(8 * PACKET), "{context}");
        }
    });
}

#[test]
fn probe_rtt_costs_its_time_and_not_the_estimate() {
    with_every_profile(|profile| {
        // On short paths the visit lasts longer than the bandwidth filter remembers.
        for (megabits, round_trip) in [(12.0, 4 * MS), (50.0, 10 * MS), (300.0, 80 * MS)] {
            let mut simulation = Simulation::new(Link::new(megabits, round_trip), profile, 5);
            simulation.measure_from = Duration::from_secs(9);
            // A path that gets longer never shows its first minimum again, which therefore expires.
            let longer =
                |time: Duration, link: &mut Link| link.round_trip = round_trip + time / 50_000;
            let outcome = simulation.run(Duration::from_secs(14), longer);
            assert!(outcome.utilisation > 0.92, "{megabits} Mbit/s: {}", outcome.utilisation);
        }
    });
}

#[test]
fn acknowledgements_keep_to_equation_four() {
    with_every_profile(|profile| {
        // At 50 Mbit/s the period counts, at 1 Mbit/s the packets, and where L packets take
        // longer than the receiver may wait, max_ack_delay.
        for megabits in [50.0, 1.0] {
            let link = Link::new(megabits, 40 * MS);
            let outcome =
                Simulation::new(link, profile, 1).run(Duration::from_secs(12), steady);
            let rate = Bandwidth::from_bytes_per_second(link.bytes_in(MS * 1000));
            let hertz = profile.frequency.hertz(rate, link.round_trip, PACKET);
            let most = hertz.max(1.0 / MAX_ACK_DELAY.as_secs_f64()) * 1.03;
            let measured = outcome.tacks as f64 / 10.0;
            println!(
                "{megabits} Mbit/s: {measured} Hz, equation (4) {hertz:.0} Hz, {} IACKs",
                outcome.iacks
            );
            assert!(measured <= most, "{megabits} Mbit/s: {measured} Hz");
            assert!(measured >= 0.9 * hertz, "{megabits} Mbit/s: {measured} Hz");
            assert!(outcome.utilisation > 0.9, "{}", outcome.utilisation);
            // The only holes are numbers skipped on purpose, one window or more apart.
            let skipped = outcome.skipped;
            assert!(outcome.iacks <= skipped, "{} IACKs, {skipped} skipped", outcome.iacks);
        }
    });
}

#[test]
fn random_loss_costs_what_it_takes_and_no_more() {
    with_every_profile(|profile| {
        for (loss, least) in [(0.01, 0.97), (0.05, 0.92), (0.10, 0.86)] {
            let link = Link { loss, ..Link::new(50.0, 40 * MS) };
            let outcome =
                Simulation::new(link, profile, 7).run(Duration::from_secs(20), steady);
            println!("loss {loss}: {:.3}, {} IACKs", outcome.utilisation, outcome.iacks);
            assert!(outcome.utilisation > least, "loss {loss}: {:.3}", outcome.utilisation);
            assert!(outcome.iacks > 0);
        }
    });
}

#[test]
fn more_loss_than_a_probe_makes_up_for_does_not_slow_the_sender() {
    with_every_profile(|profile| {
        for loss in [0.2, 0.3] {
            let link = Link { loss, ack_loss: loss, ..Link::new(50.0, 40 * MS) };
            let outcome =
                Simulation::new(link, profile, 7).run(Duration::from_secs(30), steady);
            println!("loss both ways {loss}: {:.3}", outcome.utilisation);
            let most = 1.0 - loss;
            assert!(
                outcome.utilisation > 0.9 * most,
                "loss {loss}: {:.3}",
                outcome.utilisation
            );
        }
    });
}

// TACK-6.2-16
#[test]
fn what_a_buffer_of_two_packets_drops_is_not_taken_for_the_paths_own_losses() {
    with_every_profile(|profile| {
        for (round_trip, loss) in [10, 40].into_iter().flat_map(|rtt| [(rtt, 0.0), (rtt, 0.1)])
        {
            let link = Link { buffer: 2 * PACKET, loss, ..Link::new(50.0, round_trip * MS) };
            let outcome =
                Simulation::new(link, profile, 7).run(Duration::from_secs(20), steady);
            let sent = outcome.sent.len() as f64;
            let dropped = outcome.dropped as f64 / sent;
            println!("{round_trip} ms, {loss}: {:.3}, {dropped:.4}", outcome.utilisation);
            let most = if loss > 0.0 { 0.06 } else { 0.02 };
            assert!(dropped < most, "{round_trip} ms, {loss}: {dropped:.4}");
            assert!(outcome.utilisation > 0.8 * (1.0 - loss), "{:.3}", outcome.utilisation);
        }
    });
}

#[test]
fn lost_acknowledgements_are_made_up_for_by_the_next() {
    with_every_profile(|profile| {
        // Without lost data there are no IACKs either to make up for a TACK.
        for (loss, ack_loss, least) in [(0.01, 0.1, 0.95), (0.01, 0.3, 0.9), (0.0, 0.3, 0.8)] {
            for seed in 1..=2 {
                let link = Link { loss, ack_loss, ..Link::new(50.0, 40 * MS) };
                let outcome =
                    Simulation::new(link, profile, seed).run(Duration::from_secs(20), steady);
                let (utilisation, spurious) = (outcome.utilisation, outcome.spurious);
                println!(
                    "loss {loss}, of ACKs {ack_loss}: {utilisation:.3}, {spurious} spurious"
                );
                assert!(
                    utilisation > least,
                    "{loss}, {ack_loss}, seed {seed}: {utilisation:.3}"
                );
                // An IACK that skips what a lost TACK reported must not make the sender
                // take all of it for lost: about 100,000 packets were sent.
                assert!(spurious < 100, "{loss}, {ack_loss}, seed {seed}: {spurious} spurious");
            }
        }
    });
}

#[test]
fn a_path_that_jitters_gets_more_timestamps_than_an_even_one() {
    with_every_profile(|profile| {
        let timestamps_per_tack = |ack_jitter| {
            let link = Link { ack_jitter, ..Link::new(50.0, 40 * MS) };
            let outcome =
                Simulation::new(link, profile, 1).run(Duration::from_secs(12), steady);
            outcome.timestamps as f64 / outcome.tacks as f64
        };
        let (even, jittering) =
            (timestamps_per_tack(Duration::ZERO), timestamps_per_tack(20 * MS));
        println!("{even} TIMESTAMPs for each TACK, {jittering} where the path jitters");
        assert!((2.5..=4.2).contains(&even), "{even}");
        assert!(jittering > 1.4 * even && jittering <= 8.4, "{jittering}");
    });
}

#[test]
fn the_minimum_round_trip_is_measured_through_a_queue() {
    with_every_profile(|profile| {
        let link = Link { buffer: 2_000_000, ..Link::new(50.0, 40 * MS) };
        let outcome = Simulation::new(link, profile, 1).run(Duration::from_secs(25), steady);
        let serialisation = link.time_for(PACKET);
        let error = outcome.min_rtt.saturating_sub(link.round_trip + serialisation);
        assert!(error < MS / 2, "{:?}", outcome.min_rtt);
    });
}

#[test]
fn a_link_that_halves_is_followed_and_one_that_doubles_too() {
    with_every_profile(|profile| {
        for (before, after) in [(40.0, 20.0), (20.0, 40.0)] {
            let link = Link { buffer: 400_000, ..Link::new(before, 40 * MS) };
            let mut simulation = Simulation::new(link, profile, 1);
            simulation.measure_from = Duration::from_secs(6);
            let outcome = simulation.run(Duration::from_secs(12), |at, link| {
                if at >= Duration::from_secs(4) {
                    link.megabits = after;
                }
            });
            println!(
                "{before} -> {after}: {:.3} {:?}",
                outcome.utilisation,
                outcome.queueing_p95()
            );
            assert!(
                outcome.utilisation > 0.94,
                "{before} -> {after}: {:.3}",
                outcome.utilisation
            );
            assert!(outcome.queueing_p95() < 25 * MS, "{:?}", outcome.queueing_p95());
        }
    });
}

#[test]
fn what_is_in_flight_is_bounded_however_deep_the_buffer() {
    with_every_profile(|profile| {
        let link = Link { buffer: 100_000_000, ..Link::new(10.0, 40 * MS) };
        let outcome = Simulation::new(link, profile, 1).run(Duration::from_secs(12), steady);
        // (2 + 1/4) BDP of 50 kB, and what a transient overestimate allows.
        assert!(outcome.most_in_flight < 150_000, "{}", outcome.most_in_flight);
    });
}

#[test]
fn a_receiver_that_falls_silent_stops_the_sender() {
    with_every_profile(|profile| {
        let link = Link { ack_loss: 1.0, ..Link::new(1000.0, 40 * MS) };
        let outcome = Simulation::new(link, profile, 1).run(Duration::from_secs(5), steady);
        // The initial window, and probes at ever longer intervals: six in five seconds.
        let most = (profile.bbr.initial_window_packets + 7) * PACKET;
        assert!(outcome.most_in_flight <= most, "{}", outcome.most_in_flight);
    });
}

#[test]
fn a_path_that_stands_still_is_waited_for_and_filled_without_a_queue() {
    with_every_profile(|profile| {
        let (pause, end) = (Duration::from_secs(5), 5 * MS * 1000 + 200 * MS);
        let deep = 2_000_000;
        let link = Link { pause: Some((pause, end)), buffer: deep, ..Link::new(50.0, 40 * MS) };
        let mut simulation = Simulation::new(link, profile, 1);
        // Three round trips later.
        simulation.measure_from = end + 120 * MS;
        let outcome = simulation.run(Duration::from_secs(8), steady);
        assert!(outcome.utilisation > 0.95, "{}", outcome.utilisation);
        // Probes alone take a quarter of a round trip. `Quick` reaches 8 to 22 ms over ten seeds.
        assert!(outcome.queueing_p95() < 25 * MS, "{:?}", outcome.queueing_p95());

        let mut simulation = Simulation::new(link, profile, 1);
        simulation.measure_from = Duration::from_secs(4);
        let outcome = simulation.run(end, steady);
        // A round trip until the last acknowledgement, and one with a wait for a TACK until
        // that was the last: 100 ms, some of them perhaps at a probe's rate. No more than the cap
        // in any case, which is 120 ms.
        let in_flight = outcome.most_in_flight_measured;
        assert!(in_flight < link.bytes_in(120 * MS), "{in_flight}");
    });
}

#[test]
fn an_application_that_sends_less_than_the_path_carries_meets_no_queue() {
    with_every_profile(|profile| {
        let link = Link::new(50.0, 40 * MS);
        let mut simulation = Simulation::new(link, profile, 1);
        simulation.offered = Some(5.0);
        let outcome = simulation.run(Duration::from_secs(12), steady);
        assert!((0.098..0.102).contains(&outcome.utilisation), "{}", outcome.utilisation);
        assert!(outcome.queueing_p95() < MS, "{:?}", outcome.queueing_p95());
        // 500 packets a second, L = 2, at most 100 Hz.
        assert!(outcome.tacks <= 1010, "{}", outcome.tacks);
    });
}

#[test]
fn the_same_seed_gives_the_same_run() {
    with_every_profile(|profile| {
        let run = || {
            let link = Link { loss: 0.03, ack_loss: 0.03, ..Link::new(50.0, 40 * MS) };
            let outcome =
                Simulation::new(link, profile, 42).run(Duration::from_secs(5), steady);
            (outcome.tacks, outcome.iacks, outcome.queueing, outcome.utilisation.to_bits())
        };
        assert_eq!(run(), run());
    });
}

/// The simulation speaks the wire format: an update is sent and read.
#[test]
fn updates_are_carried_as_frames() {
    let update = AckFrequency {
        sequence: 1,
        ack_eliciting_threshold: 1,
        requested_max_ack_delay_us: 10_000,
        reordering_threshold: 1,
    };
    let mut bytes = Vec::new();
    update.encode(&mut bytes);
    assert_eq!(decode(&bytes), Frame::AckFrequency(update));
}
