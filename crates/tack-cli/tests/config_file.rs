//! Options that are set in a file.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may panic")]

mod common;

use std::fs;
use std::process::Command;

use common::{Served, TACK, run};

#[test]
fn a_server_in_the_users_file_is_reached_by_its_name_alone() {
    let served = Served::new(&[]);
    served.write("file", b"content");
    let (config, token) =
        (served.outside("config/tack/config.toml"), served.outside("config/token"));
    let text = format!(
        "[hosts.nas]\naddress = \"{}\"\nfingerprint = \"{}\"\ntoken-file = \"{}\"\n[get]\njson = true\n",
        served.address,
        served.fingerprint,
        token.display()
    );
    common::write(&config, text.as_bytes());
    common::write(&token, served.token.as_ref().unwrap().as_bytes());
    let mut get = Command::new(TACK);
    get.env_remove("TACK_TOKEN").env_remove("TACK_CONFIG");
    get.env("XDG_CONFIG_HOME", served.outside("config")).current_dir(served.dir.path());
    get.env("XDG_STATE_HOME", served.outside("state"));
    let finished = run(get.args(["get", "nas:file", "dest"])).expect(0);
    assert_eq!(finished.number("files"), 1);
    assert_eq!(fs::read(served.outside("dest")).unwrap(), b"content");
}

#[test]
fn a_mistake_in_a_file_ends_the_command_before_it_does_anything() {
    let served = Served::new(&[]);
    let config = served.outside("my.toml");
    fs::write(&config, "[get]\nparalel = 3\n").unwrap();
    let mut get = served.client("get");
    get.env("TACK_CONFIG", &config).arg(served.target("file"));
    let refused = run(&mut get).expect(2);
    assert!(
        refused.errors.contains("my.toml:2: tack get has no option --paralel"),
        "{}",
        refused.errors
    );
    let pair =
        format!("[hosts.nas]\nfingerprint = \"{}\"\ninsecure = true\n", served.fingerprint);
    fs::write(&config, pair).unwrap();
    let refused = run(&mut get).expect(2);
    let expected = "my.toml:3: fingerprint and insecure exclude each other; remove one";
    assert!(refused.errors.contains(expected), "{}", refused.errors);
    fs::write(&config, "[get]\nparalel = 3\n").unwrap();
    // Other commands have nothing to do with it, but the file is wrong for all.
    let help = Command::new(TACK).env("TACK_CONFIG", &config).arg("--help").output().unwrap();
    assert!(help.status.success());
}

#[test]
fn every_command_that_transfers_or_serves_has_a_section() {
    let served = Served::new(&[]);
    served.write("file", b"content");
    let config = served.outside("my.toml");
    let sections = ["serve", "get", "send", "copy", "ls", "share", "receive"];
    let sections = sections.map(|name| format!("[{name}]\nprofile = \"default\"\n"));
    fs::write(&config, sections.concat()).unwrap();
    let mut get = served.client("get");
    get.env("TACK_CONFIG", &config).arg(served.target("file")).arg(served.outside("dest"));
    run(&mut get).expect(0);
}
