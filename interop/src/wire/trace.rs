//! One line of text for each datagram.

use std::fmt::Write;
use std::time::Duration;

use tack_tap::{Direction, TapCounters};

use super::long_header::{Packet, packets};

/// Appends the line. What was in a 1-RTT packet is what it added to the tap's counters.
pub fn line(
    out: &mut String,
    at: Duration,
    direction: Direction,
    bytes: &[u8],
    before: &TapCounters,
    after: &TapCounters,
) {
    let sender = match direction {
        Direction::ToServer => "client >",
        Direction::ToClient => "< server",
    };
    let parts: Vec<String> = packets(bytes)
        .iter()
        .map(|packet| match packet {
            Packet::Long(long) => format!("{:?}({})", long.kind, long.bytes.len()),
            Packet::Short(short) => format!("1-RTT({}){}", short.len(), frames(before, after)),
        })
        .collect();
    // Writing to a string does not fail.
    let _ = writeln!(
        out,
        "{:>12.3} ms  {sender}  {:>5} B  {}",
        at.as_secs_f64() * 1e3,
        bytes.len(),
        parts.join(" + ")
    );
}

fn frames(before: &TapCounters, after: &TapCounters) -> String {
    if after.packets == before.packets {
        return " not opened".to_owned();
    }
    let mut text = match after.stream_bytes - before.stream_bytes {
        0 => String::new(),
        bytes => format!(" STREAM({bytes})"),
    };
    if after.retransmitted_stream_bytes > before.retransmitted_stream_bytes {
        text.push_str("again");
    }
    if after.ack_packets > before.ack_packets {
        text.push_str(" only");
    }
    let mut add = |name: &str, before: u64, after: u64| {
        for _ in before..after {
            text.push(' ');
            text.push_str(name);
        }
    };
    add("ACK", before.ack_frames, after.ack_frames);
    add("TACK", before.tacks, after.tacks);
    add("IACK", before.iacks, after.iacks);
    add("ACK_FREQUENCY", before.ack_frequency, after.ack_frequency);
    add("IMMEDIATE_ACK", before.immediate_acks, after.immediate_acks);
    add("TIMESTAMP", before.timestamps, after.timestamps);
    add("unreadable", before.malformed, after.malformed);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_only_acknowledges_is_told_from_what_carries_more() {
        let before = TapCounters::default();
        let with_more = TapCounters { packets: 1, ack_frames: 1, ..before };
        let only = TapCounters { ack_packets: 1, ..with_more };
        assert_eq!(frames(&before, &with_more), " ACK");
        assert_eq!(frames(&before, &only), " only ACK");
    }

    #[test]
    fn a_line_says_who_sent_what_when() {
        let before = TapCounters::default();
        let after = TapCounters { packets: 1, stream_bytes: 100, timestamps: 1, ..before };
        let mut out = String::new();
        let at = Duration::from_micros(1500);
        line(&mut out, at, Direction::ToServer, &[0x40, 1], &before, &after);
        line(&mut out, at, Direction::ToClient, &[0x40, 1], &before, &before);
        let lines: Vec<_> = out.lines().map(str::trim).collect();
        assert_eq!(
            lines,
            [
                "1.500 ms  client >      2 B  1-RTT(2) STREAM(100) TIMESTAMP",
                "1.500 ms  < server      2 B  1-RTT(2) not opened",
            ]
        );
    }
}
