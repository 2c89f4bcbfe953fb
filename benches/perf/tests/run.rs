//! `tack-perf run` in each mode, with TACK and as plain quiche: what its JSON holds. No rate is
//! asserted; the machine decides that.

#![allow(clippy::unwrap_used, reason = "a run that fails is a test that fails")]

use std::process::Command;

use serde_json::Value;

const MIB: u64 = 1 << 20;

fn run(arguments: &[&str]) -> Value {
    let output = Command::new(env!("CARGO_BIN_EXE_tack-perf"))
        .args(["run", "--json", "--time-limit", "60"])
        .args(arguments)
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {errors}");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn bytes(report: &Value) -> (u64, u64) {
    let of = |direction: &str| report["bytes"][direction].as_u64().unwrap();
    (of("down"), of("up"))
}

/// Looks for what every run has, whatever it transferred.
fn check(report: &Value, profile: &str) {
    for field in ["wall_seconds", "goodput_mbit_s"] {
        assert!(report[field].as_f64().unwrap() > 0.0, "{report}");
    }
    assert!(report["seed"].is_null(), "{report}");
    let (down, up) = bytes(report);
    let is_tack = profile != "off";
    for (name, received) in [("client", down), ("server", up)] {
        let end = &report[name];
        assert!(end["cpu_ns"].as_u64().unwrap() > 0, "{report}");
        assert!(end["cpu_ns_per_byte"].as_f64().unwrap() > 0.0, "{report}");
        assert!(end["packets_sent"].as_u64().unwrap() > 0, "{report}");
        assert!(end["packets_lost"].is_u64(), "{report}");
        assert!(end["rtt"]["smoothed_us"].as_f64().unwrap() > 0.0, "{report}");
        assert!(end["rtt"]["min_us"].as_f64().unwrap() > 0.0, "{report}");
        assert_eq!(end["payload_received"], received, "{report}");
        assert_eq!(end["profile"], profile, "{report}");
        assert_eq!(end["tack"], is_tack, "{report}");
        assert_eq!(end["library"], if is_tack { "tacklib" } else { "quiche" }, "{report}");
        for library in ["tacklib", "quiche"] {
            assert!(end["versions"][library].is_string(), "{report}");
        }
    }
}

/// One MiB in the directions of a mode. Returns the reports with TACK and without.
fn bulk(mode: &str, expected: (u64, u64)) -> [Value; 2] {
    ["default", "off"].map(|profile| {
        let report = run(&["--mode", mode, "--mib", "1", "--profile", profile]);
        check(&report, profile);
        assert_eq!(bytes(&report), expected, "{report}");
        assert_eq!(report["parameters"]["mode"], mode);
        assert!(report["latency_us"].is_null(), "{report}");
        report
    })
}

#[test]
fn bulk_data_comes_down_and_the_client_acknowledges() {
    for report in bulk("down", (MIB, 0)) {
        assert!(report["client"]["ack_packets_sent"].as_u64().unwrap() > 0, "{report}");
    }
}

#[test]
fn bulk_data_goes_up_and_the_server_acknowledges() {
    for report in bulk("up", (0, MIB)) {
        assert!(report["server"]["ack_packets_sent"].as_u64().unwrap() > 0, "{report}");
    }
}

#[test]
fn bulk_data_goes_both_ways_at_once() {
    for report in bulk("both", (MIB, MIB)) {
        for rate in ["down_mbit_s", "up_mbit_s"] {
            assert!(report[rate].as_f64().unwrap() > 0.0, "{report}");
        }
    }
}

#[test]
fn requests_have_latencies_in_order() {
    for profile in ["quick", "off"] {
        // More than may be open at once: the server has to allow new streams.
        let size = ["--requests", "150", "--request-bytes", "100", "--reply-bytes", "3000"];
        let report = run(&[&["--mode", "requests", "--profile", profile], &size[..]].concat());
        check(&report, profile);
        assert_eq!(bytes(&report), (450_000, 15_000), "{report}");
        let latency = &report["latency_us"];
        assert_eq!(latency["count"], 150, "{report}");
        let of = |name: &str| latency[name].as_f64().unwrap();
        let ascending = ["min", "p50", "p90", "p99", "p999", "max"].map(of);
        assert!(ascending[0] > 0.0 && ascending.is_sorted(), "{report}");
    }
}

#[test]
fn a_run_can_end_by_time() {
    let report = run(&["--mode", "both", "--seconds", "1"]);
    check(&report, "default");
    let (down, up) = bytes(&report);
    assert!(down > 0 && up > 0, "{report}");
}

#[test]
fn the_ends_may_differ_in_their_profiles() {
    let arguments = ["--mib", "1", "--profile", "default", "--server-profile", "off"];
    let report = run(&arguments);
    assert_eq!(report["server"]["library"], "quiche", "{report}");
    assert_eq!(report["client"]["library"], "tacklib", "{report}");
    assert_eq!(report["client"]["tack"], false, "{report}");
}

#[test]
fn work_of_no_size_is_refused() {
    for arguments in [["run", "--mib", "0"], ["run", "--seconds", "0"]] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tack-perf"));
        let output = command.args(arguments).output().unwrap();
        assert!(!output.status.success(), "{arguments:?}");
        assert!(!output.stderr.is_empty(), "{arguments:?}");
    }
}
