//! The relay and the tap on the command line, between programs of others.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail anywhere")]

use std::io::{BufRead, BufReader, Read};
use std::net::{SocketAddr, UdpSocket};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
// All tests of this package are linked so that its random numbers can be in charge.
use tack_virtual as _;

const DATAGRAMS: u64 = 20;
/// Of a connection that is tapped.
const BYTES: usize = 300_000;

/// A server that sends back what it gets.
fn echo() -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    thread::spawn(move || {
        let mut buffer = [0; 2000];
        while let Ok((len, from)) = socket.recv_from(&mut buffer) {
            let _ = socket.send_to(&buffer[..len], from);
        }
    });
    address
}

struct Running {
    child: Child,
    address: SocketAddr,
    rest: BufReader<std::process::ChildStdout>,
}

fn start(args: &[&str]) -> Running {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tack-lab"));
    let mut child = command.args(args).stdout(Stdio::piped()).spawn().unwrap();
    let mut rest = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    rest.read_line(&mut line).unwrap();
    Running { child, address: line.trim().parse().unwrap(), rest }
}

impl Running {
    /// Sends datagrams through it, and waits for their echoes.
    fn exchange(&self) {
        self.exchange_of(4);
    }

    /// The same with datagrams of so many bytes.
    fn exchange_of(&self, len: usize) {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let mut buffer = [0; 2000];
        for number in 0..DATAGRAMS {
            let mut datagram = number.to_be_bytes().to_vec();
            datagram.resize(len, 7);
            socket.send_to(&datagram, self.address).unwrap();
            let (len, _) = socket.recv_from(&mut buffer).unwrap();
            assert_eq!(buffer[..len], datagram);
        }
    }

    fn interrupt(mut self) -> String {
        let pid = Pid::from_raw(i32::try_from(self.child.id()).unwrap());
        kill(pid, Signal::SIGINT).unwrap();
        let mut rest = String::new();
        self.rest.read_to_string(&mut rest).unwrap();
        assert!(self.child.wait().unwrap().success());
        rest
    }
}

#[test]
fn a_relay_carries_datagrams_over_its_link_and_reports_when_it_is_interrupted() {
    let server = echo().to_string();
    let relay =
        start(&["relay", "--to", &server, "--link", "pipe:100", "--rtt", "2", "--json"]);
    relay.exchange();
    let report: Value = serde_json::from_str(&relay.interrupt()).unwrap();
    for direction in ["to_client", "to_server"] {
        let datagrams = &report[direction]["datagrams"];
        assert_eq!(datagrams["packets"], DATAGRAMS);
        assert_eq!(datagrams["delivered_packets"], DATAGRAMS);
        assert!(report[direction].get("frames").is_none(), "there was no key log");
    }
    let parameters = &report["parameters"];
    assert_eq!((&parameters["seed"], &parameters["rtt"]), (&1.into(), &2.0.into()));
    assert!(parameters["link_spec"].is_object() && report["versions"].is_object(), "{report}");
}

#[test]
fn a_tap_without_secrets_counts_datagrams_and_no_frames() {
    let server = echo().to_string();
    let directory = std::env::temp_dir().join(format!("tack-lab-tap-{}", std::process::id()));
    let missing = directory.join("keys.log");
    let missing = missing.to_str().unwrap();
    let tap = start(&["tap", "--to", &server, "--key-log", missing, "--seconds", "600"]);
    tap.exchange();
    // Longer than an emulated link takes: nothing is lost here.
    tap.exchange_of(1600);
    let table = tap.interrupt();
    assert!(table.contains("to the client") && table.contains("40"), "{table}");
}

fn refused(args: &[&str]) -> String {
    let Output { status, stderr, .. } =
        Command::new(env!("CARGO_BIN_EXE_tack-lab")).args(args).output().unwrap();
    assert!(!status.success());
    String::from_utf8(stderr).unwrap()
}

#[test]
fn what_leads_off_this_machine_or_cannot_count_is_refused() {
    assert!(
        refused(&["relay", "--to", "192.0.2.1:443"]).contains("only servers on this machine")
    );
    assert!(refused(&["tap", "--to", "127.0.0.1:443"]).contains("--key-log"));
    let endless = refused(&["relay", "--to", "127.0.0.1:443", "--seconds", "0"]);
    assert!(endless.contains("--seconds"), "{endless}");
}

/// One end of a connection over a socket.
struct End {
    connection: tacklib::Connection,
    socket: UdpSocket,
    peer: SocketAddr,
}

impl End {
    /// Does what is due; false if nothing was.
    fn turn(&mut self) -> bool {
        let mut buffer = [0; 2000];
        let mut any = false;
        while let Ok((len, from)) = self.socket.recv_from(&mut buffer) {
            let to = self.socket.local_addr().unwrap();
            let _ = self.connection.recv(&mut buffer[..len], quiche::RecvInfo { from, to });
            any = true;
        }
        if self.connection.timeout() == Some(Duration::ZERO) {
            self.connection.on_timeout();
        }
        while let Ok((len, _)) = self.connection.send(&mut buffer) {
            self.socket.send_to(&buffer[..len], self.peer).unwrap();
            any = true;
        }
        any
    }
}

fn config(directory: &std::path::Path) -> tacklib::Config {
    let mut config = tacklib::Config::new(quiche::PROTOCOL_VERSION).unwrap();
    config.set_application_protos(&[b"test"]).unwrap();
    let certificate = directory.join("certificate.pem");
    if certificate.exists() {
        config.load_cert_chain_from_pem_file(certificate.to_str().unwrap()).unwrap();
        let key = directory.join("key.pem");
        config.load_priv_key_from_pem_file(key.to_str().unwrap()).unwrap();
    }
    config.verify_peer(false);
    config.log_keys();
    config.set_initial_max_data(10_000_000);
    config.set_initial_max_stream_data_uni(10_000_000);
    config.set_initial_max_streams_uni(10);
    config
}

fn bind() -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_nonblocking(true).unwrap();
    socket
}

/// Sends so many bytes from the client to the server; how many have come.
fn upload(client: &mut End, server: &mut End) -> usize {
    let (mut written, mut read) = (0, 0);
    let (data, mut buffer) = (vec![1; BYTES], [0; 2000]);
    // Twenty seconds at most.
    for _ in 0..20_000 {
        if client.connection.is_established() && written < BYTES {
            written += client.connection.stream_send(2, &data[written..], true).unwrap_or(0);
        }
        let any = client.turn() | server.turn();
        while let Ok((len, _)) = server.connection.stream_recv(2, &mut buffer) {
            read += len;
        }
        if read == BYTES && client.connection.tack_stats().bytes_in_flight == 0 {
            break;
        }
        if !any {
            thread::sleep(Duration::from_millis(1));
        }
    }
    read
}

#[test]
fn a_tap_counts_the_frames_of_a_connection_by_its_key_log() {
    let directory =
        std::env::temp_dir().join(format!("tack-lab-tapped-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let identity = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    std::fs::write(directory.join("certificate.pem"), identity.cert.pem()).unwrap();
    std::fs::write(directory.join("key.pem"), identity.signing_key.serialize_pem()).unwrap();
    let keys = directory.join("keys.log");
    let server = bind();
    let to = server.local_addr().unwrap().to_string();
    let tap = start(&["tap", "--to", &to, "--key-log", keys.to_str().unwrap(), "--json"]);

    let client = bind();
    let (local, scid) =
        (client.local_addr().unwrap(), quiche::ConnectionId::from_ref(&[7; 16]));
    let mut client_config = config(std::path::Path::new("/nonexistent"));
    let mut connection =
        tacklib::connect(None, &scid, local, tap.address, &mut client_config).unwrap();
    let log = std::fs::File::create(&keys).unwrap();
    connection.set_keylog(Box::new(log));
    let mut client = End { connection, socket: client, peer: tap.address };
    client.turn();

    // The server's connection begins with the first datagram, which says where from.
    let mut buffer = [0; 2000];
    let (len, from) = loop {
        if let Ok(first) = server.recv_from(&mut buffer) {
            break first;
        }
        thread::sleep(Duration::from_millis(1));
    };
    let scid = quiche::ConnectionId::from_ref(&[9; 16]);
    let (local, mut server_config) = (server.local_addr().unwrap(), config(&directory));
    let mut connection = tacklib::accept(&scid, None, local, from, &mut server_config).unwrap();
    let info = quiche::RecvInfo { from, to: local };
    connection.recv(&mut buffer[..len], info).unwrap();
    let mut server = End { connection, socket: server, peer: from };

    assert_eq!(upload(&mut client, &mut server), BYTES);
    let report: Value = serde_json::from_str(&tap.interrupt()).unwrap();
    let frames = |direction: &str, name: &str| {
        report[direction]["frames"][name].as_u64().unwrap_or_else(|| panic!("{report}"))
    };
    assert!(frames("to_server", "stream_bytes") >= BYTES as u64, "{report}");
    assert!(frames("to_server", "data_packets") > 100, "{report}");
    assert!(frames("to_client", "tacks") > 0, "{report}");
    assert!(frames("to_client", "ack_packets") * 4 < frames("to_server", "data_packets"));
    std::fs::remove_dir_all(&directory).unwrap();
}
