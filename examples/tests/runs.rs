//! The examples `request_reply` and `tokio_file` do what their first lines say.

#![allow(clippy::expect_used, reason = "a test may fail anywhere")]

use std::process::Command;

fn printed(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().expect("cargo has built it");
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{printed}{}", String::from_utf8_lossy(&output.stderr));
    printed
}

#[test]
fn requests_are_answered_and_their_latencies_are_in_order() {
    let printed = printed(env!("CARGO_BIN_EXE_request_reply"), &["300"]);
    let latencies: Vec<u64> = printed
        .lines()
        .filter_map(|line| line.strip_suffix(" us")?.split_whitespace().last()?.parse().ok())
        .collect();
    assert_eq!(latencies.len(), 5, "{printed}");
    assert!(latencies[0] > 0 && latencies.is_sorted(), "{printed}");
}

#[test]
fn the_file_arrives_whole_and_the_server_is_told_the_end() {
    let printed = printed(env!("CARGO_BIN_EXE_tokio_file"), &[]);
    assert!(printed.ends_with("4000000 bytes arrived\n"), "{printed}");
    let told = "server: closed by the peer with application code 0x0: thank you";
    assert!(printed.lines().any(|line| line == told), "{printed}");
}
