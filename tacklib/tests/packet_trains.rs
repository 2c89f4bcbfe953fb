//! What a live source learns of a path that carries more than it sends.

#![allow(clippy::unwrap_used)] // a test that cannot be set up has failed

mod common;

use std::time::Duration;

use common::*;
use tacklib::{Connection, Profile};

const MS: Duration = Duration::from_millis(1);
const FRAME_INTERVAL: Duration = Duration::from_millis(33);
const MBPS: u64 = 8;

type Ends = Pair<Connection, Connection>;

fn pair(client: Profile, server: Profile) -> Ends {
    pair_over(20 * MS, client, server)
}

fn pair_over(one_way: Duration, client: Profile, server: Profile) -> Ends {
    let config = |profile| {
        let mut config = profile_config(profile);
        config.enable_dgram(true, 100, 100);
        config
    };
    let client = tack_client(&mut config(client));
    let server = tack_server(&mut config(server));
    let mut pair = Pair::new(client, server).with_delay(one_way).with_rate(MBPS).with_headers();
    pair.handshake();
    pair
}

/// The client sends so many frames, each on a stream, and the server reads them.
fn send_frames(pair: &mut Ends, first: u64, frames: u64, bytes: usize) {
    for frame in first..first + frames {
        let id = 4 * frame + 2;
        assert_eq!(pair.client.stream_send(id, &vec![7; bytes], true).unwrap(), bytes);
        pair.run_for(FRAME_INTERVAL);
        let mut buffer = vec![0; 65536];
        while let Some(id) = pair.server.readable().next() {
            pair.server.stream_recv(id, &mut buffer).unwrap();
        }
    }
}

/// The client's estimate over what the path carries.
fn estimate(pair: &Ends) -> f64 {
    let rate = pair.client.media_stats().estimated_send_rate;
    // It is the UDP payload of full packets.
    rate as f64 * 8.0 / (MBPS as f64 * 1e6) * (1472.0 + 28.0) / 1472.0
}

#[test]
fn frames_show_what_the_path_carries() {
    for (one_way, bytes) in [(20, 700), (20, 3000), (20, 20_000), (3, 3000), (100, 3000)] {
        let mut pair = pair_over(one_way * MS, Profile::Video, Profile::Default);
        send_frames(&mut pair, 0, 60, bytes);
        // Frames of the size of a packet are split now and then.
        let found = estimate(&pair);
        assert!((0.9..1.1).contains(&found), "{bytes} bytes, {one_way} ms: {found}");
        let stats = pair.client.media_stats();
        assert!(stats.rate_age.unwrap() < Duration::from_millis(900), "{stats:?}");
        let sent = bytes as f64 / FRAME_INTERVAL.as_secs_f64();
        let spare = 1.0 - sent / stats.estimated_send_rate as f64;
        let told = stats.spare_rate as f64 / stats.estimated_send_rate as f64;
        assert!((told - spare).abs() < 0.1, "{bytes} bytes: {told} instead of {spare}");
        let cost = pair.client.tack_stats().train_bytes;
        assert!(cost > 0 && cost * 50 <= pair.client.stats().sent_bytes as u64, "{cost}");
    }
}

/// The client sends so many frames in DATAGRAMs of equal length, and the server reads them.
fn send_datagrams(pair: &mut Ends, frames: usize, parts: usize, bytes: usize) {
    for _ in 0..frames {
        for _ in 0..parts {
            pair.client.dgram_send(&vec![7; bytes]).unwrap();
        }
        pair.run_for(FRAME_INTERVAL);
        while pair.server.dgram_recv(&mut [0; 1500]).is_ok() {}
    }
}

// TACK-6.8-7
#[test]
fn datagrams_show_what_the_path_carries_however_long_they_are() {
    let longest =
        pair(Profile::Video, Profile::Default).client.dgram_max_writable_len().unwrap();
    let mut costs = 0;
    for (parts, bytes) in
        [(1, 700), (1, longest), (2, longest), (3, 1000), (10, longest), (16, 1000)]
    {
        let mut pair = pair(Profile::Video, Profile::Default);
        send_datagrams(&mut pair, 90, parts, bytes);
        let found = estimate(&pair);
        assert!((0.9..1.1).contains(&found), "{parts} of {bytes} bytes: {found}");
        let cost = pair.client.tack_stats().train_bytes;
        assert!(cost * 50 <= pair.client.stats().sent_bytes as u64, "{cost}");
        costs += u64::from(cost > 0);
    }
    // Large frames that leave at the initial rate show it without trains.
    assert!(costs >= 4, "{costs}");
}

#[test]
fn a_change_of_the_rate_is_told_once() {
    let mut pair = pair(Profile::Video, Profile::Default);
    send_frames(&mut pair, 0, 60, 3000);
    let told = pair.client.send_rate_change().unwrap();
    assert_eq!(told, pair.client.media_stats().estimated_send_rate);
    send_frames(&mut pair, 60, 10, 3000);
    assert_eq!(pair.client.send_rate_change(), None);
}

#[test]
fn other_profiles_do_not_measure_so_and_a_source_can_stop_it() {
    let mut default = pair(Profile::Default, Profile::Default);
    send_frames(&mut default, 0, 60, 3000);
    assert_eq!(default.client.tack_stats().train_bytes, 0);
    default.client.set_packet_trains(true);
    send_frames(&mut default, 60, 10, 3000);
    send_datagrams(&mut default, 10, 1, 700);
    assert_eq!(default.client.tack_stats().train_bytes, 0, "the peer was not asked to report");

    let mut stopped = pair(Profile::Video, Profile::Default);
    send_frames(&mut stopped, 0, 10, 3000);
    let cost = stopped.client.tack_stats().train_bytes;
    stopped.client.set_packet_trains(false);
    send_frames(&mut stopped, 10, 30, 3000);
    send_datagrams(&mut stopped, 10, 1, 700);
    assert_eq!(stopped.client.tack_stats().train_bytes, cost);
}

// TACK-6.8-2
#[test]
fn a_key_frame_is_a_train_at_its_beginning_alone() {
    let mut pair = pair(Profile::Video, Profile::Default);
    transfer(&mut pair, 0, 1_000_000, false); // behind Startup
    send_frames(&mut pair, 1, 60, 3000);
    let key_frame = vec![7; 80_000]; // 80 ms of the path: at 1.25 times its rate a queue of 20 ms
    assert_eq!(pair.client.stream_send(4 * 61 + 2, &key_frame, true).unwrap(), key_frame.len());
    let mut longest = Duration::ZERO;
    for _ in 0..130 {
        pair.run_for(MS);
        longest = longest.max(pair.client.media_stats().queueing_delay.unwrap());
    }
    assert!(longest < 15 * MS, "{longest:?}");
}

/// The same as [`pair`], where the client asks for so long an interval under a light load.
fn pair_with_interval(interval: Duration) -> Ends {
    pair_with_streams(interval, 100)
}

/// The same, where the client may have so many unidirectional streams open.
fn pair_with_streams(interval: Duration, streams: u64) -> Ends {
    let mut client = profile_config(Profile::Video);
    let mut server = profile_config(Profile::Default);
    server.set_initial_max_streams_uni(streams);
    // A source that needs nine times as much from one frame to the next waits for a moment.
    client.enable_dgram(true, 100, 300);
    server.enable_dgram(true, 300, 100);
    let mut tack = *client.tack();
    tack.light_load_ack_interval = interval;
    client.set_tack(tack);
    let (client, server) = (tack_client(&mut client), tack_server(&mut server));
    let mut pair = Pair::new(client, server).with_delay(20 * MS).with_rate(MBPS).with_headers();
    pair.handshake();
    pair
}

/// TACKs and IACKs that the server has sent.
fn acknowledgements_sent(pair: &Ends) -> u64 {
    let stats = pair.server.tack_stats();
    stats.tacks_sent + stats.iacks_sent
}

/// How many of them it sends for so many seconds of frames in DATAGRAMs.
fn acknowledgements(pair: &mut Ends, seconds: usize, parts: usize) -> u64 {
    let before = acknowledgements_sent(pair);
    send_datagrams(pair, 30 * seconds, parts, 1000);
    acknowledgements_sent(pair) - before
}

// TACK-5.1-10
#[test]
fn a_source_that_needs_little_of_its_path_is_acknowledged_a_few_times_a_second() {
    let [(_, many), (mut seldom, few)] = [Duration::ZERO, 400 * MS].map(|interval| {
        let mut pair = pair_with_interval(interval);
        send_datagrams(&mut pair, 60, 3, 1000);
        let sent = acknowledgements(&mut pair, 4, 3);
        (pair, sent)
    });
    // A number that is skipped on purpose draws one, too.
    assert!((8..=24).contains(&few), "{few}");
    assert!(many > 5 * few, "{many} and {few}");
    assert!((0.9..1.1).contains(&estimate(&seldom)), "{}", estimate(&seldom));
    // 840 of 1,000 kB/s.
    acknowledgements(&mut seldom, 1, 28);
    let many = acknowledgements(&mut seldom, 2, 28);
    assert!(many > 100, "{many} under a heavy load");
}

// TACK-4.2-9
#[test]
fn streams_that_end_draw_no_acknowledgements_under_a_light_load() {
    let mut pair = pair_with_interval(400 * MS);
    send_frames(&mut pair, 0, 60, 3000);
    let before = acknowledgements_sent(&pair);
    send_frames(&mut pair, 60, 120, 3000);
    let few = acknowledgements_sent(&pair) - before;
    assert!((8..=24).contains(&few), "{few} for 120 streams");
}

#[test]
fn a_source_that_may_have_few_streams_open_does_not_wait_for_more_under_a_light_load() {
    let mut pair = pair_with_streams(400 * MS, 6);
    send_frames(&mut pair, 0, 120, 3000);
    let before = acknowledgements_sent(&pair);
    send_frames(&mut pair, 120, 120, 3000);
    let sent = acknowledgements_sent(&pair) - before;
    assert!(sent < 80, "{sent} for 120 streams");
}

#[test]
fn a_source_whose_acknowledgements_get_lost_is_acknowledged_as_under_any_other_load() {
    let mut pair = pair_with_interval(400 * MS);
    send_datagrams(&mut pair, 60, 3, 1000);
    pair.tamper_down(losing(|packet| packet % 4 == 0));
    acknowledgements(&mut pair, 10, 3);
    let many = acknowledgements(&mut pair, 4, 3);
    assert!(many > 60, "{many}");
}

// TACK-4.2-9
#[test]
fn what_gets_lost_under_a_light_load_is_sent_again_as_soon_as_under_any_other() {
    let mut took = Vec::new();
    for interval in [400 * MS, Duration::ZERO] {
        let mut pair = pair_with_interval(interval);
        send_datagrams(&mut pair, 90, 3, 1000);
        pair.tamper_up(losing(|packet| packet == 3));
        let began = std::time::Instant::now();
        let mut buffer = vec![0; 65536];
        pair.client.stream_send(2, &[7; 8000], true).unwrap();
        let mut read = 0;
        while read < 8000 {
            pair.run_for(MS);
            if let Ok((len, _)) = pair.server.stream_recv(2, &mut buffer) {
                read += len;
            }
        }
        took.push(began.elapsed());
    }
    // Where a number is skipped on purpose is random, and may cost some milliseconds.
    assert!(took[0] <= took[1] + 10 * MS && took[0] < 110 * MS, "{took:?}");
}

// TACK-4.2-9
#[test]
fn a_loss_is_told_again_soon_where_the_acknowledgement_that_tells_of_it_gets_lost() {
    let mut longest = Duration::ZERO;
    // The next TACK of the interval is due at some time.
    for frames in 84..96 {
        let mut pair = pair_with_interval(400 * MS);
        send_datagrams(&mut pair, frames, 3, 1000);
        pair.tamper_up(losing(|packet| packet == 3));
        let began = std::time::Instant::now();
        pair.tamper_down(Box::new(move |datagram| {
            (began.elapsed() > 70 * MS).then_some(datagram)
        }));
        pair.client.stream_send(2, &[7; 8000], true).unwrap();
        let mut buffer = vec![0; 65536];
        let mut read = 0;
        while read < 8000 {
            // As long as packets leave no probe timer expires.
            send_datagrams(&mut pair, 1, 3, 1000);
            while let Ok((len, _)) = pair.server.stream_recv(2, &mut buffer) {
                read += len;
            }
        }
        longest = longest.max(began.elapsed());
    }
    assert!((120 * MS..230 * MS).contains(&longest), "{longest:?}");
}

// TACK-4.2-9
#[test]
fn a_loss_is_told_once_where_the_acknowledgement_that_tells_of_it_arrives() {
    let mut pair = pair_with_interval(400 * MS);
    send_datagrams(&mut pair, 60, 3, 1000);
    pair.tamper_up(losing(|packet| packet % 45 == 3));
    let sent = acknowledgements(&mut pair, 10, 3);
    let lost = pair.client.stats().lost as u64;
    // Three a second without a loss. Where each loss is told twice there are 57 more than losses.
    assert!((lost..=lost + 42).contains(&sent), "{sent} for {lost} losses in 10 s");
}

// TACK-5.1-10
#[test]
fn a_source_whose_acknowledgement_got_lost_is_acknowledged_somewhat_more_often() {
    let mut pair = pair_with_interval(400 * MS);
    send_datagrams(&mut pair, 60, 3, 1000);
    let began = std::time::Instant::now();
    pair.tamper_down(Box::new(move |datagram| {
        (began.elapsed() > 400 * MS).then_some(datagram)
    }));
    send_datagrams(&mut pair, 90, 3, 1000);
    let sent = acknowledgements(&mut pair, 4, 3);
    assert!((27..=50).contains(&sent), "{sent}");
}

#[test]
fn a_source_that_stops_to_measure_is_acknowledged_as_any_other() {
    let mut pair = pair_with_interval(400 * MS);
    send_datagrams(&mut pair, 60, 3, 1000);
    pair.client.set_packet_trains(false);
    send_datagrams(&mut pair, 30, 3, 1000);
    let many = acknowledgements(&mut pair, 2, 3);
    assert!(many > 50, "{many}");
}
