//! Our endpoint and an unmodified quiche over a plain socket understand each other.

#![allow(clippy::disallowed_methods, reason = "tests bound how long they may take")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail anywhere")]
#![allow(clippy::large_stack_arrays, reason = "buffers of the largest datagram")]
#![allow(missing_docs, reason = "nothing here is public")]

mod common;

use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use common::{App, Certificate, Exchange, PATIENCE, pattern, run_alone};
use tack_endpoint::EndpointConfig;

const LEN: usize = 16 << 20;

/// quiche on a `std` socket, in a simple loop.
struct Stock {
    socket: UdpSocket,
    connection: quiche::Connection,
    exchange: Exchange,
}

impl Stock {
    fn connect(server: SocketAddr, data: Vec<u8>) -> Self {
        let socket = UdpSocket::bind(SocketAddr::from(common::LOCALHOST)).unwrap();
        let mut config = quiche::Config::new(quiche::PROTOCOL_VERSION).unwrap();
        common::set_parameters(&mut config);
        let connection = quiche::connect(
            Some("localhost"),
            &quiche::ConnectionId::from_ref(&[0xab; 16]),
            socket.local_addr().unwrap(),
            server,
            &mut config,
        );
        Self { socket, connection: connection.unwrap(), exchange: Exchange::client(data) }
    }

    fn accept(socket: UdpSocket, certificate: &Certificate, data: Vec<u8>) -> Self {
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut first = [0; 1500];
        let (len, from) = socket.recv_from(&mut first).unwrap();
        let to = socket.local_addr().unwrap();
        let mut config = quiche::Config::new(quiche::PROTOCOL_VERSION).unwrap();
        common::set_parameters(&mut config);
        certificate.give_to(&mut config);
        let scid = quiche::ConnectionId::from_ref(&[0xcd; 16]);
        let mut connection = quiche::accept(&scid, None, to, from, &mut config).unwrap();
        connection.recv(&mut first[..len], quiche::RecvInfo { from, to }).unwrap();
        Self { socket, connection, exchange: Exchange::server(data) }
    }

    /// Runs until the connection is closed; returns the exchange.
    fn run(mut self) -> Exchange {
        let start = Instant::now();
        let local = self.socket.local_addr().unwrap();
        let mut buffer = [0; 65_536];
        while !self.connection.is_closed() && !self.connection.is_draining() {
            assert!(start.elapsed() < PATIENCE, "the test hangs");
            while let Ok((len, info)) = self.connection.send(&mut buffer) {
                self.socket.send_to(&buffer[..len], info.to).unwrap();
            }
            let wait = self.connection.timeout().unwrap_or(PATIENCE);
            let wait = wait.clamp(Duration::from_micros(100), Duration::from_millis(100));
            self.socket.set_read_timeout(Some(wait)).unwrap();
            match self.socket.recv_from(&mut buffer) {
                Ok((len, from)) => {
                    let info = quiche::RecvInfo { from, to: local };
                    self.connection.recv(&mut buffer[..len], info).unwrap();
                }
                Err(error) => {
                    assert!(matches!(
                        error.kind(),
                        ErrorKind::WouldBlock | ErrorKind::TimedOut
                    ));
                    self.connection.on_timeout();
                }
            }
            if self.connection.is_established() {
                self.exchange.drive(&mut self.connection);
            }
            if self.exchange.is_done() && !self.connection.is_server() {
                let _ = self.connection.close(true, 0, b"done");
            }
        }
        self.exchange
    }
}

#[test]
fn a_stock_client_exchanges_16_mib_with_our_server() {
    let (upload, download) = (pattern(LEN, 1), pattern(LEN, 2));
    let config = EndpointConfig::default();
    let mut server = App::server(&Certificate::new(), config, download.clone());
    let address = server.local_addr();
    let data = upload.clone();
    let client = std::thread::spawn(move || Stock::connect(address, data).run());

    run_alone(&mut server, |server| !server.closed.is_empty());
    client.join().unwrap().assert_received(&download);
    server.exchanges[&server.only()].assert_received(&upload);
    assert_eq!(server.endpoint.stats().accepted, 1);
    assert!(server.endpoint.stats().retries_sent > 0);
}

#[test]
fn our_client_exchanges_16_mib_with_a_stock_server() {
    let (upload, download) = (pattern(LEN, 1), pattern(LEN, 2));
    let socket = UdpSocket::bind(SocketAddr::from(common::LOCALHOST)).unwrap();
    let address = socket.local_addr().unwrap();
    let data = download.clone();
    let server =
        std::thread::spawn(move || Stock::accept(socket, &Certificate::new(), data).run());

    let mut client = App::client();
    let handle = client.connect(address, upload.clone());
    run_alone(&mut client, |client| client.is_done(handle));
    client.exchanges[&handle].assert_received(&download);
    client.close(handle);
    run_alone(&mut client, |client| client.endpoint.is_idle());
    server.join().unwrap().assert_received(&upload);
}
