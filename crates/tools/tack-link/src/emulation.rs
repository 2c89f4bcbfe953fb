//! The UDP tool of the paper (sections III-B and VII-C) on the modelled medium: one end sends
//! full-size packets as fast as it can, the other counts them and answers with small ones.
//!
//! Nothing reacts to anything here: no window, no congestion control, no retransmission above
//! the MAC. What is left is what acknowledgements cost on the air.
//!
//! - Data packets are 1500 bytes at the IP level (1518 in the paper, which counts Ethernet), of
//!   which 1472 bytes are UDP payload. Goodput counts the payload that arrives at the far end.
//! - The receiver sends an acknowledgement at the very moment when the packet arrives that is due
//!   one, so those for the MPDUs of one A-MPDU are queued together.
//! - Acknowledgements wait in a drop-tail queue for 500 of them, as many as drivers have room for.
//!   It overflows if they are not aggregated and the data is; else hardly ever.
//! - The first second is simulated and not counted; `duration` comes after it.

use std::time::Duration;

use serde::Serialize;

use crate::parameter::number;
use crate::wlan::{FULL_PAYLOAD_BYTES, Load, Parameters, Statistics, Wlan, WlanConfig};
use crate::{Direction, Link, Losses, Packet, ParameterError, Time};

const WARM_UP: Duration = Duration::from_secs(1);
const ACK_QUEUE_PACKETS: u64 = 500;
const LONGEST_DURATION: Duration = Duration::from_secs(3_600);

/// When the receiver acknowledges.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Acks {
    /// Never: the "UDP baseline" of the paper.
    None,
    /// Each time when this many packets have arrived (L); at least 1.
    EveryN(u32),
    /// This many times per second, at even intervals, whatever has arrived; more than 0.
    Hz(f64),
}

/// A run of the tool.
#[derive(Clone, Debug, PartialEq)]
pub struct Emulation {
    /// Physical layer and MAC; also whether acknowledgements are aggregated.
    pub parameters: Parameters,
    /// When the receiver acknowledges.
    pub acks: Acks,
    /// Size of an acknowledgement as an IP packet, 28 to 1500 bytes.
    pub ack_bytes: u32,
    /// Whether the station sends the data and the access point acknowledges.
    pub uplink: bool,
    /// 1, or 2 for station to station through the access point.
    pub hops: u32,
    /// Other stations that send packets of 1500 bytes to the access point.
    pub background: u32,
    /// How much each of them sends.
    pub background_load: Load,
    /// How much data is sent, in Mbit/s of UDP payload; `None`: there is always more.
    pub offered_mbps: Option<f64>,
    /// How long to count; up to an hour.
    pub duration: Duration,
    /// Decides everything that is left to chance.
    pub seed: u64,
}

/// What came out of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// UDP payload that arrived at the receiver.
    pub goodput_mbps: f64,
    /// Acknowledgements that arrived at the sender, all their `ack_bytes` at the IP level.
    pub ack_goodput_mbps: f64,
    /// The same as a number of packets.
    pub acks_hz: f64,
    /// Transmissions of data that no response came to, of all of them. Block-ACK requests are
    /// not counted, neither here nor below.
    pub data_failure_rate: f64,
    /// Transmissions of acknowledgements that no response came to, of all of them.
    pub ack_failure_rate: f64,
    /// How often a station of the two ends that went on the air, with whatever, met others there.
    pub collision_rate: f64,
    /// MPDUs in a transmission of data, on average.
    pub ampdu_mean: f64,
    /// MPDUs in a transmission of acknowledgements, on average.
    pub ack_ampdu_mean: f64,
    /// Share of the time that data was on the air.
    pub data_airtime: f64,
    /// Share of the time that acknowledgements were on the air.
    pub ack_airtime: f64,
    /// Acknowledgements that found a queue full, warm-up included.
    pub acks_dropped: u64,
}

impl Emulation {
    /// A saturated sender at the access point, no acknowledgements, ten seconds.
    pub const fn new(parameters: Parameters) -> Self {
        Self {
            parameters,
            acks: Acks::None,
            ack_bytes: 64,
            uplink: false,
            hops: 1,
            background: 0,
            background_load: Load::Saturated,
            offered_mbps: None,
            duration: Duration::from_secs(10),
            seed: 1,
        }
    }

    /// Runs it.
    ///
    /// Fails if a field is out of its range.
    pub fn run(&self) -> Result<Report, ParameterError> {
        let mut run = Run::new(self)?;
        run.until(Time::ZERO + WARM_UP);
        let before = run.counts();
        run.until(Time::ZERO + WARM_UP + self.duration);
        Ok(self.report(before, run.counts()))
    }

    fn check(&self) -> Result<(), ParameterError> {
        number("ack_bytes", self.ack_bytes.into(), 28.0..=1500.0, "bytes")?;
        match self.acks {
            Acks::None => {}
            Acks::EveryN(n) => {
                number("ack_every", n.into(), 1.0..=1e9, "packets")?;
            }
            Acks::Hz(hz) => {
                number("ack_hz", hz, 0.001..=1e6, "per second")?;
            }
        }
        if self.duration.is_zero() || self.duration > LONGEST_DURATION {
            let duration = format!("{:?}", self.duration);
            return Err(ParameterError::new("duration", duration, "above 0, up to an hour"));
        }
        Ok(())
    }

    fn wlan(&self) -> Result<Wlan, ParameterError> {
        let config = WlanConfig {
            uplink: self.uplink,
            hops: self.hops,
            background: self.background,
            background_load: self.background_load,
            reverse_queue_bytes: ACK_QUEUE_PACKETS * u64::from(self.ack_bytes),
            ..WlanConfig::new(self.parameters.clone())
        };
        let load = self.offered_mbps.map_or(Load::Saturated, Load::Mbps);
        load.check("offered_mbps")?;
        Wlan::with_own_traffic(&config, Some(load), self.seed)
    }

    fn report(&self, before: Counts, after: Counts) -> Report {
        let seconds = self.duration.as_secs_f64();
        let packets = (after.packets - before.packets) as f64;
        let acks = (after.acks - before.acks) as f64;
        let data_air = after.data - before.data;
        let ack_air = after.ack - before.ack;
        Report {
            goodput_mbps: packets * f64::from(8 * FULL_PAYLOAD_BYTES) / seconds / 1e6,
            ack_goodput_mbps: acks * f64::from(8 * self.ack_bytes) / seconds / 1e6,
            acks_hz: acks / seconds,
            data_failure_rate: data_air.failure_rate(),
            ack_failure_rate: ack_air.failure_rate(),
            collision_rate: (data_air + ack_air).collision_rate(),
            ampdu_mean: data_air.ampdu_mean(),
            ack_ampdu_mean: ack_air.ampdu_mean(),
            data_airtime: data_air.airtime_ns as f64 / 1e9 / seconds,
            ack_airtime: ack_air.airtime_ns as f64 / 1e9 / seconds,
            acks_dropped: after.ack_losses.queue,
        }
    }
}

/// The receiver, and the link that it sits at.
struct Run {
    wlan: Wlan,
    acks: Acks,
    ack_bytes: u32,
    /// Packets since the last acknowledgement.
    uncounted: u32,
    /// Acknowledgements sent on time.
    ticks: u64,
    packets_arrived: u64,
    acks_arrived: u64,
}

/// The state of everything that is counted.
#[derive(Clone, Copy)]
struct Counts {
    packets: u64,
    acks: u64,
    data: Statistics,
    ack: Statistics,
    ack_losses: Losses,
}

impl Run {
    fn new(emulation: &Emulation) -> Result<Self, ParameterError> {
        emulation.check()?;
        Ok(Self {
            wlan: emulation.wlan()?,
            acks: emulation.acks,
            ack_bytes: emulation.ack_bytes,
            uncounted: 0,
            ticks: 0,
            packets_arrived: 0,
            acks_arrived: 0,
        })
    }

    fn until(&mut self, end: Time) {
        loop {
            let event = self.wlan.next_event();
            let tick = self.next_tick();
            let Some(now) = event.into_iter().chain(tick).min().filter(|now| *now <= end)
            else {
                return;
            };
            while let Some(arrival) = self.wlan.arrival(now) {
                match arrival.direction {
                    Direction::Forward => self.data_arrived(arrival.at),
                    Direction::Reverse => self.acks_arrived += 1,
                }
            }
            if tick == Some(now) {
                self.ticks += 1;
                self.acknowledge(now);
            }
        }
    }

    fn data_arrived(&mut self, now: Time) {
        self.packets_arrived += 1;
        self.uncounted += 1;
        if matches!(self.acks, Acks::EveryN(n) if self.uncounted >= n) {
            self.uncounted = 0;
            self.acknowledge(now);
        }
    }

    fn acknowledge(&mut self, now: Time) {
        let ack = Packet::new(self.ack_bytes, 0, now, Vec::new());
        self.wlan.send(Direction::Reverse, ack, now);
    }

    fn next_tick(&self) -> Option<Time> {
        let Acks::Hz(hz) = self.acks else { return None };
        Some(Time::from_nanos(((self.ticks + 1) as f64 * 1e9 / hz) as u64))
    }

    fn counts(&self) -> Counts {
        Counts {
            packets: self.packets_arrived,
            acks: self.acks_arrived,
            data: self.wlan.statistics(Direction::Forward),
            ack: self.wlan.statistics(Direction::Reverse),
            ack_losses: self.wlan.losses(Direction::Reverse),
        }
    }
}
