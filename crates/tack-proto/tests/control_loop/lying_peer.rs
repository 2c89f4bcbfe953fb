//! A receiver that reports another delivery rate than it has measured, for the sender to send
//! faster than the path carries. The sender has its own record of what it sent and what was
//! acknowledged, and no report makes it send faster than that.

use std::time::Duration;

use tack_proto::frame::Tack;
use tack_proto::profiles::Profile;

use super::{Link, MS, Outcome, PACKET, Simulation, steady};

/// The largest value that a frame can hold, RFC 9000 section 16.
const MOST: f64 = ((1_u64 << 62) - 1) as f64;

/// Rewrites what a TACK says about the delivery rate.
pub fn exaggerate(tack: &mut Tack<'_>, times: f64) {
    if let Some(rate) = &mut tack.rate
        && times.to_bits() != 1.0_f64.to_bits()
    {
        rate.delivery_rate = (rate.delivery_rate as f64 * times).min(MOST) as u64;
    }
}

const LIES: [f64; 4] = [0.0, 0.1, 10.0, MOST];
const TIME: Duration = Duration::from_secs(10);

fn lossy(loss: f64) -> Link {
    Link { loss, ..Link::new(50.0, 40 * MS) }
}

/// A path with room for what a sender might be talked into.
fn deep() -> Link {
    Link { buffer: 2_000_000, ..Link::new(10.0, 100 * MS) }
}

fn run(link: Link, profile: Profile, exaggeration: f64) -> Outcome {
    let mut simulation = Simulation::new(link, profile, 11);
    simulation.exaggeration = exaggeration;
    simulation.run(TIME, steady)
}

/// The largest rate at which packets left over any stretch of that length, over the path's.
fn fastest(outcome: &Outcome, link: Link, stretch: Duration) -> f64 {
    let mut first = 0;
    let mut most = 0;
    for (last, at) in outcome.sent.iter().enumerate() {
        while outcome.sent[first] + stretch <= *at {
            first += 1;
        }
        most = most.max(last + 1 - first);
    }
    link.time_for(most as u64 * PACKET).as_secs_f64() / stretch.as_secs_f64()
}

/// How much more arrives than without the lie, and how fast the sender was over two round trips:
/// longer than a probing phase, which lasts for one.
fn gain_and_excess(link: Link, profile: Profile, honest: &Outcome, lie: f64) -> (f64, f64) {
    let lying = run(link, profile, lie);
    let gain = lying.utilisation / honest.utilisation;
    let excess = fastest(&lying, link, 2 * link.round_trip);
    println!(
        "{} Mbit/s, {:?}, loss {}, rate times {lie:e}: {gain:.3} of honest goodput of {honest:.3}, {excess:.3} of \
         the path's rate sent over 2 RTTs, p95 of the queue {:?}, {} dropped",
        link.megabits,
        link.round_trip,
        link.loss,
        lying.queueing_p95(),
        lying.dropped,
        honest = honest.utilisation,
    );
    (gain, excess)
}

/// What the goodput of one seed differs by where a tenth is lost: over ten seeds the same lie made it 0.992
/// to 1.024 times as much.
const NOISE_BEHIND_LOSS: f64 = 0.025;

/// Half of `most_sent` above the path's rate may be a probe, a quarter above an estimate that may
/// itself be a little above the path.
fn assert_that_lies_gain_nothing(profile: Profile, most_gain: f64, most_sent: f64) {
    for link in [lossy(0.0), lossy(0.01), lossy(0.1), deep()] {
        let honest = run(link, profile, 1.0);
        // What the path loses of whatever is sent is sent in addition (TACK-6.2-16).
        let most_sent = most_sent / (1.0 - link.loss);
        assert!(fastest(&honest, link, 2 * link.round_trip) <= most_sent);
        for lie in LIES {
            let (gain, excess) = gain_and_excess(link, profile, &honest, lie);
            let noise = if link.loss < 0.1 { 0.0 } else { NOISE_BEHIND_LOSS };
            assert!(gain <= most_gain + noise, "times {lie:e}: {gain:.3}");
            assert!(excess <= most_sent, "times {lie:e}: {excess:.3}");
        }
    }
}

#[test]
fn a_receiver_that_lies_about_its_rate_gains_nothing_and_is_not_flooded() {
    assert_that_lies_gain_nothing(Profile::DEFAULT, 1.005, 1.15);
    assert_that_lies_gain_nothing(Profile::QUICK, 1.005, 1.15);
}

/// A probe of the video profile is over before the sender's own sample shows all of it, so a report
/// may lie a twentieth above that while nothing gets lost: it fills a queue. Where much gets lost,
/// the sender's own samples are a little above the smaller of the two that honest reports leave.
#[test]
fn with_the_video_profile_it_gains_nothing_but_a_queue() {
    assert_that_lies_gain_nothing(Profile::VIDEO, 1.01, 1.2);
}
