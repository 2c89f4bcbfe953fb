//! The marks of a link's queue reach the senders of the lab.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail anywhere")]

use std::time::Duration;

use tack_lab::sim::{self, Acks, Congestion, Flow, FlowReport, Scenario, Stack};
use tack_link::spec::{LinkSpec, PathSpec};
use tacklib::Ecn;

const LINK: &str = "[[hop]]\nkind = \"pipe\"\nrate_mbps = 20\nbuffer_bytes = 1000000\n\
                    queue = \"dualpi2\"";

fn transfer(stack: Stack, ecn: Ecn) -> FlowReport {
    let path = PathSpec::with_rtt(Duration::from_millis(20));
    let congestion = stack.own_congestion();
    let scenario = Scenario {
        link: LinkSpec::from_toml(LINK, "test").unwrap(),
        flows: vec![Flow::new(stack, stack.own_acks(), congestion, path).with_ecn(ecn)],
        duration: Duration::from_secs(2),
        warm_up: Duration::ZERO,
        bin: Duration::from_secs(1),
        seed: 1,
    };
    sim::run(&scenario).unwrap().flows.remove(0)
}

#[test]
fn a_tack_sender_learns_of_what_an_l4s_queue_marks() {
    let flow = transfer(Stack::Tack, Ecn::L4s);
    let reported = flow.ce_reported.unwrap();
    assert!(flow.ce_marked > 100, "{flow:?}");
    // Packets without data count too, and the last marks are not reported yet.
    let difference = reported.abs_diff(flow.ce_marked);
    assert!(difference <= flow.ce_marked / 10, "{reported} of {}", flow.ce_marked);
}

/// A TACK flow with ECT(1) over 50 Mbit/s and 50 ms, behind its first two seconds.
fn l4s(more: &str) -> FlowReport {
    let link = format!(
        "[[hop]]\nkind = \"pipe\"\nrate_mbps = 50\nbuffer_ms = 250\nqueue = \"dualpi2\"\n{more}"
    );
    let path = PathSpec::with_rtt(Duration::from_millis(50));
    let scenario = Scenario {
        link: LinkSpec::from_toml(&link, "test").unwrap(),
        flows: vec![
            Flow::new(Stack::Tack, Acks::Tack, Congestion::Bbr, path).with_ecn(Ecn::L4s),
        ],
        duration: Duration::from_secs(8),
        warm_up: Duration::from_secs(2),
        bin: Duration::from_secs(1),
        seed: 1,
    };
    sim::run(&scenario).unwrap().flows.remove(0)
}

#[test]
fn a_flow_with_ect1_fills_an_l4s_link_without_a_queue() {
    let flow = l4s("");
    assert!(flow.utilisation >= 0.95, "{}", flow.utilisation);
    let queue = flow.queue_p99_ms.unwrap();
    assert!(queue <= 3.0, "{queue} ms");
    assert_eq!(flow.retransmitted, 0);
}

#[test]
fn where_a_path_bleaches_marks_a_sender_stops_marking_and_relies_on_none() {
    let flow = l4s("bleach_ecn = true");
    // RFC 9000 appendix A.4: the ten of the test, and what elicits no acknowledgement.
    assert!(flow.ecn_marked.unwrap() <= 20, "{:?}", flow.ecn_marked);
    assert_eq!((flow.ce_marked, flow.ce_reported), (0, Some(0)));
    assert!(flow.utilisation >= 0.9, "{}", flow.utilisation);
}

#[test]
fn without_ecn_nothing_is_marked() {
    for stack in [Stack::Tack, Stack::Quinn] {
        assert_eq!(transfer(stack, Ecn::Off).ce_marked, 0, "{stack:?}");
    }
}

#[test]
fn quinn_gets_its_marks_too() {
    assert!(transfer(Stack::Quinn, Ecn::Classic).ce_marked > 0);
}

#[test]
fn a_stack_that_cannot_mark_says_so() {
    let path = PathSpec::with_rtt(Duration::from_millis(20));
    let flow = Flow::new(Stack::Plain, Acks::Delayed, Congestion::Cubic, path);
    let scenario = Scenario {
        link: LinkSpec::from_toml(LINK, "test").unwrap(),
        flows: vec![flow.with_ecn(Ecn::Classic)],
        duration: Duration::from_secs(1),
        warm_up: Duration::ZERO,
        bin: Duration::from_secs(1),
        seed: 1,
    };
    assert!(sim::run(&scenario).unwrap_err().to_string().contains("--ecn"));
}
