//! What somebody can do with early data that was recorded.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use super::server::Server;
use super::server_options::ServerOptions;
use super::{Action, ConnectOptions, Link, Trust};
use crate::identity::Identity;
use crate::protocol::{Edit, Encoded, Message, Policy, Resume, Root, Secret, WirePath};
use crate::quic::{self, CloseCode, Verify};
use crate::server_address::ServerAddress;
use crate::tls_sessions::SessionStore;

const TOKEN: &str = "token of the test";
const TURN: Duration = Duration::from_millis(5);
const LOCAL: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 9);

/// A server of a directory with the file `file`, and what it has told.
struct Served {
    directory: tempfile::TempDir,
    server: Server,
    done: Arc<Mutex<Vec<(Action, bool)>>>,
}

impl Served {
    fn new(retry: bool) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().join("root");
        fs::create_dir(&root).unwrap();
        fs::write(root.join("file"), "content").unwrap();
        let identity = Identity::in_directory(&directory.path().join("identity")).unwrap();
        let listen = SocketAddr::from(([127, 0, 0, 1], 0));
        let (root, token) = (Root::open(&root).unwrap(), Some(TOKEN.to_owned()));
        let mut options = ServerOptions::new(listen, root, identity, token);
        options.read_only = false;
        options.retry = retry;
        let done = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&done);
        options.report = Box::new(move |event| {
            kept.lock().unwrap().push((event.action, event.result.is_ok()));
        });
        Self { directory, server: Server::new(options).unwrap(), done }
    }

    fn has_file(&self) -> bool {
        self.directory.path().join("root/file").exists()
    }

    fn turn_for(&mut self, time: Duration) {
        let end = Instant::now() + time;
        while Instant::now() < end {
            self.server.turn(TURN).unwrap();
        }
    }

    /// A session of a client that was let in.
    fn session(&mut self) -> Vec<u8> {
        let target = ServerAddress::from(self.server.local_addr());
        let store = SessionStore::in_directory(self.directory.path().join("state"));
        let trust = Trust::Pinned(
            Identity::in_directory(&self.directory.path().join("identity"))
                .unwrap()
                .fingerprint,
        );
        let owner = trust.session_owner(&target).unwrap();
        let mut options = ConnectOptions::new(trust).with_token(TOKEN);
        options.sessions = Some(store.clone());
        let client = std::thread::spawn(move || {
            let mut link = Link::connect(&target, options).unwrap();
            let end = Instant::now() + Duration::from_millis(200);
            while Instant::now() < end {
                link.turn(TURN).unwrap();
            }
            link.close(CloseCode::Done, "");
        });
        while !client.is_finished() {
            self.server.turn(TURN).unwrap();
        }
        client.join().unwrap();
        self.done.lock().unwrap().clear();
        store.take(owner, SystemTime::now()).unwrap().bytes
    }

    /// The datagrams with which a client says its token and asks for something, before it has heard anything.
    fn first_flight(&self, session: &[u8], request: Message) -> Vec<Vec<u8>> {
        self.begin_from(LOCAL, session, request).1
    }

    /// The same, and the client, which takes `local` for its address.
    fn begin_from(
        &self,
        local: SocketAddr,
        session: &[u8],
        request: Message,
    ) -> (tacklib::Connection, Vec<Vec<u8>>) {
        let mut config = quic::client_config(tacklib::Profile::Default, Verify::Later).unwrap();
        let id = quiche::ConnectionId::from_ref(&[7; 16]);
        let server = self.server.local_addr();
        let mut connection = tacklib::connect(None, &id, local, server, &mut config).unwrap();
        connection.set_session(session).unwrap();
        let mut flight = Vec::new();
        let mut buffer = [0; 1500];
        let mut write = |connection: &mut tacklib::Connection| {
            while let Ok((length, _)) = connection.send(&mut buffer) {
                flight.push(buffer[..length].to_vec());
            }
        };
        write(&mut connection);
        assert!(connection.is_in_early_data());
        let token = Some(Secret(TOKEN.to_owned()));
        let hello = Message::Hello { token, rate: None, filler: None };
        for (stream, message) in [(0, hello), (4, request)] {
            let encoded = Encoded::new(message).unwrap();
            let bytes = encoded.remaining();
            assert_eq!(connection.stream_send(stream, bytes, false), Ok(bytes.len()));
        }
        write(&mut connection);
        (connection, flight)
    }
}

/// Sends what was recorded from an address of its own.
fn replay(flight: &[Vec<u8>], server: SocketAddr) -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    for datagram in flight {
        socket.send_to(datagram, server).unwrap();
    }
    socket
}

fn path() -> WirePath {
    WirePath::new("file").unwrap()
}

#[test]
fn what_was_recorded_changes_nothing_and_what_only_reads_is_answered() {
    let mut served = Served::new(true);
    let address = served.server.local_addr();
    let session = served.session();
    let edits = vec![Edit::Remove(path())];
    let removal = Message::Edit { edits, policy: Policy::default() };
    let flight = served.first_flight(&session, removal);
    let _thief = replay(&flight, address);
    served.turn_for(Duration::from_millis(300));
    assert!(served.server.has_clients(), "the recording was taken");
    assert!(served.has_file(), "somebody else's request was done");
    assert!(served.done.lock().unwrap().is_empty());

    let reading = Message::Get { path: path(), resume: Resume::default() };
    let flight = served.first_flight(&session, reading);
    let thief = replay(&flight, address);
    served.turn_for(Duration::from_millis(300));
    // The handshake and what was asked for, which the thief cannot read: at most three times as much as it has
    // sent (RFC 9000 section 8.1).
    thief.set_nonblocking(true).unwrap();
    let mut buffer = [0; 2000];
    let answered: usize = std::iter::from_fn(|| thief.recv(&mut buffer).ok()).sum();
    let sent: usize = flight.iter().map(Vec::len).sum();
    assert!(answered > 0 && answered <= 3 * sent, "{answered} for {sent}");
    assert!(served.has_file());
}

/// A client that waited for the end of the handshake to hear it would send little for another round trip.
#[test]
fn whoever_says_the_token_early_hears_in_the_first_answer_that_more_may_follow() {
    let mut served = Served::new(false);
    let server = served.server.local_addr();
    let session = served.session();
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let local = socket.local_addr().unwrap();
    let reading = Message::Get { path: path(), resume: Resume::default() };
    let (mut client, flight) = served.begin_from(local, &session, reading);
    for datagram in &flight {
        socket.send_to(datagram, server).unwrap();
    }
    served.turn_for(Duration::from_millis(100));
    socket.set_nonblocking(true).unwrap();
    let mut buffer = [0; 2000];
    while let Ok(length) = socket.recv(&mut buffer) {
        let info = quiche::RecvInfo { from: server, to: local };
        client.recv(&mut buffer[..length], info).unwrap();
    }
    assert!(client.is_established());
    assert_eq!(client.stream_recv(0, &mut buffer), Ok((0, true)), "the answer to the token");
}

#[test]
fn strangers_who_repeat_what_they_have_recorded_give_way_as_others_do() {
    // Retries would keep most of them out.
    let mut served = Served::new(false);
    let address = served.server.local_addr();
    let session = served.session();
    let reading = || Message::Get { path: path(), resume: Resume::default() };
    let mut thieves = Vec::new();
    for _ in 0..40 {
        let flight = served.first_flight(&session, reading());
        thieves.push(replay(&flight, address));
        // The server repeats its answers up to the limit of an address that is not validated: for most of them no
        // room is left for the CONNECTION_CLOSE.
        served.turn_for(Duration::from_millis(150));
    }
    assert!(served.server.clients() <= 20, "{}", served.server.clients());
    assert!(served.session().len() > 100, "an honest client is let in");
}
