//! The demo of the real program, on a small file.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may panic")]

mod common;

use std::process::Command;

use common::run;

#[test]
fn both_transfers_arrive_and_are_counted_on_the_wire() {
    let mut demo = Command::new(common::TACK);
    demo.args(["demo", "--json", "--size", "4", "--rtt", "20", "--rate", "40", "--loss", "1"]);
    let finished = run(&mut demo).expect(0);
    let result = &finished.summary;
    assert_eq!(result["parameters"]["bytes"], 4 << 20);
    assert_eq!(result["parameters"]["seed"], 1);
    assert_eq!(result["parameters"]["link"]["name"], "pipe:40");
    assert_eq!(result["parameters"]["link"]["hop"][0]["rate_mbps"], 40.0);
    for name in ["plain", "tack"] {
        let run = &result[name];
        let number =
            |field: &str| run[field].as_f64().unwrap_or_else(|| panic!("{field}: {run}"));
        assert_eq!(run["digest_ok"], true, "{run}");
        // 4 MiB at up to 1350 bytes a packet, with 1 % of losses to repair.
        assert!(number("data_packets") > 3100.0, "{run}");
        assert!(number("ack_packets") > 0.0 && number("ack_bytes") > 0.0, "{run}");
        assert!(number("retransmitted_bytes") > 0.0, "{run}");
        // The link can't be faster than it is.
        assert!(number("goodput_mbps") <= 40.0 && number("min_rtt_ms") >= 19.9, "{run}");
    }
}

#[test]
fn a_link_from_a_file_is_emulated_with_its_own_delay() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("cottage.toml");
    let hop = "[[hop]]\nkind = \"pipe\"\nrate_mbps = 30\ndelay_ms = 15";
    std::fs::write(&file, hop).unwrap();
    let mut demo = Command::new(common::TACK);
    demo.args(["demo", "--json", "--size", "2", "--link"]).arg(&file);
    let finished = run(&mut demo).expect(0);
    let parameters = &finished.summary["parameters"];
    assert_eq!(parameters["link"]["name"], "cottage");
    assert_eq!(parameters["rtt_ms"], 30.0);
    for name in ["plain", "tack"] {
        let run = &finished.summary[name];
        assert_eq!(run["digest_ok"], true, "{run}");
        assert!(run["min_rtt_ms"].as_f64().unwrap() >= 29.9, "{run}");
    }
}

#[test]
fn a_link_that_makes_no_sense_is_an_error_of_usage() {
    run(Command::new(common::TACK).args(["demo", "--link", "pipe:0"])).expect(2);
    run(Command::new(common::TACK).args(["demo", "--link", "/nonexistent.toml"])).expect(2);
}

#[test]
fn a_missing_file_is_an_error_of_this_machine() {
    run(Command::new(common::TACK).args(["demo", "/nonexistent/file"])).expect(5);
}
