//! What the two ends have counted, as they print it.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::{Deserialize, Serialize};
use tack_media::DropCause;

use crate::rates;

/// Frames that were not delivered, by why.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Dropped {
    /// It would have come too late, and none of it has left.
    pub late: u64,
    /// Its deadline passed while it was on its way.
    pub expired: u64,
    /// A frame that it depends on was dropped.
    pub dependency: u64,
    /// Too many others waited.
    pub backlog: u64,
    /// The player stopped its stream.
    pub refused: u64,
}

impl Dropped {
    /// Counts one.
    pub fn count(&mut self, cause: DropCause) {
        let counter = match cause {
            DropCause::Late => &mut self.late,
            DropCause::Expired => &mut self.expired,
            DropCause::Dependency => &mut self.dependency,
            DropCause::Refused => &mut self.refused,
            _ => &mut self.backlog,
        };
        *counter += 1;
    }

    /// All of them.
    pub fn total(&self) -> u64 {
        self.late + self.expired + self.dependency + self.backlog + self.refused
    }
}

/// What a sender has counted of one player.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SenderReport {
    /// Whether the connection has TACK.
    pub tack: bool,
    /// Whether frames left in DATAGRAMs.
    pub datagrams: bool,
    /// Frames that were captured; numbers go from 0 to below it.
    pub frames: u64,
    /// Of these, those that the stack has taken.
    pub taken: u64,
    /// Those that were dropped.
    pub dropped: Dropped,
    /// DATAGRAMs that the stack has taken.
    pub datagrams_sent: u64,
    /// DATAGRAMs that waited in the stack's queue until their deadline.
    pub datagrams_expired: u64,
    /// Changes of the bit rate.
    pub switches: u64,
    /// Groups of pictures that were sent, by the bit rate in bits per second.
    pub groups: BTreeMap<u64, u64>,
    /// Segments that could not be read.
    pub segments_missing: u64,
    /// Packets that left.
    pub packets_sent: u64,
    /// Packets of the player, nearly all of them acknowledgements.
    pub packets_received: u64,
    /// Packets that were declared lost.
    pub packets_lost: u64,
}

/// What a player has counted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PlayerReport {
    /// From the request for the connection to the first picture, milliseconds; nothing before that is shown.
    pub startup_ms: Option<f64>,
    /// For how long a picture stood still, milliseconds.
    pub rebuffering_ms: f64,
    /// That over the time since the first picture: 0 to 1.
    pub rebuffering_ratio: f64,
    /// How often it stood still.
    pub freezes: u64,
    /// Frames that came whole.
    pub received: u64,
    /// Frames that were shown, or heard.
    pub shown: u64,
    /// Frames that were not shown because one that they depend on had not come.
    pub broken: u64,
    /// Frames that came too late to be shown.
    pub late: u64,
    /// Frames that were cut off on their way.
    pub lost: u64,
    /// Frames of which nothing came, once the sender has told how many there were.
    pub missing: Option<u64>,
    /// Parts of frames that were lost, where they come in DATAGRAMs.
    pub parts_lost: u64,
    /// Frames that could not be read.
    pub malformed: u64,
    /// Median time from capture to arrival, above that of the fastest frame, milliseconds.
    pub frame_delay_p50_ms: f64,
    /// Its 99th percentile.
    pub frame_delay_p99_ms: f64,
    /// Delay of the jitter buffer at the end, milliseconds.
    pub jitter_buffer_ms: f64,
    /// Changes of the bit rate.
    pub switches: u64,
    /// Changes of the resolution.
    pub resolution_switches: u64,
    /// Mean bit rate of what was shown, bits per second.
    pub mean_bits_per_second: f64,
    /// Samples in the output.
    pub written: u64,
    /// Samples that the output did not take.
    pub not_written: u64,
    /// What the sender tells at the end.
    pub sender: Option<SenderReport>,
}

/// Reports beside each other, a column for each.
pub fn table(columns: &[(&str, &PlayerReport)]) -> String {
    let mut rows: Vec<(&str, Vec<String>)> =
        vec![("", columns.iter().map(|(name, _)| (*name).to_owned()).collect())];
    let mut row = |name, value: &dyn Fn(&PlayerReport) -> String| {
        rows.push((name, columns.iter().map(|(_, report)| value(report)).collect()));
    };
    row("startup", &|report| report.startup_ms.map_or("-".to_owned(), ms));
    row("rebuffering", &|report| {
        let share = 100.0 * report.rebuffering_ratio;
        format!("{} ({share:.1} %), {} times", ms(report.rebuffering_ms), report.freezes)
    });
    row("frame delay p50 / p99", &|report| {
        format!("{} / {}", ms(report.frame_delay_p50_ms), ms(report.frame_delay_p99_ms))
    });
    row("jitter buffer", &|report| ms(report.jitter_buffer_ms));
    row("frames shown", &|report| report.shown.to_string());
    row("broken / late / cut off", &|report| {
        format!("{} / {} / {}", report.broken, report.late, report.lost)
    });
    row("never came", &|report| report.missing.map_or("-".to_owned(), |n| n.to_string()));
    if columns.iter().any(|(_, report)| {
        report.parts_lost > 0 || report.sender.as_ref().is_some_and(|sender| sender.datagrams)
    }) {
        row("DATAGRAMs lost", &|report| report.parts_lost.to_string());
    }
    row("mean bit rate", &|report| format!("{:.2} Mbit/s", report.mean_bits_per_second / 1e6));
    row("bit rate / size switches", &|report| {
        format!("{} / {}", report.switches, report.resolution_switches)
    });
    if columns.iter().any(|(_, report)| report.sender.is_some()) {
        let sender = |report: &PlayerReport, of: &dyn Fn(&SenderReport) -> String| {
            report.sender.as_ref().map_or("-".to_owned(), of)
        };
        row("dropped by the sender", &|report| {
            sender(report, &|s| s.dropped.total().to_string())
        });
        row("  late / expired", &|report| {
            sender(report, &|s| format!("{} / {}", s.dropped.late, s.dropped.expired))
        });
        row("  dependency / other", &|report| {
            sender(report, &|s| {
                format!("{} / {}", s.dropped.dependency, s.dropped.backlog + s.dropped.refused)
            })
        });
        row("packets sent / lost", &|report| {
            sender(report, &|s| format!("{} / {}", s.packets_sent, s.packets_lost))
        });
        row("packets of the player", &|report| {
            sender(report, &|s| s.packets_received.to_string())
        });
        row("groups by bit rate", &|report| sender(report, &|s| groups(&s.groups)));
    }
    aligned(&rows)
}

fn groups(groups: &BTreeMap<u64, u64>) -> String {
    let parts: Vec<_> =
        groups.iter().map(|(rate, count)| format!("{count}x{}", rates::name(*rate))).collect();
    parts.join(" ")
}

fn ms(milliseconds: f64) -> String {
    format!("{milliseconds:.0} ms")
}

fn aligned(rows: &[(&str, Vec<String>)]) -> String {
    let name = rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let columns = rows.first().map_or(0, |(_, values)| values.len());
    let widths: Vec<usize> = (0..columns)
        .map(|at| rows.iter().map(|(_, values)| values[at].len()).max().unwrap_or(0))
        .collect();
    let mut out = String::new();
    for (first, values) in rows {
        let mut line = format!("{first:name$}");
        for (value, width) in values.iter().zip(&widths) {
            // Writing into a string cannot fail.
            let _ = write!(line, "  {value:width$}");
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}
