//! A client that comes again asks with its first packet (0-RTT, RFC 9001 section 4.6).

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::net::{SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use tack_transfer::{
    Client, ConnectOptions, EarlyData, Error, Fingerprint, Get, Identity, Place, Root,
    RunningServer, Server, ServerOptions, SessionStore, Source, TransferOptions, Trust,
    WirePath,
};

const TOKEN: &str = "token of the test";

/// A directory with `shared` and `here` in it, and where a client keeps its sessions.
struct Scratch(tempfile::TempDir);

impl Scratch {
    fn new() -> Self {
        let scratch = Self(tempfile::tempdir().unwrap());
        fs::create_dir(scratch.path("shared")).unwrap();
        fs::write(scratch.path("shared/file"), "content").unwrap();
        scratch
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// A server whose identity is in the directory `identity`.
    fn serve(
        &self,
        identity: &str,
        listen: SocketAddr,
        change: impl FnOnce(&mut ServerOptions),
    ) -> (RunningServer, Fingerprint) {
        let identity = Identity::in_directory(&self.path(identity)).unwrap();
        let fingerprint = identity.fingerprint;
        let root = Root::open(&self.path("shared")).unwrap();
        let mut options = ServerOptions::new(listen, root, identity, Some(TOKEN.to_owned()));
        options.read_only = false;
        change(&mut options);
        (Server::new(options).unwrap().start(), fingerprint)
    }

    fn connect(&self, server: SocketAddr, trust: Trust) -> Result<Client, Error> {
        let mut options = ConnectOptions::new(trust).with_token(TOKEN);
        options.sessions = Some(SessionStore::in_directory(self.path("state")));
        Client::connect(&server.into(), options)
    }
}

fn any_port() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

/// Fetches the file, and tells what became of early data.
fn get(client: Result<Client, Error>, to: &Path) -> Result<Option<EarlyData>, Error> {
    let mut client = client?;
    let wanted = Get::new(WirePath::new("file").unwrap(), to);
    let _ = fs::remove_file(to);
    client.get(vec![wanted], &TransferOptions::default(), &mut |_| {})?;
    assert_eq!(fs::read(to).unwrap(), b"content");
    Ok(client.close().early_data)
}

#[test]
fn a_client_that_comes_again_asks_with_its_first_packet_and_again_the_next_time() {
    let scratch = Scratch::new();
    let (server, fingerprint) = scratch.serve("identity", any_port(), |_| {});
    let early: Vec<_> = (0..3)
        .map(|_| {
            let client = scratch.connect(server.local_addr(), Trust::Pinned(fingerprint));
            get(client, &scratch.path("here")).unwrap()
        })
        .collect();
    assert_eq!(early, [None, Some(EarlyData::Accepted), Some(EarlyData::Accepted)]);
}

#[test]
fn what_is_sent_to_a_server_that_is_known_arrives_too() {
    let scratch = Scratch::new();
    let (server, fingerprint) = scratch.serve("identity", any_port(), |_| {});
    for (name, expected) in [("one", None), ("two", Some(EarlyData::Accepted))] {
        let mut client =
            scratch.connect(server.local_addr(), Trust::Pinned(fingerprint)).unwrap();
        fs::write(scratch.path(name), name).unwrap();
        let source = Source::open(&scratch.path(name)).unwrap();
        let place = Place::Into(WirePath::root());
        client.send(vec![source], &place, &TransferOptions::default(), &mut |_| {}).unwrap();
        assert_eq!(fs::read(scratch.path("shared").join(name)).unwrap(), name.as_bytes());
        assert_eq!(client.close().early_data, expected);
    }
}

#[test]
fn a_server_that_has_forgotten_the_session_is_asked_once_more() {
    let scratch = Scratch::new();
    let (server, fingerprint) = scratch.serve("identity", any_port(), |_| {});
    let address = server.local_addr();
    let client = || scratch.connect(address, Trust::Pinned(fingerprint));
    assert_eq!(get(client(), &scratch.path("here")).unwrap(), None);
    server.stop().unwrap();
    // It makes new keys for its tickets.
    let _server = scratch.serve("identity", address, |_| {});
    let early = get(client(), &scratch.path("here")).unwrap();
    assert_eq!(early, Some(EarlyData::Refused));
    assert_eq!(get(client(), &scratch.path("here")).unwrap(), Some(EarlyData::Accepted));
}

#[test]
fn a_server_can_refuse_all_early_data() {
    let scratch = Scratch::new();
    let (server, fingerprint) =
        scratch.serve("identity", any_port(), |options| options.early_data = false);
    for _ in 0..2 {
        let client = scratch.connect(server.local_addr(), Trust::Pinned(fingerprint));
        assert_eq!(get(client, &scratch.path("here")).unwrap(), None);
    }
}

/// Early data that is refused goes out once more, and must not go to whoever is there now.
#[test]
fn another_server_at_the_address_gets_no_token() {
    let scratch = Scratch::new();
    let (server, fingerprint) = scratch.serve("identity", any_port(), |_| {});
    let address = server.local_addr();
    let client = || scratch.connect(address, Trust::Pinned(fingerprint));
    get(client(), &scratch.path("here")).unwrap();
    server.stop().unwrap();
    let told = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&told);
    let (other, actual) = scratch.serve("other", address, |options| {
        // A token that comes is one that is reported.
        options.token = Some("another".to_owned());
        options.report = Box::new(move |event| kept.lock().unwrap().push(event.action));
    });
    for _ in 0..2 {
        let error = get(client(), &scratch.path("here")).unwrap_err();
        assert!(
            matches!(error, Error::WrongFingerprint { expected, actual: told }
                if expected == fingerprint && told == actual),
            "{error}"
        );
    }
    other.stop().unwrap();
    assert!(told.lock().unwrap().is_empty(), "{told:?}");
}

// RFC 9000 section 8.1
#[test]
fn early_data_lets_a_server_answer_with_a_whole_initial_window() {
    const INITIAL_WINDOW: usize = 10 * 1200;
    let scratch = Scratch::new();
    let (server, fingerprint) = scratch.serve("identity", any_port(), |_| {});
    let address = server.local_addr();
    get(scratch.connect(address, Trust::Pinned(fingerprint)), &scratch.path("here")).unwrap();
    server.stop().unwrap();
    let silent = UdpSocket::bind(address).unwrap();
    silent.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let ended = Arc::new(AtomicBool::new(false));
    let mut options = ConnectOptions::new(Trust::Pinned(fingerprint)).with_token(TOKEN);
    options.sessions = Some(SessionStore::in_directory(scratch.path("state")));
    options.ended = Some(Arc::clone(&ended));
    let (to, began) = (scratch.path("here"), Instant::now());
    let client = thread::spawn(move || get(Client::connect(&address.into(), options), &to));
    let (mut buffer, mut sent) = ([0; 2000], 0);
    // Nothing is repeated before the first probe timeout, 300 ms.
    while 3 * sent < INITIAL_WINDOW && began.elapsed() < Duration::from_millis(250) {
        sent += silent.recv(&mut buffer).unwrap();
    }
    ended.store(true, Ordering::Relaxed);
    client.join().unwrap().unwrap_err();
    assert!(3 * sent >= INITIAL_WINDOW, "{sent} bytes");
}

#[test]
fn who_trusts_the_server_for_another_reason_makes_a_handshake_of_its_own() {
    let scratch = Scratch::new();
    let (server, fingerprint) = scratch.serve("identity", any_port(), |_| {});
    for trust in [Trust::Pinned(fingerprint), Trust::Anything, Trust::Anything] {
        let client = scratch.connect(server.local_addr(), trust);
        assert_eq!(get(client, &scratch.path("here")).unwrap(), None);
    }
}

#[test]
fn a_server_that_is_gone_is_told_by_the_operation() {
    let scratch = Scratch::new();
    let (server, fingerprint) = scratch.serve("identity", any_port(), |_| {});
    let address = server.local_addr();
    let client = || scratch.connect(address, Trust::Pinned(fingerprint));
    get(client(), &scratch.path("here")).unwrap();
    server.stop().unwrap();
    let error = get(client(), &scratch.path("here")).unwrap_err();
    assert!(error.may_pass(), "{error}");
}

/// A path over which a server can be kept from hearing more than a first flight.
struct Relay {
    address: SocketAddr,
    /// From when on nothing more reaches the server than what leaves before its first answer.
    cuts: Arc<AtomicBool>,
    /// Bytes that the client has sent since then.
    sent: Arc<AtomicUsize>,
}

impl Relay {
    fn start(server: SocketAddr) -> Self {
        /// Longer than a client takes to send it, and shorter than it waits before it repeats something.
        const FIRST_FLIGHT: Duration = Duration::from_millis(100);
        let front = UdpSocket::bind("127.0.0.1:0").unwrap();
        let relay = Self {
            address: front.local_addr().unwrap(),
            cuts: Arc::default(),
            sent: Arc::default(),
        };
        let (cuts, sent) = (Arc::clone(&relay.cuts), Arc::clone(&relay.sent));
        // It ends with the test.
        thread::spawn(move || {
            let mut back: Option<(SocketAddr, UdpSocket)> = None;
            let (mut buffer, mut is_answered) = ([0; 2000], false);
            let mut begun = Instant::now();
            front.set_nonblocking(true).unwrap();
            loop {
                while let Ok((length, client)) = front.recv_from(&mut buffer) {
                    if back.as_ref().is_none_or(|(known, _)| *known != client) {
                        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
                        socket.connect(server).unwrap();
                        socket.set_nonblocking(true).unwrap();
                        (back, is_answered) = (Some((client, socket)), false);
                        begun = Instant::now();
                    }
                    let is_cut = cuts.load(Ordering::Relaxed);
                    sent.fetch_add(if is_cut { length } else { 0 }, Ordering::Relaxed);
                    if let (Some((_, socket)), false) = (&back, is_cut && is_answered) {
                        socket.send(&buffer[..length]).unwrap();
                    }
                }
                thread::sleep(Duration::from_micros(100));
                // The whole first flight is there before an answer is.
                let Some((client, socket)) = &back else { continue };
                if begun.elapsed() < FIRST_FLIGHT {
                    continue;
                }
                while let Ok(length) = socket.recv(&mut buffer) {
                    is_answered = true;
                    front.send_to(&buffer[..length], *client).unwrap();
                }
            }
        });
        relay
    }
}

#[test]
fn a_client_whose_early_data_was_taken_goes_on_before_the_server_has_seen_that() {
    /// What it may send before the handshake, and what packets add to that.
    const EARLY: usize = 24 * 1024 + 8_000;
    let scratch = Scratch::new();
    let (server, fingerprint) = scratch.serve("identity", any_port(), |_| {});
    let relay = Relay::start(server.local_addr());
    get(scratch.connect(relay.address, Trust::Pinned(fingerprint)), &scratch.path("here"))
        .unwrap();
    let tree = scratch.path("tree");
    fs::create_dir(&tree).unwrap();
    for n in 0..100 {
        fs::write(tree.join(format!("file{n}")), [7; 4096]).unwrap();
    }
    relay.cuts.store(true, Ordering::Relaxed);
    let ended = Arc::new(AtomicBool::new(false));
    let mut options = ConnectOptions::new(Trust::Pinned(fingerprint)).with_token(TOKEN);
    options.sessions = Some(SessionStore::in_directory(scratch.path("state")));
    options.ended = Some(Arc::clone(&ended));
    let server_address = relay.address.into();
    let client = thread::spawn(move || {
        let mut client = Client::connect(&server_address, options).unwrap();
        client.expect_nothing_there();
        let sources = vec![Source::open(&tree).unwrap()];
        let place = Place::Into(WirePath::root());
        client.send(sources, &place, &TransferOptions::default(), &mut |_| {}).map(drop)
    });
    let began = Instant::now();
    let sent = || relay.sent.load(Ordering::Relaxed);
    while sent() <= EARLY && began.elapsed() < Duration::from_secs(1) {
        thread::sleep(Duration::from_millis(1));
    }
    ended.store(true, Ordering::Relaxed);
    client.join().unwrap().unwrap_err();
    assert!(sent() > EARLY, "{} bytes", sent());
}
