//! Where a server is said to be (`--address`): its port, and what is no address.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may panic")]

mod common;

use std::fs;
use std::process::Command;

use common::{Finished, Served, TACK, run};

/// A server, and a configuration file that gives names to its host.
struct Named {
    served: Served,
    port: String,
}

impl Named {
    fn new(config: &str) -> Self {
        let served = Served::new(&[]);
        served.write("file", b"content");
        let port = served.address.rsplit_once(':').unwrap().1.to_owned();
        fs::write(served.outside("my.toml"), config.replace("PORT", &port)).unwrap();
        Self { served, port }
    }

    fn get(&self, arguments: &[&str]) -> Finished {
        let mut client = self.served.client("get");
        client.env("TACK_CONFIG", self.served.outside("my.toml"));
        client.args(["--retry", "0"]).args(arguments).arg("dest");
        run(&mut client)
    }
}

#[test]
fn an_address_without_a_port_has_that_of_the_server_that_is_named() {
    let named = Named::new("");
    let target = format!("files.example:{}/file", named.port);
    let fetched = named.get(&["--address", "127.0.0.1", &target]).expect(0);
    assert_eq!(fetched.number("files"), 1);
    // A port of its own counts.
    let at = &named.served.address;
    named.get(&["-c", "--address", at, "files.example:9/file"]).expect(0);
    named.get(&["-c", "--address", at, "files.example/file"]).expect(0);
}

#[test]
fn a_servers_address_in_a_file_without_a_port_has_that_which_was_typed() {
    let named = Named::new("[hosts.nas]\naddress = \"127.0.0.1\"\n");
    named.get(&[&format!("nas:{}/file", named.port)]).expect(0);
    let named = Named::new("[get]\naddress = \"127.0.0.1\"\n");
    named.get(&[&format!("files.example:{}/file", named.port)]).expect(0);
}

#[test]
fn an_address_with_a_path_is_a_mistake_of_usage() {
    let named = Named::new("[hosts.nas]\n\naddress = \"127.0.0.1:PORT/file\"\n");
    let at = format!("{}/foo", named.served.address);
    for (arguments, expected) in [
        (&["--address", &at, "files.example/file"][..], "--address <HOST[:PORT]>"),
        (&["--address", "127.0.0.1:foo", "files.example/file"], "foo"),
        (&["nas:file"], "my.toml:3"),
    ] {
        let refused = named.get(arguments).expect(2);
        assert!(refused.errors.contains("names a path"), "{}", refused.errors);
        assert!(refused.errors.contains(expected), "{}", refused.errors);
        assert!(!refused.errors.contains("host-address"), "{}", refused.errors);
    }
    assert!(!named.served.outside("dest").exists());
    for command in ["send", "ls"] {
        let mut client = Command::new(TACK);
        client.args([command, "--address", &at]).env("TACK_CONFIG", "");
        let arguments = if command == "ls" { &["host:"][..] } else { &["file", "host:"] };
        let refused =
            run(client.args(arguments).current_dir(named.served.dir.path())).expect(2);
        assert!(refused.errors.contains("names a path"), "{}", refused.errors);
    }
}
