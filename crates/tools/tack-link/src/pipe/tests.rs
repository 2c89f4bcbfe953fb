mod jitter;
mod recorded;

use proptest::prelude::*;

use super::*;

const MBPS: u64 = 1_000_000;
/// At this rate a byte takes a microsecond.
const BYTE_A_MICRO: u64 = 8 * MBPS;

fn micros(micros: u64) -> Time {
    Time::from_nanos(micros * 1000)
}

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn packet(id: u32, size: u32) -> Packet {
    Packet::new(size, id, Time::ZERO, Vec::new())
}

fn wire() -> PipeConfig {
    PipeConfig::default()
}

fn pipe(config: &PipeConfig) -> Pipe {
    Pipe::new(config, 1).unwrap()
}

/// Times of arrival and the packets' flows, of everything that is under way.
fn drain(pipe: &mut Pipe) -> Vec<(Time, u32)> {
    let arrivals = std::iter::from_fn(|| pipe.arrival(Time::from_nanos(u64::MAX)));
    arrivals.map(|(at, packet)| (at, packet.flow)).collect()
}

/// Sends `count` packets at once.
fn send_at_zero(pipe: &mut Pipe, count: u32, size: u32) {
    for id in 0..count {
        pipe.send(packet(id, size), Time::ZERO);
    }
}

/// Which of `count` packets arrive over a pipe of this configuration.
fn survivors(config: &PipeConfig, seed: u64, count: u32) -> Vec<u32> {
    let mut pipe = Pipe::new(config, seed).unwrap();
    send_at_zero(&mut pipe, count, 100);
    drain(&mut pipe).into_iter().map(|(_, id)| id).collect()
}

#[test]
fn a_pipe_that_bleaches_clears_the_ecn_field_of_what_leaves() {
    for (bleach_ecn, seen) in [(false, Ecn::Ect1), (true, Ecn::NotEct)] {
        let mut pipe = pipe(&PipeConfig { bleach_ecn, ..wire() });
        pipe.send(packet(0, 100).with_ecn(Ecn::Ect1), Time::ZERO);
        assert_eq!(pipe.arrival(Time::ZERO).map(|(_, packet)| packet.ecn), Some(seen));
    }
}

#[test]
fn a_packet_takes_its_serialisation_and_the_delay() {
    let mut pipe = pipe(&PipeConfig::new(BYTE_A_MICRO, millis(20), 0));
    pipe.send(packet(0, 1500), micros(7));
    assert_eq!(pipe.next_event(), Some(micros(7 + 1500 + 20_000)));
    assert_eq!(pipe.arrival(micros(21_506)), None);
    assert_eq!(pipe.arrival(micros(21_507)), Some((micros(21_507), packet(0, 1500))));
    assert_eq!(pipe.next_event(), None);
}

#[test]
fn a_rate_that_is_changed_counts_for_what_is_sent_from_then_on() {
    // 100 bytes take 100 µs, and twice as long afterwards.
    let mut pipe = pipe(&PipeConfig::new(BYTE_A_MICRO, millis(1), 1000));
    send_at_zero(&mut pipe, 3, 100);
    pipe.set_rate(&Schedule::constant(BYTE_A_MICRO / 2), micros(150)).unwrap();
    pipe.send(packet(3, 100), micros(150));
    pipe.send(packet(4, 100), micros(2000));
    let arrivals = [(1100, 0), (1200, 1), (1300, 2), (1500, 3), (3200, 4)];
    assert_eq!(drain(&mut pipe), arrivals.map(|(at, id)| (micros(at), id)));
}

#[test]
fn a_queue_that_decides_at_dequeue_sends_what_waits_at_the_rate_that_was_changed() {
    let queue = QueueDiscipline::CoDel(CoDelConfig::default());
    let config = PipeConfig { queue, ..PipeConfig::new(BYTE_A_MICRO, millis(1), 1000) };
    let mut pipe = pipe(&config);
    send_at_zero(&mut pipe, 3, 100);
    pipe.set_rate(&Schedule::constant(BYTE_A_MICRO / 2), micros(50)).unwrap();
    let arrivals = [(1100, 0), (1300, 1), (1500, 2)];
    assert_eq!(drain(&mut pipe), arrivals.map(|(at, id)| (micros(at), id)));
}

#[test]
fn a_delay_that_is_changed_counts_for_what_is_sent_from_then_on() {
    let mut pipe = pipe(&PipeConfig::new(BYTE_A_MICRO, millis(1), 1000));
    send_at_zero(&mut pipe, 2, 100);
    pipe.set_delay(Schedule::constant(millis(5)), micros(10)).unwrap();
    pipe.send(packet(2, 100), micros(10));
    let arrivals = [(1100, 0), (1200, 1), (5300, 2)];
    assert_eq!(drain(&mut pipe), arrivals.map(|(at, id)| (micros(at), id)));
}

#[test]
fn a_change_that_makes_no_sense_is_refused_and_changes_nothing() {
    let mut wire = pipe(&wire());
    assert!(wire.set_rate(&Schedule::constant(1), Time::ZERO).is_err(), "it has none");
    let mut pipe = pipe(&PipeConfig::new(BYTE_A_MICRO, millis(1), 1000));
    assert!(pipe.set_rate(&Schedule::constant(0), Time::ZERO).is_err());
    let long = Schedule::constant(MAX_DELAY + millis(1));
    assert!(pipe.set_delay(long, Time::ZERO).is_err());
    send_at_zero(&mut pipe, 1, 100);
    assert_eq!(drain(&mut pipe), [(micros(1100), 0)]);
}

#[test]
fn a_pipe_without_a_rate_adds_its_delay_only() {
    let mut pipe = pipe(&PipeConfig { delay: Schedule::constant(millis(3)), ..wire() });
    send_at_zero(&mut pipe, 2, u32::MAX);
    assert_eq!(drain(&mut pipe), [(micros(3000), 0), (micros(3000), 1)]);
}

#[test]
fn a_sustained_rate_is_exact_to_the_nanosecond() {
    // Divides nothing evenly.
    let rate: u64 = 77_777_777;
    let mut pipe = pipe(&PipeConfig::new(rate, Duration::ZERO, u64::MAX));
    let count = 64_815; // ten seconds of them
    send_at_zero(&mut pipe, count, 1500);
    let last = drain(&mut pipe).pop().unwrap().0;
    let bits = u128::from(count) * 1500 * 8;
    let exact = (bits * 1_000_000_000).div_ceil(rate.into());
    assert_eq!(u128::from(last.as_nanos()), exact);
    assert!(last > Time::from(Duration::from_secs(10)));
}

#[test]
fn the_queue_takes_exactly_its_size_besides_the_packet_being_sent() {
    let mut pipe = pipe(&PipeConfig::new(BYTE_A_MICRO, Duration::ZERO, 3000));
    send_at_zero(&mut pipe, 4, 1000);
    assert_eq!(pipe.losses(), Losses::default());
    pipe.send(packet(4, 1), Time::ZERO);
    assert_eq!(pipe.losses(), Losses { queue: 1, ..Losses::default() });

    // The second packet leaves the queue when the first has been sent.
    pipe.send(packet(5, 1), micros(999));
    assert_eq!(pipe.losses().queue, 2);
    pipe.send(packet(6, 1001), micros(1000));
    assert_eq!(pipe.losses().queue, 3);
    pipe.send(packet(7, 1000), micros(1000));
    assert_eq!(pipe.losses().queue, 3);
    let arrived: Vec<_> = drain(&mut pipe).into_iter().map(|(_, id)| id).collect();
    assert_eq!(arrived, [0, 1, 2, 3, 7]);
}

#[test]
fn an_idle_pipe_takes_a_packet_larger_than_its_queue() {
    let mut pipe = pipe(&PipeConfig::new(BYTE_A_MICRO, Duration::ZERO, 0));
    pipe.send(packet(0, 1500), Time::ZERO);
    pipe.send(packet(1, 1500), micros(1499));
    pipe.send(packet(2, 1500), micros(1500));
    assert_eq!(drain(&mut pipe), [(micros(1500), 0), (micros(3000), 2)]);
}

#[test]
fn losses_are_as_frequent_as_asked() {
    for loss in [0.0, 0.001, 0.05, 0.5, 1.0] {
        let count = 100_000;
        let config = PipeConfig { loss, ..wire() };
        let lost = f64::from(count) - survivors(&config, 1, count).len() as f64;
        let expected = f64::from(count) * loss;
        let deviation = (expected * (1.0 - loss)).sqrt();
        assert!((lost - expected).abs() <= 4.0 * deviation, "{lost} instead of {expected}");
    }
}

#[test]
fn no_more_packets_in_a_row_are_lost_than_allowed() {
    let run = |longest_run| {
        let config = PipeConfig { loss: 0.5, longest_run, ..wire() };
        let arrived = survivors(&config, 1, 1000);
        arrived.windows(2).map(|pair| pair[1] - pair[0] - 1).max().unwrap()
    };
    assert_eq!(run(Some(3)), 3);
    assert!(run(None) > 3);
}

#[test]
fn what_is_lost_at_random_takes_no_time_on_the_link() {
    let mut config = PipeConfig::new(BYTE_A_MICRO, Duration::ZERO, u64::MAX);
    config.loss = 0.5;
    let mut pipe = pipe(&config);
    send_at_zero(&mut pipe, 100, 1000);
    let lost = pipe.losses().random;
    assert!(lost > 0);
    assert_eq!(drain(&mut pipe).pop().unwrap().0, micros((100 - lost) * 1000));
}

#[test]
fn losses_follow_the_seed_and_nothing_else() {
    let lossy = PipeConfig { loss: 0.3, ..wire() };
    let usual = survivors(&lossy, 1, 500);
    assert_ne!(survivors(&lossy, 2, 500), usual);

    // Neither sizes and times of sending,
    let mut pipe = Pipe::new(&lossy, 1).unwrap();
    for id in 0..500 {
        pipe.send(packet(id, id), micros(u64::from(id) * 33));
    }
    let arrived: Vec<_> = drain(&mut pipe).into_iter().map(|(_, id)| id).collect();
    assert_eq!(arrived, usual);

    // nor what else chance does, where it does not lose packets itself.
    let busy = PipeConfig {
        reorder: Some(Reorder { probability: 0.5, delay: millis(1) }),
        duplicate: 0.5,
        ..lossy
    };
    let mut arrived = survivors(&busy, 1, 500);
    arrived.sort_unstable();
    arrived.dedup();
    assert_eq!(arrived, usual);
}

#[test]
fn bursts_of_loss_are_as_long_and_as_frequent_as_asked() {
    let (p, r) = (0.01, 0.2);
    let model = GilbertElliott { p, r, loss_good: 0.0, loss_bad: 1.0 };
    let config = PipeConfig { gilbert_elliott: Some(model), ..wire() };
    let count = 400_000;
    let arrived = survivors(&config, 3, count);
    let lost = f64::from(count) - arrived.len() as f64;
    let bursts = arrived.windows(2).filter(|pair| pair[1] - pair[0] > 1).count() as f64;
    // Some 3800 bursts of a length whose deviation is about its mean: 5 % is 3 deviations.
    assert!((lost / bursts * r - 1.0).abs() < 0.05, "{} packets a burst", lost / bursts);
    let share = lost / f64::from(count);
    assert!((share / (p / (p + r)) - 1.0).abs() < 0.08, "{share} lost");
}

#[test]
fn a_link_in_the_bad_state_may_lose_some_packets_only() {
    let model = GilbertElliott { p: 1.0, r: 0.0, loss_good: 1.0, loss_bad: 0.25 };
    let arrived = survivors(&PipeConfig { gilbert_elliott: Some(model), ..wire() }, 1, 40_000);
    assert_ne!(arrived[0], 0, "begins in the good state, which loses all");
    assert!((arrived.len() as f64 / 40_000.0 - 0.75).abs() < 0.01);
}

#[test]
fn later_packets_overtake_those_that_take_longer() {
    let config = PipeConfig {
        reorder: Some(Reorder { probability: 0.1, delay: millis(5) }),
        delay: Schedule::constant(millis(1)),
        ..wire()
    };
    let mut pipe = pipe(&config);
    for id in 0..1000 {
        pipe.send(packet(id, 100), Time::from(millis(id.into())));
    }
    let arrivals = drain(&mut pipe);
    assert!(arrivals.is_sorted_by_key(|(at, _)| *at));
    let delay = |(at, id): &(Time, u32)| at.since(Time::from(millis((*id).into())));
    let late = arrivals.iter().filter(|arrival| delay(arrival) == millis(6)).count();
    let usual = arrivals.iter().filter(|arrival| delay(arrival) == millis(1)).count();
    assert_eq!(late + usual, 1000);
    assert!((60..=140).contains(&late), "{late}");
    assert!(!arrivals.is_sorted_by_key(|(_, id)| *id));
}

#[test]
fn a_duplicate_follows_its_original_and_delays_nobody() {
    let mut config = PipeConfig::new(BYTE_A_MICRO, Duration::ZERO, 10_000);
    config.duplicate = 1.0;
    let mut pipe = pipe(&config);
    send_at_zero(&mut pipe, 2, 100);
    let expected = [(micros(100), 0), (micros(100), 0), (micros(200), 1), (micros(200), 1)];
    assert_eq!(drain(&mut pipe), expected);
    assert_eq!(pipe.duplicates(), 2);
}

#[test]
fn corruption_flips_exactly_one_bit_anywhere() {
    let mut pipe = pipe(&PipeConfig { corrupt: 1.0, ..wire() });
    for _ in 0..2000 {
        let bytes = vec![0; 20];
        pipe.send(Packet { bytes, ..packet(0, 48) }, Time::ZERO);
    }
    let mut flips = [0; 160];
    while let Some((_, packet)) = pipe.arrival(Time::ZERO) {
        let bits = |byte: u8| (0..8).map(move |bit| byte >> bit & 1);
        let bits: Vec<u8> = packet.bytes.iter().copied().flat_map(bits).collect();
        assert_eq!(bits.iter().map(|bit| u32::from(*bit)).sum::<u32>(), 1);
        flips[bits.iter().position(|bit| *bit == 1).unwrap()] += 1;
    }
    assert!(flips.iter().all(|count| (1..50).contains(count)), "{flips:?}");
}

#[test]
fn a_corrupted_packet_without_bytes_is_lost_but_uses_the_link() {
    let mut config = PipeConfig::new(BYTE_A_MICRO, Duration::ZERO, 10_000);
    config.corrupt = 0.5;
    let mut pipe = pipe(&config);
    send_at_zero(&mut pipe, 100, 100);
    let arrivals = drain(&mut pipe);
    assert_eq!(pipe.losses().random, 100 - arrivals.len() as u64);
    assert!((30..=70).contains(&arrivals.len()), "{}", arrivals.len());
    assert!(arrivals.iter().all(|(at, id)| *at == micros((u64::from(*id) + 1) * 100)));
}

#[test]
fn a_change_of_rate_counts_for_the_bits_that_are_still_to_be_sent() {
    let steps = vec![(Duration::ZERO, BYTE_A_MICRO), (millis(1), 2 * BYTE_A_MICRO)];
    let rate = Schedule::new(steps, None).unwrap();
    let mut pipe = pipe(&PipeConfig { rate_bps: Some(rate), ..wire() });
    send_at_zero(&mut pipe, 2, 1500);
    // 1000 bytes in the first millisecond, then two in a microsecond.
    assert_eq!(drain(&mut pipe), [(micros(1250), 0), (micros(2000), 1)]);
}

#[test]
fn an_outage_holds_the_queue_and_loses_what_does_not_fit() {
    let steps = vec![(millis(0), BYTE_A_MICRO), (millis(1), 0), (millis(500), BYTE_A_MICRO)];
    let rate = Schedule::new(steps, None).unwrap();
    let mut pipe = pipe(&PipeConfig { rate_bps: Some(rate), buffer_bytes: 2000, ..wire() });
    pipe.send(packet(0, 1500), Time::ZERO);
    for id in 1..4 {
        pipe.send(packet(id, 1000), Time::from(millis(400)));
    }
    assert_eq!(pipe.losses(), Losses { queue: 1, ..Losses::default() });
    let expected = [(micros(500_500), 0), (micros(501_500), 1), (micros(502_500), 2)];
    assert_eq!(drain(&mut pipe), expected);
}

#[test]
fn the_delay_is_that_of_the_moment_of_sending_and_never_reorders() {
    let steps = vec![(millis(0), millis(50)), (millis(10), millis(20))];
    let delay = Schedule::new(steps, None).unwrap();
    let mut pipe = pipe(&PipeConfig { delay, ..wire() });
    for at in [9, 10, 40] {
        pipe.send(packet(at, 100), Time::from(millis(at.into())));
    }
    let expected = [(micros(59_000), 9), (micros(59_000), 10), (micros(60_000), 40)];
    assert_eq!(drain(&mut pipe), expected);
}

#[test]
fn a_pipe_that_cannot_be_is_refused() {
    let rate = |steps: &[(u64, u64)], period: Option<u64>| {
        let steps = steps.iter().map(|&(at, rate)| (millis(at), rate)).collect();
        let rate_bps = Some(Schedule::new(steps, period.map(millis)).unwrap());
        PipeConfig { rate_bps, ..wire() }
    };
    let bursts = |p, loss_bad| {
        let model = GilbertElliott { p, r: 0.5, loss_good: 0.0, loss_bad };
        PipeConfig { gilbert_elliott: Some(model), ..wire() }
    };
    let reorder = |probability, delay| PipeConfig {
        reorder: Some(Reorder { probability, delay }),
        ..wire()
    };
    let jitter = |mean| PipeConfig { jitter: Some(Schedule::constant(mean)), ..wire() };
    let delay = Schedule::constant(Duration::from_secs(61));
    for (config, field, allowed) in [
        (rate(&[(0, 0)], None), "rate_bps", "above 0 in the end"),
        (rate(&[(0, 5), (1, 0)], None), "rate_bps", "above 0 in the end"),
        (rate(&[(0, 0), (1, 0)], Some(5)), "rate_bps", "above 0 in the end"),
        (rate(&[(0, MAX_RATE_BPS + 1)], None), "rate_bps", "up to 1000000000000"),
        (PipeConfig { delay, ..wire() }, "delay", "up to 60s"),
        (PipeConfig { loss: 1.1, ..wire() }, "loss", "0 to 1"),
        (PipeConfig { loss: f64::NAN, ..wire() }, "loss", "0 to 1"),
        (PipeConfig { duplicate: -0.1, ..wire() }, "duplicate", "0 to 1"),
        (PipeConfig { corrupt: 2.0, ..wire() }, "corrupt", "0 to 1"),
        (bursts(2.0, 1.0), "gilbert_elliott.p", "0 to 1"),
        (bursts(0.5, -1.0), "gilbert_elliott.loss_bad", "0 to 1"),
        (reorder(3.0, millis(1)), "reorder.probability", "0 to 1"),
        (reorder(0.1, millis(60_001)), "reorder.delay", "up to 60s"),
        (jitter(Duration::from_micros(999)), "jitter", "0, or 1 to 91 ms"),
        (jitter(millis(92)), "jitter", "0, or 1 to 91 ms"),
    ] {
        let error = Pipe::new(&config, 1).unwrap_err();
        assert_eq!(error.field, field, "{error}");
        assert!(error.allowed.contains(allowed), "{error}");
    }
    assert!(Pipe::new(&rate(&[(0, 5), (1, 0)], Some(5)), 1).is_ok(), "an outage that ends");
}

proptest! {
    #[test]
    fn nothing_appears_or_vanishes_unaccounted_for(
        sends in prop::collection::vec((0_u64..3000, 1_u32..2000), 1..200),
        seed: u64,
        (loss, duplicate, corrupt) in (0.0..0.3, 0.0..0.3, 0.0..0.3),
        buffer_bytes in 0_u64..20_000,
    ) {
        let mut config = PipeConfig::new(BYTE_A_MICRO, millis(3), buffer_bytes);
        config.reorder = Some(Reorder { probability: 0.1, delay: millis(2) });
        (config.loss, config.duplicate, config.corrupt) = (loss, duplicate, corrupt);
        let mut pipe = Pipe::new(&config, seed).unwrap();
        let mut now = Time::ZERO;
        for (gap, size) in &sends {
            now = now + Duration::from_micros(*gap);
            pipe.send(packet(0, *size), now);
        }
        let arrivals = drain(&mut pipe);
        prop_assert!(arrivals.is_sorted());
        let taken = sends.len() as u64 + pipe.duplicates();
        prop_assert_eq!(arrivals.len() as u64 + pipe.losses().total(), taken);
    }
}
