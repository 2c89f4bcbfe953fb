//! A receiver that reports wrong rates, losses, times or byte counts gains nothing by it among
//! honest rivals, nor does one whose acknowledgements seem to queue.

use std::ops::RangeInclusive;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use tack_attack::keys::Opener;
use tack_attack::liar::{self, Report};
use tack_attack::{CID_LEN, Kind, Network, Setup, Side, Verdict, pipe};
use tacklib::Profile;

const ONE_WAY: Duration = Duration::from_millis(20);
const MBPS: f64 = 10.0;
const RIVALS: usize = 2;

const WARM_UP: Duration = Duration::from_secs(2);
const SPAN: Duration = Duration::from_secs(12);

/// A lie may not bring more than this: shares of the link differ from run to run.
const GAIN: f64 = 1.05;

/// Every profile with TACK.
const LYING: [Profile; 3] = [Profile::Default, Profile::Video, Profile::Quick];

/// Changes what a receiver reports.
type Lie = fn(&mut Report);

/// The frames of a packet with a lie in them; `None` if there is nothing to lie about.
type Rewrite = dyn Fn(&[u8]) -> Option<Vec<u8>>;

/// Runs whose mean counts. That of 96 honest ones was 2 % off that of 640, that of 16 up to 7 %.
const SEEDS: u64 = 64;
/// The same of honest ones, which all are held against, and of a lie whose mean is above [`SUSPICIOUS`] of theirs.
const MORE_SEEDS: u64 = 192;
const SUSPICIOUS: f64 = 1.02;
/// The same where each lie is tried in each profile.
const MANY_SEEDS: u64 = 640;
/// Half of a liar's runs are enough where their mean is below so much of what an honest one gets.
const CLEARLY_LESS: f64 = 0.95;

/// What an honest receiver gets in a profile, in Mbit/s: the mean over the seeds.
fn honest_goodput(profile: Profile, seeds: u64) -> f64 {
    static DEFAULT: OnceLock<f64> = OnceLock::new();
    static VIDEO: OnceLock<f64> = OnceLock::new();
    static QUICK: OnceLock<f64> = OnceLock::new();
    let known = match profile {
        Profile::Video => &VIDEO,
        Profile::Quick => &QUICK,
        _ => &DEFAULT,
    };
    let of_seeds = || (1..=seeds).map(|seed| goodput_of(seed, profile, None)).sum::<f64>();
    if seeds != MORE_SEEDS {
        return of_seeds() / seeds as f64;
    }
    *known.get_or_init(|| of_seeds() / seeds as f64)
}

/// The same of one that lies, and in how many runs: `most` where a few do not make clear that it gains nothing.
fn goodput_with(profile: Profile, honest: f64, lie: &'static Rewrite, most: u64) -> (f64, u64) {
    let mut sum = 0.0;
    let mut runs = 0;
    for (until, enough) in [(SEEDS / 2, CLEARLY_LESS), (SEEDS, SUSPICIOUS), (most, 0.0)] {
        let seeds: RangeInclusive<u64> = runs + 1..=until;
        sum += seeds.map(|seed| goodput_of(seed, profile, Some(lie))).sum::<f64>();
        runs = until;
        if sum / (runs as f64) < enough * honest {
            break;
        }
    }
    (sum / runs as f64, runs)
}

fn goodput_of(seed: u64, profile: Profile, lie: Option<&'static Rewrite>) -> f64 {
    let setup = Setup::new(Kind::Tack(profile));
    let mut network = Network::new(seed);
    let way = pipe(MBPS, ONE_WAY, 50_000);
    let link = network.link(&way, &way);
    let connections: Vec<_> =
        (0..=RIVALS).map(|_| network.connect(link, setup, setup)).collect();
    network.handshake();
    for connection in &connections {
        network.end_mut(*connection, Side::Server).to_write = u64::MAX;
    }
    let liar = connections[0];
    if let Some(lie) = lie {
        let secrets = network.end(liar, Side::Client).secrets.clone();
        let mut opener = Opener::new(secrets, Side::Client, CID_LEN);
        network.tap(liar, move |sighting, _| {
            if sighting.sender != Side::Client {
                return Verdict::Pass;
            }
            let Some(packet) = opener.open(sighting.bytes) else { return Verdict::Pass };
            let told = lie(&packet.payload);
            told.map_or(Verdict::Pass, |told| Verdict::Replace(opener.reseal(&packet, &told)))
        });
    }
    network.run_for(WARM_UP);
    let before = network.end(liar, Side::Client).read;
    network.run_for(SPAN);
    let bytes = network.end(liar, Side::Client).read - before;
    if let Some(code) = network.end(liar, Side::Server).closed_with() {
        println!("closed with {code:#x}");
    }
    bytes as f64 * 8.0 / SPAN.as_secs_f64() / 1e6
}

fn assert_no_gain(profile: Profile, lies: &[(&str, Lie)]) {
    for (name, lie) in lies {
        assert_no_gain_by(profile, name, rewriting(*lie));
    }
}

fn rewriting(lie: Lie) -> &'static Rewrite {
    Box::leak(Box::new(move |frames: &[u8]| liar::rewrite(frames, lie)))
}

fn assert_no_gain_by(profile: Profile, name: &str, lie: &'static Rewrite) {
    assert_no_gain_over(profile, honest_goodput(profile, MORE_SEEDS), name, lie, MORE_SEEDS);
}

fn assert_no_gain_over(
    profile: Profile,
    honest: f64,
    name: &str,
    lie: &'static Rewrite,
    most: u64,
) {
    let (liar, runs) = goodput_with(profile, honest, lie, most);
    println!(
        "{name}: {liar:.3} Mbit/s in {runs} runs; honest: {honest:.3} of {MBPS} among {RIVALS} rivals"
    );
    assert!(liar <= GAIN * honest, "{name}: {liar} instead of {honest} Mbit/s");
}

/// A departure that is told 50 ms too early, but for a twentieth of each second, in which the truth is:
/// what the sender takes for the shortest way back stays right, and all other acknowledgements seem to
/// have queued. In units of 8 µs, an `ack_delay_exponent` of 3.
fn seems_to_queue(departure: u64) -> u64 {
    let is_true = departure % 125_000 < 6_250;
    if is_true { departure } else { departure.saturating_sub(6_250) }
}

#[test]
fn acknowledgements_that_seem_to_queue_on_their_way_bring_nothing() {
    let lie = &|frames: &[u8]| liar::rewrite_timestamps(frames, seems_to_queue);
    assert_no_gain_by(Profile::Default, "a queue", lie);
}

/// What a receiver knows of the delays of its packets.
#[derive(Clone, Copy)]
struct Delays {
    /// The departure that it has reported last, in its unit.
    departure: u64,
    /// The lowest delay, and how much longer the last one was, in µs.
    lowest: i64,
    queue: u64,
}

static DELAYS: Mutex<Option<(Instant, Delays)>> = Mutex::new(None);

/// Adds what the packets have queued for to the times that the receiver held them: no round trip shows a queue.
fn hides_its_queue(report: &mut Report) {
    let now = Instant::now();
    let mut known = DELAYS.lock().unwrap_or_else(PoisonError::into_inner);
    let Some((departure, hold)) = &mut report.timing else {
        // As for the one before.
        report.ack_delay_us += known.map_or(0, |(_, delays)| delays.queue);
        return;
    };
    let before = known.filter(|(_, delays)| delays.departure <= *departure);
    // Each run begins with a clock of its own. Of two clocks the difference is the same for all packets.
    let (epoch, lowest) =
        before.map_or((now, i64::MAX), |(epoch, delays)| (epoch, delays.lowest));
    let arrived = now.saturating_duration_since(epoch).as_micros() as i64 - hold.cast_signed();
    let delay = arrived - (*departure * 8).cast_signed();
    let lowest = lowest.min(delay);
    let queue = (delay - lowest) as u64;
    *known = Some((epoch, Delays { departure: *departure, lowest, queue }));
    *hold += queue;
    report.ack_delay_us += queue;
}

#[test]
fn a_queue_that_is_told_as_a_time_in_which_packets_were_held_brings_nothing() {
    for profile in [Profile::Default, Profile::Video] {
        assert_no_gain(profile, &[("a hidden queue", hides_its_queue)]);
    }
}

fn scale_rate(report: &mut Report, factor: f64) {
    report.rate = report.rate.map(|(rate, lost)| ((rate as f64 * factor) as u64, lost));
}

const RATES: &[(&str, Lie)] = &[
    ("a tenth of the rate", |report| scale_rate(report, 0.1)),
    ("ten times the rate", |report| scale_rate(report, 10.0)),
    ("a rate of 2^62", |report| {
        report.rate = report.rate.map(|(_, lost)| ((1 << 62) - 1, lost));
    }),
];

#[test]
fn a_wrong_rate_brings_nothing() {
    assert_no_gain(Profile::Default, RATES);
}

/// The video profile believes a rate that is up to 5 % above its own record.
#[test]
fn a_rate_that_is_too_high_brings_nothing_in_the_video_profile() {
    assert_no_gain(Profile::Video, &RATES[1..2]);
}

/// A path that seems to become slower for a moment: what it loses then is taken for its own (TACK-6.2-6).
#[test]
fn a_rate_that_is_too_low_at_times_brings_nothing() {
    for profile in [Profile::Default, Profile::Video] {
        assert_no_gain(
            profile,
            &[("a tenth of the rate at times", |report| {
                if report.sequence % 64 < 8 {
                    scale_rate(report, 0.1);
                }
            })],
        );
    }
}

const LOSSES_AND_BYTES: &[(&str, Lie)] = &[
    ("no losses", |report| report.rate = report.rate.map(|(rate, _)| (rate, 0))),
    ("everything lost", |report| {
        report.rate = report.rate.map(|(rate, _)| (rate, u16::MAX));
    }),
    ("a tenth of the bytes", |report| report.received_bytes /= 10),
];

#[test]
fn wrong_losses_and_byte_counts_bring_nothing() {
    assert_no_gain(Profile::Default, LOSSES_AND_BYTES);
}

const TIMES: &[(&str, Lie)] = &[
    ("held for 30 ms longer", |report| {
        report.timing = report.timing.map(|(departure, hold)| (departure, hold + 30_000));
    }),
    ("not held at all", |report| {
        report.timing = report.timing.map(|(departure, _)| (departure, 0));
    }),
    ("departed 20 % earlier", |report| {
        report.timing = report.timing.map(|(departure, hold)| (departure / 5 * 4, hold));
    }),
    ("an ACK Delay of a minute", |report| report.ack_delay_us = 60_000_000),
];

#[test]
fn wrong_times_bring_nothing() {
    assert_no_gain(Profile::Default, TIMES);
}

/// Round trips that seem longer and longer delay losses that are told by time (TACK-5.3-1).
#[test]
fn departures_that_are_told_too_early_bring_nothing_in_the_quick_profile() {
    assert_no_gain(Profile::Quick, &TIMES[2..3]);
}

/// The other tests try each lie in the profiles in which it was most worth trying.
#[test]
#[ignore = "takes half an hour"]
fn no_lie_brings_anything_in_any_profile() {
    let seems_to_queue: &Rewrite =
        &|frames: &[u8]| liar::rewrite_timestamps(frames, seems_to_queue);
    for profile in LYING {
        let honest = honest_goodput(profile, MANY_SEEDS);
        println!("{profile:?}: {honest:.3} Mbit/s in {MANY_SEEDS} honest runs");
        let lies = [RATES, LOSSES_AND_BYTES, TIMES, &[("a hidden queue", hides_its_queue)]];
        for (name, lie) in lies.concat() {
            assert_no_gain_over(profile, honest, name, rewriting(lie), MANY_SEEDS);
        }
        assert_no_gain_over(profile, honest, "a queue", seems_to_queue, MANY_SEEDS);
    }
}

#[test]
fn packet_trains_that_are_said_to_have_come_at_once_or_late_bring_nothing() {
    assert_no_gain(
        Profile::Video,
        &[
            ("trains at once", |report| scale_arrivals(report, 0.0)),
            ("trains in half the time", |report| scale_arrivals(report, 0.5)),
            ("trains in twice the time", |report| scale_arrivals(report, 2.0)),
        ],
    );
}

fn scale_arrivals(report: &mut Report, factor: f64) {
    for (_, since_last_us, _) in &mut report.arrivals {
        *since_last_us = (*since_last_us as f64 * factor) as u64;
    }
}
