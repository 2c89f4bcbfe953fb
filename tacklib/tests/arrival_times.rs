//! Ends that read late, and are told when datagrams came to their sockets (TACK-5.3-7).

#![allow(clippy::unwrap_used)] // a test that cannot be set up has failed

mod common;

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use common::*;
use quiche::RecvInfo;
use tacklib::{Connection, EcnCodepoint};

const ONE_WAY: Duration = Duration::from_millis(10);
const LATE: Duration = Duration::from_millis(5);

/// An end that has left each datagram in its socket for so long.
struct LateReader {
    connection: Connection,
    /// What it says of when they came, at that time.
    arrival: fn(Instant) -> Option<Instant>,
}

impl End for LateReader {
    fn receive_with_ecn(&mut self, datagram: &mut [u8], info: RecvInfo, ecn: EcnCodepoint) {
        // What it refuses shows in its state.
        let _ = match (self.arrival)(Instant::now()) {
            Some(at) => self.connection.recv_at(datagram, info, ecn, at),
            None => self.connection.recv_with_ecn(datagram, info, ecn),
        };
    }

    fn transmit(&mut self, out: &mut [u8]) -> Option<(usize, SocketAddr)> {
        self.connection.transmit(out)
    }

    fn ecn(&self) -> EcnCodepoint {
        self.connection.ecn()
    }

    fn deadline(&self) -> Option<Instant> {
        self.connection.deadline()
    }

    fn expire(&mut self) {
        self.connection.expire();
    }

    fn write(&mut self, stream_id: u64, data: &[u8], fin: bool) -> usize {
        self.connection.write(stream_id, data, fin)
    }

    fn read(&mut self, stream_id: u64, out: &mut [u8]) -> quiche::Result<(usize, bool)> {
        self.connection.read(stream_id, out)
    }

    fn quic(&self) -> &quiche::Connection {
        self.connection.quic()
    }
}

/// A megabyte up between two ends that read late, and say this of the arrival of datagrams.
fn transferred(arrival: fn(Instant) -> Option<Instant>) -> Pair<LateReader, LateReader> {
    let (mut client, mut server) = (tack_config(), tack_config());
    let late = |connection| LateReader { connection, arrival };
    let client = late(tack_client(&mut client));
    let server = late(tack_server(&mut server));
    let mut pair = Pair::new(client, server).with_delay(ONE_WAY + LATE).with_rate(50);
    pair.handshake();
    transfer(&mut pair, 0, 1 << 20, false);
    pair
}

fn min_rtt(pair: &Pair<LateReader, LateReader>) -> Duration {
    pair.client.connection.tack_stats().min_rtt.unwrap()
}

fn assert_close(found: Duration, expected: Duration) {
    let most = Duration::from_millis(1);
    assert!(found >= expected && found <= expected + most, "{found:?}, {expected:?}");
}

#[test]
fn what_datagrams_wait_in_the_sockets_is_no_delay_of_the_path() {
    // The wait at the server is part of what its TACKs say of how long they were held.
    assert_close(min_rtt(&transferred(|now| now.checked_sub(LATE))), 2 * ONE_WAY);
    assert_close(min_rtt(&transferred(|_| None)), 2 * (ONE_WAY + LATE));
}

#[test]
fn an_arrival_in_the_future_counts_as_now() {
    let pair = transferred(|now| now.checked_add(Duration::from_secs(3600)));
    assert_close(min_rtt(&pair), 2 * (ONE_WAY + LATE));
}

#[test]
fn arrivals_that_run_backwards_do_no_harm() {
    let pair = transferred(|now| now.checked_sub(Duration::from_secs(1)));
    // A round trip cannot take less than no time; the transfer is whole, and nothing is closed.
    assert!(pair.client.connection.local_error().is_none());
    assert!(pair.server.connection.local_error().is_none());
}
