//! The layer's qlog events: `docs/qlog.md` describes them.
//!
//! The layer notes what happens, and [`Connection`](crate::Connection) passes the notes on to quiche's
//! qlog streamer. While nothing is logged, nothing is noted and nothing allocated.

use std::time::Duration;

use serde::Serialize;
use tack_proto::bandwidth::Bandwidth;
use tack_proto::frame::{AckFrequency, AckRanges, Frame, IackEvent};
use tack_proto::receiver::Receiver;
use tack_proto::sender::{Phase, Sender};

/// Notes of what happened since they were last taken.
#[derive(Debug, Default)]
pub struct EventNotes {
    /// `None` while nothing is logged.
    events: Option<Vec<Event>>,
    phase: Option<Phase>,
    tolerance: Option<(u64, Duration)>,
    packet_threshold: Option<u64>,
}

/// Which way a frame went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// To the peer.
    Sent,
    /// From the peer.
    Received,
}

/// A record of the qlog file.
#[derive(Debug, Serialize)]
pub struct Event {
    /// Milliseconds since the log began; quiche's streamer sets it.
    pub time: f64,
    name: &'static str,
    data: Data,
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Data {
    Tack {
        packet_number: u64,
        sequence: u64,
        #[serde(flatten)]
        ranges: Ranges,
        received_bytes: u64,
        #[serde(skip_serializing_if = "Option::is_none")]
        departure: Option<u64>,
        #[serde(skip_serializing_if = "Option::is_none")]
        hold_delay: Option<f64>,
        #[serde(skip_serializing_if = "Option::is_none")]
        delivery_rate: Option<u64>,
        #[serde(skip_serializing_if = "Option::is_none")]
        loss_rate: Option<f64>,
    },
    Iack {
        packet_number: u64,
        trigger: &'static str,
        #[serde(flatten)]
        ranges: Ranges,
        received_bytes: u64,
    },
    AckFrequency {
        packet_number: u64,
        sequence: u64,
        ack_eliciting_threshold: u64,
        requested_max_ack_delay: f64,
        reordering_threshold: u64,
    },
    ImmediateAck {
        packet_number: u64,
    },
    Controller {
        #[serde(skip_serializing_if = "Option::is_none")]
        old: Option<&'static str>,
        new: &'static str,
        bandwidth: u64,
        pacing_rate: u64,
        #[serde(skip_serializing_if = "Option::is_none")]
        min_rtt: Option<f64>,
        bytes_in_flight: u64,
    },
    SettlingTime {
        packets: u64,
        time: f64,
    },
    PacketThreshold {
        packets: u64,
    },
}

/// What a TACK or an IACK acknowledges.
#[derive(Debug, Serialize)]
struct Ranges {
    ack_delay: f64,
    /// Lowest and highest number of each, newest first, as qlog's `acked_ranges`.
    acked_ranges: Vec<[u64; 2]>,
}

impl EventNotes {
    /// Begins or ends taking notes.
    #[inline]
    pub fn set_enabled(&mut self, enabled: bool) {
        if enabled != self.events.is_some() {
            *self = Self { events: enabled.then(Vec::new), ..Self::default() };
        }
    }

    /// Whether notes are taken.
    pub fn is_enabled(&self) -> bool {
        self.events.is_some()
    }

    /// A frame in packet `pn`; those that quiche knows are in its own events.
    pub fn on_frame(&mut self, direction: Direction, pn: u64, frame: &Frame<'_>) {
        let Some(events) = &mut self.events else { return };
        let pick = |sent, received| if direction == Direction::Sent { sent } else { received };
        let (name, data) = match frame {
            Frame::Tack(tack) => (
                pick("tack:tack_sent", "tack:tack_received"),
                Data::Tack {
                    packet_number: pn,
                    sequence: tack.sequence,
                    ranges: Ranges::new(&tack.ranges, tack.ack_delay_us),
                    received_bytes: tack.received_bytes,
                    departure: tack.timing.map(|timing| timing.departure),
                    hold_delay: tack.timing.map(|timing| micros(timing.hold_us)),
                    delivery_rate: tack.rate.map(|rate| bits(rate.delivery_rate)),
                    loss_rate: tack.rate.map(|rate| f64::from(rate.loss_rate) / 65536.0),
                },
            ),
            Frame::Iack(iack) => (
                pick("tack:iack_sent", "tack:iack_received"),
                Data::Iack {
                    packet_number: pn,
                    trigger: trigger(iack.event),
                    ranges: Ranges::new(&iack.ranges, iack.ack_delay_us),
                    received_bytes: iack.received_bytes,
                },
            ),
            Frame::AckFrequency(update) => (
                pick("tack:ack_frequency_sent", "tack:ack_frequency_received"),
                ack_frequency(pn, update),
            ),
            Frame::ImmediateAck => (
                pick("tack:immediate_ack_sent", "tack:immediate_ack_received"),
                Data::ImmediateAck { packet_number: pn },
            ),
            _ => return,
        };
        events.push(Event { time: 0.0, name, data });
    }

    /// Notes what has changed in the states of sender and receiver.
    pub fn on_state(&mut self, sender: &Sender, receiver: &Receiver) {
        let Some(events) = &mut self.events else { return };
        let mut note = |name, data| events.push(Event { time: 0.0, name, data });
        let phase = sender.phase();
        if self.phase != Some(phase) {
            let data = Data::Controller {
                old: self.phase.replace(phase).map(phase_name),
                new: phase_name(phase),
                bandwidth: rate(sender.bandwidth()),
                pacing_rate: rate(sender.pacing_rate()),
                min_rtt: sender.min_rtt().map(millis),
                bytes_in_flight: sender.in_flight(),
            };
            note("tack:controller_state_updated", data);
        }
        let tolerance = (receiver.tolerance().packets(), receiver.tolerance().time());
        if self.tolerance.replace(tolerance) != Some(tolerance) {
            let (packets, time) = tolerance;
            note(
                "tack:settling_time_updated",
                Data::SettlingTime { packets, time: millis(time) },
            );
        }
        let packets = sender.packet_threshold();
        if self.packet_threshold.replace(packets) != Some(packets) {
            note("tack:packet_threshold_updated", Data::PacketThreshold { packets });
        }
    }

    /// What was noted, oldest first; it is forgotten here.
    pub fn take(&mut self) -> impl Iterator<Item = Event> + '_ {
        self.events.iter_mut().flat_map(|events| events.drain(..))
    }
}

impl Ranges {
    fn new(ranges: &AckRanges<'_>, ack_delay_us: u64) -> Self {
        let acked_ranges = ranges.iter().map(|range| [*range.start(), *range.end()]).collect();
        Self { ack_delay: micros(ack_delay_us), acked_ranges }
    }
}

fn ack_frequency(packet_number: u64, update: &AckFrequency) -> Data {
    Data::AckFrequency {
        packet_number,
        sequence: update.sequence,
        ack_eliciting_threshold: update.ack_eliciting_threshold,
        requested_max_ack_delay: micros(update.requested_max_ack_delay_us),
        reordering_threshold: update.reordering_threshold,
    }
}

fn trigger(event: IackEvent) -> &'static str {
    match event {
        IackEvent::Loss => "loss",
        IackEvent::Window => "window",
        IackEvent::Reply => "immediate_ack",
        _ => "other",
    }
}

fn phase_name(phase: Phase) -> &'static str {
    match phase {
        Phase::Startup => "startup",
        Phase::Drain => "drain",
        Phase::ProbeBw => "probe_bw",
        Phase::ProbeRtt => "probe_rtt",
    }
}

fn millis(time: Duration) -> f64 {
    time.as_micros() as f64 / 1000.0
}

fn micros(time: u64) -> f64 {
    time as f64 / 1000.0
}

fn rate(bandwidth: Bandwidth) -> u64 {
    bits(bandwidth.bytes_per_second())
}

/// qlog counts rates in bits per second.
fn bits(bytes: u64) -> u64 {
    bytes.saturating_mul(8)
}

#[cfg(feature = "qlog")]
impl ::qlog::events::Eventable for Event {
    fn importance(&self) -> ::qlog::events::EventImportance {
        ::qlog::events::EventImportance::Base
    }

    fn set_time(&mut self, time: f64) {
        self.time = time;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_noted_or_allocated_while_nothing_is_logged() {
        let mut journal = EventNotes::default();
        journal.on_frame(Direction::Sent, 0, &Frame::ImmediateAck);
        assert_eq!(journal.take().count(), 0);
        journal.set_enabled(true);
        journal.on_frame(Direction::Sent, 0, &Frame::ImmediateAck);
        journal.on_frame(Direction::Sent, 0, &Frame::Ping);
        assert_eq!(journal.take().count(), 1);
        journal.set_enabled(false);
        assert!(journal.events.is_none());
    }
}
