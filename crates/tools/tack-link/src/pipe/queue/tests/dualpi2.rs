//! DualPI2 by RFC 9332.

use super::*;

const CLASSIC: u32 = 0;
const L4S: u32 = 1;
const PROBE: u32 = 2;

/// Small packets, of about a per cent of the rate.
fn probe(flow: u32, ecn: Ecn) -> Source {
    Source { flow, size: 50, every: micros(4100), ecn }
}

/// The share of a flow's packets that did not arrive.
fn lost_share(run: &Run, flow: u32, sent: u64) -> f64 {
    1.0 - run.of(flow, secs(0)).count() as f64 / sent as f64
}

/// Which of ten packets at once are marked.
fn marked_of_a_burst(ecn: Ecn) -> Vec<u32> {
    let mut pipe = pipe(dualpi2());
    for id in 0..10 {
        pipe.send(Packet::new(SIZE, id, Time::ZERO, Vec::new()).with_ecn(ecn), Time::ZERO);
    }
    let arrivals: Vec<_> = std::iter::from_fn(|| pipe.arrival(END)).collect();
    assert_eq!(arrivals.len(), 10);
    let marked = arrivals.iter().filter(|(_, packet)| packet.ecn == Ecn::Ce);
    marked.map(|(_, packet)| packet.flow).collect()
}

#[test]
fn l4s_packets_that_waited_for_longer_than_the_ramp_are_marked() {
    // The second has waited for a millisecond, the middle of the ramp. Behind the last but one
    // only one is left.
    let mut marked = marked_of_a_burst(Ecn::Ect1);
    marked.retain(|id| *id != 1);
    assert_eq!(marked, (2..8).collect::<Vec<_>>());
    assert_eq!(marked_of_a_burst(Ecn::Ect0), []);
    assert_eq!(marked_of_a_burst(Ecn::NotEct), []);
}

/// The share of L4S packets that are marked after waiting so long with two more behind them.
fn marked_after(wait: Duration, config: DualPi2Config) -> f64 {
    const ROUNDS: u32 = 2000;
    let queue = QueueDiscipline::DualPi2(config);
    let mut pipe = Pipe::new(&super::config(queue, u64::MAX), 1).unwrap();
    let mut marked = 0;
    for round in 0..ROUNDS {
        // One packet keeps the link busy for as long as the next one is to wait.
        let now = Time::ZERO + millis(100) * round;
        let size = (RATE * wait.as_nanos() as u64 / 8_000_000_000) as u32;
        for (id, size) in [size, 50, 50, 50].into_iter().enumerate() {
            let packet = Packet::new(size, id as u32, now, Vec::new());
            pipe.send(packet.with_ecn(Ecn::Ect1), now);
        }
        let arrivals = std::iter::from_fn(|| pipe.arrival(now + millis(99)));
        marked += arrivals.filter(|(_, one)| one.flow == 1 && one.ecn == Ecn::Ce).count();
    }
    marked as f64 / f64::from(ROUNDS)
}

#[test]
fn the_marks_of_l4s_traffic_grow_along_a_ramp() {
    let usual = DualPi2Config::default();
    for (wait, share) in [(800, 0.0), (900, 0.25), (1000, 0.5), (1100, 0.75), (1200, 1.0)] {
        let marked = marked_after(micros(wait), usual);
        assert!((marked - share).abs() < 0.04, "{marked} after {wait} us, not {share}");
    }
    let step = DualPi2Config { min_threshold: millis(1), ramp_range: Duration::ZERO, ..usual };
    let marked = [millis(1), micros(1001)].map(|wait| marked_after(wait, step).to_bits());
    assert_eq!(marked, [0.0_f64, 1.0].map(f64::to_bits));
}

#[test]
fn the_defaults_are_those_that_the_rfc_derives_from_the_worst_round_trip_time() {
    let usual = DualPi2Config::default();
    let worst = 0.1;
    let interval = usual.target.as_secs_f64().min(worst / 3.0);
    assert!((usual.update_interval.as_secs_f64() - interval).abs() < 1e-9);
    assert!((usual.alpha_hz - 0.1 * interval / (worst * worst)).abs() < 1e-9);
    assert!((usual.beta_hz - 0.3 / worst).abs() < 1e-9);
}

#[test]
fn a_small_coupling_leaves_ecn_on_until_everything_would_be_marked() {
    let config = DualPi2Config { coupling: 0.5, ..DualPi2Config::default() };
    let queue = QueueDiscipline::DualPi2(config);
    let lost = |permille| {
        let mut pipe = Pipe::new(&super::config(queue, u64::MAX), 1).unwrap();
        let sources = [Source::of_load(CLASSIC, permille, Ecn::Ect0)];
        let run = Run::new(&mut pipe, &sources, secs(60));
        lost_share(&run, CLASSIC, run.sent[0])
    };
    // A load that marks do not slow down drives p' up to 1, and the queue has to drop then.
    let lost = lost(1500);
    assert!((0.25..0.4).contains(&lost), "{lost}");
}

#[test]
fn classic_traffic_is_held_at_the_target_and_l4s_traffic_does_not_wait_for_it() {
    let sources = [Source::of_load(CLASSIC, 1200, Ecn::NotEct), probe(L4S, Ecn::Ect1)];
    let run = Run::new(&mut pipe(dualpi2()), &sources, secs(60));
    let (classic, l4s) = (run.mean_ms(CLASSIC, secs(20)), run.max_ms(L4S, secs(0)));
    assert!((13.0..17.0).contains(&classic), "{classic} ms");
    // The packet that is being sent, and one that the weighted scheduler owes Classic traffic.
    assert!(l4s <= 2.0, "{l4s} ms");
}

#[test]
fn l4s_marks_are_twice_the_square_root_of_classic_losses() {
    for permille in [1050, 1100, 1200] {
        let sources = [
            Source::of_load(CLASSIC, permille, Ecn::NotEct),
            probe(L4S, Ecn::Ect1),
            probe(PROBE, Ecn::Ect0),
        ];
        let run = Run::new(&mut pipe(dualpi2()), &sources, secs(200));
        let lost = lost_share(&run, CLASSIC, run.sent[0]);
        let coupled = run.marked_share(L4S, secs(0));
        let expected = 2.0 * lost.sqrt();
        assert!((coupled / expected - 1.0).abs() < 0.03, "{coupled}, not {expected}");
        // Classic packets with ECN are marked as often as those without are dropped.
        let marked = run.marked_share(PROBE, secs(0));
        assert!((marked / lost - 1.0).abs() < 0.1, "{marked}, not {lost}");
        // The controller begins with an overshoot, which may turn ECN off for a moment, and the
        // last packets may still wait.
        let dropped = lost_share(&run, PROBE, run.sent[2]);
        assert!(dropped < 2e-3, "{dropped} of the probes were dropped at {permille}");
        assert!(lost_share(&run, L4S, run.sent[1]) < 1e-3, "an L4S packet was dropped");
    }
}

#[test]
fn l4s_traffic_cannot_starve_classic_traffic() {
    let mut pipe = pipe(dualpi2());
    for (flow, ecn) in [(CLASSIC, Ecn::NotEct), (L4S, Ecn::Ect1)] {
        for _ in 0..1000 {
            let packet = Packet::new(SIZE, flow, Time::ZERO, Vec::new());
            pipe.send(packet.with_ecn(ecn), Time::ZERO);
        }
    }
    // Before the controller has seen anything.
    let classic_of_first: Vec<_> =
        (0..100).map(|_| pipe.arrival(END).unwrap().1.flow).collect();
    let served = classic_of_first.iter().filter(|flow| **flow == CLASSIC).count();
    assert!((9..=12).contains(&served), "{served} of 100");
}

#[test]
fn overload_by_l4s_traffic_is_met_with_drops_and_leaves_classic_traffic_its_share() {
    let sources =
        [Source::of_load(L4S, 2000, Ecn::Ect1), Source::of_load(CLASSIC, 100, Ecn::NotEct)];
    let run = Run::new(&mut pipe(dualpi2()), &sources, secs(60));
    let delay = run.mean_ms(L4S, secs(20));
    assert!((10.0..20.0).contains(&delay), "{delay} ms");
    let l4s = lost_share(&run, L4S, run.sent[0]);
    let classic = lost_share(&run, CLASSIC, run.sent[1]);
    assert!((l4s - classic).abs() < 0.05, "{l4s} and {classic} lost");
    assert!(run.marked_share(L4S, secs(20)) > 0.99);
}

#[test]
fn ecn_is_off_for_classic_traffic_in_overload() {
    let sources = [Source::of_load(CLASSIC, 1500, Ecn::Ect0)];
    let run = Run::new(&mut pipe(dualpi2()), &sources, secs(60));
    let lost = lost_share(&run, CLASSIC, run.sent[0]);
    assert!((lost - 1.0 / 3.0).abs() < 0.01, "{lost}");
    assert!(run.mean_ms(CLASSIC, secs(20)) < 20.0);
}

#[test]
fn ce_and_ect1_are_l4s_and_come_first() {
    let mut pipe = pipe(dualpi2());
    for ecn in [Ecn::NotEct, Ecn::Ect0, Ecn::NotEct, Ecn::Ect1, Ecn::Ce] {
        let packet = Packet::new(SIZE, ecn.bits().into(), Time::ZERO, Vec::new());
        pipe.send(packet.with_ecn(ecn), Time::ZERO);
    }
    let arrivals = std::iter::from_fn(|| pipe.arrival(END));
    let order: Vec<_> = arrivals.map(|(_, packet)| packet.flow).collect();
    // The first leaves at once. The first L4S packet earns Classic traffic a turn.
    assert_eq!(order, [0b00, 0b01, 0b10, 0b11, 0b00]);
}

#[test]
fn a_long_rest_takes_the_probability_away_and_no_time_to_compute() {
    let mut pipe = pipe(dualpi2());
    let sources = [Source::of_load(CLASSIC, 1500, Ecn::NotEct)];
    assert!(Run::new(&mut pipe, &sources, secs(10)).drops.len() > 1000);
    let much_later = Time::ZERO + secs(500 * 365 * 86_400);
    while pipe.arrival(Time::ZERO + secs(20)).is_some() {}
    let before = pipe.losses().total();
    for id in 0..15 {
        pipe.send(Packet::new(SIZE, id, much_later, Vec::new()), much_later);
    }
    assert_eq!(std::iter::from_fn(|| pipe.arrival(END)).count(), 15);
    assert_eq!(pipe.losses().total(), before);
}
