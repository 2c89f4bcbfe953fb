//! Delay that varies as on Wi-Fi.

use super::*;

/// (1 - 1/e)/2 ms: what the uniform part takes off the nominal mean.
const TAKEN_OFF_MS: f64 = 0.316;

fn jittery(steps: &[(u64, u64)]) -> PipeConfig {
    let steps = steps.iter().map(|&(at, mean)| (millis(at), millis(mean))).collect();
    PipeConfig { jitter: Some(Schedule::new(steps, None).unwrap()), ..wire() }
}

/// How late packets are, in ms, that are sent at this distance.
fn delays_ms(config: &PipeConfig, count: u32, gap: Duration) -> Vec<f64> {
    let mut pipe = pipe(config);
    let mut delays = Vec::new();
    for id in 0..count {
        let now = Time::ZERO + gap * id;
        pipe.send(Packet { sent: now, ..packet(id, 100) }, now);
        while let Some((at, packet)) = pipe.arrival(now) {
            assert_eq!(packet.flow as usize, delays.len(), "out of order");
            delays.push(at.since(packet.sent).as_secs_f64() * 1e3);
        }
    }
    delays
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

#[test]
fn the_mean_is_the_configured_one_less_the_uniform_part() {
    // So far apart that none waits for the one before.
    for nominal in [1, 7, 12, 40, 91] {
        let delays = delays_ms(&jittery(&[(0, nominal)]), 250_000, millis(1000));
        let (measured, nominal) = (mean(&delays), nominal as f64);
        let expected = nominal - TAKEN_OFF_MS;
        assert!((measured / expected - 1.0).abs() < 0.03, "{measured}, not {expected} ms");
        assert!(nominal < 7.0 || (measured / nominal - 1.0).abs() < 0.07, "{measured} ms");
    }
}

#[test]
fn some_packets_are_held_up_for_long_and_most_for_a_millisecond_or_two() {
    let delays = delays_ms(&jittery(&[(0, 7)]), 100_000, millis(1000));
    let share = |range: std::ops::Range<f64>| {
        delays.iter().filter(|delay| range.contains(delay)).count() as f64 / 1e5
    };
    // (7 - 1)/90 of them, by 90 ms on average.
    assert!((share(15.0..1e3) - 6.0 / 90.0).abs() < 0.003, "{}", share(15.0..1e3));
    // N1 is 0 for 1/e of the others, and at most 2 for 5/(2e).
    let others = 84.0 / 90.0;
    let close = |share: f64, expected: f64| (share - expected * others).abs() < 0.006;
    assert!(close(share(0.0..1e-9), 0.3679), "{}", share(0.0..1e-9));
    assert!(close(share(0.0..2.0), 0.9197), "{}", share(0.0..2.0));
}

#[test]
fn packets_stay_in_order_however_close_they_follow_each_other() {
    let delays = delays_ms(&jittery(&[(0, 12)]), 20_000, Duration::from_micros(500));
    assert!(mean(&delays) > 12.0, "those behind a late one wait for it: {}", mean(&delays));
}

#[test]
fn the_mean_is_that_of_the_moment_of_sending() {
    let config = jittery(&[(0, 0), (10_000_000, 12), (20_000_000, 0)]);
    let delays = delays_ms(&config, 30_000, millis(1000));
    assert!(delays[..10_000].iter().all(|delay| *delay == 0.0));
    assert!((mean(&delays[10_000..20_000]) / 11.68 - 1.0).abs() < 0.1);
    assert!(delays[20_000..].iter().all(|delay| *delay == 0.0));
}

#[test]
fn jitter_leaves_what_else_chance_does_as_it_was() {
    let lossy = PipeConfig { loss: 0.3, duplicate: 0.2, ..wire() };
    let jittery = PipeConfig { jitter: jittery(&[(0, 7)]).jitter, ..lossy.clone() };
    assert_eq!(survivors(&jittery, 1, 500), survivors(&lossy, 1, 500));
}
