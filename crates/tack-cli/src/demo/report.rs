//! The two transfers side by side, for people and for programs.

use std::io::{self, Write};

use serde::Serialize;
use tack_link::LinkSpec;

use crate::error::Error;
use crate::units;
use tack_transfer::TransferError;

/// Everything that is printed.
#[derive(Debug, Serialize)]
pub(super) struct Comparison {
    pub(super) parameters: Parameters,
    pub(super) plain: Measurement,
    pub(super) tack: Measurement,
}

/// What it takes to run it again.
#[derive(Debug, Serialize)]
pub(super) struct Parameters {
    pub(super) bytes: u64,
    /// Of link and path together.
    pub(super) rtt_ms: f64,
    /// What the link can carry at most, in IP packets; none if it has no limit.
    pub(super) rate_mbps: f64,
    pub(super) loss_percent: f64,
    /// In front of the slowest hop.
    pub(super) buffer_bytes: u64,
    pub(super) link: LinkSpec,
    pub(super) seed: u64,
    pub(super) versions: Versions,
}

/// What was measured.
#[derive(Debug, Serialize)]
pub(super) struct Versions {
    tack: &'static str,
    quic: u32,
    protocol: String,
}

impl Versions {
    pub(super) fn of_this_build() -> Self {
        Self {
            tack: env!("CARGO_PKG_VERSION"),
            quic: quiche::PROTOCOL_VERSION,
            protocol: String::from_utf8_lossy(tack_transfer::quic::ALPN[0]).into_owned(),
        }
    }
}

/// One transfer. Packets and bytes are those that were put on the link.
#[derive(Debug, Serialize)]
pub(super) struct Measurement {
    /// From the first packet to the last byte on disk.
    pub(super) seconds: f64,
    pub(super) goodput_mbps: f64,
    /// From the server, with file content.
    pub(super) data_packets: u64,
    /// From the client, with nothing but acknowledgements.
    pub(super) ack_packets: u64,
    /// All 1-RTT packets of the client.
    pub(super) ack_bytes: u64,
    /// File content that was sent more than once.
    pub(super) retransmitted_bytes: u64,
    /// What the sender believes in; the link has a known one.
    pub(super) min_rtt_ms: Option<f64>,
    /// Datagrams towards the client that the link lost, at random or by a full queue.
    pub(super) dropped_datagrams: u64,
    /// Datagrams that the emulation delivered late.
    pub(super) deadline_misses: u64,
    pub(super) digest_ok: bool,
}

impl Comparison {
    pub(super) fn print(&self, json: bool) -> io::Result<()> {
        let text = if json {
            serde_json::to_string(self).map_err(io::Error::other)?
        } else {
            self.table()
        };
        let mut out = io::stdout().lock();
        writeln!(out, "{text}")?;
        out.flush()
    }

    /// An error if what arrived is not what was sent.
    pub(super) fn verdict(&self) -> Result<(), Error> {
        if self.plain.digest_ok && self.tack.digest_ok {
            Ok(())
        } else {
            Err(TransferError::Verification.into())
        }
    }

    fn table(&self) -> String {
        let p = &self.parameters;
        let (plain, tack) = (&self.plain, &self.tack);
        let number = |value: f64, decimals: usize| format!("{value:.decimals$}");
        let row = |name: &str, pick: &dyn Fn(&Measurement) -> f64, decimals| {
            let (before, after) = (pick(plain), pick(tack));
            let change = change(before, after);
            line(name, &number(before, decimals), &number(after, decimals), &change)
        };
        let rtt = |m: &Measurement| m.min_rtt_ms.map_or("-".to_owned(), |ms| number(ms, 2));
        let verified = |m: &Measurement| if m.digest_ok { "right" } else { "WRONG" };
        let mut lines = vec![
            format!(
                "{} over {} ({:.1} Mbit/s at most), {} ms round trip, {} % loss each way, {} of \
                 queue (seed {})",
                units::bytes(p.bytes),
                p.link.name(),
                p.rate_mbps,
                p.rtt_ms,
                p.loss_percent,
                units::bytes(p.buffer_bytes),
                p.seed,
            ),
            String::new(),
            line("", "plain QUIC", "TACK", "change"),
            row("time, s", &|m| m.seconds, 2),
            row("goodput, Mbit/s", &|m| m.goodput_mbps, 2),
            row("data packets", &|m| m.data_packets as f64, 0),
            row("packets with acknowledgements only", &|m| m.ack_packets as f64, 0),
            row("bytes sent by the receiver", &|m| m.ack_bytes as f64, 0),
            row("bytes retransmitted", &|m| m.retransmitted_bytes as f64, 0),
            row("datagrams dropped on the way", &|m| m.dropped_datagrams as f64, 0),
            line("RTTmin measured, ms", &rtt(plain), &rtt(tack), ""),
            line("digest", verified(plain), verified(tack), ""),
        ];
        if plain.deadline_misses + tack.deadline_misses > 0 {
            lines.push(String::new());
            lines.push(format!(
                "This machine was too busy to emulate the link exactly: {} and {} datagrams \
                 were delivered late.",
                plain.deadline_misses, tack.deadline_misses
            ));
        }
        lines.join("\n")
    }
}

fn line(name: &str, plain: &str, tack: &str, change: &str) -> String {
    format!("{name:<38}{plain:>14}{tack:>14}{change:>10}").trim_end().to_owned()
}

fn change(before: f64, after: f64) -> String {
    if before == 0.0 {
        return String::new();
    }
    format!("{:+.1} %", (after - before) / before * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measurement(ack_packets: u64, digest_ok: bool) -> Measurement {
        Measurement {
            seconds: 1.0,
            goodput_mbps: 40.0,
            data_packets: 1000,
            ack_packets,
            ack_bytes: 0,
            retransmitted_bytes: 0,
            min_rtt_ms: Some(40.1),
            dropped_datagrams: 0,
            deadline_misses: 0,
            digest_ok,
        }
    }

    fn comparison(digest_ok: bool) -> Comparison {
        Comparison {
            parameters: Parameters {
                bytes: 1 << 20,
                rtt_ms: 40.0,
                rate_mbps: 50.0,
                loss_percent: 0.0,
                buffer_bytes: 250_000,
                link: LinkSpec::resolve("pipe:50").unwrap(),
                seed: 1,
                versions: Versions::of_this_build(),
            },
            plain: measurement(900, true),
            tack: measurement(9, digest_ok),
        }
    }

    #[test]
    fn the_table_shows_both_and_the_change() {
        let table = comparison(true).table();
        let row = table.lines().find(|line| line.contains("acknowledgements only")).unwrap();
        assert!(row.contains("900") && row.ends_with("-99.0 %"), "{row}");
        assert!(table.contains("1.05 MB over pipe:50 (50.0 Mbit/s at most)"), "{table}");
        assert!(!table.contains("too busy"));
    }

    #[test]
    fn a_wrong_digest_is_an_error() {
        assert!(comparison(true).verdict().is_ok());
        let error = comparison(false).verdict().unwrap_err();
        assert_eq!(error.exit(), crate::exit::Exit::Verification);
        assert!(comparison(false).table().contains("WRONG"));
    }
}
