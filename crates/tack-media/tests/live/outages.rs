//! What a viewer sees behind an outage of the path.

use std::time::Duration;

use tack_media::JitterBufferConfig;

use crate::link::*;

/// How long pictures stand still behind an outage that begins so long behind the start, once playback goes on.
fn later_freezes(begins: Duration) -> Vec<Duration> {
    let mut live = Live::over(3, 40 * MS, JitterBufferConfig::default());
    live.run_for(begins);
    live.up.is_out = true;
    live.run_for(1500 * MS);
    live.up.is_out = false;
    let back = live.start.elapsed();
    live.run_for(Duration::from_secs(3));
    assert!(live.shown.last().unwrap().0 - live.start > back + Duration::from_secs(2));
    let freezes = live.freezes(250 * MS).into_iter();
    freezes.filter(|(at, _)| *at > back).map(|(_, stood)| stood).collect()
}

#[test]
fn playback_that_goes_on_behind_an_outage_does_not_stand_still_again() {
    // A key frame of the outage is given up behind it, and the source's own one comes next to the one that is asked
    // for. The ends draw their own random numbers, and about one run in seven comes to that.
    for run in 0..40 {
        let begins = Duration::from_secs(4) + (3 + run % 5) * 17 * MS;
        assert_eq!(later_freezes(begins), [], "run {run}");
    }
}
