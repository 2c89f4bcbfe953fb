use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::pipe::{
    CoDelConfig, DualPi2Config, FqCoDelConfig, PipeConfig, QueueDiscipline, Reorder, Schedule,
};
use crate::{Arrival, Direction, Losses, Packet, Time};

use Direction::{Forward, Reverse};

/// At this rate a byte takes a microsecond.
const BYTE_A_MICRO: u64 = 8_000_000;
const END: Time = Time::from_nanos(u64::MAX);

fn micros(micros: u64) -> Time {
    Time::from_nanos(micros * 1000)
}

fn packet(flow: u32, size: u32) -> Packet {
    Packet::new(size, flow, Time::ZERO, Vec::new())
}

fn delay(millis: u64) -> PipeConfig {
    PipeConfig {
        delay: Schedule::constant(Duration::from_millis(millis)),
        ..PipeConfig::default()
    }
}

fn rate(rate_bps: u64) -> PipeConfig {
    PipeConfig::new(rate_bps, Duration::ZERO, u64::MAX)
}

fn duplex(forward: &PipeConfig, reverse: &PipeConfig) -> Duplex {
    Duplex::new(forward, reverse, 1).unwrap()
}

fn boxed(forward: &PipeConfig, reverse: &PipeConfig) -> BoxedLink {
    Box::new(duplex(forward, reverse))
}

/// Time, direction and flow of everything that is under way, asked for event by event.
fn drain(link: &mut impl Link) -> Vec<(Time, Direction, u32)> {
    let mut arrivals = Vec::new();
    while let Some(now) = link.next_event() {
        while let Some(Arrival { at, direction, packet }) = link.arrival(now) {
            assert!(at <= now);
            arrivals.push((at, direction, packet.flow));
        }
        assert!(link.next_event().is_none_or(|next| next > now));
    }
    arrivals
}

#[test]
fn the_directions_of_a_duplex_are_independent() {
    let mut link = duplex(&delay(10), &rate(BYTE_A_MICRO));
    link.send(Forward, packet(0, 1500), Time::ZERO);
    link.send(Reverse, packet(1, 1500), Time::ZERO);
    link.send(Reverse, packet(2, 1500), Time::ZERO);
    let expected =
        [(micros(1500), Reverse, 1), (micros(3000), Reverse, 2), (micros(10_000), Forward, 0)];
    assert_eq!(drain(&mut link), expected);
}

#[test]
fn equal_directions_of_a_duplex_lose_different_packets() {
    let lossy = PipeConfig { loss: 0.5, ..PipeConfig::default() };
    let mut link = duplex(&lossy, &lossy);
    for flow in 0..100 {
        link.send(Forward, packet(flow, 100), Time::ZERO);
        link.send(Reverse, packet(flow, 100), Time::ZERO);
    }
    let lost = [link.losses(Forward).random, link.losses(Reverse).random];
    assert!(lost.iter().all(|lost| *lost > 0));
    let arrivals = drain(&mut link);
    let of = |direction| {
        let arrivals = arrivals.iter().filter(move |arrival| arrival.1 == direction);
        arrivals.map(|arrival| arrival.2).collect::<Vec<_>>()
    };
    assert_ne!(of(Forward), of(Reverse));
}

#[test]
fn forward_comes_first_among_simultaneous_arrivals() {
    let mut link = duplex(&delay(5), &delay(5));
    link.send(Reverse, packet(0, 100), Time::ZERO);
    link.send(Forward, packet(1, 100), Time::ZERO);
    let expected = [(micros(5000), Forward, 1), (micros(5000), Reverse, 0)];
    assert_eq!(drain(&mut link), expected);
}

#[test]
fn a_wrong_parameter_is_reported_with_its_direction() {
    let wrong = PipeConfig { loss: 2.0, ..PipeConfig::default() };
    let error = Duplex::new(&PipeConfig::default(), &wrong, 1).unwrap_err();
    assert_eq!(error.field, "reverse.loss");
}

#[test]
fn the_delays_of_a_chain_add_up() {
    let mut chain =
        Chain::new(vec![boxed(&delay(1), &delay(10)), boxed(&delay(2), &delay(20))]);
    chain.send(Forward, packet(0, 100), Time::ZERO);
    chain.send(Reverse, packet(1, 100), Time::ZERO);
    let expected = [(micros(3000), Forward, 0), (micros(30_000), Reverse, 1)];
    assert_eq!(drain(&mut chain), expected);
}

#[test]
fn reverse_packets_cross_a_chain_from_its_end() {
    // Only the last hop is slow: in reverse, packets queue there first and then cross the
    // first one at their leisure.
    let fast = PipeConfig { buffer_bytes: 0, ..rate(2 * BYTE_A_MICRO) };
    let slow = rate(BYTE_A_MICRO);
    let mut chain = Chain::new(vec![boxed(&fast, &fast), boxed(&slow, &slow)]);
    chain.send(Forward, packet(0, 1000), Time::ZERO);
    chain.send(Forward, packet(1, 1000), Time::ZERO);
    chain.send(Reverse, packet(2, 1000), Time::ZERO);
    chain.send(Reverse, packet(3, 1000), Time::ZERO);
    let expected = [
        (micros(1500), Reverse, 2), // simultaneous: in the order of the hops
        (micros(1500), Forward, 0),
        (micros(2500), Reverse, 3),
    ];
    assert_eq!(drain(&mut chain), expected);
    let queue = |direction| chain.losses(direction).queue;
    assert_eq!((queue(Forward), queue(Reverse)), (1, 0));
}

#[test]
fn a_chain_without_links_is_a_wire() {
    let mut chain = Chain::new(Vec::new());
    for direction in Direction::ALL {
        chain.send(direction, packet(7, 100), micros(3));
        assert_eq!(drain(&mut chain), [(micros(3), direction, 7)]);
    }
}

#[test]
fn asking_late_changes_nothing_but_when_one_learns_of_it() {
    let lossy = PipeConfig { loss: 0.1, buffer_bytes: 3000, ..rate(BYTE_A_MICRO) };
    let arrivals = |asking: &mut dyn FnMut(&mut Chain, Time) -> Vec<Arrival>| {
        let slow = PipeConfig { buffer_bytes: 1500, ..rate(BYTE_A_MICRO / 2) };
        let mut chain = Chain::new(vec![boxed(&lossy, &slow), boxed(&slow, &lossy)]);
        let mut arrivals = Vec::new();
        for n in 0..200 {
            let now = micros(u64::from(n) * 400);
            arrivals.extend(asking(&mut chain, now));
            chain.send(if n % 3 == 0 { Reverse } else { Forward }, packet(n, 700), now);
        }
        arrivals.extend(std::iter::from_fn(|| chain.arrival(END)));
        arrivals
    };
    let never = arrivals(&mut |_, _| Vec::new());
    let always =
        arrivals(&mut |chain, now| std::iter::from_fn(|| chain.arrival(now)).collect());
    assert_eq!(never, always);
    assert!(never.len() > 50);
}

#[test]
fn every_flow_has_its_own_way_behind_the_shared_link() {
    let access = vec![duplex(&delay(1), &delay(10)), duplex(&delay(2), &delay(20))];
    let mut link = PerFlow::new(boxed(&delay(100), &delay(200)), access);
    for flow in 0..3 {
        link.send(Forward, packet(flow, 100), Time::ZERO);
        link.send(Reverse, packet(flow, 100), Time::ZERO);
    }
    let expected = [
        (micros(101_000), Forward, 0),
        (micros(102_000), Forward, 1),
        (micros(102_000), Forward, 2), // no way of its own: the last one
        (micros(210_000), Reverse, 0),
        (micros(220_000), Reverse, 1),
        (micros(220_000), Reverse, 2),
    ];
    assert_eq!(drain(&mut link), expected);
}

#[test]
fn flows_share_the_rate_in_front_of_their_own_ways() {
    let access = vec![duplex(&delay(1), &delay(1)), duplex(&delay(0), &delay(0))];
    let mut link = PerFlow::new(boxed(&rate(BYTE_A_MICRO), &delay(0)), access);
    link.send(Forward, packet(0, 500), Time::ZERO);
    link.send(Forward, packet(1, 500), Time::ZERO);
    assert_eq!(drain(&mut link), [(micros(1000), Forward, 1), (micros(1500), Forward, 0)]);
}

#[test]
fn without_own_ways_flows_cross_the_shared_link_alone() {
    let mut link = PerFlow::new(boxed(&delay(1), &delay(2)), Vec::new());
    link.send(Forward, packet(0, 100), Time::ZERO);
    link.send(Reverse, packet(0, 100), Time::ZERO);
    assert_eq!(drain(&mut link), [(micros(1000), Forward, 0), (micros(2000), Reverse, 0)]);
}

fn any_pipe() -> impl Strategy<Value = PipeConfig> {
    let queue = prop_oneof![
        Just(QueueDiscipline::DropTail),
        Just(QueueDiscipline::CoDel(CoDelConfig::default())),
        Just(QueueDiscipline::FqCoDel(FqCoDelConfig::default())),
        Just(QueueDiscipline::DualPi2(DualPi2Config::default())),
    ];
    (1_000_000_u64..50_000_000, 0_u64..5000, 0_u64..9000, 0.0..0.2, 0_u64..3000, queue)
        .prop_map(|(rate, delay, buffer, loss, late, queue)| PipeConfig {
            loss,
            queue,
            reorder: Some(Reorder { probability: 0.1, delay: Duration::from_micros(late) }),
            ..PipeConfig::new(rate, Duration::from_micros(delay), buffer)
        })
}

proptest! {
    #[test]
    fn a_chain_keeps_time_in_order_and_accounts_for_every_packet(
        hops in prop::collection::vec((any_pipe(), any_pipe()), 1..4),
        sends in prop::collection::vec((0_u64..2000, 1_u32..1500, any::<bool>()), 1..200),
    ) {
        let mut chain = Chain::new(hops.iter().map(|(f, r)| boxed(f, r)).collect());
        let mut now = Time::ZERO;
        let mut arrivals = Vec::new();
        let mut sent = [0_u64; 2];
        for (gap, size, forward) in sends {
            let until = now + Duration::from_micros(gap);
            while let Some(event) = chain.next_event().filter(|event| *event <= until) {
                prop_assert!(event >= now, "an event in the past");
                now = event;
                arrivals.extend(chain.arrival(now));
            }
            now = until;
            let direction = if forward { Forward } else { Reverse };
            sent[direction.index()] += 1;
            chain.send(direction, Packet { sent: now, ..packet(0, size) }, now);
        }
        arrivals.extend(std::iter::from_fn(|| chain.arrival(END)));
        prop_assert_eq!(chain.next_event(), None);
        prop_assert!(arrivals.is_sorted_by_key(|arrival| arrival.at));
        prop_assert!(arrivals.iter().all(|arrival| arrival.at >= arrival.packet.sent));
        for direction in Direction::ALL {
            let arrived = arrivals.iter().filter(|a| a.direction == direction).count() as u64;
            let Losses { queue, random, retries, prescribed } = chain.losses(direction);
            prop_assert_eq!((retries, prescribed), (0, 0));
            prop_assert_eq!(arrived + queue + random, sent[direction.index()]);
        }
    }
}
