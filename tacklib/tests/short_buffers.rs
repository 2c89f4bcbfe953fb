//! Callers that fill one buffer with several packets come with what is left of it, however short that is.

#![allow(clippy::unwrap_used)] // a test that cannot be set up has failed

mod common;

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use common::*;
use quiche::RecvInfo;
use tacklib::{Connection, EcnCodepoint};

/// An end that tries a short buffer before each full one.
struct WithLeftovers {
    connection: Connection,
    left: usize,
    written: usize,
}

impl WithLeftovers {
    fn new(connection: Connection) -> Self {
        Self { connection, left: 0, written: 0 }
    }
}

impl End for WithLeftovers {
    fn receive_with_ecn(&mut self, datagram: &mut [u8], info: RecvInfo, ecn: EcnCodepoint) {
        End::receive_with_ecn(&mut self.connection, datagram, info, ecn);
    }

    fn transmit(&mut self, out: &mut [u8]) -> Option<(usize, SocketAddr)> {
        // An error other than Done ends the test.
        self.left = self.left % 1200 + 1;
        let short = self.connection.transmit(&mut out[..self.left]);
        self.written += usize::from(short.is_some());
        short.or_else(|| self.connection.transmit(out))
    }

    fn ecn(&self) -> EcnCodepoint {
        End::ecn(&self.connection)
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

#[test]
fn what_does_not_fit_waits_for_the_next_buffer_and_is_no_error() {
    let (mut client, mut server) = (tack_config(), tack_config());
    let client = WithLeftovers::new(tack_client(&mut client));
    let server = WithLeftovers::new(tack_server(&mut server));
    let mut pair =
        Pair::new(client, server).with_delay(Duration::from_millis(10)).with_rate(50);
    pair.run_until(|pair| {
        pair.client.quic().is_established() && pair.server.quic().is_established()
    });
    transfer(&mut pair, 0, 1_000_000, true);
    transfer(&mut pair, 4, 1_000_000, false);
    assert!(pair.client.written > 100 && pair.server.written > 100, "some do fit");
}

#[test]
fn an_empty_buffer_is_too_short_as_it_is_for_quiche() {
    let (mut client, mut server) = (tack_config(), tack_config());
    let mut pair = Pair::new(tack_client(&mut client), tack_server(&mut server));
    let info = RecvInfo { from: server_address(), to: client_address() };
    for is_established in [false, true] {
        let client = &mut pair.client;
        assert_eq!(client.is_established(), is_established);
        assert_eq!(client.recv(&mut [], info), Err(quiche::Error::BufferTooShort));
        assert_eq!(client.send(&mut []).err(), Some(quiche::Error::BufferTooShort));
        pair.handshake();
    }
}

/// The client owes as many ends of streams and requests to stop as a packet with data takes, and an acknowledgement.
fn with_all_that_a_packet_takes() -> Pair<Connection, Connection> {
    let (mut client, mut server) = (tack_config(), tack_config());
    let mut pair = Pair::new(tack_client(&mut client), tack_server(&mut server));
    pair.handshake();
    pair.run_for(Duration::from_millis(100));
    for at in 0..4 {
        assert_eq!(pair.server.write(3 + 4 * at, &[1; 100], false), 100);
        assert_eq!(pair.client.write(2 + 4 * at, &[1; 100], false), 100);
    }
    let mut buffer = [0; 2000];
    let up = RecvInfo { from: client_address(), to: server_address() };
    let down = RecvInfo { from: server_address(), to: client_address() };
    while let Some((len, _)) = pair.client.transmit(&mut buffer) {
        pair.server.receive(&mut buffer[..len], up);
    }
    for at in 0..4 {
        pair.client.write(2 + 4 * at, &[], true);
    }
    // quiche forgets the ends when all else is acknowledged.
    advance(Duration::from_millis(50));
    pair.server.expire();
    while let Some((len, _)) = pair.server.transmit(&mut buffer) {
        pair.client.receive(&mut buffer[..len], down);
    }
    for at in 0..4 {
        pair.client.stream_shutdown(3 + 4 * at, quiche::Shutdown::Read, 7).unwrap();
    }
    advance(Duration::from_millis(50));
    pair
}

#[test]
fn a_buffer_that_is_too_short_for_all_that_is_due_does_not_make_the_connection_idle() {
    for len in 380..520 {
        let mut pair = with_all_that_a_packet_takes();
        assert_eq!(pair.client.write(0, &[1; 5000], false), 5000);
        let mut buffer = [0; 2000];
        pair.client.transmit(&mut buffer[..len]);
        let next = pair.client.transmit(&mut buffer).map(|(len, _)| len);
        assert!(next > Some(800), "{next:?} behind a buffer of {len} bytes");
    }
}
