//! What was seen.

use std::cmp::Ordering;

use serde::ser::Error as _;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};
use tacklib::CcParameters;

/// Result of a [`Scenario`](super::Scenario).
#[derive(Clone, Debug, Serialize)]
pub struct ScenarioReport {
    /// In the order of the scenario's flows.
    pub flows: Vec<FlowReport>,
}

/// What one flow did. Counts are of packets put on the link, unless said otherwise; all of them
/// are taken from the wire, with the keys of the connection, in the same way for every stack.
#[derive(Clone, Debug, Default, Serialize)]
pub struct FlowReport {
    /// Stream data that arrived for the first time, in megabits per second of the measured time.
    pub goodput_mbps: f64,
    /// IP bytes of data packets that arrived, as a share of what the link could have carried in the
    /// measured time.
    pub utilisation: f64,
    /// Seconds that were measured.
    pub seconds: f64,
    /// Packets with stream data, from the server.
    pub data_packets: u64,
    /// Packets of the client with acknowledgements and nothing that asks for one.
    pub ack_packets: u64,
    /// Length of those as IP packets.
    pub ack_bytes: u64,
    /// IACK frames from the client.
    pub iacks: u64,
    /// Packets whose data had all been sent before.
    pub retransmitted: u64,
    /// Among these, packets whose data had all arrived when they were sent.
    pub spurious: u64,
    /// Data packets that never came out of the link. What is on its way when the measurement ends
    /// is waited for.
    pub lost: u64,
    /// Data packets that arrived with CE.
    pub ce_marked: u64,
    /// Packets that a TACK sender which is there at the end has marked as ECN-capable, from its start.
    pub ecn_marked: Option<u64>,
    /// Packets reported as CE that the sender relies on, of a TACK sender that is there at the end.
    pub ce_reported: Option<u64>,
    /// What became of Careful Resume, of a TACK sender that is there at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub careful_resume: Option<CarefulResume>,
    /// What the sender believes to be the smallest round-trip time, at the end.
    pub min_rtt_ms: Option<f64>,
    /// Median of the data packets' one-way delay.
    pub owd_p50_ms: Option<f64>,
    /// 95th percentile of the data packets' one-way delay.
    pub owd_p95_ms: Option<f64>,
    /// 99th percentile of it.
    pub owd_p99_ms: Option<f64>,
    /// Packets with stream data that were sent or sent again behind the deadline of their stream, and
    /// the bytes of such data; of a source of frames with a stream for each.
    pub expired_packets: u64,
    /// See `expired_packets`.
    pub expired_bytes: u64,
    /// Mean of what a data packet takes and what a packet back takes: a round trip without the
    /// time that the receiver waits for its acknowledgement.
    pub rtt_mean_ms: Option<f64>,
    /// Standard deviation of that.
    pub rtt_deviation_ms: Option<f64>,
    /// 95th percentile of the data packets' queueing delay: what their one-way delay lay above
    /// the smallest one, each less what the packet's own length takes at the direction's rate.
    pub queue_p95_ms: Option<f64>,
    /// The 99th percentile of that.
    pub queue_p99_ms: Option<f64>,
    /// The longest queueing delay.
    pub queue_max_ms: Option<f64>,
    /// What the direction's rate moves in `queue_p95_ms`, in bytes: the queue that lay before
    /// the packet. None where the link has no rate.
    pub queue_p95_bytes: Option<f64>,
    /// What it moves in `queue_max_ms`.
    pub queue_max_bytes: Option<f64>,
    /// 95th percentile, over time, of received bytes that wait behind a gap in the stream.
    pub hol_blocked_bytes_p95: Option<f64>,
    /// From the client's first packet to the last byte, where the load has an end.
    pub completion_ms: Option<f64>,
    /// How late the frames of a call were.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub frames: Option<FrameReport>,
    /// Which frames of a source with a stream for each came.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delivered_frames: Option<DeliveredFrames>,
    /// The flow over time.
    pub timeline: Vec<Bin>,
    /// The other direction of a two-way flow, with client and server in each other's place. Its
    /// fields are serialised beside the others, as `reverse_goodput_mbps` and so on.
    #[serde(flatten, serialize_with = "as_reverse_fields")]
    pub reverse: Option<Box<FlowReport>>,
}

#[allow(clippy::ref_option, reason = "the signature is serde's")]
fn as_reverse_fields<S: Serializer>(
    reverse: &Option<Box<FlowReport>>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let fields = match reverse.as_ref().map(serde_json::to_value).transpose() {
        Ok(Some(Value::Object(fields))) => fields,
        Ok(_) => Map::new(),
        Err(error) => return Err(S::Error::custom(error)),
    };
    serializer
        .collect_map(fields.into_iter().map(|(key, value)| (format!("reverse_{key}"), value)))
}

/// Where Careful Resume is at a sender (RFC 9959), by its draft's names for qlog.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct CarefulResume {
    /// The phase.
    pub phase: &'static str,
    /// Why the one before has ended.
    pub trigger: Option<&'static str>,
    /// The parameters to save.
    #[serde(skip)]
    pub observed: Option<CcParameters>,
}

/// How late frames of audio and of the first video were: from when one is made until the client's
/// application has read the last byte of it. What is still missing at the end of the run counts
/// as if it came then; audio, which is sent once, as if it came 250 ms late, when a frame of the second
/// video is given up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct FrameReport {
    /// Frames that count.
    pub count: u64,
    /// Mean latency, ms.
    pub mean_ms: f64,
    /// The longest, ms.
    pub max_ms: f64,
    /// Frames of audio that never came.
    pub lost_audio: u64,
    /// Groups of the second video that were given up.
    pub stopped_groups: u64,
}

/// Frames of a source with a stream for each.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct DeliveredFrames {
    /// Frames that were made.
    pub made: u64,
    /// Of these, frames that waited too long for the stack and were never begun.
    pub dropped: u64,
    /// Frames that came whole.
    pub delivered: u64,
    /// Of these, frames that came in time.
    pub in_time: u64,
    /// Median time from when a frame is made until it has been read whole. A frame that was dropped, or is
    /// not there at the end of the run though its time is over, is later than all others; none where
    /// the median is such a frame.
    pub delay_p50_ms: Option<f64>,
    /// 99th percentile of it.
    pub delay_p99_ms: Option<f64>,
    /// The median of those frames alone that came.
    pub delivered_p50_ms: Option<f64>,
    /// The 99th percentile of those.
    pub delivered_p99_ms: Option<f64>,
    /// The share of bytes that were sent to measure the path.
    pub probing_share: Option<f64>,
    /// What the stack took for the path's rate when each frame was made: seconds from the start of the run,
    /// and bits per second.
    #[serde(skip)]
    pub estimates: Vec<(f64, f64)>,
    /// Every frame that counts: when it was made, seconds from the start of the run, and after how many seconds it
    /// had come whole. None where it never did.
    #[serde(skip)]
    pub frames: Vec<(f64, Option<f64>)>,
    /// The rate of the source at the same times as `estimates`.
    #[serde(skip)]
    pub rates: Vec<(f64, f64)>,
}

/// A stretch of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Bin {
    /// Start, in seconds since the start of the run.
    pub at: f64,
    /// Stream data that arrived for the first time, Mbit/s.
    pub goodput_mbps: f64,
    /// Packets with acknowledgements only that the client sent.
    pub ack_packets: u64,
    /// Packets from the server that ask for an acknowledgement and bring no new data:
    /// retransmissions and probes.
    pub repeated: u64,
    /// Mean one-way delay of data packets that arrived, ms.
    pub owd_ms: Option<f64>,
    /// The sender's estimate of the smallest round-trip time at the end of the bin, ms.
    pub min_rtt_ms: Option<f64>,
    /// How fast the sender's controller sends when the bin begins.
    #[serde(flatten)]
    pub rates: Option<Rates>,
}

/// How fast a controller sends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Rates {
    /// Its estimate of the path's bandwidth, Mbit/s.
    pub bandwidth_mbps: f64,
    /// What it paces at, Mbit/s.
    pub pacing_mbps: f64,
}

impl FlowReport {
    /// The median of each value over several runs, with timeline and frames of the first.
    ///
    /// Of an even number of runs it is the lower of the two in the middle, so that every value
    /// is one that was seen; a value that some runs lack is that of those which have it.
    pub fn median(runs: &[Self]) -> Self {
        let float = |of: &dyn Fn(&Self) -> Option<f64>| {
            lower_median(runs.iter().filter_map(of).collect(), f64::total_cmp)
        };
        let count = |of: &dyn Fn(&Self) -> u64| {
            lower_median(runs.iter().map(of).collect(), u64::cmp).unwrap_or_default()
        };
        let reverse: Vec<Self> =
            runs.iter().filter_map(|run| run.reverse.as_deref().cloned()).collect();
        Self {
            goodput_mbps: float(&|run| Some(run.goodput_mbps)).unwrap_or_default(),
            utilisation: float(&|run| Some(run.utilisation)).unwrap_or_default(),
            seconds: float(&|run| Some(run.seconds)).unwrap_or_default(),
            data_packets: count(&|run| run.data_packets),
            ack_packets: count(&|run| run.ack_packets),
            ack_bytes: count(&|run| run.ack_bytes),
            iacks: count(&|run| run.iacks),
            retransmitted: count(&|run| run.retransmitted),
            spurious: count(&|run| run.spurious),
            lost: count(&|run| run.lost),
            ce_marked: count(&|run| run.ce_marked),
            careful_resume: runs.first().and_then(|run| run.careful_resume),
            ecn_marked: float(&|run| run.ecn_marked.map(|count| count as f64))
                .map(|count| count as u64),
            ce_reported: float(&|run| run.ce_reported.map(|count| count as f64))
                .map(|count| count as u64),
            min_rtt_ms: float(&|run| run.min_rtt_ms),
            owd_p50_ms: float(&|run| run.owd_p50_ms),
            owd_p95_ms: float(&|run| run.owd_p95_ms),
            owd_p99_ms: float(&|run| run.owd_p99_ms),
            expired_packets: count(&|run| run.expired_packets),
            expired_bytes: count(&|run| run.expired_bytes),
            delivered_frames: DeliveredFrames::median(runs),
            rtt_mean_ms: float(&|run| run.rtt_mean_ms),
            rtt_deviation_ms: float(&|run| run.rtt_deviation_ms),
            queue_p95_ms: float(&|run| run.queue_p95_ms),
            queue_p99_ms: float(&|run| run.queue_p99_ms),
            queue_max_ms: float(&|run| run.queue_max_ms),
            queue_p95_bytes: float(&|run| run.queue_p95_bytes),
            queue_max_bytes: float(&|run| run.queue_max_bytes),
            hol_blocked_bytes_p95: float(&|run| run.hol_blocked_bytes_p95),
            completion_ms: Self::median_completion(runs),
            frames: runs.first().and_then(|run| run.frames),
            timeline: runs.first().map(|run| run.timeline.clone()).unwrap_or_default(),
            reverse: (!reverse.is_empty()).then(|| Box::new(Self::median(&reverse))),
        }
    }
}

impl FlowReport {
    /// A transfer that is not complete takes longer than all that are.
    fn median_completion(runs: &[Self]) -> Option<f64> {
        let times = runs.iter().map(|run| run.completion_ms.unwrap_or(f64::INFINITY)).collect();
        lower_median(times, f64::total_cmp).filter(|ms| ms.is_finite())
    }
}

impl DeliveredFrames {
    /// The median of each count over several runs, where all of them have frames; without the frames
    /// themselves.
    fn median(runs: &[FlowReport]) -> Option<Self> {
        let all: Option<Vec<&Self>> =
            runs.iter().map(|run| run.delivered_frames.as_ref()).collect();
        let all = all?;
        let count = |of: &dyn Fn(&Self) -> u64| {
            lower_median(all.iter().map(|run| of(run)).collect(), u64::cmp).unwrap_or_default()
        };
        let float = |of: &dyn Fn(&Self) -> Option<f64>| {
            lower_median(all.iter().filter_map(|run| of(run)).collect(), f64::total_cmp)
        };
        // None is a frame that never came.
        let delay = |of: &dyn Fn(&Self) -> Option<f64>| {
            float(&|run| Some(of(run).unwrap_or(f64::INFINITY))).filter(|ms| ms.is_finite())
        };
        Some(Self {
            made: count(&|run| run.made),
            dropped: count(&|run| run.dropped),
            delivered: count(&|run| run.delivered),
            in_time: count(&|run| run.in_time),
            delay_p50_ms: delay(&|run| run.delay_p50_ms),
            delay_p99_ms: delay(&|run| run.delay_p99_ms),
            delivered_p50_ms: float(&|run| run.delivered_p50_ms),
            delivered_p99_ms: float(&|run| run.delivered_p99_ms),
            probing_share: float(&|run| run.probing_share),
            ..Self::default()
        })
    }
}

/// The lower of the two in the middle where there is an even number.
fn lower_median<T: Copy>(mut values: Vec<T>, order: fn(&T, &T) -> Ordering) -> Option<T> {
    values.sort_by(order);
    values.get(values.len().saturating_sub(1) / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_is_one_of_the_values_and_missing_ones_do_not_count() {
        let run = |goodput_mbps, acks, min_rtt_ms| FlowReport {
            goodput_mbps,
            ack_packets: acks,
            min_rtt_ms,
            ..FlowReport::default()
        };
        let median = FlowReport::median(&[
            run(9.0, 5, None),
            run(1.0, 7, Some(20.0)),
            run(3.0, 1, Some(40.0)),
            run(4.0, 2, Some(30.0)),
        ]);
        assert_eq!(median.goodput_mbps.to_bits(), 3.0_f64.to_bits());
        assert_eq!(median.ack_packets, 2);
        assert_eq!(median.min_rtt_ms, Some(30.0));
        assert_eq!(median.completion_ms, None);
    }

    #[test]
    fn a_transfer_that_was_never_complete_is_the_longest_of_all() {
        let median = |of: &[Option<f64>]| {
            let run = |completion_ms| FlowReport { completion_ms, ..FlowReport::default() };
            FlowReport::median(&of.iter().copied().map(run).collect::<Vec<_>>()).completion_ms
        };
        assert_eq!(median(&[Some(10.0), None, Some(20.0)]), Some(20.0));
        assert_eq!(median(&[Some(10.0), None, None]), None);
    }

    #[test]
    fn a_run_whose_frames_never_came_is_the_latest_of_all() {
        let run = |delay_p99_ms| FlowReport {
            delivered_frames: Some(DeliveredFrames {
                delay_p99_ms,
                ..DeliveredFrames::default()
            }),
            ..FlowReport::default()
        };
        let p99 = |of: &[Option<f64>]| {
            let runs: Vec<_> = of.iter().copied().map(run).collect();
            FlowReport::median(&runs).delivered_frames.unwrap().delay_p99_ms
        };
        assert_eq!(p99(&[None, Some(10.0), Some(20.0)]), Some(20.0));
        assert_eq!(p99(&[None, None, Some(20.0)]), None);
    }

    #[test]
    fn the_other_direction_has_fields_of_its_own_and_medians() {
        let run = |down: f64, up: f64| FlowReport {
            goodput_mbps: down,
            reverse: Some(Box::new(FlowReport { goodput_mbps: up, ..FlowReport::default() })),
            ..FlowReport::default()
        };
        let median = FlowReport::median(&[run(9.0, 1.0), run(8.0, 3.0), run(7.0, 2.0)]);
        let json = serde_json::to_value(&median).unwrap();
        assert_eq!(
            (&json["goodput_mbps"], &json["reverse_goodput_mbps"]),
            (&8.0.into(), &2.0.into())
        );
        let one_way = serde_json::to_value(FlowReport::default()).unwrap();
        assert!(one_way.get("reverse_goodput_mbps").is_none(), "{one_way}");
    }
}
