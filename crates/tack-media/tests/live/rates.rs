//! What an encoder is told when the path changes.

use std::time::Duration;

use tack_media::JitterBufferConfig;

use crate::link::*;

/// Bytes that wait in the sender two seconds behind a fall of the path from 4 to 1 Mbit/s.
fn waiting_behind_a_fall() -> usize {
    let viewer = JitterBufferConfig::default();
    let mut live = Live::with_lifetime(4, 20 * MS, viewer, Duration::from_secs(3));
    live.run_for(Duration::from_secs(6));
    live.up.bytes_per_second = 125_000;
    live.run_for(Duration::from_secs(2));
    live.sender.backlog().1
}

#[test]
fn behind_a_fall_of_the_path_what_waits_in_the_sender_leaves_before_more_is_encoded() {
    // A tenth of a second at that rate, which is three frames.
    let waiting: Vec<_> = (0..5).map(|_| waiting_behind_a_fall()).collect();
    assert!(waiting.iter().all(|bytes| *bytes < 12_500), "{waiting:?} bytes");
}
