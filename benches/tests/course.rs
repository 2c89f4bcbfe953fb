//! The course runs as it says. In a process of its own: the CPU time of the process is what the
//! library's own tests look at.

#![allow(clippy::unwrap_used, reason = "a transfer that fails is a test that fails")]

use std::time::Duration;

use tack_benches::Course;
use tacklib::Profile;

fn course(profile: Profile) -> Course {
    Course {
        profile,
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
