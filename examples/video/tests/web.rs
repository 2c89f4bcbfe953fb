//! Sessions of WebTransport as a browser begins them, with a client that knows no HTTP/3 but the bytes of it.

#![allow(clippy::unwrap_used, clippy::panic)] // a test that cannot be set up has failed

#[path = "../../../crates/tack-ffi/tests/skip/mod.rs"]
mod skip;

mod media;

use std::collections::BTreeMap;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Duration;

use media::{FORMS, Ladder};
use serde_json::Value;
use skip::skip;
use tack_endpoint::{Endpoint, EndpointConfig, Event};
use tack_example_video::browser::PageCertificate;
use tack_example_video::payload::Payload;
use tack_example_video::session::SendOptions;
use tack_example_video::source::Source;
use tack_example_video::transport;
use tack_example_video::web::{self, PageReport, WebServer};
use tack_media::{FrameHeader, FrameKind};
use tacklib::{Connection, Profile};

const LOCAL: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
const SECONDS: u64 = 2;
const LIVE: SendOptions =
    SendOptions { as_datagrams: false, lifetime: Some(Duration::from_secs(5)), longest: None };

/// What a client has seen.
#[derive(Default)]
struct Seen {
    /// Streams of the session that have ended, without what marks them, in the order of their IDs.
    streams: BTreeMap<u64, Vec<u8>>,
    /// What came on the stream of the request.
    answer: Vec<u8>,
    told: Vec<Value>,
    partial: BTreeMap<u64, Vec<u8>>,
}

/// A HEADERS frame: literal fields with literal names (RFC 9204 section 4.5.6).
fn request(path: &str) -> Vec<u8> {
    let fields = [
        (":method", "CONNECT"),
        (":protocol", "webtransport"),
        (":scheme", "https"),
        (":authority", "localhost"),
        (":path", path),
    ];
    let mut block = vec![0, 0];
    for (name, value) in fields {
        // Three bits of the length of a name are in its first byte; what does not fit follows.
        match name.len() {
            short @ 0..7 => block.push(0x20 | short as u8),
            long => block.extend_from_slice(&[0x27, (long - 7) as u8]),
        }
        block.extend_from_slice(name.as_bytes());
        block.push(value.len() as u8);
        block.extend_from_slice(value.as_bytes());
    }
    let mut frame = vec![1, 0x40, block.len() as u8];
    frame.extend(block);
    frame
}

/// Asks a server of two seconds of media for a session at that path, and leaves when it has told the end, or has
/// refused.
fn ask(root: &Path, path: &str) -> (Seen, Vec<PageReport>) {
    let certificate = PageCertificate::new().unwrap();
    let config = web::config(Profile::Video, &certificate).unwrap();
    let endpoint = Endpoint::server(LOCAL, config, EndpointConfig::default()).unwrap();
    let address = endpoint.local_addr();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let serving = scope.spawn(|| {
            let mut open = || Source::open(root, false);
            WebServer::new(endpoint, LIVE, &mut open).unwrap().run(true, &stop).unwrap()
        });
        let path = path.to_owned();
        let seen = thread::spawn(move || visit(address, &path)).join();
        // It ends when its page is gone.
        (seen.unwrap(), serving.join().unwrap())
    })
}

fn visit(address: SocketAddr, path: &str) -> Seen {
    let mut config = transport::player(Profile::Off, None).unwrap();
    config.set_application_protos(&[b"h3"]).unwrap();
    config.set_initial_max_stream_data_bidi_local(1 << 20);
    let mut endpoint = Endpoint::client(LOCAL, EndpointConfig::default()).unwrap();
    let handle = endpoint.connect(address, Some("localhost"), &mut config).unwrap();
    let mut seen = Seen::default();
    loop {
        endpoint.poll(Some(Duration::from_millis(100))).unwrap();
        while let Some(event) = endpoint.next_event() {
            match event {
                Event::Connected(_) => {
                    let connection = endpoint.connection_mut(handle).unwrap();
                    // The control stream: extended CONNECT, HTTP datagrams, WebTransport.
                    let settings = [0, 4, 9, 0x08, 1, 0x33, 1, 0xab, 0x60, 0x37, 0x42, 1];
                    connection.stream_send(2, &settings, false).unwrap();
                    connection.stream_send(0, &request(path), false).unwrap();
                    connection.dgram_send(b"\0{\"shown\": 42, \"size\": \"1x1\"}").unwrap();
                }
                Event::Closed(_, reason) => panic!("{reason}"),
                _ => {}
            }
        }
        if seen.read(endpoint.connection_mut(handle).unwrap()) {
            endpoint.shutdown(0x100, b"");
            endpoint.poll(Some(Duration::from_millis(10))).unwrap();
            return seen;
        }
    }
}

impl Seen {
    /// Reads what has come; whether it is the last.
    fn read(&mut self, connection: &mut Connection) -> bool {
        let mut buffer = vec![0; 65_536];
        while let Ok(len) = connection.dgram_recv(&mut buffer) {
            assert_eq!(buffer[0], 0, "a quarter of the stream's ID");
            self.told.push(serde_json::from_slice(&buffer[1..len]).unwrap());
        }
        let mut is_over = false;
        while let Some(stream) = connection.stream_readable_next() {
            let bytes = self.partial.entry(stream).or_default();
            let mut has_ended = false;
            while !has_ended
                && let Ok((len, is_end)) = connection.stream_recv(stream, &mut buffer)
            {
                bytes.extend_from_slice(&buffer[..len]);
                has_ended = is_end;
            }
            if stream == 0 {
                self.answer.clone_from(bytes);
                is_over |= has_ended;
            } else if has_ended && bytes.starts_with(&[0x40, 0x54, 0]) {
                is_over |= bytes[3] == 0;
                self.streams.insert(stream, bytes[3..].to_vec());
            }
        }
        is_over
    }
}

fn media() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    let seconds: Vec<_> = (0..SECONDS).collect();
    Ladder { directory: directory.path(), forms: &FORMS }.write(&seconds, true);
    directory
}

#[test]
fn a_session_gets_every_frame_on_a_stream_of_its_own_and_then_the_end() {
    let directory = media();
    let (seen, reports) = ask(directory.path(), "/live");
    let mut frames = BTreeMap::new();
    let mut ends = Vec::new();
    for bytes in seen.streams.values() {
        if bytes[0] == 0 {
            ends.push(serde_json::from_slice::<Value>(&bytes[1..]).unwrap());
            continue;
        }
        let (header, at) = FrameHeader::decode(bytes).unwrap();
        let payload = Payload::decode(&bytes[at..]).unwrap();
        assert_eq!(bytes.len() - at, header.len);
        assert_eq!(payload.init.is_empty(), header.kind != FrameKind::Key);
        frames.insert(header.number, header.kind);
    }
    assert_eq!(ends.len(), 1);
    assert_eq!(ends[0]["frames"], SECONDS * 30);
    let numbers: Vec<_> = frames.keys().copied().collect();
    assert_eq!(numbers, (0..SECONDS * 30).collect::<Vec<_>>());
    assert_eq!(frames.values().filter(|kind| **kind == FrameKind::Key).count() as u64, SECONDS);
    assert!(seen.told.len() > 3, "{:?}", seen.told);
    assert!(seen.told.iter().all(|told| told["rtt_ms"].as_f64().unwrap() >= 0.0));
    assert!(seen.told.last().unwrap()["bits_per_second"].as_u64().unwrap() >= 400_000);
    assert_eq!(
        (reports[0].shown, reports[0].size.as_str()),
        (42, "1x1"),
        "what the page tells"
    );
}

#[test]
fn streams_of_frames_that_are_too_late_are_reset_with_a_code_of_web_transport() {
    let config = web::config(Profile::Video, &PageCertificate::new().unwrap()).unwrap();
    // The first code of the draft is that of the application's code 0.
    assert_eq!(config.tack().deadline_error, 0x52e4_a40f_a8db + 2);
}

#[test]
fn other_paths_are_refused_and_get_nothing() {
    let directory = media();
    let (seen, reports) = ask(directory.path(), "/other");
    assert!(seen.streams.is_empty() && seen.told.is_empty());
    // A HEADERS frame with :status 404, an indexed field of QPACK's static table, behind frames of a reserved type.
    assert!(seen.answer.ends_with(&[1, 3, 0, 0, 0xdb]), "{:?}", seen.answer);
    assert_eq!(reports, [PageReport::default()]);
}

#[test]
fn the_page_names_the_server_and_the_certificate() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("live.html");
    let certificate = PageCertificate::new().unwrap();
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 4321));
    web::write_page(&path, &certificate, address, Duration::from_millis(250)).unwrap();
    let page = fs::read_to_string(&path).unwrap();
    assert!(page.contains("https://127.0.0.1:4321/live") && page.contains("DELAY = 250;"));
    let hash = page.split("new Uint8Array([").nth(1).unwrap().split(']').next().unwrap();
    let bytes: Vec<u8> = hash.split(',').map(|byte| byte.parse().unwrap()).collect();
    assert_eq!(bytes.len(), 32);
    assert!(!page.contains("__"), "nothing is left to fill in");
}

#[test]
fn the_page_decodes_what_can_be_decoded() {
    let directory = tempfile::tempdir().unwrap();
    let page = directory.path().join("live.html");
    let certificate = PageCertificate::new().unwrap();
    web::write_page(&page, &certificate, LOCAL, Duration::from_millis(250)).unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/page.js");
    let Ok(run) = Command::new("node").arg(script).arg(&page).output() else {
        skip("node is not installed");
        return;
    };
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
}
