//! Key updates that neither of two stock quiche connections initiates: what stands between them and
//! the wire does.

#![allow(clippy::unwrap_used)] // a test that cannot be set up has failed

mod common;

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use common::log::Log;
use common::*;
use tack_packet::{CipherSuite, DatagramLayout, PacketProtection};
use tack_proto::frame::{Frame, Frames};

/// Length of the connection ids of both ends.
const DCID_LEN: usize = 16;
const PTO: Duration = Duration::from_millis(100);

#[test]
fn quiche_follows_an_update_that_is_initiated_on_the_wire() {
    let mut net = Net::established();
    net.exchange();
    net.ends[CLIENT].update(net.now);
    // All that the client writes before the server's answer is translated.
    net.ends[CLIENT].write();
    let left = net.flush(CLIENT);
    assert!(left.iter().all(|sent| *sent == Left { generation: 1, is_translated: true }));
    net.exchange();
    for end in &net.ends {
        assert_eq!(end.protection().outgoing().wire_generation(), 1);
        assert!(!end.protection().outgoing().wire_is_ahead());
        assert_eq!(end.protection().incoming().failed_opens(), 0);
    }
}

#[test]
fn both_ends_may_initiate_at_once() {
    let mut net = Net::established();
    net.exchange();
    for end in &mut net.ends {
        end.update(net.now);
        end.write();
    }
    net.exchange();
    net.exchange();
    for end in &net.ends {
        assert_eq!(end.protection().outgoing().wire_generation(), 1);
        assert!(!end.protection().outgoing().wire_is_ahead());
    }
}

#[test]
fn many_updates_follow_one_another_from_either_end() {
    let mut net = Net::established();
    net.exchange();
    for generation in 1..=8 {
        net.ends[generation % 2].update(net.now);
        net.exchange();
        net.exchange();
        net.now += 3 * PTO;
        for end in &mut net.ends {
            let protection = end.protection.as_mut().unwrap();
            assert_eq!(protection.outgoing().wire_generation(), generation as u64);
            assert_eq!(protection.incoming().failed_opens(), 0);
            protection.discard_previous(net.now, PTO);
        }
    }
}

const CLIENT: usize = 0;
const SERVER: usize = 1;

/// A 1-RTT packet that has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Left {
    generation: u64,
    is_translated: bool,
}

/// A stock connection, and what stands between it and the wire once it is established.
struct End {
    quiche: quiche::Connection,
    address: SocketAddr,
    protection: Option<PacketProtection>,
    next_number: u64,
    expected: u64,
    read: usize,
}

impl End {
    fn new(quiche: quiche::Connection, address: SocketAddr) -> Self {
        Self { quiche, address, protection: None, next_number: 0, expected: 0, read: 0 }
    }

    fn protection(&self) -> &PacketProtection {
        self.protection.as_ref().unwrap()
    }

    fn update(&mut self, now: Instant) {
        self.protection.as_mut().unwrap().initiate_update(now).unwrap();
    }

    /// Writes some packets' worth of data to a stream of its own.
    fn write(&mut self) {
        let stream_id = u64::from(self.quiche.is_server());
        self.quiche.stream_send(stream_id, &[0x5a; 5000], false).unwrap();
    }

    /// The next datagram, and what its 1-RTT packet is.
    fn send(&mut self) -> Option<(Vec<u8>, Option<Left>)> {
        let mut buf = [0; 1500];
        let (len, _) = self.quiche.send(&mut buf).ok()?;
        let at = DatagramLayout::parse(&buf[..len]).one_rtt;
        let (Some(protection), Some(at)) = (&mut self.protection, at) else {
            return Some((buf[..len].to_vec(), None));
        };
        let mut scratch = Vec::new();
        let written =
            protection.take(&mut buf[at..], len - at, DCID_LEN, self.next_number).unwrap();
        let is_translated = !written.can_pass();
        let departed = if is_translated {
            let opened = written.open(&mut scratch).unwrap();
            let frames = opened.payload().to_vec();
            opened.seal(&frames, false).unwrap()
        } else {
            written.pass().unwrap()
        };
        self.next_number = departed.packet_number + 1;
        let left = Left { generation: departed.generation, is_translated };
        Some((buf[..at + departed.len].to_vec(), Some(left)))
    }

    fn receive(&mut self, now: Instant, mut datagram: Vec<u8>, from: SocketAddr) {
        let at = DatagramLayout::parse(&datagram).one_rtt;
        if let (Some(protection), Some(at)) = (&mut self.protection, at) {
            let packet = &datagram[at..];
            let header = protection.read_header(packet, DCID_LEN, self.expected).unwrap();
            self.expected = self.expected.max(header.packet_number() + 1);
            let mut scratch = Vec::new();
            let opened = protection.open(packet, header, &mut scratch).unwrap();
            assert!(!protection.needs_translation(&opened));
            for located in Frames::new(&scratch) {
                match located.unwrap().frame {
                    Frame::HandshakeDone => protection.on_handshake_confirmed(),
                    Frame::Ack(ack) => protection
                        .on_acknowledged(now, PTO, ack.ranges.largest(), opened.generation)
                        .unwrap(),
                    _ => {}
                }
            }
        }
        let info = quiche::RecvInfo { from, to: self.address };
        self.quiche.recv(&mut datagram, info).unwrap();
        let mut out = [0; 5000];
        for stream_id in self.quiche.readable() {
            while let Ok((len, _)) = self.quiche.stream_recv(stream_id, &mut out) {
                self.read += len;
            }
        }
    }
}

struct Net {
    ends: Vec<End>,
    /// For key updates; quiche's clock is its own, and nothing here waits for it.
    now: Instant,
}

impl Net {
    /// Two ends after their handshake, which the server knows to be confirmed.
    fn established() -> Self {
        let (mut client, mut server) = (stock_config(), stock_config());
        let secrets = Log::default();
        client.log_keys();
        let mut client = stock_client(&mut client);
        client.set_keylog(Box::new(secrets.clone()));
        let client = End::new(client, client_address());
        let server = End::new(stock_server(&mut server), server_address());
        let mut net = Self { ends: vec![client, server], now: Instant::now() };
        // No HANDSHAKE_DONE before there is somebody to see it: the server is asked for nothing
        // once it is established.
        while !net.ends.iter().all(|end| end.quiche.is_established()) {
            net.flush(CLIENT);
            if !net.ends[SERVER].quiche.is_established() {
                net.flush(SERVER);
            }
        }
        let name = net.ends[CLIENT].quiche.as_mut().current_cipher().unwrap().name().to_owned();
        let suite = CipherSuite::from_name(&name).unwrap();
        let client = secrets.secret("CLIENT_TRAFFIC_SECRET_0");
        let server = secrets.secret("SERVER_TRAFFIC_SECRET_0");
        let protection = |incoming: &[u8], outgoing: &[u8]| {
            Some(PacketProtection::new(suite, incoming, outgoing).unwrap())
        };
        net.ends[CLIENT].protection = protection(&server, &client);
        net.ends[SERVER].protection = protection(&client, &server);
        net.ends[SERVER].protection.as_mut().unwrap().on_handshake_confirmed();
        net
    }

    /// Delivers what one end has to send.
    fn flush(&mut self, from: usize) -> Vec<Left> {
        let mut all = Vec::new();
        while let Some((datagram, left)) = self.ends[from].send() {
            all.extend(left);
            let address = self.ends[from].address;
            self.ends[1 - from].receive(self.now, datagram, address);
        }
        all
    }

    /// Both ends write, and get all of it.
    fn exchange(&mut self) {
        let before = [CLIENT, SERVER].map(|at| self.ends[at].read);
        for end in &mut self.ends {
            end.write();
        }
        for _ in 0..4 {
            self.flush(CLIENT);
            self.flush(SERVER);
        }
        for (end, before) in self.ends.iter().zip(before) {
            assert!(end.read >= before + 5000, "{} of 5000 bytes", end.read - before);
        }
    }
}
