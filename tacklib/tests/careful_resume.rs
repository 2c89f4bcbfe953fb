//! Two connections behind one another over a path, and what the second one gains or gives back
//! (RFC 9959).

#![allow(clippy::unwrap_used)] // a test that cannot be set up has failed

mod common;

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use common::*;
use tacklib::{CarefulResumePhase, CarefulResumeTrigger, CcParameters, Connection, Profile};

const ONE_WAY: Duration = Duration::from_millis(50);
const MEGABYTE: usize = 1 << 20;
/// A day, as far as the age of parameters goes.
const DAY: SystemTime = UNIX_EPOCH;

fn pair(megabits: u64) -> Pair<Connection, Connection> {
    let (mut client, mut server) = (tack_config(), tack_config());
    Pair::new(tack_client(&mut client), tack_server(&mut server))
        .with_delay(ONE_WAY)
        .with_rate(megabits)
        // One BDP of 100 Mbit/s.
        .with_buffer(megabits * 12_500)
}

/// Sends so much up; how long that takes, and the connections.
fn upload(
    megabits: u64,
    megabytes: usize,
    saved: Option<CcParameters>,
) -> (Duration, Pair<Connection, Connection>) {
    let mut pair = pair(megabits);
    if let Some(saved) = saved {
        assert!(pair.client.set_cc_parameters(saved, DAY));
    }
    pair.handshake();
    let start = Instant::now();
    transfer(&mut pair, 0, megabytes * MEGABYTE, false);
    (start.elapsed(), pair)
}

fn observed() -> CcParameters {
    let (_, pair) = upload(100, 12, None);
    pair.client.cc_parameters(DAY).unwrap()
}

// TACK-6.7-4, TACK-6.7-5, TACK-6.7-7
#[test]
fn the_second_connection_is_faster_than_the_first() {
    let saved = observed();
    let bdp = 1_250_000;
    assert!((bdp * 7 / 10..bdp * 13 / 10).contains(&saved.saved_cwnd), "{saved:?}");
    assert!(saved.saved_rtt >= 2 * ONE_WAY && saved.saved_rtt < 2 * ONE_WAY + ONE_WAY / 5);
    let (first, _) = upload(100, 4, None);
    let (second, pair) = upload(100, 4, Some(saved));
    assert!(second < first.mul_f64(0.85), "{first:?}, then {second:?}");
    let stats = pair.client.tack_stats();
    assert_eq!(stats.careful_resume, CarefulResumePhase::Normal);
    assert_eq!(
        stats.careful_resume_trigger,
        Some(CarefulResumeTrigger::LastUnvalidatedPacketAcknowledged)
    );
    assert_eq!(stats.lost_packets, 0);
}

// TACK-6.7-6
#[test]
fn a_path_that_has_become_slower_gets_back_what_was_too_much() {
    let saved = observed();
    let (first, _) = upload(10, 4, None);
    let (second, pair) = upload(10, 4, Some(saved));
    assert!(second < first.mul_f64(1.1), "{first:?}, then {second:?}");
    let stats = pair.client.tack_stats();
    assert_eq!(stats.careful_resume_trigger, Some(CarefulResumeTrigger::ExitRecovery));
    let next = pair.client.cc_parameters(DAY).unwrap();
    assert!(next.saved_cwnd < saved.saved_cwnd / 4, "{next:?} of the slower path");
}

#[test]
fn a_server_may_resume_when_the_handshake_is_done() {
    let mut pair = pair(100);
    pair.handshake();
    let saved = CcParameters { saved_cwnd: 1_000_000, saved_rtt: 2 * ONE_WAY, saved_at: 0 };
    assert!(pair.server.set_cc_parameters(saved, DAY));
    let phase = pair.server.tack_stats().careful_resume;
    assert_eq!(phase, CarefulResumePhase::Reconnaissance);
    assert_eq!(pair.server.cc_parameters(DAY), Some(saved), "nothing was sent");
}

// TACK-6.7-1
#[test]
fn parameters_that_must_not_be_used_are_refused() {
    let saved = CcParameters { saved_cwnd: 1_000_000, saved_rtt: ONE_WAY, saved_at: 3600 };
    let at = |seconds| UNIX_EPOCH + Duration::from_secs(seconds);
    let mut config = tack_config();
    assert!(tack_client(&mut config).set_cc_parameters(saved, at(7200)));
    assert!(!tack_client(&mut config).set_cc_parameters(saved, at(7201)), "too old");
    assert!(!tack_client(&mut config).set_cc_parameters(saved, at(3599)), "from the future");
    let impossible = CcParameters { saved_rtt: Duration::ZERO, ..saved };
    assert!(!tack_client(&mut config).set_cc_parameters(impossible, at(3600)));
    let mut tack = *config.tack();
    tack.cc_parameters_lifetime = Duration::from_secs(60);
    config.set_tack(tack);
    assert!(!tack_client(&mut config).set_cc_parameters(saved, at(3661)), "its own lifetime");
    let mut off = profile_config(Profile::Off);
    assert!(!tack_client(&mut off).set_cc_parameters(saved, at(3600)));
}
