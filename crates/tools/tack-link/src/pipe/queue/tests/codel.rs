//! CoDel by RFC 8289.

use super::*;

/// A queue of `packets`, and then a constant load.
fn overloaded(queue: QueueDiscipline, packets: u32, permille: u64, ecn: Ecn) -> Run {
    let mut pipe = pipe(queue);
    for _ in 0..packets {
        pipe.send(Packet::new(SIZE, 9, Time::ZERO, Vec::new()).with_ecn(ecn), Time::ZERO);
    }
    Run::new(&mut pipe, &[Source::of_load(0, permille, ecn)], secs(60))
}

#[test]
fn a_standing_queue_comes_down_to_the_target_and_stays_near_it() {
    for permille in [1000, 1010, 1020] {
        let unmanaged = overloaded(QueueDiscipline::DropTail, 100, permille, Ecn::NotEct);
        assert!(unmanaged.mean_ms(0, secs(30)) > 95.0);
        let managed = overloaded(codel(), 100, permille, Ecn::NotEct);
        let (mean, max) = (managed.mean_ms(0, secs(30)), managed.max_ms(0, secs(30)));
        assert!((2.0..7.0).contains(&mean), "{permille} per mille: mean {mean} ms");
        assert!(max < 10.0, "{permille} per mille: {max} ms");
    }
}

#[test]
fn the_time_between_drops_is_the_interval_by_the_square_root_of_their_number() {
    for ecn in [Ecn::NotEct, Ecn::Ect0] {
        let run = overloaded(codel(), 0, 2000, ecn);
        let signals = if ecn == Ecn::NotEct { &run.drops } else { &run.marks };
        let mut expected = signals[0];
        for (count, pair) in (1_u32..200).zip(signals.windows(2)) {
            expected = expected + millis(100).div_f64(f64::from(count).sqrt());
            // It drops when a packet leaves: up to a millisecond later.
            let late = pair[1].since(expected);
            assert!(
                pair[1] >= expected - micros(1) && late <= micros(1001),
                "{count}: {late:?}"
            );
        }
    }
}

#[test]
fn the_first_drop_comes_an_interval_after_the_delay_has_reached_the_target() {
    let run = overloaded(codel(), 0, 2000, Ecn::NotEct);
    // At twice the rate, the delay grows by half a millisecond each millisecond.
    let first = run.drops[0];
    assert!((110..=112).contains(&(first.as_nanos() / 1_000_000)), "{first:?}");
}

#[test]
fn a_burst_that_drains_within_an_interval_loses_nothing() {
    let run = overloaded(codel(), 90, 100, Ecn::NotEct);
    assert_eq!(run.drops, []);
    assert!(run.max_ms(9, secs(0)) > 85.0);
}

#[test]
fn packets_with_ecn_are_marked_instead_and_marks_are_counted_once() {
    for ecn in [Ecn::Ect0, Ecn::Ect1] {
        let run = overloaded(codel(), 0, 1100, ecn);
        assert_eq!(run.drops, []);
        let ce = run.delivered.iter().filter(|one| one.packet.ecn == Ecn::Ce).count();
        assert!(ce > 100, "{ce}");
        // The last may still be on its way.
        assert!((ce..=ce + 1).contains(&run.marks.len()), "{} and {ce}", run.marks.len());
    }
    let run = overloaded(codel(), 0, 1100, Ecn::Ce);
    assert_eq!((run.drops.len(), run.marks.len()), (0, 0), "marked before");
}

#[test]
fn a_single_packet_may_wait_for_longer_than_the_target() {
    // A packet takes 60 ms here, so each of them waits for longer than the target.
    let slow = PipeConfig { queue: codel(), ..PipeConfig::new(200_000, millis(0), 10_000) };
    let mut pipe = Pipe::new(&slow, 1).unwrap();
    for at in 0..100_u64 {
        let now = Time::ZERO + millis(60 * at);
        pipe.send(Packet::new(1500, 0, now, Vec::new()), now);
        if at == 0 {
            pipe.send(Packet::new(1500, 0, now, Vec::new()), now);
        }
    }
    assert_eq!(std::iter::from_fn(|| pipe.arrival(END)).count(), 101);
}

#[test]
fn codel_that_is_never_late_sends_as_drop_tail_does_to_the_nanosecond() {
    let run = |queue, loss| {
        let steps = vec![(millis(0), 77_777_777), (millis(90), 0), (millis(97), 5_555_555)];
        let rate = crate::pipe::Schedule::new(steps, Some(millis(211))).unwrap();
        let mut config = config(queue, 9000);
        (config.rate_bps, config.loss, config.duplicate) = (Some(rate), loss, 0.1);
        let mut pipe = Pipe::new(&config, 5).unwrap();
        for id in 0..5000_u64 {
            let now = Time::ZERO + micros(id * 333);
            let size = 40 + (id * 7919 % 1461) as u32;
            pipe.send(Packet::new(size, id as u32, now, Vec::new()), now);
        }
        let arrivals = std::iter::from_fn(|| pipe.arrival(END));
        let arrivals: Vec<_> = arrivals.map(|(at, packet)| (at, packet.flow)).collect();
        (arrivals, pipe.losses())
    };
    let never = CoDelConfig { target: MAX_DELAY, interval: MAX_DELAY };
    for loss in [0.0, 0.1] {
        let (arrivals, losses) = run(QueueDiscipline::DropTail, loss);
        assert!(losses.queue > 100, "{losses:?}");
        assert_eq!(run(QueueDiscipline::CoDel(never), loss), (arrivals, losses));
    }
}
