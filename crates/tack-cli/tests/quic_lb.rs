//! Two servers behind a load balancer that reads connection ids, as docs/deploying.md says.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may panic")]
#![cfg(target_os = "linux")]

mod common;

use std::fs;
use std::net::{SocketAddr, UdpSocket};
use std::process::{Child, Command, Stdio};

use common::{Served, TACK, finish, noise};
use tack_packet::{Invariants, QuicLb, QuicLbConfig};

const GUIDE: &str = include_str!("../../../docs/deploying.md");
const KEY: [u8; 16] = *b"\x8f\x95\xf0\x92\x45\x76\x5f\x80\x25\x69\x34\xe5\x0c\x66\x20\x7f";
const SERVER_IDS: [&str; 2] = ["0a01", "0a02"];
const SIZE: usize = 8_000_000;

fn socket() -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_nonblocking(true).unwrap();
    socket
}

/// Knows nothing but the ids, and sends what it cannot route to `fallback`.
struct Balancer {
    front: UdpSocket,
    /// By server; their ports are the client's, for the servers.
    back: [UdpSocket; 2],
    servers: [SocketAddr; 2],
    ids: QuicLb,
    fallback: usize,
    client: Option<SocketAddr>,
    /// Datagrams by server that were routed by their ids.
    routed: [usize; 2],
    bytes_to_client: usize,
}

impl Balancer {
    fn new(servers: [SocketAddr; 2]) -> Self {
        let ids = QuicLb::new(QuicLbConfig {
            config_id: 0,
            // Only its length counts here.
            server_id: vec![0, 0],
            nonce_len: 8,
            key: Some(KEY),
            first_octet_encodes_cid_length: true,
        });
        Self {
            front: socket(),
            back: [socket(), socket()],
            servers,
            ids: ids.unwrap(),
            fallback: 0,
            client: None,
            routed: [0; 2],
            bytes_to_client: 0,
        }
    }

    /// The client has another address from now on, and whatever the balancer knew of it is gone.
    fn move_client(&mut self, fallback: usize) {
        self.back = [socket(), socket()];
        self.fallback = fallback;
    }

    fn server_of(&self, datagram: &[u8]) -> Option<usize> {
        let dcid = match Invariants::parse(datagram) {
            Some(header) => header.dcid,
            None => datagram.get(1..=self.ids.cid_len())?,
        };
        let read = self.ids.decode(dcid).ok()?;
        [[0x0a, 0x01], [0x0a, 0x02]].iter().position(|id| read.server_id() == id)
    }

    /// Passes on what there is; whether there was something.
    fn turn(&mut self) -> bool {
        let mut buffer = vec![0; 65_536];
        let mut has_passed = false;
        while let Ok((length, from)) = self.front.recv_from(&mut buffer) {
            self.client = Some(from);
            let server = self.server_of(&buffer[..length]);
            if let Some(server) = server {
                self.routed[server] += 1;
            }
            let server = server.unwrap_or(self.fallback);
            // A full buffer loses it, as a network would.
            let _ = self.back[server].send_to(&buffer[..length], self.servers[server]);
            has_passed = true;
        }
        for back in &self.back {
            while let Ok(length) = back.recv(&mut buffer) {
                let _ = self.front.send_to(&buffer[..length], self.client.unwrap());
                self.bytes_to_client += length;
                has_passed = true;
            }
        }
        has_passed
    }

    fn serve(&mut self, client: &mut Child, mut between: impl FnMut(&mut Self)) {
        while client.try_wait().unwrap().is_none() {
            if !self.turn() {
                std::thread::sleep(std::time::Duration::from_micros(200));
            }
            between(self);
        }
    }
}

/// A server with the file of the guide and this id, which shares all else with the others.
fn server(dir: &std::path::Path, id: &str) -> Served {
    let (_, block) = GUIDE.split_once("```toml\n").expect("a configuration");
    let (text, _) = block.split_once("```").unwrap();
    let file = dir.join("lb.toml");
    fs::write(&file, text).unwrap();
    let token = dir.join("token");
    let own = tempfile::tempdir().unwrap();
    fs::create_dir(own.path().join("served")).unwrap();
    // The later of two options counts for neither; so both servers have one identity by a link.
    fs::create_dir_all(dir.join("identity")).unwrap();
    std::os::unix::fs::symlink(dir.join("identity"), own.path().join("identity")).unwrap();
    let arguments = [
        "--workers",
        "2",
        "--server-id",
        id,
        "--lb-config",
        file.to_str().unwrap(),
        "--token-file",
        token.to_str().unwrap(),
    ];
    let served = Served::in_dir(own, Command::new(TACK), "127.0.0.1:0", &arguments);
    served.write("file", &noise(SIZE, 1));
    served
}

#[test]
fn a_client_that_moves_stays_with_its_server_behind_a_balancer_that_reads_its_ids() {
    let dir = tempfile::tempdir().unwrap();
    let servers = SERVER_IDS.map(|id| server(dir.path(), id));
    let addresses = [0, 1].map(|which: usize| servers[which].address.parse().unwrap());
    for first in [0, 1] {
        let mut balancer = Balancer::new(addresses);
        balancer.fallback = first;
        let front = balancer.front.local_addr().unwrap();
        let dest = dir.path().join(format!("dest-{first}"));
        let mut get = servers[0].client("get");
        get.args(["--bwlimit", "8M", "--token-file"]).arg(dir.path().join("token"));
        get.arg(format!("{front}/file")).arg(&dest);
        let mut client = get.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut moves = 0;
        balancer.serve(&mut client, |balancer| {
            if balancer.bytes_to_client > (moves + 1) * SIZE / 4 && moves < 2 {
                moves += 1;
                // Without the ids the other server would get it.
                balancer.move_client(1 - first);
            }
        });
        let finished = finish(client).expect(0);
        assert_eq!(moves, 2);
        assert!(!finished.errors.contains("connect again"), "{}", finished.errors);
        assert_eq!(finished.number("resumed_bytes"), 0);
        assert!(balancer.routed[first] > 20, "{:?}", balancer.routed);
        assert_eq!(balancer.routed[1 - first], 0);
        assert!(fs::read(dest).unwrap() == noise(SIZE, 1));
    }
}
