#![expect(clippy::disallowed_methods, reason = "a test needs some instant to start from")]

use std::time::Duration;

use super::*;
use crate::cid_generator::RANDOM_CID_LEN as CID_LEN;

const VERSION_1: u32 = 1;
const CLIENT_SCID: [u8; 8] = [0xc1; 8];
const MADE_UP_DCID: [u8; 8] = [0xd1; 8];

fn client() -> SocketAddr {
    "192.0.2.1:50000".parse().unwrap()
}

fn server(now: Instant) -> Router {
    let worker = Worker::alone(now).unwrap();
    Router::new(&EndpointConfig::default(), true, now, &worker).unwrap()
}

fn client_router(now: Instant) -> Router {
    let worker = Worker::alone(now).unwrap();
    Router::new(&EndpointConfig::default(), false, now, &worker).unwrap()
}

/// A datagram of `len` bytes that begins like an Initial.
fn initial(version: u32, dcid: &[u8], token: &[u8], len: usize) -> Vec<u8> {
    let mut datagram = vec![0xc0];
    datagram.extend_from_slice(&version.to_be_bytes());
    datagram.push(dcid.len() as u8);
    datagram.extend_from_slice(dcid);
    datagram.push(CLIENT_SCID.len() as u8);
    datagram.extend_from_slice(&CLIENT_SCID);
    assert!(token.len() < 1 << 14);
    datagram.extend_from_slice(&(0x4000 | token.len() as u16).to_be_bytes());
    datagram.extend_from_slice(token);
    datagram.resize(len.max(datagram.len()), 0);
    datagram
}

/// Sends a first Initial and returns what the Retry carries: our new ID and the token.
fn get_retry(router: &mut Router, now: Instant) -> (Cid, Vec<u8>) {
    let first = initial(VERSION_1, &MADE_UP_DCID, b"", 1200);
    let Route::Reply(Reply::Retry, mut packet) =
        router.route(now, client(), &first, Opening::WithRetry)
    else {
        panic!("no Retry");
    };
    let header = quiche::Header::from_slice(&mut packet, CID_LEN).unwrap();
    assert_eq!(header.ty, quiche::Type::Retry);
    assert_eq!(header.dcid.as_ref(), CLIENT_SCID);
    (Cid::try_from(header.scid.as_ref()).unwrap(), header.token.unwrap())
}

fn dropped(route: &Route) -> DropReason {
    match route {
        Route::Drop(reason) => *reason,
        other => panic!("not dropped: {other:?}"),
    }
}

#[test]
fn the_token_of_a_retry_opens_a_connection_with_both_ids_of_the_client_and_one_of_its_own() {
    let now = Instant::now();
    let mut router = server(now);
    let (retry_scid, token) = get_retry(&mut router, now);
    let second = initial(VERSION_1, &retry_scid, &token, 1200);
    let Route::Accept(admission) = router.route(now, client(), &second, Opening::WithRetry)
    else {
        panic!("not accepted");
    };
    assert_eq!(admission.odcid.as_deref(), Some(&MADE_UP_DCID[..]));
    assert_eq!(admission.initial_dcid, *retry_scid);
    assert_ne!(admission.scid, retry_scid);
    assert_eq!(admission.scid.len(), CID_LEN);
}

// RFC 9000 section 21.11
#[test]
fn no_connection_announces_the_token_that_a_packet_to_the_id_of_its_retry_gets() {
    let now = Instant::now();
    let mut router = server(now);
    let (retry_scid, token) = get_retry(&mut router, now);
    let elsewhere = "192.0.2.2:50000".parse().unwrap();
    let probe = short(&retry_scid);
    let Route::Reply(Reply::Reset, reset) =
        router.route(now, elsewhere, &probe, Opening::WithRetry)
    else {
        panic!("no reset");
    };
    let second = initial(VERSION_1, &retry_scid, &token, 1200);
    let Route::Accept(admission) = router.route(now, client(), &second, Opening::WithRetry)
    else {
        panic!("not accepted");
    };
    assert!(!reset.ends_with(&router.reset_token(&admission.scid).to_be_bytes()));
}

#[test]
fn a_token_that_does_not_validate_gets_another_retry() {
    let now = Instant::now();
    let mut router = server(now);
    let (scid, token) = get_retry(&mut router, now);
    let elsewhere = "192.0.2.2:50000".parse().unwrap();
    let garbage = vec![0x5a; token.len()];
    for (what, now, from, dcid, token) in [
        ("another address", now, elsewhere, scid, &token),
        ("another ID", now, client(), Cid::try_from(&[1; CID_LEN][..]).unwrap(), &token),
        ("garbage", now, client(), scid, &garbage),
    ] {
        let second = initial(VERSION_1, &dcid, token, 1200);
        let route = router.route(now, from, &second, Opening::WithRetry);
        assert!(matches!(route, Route::Reply(Reply::Retry, _)), "{what}: {route:?}");
    }
}

#[test]
fn an_expired_token_is_refused_as_invalid() {
    let now = Instant::now();
    let mut router = server(now);
    let (scid, token) = get_retry(&mut router, now);
    let late = now + EndpointConfig::default().retry_token_lifetime + Duration::from_millis(2);
    let second = initial(VERSION_1, &scid, &token, 1200);
    let Route::Reply(Reply::InvalidToken, packet) =
        router.route(late, client(), &second, Opening::WithRetry)
    else {
        panic!("not refused");
    };
    let header = LongHeader::parse(&packet).unwrap();
    assert_eq!((header.dcid, header.scid), (&CLIENT_SCID[..], &scid[..]));
}

#[test]
fn every_truncation_of_a_header_is_dropped() {
    let now = Instant::now();
    let mut router = server(now);
    let long = [0xc3, 0, 0, 0, 1, 3, 1, 2, 3, 2, 8, 9];
    for len in 0..long.len() {
        let route = router.route(now, client(), &long[..len], Opening::WithRetry);
        assert_eq!(dropped(&route), DropReason::Malformed, "{len} bytes");
    }
    for len in 0..=CID_LEN {
        let route =
            router.route(now, client(), &[0x40; 1 + CID_LEN][..len], Opening::WithRetry);
        assert_eq!(dropped(&route), DropReason::Malformed, "{len} bytes");
    }
}

#[test]
fn a_retry_is_smaller_than_what_asked_for_it() {
    let now = Instant::now();
    let mut router = server(now);
    let first = initial(VERSION_1, &[9; 20], b"", 1200);
    let Route::Reply(Reply::Retry, packet) =
        router.route(now, client(), &first, Opening::WithRetry)
    else {
        panic!("no Retry");
    };
    assert!(packet.len() < 200, "{} bytes", packet.len());
}

#[test]
fn without_retry_the_first_initial_opens_a_connection_and_its_duplicate_finds_it() {
    let now = Instant::now();
    let mut router = server(now);
    let first = initial(VERSION_1, &MADE_UP_DCID, b"", 1200);
    let Route::Accept(admission) = router.route(now, client(), &first, Opening::Direct) else {
        panic!("not accepted");
    };
    let handle = Handle::for_test(7);
    router.ids.insert(admission.scid, handle);
    router.ids.insert_initial(client(), &admission.initial_dcid, handle);

    let route = router.route(now, client(), &first, Opening::Direct);
    assert!(matches!(route, Route::Connection(found) if found == handle), "{route:?}");
}

#[test]
fn a_full_server_opens_nothing_and_answers_nothing() {
    let now = Instant::now();
    let mut router = server(now);
    let first = initial(VERSION_1, &MADE_UP_DCID, b"", 1200);
    let route = router.route(now, client(), &first, Opening::Refused);
    assert_eq!(dropped(&route), DropReason::NotAccepting);
}

#[test]
fn an_unknown_version_gets_a_version_negotiation_with_the_ids_swapped() {
    let now = Instant::now();
    let mut router = server(now);
    let first = initial(0x1a2a_3a4a, &[3; 40], b"", 1200);
    let Route::Reply(Reply::VersionNegotiation, packet) =
        router.route(now, client(), &first, Opening::WithRetry)
    else {
        panic!("no Version Negotiation");
    };
    let Some(Invariants { version, dcid, scid }) = Invariants::parse(&packet) else {
        panic!("no long header");
    };
    assert_eq!((version, dcid, scid), (0, &CLIENT_SCID[..], &[3; 40][..]));
    let versions = &packet[7 + dcid.len() + scid.len()..];
    assert!(versions.chunks(4).any(|version| version == VERSION_1.to_be_bytes()));
}

#[test]
fn an_initial_below_1200_bytes_is_dropped_whatever_its_version() {
    let now = Instant::now();
    for version in [VERSION_1, 0x1a2a_3a4a] {
        let mut router = server(now);
        let first = initial(version, &MADE_UP_DCID, b"", 1199);
        let route = router.route(now, client(), &first, Opening::WithRetry);
        assert_eq!(dropped(&route), DropReason::TooShort);
    }
}

#[test]
fn an_initial_to_a_short_id_is_dropped() {
    let now = Instant::now();
    let mut router = server(now);
    let first = initial(VERSION_1, &[1; 7], b"", 1200);
    assert_eq!(
        dropped(&router.route(now, client(), &first, Opening::WithRetry)),
        DropReason::Malformed
    );
}

/// A router whose IDs are shorter than those that a client may make up.
fn server_with_short_ids(now: Instant, server_id: Vec<u8>) -> Router {
    let quic_lb = tack_packet::QuicLbConfig {
        config_id: 0,
        server_id,
        nonce_len: 4,
        key: None,
        first_octet_encodes_cid_length: false,
    };
    let config = EndpointConfig { quic_lb: Some(quic_lb), ..EndpointConfig::default() };
    Router::new(&config, true, now, &Worker::alone(now).unwrap()).unwrap()
}

// RFC 9000 section 7.2
#[test]
fn the_id_of_a_retry_may_be_shorter_than_one_that_a_client_makes_up() {
    let now = Instant::now();
    let expired =
        now + EndpointConfig::default().retry_token_lifetime + Duration::from_millis(2);
    for server_id in [vec![1], vec![1, 2]] {
        let mut router = server_with_short_ids(now, server_id);
        let (scid, token) = get_retry(&mut router, now);
        let second = initial(VERSION_1, &scid, &token, 1200);
        for opening in [Opening::WithRetry, Opening::Direct] {
            let route = router.route(now, client(), &second, opening);
            let Route::Accept(admission) = route else { panic!("not accepted: {route:?}") };
            assert_eq!(admission.odcid.as_deref(), Some(&MADE_UP_DCID[..]));
            let route = router.route(expired, client(), &second, opening);
            assert!(matches!(route, Route::Reply(Reply::InvalidToken, _)), "{route:?}");
            for token in [&[][..], &[0x5a; 60]] {
                let made_up = initial(VERSION_1, &scid, token, 1200);
                let route = router.route(now, client(), &made_up, opening);
                assert_eq!(dropped(&route), DropReason::Malformed);
            }
        }
    }
}

#[test]
fn a_packet_for_an_unknown_connection_gets_a_smaller_reset() {
    let now = Instant::now();
    let mut router = server(now);
    let short = vec![0x41; 30];
    let Route::Reply(Reply::Reset, packet) =
        router.route(now, client(), &short, Opening::WithRetry)
    else {
        panic!("no reset");
    };
    assert_eq!(packet.len(), 29);
    let token = router.reset_token(&[0x41; CID_LEN]).to_be_bytes();
    assert!(packet.ends_with(&token));
}

#[test]
fn a_client_endpoint_answers_no_unknown_packet() {
    let now = Instant::now();
    let mut router = client_router(now);
    for datagram in [
        initial(VERSION_1, &MADE_UP_DCID, b"", 1200),
        initial(0x1a2a_3a4a, &MADE_UP_DCID, b"", 1200),
        vec![0x41; 100],
    ] {
        let route = router.route(now, client(), &datagram, Opening::Refused);
        assert_eq!(dropped(&route), DropReason::UnknownConnection);
    }
}

#[test]
fn a_reset_reaches_the_connection_whose_server_sent_it() {
    let now = Instant::now();
    let mut router = client_router(now);
    let (address, token) = (client(), 0x0102_0304_0506_0708_u128);
    let handle = Handle::for_test(3);
    router.expect_reset(address, token, handle);

    let mut reset = vec![0x4f; 21];
    reset[5..].copy_from_slice(&token.to_be_bytes());
    let route = router.route(now, address, &reset, Opening::Refused);
    assert!(matches!(route, Route::Connection(found) if found == handle), "{route:?}");

    let elsewhere = "192.0.2.9:50000".parse().unwrap();
    let route = router.route(now, elsewhere, &reset, Opening::Refused);
    assert_eq!(dropped(&route), DropReason::UnknownConnection);
    reset[20] ^= 1;
    let route = router.route(now, address, &reset, Opening::Refused);
    assert_eq!(dropped(&route), DropReason::UnknownConnection);
}

#[test]
fn no_answer_is_larger_than_what_it_answers() {
    let now = Instant::now();
    let mut router = server(now);
    // xorshift: the same garbage each time.
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    for _ in 0..20_000 {
        let len = (random() % 1501) as usize;
        let mut datagram: Vec<u8> = (0..len).map(|_| random() as u8).collect();
        if len > 5 && random() % 2 == 0 {
            datagram[0] |= 0xc0;
            datagram[1..5].copy_from_slice(&VERSION_1.to_be_bytes());
            datagram[5] = (random() % 21) as u8;
        }
        if let Route::Reply(kind, reply) =
            router.route(now, client(), &datagram, Opening::WithRetry)
        {
            assert!(reply.len() < len, "{kind:?} of {} bytes to {len}", reply.len());
        }
    }
}

/// The routers of two workers of one server.
fn two_workers(now: Instant, quic_lb: Option<tack_packet::QuicLbConfig>) -> [Router; 2] {
    let config = EndpointConfig { quic_lb, ..EndpointConfig::default() };
    let workers = Worker::all(2, now).unwrap();
    let mut routers =
        workers.iter().map(|worker| Router::new(&config, true, now, worker).unwrap());
    [routers.next().unwrap(), routers.next().unwrap()]
}

/// A datagram with a short header.
fn short(dcid: &[u8]) -> Vec<u8> {
    [&[0x41], dcid, &[0; 30]].concat()
}

#[test]
fn a_datagram_for_another_worker_is_forwarded_from_any_address_and_no_further() {
    let now = Instant::now();
    let key = Some([3; 16]);
    let lb = |key| tack_packet::QuicLbConfig {
        config_id: 1,
        server_id: vec![1, 2],
        nonce_len: 8,
        key,
        first_octet_encodes_cid_length: true,
    };
    for quic_lb in [None, Some(lb(None)), Some(lb(key))] {
        let [mut first, mut second] = two_workers(now, quic_lb);
        let (cid, token) = second.new_id().unwrap();
        let handle = Handle::for_test(4);
        second.ids.insert(cid, handle);
        let long = initial(VERSION_1, &cid, b"", 1200);
        for datagram in [short(&cid), long] {
            let route = first.route(now, client(), &datagram, Opening::WithRetry);
            assert!(matches!(route, Route::Forward(1)), "{route:?}");
            let route = second.route(now, client(), &datagram, Opening::WithRetry);
            assert!(matches!(route, Route::Connection(found) if found == handle), "{route:?}");
        }
        // The first worker's own go nowhere, known or not.
        let (own, _) = first.new_id().unwrap();
        let route = first.route(now, client(), &short(&own), Opening::WithRetry);
        assert!(matches!(route, Route::Reply(Reply::Reset, _)), "{route:?}");
        // A connection that is gone is reset by the worker that had it.
        second.ids.forget(handle);
        let Route::Reply(Reply::Reset, reset) =
            second.route_here(now, client(), &short(&cid), Opening::WithRetry)
        else {
            panic!("not reset");
        };
        assert!(reset.ends_with(&token.to_be_bytes()));
    }
}

#[test]
fn a_retry_token_is_good_at_every_worker_that_gets_its_id() {
    let now = Instant::now();
    let [mut first, mut second] = two_workers(now, None);
    let (scid, token) = get_retry(&mut second, now);
    let answer = initial(VERSION_1, &scid, &token, 1200);
    assert!(matches!(
        first.route(now, client(), &answer, Opening::WithRetry),
        Route::Forward(1)
    ));
    let route = second.route_here(now, client(), &answer, Opening::WithRetry);
    assert!(matches!(route, Route::Accept(_)), "{route:?}");
    // Keys are shared: had it been the first worker's, that one would have accepted it as well.
    assert!(matches!(
        first.route_here(now, client(), &answer, Opening::WithRetry),
        Route::Accept(_)
    ));
}

#[test]
fn an_id_that_a_client_made_up_opens_one_connection_though_it_passes_for_another_workers() {
    let now = Instant::now();
    let [mut first, mut second] = two_workers(now, None);
    let (look_alike, _) = second.new_id().unwrap();
    let opening = initial(VERSION_1, &look_alike, b"", 1200);
    for _ in 0..2 {
        assert!(matches!(
            first.route(now, client(), &opening, Opening::Direct),
            Route::Forward(1)
        ));
    }
    let Route::Accept(admission) = second.route_here(now, client(), &opening, Opening::Direct)
    else {
        panic!("not accepted");
    };
    let handle = Handle::for_test(7);
    second.ids.insert(admission.scid, handle);
    second.ids.insert_initial(client(), &admission.initial_dcid, handle);
    let route = second.route_here(now, client(), &opening, Opening::Direct);
    assert!(matches!(route, Route::Connection(found) if found == handle), "{route:?}");
}

#[test]
fn every_id_of_a_router_has_the_configured_length() {
    let now = Instant::now();
    let quic_lb = tack_packet::QuicLbConfig {
        config_id: 0,
        server_id: vec![5],
        nonce_len: 18,
        key: None,
        first_octet_encodes_cid_length: true,
    };
    let config = EndpointConfig { quic_lb: Some(quic_lb), ..EndpointConfig::default() };
    let mut router = Router::new(&config, true, now, &Worker::alone(now).unwrap()).unwrap();
    let (scid, token) = get_retry(&mut router, now);
    assert_eq!((scid[0], scid[1], scid.len()), (19, 5, 20));
    let answer = initial(VERSION_1, &scid, &token, 1200);
    let Route::Accept(admission) = router.route(now, client(), &answer, Opening::WithRetry)
    else {
        panic!("not accepted");
    };
    router.ids.insert(admission.scid, Handle::for_test(1));
    let route = router.route(now, client(), &short(&admission.scid), Opening::WithRetry);
    assert!(matches!(route, Route::Connection(_)), "{route:?}");
    let route = router.route(now, client(), &short(&scid[..10])[..15], Opening::WithRetry);
    assert_eq!(dropped(&route), DropReason::Malformed);
}

// RFC 9000 section 8.1
#[test]
fn without_load_a_client_needs_no_retry_and_one_that_had_one_before_keeps_its_ids() {
    let now = Instant::now();
    let mut router = server(now);
    let (scid, token) = get_retry(&mut router, now);
    let first = initial(VERSION_1, &[7; 8], b"", 1200);
    let Route::Accept(admission) = router.route(now, client(), &first, Opening::Direct) else {
        panic!("not accepted");
    };
    assert_eq!((admission.odcid, admission.initial_dcid), (None, vec![7; 8]));
    // The load has gone between its two Initials.
    let second = initial(VERSION_1, &scid, &token, 1200);
    let Route::Accept(admission) = router.route(now, client(), &second, Opening::Direct) else {
        panic!("not accepted");
    };
    assert_eq!((admission.odcid.is_some(), admission.initial_dcid), (true, scid.to_vec()));
}

#[test]
fn clients_that_are_sent_a_retry_use_up_no_nonce_of_connections() {
    let now = Instant::now();
    let lb = tack_packet::QuicLbConfig {
        config_id: 1,
        server_id: vec![1, 2],
        nonce_len: 5,
        key: Some([3; 16]),
        first_octet_encodes_cid_length: true,
    };
    for mut router in two_workers(now, Some(lb.clone())) {
        let left = router.generator.nonces_left();
        assert_eq!(left, Some(1 << 31));
        for n in 0..1000_u64 {
            let dcid = n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
            let first = initial(VERSION_1, &dcid, b"", 1200);
            let route = router.route_here(now, client(), &first, Opening::WithRetry);
            assert!(matches!(route, Route::Reply(Reply::Retry, _)), "{route:?}");
        }
        assert_eq!(router.generator.nonces_left(), left);
    }
}
