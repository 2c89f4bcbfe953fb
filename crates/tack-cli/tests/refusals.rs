//! What must not be possible.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may panic")]

mod common;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::{Duration, Instant};

use common::{Served, noise, run, tree};
use tack_endpoint::{CloseReason, Endpoint, EndpointConfig, Event, Handle};
use tack_transfer::quic::{self, CloseCode, Verify};

#[test]
fn a_wrong_or_missing_token_is_refused() {
    let served = Served::new(&[]);
    served.write("file", b"secret");
    let dest = served.outside("dest");
    for token in [None, Some("wrong")] {
        let mut client = served.client("get");
        client.env_remove("TACK_TOKEN");
        if let Some(token) = token {
            client.args(["--token", token]);
        }
        let finished = run(client.arg(served.target("file")).arg(&dest)).expect(4);
        assert!(finished.errors.contains("token"), "{}", finished.errors);
        assert!(!dest.exists());
    }
}

#[test]
fn the_token_can_come_from_a_file_that_the_server_made() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("token");
    let served = Served::new(&["--token-file", file.to_str().unwrap()]);
    served.write("file", b"secret");
    assert_eq!(served.token, None, "whoever may know it reads the file");
    let mut client = served.client("get");
    client.env_remove("TACK_TOKEN").arg("--token-file").arg(&file);
    run(client.arg(served.target("file")).arg("dest")).expect(0);
}

#[test]
fn without_a_token_everybody_is_let_in_if_the_server_says_so() {
    let served = Served::new(&["--no-token"]);
    assert_eq!(served.token, None);
    served.write("file", b"public");
    served.get("file", Path::new("dest")).expect(0);
}

#[test]
fn a_wrong_fingerprint_ends_before_the_token_is_said() {
    let served = Served::new(&[]);
    served.write("file", b"secret");
    let wrong = "00".repeat(32);
    let mut client = std::process::Command::new(common::TACK);
    client.args(["get", "--json", "--fingerprint", &wrong]);
    client.env("TACK_TOKEN", served.token.as_ref().unwrap());
    let finished = run(client.arg(served.target("file")).arg(served.outside("x"))).expect(4);
    assert!(finished.errors.contains(&served.fingerprint), "{}", finished.errors);
    assert!(finished.errors.contains("was not sent"), "{}", finished.errors);
}

#[test]
fn a_self_signed_certificate_is_not_trusted_without_being_told() {
    let served = Served::new(&[]);
    served.write("file", b"secret");
    let port = served.address.rsplit_once(':').unwrap().1;
    let client = |arguments: &[&str]| {
        let mut client = std::process::Command::new(common::TACK);
        client.args(["get", "--json"]).args(arguments);
        client.env("TACK_TOKEN", served.token.as_ref().unwrap());
        run(client.arg(format!("localhost:{port}/file")).arg(served.outside("dest")))
    };
    let finished = client(&[]).expect(4);
    assert!(finished.errors.contains("--fingerprint"), "{}", finished.errors);
    let finished = client(&["--insecure"]).expect(0);
    let advice = format!("--fingerprint {}", served.fingerprint);
    assert!(finished.errors.contains(&advice), "{}", finished.errors);
    let identity = served.outside("identity/identity.pem");
    client(&["--ca", identity.to_str().unwrap()]).expect(0);
}

#[test]
fn an_identity_outlives_a_restart() {
    let first = Served::new(&[]);
    let identity = first.outside("identity");
    let copy = tempfile::tempdir().unwrap();
    fs::create_dir_all(copy.path().join("served")).unwrap();
    fs::create_dir(copy.path().join("identity")).unwrap();
    fs::copy(identity.join("identity.pem"), copy.path().join("identity/identity.pem")).unwrap();
    let program = std::process::Command::new(common::TACK);
    let second = Served::in_dir(copy, program, "127.0.0.1:0", &[]);
    assert_eq!(first.fingerprint, second.fingerprint);
    assert_ne!(first.token, second.token);
}

#[test]
fn a_read_only_server_takes_nothing() {
    let served = Served::plain(&[]);
    served.write("file", b"content");
    served.get("file", Path::new("copy")).expect(0);
    let before = tree(&served.path(""));
    let finished = served.send(Path::new("copy"), "new").expect(4);
    assert!(finished.errors.contains("read-only"), "{}", finished.errors);
    fs::create_dir(served.outside("empty")).unwrap();
    served.send(&served.outside("empty"), "").expect(4);
    assert!(tree(&served.path("")) == before);
}

#[test]
fn links_lead_nowhere() {
    let served = Served::new(&[]);
    fs::write(served.outside("secret"), "secret").unwrap();
    symlink(served.outside("secret"), served.path("leaf")).unwrap();
    symlink(served.dir.path(), served.path("up")).unwrap();
    for path in ["leaf", "up/secret", "up"] {
        let finished = served.get(path, Path::new("dest")).expect(4);
        assert!(finished.errors.contains("symbolic link"), "{path}: {}", finished.errors);
        assert!(!served.outside("dest").exists());
    }
    fs::write(served.outside("mine"), "mine").unwrap();
    served.send(Path::new("mine"), "up/planted").expect(4);
    assert!(!served.outside("planted").exists());
    // Neither through a link nor in place of it.
    fs::create_dir(served.path("box")).unwrap();
    symlink(served.outside("secret"), served.path("box/mine")).unwrap();
    served.send(&served.outside("mine"), "box/").expect(4);
    assert_eq!(fs::read(served.outside("secret")).unwrap(), b"secret");
    assert!(served.path("box/mine").symlink_metadata().unwrap().is_symlink());
}

#[test]
fn a_server_cannot_make_a_client_write_through_links() {
    let served = Served::new(&[]);
    served.write("sub/file", b"content");
    let dest = served.outside("dest");
    fs::create_dir(&dest).unwrap();
    fs::create_dir(served.outside("elsewhere")).unwrap();
    symlink(served.outside("elsewhere"), dest.join("sub")).unwrap();
    let finished = served.get_tree("", &dest);
    assert_eq!(finished.code, Some(5), "{}", finished.errors);
    assert_eq!(tree(&served.outside("elsewhere")), []);
}

#[test]
fn a_directory_comes_only_if_the_client_asks_for_one() {
    let served = Served::new(&[]);
    // What a hostile server would like to have in a home directory.
    served.write("notes/.ssh/authorized_keys", b"ssh-ed25519 intruder");
    let home = served.outside("home");
    fs::create_dir(&home).unwrap();
    let client = |arguments: &[&str]| {
        let mut client = served.client("get");
        run(client.current_dir(&home).arg(served.target("notes")).args(arguments))
    };
    for dest in [&[][..], &["."], &["new"]] {
        let finished = client(dest).expect(2);
        assert!(finished.errors.contains("pass -r"), "{}", finished.errors);
        assert_eq!(tree(&home), [], "{dest:?}");
    }
    client(&["-r"]).expect(0);
    assert_eq!(fs::read_dir(&home).unwrap().count(), 1, "a directory named by the user");
    assert!(home.join("notes/.ssh/authorized_keys").exists());
    // Everything into the current directory: only if that is said.
    let mut everything = served.client("get");
    run(everything.current_dir(&home).arg("-r").arg(served.target(""))).expect(2);
}

#[test]
fn the_private_key_and_the_token_are_hidden_in_a_shared_directory() {
    let dir = tempfile::tempdir().unwrap();
    // The identity and the token lie in what is shared.
    let shared = dir.path().join("served");
    fs::create_dir(&shared).unwrap();
    symlink("served/identity", dir.path().join("identity")).unwrap();
    fs::create_dir(shared.join("identity")).unwrap();
    let token = shared.join("token");
    let program = std::process::Command::new(common::TACK);
    let arguments = ["--write", "--token-file", token.to_str().unwrap()];
    let mut served = Served::in_dir(dir, program, "127.0.0.1:0", &arguments);
    served.token = Some(fs::read_to_string(&token).unwrap().trim().to_owned());
    let before = tree(&shared);
    for secret in ["identity/identity.pem", "token"] {
        served.get(secret, Path::new("dest")).expect(6);
        let forged = served.outside(Path::new(secret).file_name().unwrap().to_str().unwrap());
        fs::write(&forged, "forged").unwrap();
        served.send(&forged, secret).expect(4);
    }
    let mut everything = served.client("get");
    run(everything.arg("-r").arg(served.target("")).arg("all")).expect(0);
    assert!(!served.outside("all/token").exists());
    assert!(!served.outside("all/identity/identity.pem").exists());
    assert!(tree(&shared) == before);
}

#[test]
fn a_server_warns_of_what_could_do_harm_and_does_not_print_a_token_in_vain() {
    let start = |arguments: &[&str], dir: &Path| {
        let mut server = std::process::Command::new(common::TACK);
        server
            .args(["serve", "--listen", "127.0.0.1:0", "--identity"])
            .arg(dir.join("identity"));
        server.args(arguments).arg(dir).stdout(std::process::Stdio::piped());
        let mut child = server.stderr(std::process::Stdio::piped()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(700));
        let _ = child.kill();
        let output = child.wait_with_output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (output.status.code(), text(output.stdout), text(output.stderr))
    };
    let dir = tempfile::tempdir().unwrap();
    let (_, out, errors) = start(&[], dir.path());
    assert!(out.contains("TACK_TOKEN=") && !out.contains("tack send"), "{out}");
    assert!(!errors.contains("private key"), "{errors}");
    let key = dir.path().join("identity/identity.pem");
    fs::set_permissions(key, std::os::unix::fs::PermissionsExt::from_mode(0o644)).unwrap();
    let file = dir.path().join("token");
    let (_, out, errors) = start(&["--token-file", file.to_str().unwrap()], dir.path());
    let token = fs::read_to_string(&file).unwrap();
    assert!(!out.contains(token.trim()) && out.contains("--token-file"), "{out}");
    assert!(errors.contains("chmod 600"), "{errors}");
    assert_eq!(start(&["-q"], dir.path()).0, Some(2));
}

/// A client that says what it likes.
struct Raw {
    endpoint: Endpoint,
    handle: Handle,
}

impl Raw {
    fn connect(served: &Served) -> Self {
        Self::speaking(served, &quic::ALPN)
    }

    fn speaking(served: &Served, protocols: &[&[u8]]) -> Self {
        let mut config = quic::client_config(tacklib::Profile::Off, Verify::Later).unwrap();
        config.set_application_protos(protocols).unwrap();
        let local = "127.0.0.1:0".parse().unwrap();
        let mut endpoint = Endpoint::client(local, EndpointConfig::default()).unwrap();
        let server = served.address.parse().unwrap();
        let handle = endpoint.connect(server, None, &mut config).unwrap();
        let mut raw = Self { endpoint, handle };
        raw.until(|event| matches!(event, Event::Connected(_)).then_some(()));
        raw
    }

    fn authenticated(served: &Served) -> Self {
        Self::connect(served).with_token(served)
    }

    fn with_token(mut self, served: &Served) -> Self {
        let token = served.token.as_ref().unwrap();
        self.say(0, &format!("{{\"hello\":{{\"token\":\"{token}\"}}}}"));
        self
    }

    /// What the server says on a stream until it has said this.
    fn hear(&mut self, stream: u64, last: &str) -> String {
        let (mut heard, deadline) = (Vec::new(), Instant::now() + Duration::from_secs(30));
        loop {
            let text = String::from_utf8_lossy(&heard).into_owned();
            if text.contains(last) {
                return text;
            }
            assert!(Instant::now() < deadline, "{text}");
            self.endpoint.poll(Some(Duration::from_millis(50))).unwrap();
            while self.endpoint.next_event().is_some() {}
            let connection = self.endpoint.connection_mut(self.handle).unwrap();
            let mut buffer = [0; 4096];
            if let Ok((length, _)) = connection.stream_recv(stream, &mut buffer) {
                heard.extend_from_slice(&buffer[..length]);
            }
        }
    }

    fn until<T>(&mut self, mut wanted: impl FnMut(&Event) -> Option<T>) -> T {
        let deadline = Instant::now() + Duration::from_secs(30);
        while Instant::now() < deadline {
            self.endpoint.poll(Some(Duration::from_millis(50))).unwrap();
            while let Some(event) = self.endpoint.next_event() {
                if let Some(found) = wanted(&event) {
                    return found;
                }
            }
        }
        panic!("the event did not come");
    }

    fn say(&mut self, stream: u64, json: &str) {
        let mut frame = vec![0];
        frame.extend((json.len() as u32).to_be_bytes());
        frame.extend(json.as_bytes());
        self.say_bytes(stream, &frame);
    }

    fn say_bytes(&mut self, stream: u64, bytes: &[u8]) {
        let connection = self.endpoint.connection_mut(self.handle).unwrap();
        assert_eq!(connection.stream_send(stream, bytes, false), Ok(bytes.len()));
        self.endpoint.flush().unwrap();
    }

    /// Sends on a stream what goes through in a short time.
    fn fill(&mut self, stream: u64) {
        for _ in 0..4 {
            let connection = self.endpoint.connection_mut(self.handle).unwrap();
            let _ = connection.stream_send(stream, &vec![0; 128 * 1024], false);
            self.endpoint.flush().unwrap();
            self.endpoint.poll(Some(Duration::from_millis(3))).unwrap();
        }
    }

    /// Sends zeros on a stream until the server closes the connection; the error code.
    fn flood(&mut self, stream: u64) -> u64 {
        let deadline = Instant::now() + Duration::from_secs(5);
        while Instant::now() < deadline {
            let connection = self.endpoint.connection_mut(self.handle).unwrap();
            let _ = connection.stream_send(stream, &vec![0; 64 * 1024], false);
            self.endpoint.poll(Some(Duration::from_millis(5))).unwrap();
            let closed = |event| match event {
                Event::Closed(_, CloseReason::Peer { code, .. }) => Some(code),
                _ => None,
            };
            if let Some(code) =
                std::iter::from_fn(|| self.endpoint.next_event()).find_map(closed)
            {
                return code;
            }
        }
        panic!("the server lets it go on");
    }

    fn closed_with(&mut self) -> u64 {
        self.until(|event| match event {
            Event::Closed(_, CloseReason::Peer { application: true, code, .. }) => Some(*code),
            Event::Closed(_, other) => panic!("{other}"),
            _ => None,
        })
    }
}

#[test]
fn a_client_that_asks_for_paths_outside_is_thrown_out() {
    let served = Served::new(&[]);
    fs::write(served.outside("secret"), "secret").unwrap();
    let before = tree(served.dir.path());
    for path in ["../secret", "/etc/passwd", "a/../../secret", "..", "a/../b", "a\\u0000b"] {
        for request in [
            format!("{{\"get\":{{\"path\":\"{path}\",\"resume\":{{}}}}}}"),
            format!("{{\"list\":{{\"path\":\"{path}\"}}}}"),
            format!(
                "{{\"put\":{{\"path\":\"{path}\",\"offer\":{{\"size\":1,\"modified\":\
                 {{\"seconds\":0,\"nanos\":0}},\"mode\":420}}}}}}"
            ),
        ] {
            let mut raw = Raw::authenticated(&served);
            raw.say(4, &request);
            assert_eq!(raw.closed_with(), CloseCode::Protocol as u64, "{request}");
        }
    }
    assert!(tree(served.dir.path()) == before);
}

#[test]
fn a_client_that_sets_attributes_which_grant_rights_is_thrown_out() {
    let served = Served::new(&[]);
    served.write("file", b"content");
    let many: Vec<_> = (0..65).map(|n| format!("\"user.{n}\":\"\"")).collect();
    for attributes in [
        "{\"xattrs\":{\"security.capability\":\"AAAA\"}}".to_owned(),
        "{\"xattrs\":{\"trusted.overlay.opaque\":\"eQ==\"}}".to_owned(),
        "{\"owner\":[4294967295,0]}".to_owned(),
        format!("{{\"xattrs\":{{{}}}}}", many.join(",")),
    ] {
        let mut raw = Raw::authenticated(&served);
        raw.say(
            4,
            &format!("{{\"edit\":{{\"edits\":[{{\"attributes\":[\"file\",{attributes}]}}]}}}}"),
        );
        assert_eq!(raw.closed_with(), CloseCode::Protocol as u64, "{attributes}");
    }
}

#[test]
fn oversized_and_unknown_frames_are_thrown_out() {
    let served = Served::new(&[]);
    for frame in [[0, 0, 1, 0, 0], [1, 0, 16, 0, 0], [0, 255, 255, 255, 255], [7, 0, 0, 0, 0]] {
        let mut raw = Raw::authenticated(&served);
        raw.say_bytes(4, &frame);
        assert_eq!(raw.closed_with(), CloseCode::Protocol as u64, "{frame:?}");
    }
    served.write("file", b"still here");
    served.get("file", Path::new("dest")).expect(0);
}

#[test]
fn nothing_is_served_before_the_token_or_without_it() {
    let served = Served::new(&[]);
    served.write("file", &noise(10, 1));
    let mut raw = Raw::connect(&served);
    raw.say(4, "{\"list\":{\"path\":\"\"}}");
    raw.say(8, "{\"get\":{\"path\":\"file\",\"resume\":{}}}");
    let connection = raw.endpoint.connection_mut(raw.handle).unwrap();
    assert_eq!(connection.stream_recv(4, &mut [0; 100]), Err(quiche::Error::Done));
    raw.say(0, "{\"hello\":{\"token\":\"wrong\"}}");
    assert_eq!(raw.closed_with(), CloseCode::WrongToken as u64);
    let mut buffer = [0; 100];
    let connection = raw.endpoint.connection_mut(raw.handle).unwrap();
    for stream in [4, 8] {
        assert!(connection.stream_recv(stream, &mut buffer).is_err(), "stream {stream}");
    }
}

#[test]
fn strangers_may_say_little_and_do_not_keep_a_client_out() {
    let served = Served::new(&[]);
    served.write("file", b"content");
    let strangers: Vec<Raw> = (0..300)
        .map(|_| {
            let mut raw = Raw::connect(&served);
            raw.fill(4);
            raw
        })
        .collect();
    let start = Instant::now();
    served.get("file", Path::new("dest")).expect(0);
    println!("with 300 strangers a client took {:?}", start.elapsed());
    drop(strangers);
    let peak = common::peak_kib(served.child.id()).unwrap();
    println!("peak memory of the server: {peak} KiB");
    assert!(peak < 128 * 1024, "{peak} KiB");
}

#[test]
fn a_stranger_that_says_too_much_is_thrown_out_and_a_client_is_not() {
    let served = Served::new(&[]);
    let mut stranger = Raw::connect(&served);
    assert_eq!(stranger.flood(4), CloseCode::Busy as u64);
    let mut client = Raw::authenticated(&served);
    // Zeros are no request, which shows that it is read.
    assert_eq!(client.flood(4), CloseCode::Protocol as u64);
}

#[test]
fn failed_log_ins_are_logged_and_slowed_down_for_their_address() {
    let mut program = std::process::Command::new(common::TACK);
    program.stderr(std::process::Stdio::piped());
    let mut served = Served::with_program(program, &[]);
    served.write("file", b"content");
    let guess = |served: &Served| {
        let mut client = served.client("get");
        client.args(["--token", "wrong"]).arg(served.target("file")).arg("dest");
        run(&mut client).expect(4);
    };
    let start = Instant::now();
    for _ in 0..3 {
        guess(&served);
    }
    // Half a second after the first, a second after the second.
    assert!(start.elapsed() > Duration::from_millis(1500), "{:?}", start.elapsed());
    served.get("file", Path::new("dest")).expect(0);
    served.child.kill().unwrap();
    let mut log = String::new();
    std::io::Read::read_to_string(served.child.stderr.as_mut().unwrap(), &mut log).unwrap();
    let line = log.lines().find(|line| line.contains("failed to log in")).expect(&log);
    assert!(line.contains("127.0.0.1:") && line.contains("Z "), "{line}");
    assert!(!log.contains("wrong access token: wrong"), "{log}");
}

#[test]
fn ends_of_different_versions_refuse_each_other_and_say_so() {
    // A client of the version before.
    let served = Served::new(&[]);
    let mut config = quic::client_config(tacklib::Profile::Off, Verify::Later).unwrap();
    config.set_application_protos(&[b"tack-file/1"]).unwrap();
    let local = "127.0.0.1:0".parse().unwrap();
    let mut endpoint = Endpoint::client(local, EndpointConfig::default()).unwrap();
    let handle = endpoint.connect(served.address.parse().unwrap(), None, &mut config).unwrap();
    let mut raw = Raw { endpoint, handle };
    let reason = raw.until(|event| match event {
        Event::Closed(_, reason) => Some(reason.to_string()),
        Event::Connected(_) => panic!("it was let in"),
        _ => None,
    });
    assert!(reason.contains("no common application protocol"), "{reason}");

    // A server of the version before.
    let finished = with_server_of(&served, b"tack-file/1", &[]).expect(3);
    assert!(finished.errors.contains("versions 2 to 9"), "{}", finished.errors);
}

/// What a client makes of a server that speaks nothing but `protocol`, and answers no request.
fn with_server_of(served: &Served, protocol: &[u8], arguments: &[&str]) -> common::Finished {
    with_server_of_path(served, protocol, arguments, "file")
}

fn with_server_of_path(
    served: &Served,
    protocol: &[u8],
    arguments: &[&str],
    path: &str,
) -> common::Finished {
    let identity = served.outside("identity/identity.pem");
    let mut config = quic::server_config(tacklib::Profile::Off, &identity, &identity).unwrap();
    config.set_application_protos(&[protocol]).unwrap();
    let local = "127.0.0.1:0".parse().unwrap();
    let mut old = Endpoint::server(local, config, EndpointConfig::default()).unwrap();
    let mut client = served.client("get");
    client.args(arguments).arg(format!("{}/{path}", old.local_addr())).arg("dest");
    let client = client.stdout(std::process::Stdio::piped());
    let mut child = client.stderr(std::process::Stdio::piped()).spawn().unwrap();
    while child.try_wait().unwrap().is_none() {
        old.poll(Some(Duration::from_millis(20))).unwrap();
        while old.next_event().is_some() {}
        old.flush().unwrap();
    }
    common::finish(child)
}

#[test]
fn what_an_earlier_server_would_pass_over_is_not_asked_of_it() {
    let served = Served::new(&[]);
    let (before, last) = (&b"tack-file/2"[..], &b"tack-file/3"[..]);
    for (version, options) in [
        (before, &["--preserve"][..]),
        (before, &["-r", "--delete"]),
        (before, &["--update"]),
        (before, &["--preserve", "--xattrs"]),
        (last, &["--preserve", "--xattrs"]),
        (last, &["--preserve", "--owner"]),
    ] {
        let finished = with_server_of(&served, version, options).expect(3);
        assert!(finished.errors.contains(options[options.len() - 1]), "{}", finished.errors);
        assert!(finished.errors.contains("earlier version"), "{}", finished.errors);
    }
}

#[test]
fn names_with_a_backslash_are_carried_between_ends_that_both_take_them() {
    let served = Served::new(&[]);
    let source = served.outside("tree");
    common::write(&source.join("a\\b/c\\d"), b"content");
    common::write(&source.join("e"), b"content");
    run(served.client("send").arg("-p").arg(&source).arg(served.target(""))).expect(0);
    common::assert_same_tree(&source, &served.path("tree"));
    let dest = served.outside("again");
    served.get_tree("tree", &dest).expect(0);
    common::assert_same_tree(&source, &dest);
    served.get("tree/a\\b/c\\d", &served.outside("one")).expect(0);
    fs::remove_dir_all(source.join("a\\b")).unwrap();
    let mut mirror = served.client("send");
    run(mirror.arg("--delete").arg(&source).arg(served.target(""))).expect(0);
    common::assert_same_tree(&source, &served.path("tree"));

    // A server, and a client, of an earlier version.
    let refused = with_server_of_path(&served, b"tack-file/7", &[], "a\\b").expect(3);
    assert!(refused.errors.contains("names with a backslash"), "{}", refused.errors);
    served.write("old/back\\slash", b"content");
    served.write("old/plain", b"content");
    for (protocol, is_listed) in [(&b"tack-file/7"[..], false), (b"tack-file/8", true)] {
        let mut raw = Raw::speaking(&served, &[protocol]).with_token(&served);
        raw.say(4, "{\"list\":{\"path\":\"old\"}}");
        let heard = raw.hear(4, "end-of-list");
        assert_eq!(heard.contains("[\"back\\\\slash\","), is_listed, "{heard}");
        assert_eq!(heard.contains("skipped"), !is_listed, "{heard}");
        assert!(heard.contains("[\"plain\","), "{heard}");
    }
}

#[test]
fn something_else_than_the_token_first_is_thrown_out() {
    let served = Served::new(&[]);
    let mut raw = Raw::connect(&served);
    raw.say(0, "{\"list\":{\"path\":\"\"}}");
    assert_eq!(raw.closed_with(), CloseCode::Protocol as u64);
}

#[test]
fn a_client_that_never_says_the_token_is_thrown_out() {
    let served = Served::new(&[]);
    let mut raw = Raw::connect(&served);
    raw.say_bytes(0, &[0, 0, 0]);
    assert_eq!(raw.closed_with(), CloseCode::Busy as u64);
}

#[test]
#[cfg(target_os = "linux")]
fn a_closed_port_is_told_at_once() {
    let served = Served::plain(&[]);
    // The port stays closed while the test runs: others get ports that the system chooses.
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    drop(socket);
    let start = Instant::now();
    let mut get = served.client("get");
    let refused = run(get.arg(format!("{address}/file")).arg(served.outside("file")));
    assert!(refused.errors.contains("closed port"), "{}", refused.errors);
    assert!(start.elapsed() < Duration::from_secs(5), "it has waited for an answer");
    assert_ne!(refused.code, Some(0));
}

#[test]
fn a_server_refuses_to_serve_another_directory_than_it_began_with() {
    let served = Served::new(&[]);
    served.write("file", b"content");
    let source = served.outside("new");
    common::write(&source, b"content");
    run(served.client("get").arg(served.target("file")).arg("copy")).expect(0);
    fs::rename(served.path(""), served.outside("moved")).unwrap();
    let refused = |command: &str, of: &str, to: &str| {
        let finished = run(served.client(command).arg(of).arg(to)).expect(6);
        assert!(finished.errors.contains("shared anew"), "{}", finished.errors);
        let path = served.path("");
        let path = path.to_str().unwrap().trim_end_matches('/');
        assert!(!finished.errors.contains(path), "{}", finished.errors);
    };
    refused("get", &served.target("file"), "copy");
    fs::create_dir(served.path("")).unwrap();
    refused("send", "new", &served.target(""));
    assert!(!served.outside("moved/new").exists() && !served.path("new").exists());
    let is_logged = || {
        let events = served.events();
        let errors = events.iter().filter_map(|event| event["error"].as_str());
        errors.filter(|error| error.contains("is another directory now")).count() >= 2
    };
    common::wait_until(is_logged);
    fs::remove_dir(served.path("")).unwrap();
    fs::rename(served.outside("moved"), served.path("")).unwrap();
    run(served.client("send").arg("new").arg(served.target(""))).expect(0);
}
