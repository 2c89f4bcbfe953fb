//! Programs that others wrote for quiche, unmodified, with TACK: the commands of docs/embedding.md, and then the
//! same programs over a relay that counts datagrams.

#![cfg(target_os = "linux")]
#![allow(clippy::expect_used, reason = "a test may fail anywhere")]

#[path = "foreign/guide.rs"]
mod guide;
#[path = "foreign/shell.rs"]
mod shell;

use std::net::{Ipv4Addr, SocketAddr};
use std::process::Command;
use std::time::{Duration, Instant};

use shell::Shell;
use tack_emulator::relay::Relay;
use tack_link::{LinkSpec, PathSpec};

/// The round trip of the path between the programs.
const RTT: Duration = Duration::from_millis(20);

/// Bytes of a datagram of the examples.
const DATAGRAM: u64 = 1350;

/// What has passed the relay in one transfer.
#[derive(Debug)]
struct Passed {
    from_server: u64,
    from_client: u64,
    /// For the reader; no test depends on it.
    time: Duration,
}

/// Has a client fetch something over a path of 50 Mbit/s.
fn fetch(
    server: SocketAddr,
    mut client: Command,
    profile: &str,
    url_path: &str,
) -> (Vec<u8>, Passed) {
    let link = LinkSpec::resolve("pipe:50").expect("a link").build(&PathSpec::with_rtt(RTT), 1);
    let relay = Relay::start(server, link.expect("a link")).expect("sockets");
    let url = format!("https://{}{url_path}", relay.address());
    let start = Instant::now();
    let output = client.arg(url).env("TACK_PROFILE", profile).output().expect("it was built");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let time = start.elapsed();
    let report = relay.stop().expect("the relay ran");
    let (from_server, from_client) = (report.forward.packets, report.reverse.packets);
    (output.stdout, Passed { from_server, from_client, time })
}

/// Fails unless the client of the transfer with TACK has sent much less for the same data.
fn compare(name: &str, [tack, plain]: &[(Vec<u8>, Passed); 2]) {
    let least = tack.0.len() as u64 / DATAGRAM;
    for (way, (data, passed)) in [("with TACK", tack), ("with TACK_PROFILE=off", plain)] {
        let Passed { from_server, from_client, time } = passed;
        let (bytes, time) = (data.len(), time.as_secs_f64());
        println!(
            "{name}, {way}: {bytes} bytes in {time:.2} s, {from_server} and {from_client} datagrams"
        );
    }
    assert!(tack.0 == plain.0, "the transfers differ");
    assert!(tack.1.from_server > least && plain.1.from_server > least, "{least}");
    // On an idle machine a sixth; on a busy one plain quiche reads more at once, and acknowledges that at once, too.
    assert!(tack.1.from_client * 2 < plain.1.from_client);
}

#[test]
#[ignore = "builds quiche and BoringSSL in another workspace, which takes minutes, and needs crates.io"]
fn quiches_own_examples_use_tack_where_tack_quiche_has_quiches_name() {
    const PORT: u16 = 4433;
    let guide = guide::section("From quiche");
    let mut shell = Shell::new();
    for commands in &guide.setup {
        shell.run(commands);
    }
    {
        let _server = shell.serve(&guide.server, "default", PORT);
        assert_eq!(shell.run(&guide.client), guide.printed);
    }
    let transfers = ["default", "off"].map(|profile| {
        let _server = shell.serve(&guide.server, profile, PORT);
        let client = shell.example("client");
        fetch((Ipv4Addr::LOCALHOST, PORT).into(), client, profile, "/numbers")
    });
    assert!(transfers[0].0.ends_with(b"\n1000000\n"));
    compare("quiche's examples", &transfers);
}

#[test]
#[ignore = "builds tokio-quiche and BoringSSL in another workspace, which takes minutes, and needs crates.io"]
fn tokio_quiches_example_uses_tack_where_the_patch_is_in_force() {
    const PORT: u16 = 4434;
    let guide = guide::section("From tokio-quiche");
    let mut shell = Shell::new();
    for commands in &guide.setup {
        shell.run(commands);
    }
    {
        let _server = shell.serve(&guide.server, "default", PORT);
        assert_eq!(shell.run(&guide.client), guide.printed);
    }
    let transfers = ["default", "off"].map(|profile| {
        let _server = shell.serve(&guide.server, profile, PORT);
        let client = shell.example("http3-client");
        let path = "/stream-bytes/5000000";
        fetch((Ipv4Addr::LOCALHOST, PORT).into(), client, profile, path)
    });
    assert_eq!(transfers[0].0.len(), 5_000_000);
    compare("tokio-quiche's server", &transfers);

    // Without the patch the same program builds and runs as before.
    shell.run("cargo tack-patch --remove\nif cargo tack-patch --check; then exit 1; fi\ncargo build --examples");
    let _server = shell.serve(&guide.server, "default", PORT);
    let client = shell.example("http3-client");
    let (_, passed) =
        fetch((Ipv4Addr::LOCALHOST, PORT).into(), client, "default", "/stream-bytes/5000000");
    assert!(passed.from_client > 4 * transfers[0].1.from_client, "{passed:?}");
}

#[test]
fn each_section_of_the_guide_has_commands_for_both_ends() {
    for heading in ["From quiche", "From tokio-quiche"] {
        let guide = guide::section(heading);
        assert!(guide.setup[0].starts_with("cargo new "), "{guide:?}");
        assert!(guide.server.contains("cargo run --example "), "{guide:?}");
        assert!(guide.client.contains("https://127.0.0.1:443"), "{guide:?}");
    }
}

#[test]
#[ignore = "builds web-transport-quiche and BoringSSL in another workspace, which takes minutes, and needs crates.io"]
fn programs_over_web_transport_quiche_use_tack_where_the_patch_is_in_force() {
    const PORT: u16 = 4436;
    let guide = guide::section("From web-transport-quiche");
    let mut shell = Shell::new();
    for commands in &guide.setup {
        shell.run(commands);
    }
    {
        let _server = shell.serve(&guide.server, "default", PORT);
        assert_eq!(shell.run(&guide.client), guide.printed);
    }
    // The examples say a few words only.
    let programs =
        guide::checkout().join("crates/tools/cargo-tack-patch/tests/foreign/web_transport");
    shell.run(&format!("cp '{}'/*.rs examples\ncargo build --examples", programs.display()));
    let server = "cargo run --example bulk-server -- 127.0.0.1:4436 cert.pem key.pem";
    let transfers = ["default", "off"].map(|profile| {
        let _server = shell.serve(server, profile, PORT);
        let client = shell.example("bulk-client");
        fetch((Ipv4Addr::LOCALHOST, PORT).into(), client, profile, "/")
    });
    assert_eq!(transfers[0].0.len(), 5_000_000);
    compare("web-transport-quiche", &transfers);
}
