//! One line of text for each datagram.

use std::fmt::Write;

use tack_packet::{Packet, packets};
use tack_tap::{Direction, TapCounters};

use super::recorder::Passage;

/// Appends the line. The frames of a 1-RTT packet are those by which it raised the tap's counters.
/// The number of the connection is 0 for a datagram that belongs to none.
pub fn line(
    out: &mut String,
    connection: usize,
    passage: &Passage,
    before: &TapCounters,
    after: &TapCounters,
) {
    let Passage { at, direction, path, bytes, arrived, .. } = passage;
    let sender = match direction {
        Direction::ToServer => "client >",
        Direction::ToClient => "< server",
    };
    let address = if *path == 0 { String::new() } else { format!(" (address {})", path + 1) };
    let parts: Vec<String> = packets(bytes)
        .map(|packet| match packet {
            Packet::Long(long) => {
                format!("{:?}({})", long.header.packet_type, long.bytes.len())
            }
            Packet::Short(short) => format!("1-RTT({}){}", short.len(), frames(before, after)),
        })
        .collect();
    let fate = if *arrived { "" } else { "  (did not arrive)" };
    // Writing to a string does not fail.
    let _ = writeln!(
        out,
        "{:>12.3} ms  #{connection}  {sender}{address}  {:>5} B  {}{fate}",
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
    add("PATH_CHALLENGE", before.path_challenges, after.path_challenges);
    add("PATH_RESPONSE", before.path_responses, after.path_responses);
    add("unreadable", before.malformed, after.malformed);
    text
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

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
        let passage = |direction, path| Passage {
            at: Duration::from_micros(1500),
            direction,
            flow: 0,
            server: 0,
            path,
            ecn: tack_link::Ecn::NotEct,
            len: 2,
            bytes: vec![0x40, 1],
            arrived: path == 0,
        };
        line(&mut out, 1, &passage(Direction::ToServer, 0), &before, &after);
        line(&mut out, 0, &passage(Direction::ToClient, 1), &before, &before);
        let lines: Vec<_> = out.lines().map(str::trim).collect();
        assert_eq!(
            lines,
            [
                "1.500 ms  #1  client >      2 B  1-RTT(2) STREAM(100) TIMESTAMP",
                "1.500 ms  #0  < server (address 2)      2 B  1-RTT(2) not opened  (did not arrive)",
            ]
        );
    }
}
