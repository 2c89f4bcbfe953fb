//! Transfers a file over HTTP/3. Server and client run in one process, each with its UDP socket, and
//! are connected by a path of 50 Mbit/s with a round trip of 20 ms.
//!
//! `before.rs` uses plain quiche, `after.rs` is the same application with tacklib:
//!
//! ```sh
//! diff examples/src/bin/before.rs examples/src/bin/after.rs
//! ```
//!
//! The argument is the file to serve; the default is 4 MiB of generated data.

#![forbid(unsafe_code)]

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use mio::net::UdpSocket;
use mio::{Events, Interest, Poll, Token};
use quiche::h3::{self, NameValue};
use quiche::{ConnectionId, RecvInfo};
use tack_examples::{Certificate, Relay};

const LOCALHOST: (Ipv4Addr, u16) = (Ipv4Addr::LOCALHOST, 0);
const MADE_UP: usize = 4 << 20;
const RATE: u64 = 50_000_000;
const RTT: Duration = Duration::from_millis(20);
const PATIENCE: Duration = Duration::from_secs(20);

fn main() -> Result<()> {
    let file = match std::env::args_os().nth(1) {
        Some(path) => std::fs::read(path).context("the file to serve")?,
        None => (0..MADE_UP).map(|at| (at ^ (at >> 8)) as u8).collect(),
    };

    // The server's socket holds the client's first datagram until it is accepted.
    let server = std::net::UdpSocket::bind(LOCALHOST)?;
    let path = Relay::start(server.local_addr()?, RATE, RTT)?;
    let mut client = Endpoint::connect(path.address())?;
    client.transmit()?;
    let mut server = Endpoint::accept(server)?;

    let mut poll = Poll::new()?;
    for (number, endpoint) in [&mut server, &mut client].into_iter().enumerate() {
        poll.registry().register(&mut endpoint.socket, Token(number), Interest::READABLE)?;
    }
    let (mut events, mut site, mut download) =
        (Events::with_capacity(8), Server::new(&file), Client::default());
    let start = Instant::now();
    while !download.finished {
        ensure!(start.elapsed() < PATIENCE, "the transfer stalled");
        let timeouts = [server.connection.timeout(), client.connection.timeout()];
        poll.poll(&mut events, timeouts.into_iter().flatten().min())?;

        server.receive()?;
        site.serve(&mut server.connection)?;
        server.transmit()?;

        client.receive()?;
        download.fetch(&mut client.connection)?;
        client.transmit()?;
    }

    let elapsed = start.elapsed();
    ensure!(download.status == b"200" && download.body == file, "another file arrived");
    client.connection.close(true, 0x100, b"thank you")?;
    client.transmit()?;
    println!("{} bytes in {elapsed:.0?}", download.body.len());
    println!("server sent {} packets", server.connection.stats().sent);
    println!("client sent {} packets", client.connection.stats().sent);
    Ok(())
}

/// A connection and its socket.
struct Endpoint {
    socket: UdpSocket,
    connection: tacklib::Connection,
}

impl Endpoint {
    fn connect(server: SocketAddr) -> Result<Self> {
        let mut config = config()?;
        let socket = UdpSocket::bind(LOCALHOST.into())?;
        let local = socket.local_addr()?;
        // There is one connection for each socket, so a fixed connection id does. Applications with
        // more draw random ones.
        let scid = ConnectionId::from_ref(b"the only client");
        let name = Some("localhost");
        let connection = tacklib::connect(name, &scid, local, server, &mut config)?;
        Ok(Self { socket, connection })
    }

    /// Waits for the client's first datagram, which `receive` then reads.
    fn accept(socket: std::net::UdpSocket) -> Result<Self> {
        let certificate = Certificate::new()?;
        let mut config = config()?;
        config.load_cert_chain_from_pem_file(&certificate.chain()?)?;
        config.load_priv_key_from_pem_file(&certificate.key()?)?;

        socket.set_read_timeout(Some(PATIENCE))?;
        let (_, client) = socket.peek_from(&mut [0; 2048])?;
        let local = socket.local_addr()?;
        let scid = ConnectionId::from_ref(b"the only server");
        let connection = tacklib::accept(&scid, None, local, client, &mut config)?;
        socket.set_nonblocking(true)?;
        Ok(Self { socket: UdpSocket::from_std(socket), connection })
    }

    /// Gives the connection the datagrams that have arrived, and runs its timer if it has expired.
    fn receive(&mut self) -> Result<()> {
        let mut datagram = [0; 2048];
        loop {
            match self.socket.recv_from(&mut datagram) {
                Ok((len, from)) => {
                    let info = RecvInfo { from, to: self.socket.local_addr()? };
                    self.connection.recv(&mut datagram[..len], info)?;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error.into()),
            }
        }
        if self.connection.timeout().is_some_and(|timeout| timeout.is_zero()) {
            self.connection.on_timeout();
        }
        Ok(())
    }

    /// Sends the datagrams that the connection has for the peer.
    fn transmit(&mut self) -> Result<()> {
        let mut datagram = [0; 1350];
        loop {
            match self.connection.send(&mut datagram) {
                Ok((len, info)) => match self.socket.send_to(&datagram[..len], info.to) {
                    // A full socket buffer loses the datagram, as a network may.
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                    sent => sent?,
                },
                Err(quiche::Error::Done) => return Ok(()),
                Err(error) => return Err(error.into()),
            };
        }
    }
}

fn config() -> Result<tacklib::Config> {
    let mut config = tacklib::Config::new(quiche::PROTOCOL_VERSION)?;
    config.set_application_protos(h3::APPLICATION_PROTOCOL)?;
    config.verify_peer(false); // the certificate is self-signed
    config.set_max_idle_timeout(5_000);
    config.set_max_recv_udp_payload_size(1350);
    config.set_max_send_udp_payload_size(1350);
    config.set_initial_max_data(10_000_000);
    config.set_initial_max_stream_data_bidi_local(10_000_000);
    config.set_initial_max_stream_data_bidi_remote(100_000);
    config.set_initial_max_stream_data_uni(100_000);
    config.set_initial_max_streams_bidi(10);
    config.set_initial_max_streams_uni(10);
    Ok(config)
}

/// Answers every request with one file.
struct Server<'a> {
    file: &'a [u8],
    http: Option<h3::Connection>,
    /// The stream of the request and how much of the file it has.
    answering: Option<(u64, usize)>,
}

impl<'a> Server<'a> {
    fn new(file: &'a [u8]) -> Self {
        Self { file, http: None, answering: None }
    }

    fn serve(&mut self, connection: &mut quiche::Connection) -> Result<()> {
        let Some(http) = established(&mut self.http, connection)? else { return Ok(()) };
        loop {
            match http.poll(connection) {
                Ok((stream, h3::Event::Headers { .. })) => {
                    let ok = [h3::Header::new(b":status", b"200")];
                    http.send_response(connection, stream, &ok, false)?;
                    self.answering = Some((stream, 0));
                }
                Ok(_) => {}
                Err(h3::Error::Done) => break,
                Err(error) => return Err(error.into()),
            }
        }
        let Some((stream, sent)) = &mut self.answering else { return Ok(()) };
        while *sent < self.file.len() {
            match http.send_body(connection, *stream, &self.file[*sent..], true) {
                Ok(len) => *sent += len,
                Err(h3::Error::Done) => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

/// Requests the file once.
#[derive(Default)]
struct Client {
    http: Option<h3::Connection>,
    requested: bool,
    status: Vec<u8>,
    body: Vec<u8>,
    finished: bool,
}

impl Client {
    fn fetch(&mut self, connection: &mut quiche::Connection) -> Result<()> {
        let Some(http) = established(&mut self.http, connection)? else { return Ok(()) };
        if !self.requested {
            let request = [
                h3::Header::new(b":method", b"GET"),
                h3::Header::new(b":scheme", b"https"),
                h3::Header::new(b":authority", b"localhost"),
                h3::Header::new(b":path", b"/file"),
            ];
            http.send_request(connection, &request, true)?;
            self.requested = true;
        }
        let mut buffer = [0; 16_384];
        loop {
            match http.poll(connection) {
                Ok((_, h3::Event::Headers { list, .. })) => {
                    let status = list.iter().find(|header| header.name() == b":status");
                    self.status = status.context("no status")?.value().to_vec();
                }
                Ok((stream, h3::Event::Data)) => {
                    while let Ok(len) = http.recv_body(connection, stream, &mut buffer) {
                        self.body.extend_from_slice(&buffer[..len]);
                    }
                }
                Ok((_, h3::Event::Finished)) => self.finished = true,
                Ok(_) => {}
                Err(h3::Error::Done) => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// Returns the HTTP/3 connection, which is made when the handshake is complete.
fn established<'a>(
    http: &'a mut Option<h3::Connection>,
    connection: &mut quiche::Connection,
) -> Result<Option<&'a mut h3::Connection>> {
    if http.is_none() && connection.is_established() {
        *http = Some(h3::Connection::with_transport(connection, &h3::Config::new()?)?);
    }
    Ok(http.as_mut())
}
