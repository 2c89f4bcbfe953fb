//! What bubbles are worth to quiche where the ACK path fails at times, in virtual time: the
//! same transfer, with the receiver's bubbles and with every TACK relieved of them on its way.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail anywhere")]

use std::collections::VecDeque;
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use quiche::{ConnectionId, RecvInfo};
use tack_link::child_seed;
use tack_packet::{CipherSuite, ProtectionKeys, TAG_LEN};
use tack_proto::frame::{Frame, Frames, Located, encode_tack};
use tack_virtual::Virtual;
use tacklib::{Config, Connection, TackStats};

const MS: Duration = Duration::from_millis(1);
const ONE_WAY: Duration = Duration::from_millis(100);
/// 50 Mbit/s.
const BYTES_PER_SECOND: f64 = 6_250_000.0;
/// The last part of every two seconds in which no acknowledgement gets through.
const OUTAGE: Duration = Duration::from_millis(500);
const DATA_LOSS: f64 = 0.02;
const ACK_LOSS: f64 = 0.3;
/// The client's connection id, which the server's packets begin with.
const CLIENT_ID: [u8; 16] = [0xc1; 16];

const SEEDS: std::ops::RangeInclusive<u64> = 1..=6;

#[test]
fn bubbles_save_retransmissions_where_the_ack_path_fails_at_times() {
    let (mut needless_with, mut needless_without) = (0, 0);
    for seed in SEEDS {
        let with = transfer(seed, false);
        let without = transfer(seed, true);
        println!("seed {seed}\nwith {with:?}\nwithout {without:?}");
        assert_eq!(without.stats.packets_by_bubbles, 0);
        // What is taken for lost beyond what the link lost is sent in vain.
        let needless =
            |outcome: &Outcome| outcome.stats.lost_packets.saturating_sub(outcome.dropped);
        needless_with += needless(&with);
        needless_without += needless(&without);
        // Goodput is not compared: one run differs from the next by more than this saves.
        assert!(with.received > 20_000_000, "{with:?}");
    }
    // Some outages lose no acknowledgement that mattered, so the runs are taken together.
    assert!(needless_without > 1000, "{needless_without}");
    assert!(needless_with < needless_without / 20, "{needless_with} of {needless_without}");
}

#[derive(Debug)]
struct Outcome {
    /// The data sender's.
    stats: TackStats,
    /// Data packets that the link lost.
    dropped: u64,
    /// Bytes that the application read.
    received: usize,
}

/// Sends for ten seconds from the client to the server.
#[allow(clippy::too_many_lines)] // the steps of one scene
fn transfer(seed: u64, strip: bool) -> Outcome {
    let files = certificate();
    let time = Virtual::enter(5);
    let start = Instant::now();
    let secrets = Secrets::default();
    let (mut client_config, mut server_config) = (config(&files), config(&files));
    client_config.log_keys();
    let mut client = tacklib::connect(
        Some("localhost"),
        &ConnectionId::from_ref(&CLIENT_ID),
        address(1),
        address(2),
        &mut client_config,
    )
    .unwrap();
    client.set_keylog(Box::new(secrets.clone()));
    let server_id = ConnectionId::from_ref(&[0x5e; 16]);
    let mut server =
        tacklib::accept(&server_id, None, address(2), address(1), &mut server_config).unwrap();
    let mut up = Way::default();
    let mut down = Way::default();
    let (mut stripper, mut next_number) = (None, 0);
    let mut random = Random { seed, draws: 0 };
    let (mut dropped, mut received) = (0, 0);
    let mut buffer = vec![0; 65536];
    for tick in 0..100_000 {
        // 0.1 ms.
        time.set(MS / 10 * tick);
        let now = Instant::now();
        let elapsed = now - start;
        for end in [&mut client, &mut server] {
            if end.timeout_instant().is_some_and(|at| at <= now) {
                end.on_timeout();
            }
        }
        up.deliver(now, &mut server, address(1), address(2));
        down.deliver(now, &mut client, address(2), address(1));
        while let Ok((read, _)) = server.stream_recv(2, &mut buffer) {
            received += read;
        }
        if client.is_established() {
            while client.stream_send(2, &buffer, false).is_ok() {}
        }
        while let Ok((len, _)) = client.send(&mut buffer) {
            if elapsed > MS * 1000 && random.chance(DATA_LOSS) || !up.carry(now, &buffer[..len])
            {
                dropped += 1;
            }
        }
        while let Ok((len, _)) = server.send(&mut buffer) {
            let mut datagram = buffer[..len].to_vec();
            if strip && client.is_established() {
                let keys = stripper.get_or_insert_with(|| secrets.server_keys(&mut client));
                datagram = without_bubbles(keys, &mut next_number, datagram);
            }
            let outage = elapsed.as_millis() % 2000 >= 2000 - OUTAGE.as_millis();
            if elapsed > MS * 1000 && (outage || random.chance(ACK_LOSS)) {
                continue;
            }
            down.carry(now, &datagram);
        }
    }
    assert!(client.local_error().is_none() && server.local_error().is_none());
    Outcome { stats: client.tack_stats(), dropped, received }
}

/// One direction of the link, with a buffer of one BDP.
#[derive(Default)]
struct Way {
    queue: VecDeque<(Instant, Vec<u8>)>,
    busy_until: Option<Instant>,
}

impl Way {
    fn carry(&mut self, now: Instant, datagram: &[u8]) -> bool {
        let free = self.busy_until.map_or(now, |busy| busy.max(now));
        if free - now > 2 * ONE_WAY {
            return false;
        }
        let sent = free + Duration::from_secs_f64(datagram.len() as f64 / BYTES_PER_SECOND);
        self.busy_until = Some(sent);
        self.queue.push_back((sent + ONE_WAY, datagram.to_vec()));
        true
    }

    fn deliver(&mut self, now: Instant, to: &mut Connection, from: SocketAddr, at: SocketAddr) {
        while self.queue.front().is_some_and(|(arrival, _)| *arrival <= now) {
            let Some((_, mut datagram)) = self.queue.pop_front() else { break };
            to.recv(&mut datagram, RecvInfo { from, to: at }).unwrap();
        }
    }
}

/// Which packets get lost.
struct Random {
    seed: u64,
    draws: u64,
}

impl Random {
    fn chance(&mut self, probability: f64) -> bool {
        let draw = child_seed(self.seed, self.draws);
        self.draws += 1;
        (draw as f64 / u64::MAX as f64) < probability
    }
}

/// The packet without the bubbles of its TACKs.
fn without_bubbles(
    keys: &mut ProtectionKeys,
    next_number: &mut u64,
    datagram: Vec<u8>,
) -> Vec<u8> {
    let mut packet = datagram;
    if packet[0] & 0x80 != 0 {
        return packet; // of the handshake
    }
    let opened = keys.open(&mut packet, CLIENT_ID.len(), *next_number).unwrap();
    *next_number = opened.header.packet_number + 1;
    let payload = packet[opened.payload.clone()].to_vec();
    let mut frames = Vec::new();
    for located in Frames::new(&payload) {
        let Located { frame, range } = located.unwrap();
        match frame {
            Frame::Tack(tack) => {
                let ranges = tack.ranges.iter();
                encode_tack(&mut frames, &tack.fields(), ranges, std::iter::empty(), 2000)
                    .unwrap();
            }
            _ => frames.extend_from_slice(&payload[range]),
        }
    }
    packet.truncate(opened.payload.start);
    packet.extend_from_slice(&frames);
    packet.resize(packet.len() + TAG_LEN, 0);
    keys.seal(opened.generation, &mut packet, &opened.header, frames.len()).unwrap();
    packet
}

/// A key log that remembers the server's 1-RTT secret.
#[derive(Clone, Default)]
struct Secrets(Arc<Mutex<Vec<u8>>>);

impl Write for Secrets {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Secrets {
    fn server_keys(&self, client: &mut Connection) -> ProtectionKeys {
        let text = String::from_utf8(self.0.lock().unwrap().clone()).unwrap();
        let line = text.lines().find(|line| line.starts_with("SERVER_TRAFFIC_SECRET_0"));
        let hex = line.unwrap().split(' ').nth(2).unwrap();
        let byte = |at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
        let secret: Vec<u8> = (0..hex.len()).step_by(2).map(byte).collect();
        let suite = client.as_mut().current_cipher().unwrap().name().to_owned();
        ProtectionKeys::new(CipherSuite::from_name(&suite).unwrap(), &secret).unwrap()
    }
}

fn address(port: u16) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, 4000 + port))
}

/// Paths of a self-signed certificate and its key.
fn certificate() -> [String; 2] {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".into()]).unwrap();
    let dir = std::env::temp_dir().join(format!("tack-lab-test-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let texts = [("cert.pem", made.cert.pem()), ("key.pem", made.signing_key.serialize_pem())];
    texts.map(|(name, text)| {
        let path = dir.join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    })
}

fn config([certificate, key]: &[String; 2]) -> Config {
    let mut config = Config::new(quiche::PROTOCOL_VERSION).unwrap();
    config.load_cert_chain_from_pem_file(certificate).unwrap();
    config.load_priv_key_from_pem_file(key).unwrap();
    config.verify_peer(false);
    config.set_application_protos(&[b"bubbles"]).unwrap();
    config.set_max_idle_timeout(10_000);
    config.set_initial_max_data(100_000_000);
    config.set_initial_max_stream_data_uni(100_000_000);
    config.set_initial_max_streams_uni(1);
    config
}
