//! The course runs as it says. In a process of its own: the CPU time of the process is what the
//! library's own tests look at.

#![allow(clippy::unwrap_used, reason = "a transfer that fails is a test that fails")]

use std::time::Duration;

use tack_benches::{Course, Side, Transport};
use tacklib::Profile;

fn course(profile: Profile) -> Course {
    Course {
        client: profile,
        server: profile,
        sender: Side::Client,
        transport: Transport::Stream,
        batch: 14,
        rate: 200_000_000,
        delay: Duration::from_millis(20),
        queue: 2_000_000,
    }
}

#[test]
fn plain_quiche_acknowledges_every_batch_and_tack_does_not() {
    let plain = course(Profile::Off).connect(1).unwrap().counted_transfer(32 << 20).unwrap();
    assert!(plain.ack_packets * 10 >= plain.batches * 9, "{plain:?}");
    let tack = course(Profile::Default).connect(1).unwrap().counted_transfer(32 << 20).unwrap();
    // Some of TACK's are Startup's, where every batch is acknowledged.
    assert!(tack.ack_packets * 3 < plain.ack_packets, "{tack:?}");
}

#[test]
fn a_run_repeats_to_the_last_packet() {
    let run =
        || course(Profile::Default).connect(7).unwrap().counted_transfer(1 << 20).unwrap();
    assert_eq!(run(), run());
}

#[test]
fn the_bottleneck_bounds_the_rate_and_drops_what_does_not_fit() {
    let slow = Course { rate: 8_000_000, queue: 20_000, ..course(Profile::Off) };
    let finish = slow.connect(1).unwrap().counted_transfer(1 << 20).unwrap();
    assert!(finish.elapsed > Duration::from_millis(1048), "{finish:?}");
    assert!(finish.dropped > 0, "{finish:?}");
}

#[test]
fn either_end_may_send_and_either_may_be_plain() {
    for sender in [Side::Client, Side::Server] {
        let mixed = Course { client: Profile::Default, sender, ..course(Profile::Off) };
        let finish = mixed.connect(1).unwrap().counted_transfer(1 << 20).unwrap();
        // A MiB in datagrams of 1,350 bytes at most, of which 80 are not data at most.
        assert!((777..=900).contains(&finish.data_packets), "{sender:?}: {finish:?}");
    }
}

#[test]
fn the_body_of_an_http3_request_arrives_whole_and_takes_no_more_packets_than_a_stream() {
    for profile in [Profile::Off, Profile::Default] {
        let streams = course(profile);
        let http3 = Course { transport: Transport::Http3, ..streams };
        let [streams, http3] =
            [streams, http3].map(|course| course.connect(1).unwrap().counted_transfer(4 << 20));
        let [streams, http3] = [streams.unwrap(), http3.unwrap()];
        assert!(http3.data_packets < streams.data_packets * 11 / 10, "{streams:?} {http3:?}");
    }
}

#[test]
fn what_precedes_a_transfer_is_not_counted_and_opens_the_window() {
    let warm = {
        let mut runner = course(Profile::Off).connect(1).unwrap();
        runner.warm_up(8 << 20).unwrap();
        runner.counted_transfer(1 << 20).unwrap()
    };
    let cold = course(Profile::Off).connect(1).unwrap().counted_transfer(1 << 20).unwrap();
    assert!(warm.data_packets < cold.data_packets + 50, "{warm:?} {cold:?}");
    assert!(warm.elapsed < cold.elapsed, "{warm:?} {cold:?}");
}
