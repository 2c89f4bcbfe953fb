//! The back-off of a client's probe timer survives a Retry, although that proves the server to be
//! there (cloudflare/quiche#2690).

use std::time::{Duration, Instant};

use crate::harness::*;

/// Makes for a first timeout of three times this (RFC 9002 section 6.2.2).
const INITIAL_RTT: Duration = Duration::from_millis(5);

#[test]
fn a_timer_that_had_expired_stays_long_after_a_retry() {
    let mut fast = config();
    fast.set_initial_rtt(INITIAL_RTT);
    let mut ends = Ends::new(&mut fast, &mut config());
    let mut first = sent(&mut ends.client).remove(0).0;
    for _ in 0..2 {
        expire(&mut ends.client);
        assert!(!sent(&mut ends.client).is_empty(), "a probe");
    }
    let header = quiche::Header::from_slice(&mut first, CID_LEN).unwrap();
    let id = quiche::ConnectionId::from_ref(&[0x5e; CID_LEN]);
    let mut retry = vec![0; 1500];
    let (scid, dcid) = (&header.scid, &header.dcid);
    let len =
        quiche::retry(scid, dcid, &id, b"token", quiche::PROTOCOL_VERSION, &mut retry).unwrap();
    retry.truncate(len);
    let _ = ends.deliver_to_client(retry);
    let before = Instant::now();
    assert!(!sent(&mut ends.client).is_empty(), "the Initial with the token");
    let timeout = ends.client.timeout_instant().unwrap() - before;
    assert_needed(timeout >= 2 * 3 * INITIAL_RTT, "retry_backoff.rs");
}
