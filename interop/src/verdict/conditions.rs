//! Rules of the test cases that differ in the link: the wire has to show what the link did, and how
//! the ends reacted.

use super::{Evidence, both_ways, path_mtu};
use crate::cases::Kind;
use crate::contract::Role;
use crate::wire::{Disorder, PathSeen};

/// RFC 9000 section 8.1.
const AMPLIFICATION_LIMIT: f64 = 3.0;
/// What a peer must not reach, as in the quic-interop-runner: some, plain quiche among them, do not
/// count what they pad datagrams with.
const AMPLIFICATION_TOLERATED: f64 = 4.0;
/// What a server may send upon the first packet of a client, which has 1200 bytes as a rule, with
/// something to spare: a flight that is not longer shows nothing.
const FIRST_ALLOWANCE: u64 = 2 * 3 * 1200;

/// Whether a transfer that went well went as the test case says; what there is to say of it.
pub fn were_met(kind: Kind, evidence: &Evidence) -> Result<Option<String>, String> {
    our_server_kept_to_the_limit(evidence)?;
    match kind {
        Kind::Loss => lost(evidence).map(|()| None),
        Kind::Corruption => corrupted(evidence).map(Some),
        Kind::LongRtt => took_round_trips(evidence, 1)
            .and_then(|note| repeated_hello(evidence, &note))
            .map(Some),
        // One for the Retry.
        Kind::RetryLongRtt => took_round_trips(evidence, 2).map(Some),
        Kind::Disorder => lost(evidence).and_then(|()| disordered(evidence)).map(Some),
        Kind::BothWays => both_ways::overlapped(evidence).map(Some),
        Kind::PathMtu => path_mtu::was_found(evidence).map(Some),
        Kind::Blackhole => went_on(evidence).map(Some),
        Kind::AmplificationLimit => kept_to_the_limit(evidence).map(Some),
        Kind::HandshakeLoss | Kind::RetryLoss => {
            lost(evidence).map(|()| Some(handshakes(evidence)))
        }
        Kind::HandshakeCorruption => corrupted(evidence).map(|_| Some(handshakes(evidence))),
        Kind::Ipv6 => ipv6(evidence).map(|()| None),
        Kind::Rebinding => followed(evidence).map(Some),
        _ => Ok(None),
    }
}

fn lost(evidence: &Evidence) -> Result<(), String> {
    if evidence.lost == 0 {
        return Err("the link lost nothing".to_owned());
    }
    Ok(())
}

fn corrupted(evidence: &Evidence) -> Result<String, String> {
    let count = evidence.corrupted_to_client + evidence.corrupted_to_server;
    if count == 0 {
        return Err("the link corrupted nothing".to_owned());
    }
    Ok(format!("{count} datagrams corrupted"))
}

fn disordered(evidence: &Evidence) -> Result<String, String> {
    let Disorder { duplicates, overtaken } = evidence.disorder;
    if duplicates == 0 {
        return Err("the link delivered nothing twice".to_owned());
    }
    if overtaken == 0 {
        return Err("the link delivered everything in order".to_owned());
    }
    let lost = evidence.lost;
    Ok(format!("{lost} datagrams lost, {overtaken} overtaken, {duplicates} delivered twice"))
}

/// The client's first packet under other keys answers the server's flight, which comes so many
/// round trips after the client's first packet.
fn took_round_trips(evidence: &Evidence, trips: u32) -> Result<String, String> {
    let shortest = (trips * evidence.round_trip).as_secs_f64();
    for connection in &evidence.seen.connections {
        match connection.handshake_seconds {
            None => return Err("no answer of the client to the server was seen".to_owned()),
            Some(seconds) if seconds < shortest => {
                return Err(format!(
                    "the client answered the server after {seconds:.2} s, which takes \
                     {shortest:.2} s"
                ));
            }
            Some(_) => {}
        }
    }
    let (initials, seconds) = evidence.seen.connections.iter().fold((0, 0.0), |_, seen| {
        (seen.client_initials, seen.handshake_seconds.unwrap_or_default())
    });
    Ok(format!("answered after {seconds:.2} s, {initials} Initials of the client"))
}

/// No answer can be there before the timeout of RFC 9002 section 6.2.2, which is shorter than the
/// round trip.
fn repeated_hello(evidence: &Evidence, note: &str) -> Result<String, String> {
    let counts = evidence.seen.connections.iter().map(|seen| seen.client_hellos);
    match counts.min().unwrap_or_default() {
        0 | 1 => Err(format!(
            "{}, the client, sent its ClientHello once",
            evidence.side(Role::Client)
        )),
        times => Ok(format!("{note}, {times} ClientHellos")),
    }
}

fn went_on(evidence: &Evidence) -> Result<String, String> {
    let swallowed = evidence.swallowed;
    if swallowed == 0 {
        return Err("nothing was sent into the black hole".to_owned());
    }
    let end = evidence.conditions.heard_again().unwrap_or_default();
    let progress = evidence.seen.connections.iter().flat_map(|seen| &seen.progress);
    let resumed =
        progress.filter(|new| new.at > end && new.new_bytes > 0).map(|new| new.at).min();
    let Some(resumed) = resumed else {
        return Err("no new data was sent after the black hole".to_owned());
    };
    let after = resumed.saturating_sub(end).as_secs_f64();
    Ok(format!("{swallowed} datagrams swallowed, new data {after:.2} s after the end"))
}

/// Whatever the test case: this is for our server to keep.
fn our_server_kept_to_the_limit(evidence: &Evidence) -> Result<(), String> {
    let worst = worst_amplification(evidence);
    if evidence.ours == Role::Server && worst > AMPLIFICATION_LIMIT {
        return Err(exceeded(evidence, worst));
    }
    Ok(())
}

fn kept_to_the_limit(evidence: &Evidence) -> Result<String, String> {
    let worst = worst_amplification(evidence);
    if worst >= AMPLIFICATION_TOLERATED {
        return Err(exceeded(evidence, worst));
    }
    if evidence.swallowed == 0 {
        return Err("no packet of the client was lost".to_owned());
    }
    let flight = evidence.seen.connections.first().map_or(0, |seen| seen.server_flight_bytes);
    if flight < FIRST_ALLOWANCE {
        return Err(format!(
            "the server's flight has only {flight} bytes: not the chain given"
        ));
    }
    let above = if worst > AMPLIFICATION_LIMIT {
        ", above the limit of 3, but as the quic-interop-runner lets pass"
    } else {
        ""
    };
    Ok(format!(
        "at most {worst:.2} times what had reached the server{above}; a flight of {flight} bytes"
    ))
}

fn worst_amplification(evidence: &Evidence) -> f64 {
    evidence.seen.connections.iter().map(|seen| seen.amplification.worst).fold(0.0, f64::max)
}

fn exceeded(evidence: &Evidence, worst: f64) -> String {
    let side = evidence.side(Role::Server);
    format!(
        "{side}, the server, sent {worst:.2} times what it had got from an address that was \
         not validated"
    )
}

fn handshakes(evidence: &Evidence) -> String {
    let found = evidence.seen.connections.len();
    let seconds = evidence.seen.connections.iter().filter_map(|seen| seen.handshake_seconds);
    let slowest = seconds.fold(0.0, f64::max);
    format!("{found} handshakes, the slowest took {slowest:.2} s")
}

fn ipv6(evidence: &Evidence) -> Result<(), String> {
    match evidence.address {
        Some(address) if address.is_ipv6() => Ok(()),
        _ => Err("the server listened on IPv4".to_owned()),
    }
}

/// A server asks a client at a new address to prove it (RFC 9000 section 9.3).
fn followed(evidence: &Evidence) -> Result<String, String> {
    if evidence.rebindings == 0 {
        return Err("the transfer was over before the client's address changed".to_owned());
    }
    let paths = evidence.seen.connections.iter().flat_map(|seen| &seen.paths);
    let new: Vec<_> = paths.filter(|path| path.path > 0 && path.arrived > 0).collect();
    if new.is_empty() {
        return Err("nothing arrived from another address".to_owned());
    }
    for path in &new {
        let number = path.path + 1;
        if path.challenges == 0 {
            let side = evidence.side(Role::Server);
            return Err(format!(
                "{side}, the server, sent no PATH_CHALLENGE to address {number} of the client"
            ));
        }
        if path.responses == 0 {
            let side = evidence.side(Role::Client);
            return Err(format!(
                "{side}, the client, sent no PATH_RESPONSE from its address {number}"
            ));
        }
    }
    let sum = |count: fn(&PathSeen) -> u64| new.iter().map(|path| count(path)).sum::<u64>();
    let challenges = sum(|path| path.challenges);
    let mut note = format!("{} new addresses, {challenges} PATH_CHALLENGEs there", new.len());
    // RFC 9000 sections 8.1, 8.2.1 and 8.2.2.
    for (role, count, what) in [
        (
            Role::Server,
            sum(|path| path.excess),
            "bytes more than three times what had come from addresses that were not validated",
        ),
        (
            Role::Server,
            sum(|path| path.short_challenges),
            "PATH_CHALLENGE frames in less than 1200 bytes",
        ),
        (
            Role::Client,
            sum(|path| path.short_responses),
            "PATH_RESPONSE frames in less than 1200 bytes",
        ),
    ] {
        if count > 0 {
            let breach = format!("{}, the {role}, sent {count} {what}", evidence.side(role));
            if evidence.ours == role {
                return Err(breach);
            }
            note = format!("{note}; {breach}");
        }
    }
    Ok(note)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::cases::Conditions;
    use crate::verdict::tests::{PLAIN, good};
    use crate::wire::{Amplification, ConnectionSeen, Progress};
    use tack_tap::Direction;

    fn seen(evidence: &mut Evidence) -> &mut ConnectionSeen {
        &mut evidence.seen.connections[0]
    }

    #[test]
    fn a_lossy_or_corrupting_link_has_to_do_something() {
        let mut evidence = good(PLAIN);
        for kind in [Kind::Loss, Kind::HandshakeLoss, Kind::RetryLoss, Kind::Disorder] {
            assert_eq!(were_met(kind, &evidence), Err("the link lost nothing".to_owned()));
        }
        for kind in [Kind::Corruption, Kind::HandshakeCorruption] {
            let nothing = Err("the link corrupted nothing".to_owned());
            assert_eq!(were_met(kind, &evidence), nothing);
        }
        (evidence.lost, evidence.corrupted_to_client) = (1, 1);
        assert_eq!(were_met(Kind::Loss, &evidence), Ok(None));
        assert!(were_met(Kind::Corruption, &evidence).is_ok());
    }

    #[test]
    fn a_handshake_over_a_long_way_takes_the_round_trip() {
        let mut evidence = good(PLAIN);
        evidence.round_trip = Duration::from_millis(1500);
        assert!(were_met(Kind::LongRtt, &evidence).unwrap_err().contains("no answer"));
        seen(&mut evidence).handshake_seconds = Some(1.49);
        let fast = were_met(Kind::LongRtt, &evidence).unwrap_err();
        assert_eq!(fast, "the client answered the server after 1.49 s, which takes 1.50 s");
        (seen(&mut evidence).handshake_seconds, seen(&mut evidence).client_hellos) =
            (Some(1.51), 2);
        assert!(were_met(Kind::LongRtt, &evidence).is_ok());
        let fast = were_met(Kind::RetryLongRtt, &evidence).unwrap_err();
        assert!(fast.ends_with("which takes 3.00 s"), "{fast}");
        seen(&mut evidence).handshake_seconds = Some(3.01);
        assert!(were_met(Kind::RetryLongRtt, &evidence).is_ok());
    }

    #[test]
    fn a_disordered_link_overtakes_and_duplicates() {
        let mut evidence = good(PLAIN);
        evidence.lost = 3;
        let disordered = |evidence: &Evidence| were_met(Kind::Disorder, evidence);
        assert!(disordered(&evidence).unwrap_err().contains("nothing twice"));
        evidence.disorder.duplicates = 2;
        assert!(disordered(&evidence).unwrap_err().contains("in order"));
        evidence.disorder.overtaken = 1;
        let note = disordered(&evidence).unwrap().unwrap();
        assert_eq!(note, "3 datagrams lost, 1 overtaken, 2 delivered twice");
    }

    #[test]
    fn a_black_hole_swallows_something_and_new_data_follows_it() {
        let mut evidence = good(PLAIN);
        evidence.conditions = Conditions { deaf_ms: &[(1000, 500)], ..Conditions::DEFAULT };
        assert!(were_met(Kind::Blackhole, &evidence).unwrap_err().contains("nothing was sent"));
        evidence.swallowed = 9;
        let ms = Duration::from_millis;
        // New data inside of it, and data that was sent before behind it, are not enough.
        let sent =
            |at, new_bytes| Progress { at: ms(at), direction: Direction::ToClient, new_bytes };
        seen(&mut evidence).progress = vec![sent(900, 5), sent(1400, 5), sent(1700, 0)];
        assert!(were_met(Kind::Blackhole, &evidence).unwrap_err().contains("no new data"));
        seen(&mut evidence).progress.push(sent(1750, 1));
        let note = were_met(Kind::Blackhole, &evidence).unwrap();
        assert_eq!(note.unwrap(), "9 datagrams swallowed, new data 0.25 s after the end");
    }

    #[test]
    fn no_server_may_send_more_than_it_is_allowed_and_ours_least_of_all() {
        let at = |ours, worst, server_flight_bytes, kind| {
            let mut evidence = good(PLAIN);
            (evidence.ours, evidence.swallowed) = (ours, 6);
            seen(&mut evidence).amplification =
                Amplification { worst, ..Amplification::default() };
            seen(&mut evidence).server_flight_bytes = server_flight_bytes;
            were_met(kind, &evidence)
        };
        let limit = Kind::AmplificationLimit;
        for ours in [Role::Server, Role::Client] {
            let note = at(ours, 3.0, 9000, limit).unwrap().unwrap();
            assert!(!note.contains("above"), "{note}");
            let short = at(ours, 3.0, 1000, limit).unwrap_err();
            assert!(short.contains("only 1000 bytes"), "{short}");
        }
        for kind in [limit, Kind::Transfer] {
            let exceeded = at(Role::Server, 3.01, 9000, kind).unwrap_err();
            assert!(exceeded.starts_with("our end, the server"), "{exceeded}");
        }
        let note = at(Role::Client, 3.99, 9000, limit).unwrap().unwrap();
        assert!(note.contains("above the limit of 3"), "{note}");
        let exceeded = at(Role::Client, 4.0, 9000, limit).unwrap_err();
        assert!(exceeded.starts_with("the peer, the server"), "{exceeded}");
        assert_eq!(at(Role::Client, 4.0, 9000, Kind::Transfer), Ok(None));
    }

    #[test]
    fn ipv6_is_where_the_server_listened() {
        let mut evidence = good(PLAIN);
        assert!(were_met(Kind::Ipv6, &evidence).is_err());
        evidence.address = "[::1]:443".parse().ok();
        assert_eq!(were_met(Kind::Ipv6, &evidence), Ok(None));
    }

    #[test]
    fn a_rebound_client_is_challenged_and_responds() {
        let mut evidence = good(PLAIN);
        let over = were_met(Kind::Rebinding, &evidence).unwrap_err();
        assert!(over.contains("was over before"), "{over}");
        evidence.rebindings = 1;
        let first = PathSeen { arrived: 9, sent: 9, ..PathSeen::default() };
        let second = PathSeen { path: 1, arrived: 1, sent: 1, ..PathSeen::default() };
        seen(&mut evidence).paths = vec![first];
        assert!(were_met(Kind::Rebinding, &evidence).unwrap_err().contains("nothing arrived"));
        seen(&mut evidence).paths = vec![first, second];
        let silent = were_met(Kind::Rebinding, &evidence).unwrap_err();
        assert_eq!(
            silent,
            "our end, the server, sent no PATH_CHALLENGE to address 2 of the client"
        );
        seen(&mut evidence).paths[1].challenges = 1;
        let deaf = were_met(Kind::Rebinding, &evidence).unwrap_err();
        assert_eq!(deaf, "the peer, the client, sent no PATH_RESPONSE from its address 2");
        seen(&mut evidence).paths[1].responses = 1;
        let note = were_met(Kind::Rebinding, &evidence).unwrap();
        assert_eq!(note.unwrap(), "1 new addresses, 1 PATH_CHALLENGEs there");
    }

    #[test]
    fn what_our_own_end_does_to_prove_an_address_is_by_the_book_and_a_peer_is_told_of() {
        let judged = |ours, breach: PathSeen| {
            let mut evidence = good(PLAIN);
            evidence.ours = ours;
            evidence.rebindings = 1;
            let second =
                PathSeen { path: 1, arrived: 1, challenges: 2, responses: 2, ..breach };
            seen(&mut evidence).paths = vec![PathSeen::default(), second];
            were_met(Kind::Rebinding, &evidence)
        };
        let none = PathSeen::default();
        for (role, breach, what) in [
            (Role::Server, PathSeen { excess: 8, ..none }, "8 bytes more than three times"),
            (Role::Server, PathSeen { short_challenges: 1, ..none }, "1 PATH_CHALLENGE"),
            (Role::Client, PathSeen { short_responses: 2, ..none }, "2 PATH_RESPONSE"),
        ] {
            let failed = judged(role, breach).unwrap_err();
            assert!(failed.starts_with("our end") && failed.contains(what), "{failed}");
            let note = judged(role.other(), breach).unwrap().unwrap();
            assert!(note.contains("; the peer") && note.contains(what), "{note}");
        }
    }
}
