//! How many acknowledgements ACK_FREQUENCY and TACK save, as bars.

use std::fmt::Write;

use super::{Report, escaped};
use crate::cell::CellReport;
use crate::contract::Role;
use crate::own_kind::OwnKind;
use crate::wire::Observation;

/// The test case that measures it.
const TEST: &str = "ackfrequency";

/// Appends a section with a figure for each cell that measured, if there is one.
pub fn acknowledgements(out: &mut String, report: &Report) {
    let measured: Vec<_> =
        report.cells.iter().filter(|cell| cell.test == TEST && cell.wire.len() > 1).collect();
    if measured.is_empty() {
        return;
    }
    let rates =
        measured.iter().flat_map(|cell| cell.wire.iter().map(move |(_, seen)| (cell, seen)));
    let most = rates.map(|(cell, seen)| Rates::new(cell, seen).acks).fold(1.0, f64::max);
    out.push_str(
        "<h2>Acknowledgements saved</h2>\n<p>Packets of the peer without data, for \
         1000 data packets of our end, over Wi-Fi 802.11n at a round trip of \
         40 ms, 48 MiB. “Not asked” differs from the first bar in ACK_FREQUENCY alone; “plain \
         quiche” has another congestion controller as well.</p><br>\n\
         <div class=\"card figures\">\n",
    );
    for cell in measured {
        figure(out, cell, most);
    }
    out.push_str("</div>\n");
}

// Writing to a string does not fail.
fn figure(out: &mut String, cell: &CellReport, most: f64) {
    let _ = write!(
        out,
        "<div class=\"figure\"><h3>{}<small>as {}</small></h3><dl class=\"bars\">",
        escaped(cell.peer),
        cell.role
    );
    for (ours, seen) in &cell.wire {
        let is = |kind: OwnKind| *ours == kind.name();
        let is_tack = seen
            .client
            .zip(seen.server)
            .is_some_and(|(client, server)| client.tack && server.tack);
        let (class, label) = match () {
            () if is(OwnKind::Quiche) => ("track", "plain quiche"),
            () if is(OwnKind::TackUnasking) => ("track", "not asked"),
            () if is_tack => ("track asked", "TACK"),
            () => ("track asked", "asked by ACK_FREQUENCY"),
        };
        let Rates { acks, goodput } = Rates::new(cell, seen);
        let _ = write!(
            out,
            "<dt>{label}</dt><dd class=\"{class}\"><span style=\"width:{:.1}%\"></span></dd>\
             <dd class=\"value\">{acks:.0} <small>{:.0} Mbit/s</small></dd>",
            100.0 * acks / most,
            goodput / 1e6
        );
    }
    out.push_str("</dl></div>\n");
}

struct Rates {
    /// The receiver's packets without data for 1000 data packets.
    acks: f64,
    /// Bits per second.
    goodput: f64,
}

impl Rates {
    fn new(cell: &CellReport, seen: &Observation) -> Self {
        let (data, acks) = match cell.role {
            Role::Client => (&seen.to_client, &seen.to_server),
            Role::Server => (&seen.to_server, &seen.to_client),
        };
        let bytes = data.stream_bytes.saturating_sub(data.retransmitted_stream_bytes);
        Self {
            acks: 1000.0 * acks.packets.saturating_sub(acks.data_packets) as f64
                / data.data_packets.max(1) as f64,
            goodput: bytes as f64 * 8.0 / seen.data_seconds.max(1e-9),
        }
    }
}

#[cfg(test)]
mod tests {
    use tack_tap::TapCounters;

    use super::super::super::tests::{cell, pass};
    use super::*;

    #[test]
    fn each_transfer_has_a_bar_as_long_as_its_share_of_the_longest() {
        let seen = |packets| Observation {
            to_client: TapCounters { data_packets: 1000, ..TapCounters::default() },
            to_server: TapCounters { packets, ..TapCounters::default() },
            ..Observation::default()
        };
        let wire = vec![("tack", seen(10)), ("quiche", seen(40)), ("tack-unasking", seen(20))];
        let measured = CellReport { test: TEST, wire, ..cell("quinn", pass()) };
        let mut page = String::new();
        acknowledgements(&mut page, &Report::new(vec![measured]));
        for (label, width) in [
            ("asked by ACK_FREQUENCY", "25.0"),
            ("plain quiche", "100.0"),
            ("not asked", "50.0"),
        ] {
            let bar = page.split(&format!("<dt>{label}</dt>")).nth(1).unwrap();
            assert!(bar[..80].contains(&format!("width:{width}%")), "{bar}");
        }
    }
}
