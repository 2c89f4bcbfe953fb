//! What is too late is neither sent nor sent again.

#![allow(clippy::unwrap_used)] // a test that cannot be set up has failed

mod common;

use std::time::{Duration, Instant};

use common::*;
use tacklib::{Config, Connection, Profile};

const MS: Duration = Duration::from_millis(1);
/// The client's first unidirectional streams.
const FIRST: u64 = 2;
const SECOND: u64 = 6;
/// What the application resets late streams with.
const LATE: u64 = 77;

type Ends = Pair<Connection, Connection>;

fn config(change: impl Fn(&mut tacklib::TackConfig)) -> Config {
    let mut config = tack_config();
    config.enable_dgram(true, 100, 100);
    let mut tack = *config.tack();
    tack.deadline_error = LATE;
    change(&mut tack);
    config.set_tack(tack);
    config
}

fn pair_of(change: impl Fn(&mut tacklib::TackConfig)) -> Ends {
    let client = tack_client(&mut config(&change));
    let pair = Pair::new(client, tack_server(&mut config(&change)));
    let mut pair = pair.with_delay(20 * MS).with_rate(1);
    pair.handshake();
    pair.run_for(200 * MS);
    pair
}

fn pair() -> Ends {
    pair_of(|_| {})
}

fn expired(client: &mut Connection) -> Vec<u64> {
    std::iter::from_fn(|| client.stream_expired_next()).collect()
}

/// Reads a stream to its end: what came, and how it ended.
fn read_all(pair: &mut Ends, stream_id: u64) -> (usize, quiche::Result<bool>) {
    let (mut len, mut buffer) = (0, vec![0; 65536]);
    loop {
        match pair.server.stream_recv(stream_id, &mut buffer) {
            Ok((read, fin)) => {
                len += read;
                if fin {
                    return (len, Ok(true));
                }
            }
            Err(error) => return (len, Err(error)),
        }
    }
}

#[test]
fn what_is_unsent_at_the_deadline_is_dropped_and_its_room_is_free_at_once() {
    let mut pair = pair_of(|tack| tack.send_buffer = 100_000);
    pair.client.stream_priority(FIRST, 0, false).unwrap();
    assert_eq!(pair.client.write(FIRST, &pattern(100_000), true), 100_000);
    let deadline = Instant::now() + 100 * MS;
    pair.client.set_stream_deadline(FIRST, Some(deadline)).unwrap();
    pair.run_for(99 * MS);
    assert!(expired(&mut pair.client).is_empty());
    pair.run_for(2 * MS);
    assert_eq!(expired(&mut pair.client), [FIRST]);
    assert!(expired(&mut pair.client).is_empty(), "it is reported once");
    // A stream that is less urgent has the whole buffer, and is not held up.
    assert_eq!(pair.client.write(SECOND, &pattern(100_000), true), 100_000);
    pair.run_for(100 * MS);
    assert_eq!(read_all(&mut pair, FIRST).1, Err(quiche::Error::StreamReset(LATE)));
    let sent = pair.client.media_stats();
    assert_eq!((sent.expired_streams, sent.expired_datagrams), (1, 0));
    let mut len = 0;
    pair.run_until(|pair| {
        let (read, end) = read_all(pair, SECOND);
        len += read;
        end == Ok(true)
    });
    assert_eq!(len, 100_000);
}

#[test]
fn what_is_sent_and_lost_is_not_sent_again_behind_the_deadline() {
    // One packet, and all of them.
    for lost in [1, usize::MAX] {
        let mut pair = pair();
        let mut left = lost;
        pair.tamper_up(Box::new(move |datagram| {
            let is_lost = left > 0;
            left = left.saturating_sub(1);
            (!is_lost).then_some(datagram)
        }));
        assert_eq!(pair.client.write(FIRST, &pattern(3000), true), 3000);
        let deadline = Instant::now() + 40 * MS;
        pair.client.set_stream_deadline(FIRST, Some(deadline)).unwrap();
        pair.client.write(SECOND, &pattern(3000), true);
        pair.run_for(41 * MS);
        pair.tamper_up(Box::new(Some));
        pair.run_for(2000 * MS);
        assert_eq!(expired(&mut pair.client), [FIRST], "{lost}");
        let end = Err(quiche::Error::StreamReset(LATE));
        assert_eq!(read_all(&mut pair, FIRST), (0, end), "{lost}");
        assert_eq!(read_all(&mut pair, SECOND), (3000, Ok(true)), "{lost}");
    }
}

#[test]
fn what_arrives_in_time_does_not_expire_while_its_acknowledgement_is_on_its_way() {
    let mut pair = pair();
    // 3000 bytes take 24 ms, and 20 there and 20 back. A priority opens the stream.
    pair.client.stream_priority(FIRST, 0, false).unwrap();
    assert_eq!(pair.client.write(FIRST, &pattern(3000), true), 3000);
    let deadline = Instant::now() + 50 * MS;
    pair.client.set_stream_deadline(FIRST, Some(deadline)).unwrap();
    pair.run_for(1000 * MS);
    assert!(expired(&mut pair.client).is_empty());
    assert_eq!(read_all(&mut pair, FIRST), (3000, Ok(true)));
    assert!(pair.client.timeout_instant().is_none_or(|at| at > Instant::now()));
}

/// A stream that has left at its deadline, when the probe timer expires: it was lost, or its acknowledgements were.
fn probed(is_lost: bool) -> Ends {
    let mut pair = pair();
    pair.client.stream_priority(FIRST, 0, false).unwrap();
    if is_lost {
        pair.tamper_up(Box::new(|_| None));
    } else {
        pair.tamper_down(Box::new(|_| None));
    }
    pair.client.write(FIRST, &pattern(3000), true);
    pair.client.set_stream_deadline(FIRST, Some(Instant::now() + 50 * MS)).unwrap();
    pair.run_for(60 * MS);
    if !is_lost {
        assert_eq!(read_all(&mut pair, FIRST), (3000, Ok(true)));
    }
    let (before, _) = pair.packets();
    while pair.packets().0 == before {
        pair.run_for(MS);
    }
    pair.tamper_up(Box::new(Some));
    pair.tamper_down(Box::new(Some));
    pair
}

#[test]
fn what_has_arrived_does_not_expire_although_a_probe_has_heard_nothing_of_it() {
    let mut pair = probed(false);
    assert!(expired(&mut pair.client).is_empty());
    assert!(!pair.client.stream_delivered(FIRST), "nothing has been heard of it");
    pair.run_for(1000 * MS);
    assert!(expired(&mut pair.client).is_empty());
    assert!(pair.client.stream_delivered(FIRST));
    assert_eq!(pair.client.media_stats().expired_streams, 0);
}

#[test]
fn what_is_lost_before_a_probe_expires_once_and_is_not_sent_again() {
    let mut pair = probed(true);
    pair.run_for(1000 * MS);
    assert_eq!(expired(&mut pair.client), [FIRST]);
    assert_eq!(read_all(&mut pair, FIRST), (0, Err(quiche::Error::StreamReset(LATE))));
    assert_eq!(pair.client.media_stats().expired_streams, 1);
}

#[test]
fn what_two_probes_hear_nothing_of_has_expired() {
    let mut pair = probed(true);
    pair.tamper_up(Box::new(|_| None));
    assert!(expired(&mut pair.client).is_empty());
    pair.run_for(1000 * MS);
    assert_eq!(expired(&mut pair.client), [FIRST]);
}

#[test]
fn the_same_stream_without_a_deadline_is_sent_again() {
    let mut pair = pair();
    pair.tamper_up(Box::new(|_| None));
    pair.client.write(FIRST, &pattern(3000), true);
    pair.client.set_stream_deadline(FIRST, Some(Instant::now() + 40 * MS)).unwrap();
    pair.client.set_stream_deadline(FIRST, None).unwrap();
    pair.run_for(41 * MS);
    pair.tamper_up(Box::new(Some));
    pair.run_for(2000 * MS);
    assert_eq!(read_all(&mut pair, FIRST), (3000, Ok(true)));
}

#[test]
fn a_stream_that_is_acknowledged_has_nothing_to_expire() {
    let mut pair = pair();
    // One that only the client writes to, and one that goes both ways.
    for stream_id in [FIRST, 0] {
        pair.client.write(stream_id, &pattern(3000), true);
        let deadline = Instant::now() + 1000 * MS;
        pair.client.set_stream_deadline(stream_id, Some(deadline)).unwrap();
    }
    pair.run_for(1500 * MS);
    assert!(expired(&mut pair.client).is_empty());
    assert_eq!(read_all(&mut pair, FIRST), (3000, Ok(true)));
    assert_eq!(read_all(&mut pair, 0), (3000, Ok(true)));
}

#[test]
fn nothing_is_taken_behind_the_deadline_of_a_stream_without_an_end() {
    // While what it has is on its way, and when all of it is acknowledged.
    for wait in [60, 400] {
        let mut pair = pair();
        pair.client.stream_priority(FIRST, 0, false).unwrap();
        assert_eq!(pair.client.write(FIRST, &pattern(3000), false), 3000);
        pair.client.set_stream_deadline(FIRST, Some(Instant::now() + 50 * MS)).unwrap();
        pair.run_for(wait * MS);
        assert_eq!(expired(&mut pair.client), [FIRST], "{wait} ms");
        let written = pair.client.stream_send(FIRST, &pattern(20_000), true);
        assert!(written.is_err(), "{wait} ms: {written:?}");
        pair.run_for(2000 * MS);
        let (len, end) = read_all(&mut pair, FIRST);
        assert!(len <= 3000 && end == Err(quiche::Error::StreamReset(LATE)), "{len}, {end:?}");
        assert!(expired(&mut pair.client).is_empty(), "it is reported once");
    }
}

#[test]
fn a_stream_that_is_opened_behind_its_deadline_is_reset_before_it_leaves() {
    // With a priority it is opened, and without one not before it is written to.
    for has_priority in [true, false] {
        let mut pair = pair();
        if has_priority {
            pair.client.stream_priority(FIRST, 0, false).unwrap();
        }
        pair.client.set_stream_deadline(FIRST, Some(Instant::now() + 50 * MS)).unwrap();
        pair.run_for(60 * MS);
        // It fails if the stream was reset at its deadline.
        let _ = pair.client.stream_send(FIRST, &pattern(3000), true);
        pair.run_for(500 * MS);
        assert_eq!(read_all(&mut pair, FIRST), (0, Err(quiche::Error::StreamReset(LATE))));
        assert_eq!(expired(&mut pair.client), [FIRST], "with a priority: {has_priority}");
    }
}

#[test]
fn another_deadline_lets_a_stream_leave_that_is_not_opened_yet() {
    let mut pair = pair();
    pair.client.set_stream_deadline(FIRST, Some(Instant::now())).unwrap();
    pair.run_for(60 * MS);
    pair.client.set_stream_deadline(FIRST, None).unwrap();
    assert_eq!(pair.client.write(FIRST, &pattern(3000), true), 3000);
    pair.run_for(500 * MS);
    assert_eq!(read_all(&mut pair, FIRST), (3000, Ok(true)));
    assert!(expired(&mut pair.client).is_empty());
}

#[test]
fn what_is_lost_of_reset_streams_takes_no_room_in_the_send_buffer() {
    let mut pair = pair_of(|tack| tack.send_buffer = 50_000);
    pair.tamper_up(lossy(20, 7));
    for frame in 0..60 {
        let stream_id = FIRST + 4 * frame;
        pair.client.stream_priority(stream_id, 0, false).unwrap();
        pair.client.write(stream_id, &pattern(20_000), true);
        pair.client.set_stream_deadline(stream_id, Some(Instant::now() + 60 * MS)).unwrap();
        pair.run_for(33 * MS);
        let _ = read_all(&mut pair, stream_id);
    }
    // Behind the last deadline nothing is left that has not expired.
    assert!(pair.client.media_stats().expired_streams > 30);
    let deadline = Instant::now() + 61 * MS;
    pair.run_until(|pair| {
        let frame = FIRST + 4 * 60;
        pair.client.write(frame, &pattern(1000), false);
        Instant::now() >= deadline
    });
    let backlog = pair.client.media_stats().backlog;
    pair.client.stream_shutdown(FIRST + 240, quiche::Shutdown::Write, 0).unwrap();
    let left = pair.client.media_stats().backlog;
    assert!(backlog > 0 && left == 0, "{left} of {backlog} bytes are left");
}

#[test]
fn the_deadline_is_among_the_timers_until_it_has_passed() {
    let mut pair = pair();
    pair.client.write(FIRST, &[], true);
    pair.run_for(500 * MS);
    let deadline = Instant::now() + 30 * MS;
    pair.client.set_stream_deadline(FIRST, Some(deadline)).unwrap();
    assert_eq!(pair.client.timeout_instant(), Some(deadline));
    advance_to(deadline);
    pair.client.on_timeout();
    assert!(pair.client.timeout_instant().is_none_or(|at| at > deadline));
}

#[test]
fn a_deadline_in_the_past_takes_effect_before_the_next_packet() {
    let mut pair = pair();
    pair.client.write(FIRST, &pattern(3000), true);
    pair.client.set_stream_deadline(FIRST, Some(Instant::now())).unwrap();
    pair.run_for(100 * MS);
    assert_eq!(read_all(&mut pair, FIRST), (0, Err(quiche::Error::StreamReset(LATE))));
}

#[test]
fn only_a_stream_that_can_be_written_to_has_a_deadline() {
    let mut pair = pair();
    let now = Some(Instant::now());
    // The server's first unidirectional one.
    let refused = Err(quiche::Error::InvalidStreamState(3));
    assert_eq!(pair.client.set_stream_deadline(3, now), refused);
    assert_eq!(pair.server.set_stream_deadline(3, now), Ok(()));
    assert_eq!(pair.server.set_stream_deadline(0, now), Ok(()));
    // Of a stream that was never opened nothing expires.
    pair.run_for(100 * MS);
    assert_eq!(pair.server.stream_expired_next(), None);
}

#[test]
fn deadlines_hold_without_tack() {
    let mut pair = pair_of(|tack| tack.profile = Profile::Off);
    pair.client.write(FIRST, &pattern(100_000), true);
    let deadline = Instant::now() + 50 * MS;
    pair.client.set_stream_deadline(FIRST, Some(deadline)).unwrap();
    pair.run_for(500 * MS);
    assert_eq!(expired(&mut pair.client), [FIRST]);
    assert_eq!(read_all(&mut pair, FIRST).1, Err(quiche::Error::StreamReset(LATE)));
}

/// Fills the path, so that DATAGRAMs wait.
fn fill(pair: &mut Ends) {
    pair.client.write(FIRST, &pattern(200_000), false);
    pair.run_for(100 * MS);
}

fn received_datagrams(pair: &mut Ends) -> Vec<u8> {
    let mut buffer = [0; 2000];
    std::iter::from_fn(|| pair.server.dgram_recv(&mut buffer).ok().map(|_| buffer[0])).collect()
}

#[test]
fn datagrams_that_wait_too_long_are_dropped_and_others_are_not() {
    let mut pair = pair_of(|tack| tack.datagram_max_age = Some(30 * MS));
    for number in 0..50 {
        let datagram = [number; 1000];
        match number {
            49 => pair.client.dgram_send_until(&datagram, Instant::now() + MS).unwrap(),
            _ => pair.client.dgram_send(&datagram).unwrap(),
        }
    }
    pair.run_for(2000 * MS);
    let received = received_datagrams(&mut pair);
    let expired = pair.client.media_stats().expired_datagrams;
    assert_eq!(received.len() as u64 + expired, 50);
    assert!(expired > 10 && !received.is_empty(), "{expired} have expired");
    assert!(received.is_sorted(), "{received:?}");
    assert_eq!(pair.client.dgram_send_queue_len(), 0);
}

#[test]
fn a_datagram_has_its_own_deadline() {
    let mut pair = pair();
    fill(&mut pair);
    for number in 0..40 {
        let datagram = [number; 1000];
        if number % 2 == 0 {
            pair.client.dgram_send(&datagram).unwrap();
        } else {
            pair.client.dgram_send_until(&datagram, Instant::now()).unwrap();
        }
    }
    pair.run_for(4000 * MS);
    let even: Vec<u8> = (0..40).step_by(2).collect();
    assert_eq!(received_datagrams(&mut pair), even);
    assert_eq!(pair.client.media_stats().expired_datagrams, 20);
}

#[test]
fn a_send_buffer_limited_in_time_holds_what_leaves_in_it() {
    let mut pair = pair_of(|tack| tack.send_buffer_time = Some(400 * MS));
    let mut written = 0;
    let end = Instant::now() + 5000 * MS;
    pair.run_until(|pair| {
        written += pair.client.write(FIRST, &pattern(65_536), false);
        let _ = read_all(pair, FIRST);
        Instant::now() >= end
    });
    let stats = pair.client.media_stats();
    let rate = stats.estimated_send_rate;
    assert!((100_000..150_000).contains(&rate), "1 Mbit/s is estimated as {rate} byte/s");
    let in_time = rate * 4 / 10;
    assert!(stats.backlog > in_time / 2 && stats.backlog <= in_time * 3 / 2, "{stats:?}");
    assert!(stats.time_to_leave <= 600 * MS, "{stats:?}");
    assert!(written > 500_000, "{written} bytes in 5 s");
}

#[test]
fn a_send_buffer_limited_in_time_holds_sixteen_packets_at_least() {
    let mut pair = pair_of(|tack| tack.send_buffer_time = Some(MS));
    let least = 16 * pair.client.max_send_udp_payload_size();
    assert_eq!(pair.client.write(FIRST, &pattern(65_536), false), least);
}

#[test]
fn media_statistics_tell_what_a_source_adapts_to() {
    let mut pair = pair_of(|tack| tack.send_buffer = 100_000);
    let before = pair.client.media_stats();
    assert_eq!((before.backlog, before.time_to_leave), (0, Duration::ZERO));
    let end = Instant::now() + 3000 * MS;
    pair.run_until(|pair| {
        pair.client.write(FIRST, &pattern(20_000), false);
        let _ = read_all(pair, FIRST);
        Instant::now() >= end
    });
    let busy = pair.client.media_stats();
    assert!(busy.rate_age.is_some_and(|age| age < 200 * MS), "{busy:?}");
    assert!(busy.backlog > 0 && busy.time_to_leave > Duration::ZERO, "{busy:?}");
    let (p50, p95) = (busy.time_to_arrive_p50.unwrap(), busy.time_to_arrive_p95.unwrap());
    assert!(busy.time_to_leave + 20 * MS <= p50 && p50 <= p95, "{busy:?}");
    assert!(
        busy.min_rtt.is_some_and(|rtt| rtt >= 40 * MS) && busy.jitter.is_some(),
        "{busy:?}"
    );
    // The estimate stays while nothing is sent, and grows old.
    pair.run_until(|pair| {
        let _ = read_all(pair, FIRST);
        pair.client.media_stats().backlog == 0
    });
    pair.run_for(3000 * MS);
    let idle = pair.client.media_stats();
    assert!(idle.rate_age.is_some_and(|age| age >= 2000 * MS), "{idle:?}");
    assert!(idle.estimated_send_rate > 100_000, "{idle:?}");
}

#[test]
fn what_a_handshake_carries_is_no_measurement_of_the_rate() {
    let mut pair = pair_of(|_| {});
    let end = Instant::now() + 2000 * MS;
    let mut next = Instant::now();
    pair.run_until(|pair| {
        if next <= Instant::now() {
            next += 200 * MS;
            // Less than the path takes at once.
            pair.client.write(FIRST, &pattern(1000), false);
        }
        let _ = read_all(pair, FIRST);
        let stats = pair.client.media_stats();
        assert_eq!(stats.rate_age, None, "{stats:?}");
        Instant::now() >= end
    });
}

#[test]
fn a_tag_tells_which_datagram_was_dropped() {
    let mut pair = pair();
    fill(&mut pair);
    for number in 0..40 {
        let datagram = [number; 1000];
        // The path takes one in 8 ms, and the stream has its part.
        let lifetime = if number % 2 == 0 { 4000 * MS } else { 60 * MS };
        let deadline = Instant::now() + lifetime;
        pair.client.dgram_send_tagged(&datagram, deadline, number.into()).unwrap();
    }
    assert_eq!(pair.client.dgram_dropped_next(), None);
    pair.client.dgram_purge_outgoing(|datagram| datagram[0] == 38);
    pair.run_for(4000 * MS);
    let received = received_datagrams(&mut pair);
    let dropped: Vec<_> = std::iter::from_fn(|| pair.client.dgram_dropped_next()).collect();
    assert_eq!(dropped[0], 38, "the application has dropped it itself");
    assert!(dropped[1..].iter().all(|tag| tag % 2 == 1) && dropped.len() > 10, "{dropped:?}");
    let all: std::collections::BTreeSet<_> =
        dropped.iter().copied().chain(received.iter().map(|tag| (*tag).into())).collect();
    assert_eq!((all.len(), received.len() + dropped.len()), (40, 40));
}
