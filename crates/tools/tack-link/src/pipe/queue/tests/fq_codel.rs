//! FQ-CoDel by RFC 8290.

use super::*;

const BULK: u32 = 0;
const SPARSE: u32 = 1;

fn sparse() -> Source {
    Source { flow: SPARSE, size: 100, every: millis(20), ecn: Ecn::NotEct }
}

#[test]
fn a_sparse_flow_does_not_wait_for_a_bulk_flow() {
    let sources = [Source::of_load(BULK, 1500, Ecn::NotEct), sparse()];
    let shared = Run::new(&mut pipe(codel()), &sources, secs(20));
    let isolated = Run::new(&mut pipe(fq_codel()), &sources, secs(20));
    // At the very start the bulk flow is as new as the other.
    let (alone, behind) = (isolated.max_ms(SPARSE, secs(1)), shared.mean_ms(SPARSE, secs(1)));
    // The packet that is being sent, and no more.
    assert!(alone <= 1.0, "{alone} ms");
    assert!(behind > 5.0, "{behind} ms");
    assert_eq!(isolated.of(SPARSE, secs(0)).count() as u64, isolated.sent[1], "none lost");
}

#[test]
fn bulk_flows_share_the_rate_evenly_whatever_the_size_of_their_packets() {
    let large = Source { size: 1500, ..Source::of_load(0, 1250, Ecn::NotEct) };
    let small = Source { flow: 1, size: 300, every: micros(200), ecn: Ecn::Ect0 };
    let run = Run::new(&mut pipe(fq_codel()), &[large, small], secs(30));
    let (large, small) = (run.bytes(0, secs(5)), run.bytes(1, secs(5)));
    assert!((large / small - 1.0).abs() < 0.01, "{large} and {small} bytes");
    let rate = (large + small) * 8.0 / 25.0;
    assert!((rate / RATE as f64 - 1.0).abs() < 0.01, "{rate} bit/s");
}

#[test]
fn a_flow_that_asks_for_less_than_its_share_gets_all_of_it() {
    let bulk = |flow| Source::of_load(flow, 800, Ecn::NotEct);
    let modest = Source::of_load(7, 250, Ecn::NotEct);
    let run = Run::new(&mut pipe(fq_codel()), &[bulk(0), bulk(1), modest], secs(20));
    assert!(run.of(7, secs(0)).count() as u64 + 1 >= run.sent[2]);
    assert!(run.max_ms(7, secs(0)) < 6.0, "{}", run.max_ms(7, secs(0)));
}

#[test]
fn the_longest_queue_gives_way_when_the_memory_is_full() {
    let mut pipe = Pipe::new(&config(fq_codel(), 50 * u64::from(SIZE)), 1).unwrap();
    let sources = [Source::of_load(BULK, 4000, Ecn::Ect0), sparse()];
    let run = Run::new(&mut pipe, &sources, secs(5));
    assert!(run.drops.len() > 1000, "{}", run.drops.len());
    assert_eq!(run.of(SPARSE, secs(0)).count() as u64, run.sent[1], "none of the sparse flow");
    assert!(run.max_ms(BULK, secs(0)) <= 50.0, "{}", run.max_ms(BULK, secs(0)));
}

#[test]
fn half_of_the_longest_queue_is_dropped_from_its_head() {
    let mut pipe = Pipe::new(&config(fq_codel(), 40 * u64::from(SIZE)), 1).unwrap();
    // One is being sent, 40 fit, and the next is one too many: 20 of 41 have to go.
    for id in 0..42 {
        pipe.send(Packet::new(SIZE, BULK, Time::from_nanos(id), Vec::new()), Time::ZERO);
    }
    assert_eq!(pipe.losses().queue, 20);
    let arrivals = std::iter::from_fn(|| pipe.arrival(END));
    let left: Vec<_> = arrivals.map(|(_, packet)| packet.sent.as_nanos()).collect();
    assert_eq!(left, [&[0][..], &(21..42).collect::<Vec<_>>()].concat());
}

#[test]
fn flows_are_served_one_quantum_after_the_other() {
    let mut pipe = pipe(fq_codel());
    for flow in [0, 0, 0, 1, 1, 1, 2] {
        pipe.send(Packet::new(1500, flow, Time::ZERO, Vec::new()), Time::ZERO);
    }
    let arrivals = std::iter::from_fn(|| pipe.arrival(END));
    let order: Vec<_> = arrivals.map(|(_, packet)| packet.flow).collect();
    // The first packet leaves at once, with 14 bytes of its flow's quantum left for the second.
    assert_eq!(order, [0, 0, 1, 1, 2, 0, 1]);
}
