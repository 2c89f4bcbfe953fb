//! The commands of docs/embedding.md for C and C++, run as their reader would.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::skip;
use crate::toolchain::{here, output};

const EMBEDDING: &str = include_str!("../../../../docs/embedding.md");
const PORT: u16 = 4435;
const PATIENCE: Duration = Duration::from_secs(30);

/// The commands of the section: those that set up, the server's, the client's, and what that prints.
fn commands() -> [String; 4] {
    let (_, rest) = EMBEDDING.split_once("\n## From C and C++\n").unwrap();
    let section = rest.split("\n## ").next().unwrap();
    let [mut setup, mut server, mut client, mut printed] = [const { String::new() }; 4];
    for fenced in section.split("```").skip(1).step_by(2) {
        let (kind, text) = fenced.split_once('\n').unwrap();
        match (kind, text.lines().next()) {
            ("sh", Some("# In one terminal:")) => server += text,
            ("sh", Some("# In another:")) => client += text,
            ("sh", _) => setup += text,
            ("text", _) => printed += text,
            _ => {}
        }
    }
    [setup, server, client, printed]
}

fn bash(script: &str, folder: &std::path::Path) -> Command {
    let mut command = Command::new("bash");
    command
        .args(["-euo", "pipefail", "-c", script])
        .current_dir(folder)
        .env("TACKLIB", here().ancestors().nth(2).unwrap())
        .env("TACKLIB_PROFILE", "dev");
    command
}

fn has_socket() -> bool {
    let sockets = std::fs::read_to_string("/proc/net/udp").unwrap();
    sockets.contains(&format!(" 0100007F:{PORT:04X} "))
}

#[test]
fn the_guides_commands_do_what_it_says() {
    if Command::new("openssl").arg("version").output().is_err() {
        return skip(
            "there is no openssl on this machine, which the guide makes a certificate with",
        );
    }
    if has_socket() {
        return skip("port 4435, which the guide names, is in use");
    }
    let folder = tempfile::tempdir().unwrap();
    let [setup, server, client, expected] = commands();
    assert!(setup.contains("crates/tack-ffi/install"), "{setup}");
    output(&mut bash(&setup, folder.path()));
    // `exec`, so that there is no shell around the server to be left behind.
    let server = server.replacen("./file_server", "exec ./file_server", 1);
    let mut server = bash(&server, folder.path()).stdout(Stdio::null()).spawn().unwrap();
    let start = Instant::now();
    while !has_socket() && start.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(20));
    }
    let printed = output(&mut bash(&format!("timeout 60 bash -euc '{client}'"), folder.path()));
    assert_eq!(printed, expected);
    assert!(server.wait().unwrap().success());
}
