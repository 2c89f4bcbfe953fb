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
fn a_missing_file_is_an_error_of_this_machine() {
    run(Command::new(common::TACK).args(["demo", "/nonexistent/file"])).expect(5);
}
