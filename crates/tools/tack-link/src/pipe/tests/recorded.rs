//! Results are published with their seeds: those of a drop-tail queue never change.

use super::*;

/// A hash of every arrival: FNV-1a over time, flow and content.
fn fingerprint(arrivals: impl Iterator<Item = (Time, Packet)>) -> u64 {
    arrivals.fold(0xcbf2_9ce4_8422_2325, |hash, (at, packet)| {
        let content = packet.bytes.iter().map(|byte| u64::from(*byte));
        [at.as_nanos(), packet.flow.into(), packet.size.into()]
            .into_iter()
            .chain(content)
            .fold(hash, |hash: u64, word| (hash ^ word).wrapping_mul(0x0100_0000_01b3))
    })
}

/// Everything that a pipe can do to packets, at once.
fn everything() -> PipeConfig {
    let steps = vec![(millis(0), 9 * MBPS), (millis(300), 0), (millis(340), 4 * MBPS)];
    let delays = vec![(millis(0), millis(12)), (millis(150), millis(7))];
    PipeConfig {
        rate_bps: Some(Schedule::new(steps, Some(millis(700))).unwrap()),
        delay: Schedule::new(delays, Some(millis(400))).unwrap(),
        buffer_bytes: 12_000,
        loss: 0.02,
        gilbert_elliott: Some(GilbertElliott {
            p: 0.01,
            r: 0.3,
            loss_good: 0.0,
            loss_bad: 0.7,
        }),
        reorder: Some(Reorder { probability: 0.05, delay: millis(3) }),
        duplicate: 0.03,
        corrupt: 0.04,
        ..wire()
    }
}

#[test]
fn the_results_of_a_drop_tail_queue_are_those_recorded_for_the_seed() {
    let mut pipe = Pipe::new(&everything(), 2026).unwrap();
    let mut arrivals = Vec::new();
    let mut now = Time::ZERO;
    for id in 0..4000_u32 {
        now = now + Duration::from_micros(u64::from(id * id % 2111));
        let size = 60 + id * 7 % 1440;
        let bytes = if id % 5 == 0 { Vec::new() } else { vec![id as u8; 24] };
        pipe.send(Packet { bytes, ..packet(id, size) }, now);
        arrivals.extend(std::iter::from_fn(|| pipe.arrival(now)));
    }
    arrivals.extend(std::iter::from_fn(|| pipe.arrival(Time::from_nanos(u64::MAX))));
    let first: Vec<_> =
        arrivals.iter().take(4).map(|(at, packet)| (at.as_nanos(), packet.flow)).collect();
    assert_eq!(first, [(12_053_334, 0), (12_053_334, 0), (12_178_667, 2), (12_250_667, 3)]);
    assert_eq!(pipe.losses(), Losses { queue: 568, random: 186, ..Losses::default() });
    assert_eq!((pipe.duplicates(), pipe.corrupted(), arrivals.len()), (97, 110, 3343));
    assert_eq!(fingerprint(arrivals.into_iter()), 0xcd79_fbc7_2a7a_5401);
}
