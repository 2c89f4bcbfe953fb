//! Features of TLS and QUIC version 1, by what was on the wire.

use super::Evidence;
use crate::contract::Role;
use crate::wire::{Greeting, Observation};

/// TLS_CHACHA20_POLY1305_SHA256.
const CHACHA20: u16 = 0x1303;

/// TLS_EMPTY_RENEGOTIATION_INFO_SCSV, RFC 5746 section 3.3.
const RENEGOTIATION_INFO: u16 = 0x00ff;

/// As in the quic-interop-runner: about half as many streams as there are files.
const HIGHEST_STREAM_LIMIT: u64 = 1000;

/// ChaCha20 was agreed on, and nothing else had been offered.
pub fn only_chacha20(seen: &Observation) -> Result<(), String> {
    let [greeting] = &seen.greetings[..] else { return Err(connections(seen)) };
    // Values of RFC 8701 offer nothing, and neither does what stands for an extension of TLS 1.2.
    let is_offer = |suite: &&u16| **suite & 0x0f0f != 0x0a0a && **suite != RENEGOTIATION_INFO;
    let offered: Vec<_> = greeting.offered.iter().filter(is_offer).collect();
    if offered != [&CHACHA20] {
        return Err(format!("the client offered {} cipher suites, not one", offered.len()));
    }
    match greeting.chosen {
        Some(CHACHA20) => Ok(()),
        Some(other) => Err(format!("the server chose cipher suite {other:#06x}")),
        None => Err("the server's hello could not be read".to_owned()),
    }
}

/// The server lets so few streams be opened at first that it has to let the client open more.
///
/// Without the parameter a server allows none (RFC 9000 section 18.2).
pub fn stream_limit_had_to_rise(evidence: &Evidence) -> Result<(), String> {
    let greetings = evidence.seen.greetings.iter();
    let limit = greetings.filter_map(|seen| seen.server_initial_max_streams_bidi).max();
    match limit {
        Some(limit) if limit > HIGHEST_STREAM_LIMIT => Err(format!(
            "{}, the server, lets the client open {limit} streams at first, more than \
             {HIGHEST_STREAM_LIMIT}",
            evidence.side(Role::Server)
        )),
        _ => Ok(()),
    }
}

/// The second connection resumed the session of the first: the server sent no certificate.
pub fn resumed(seen: &Observation) -> Result<(), String> {
    second_connection(seen).map(|_| ())
}

/// All requests but the first were made in 0-RTT packets of a second connection.
pub fn asked_early(seen: &Observation, requests: usize) -> Result<(), String> {
    let early = &second_connection(seen)?.early;
    if early.packets == 0 {
        return Err("the client sent no 0-RTT packet that could be opened".to_owned());
    }
    if early.undecryptable > 0 {
        return Err(format!("{} 0-RTT packets could not be opened", early.undecryptable));
    }
    if !early.accepted {
        return Err("the server did not accept early data".to_owned());
    }
    // Bidirectional, the client's: RFC 9000 section 2.1.
    let asked = early.streams.iter().filter(|stream| *stream % 4 == 0).count();
    if asked + 1 < requests {
        return Err(format!("{asked} of {} requests were early", requests - 1));
    }
    Ok(())
}

/// The server refused the client's key share, and the client sent another (RFC 8446 section 4.1.4).
pub fn hello_was_retried(seen: &Observation) -> Result<(), String> {
    if seen.greetings.iter().all(|greeting| greeting.hello_retry_request) {
        Ok(())
    } else {
        Err("the server sent no HelloRetryRequest".to_owned())
    }
}

fn second_connection(seen: &Observation) -> Result<&Greeting, String> {
    let [first, second] = &seen.greetings[..] else { return Err(connections(seen)) };
    if !first.certificate || first.resumed {
        return Err("the first handshake was not a full one".to_owned());
    }
    if !second.resumed || second.certificate {
        return Err("the server sent its certificate again".to_owned());
    }
    Ok(second)
}

fn connections(seen: &Observation) -> String {
    format!("there were {} connections", seen.greetings.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::EarlyData;

    fn seen(greetings: &[Greeting]) -> Observation {
        Observation { greetings: greetings.to_vec(), ..Observation::default() }
    }

    fn full() -> Greeting {
        Greeting {
            offered: vec![CHACHA20],
            chosen: Some(CHACHA20),
            certificate: true,
            ..Greeting::default()
        }
    }

    fn short() -> Greeting {
        Greeting { resumed: true, certificate: false, ..full() }
    }

    #[test]
    fn chacha20_is_all_that_is_offered_and_what_is_chosen() {
        assert_eq!(only_chacha20(&seen(&[full()])), Ok(()));
        let greased = Greeting { offered: vec![0x1a1a, CHACHA20, 0x00ff], ..full() };
        assert_eq!(only_chacha20(&seen(&[greased])), Ok(()));
        let more = Greeting { offered: vec![0x1301, CHACHA20], ..full() };
        assert!(only_chacha20(&seen(&[more])).is_err());
        let other = Greeting { chosen: Some(0x1301), ..full() };
        assert!(only_chacha20(&seen(&[other])).unwrap_err().contains("0x1301"));
        assert!(only_chacha20(&seen(&[])).is_err());
    }

    #[test]
    fn a_resumed_session_needs_no_certificate() {
        assert_eq!(resumed(&seen(&[full(), short()])), Ok(()));
        assert!(resumed(&seen(&[full(), full()])).is_err());
        assert!(resumed(&seen(&[short(), short()])).is_err());
        assert!(resumed(&seen(&[full()])).is_err());
    }

    #[test]
    fn every_request_of_the_second_connection_is_early() {
        let early = EarlyData {
            accepted: true,
            packets: 2,
            streams: [0, 2, 4].into(),
            ..EarlyData::default()
        };
        let with = |early: EarlyData| seen(&[full(), Greeting { early, ..short() }]);
        assert_eq!(asked_early(&with(early.clone()), 3), Ok(()));
        let missing = asked_early(&with(early.clone()), 4).unwrap_err();
        assert_eq!(missing, "2 of 3 requests were early");
        let refused = EarlyData { accepted: false, ..early.clone() };
        assert!(asked_early(&with(refused), 3).is_err());
        let unread = EarlyData { undecryptable: 1, ..early.clone() };
        assert!(asked_early(&with(unread), 3).is_err());
        assert!(asked_early(&with(EarlyData { packets: 0, ..early }), 3).is_err());
    }

    #[test]
    fn a_retried_hello_is_on_every_connection() {
        let retried = Greeting { hello_retry_request: true, ..full() };
        assert_eq!(hello_was_retried(&seen(std::slice::from_ref(&retried))), Ok(()));
        assert!(hello_was_retried(&seen(&[retried, full()])).is_err());
    }
}
