//! The kernel's TCP over a link.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail anywhere")]

mod common;

use std::io::{self, ErrorKind};
use std::time::{Duration, Instant};

use common::{PATIENCE, can_emulate, delay, duplex};
use tack_emulator::tcp::{
    Congestion, ConnectionOptions, SocketOptions, TcpEnd, TcpOptions, TcpReport, run,
    run_connection,
};
use tack_link::pipe::PipeConfig;

const RATE_MBPS: u64 = 20;

/// One second over 20 Mbit/s, 20 ms there and back.
fn transfer(loss: f64) -> TcpReport {
    let delay = Duration::from_millis(10);
    let pipe = PipeConfig { loss, ..PipeConfig::new(RATE_MBPS * 1_000_000, delay, 100_000) };
    let duration = Duration::from_secs(1);
    run(TcpOptions { link: duplex(&pipe), congestion: Congestion::Cubic, duration }).unwrap()
}

#[test]
fn data_gets_through_but_not_faster_than_the_link() {
    if !can_emulate() {
        return;
    }
    let report = transfer(0.0);
    assert!(report.goodput_mbps > 0.0, "{report:?}");
    assert!(report.goodput_mbps < RATE_MBPS as f64, "{report:?}");
}

#[test]
fn the_shortest_round_trip_is_that_of_the_link() {
    if !can_emulate() {
        return;
    }
    let report = transfer(0.0);
    assert!(report.min_rtt_ms.unwrap() >= 20.0, "{report:?}");
    assert!(report.owd_p95_ms.unwrap() >= 10.0, "{report:?}");
}

#[test]
fn no_packet_is_larger_than_the_mtu() {
    if !can_emulate() {
        return;
    }
    let report = transfer(0.0);
    let bytes = report.goodput_mbps * 1e6 / 8.0 * report.seconds;
    // 1500 bytes with 20 of IP, 20 of TCP and 12 of timestamps.
    assert!(bytes <= report.data_packets as f64 * 1448.0, "{report:?}");
}

#[test]
fn acknowledgements_are_fewer_than_data_packets_and_have_no_payload() {
    if !can_emulate() {
        return;
    }
    let report = transfer(0.0);
    assert!(report.ack_packets > 0 && report.ack_packets < report.data_packets, "{report:?}");
    assert!(report.ack_bytes >= report.ack_packets * 52, "{report:?}");
    assert!(report.ack_bytes <= report.ack_packets * 92, "{report:?}");
}

#[test]
fn lost_packets_are_retransmitted() {
    if !can_emulate() {
        return;
    }
    let report = transfer(0.05);
    assert!(report.losses_forward.random > 0, "{report:?}");
    assert!(report.retransmitted > 0, "{report:?}");
}

#[test]
fn a_connection_that_gets_nothing_through_is_an_error_not_a_report() {
    if !can_emulate() {
        return;
    }
    let pipe = PipeConfig { loss: 1.0, ..PipeConfig::default() };
    let options = TcpOptions {
        link: duplex(&pipe),
        congestion: Congestion::Cubic,
        duration: Duration::from_secs(1),
    };
    let error = run(options).unwrap_err().to_string();
    assert!(error.contains("connect"), "{error}");
}

#[test]
fn the_report_has_a_null_for_what_tcp_does_not_have() {
    if !can_emulate() {
        return;
    }
    let report = serde_json::to_string(&transfer(0.0)).unwrap();
    for field in ["iacks", "spurious", "hol_blocked_bytes_p95"] {
        assert!(report.contains(&format!("\"{field}\":null")), "{report}");
    }
}

/// Reads until the other end has gone; returns how many bytes came.
fn read_all(end: &mut TcpEnd) -> io::Result<usize> {
    let (mut all, mut buffer) = (0, [0; 1000]);
    let deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline {
        match end.read(&mut buffer) {
            Ok(0) => return Ok(all),
            Ok(count) => all += count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                end.wait(false, Duration::from_millis(100))?;
            }
            // The client leaves without a word.
            Err(error) if error.kind() == ErrorKind::ConnectionReset => return Ok(all),
            Err(error) => return Err(error),
        }
    }
    Err(ErrorKind::TimedOut.into())
}

#[test]
fn what_is_written_is_unacknowledged_until_the_other_kernel_has_it() {
    if !can_emulate() {
        return;
    }
    let options = ConnectionOptions {
        link: delay(Duration::from_millis(20)),
        congestion: Congestion::Cubic,
        client: SocketOptions { no_delay: true, quick_ack: false },
        server: SocketOptions { no_delay: false, quick_ack: true },
    };
    let write = |mut end: TcpEnd| {
        assert_eq!(end.write(&[7; 100]).unwrap(), 100);
        let at_once = end.unacknowledged().unwrap();
        let is_acknowledged = || end.unacknowledged().unwrap() == 0;
        (at_once, common::comes_true(is_acknowledged))
    };
    let read = |mut end: TcpEnd| (read_all(&mut end).unwrap(), end.reads());
    let report = run_connection(options, write, read).unwrap();
    assert_eq!(report.client, (100, true));
    assert_eq!(report.server, (100, (1, 1)));
    assert_eq!(report.delayed_acks, [0, 0]);
}
