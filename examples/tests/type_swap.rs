//! Two applications that differ in a type and its constructors, and both work.

#![allow(clippy::expect_used, clippy::panic, reason = "a test may fail anywhere")]

use std::process::Command;

const BEFORE: &str = include_str!("../src/bin/before.rs");
const AFTER: &str = include_str!("../src/bin/after.rs");

#[test]
fn the_two_applications_differ_in_a_handful_of_lines() {
    assert_eq!(BEFORE.lines().count(), AFTER.lines().count());
    let different: Vec<_> =
        BEFORE.lines().zip(AFTER.lines()).filter(|(before, after)| before != after).collect();
    assert!((1..=6).contains(&different.len()), "{different:#?}");
    for (before, after) in different {
        assert_eq!(before.replacen("quiche::", "tacklib::", 1), after);
    }
}

/// Runs an application; packets that the server and the client sent.
fn packets(program: &str) -> [u64; 2] {
    let output = Command::new(program).output().expect("cargo has built it");
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{printed}{}", String::from_utf8_lossy(&output.stderr));
    ["server", "client"].map(|end| {
        let sent = printed.lines().find_map(|line| {
            line.strip_prefix(end)?.strip_prefix(" sent ")?.strip_suffix(" packets")
        });
        sent.and_then(|sent| sent.parse().ok()).unwrap_or_else(|| panic!("{printed}"))
    })
}

#[test]
fn both_applications_deliver_the_file_and_the_second_with_fewer_acknowledgements() {
    // 4 MiB in packets of 1,350 bytes.
    const LEAST: u64 = (4 << 20) / 1350;

    let [data_before, acks_before] = packets(env!("CARGO_BIN_EXE_before"));
    let [data_after, acks_after] = packets(env!("CARGO_BIN_EXE_after"));
    assert!(data_before > LEAST && data_after > LEAST, "{data_before} and {data_after}");
    // Per packet of data, since what was lost to a full socket buffer was sent again.
    assert!(
        acks_after * data_before < acks_before * data_after,
        "{acks_before} for {data_before}, then {acks_after} for {data_after}"
    );
}
