//! `tack serve` on several threads.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may panic")]
#![cfg(target_os = "linux")]

mod common;

use std::collections::BTreeSet;
use std::fs;
use std::net::SocketAddr;
use std::process::Stdio;
use std::time::Duration;

use common::{Served, finish, noise, run, signal, wait_until};
use nix::sys::signal::Signal;
use tack_endpoint::{CloseReason, Endpoint, EndpointConfig, Event};
use tack_transfer::quic::{self, CloseCode, Verify};

const CLIENTS: u64 = 20;

/// How many sockets are bound to a UDP port.
fn sockets(port: u16) -> usize {
    let table = fs::read_to_string("/proc/net/udp").unwrap();
    let local = format!(":{port:04X}");
    let columns = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    // By inode: the kernel tells a socket twice when others come and go while the table is read.
    let inodes =
        columns.filter(|columns| columns[1].ends_with(&local)).map(|c| c[9].to_owned());
    inodes.collect::<BTreeSet<_>>().len()
}

#[test]
fn many_clients_at_once_are_served_by_two_threads() {
    let served = Served::new(&["--workers", "2"]);
    let address: SocketAddr = served.address.parse().unwrap();
    assert_eq!(sockets(address.port()), 2);
    let length = |n: u64| 200_000 + 10_000 * usize::try_from(n).unwrap();
    for n in 0..CLIENTS {
        served.write(&format!("from/{n}"), &noise(length(n), n));
    }
    fs::write(served.outside("sent"), noise(300_000, 99)).unwrap();
    let clients: Vec<_> = (0..CLIENTS)
        .map(|n| {
            let mut client = if n % 2 == 0 {
                let mut get = served.client("get");
                get.arg(served.target(&format!("from/{n}")))
                    .arg(served.outside(&format!("to-{n}")));
                get
            } else {
                let mut send = served.client("send");
                send.arg(served.outside("sent")).arg(served.target(&format!("to-{n}")));
                send
            };
            client.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
        })
        .collect();
    for client in clients {
        finish(client).expect(0);
    }
    for n in 0..CLIENTS {
        if n % 2 == 0 {
            assert!(
                fs::read(served.outside(&format!("to-{n}"))).unwrap() == noise(length(n), n)
            );
        } else {
            assert!(fs::read(served.path(&format!("to-{n}"))).unwrap() == noise(300_000, 99));
        }
    }
}

/// A server of one thread would let as many of them stay as one of two does.
#[test]
fn strangers_of_one_network_are_limited_at_both_threads_together() {
    let served = Served::new(&["--workers", "2"]);
    let server = served.address.parse().unwrap();
    let mut config = quic::client_config(tacklib::Profile::Default, Verify::Later).unwrap();
    // A port for each, so that the kernel spreads them.
    let mut strangers: Vec<_> = (0..24)
        .map(|_| {
            let local = SocketAddr::from(([127, 0, 0, 1], 0));
            let mut endpoint = Endpoint::client(local, EndpointConfig::default()).unwrap();
            endpoint.connect(server, Some("localhost"), &mut config).unwrap();
            endpoint
        })
        .collect();
    let (mut connected, mut busy) = (0, 0);
    wait_until(|| {
        for stranger in &mut strangers {
            stranger.poll(Some(Duration::ZERO)).unwrap();
            while let Some(event) = stranger.next_event() {
                match event {
                    Event::Connected(_) => connected += 1,
                    Event::Closed(_, CloseReason::Peer { application: true, code, .. })
                        if code == CloseCode::Busy as u64 =>
                    {
                        busy += 1;
                    }
                    Event::Closed(_, reason) => panic!("closed: {reason}"),
                    _ => {}
                }
            }
        }
        connected == 24 && busy >= 8
    });
    assert_eq!(busy, 8);
    // Those who know the token get in all the same.
    served.write("file", b"content");
    served.get("file", &served.outside("dest")).expect(0);
}

#[test]
fn a_signal_ends_all_threads() {
    for workers in ["2", "auto"] {
        let mut served = Served::new(&["--workers", workers]);
        served.write("file", b"content");
        served.get("file", &served.outside("dest")).expect(0);
        signal(&served.child, Signal::SIGTERM);
        wait_until(|| served.child.try_wait().unwrap().is_some());
        assert!(served.child.wait().unwrap().success());
    }
}

#[test]
fn numbers_of_threads_and_settings_that_cannot_be_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let lb = dir.path().join("lb.toml");
    let serve = |arguments: &[&str]| {
        let mut serve = std::process::Command::new(common::TACK);
        serve.env("TACK_CONFIG", "").args(["serve", "--no-token", "--listen", "127.0.0.1:0"]);
        serve.arg("--identity").arg(dir.path().join("identity")).args(arguments);
        run(serve.arg(dir.path())).errors
    };
    assert!(serve(&["--workers", "65"]).contains("64 at most"));
    assert!(serve(&["--workers", "many"]).contains("a number or auto"));
    assert!(serve(&["--server-id", "01"]).contains("--lb-config"));
    let file = lb.to_str().unwrap();
    fs::write(&lb, "config-id = 7\nnonce-length = 8\nserver-id = \"01\"").unwrap();
    assert!(serve(&["--lb-config", file]).contains("config id 7"));
    fs::write(&lb, "config-id = 0\nnonce-length = 4\nserver-id = \"01\"").unwrap();
    assert!(serve(&["--lb-config", file, "--workers", "2"]).contains("takes at least 5"));
}
