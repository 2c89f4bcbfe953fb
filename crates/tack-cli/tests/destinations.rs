//! What is refused of destinations and sources before anything is transferred, and how that is told.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may panic")]

mod common;

use std::fs;
use std::process::Command;

use common::{Served, TACK, run, write};

#[test]
fn a_mirror_of_a_server_never_empties_the_current_directory_or_the_home() {
    let served = Served::new(&[]);
    served.write("photos/one", b"1");
    let home = served.outside("home");
    fs::create_dir_all(home.join("here")).unwrap();
    fs::write(home.join("here/mine"), "mine").unwrap();
    fs::write(home.join("mine"), "mine").unwrap();
    let mirror = |dest: &str, more: &[&str]| {
        let mut client = served.client("get");
        client.args(["-r", "--delete"]).args(more).arg(served.target("photos")).arg(dest);
        run(client.current_dir(home.join("here")).env("HOME", &home))
    };
    for dest in [".", "../here", "./", "..", "/", home.to_str().unwrap()] {
        for more in [&[][..], &["-n"]] {
            let refused = mirror(dest, more).expect(2);
            assert!(refused.errors.contains("name a directory"), "{dest}: {}", refused.errors);
            assert_eq!(refused.number("exit_code"), 2);
        }
    }
    assert!(home.join("here/mine").exists() && home.join("mine").exists());
    mirror("album", &[]).expect(0);
    fs::write(home.join("here/album/other"), "").unwrap();
    mirror("album", &[]).expect(0);
    assert!(home.join("here/album/one").exists() && !home.join("here/album/other").exists());
}

#[test]
fn json_has_a_summary_whatever_is_wrong_before_there_is_a_connection() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("file"), "x").unwrap();
    std::os::unix::fs::symlink("no/where/at/all", dir.path().join("dangling")).unwrap();
    for (arguments, code) in [
        (&["get", "127.0.0.1:1/x", "dangling"][..], 5),
        (&["get", "--exclude-from", "nofile", "127.0.0.1:1/x", "dest"], 5),
        (&["get", "--delete", "127.0.0.1:1/x", "dest"], 2),
        (&["send", "--exclude-from", "nofile", "file", "127.0.0.1:1/x"], 5),
        (&["send", "-", "127.0.0.1:1"], 2),
        (&["send", "-", "file", "127.0.0.1:1/x"], 2),
        (&["send", "file"], 2),
        (&["receive", "no-ticket"], 2),
        (&["copy", "file", "other"], 2),
        (&["copy", "file", "host:x", "--delete"], 2),
    ] {
        let mut client = Command::new(TACK);
        client.args(arguments).arg("--json").current_dir(dir.path()).env("TACK_CONFIG", "");
        let refused = run(client.env_remove("TACK_TICKET")).expect(code);
        assert_eq!(refused.summary["command"], arguments[0], "{arguments:?}");
        assert_eq!(refused.summary["exit_code"], code, "{arguments:?}");
        assert_eq!(refused.summary["errors"].as_array().unwrap().len(), 1, "{arguments:?}");
    }
}

#[test]
fn an_error_of_this_end_names_the_path_at_this_end() {
    let served = Served::new(&[]);
    served.write("ok/a", b"a");
    // Nothing can be made there.
    let fetched = served.get("ok/a", "/proc/new".as_ref()).expect(5);
    assert!(fetched.errors.contains("ok/a: ") && fetched.errors.contains("/proc/new"));
    fs::write(served.outside("mine"), "mine").unwrap();
    let fetched = served.get_tree("ok", &served.outside("mine")).expect(5);
    assert!(fetched.errors.contains("mine: is no directory"), "{}", fetched.errors);
    assert!(fetched.errors.contains("another place"), "{}", fetched.errors);
    std::os::unix::fs::symlink("a", served.path("ok/link")).unwrap();
    let fetched = served.get("ok/link", &served.outside("dest")).expect(4);
    assert!(fetched.errors.contains("--preserve"), "{}", fetched.errors);
}

#[test]
fn names_of_unfinished_transfers_are_skipped_and_counted_by_get_and_send() {
    let served = Served::new(&[]);
    for place in [served.path("tree"), served.outside("tree")] {
        write(&place.join(".x.tack-part"), b"x");
        write(&place.join(".d.tack-part/in"), b"in");
        write(&place.join("file"), b"file");
    }
    let sent = served.send(&served.outside("tree"), "sent/").expect(0);
    let fetched = served.get_tree("tree", &served.outside("fetched")).expect(0);
    for done in [sent, fetched] {
        assert_eq!((done.number("files"), done.number("skipped")), (1, 2));
        assert_eq!(done.number("failed"), 0);
        for name in [".x.tack-part", ".d.tack-part"] {
            assert!(done.errors.contains(name), "{}", done.errors);
        }
    }
}

#[test]
fn a_configuration_file_that_is_named_has_to_be_there() {
    let mut client = Command::new(TACK);
    client.args(["get", "127.0.0.1:1/x"]).env("TACK_CONFIG", "/nonexistent");
    let refused = run(&mut client).expect(2);
    let expected = "TACK_CONFIG names /nonexistent: ";
    assert!(refused.errors.contains(expected), "{}", refused.errors);
}

#[test]
fn a_server_that_nobody_can_be_asked_about_is_told_with_its_fingerprint() {
    let served = Served::new(&[]);
    served.write("file", b"x");
    let mut client = Command::new(TACK);
    client.args(["get", &served.target("file")]).env("TACK_CONFIG", "");
    client.env("XDG_DATA_HOME", served.outside("data")).current_dir(served.dir.path());
    client.env("XDG_STATE_HOME", served.outside("state"));
    let refused = run(&mut client).expect(4);
    assert!(refused.errors.contains(&served.fingerprint), "{}", refused.errors);
}

#[test]
fn an_address_says_where_a_server_is_and_its_name_whose_certificate_it_has() {
    // The certificate is for localhost.
    let served = Served::new(&[]);
    served.write("file", b"x");
    let port = served.address.rsplit_once(':').unwrap().1;
    let ca = served.outside("identity/identity.pem");
    let config = format!(
        "[hosts.nas]\naddress = \"localhost:{port}\"\nca = \"{}\"\n\
         [hosts.other]\naddress = \"127.0.0.1:{port}\"\nca = \"{}\"\n",
        ca.display(),
        ca.display()
    );
    fs::write(served.outside("config.toml"), config).unwrap();
    let get = |arguments: &[&str], code| {
        let mut client = Command::new(TACK);
        client.arg("get").args(arguments).arg(served.outside("dest"));
        client.env("TACK_CONFIG", served.outside("config.toml"));
        client.env("XDG_STATE_HOME", served.outside("state"));
        client.env("TACK_TOKEN", served.token.as_ref().unwrap());
        run(&mut client).expect(code);
    };
    let (ca, address) = (ca.to_str().unwrap(), served.address.as_str());
    get(&["--ca", ca, "--address", address, "localhost/file"], 0);
    get(&["--ca", ca, "--address", address, "files.example/file"], 4);
    get(&["nas:file"], 0);
    get(&["other:file"], 4);
}

#[test]
fn an_include_keeps_a_file_that_a_pattern_names_and_nothing_below_an_excluded_directory() {
    let served = Served::new(&[]);
    for name in ["sub/b", "a.tmp", "b.tmp"] {
        served.write(&format!("tree/{name}"), b"x");
    }
    let mut client = served.client("get");
    client.args(["-r", "--exclude", "sub", "--include", "sub/b"]);
    client.args(["--exclude", "*.tmp", "--include", "b.tmp"]);
    run(client.args([&served.target("tree"), "dest"])).expect(0);
    assert_eq!(common::tree(&served.outside("dest")).len(), 1);
    assert!(served.outside("dest/b.tmp").exists());
}
