//! Media over HTTP/3: media types, ranges, and what is not served.

#![allow(clippy::unwrap_used, clippy::panic)] // a test that cannot be set up has failed

#[path = "../../../crates/tack-ffi/tests/skip/mod.rs"]
mod skip;

mod media;

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use media::{FORMS, Ladder};
use skip::skip;
use tack_endpoint::{Endpoint, EndpointConfig, Event, Handle};
use tack_example_video::http3::{HttpServer, PageReport, Site, config};
use tack_example_video::transport;
use tacklib::Profile;
use tacklib::h3::{self, Header, NameValue};

const LOCAL: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

#[derive(Debug, Default)]
struct Answer {
    fields: Vec<(String, String)>,
    body: Vec<u8>,
    is_whole: bool,
}

impl Answer {
    fn field(&self, name: &str) -> &str {
        let found = self.fields.iter().find(|(own, _)| own == name);
        found.map_or("", |(_, value)| value)
    }
}

/// Serves a directory while `player` plays from that address; what pages told, too.
fn serve<R: Send>(
    root: &Path,
    profile: Profile,
    player: impl FnOnce(SocketAddr) -> R + Send,
) -> (R, Vec<PageReport>) {
    let server = config(profile, None).unwrap();
    let endpoint = Endpoint::server(LOCAL, server, EndpointConfig::default()).unwrap();
    let address = endpoint.local_addr();
    let server = HttpServer::new(endpoint, Site::new(root).unwrap()).unwrap();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let serving = scope.spawn(|| server.run(false, &stop));
        let played = scope.spawn(|| player(address)).join();
        stop.store(true, Ordering::Relaxed);
        let reports = serving.join().unwrap().unwrap();
        (played.unwrap(), reports)
    })
}

/// Asks for these at once: method, path, and the Range field, or what is posted.
fn ask(root: &Path, requests: &[(&str, &str, &str)]) -> Vec<Answer> {
    serve(root, Profile::Default, |address| fetch(address, requests)).0
}

fn connect(address: SocketAddr) -> (Endpoint, Handle) {
    let mut config = transport::player(Profile::Default, None).unwrap();
    config.set_application_protos(h3::APPLICATION_PROTOCOL).unwrap();
    config.set_initial_max_stream_data_bidi_local(1 << 20);
    let mut endpoint = Endpoint::client(LOCAL, EndpointConfig::default()).unwrap();
    let handle = endpoint.connect(address, Some("localhost"), &mut config).unwrap();
    (endpoint, handle)
}

fn request(method: &str, path: &str) -> Vec<Header> {
    vec![
        Header::new(b":method", method.as_bytes()),
        Header::new(b":scheme", b"https"),
        Header::new(b":authority", b"localhost"),
        Header::new(b":path", path.as_bytes()),
    ]
}

fn fetch(address: SocketAddr, requests: &[(&str, &str, &str)]) -> Vec<Answer> {
    let (mut endpoint, handle) = connect(address);
    let mut http: Option<h3::Connection> = None;
    let mut answers: Vec<_> = requests.iter().map(|_| Answer::default()).collect();
    loop {
        endpoint.poll(Some(Duration::from_millis(100))).unwrap();
        while let Some(event) = endpoint.next_event() {
            assert!(!matches!(event, Event::Closed(..)), "{event:?}");
        }
        let Some(connection) = endpoint.connection_mut(handle) else { panic!("it is gone") };
        if !connection.is_established() {
            continue;
        }
        let http = http.get_or_insert_with(|| {
            let config = h3::Config::new().unwrap();
            let mut http = h3::Connection::with_transport(connection, &config).unwrap();
            for (method, path, range) in requests {
                let mut fields = request(method, path);
                if *method == "POST" {
                    let stream = http.send_request(connection, &fields, false).unwrap();
                    http.send_body(connection, stream, range.as_bytes(), true).unwrap();
                    continue;
                }
                if !range.is_empty() {
                    fields.push(Header::new(b"range", range.as_bytes()));
                }
                http.send_request(connection, &fields, true).unwrap();
            }
            http
        });
        while let Ok((stream, event)) = http.poll(connection) {
            let answer = &mut answers[stream as usize / 4];
            match event {
                h3::Event::Headers { list, .. } => {
                    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
                    answer.fields =
                        list.iter().map(|h| (text(h.name()), text(h.value()))).collect();
                }
                h3::Event::Data => {
                    let mut buffer = [0; 16_384];
                    while let Ok(len) = http.recv_body(connection, stream, &mut buffer) {
                        answer.body.extend_from_slice(&buffer[..len]);
                    }
                }
                h3::Event::Finished => answer.is_whole = true,
                _ => {}
            }
        }
        if answers.iter().all(|answer| answer.is_whole) {
            return answers;
        }
    }
}

fn media() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    Ladder { directory: directory.path(), forms: &FORMS }.write(&[0, 1, 2], true);
    directory
}

#[test]
fn a_player_gets_playlists_and_segments_with_their_media_types() {
    let directory = media();
    let files = [
        ("/master.m3u8", "application/vnd.apple.mpegurl"),
        ("/2500000/index.m3u8", "application/vnd.apple.mpegurl"),
        ("/2500000/init.mp4", "video/mp4"),
        ("/2500000/1.m4s", "video/iso.segment"),
    ];
    let requests = files.map(|(path, _)| ("GET", path, ""));
    for ((path, media_type), answer) in files.iter().zip(ask(directory.path(), &requests)) {
        let file = fs::read(directory.path().join(&path[1..])).unwrap();
        assert_eq!(answer.field(":status"), "200", "{path}");
        assert_eq!(answer.field("content-type"), *media_type, "{path}");
        assert_eq!(answer.field("content-length"), file.len().to_string(), "{path}");
        assert!(answer.body == file, "{path}: {} bytes of {}", answer.body.len(), file.len());
    }
}

#[test]
fn a_page_that_plays_the_media_is_served_beside_them() {
    let directory = media();
    let answer = &ask(directory.path(), &[("GET", "/?x", "")])[0];
    assert_eq!(answer.field(":status"), "200");
    assert_eq!(answer.field("content-type"), "text/html; charset=utf-8");
    let page = String::from_utf8(answer.body.clone()).unwrap();
    assert!(page.contains("const MASTER = \"master.m3u8\";"));
    assert!(!page.contains("__"), "nothing is left to fill in");
    let path = directory.path().join("page.html");
    fs::write(&path, page).unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/play.js");
    let Ok(run) = Command::new("node").arg(script).arg(&path).output() else {
        skip("node is not installed");
        return;
    };
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
}

#[test]
fn what_pages_tell_last_is_kept_and_nothing_else() {
    let directory = media();
    let long = format!("{{\"error\": \"{}\"}}", "x".repeat(5000));
    let posts = [
        r#"{"page": 7, "shown": 3, "protocols": ["h3"]}"#,
        r#"{"page": 7, "shown": 42, "protocols": ["h3"]}"#,
        r#"{"page": 8, "unknown": [], "ended": true}"#,
        "no JSON",
        r#"{"page": -1}"#,
        &long,
    ];
    let requests: Vec<_> = posts.iter().map(|body| ("POST", "/report", *body)).collect();
    let (answers, reports) =
        serve(directory.path(), Profile::Default, |address| fetch(address, &requests));
    let statuses: Vec<_> = answers.iter().map(|answer| answer.field(":status")).collect();
    assert_eq!(statuses, ["200", "200", "200", "400", "400", "413"]);
    let protocols = vec!["h3".to_owned()];
    let first = PageReport { page: 7, shown: 42, protocols, ..PageReport::default() };
    let second = PageReport { page: 8, ended: true, ..PageReport::default() };
    assert_eq!(reports, [first, second]);
}

#[test]
fn a_page_of_the_users_own_takes_the_place_of_that() {
    let directory = media();
    fs::write(directory.path().join("index.html"), "mine").unwrap();
    let answers = ask(directory.path(), &[("GET", "/", ""), ("GET", "/", "bytes=1-2")]);
    assert_eq!((&*answers[0].body, &*answers[1].body), (&b"mine"[..], &b"in"[..]));
}

#[test]
fn a_playlist_of_another_name_is_served_with_its_directory() {
    let directory = media();
    let playlist = directory.path().join("film.m3u8");
    fs::rename(directory.path().join("master.m3u8"), &playlist).unwrap();
    let asked = [("GET", "/film.m3u8", ""), ("GET", "/400000/0.m4s", ""), ("GET", "/", "")];
    let answers = ask(&playlist, &asked);
    assert!(answers.iter().all(|answer| answer.field(":status") == "200"), "{answers:?}");
    assert!(String::from_utf8_lossy(&answers[2].body).contains("\"film.m3u8\""));
    for name in ["a b.m3u8", "film.txt", "\"+alert(1)+\".m3u8"] {
        let path = directory.path().join(name);
        fs::copy(&playlist, &path).unwrap();
        let error = Site::new(&path).unwrap_err().to_string();
        assert!(error.contains("ends in .m3u8"), "{error}");
    }
}

#[test]
fn ranges_come_as_they_were_asked_for() {
    let directory = media();
    let path = "/2500000/1.m4s";
    let file = fs::read(directory.path().join(&path[1..])).unwrap();
    let len = file.len();
    let answers = ask(
        directory.path(),
        &[
            ("GET", path, "bytes=0-99"),
            ("GET", path, "bytes=1000-"),
            ("GET", path, "bytes=-500"),
            ("GET", path, "bytes=99999999-"),
            ("HEAD", path, "bytes=0-99"),
            ("HEAD", path, "bytes=99999999-"),
        ],
    );
    let parts = [0..100, 1000..len, len - 500..len];
    for (answer, part) in answers.iter().zip(parts) {
        assert_eq!(answer.field(":status"), "206");
        let range = format!("bytes {}-{}/{len}", part.start, part.end - 1);
        assert_eq!(answer.field("content-range"), range);
        assert_eq!(answer.field("content-length"), part.len().to_string());
        assert!(answer.body == file[part]);
    }
    assert_eq!(answers[3].field(":status"), "416");
    assert_eq!(answers[3].field("content-range"), format!("bytes */{len}"));
    // Only GET has ranges.
    assert_eq!((answers[4].field(":status"), answers[4].body.len()), ("200", 0));
    assert_eq!(answers[4].field("content-length"), len.to_string());
    assert_eq!(answers[5].field(":status"), "200");
}

#[test]
fn nothing_but_media_in_the_directory_is_served() {
    let outside = tempfile::NamedTempFile::with_suffix(".mp4").unwrap();
    fs::write(outside.path(), "secret").unwrap();
    let directory = media();
    fs::write(directory.path().join("key.pem"), "secret").unwrap();
    std::os::unix::fs::symlink(outside.path(), directory.path().join("link.mp4")).unwrap();
    let escaped = format!("/..{}", outside.path().display());
    let answers = ask(
        directory.path(),
        &[
            ("GET", "/key.pem", ""),
            ("GET", "/link.mp4", ""),
            ("GET", &escaped, ""),
            ("GET", "/%2e%2e/x.mp4", ""),
            ("GET", "/400000", ""),
            ("GET", "/nothing.m4s", ""),
            ("POST", "/master.m3u8", ""),
        ],
    );
    let statuses: Vec<_> = answers.iter().map(|answer| answer.field(":status")).collect();
    assert_eq!(statuses, ["404", "404", "404", "404", "404", "404", "405"]);
    assert!(answers.iter().all(|answer| answer.body.is_empty()));
}

/// Asks so often for a file, and gives each request up as soon as some of the answer is there, as players do that the
/// user winds on. How many were made in half a minute.
fn give_up(address: SocketAddr, path: &str, requests: u64) -> u64 {
    let (mut endpoint, handle) = connect(address);
    let mut http: Option<h3::Connection> = None;
    let until = Instant::now() + Duration::from_secs(30);
    let (mut made, mut asked) = (0, None);
    while made < requests && Instant::now() < until {
        endpoint.poll(Some(Duration::from_millis(20))).unwrap();
        while endpoint.next_event().is_some() {}
        let Some(connection) = endpoint.connection_mut(handle) else { panic!("it is gone") };
        if !connection.is_established() {
            continue;
        }
        let http = http.get_or_insert_with(|| {
            h3::Connection::with_transport(connection, &h3::Config::new().unwrap()).unwrap()
        });
        while let Ok((stream, event)) = http.poll(connection) {
            if matches!(event, h3::Event::Data) && asked == Some(stream) {
                connection.stream_shutdown(stream, quiche::Shutdown::Read, 0x10c).unwrap();
                asked = None;
                made += 1;
            }
        }
        if asked.is_none() {
            // Refused while the server has not granted another stream.
            asked = http.send_request(connection, &request("GET", path), true).ok();
        }
    }
    made
}

#[test]
fn a_player_that_gives_requests_up_can_make_as_many_others() {
    let directory = media();
    // All of it is with the server's stack before the player has any.
    fs::write(directory.path().join("long.m4s"), vec![7; 900 << 10]).unwrap();
    for profile in [Profile::Default, Profile::Off] {
        let made =
            serve(directory.path(), profile, |address| give_up(address, "/long.m4s", 200)).0;
        assert_eq!(made, 200, "{profile:?}");
    }
}
