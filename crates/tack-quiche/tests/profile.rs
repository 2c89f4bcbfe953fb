//! `TACK_PROFILE` chooses what a program does that knows only quiche. A process reads it once, so each value
//! is tried in a process of its own.

#![allow(clippy::unwrap_used)] // a test that cannot be set up has failed

use std::net::{Ipv4Addr, SocketAddr};
use std::process::Command;

use tack_quiche as quiche;

/// Set in the processes that a test starts.
const CHILD: &str = "TACK_QUICHE_CHILD";

/// Writes warnings where the parent reads them.
struct Warnings;

impl log::Log for Warnings {
    fn enabled(&self, metadata: &log::Metadata<'_>) -> bool {
        metadata.level() <= log::Level::Warn
    }

    fn log(&self, record: &log::Record<'_>) {
        if self.enabled(record.metadata()) {
            println!("warning: {}", record.args());
        }
    }

    fn flush(&self) {}
}

fn config(folder: &std::path::Path) -> quiche::Config {
    let mut config = quiche::Config::new(quiche::PROTOCOL_VERSION).unwrap();
    let (certificate, key) = (folder.join("cert.pem"), folder.join("key.pem"));
    config.load_cert_chain_from_pem_file(certificate.to_str().unwrap()).unwrap();
    config.load_priv_key_from_pem_file(key.to_str().unwrap()).unwrap();
    config.verify_peer(false);
    config.set_application_protos(&[b"test"]).unwrap();
    config
}

/// A client and a server that have shaken hands.
fn established() -> (quiche::Connection, quiche::Connection) {
    let folder = tempfile::tempdir().unwrap();
    let identity = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    std::fs::write(folder.path().join("cert.pem"), identity.cert.pem()).unwrap();
    std::fs::write(folder.path().join("key.pem"), identity.signing_key.serialize_pem())
        .unwrap();
    let [a, b] = [1, 2].map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    let scid = quiche::ConnectionId::from_ref(&[7; 16]);
    let mut client = quiche::connect(None, &scid, a, b, &mut config(folder.path())).unwrap();
    let mut server = quiche::accept(&scid, None, b, a, &mut config(folder.path())).unwrap();
    let mut datagram = [0; 1500];
    for _ in 0..100 {
        while let Ok((len, info)) = client.send(&mut datagram) {
            let info = quiche::RecvInfo { from: info.from, to: info.to };
            server.recv(&mut datagram[..len], info).unwrap();
        }
        while let Ok((len, info)) = server.send(&mut datagram) {
            let info = quiche::RecvInfo { from: info.from, to: info.to };
            client.recv(&mut datagram[..len], info).unwrap();
        }
    }
    assert!(client.is_established() && server.is_established());
    (client, server)
}

/// What a test's process does: it shakes hands twice and tells what came of it.
#[test]
fn in_a_child() {
    if std::env::var_os(CHILD).is_none() {
        return;
    }
    log::set_logger(&Warnings).unwrap();
    log::set_max_level(log::LevelFilter::Warn);
    for _ in 0..2 {
        let (client, server) = established();
        assert_eq!(client.is_tack(), server.is_tack());
        println!("TACK: {}", client.is_tack());
        let told = client.peer_transport_params().unwrap();
        println!("connection ids: {}", told.active_conn_id_limit);
    }
    let config = quiche::Config::new(quiche::PROTOCOL_VERSION).unwrap();
    println!("profile: {:?}", config.tack().profile);
}

/// What the process prints with a value of the variable.
fn printed(value: Option<&str>) -> String {
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "in_a_child", "--nocapture"]).env(CHILD, "1");
    match value {
        Some(value) => child.env(quiche::PROFILE_VARIABLE, value),
        None => child.env_remove(quiche::PROFILE_VARIABLE),
    };
    let output = child.output().unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{printed}{}", String::from_utf8_lossy(&output.stderr));
    printed
}

#[test]
fn the_variable_chooses_the_profile_of_every_connection() {
    for (value, tack, profile) in [
        (None, true, "Default"),
        (Some("default"), true, "Default"),
        (Some("video"), true, "Video"),
        (Some("off"), false, "Off"),
    ] {
        let printed = printed(value);
        assert_eq!(
            printed.matches(&format!("TACK: {tack}\n")).count(),
            2,
            "{value:?}: {printed}"
        );
        assert!(printed.contains(&format!("profile: {profile}\n")), "{value:?}: {printed}");
        // quiche's own where TACK is off.
        let ids = if tack { 8 } else { 2 };
        let ids = format!("connection ids: {ids}\n");
        assert_eq!(printed.matches(&ids).count(), 2, "{value:?}: {printed}");
        assert!(!printed.contains("warning"), "{value:?}: {printed}");
    }
}

#[test]
fn a_value_that_is_no_profile_is_warned_of_once_and_means_the_default() {
    let printed = printed(Some("of"));
    assert_eq!(
        printed.matches("warning: TACK_PROFILE is of, which is no profile").count(),
        1,
        "{printed}"
    );
    assert!(printed.contains("profile: Default\n"), "{printed}");
}
