//! Flows of many seeds in one row.

use std::time::Duration;

use serde_json::Value;

use super::statistics::mean;
use crate::report::{Check, Table};
use crate::sim::{FlowReport, ScenarioReport};

/// Medians over the seeds of the flow at `index`.
pub(super) fn median_flow(reports: &[ScenarioReport], index: usize) -> FlowReport {
    let flows: Vec<_> =
        reports.iter().filter_map(|report| report.flows.get(index).cloned()).collect();
    FlowReport::median(&flows)
}

/// What each flow got from a moment on, in Mbit/s: over the same time, whenever the flows began. The moment is a
/// multiple of the timeline's bins.
pub(super) fn goodputs_from(report: &ScenarioReport, from: Duration) -> Vec<f64> {
    let mean = |flow: &FlowReport| {
        let bins = flow.timeline.iter().filter(|bin| bin.at >= from.as_secs_f64() - 1e-9);
        mean(bins.map(|bin| bin.goodput_mbps)).unwrap_or_default()
    };
    report.flows.iter().map(mean).collect()
}

/// The share of the first flow in percent, from a moment on.
pub(super) fn share_from(report: &ScenarioReport, from: Duration) -> f64 {
    let goodputs = goodputs_from(report, from);
    100.0 * goodputs.first().unwrap_or(&f64::NAN) / goodputs.iter().sum::<f64>()
}

/// Packets with acknowledgements alone, each second.
pub(super) fn acks_hz(flow: &FlowReport) -> f64 {
    flow.ack_packets as f64 / flow.seconds
}

/// Packets with acknowledgements alone for each hundred data packets.
pub(super) fn acks_per_100(flow: &FlowReport) -> f64 {
    100.0 * flow.ack_packets as f64 / flow.data_packets.max(1) as f64
}

/// How much more one value is than another, in percent.
pub(super) fn gain_percent(value: f64, over: f64) -> f64 {
    (value / over - 1.0) * 100.0
}

/// Percentage points that a gain may differ from the paper's and agree with it, more or less: an eighth
/// of what the paper gains.
const GAIN_AGREES: f64 = 3.0;

/// A gain beside the paper's, in percent. More is better.
pub(super) fn gain_check(
    what: impl Into<String>,
    gain: f64,
    (paper, note): (f64, &str),
) -> Check {
    let near = (gain - paper).abs() <= GAIN_AGREES;
    let expected = format!("{paper:+.1} %{note}");
    Check::paper_or_better(what, format!("{gain:+.1} %"), expected, near, gain > paper)
}

/// Adds the columns that every comparison of stacks has.
pub(super) fn columns(table: Table) -> Table {
    table
        .number("goodput_mbps", "goodput", "Mbit/s", 2)
        .number("acks_hz", "ACKs", "1/s", 0)
        .number("acks_per_100_data", "per 100 data", "", 2)
        .number("lost", "lost", "", 0)
        .number("retransmitted", "resent", "", 0)
        .number("spurious", "in vain", "", 0)
        .number("queue_p95_ms", "queue p95", "ms", 1)
}

/// The values of [`columns`] behind some others.
pub(super) fn row(front: impl IntoIterator<Item = Value>, flow: &FlowReport) -> Vec<Value> {
    let values: [Value; 7] = [
        flow.goodput_mbps.into(),
        acks_hz(flow).into(),
        acks_per_100(flow).into(),
        flow.lost.into(),
        flow.retransmitted.into(),
        flow.spurious.into(),
        flow.queue_p95_ms.into(),
    ];
    front.into_iter().chain(values).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::Bin;

    #[test]
    fn a_gain_agrees_within_three_points_on_both_sides() {
        let verdict = |gain| gain_check("gain", gain, (24.0, " over BBR")).verdict();
        assert_eq!([21.5, 24.0, 26.5].map(verdict), ["agrees"; 3]);
        assert_eq!([17.0, 20.9, 31.0].map(verdict), ["differs", "differs", "better"]);
    }

    #[test]
    fn a_share_is_that_of_the_time_in_which_both_flows_are_measured() {
        let flow = |rates: &[f64]| FlowReport {
            timeline: rates
                .iter()
                .zip(0_u32..)
                .map(|(rate, at)| Bin { at: at.into(), goodput_mbps: *rate, ..Bin::default() })
                .collect(),
            ..FlowReport::default()
        };
        // The other has the link to itself for two seconds.
        let flows = vec![flow(&[0.0, 0.0, 33.0, 33.0]), flow(&[50.0, 50.0, 17.0, 17.0])];
        let report = ScenarioReport { flows };
        assert!((share_from(&report, Duration::from_secs(2)) - 66.0).abs() < 1e-9);
    }

    #[test]
    fn acknowledgements_are_counted_by_time_and_by_data() {
        let flow = FlowReport {
            seconds: 10.0,
            data_packets: 1000,
            ack_packets: 500,
            ..FlowReport::default()
        };
        let report = ScenarioReport { flows: vec![flow] };
        let flow = median_flow(&[report], 0);
        assert!((acks_hz(&flow) - 50.0).abs() < 1e-9);
        assert!((acks_per_100(&flow) - 50.0).abs() < 1e-9);
    }

    #[test]
    fn a_row_has_a_value_for_each_column() {
        let mut table = columns(Table::new("t").text("stack", "stack"));
        table.row(row(["TACK".into()], &FlowReport::default()));
        assert_eq!(table.rows.len(), 1);
    }
}
