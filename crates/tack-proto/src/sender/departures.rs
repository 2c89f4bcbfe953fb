//! What leaves for the receiver: each packet is recorded, marked and paced, as [`acknowledgements`](super::acknowledgements)
//! has what arrives in return.

use std::time::Instant;

use super::light_load::Load;
use super::sent_packets::{FlightId, Leaving, Pace};
use super::{Deviation, PathId, Peer, Sender};
use crate::ecn::{Ecn, EcnCodepoint};
use crate::frame::AckFrequency;

/// The flight of packets that leave on a path which data never went over, and of probes of the path MTU: what
/// becomes of them yields no sample.
const NO_FLIGHT: FlightId = FlightId(u32::MAX);

/// A packet that leaves.
#[derive(Clone, Copy, Debug)]
pub struct Departure {
    /// Packet number.
    pub packet_number: u64,
    /// Size on the wire, bytes.
    pub bytes: usize,
    /// Whether it elicits acknowledgements (RFC 9000 section 13.2).
    pub ack_eliciting: bool,
    /// The path that it leaves on; `None`: the one that data goes over.
    pub path: Option<PathId>,
    /// Whether all its frames are probing ones (RFC 9000 section 9.1): it says
    /// nothing of the rate that the path carries.
    pub is_probe: bool,
    /// Whether it is longer than the path is known to take: a probe of the path MTU, whose loss says nothing
    /// of congestion (RFC 9000 section 14.4).
    pub is_mtu_probe: bool,
    /// The ACK_FREQUENCY that it carries.
    pub update: Option<AckFrequency>,
    /// Whether it carries a TIMESTAMP.
    pub has_timestamp: bool,
}

impl Sender {
    /// A packet has been written. Returns the ECN codepoint that it is to leave with.
    pub fn on_packet_sent(&mut self, now: Instant, departure: &Departure) -> EcnCodepoint {
        let Departure { packet_number, bytes, ack_eliciting, is_probe, .. } = *departure;
        // TACK-6.5-11
        let flight =
            if departure.is_mtu_probe { NO_FLIGHT } else { self.flight_of(departure.path) };
        let pace = self.path.bbr.pace(now);
        let ecn = if self.config.ecn == Ecn::Off || flight != self.path.flight {
            EcnCodepoint::NotEct
        } else {
            self.mark(now, ack_eliciting)
        };
        let is_marked = ecn != EcnCodepoint::NotEct;
        let leaving =
            Leaving { packet_number, bytes, ack_eliciting, flight, is_probe, pace, is_marked };
        if ack_eliciting && flight == self.path.flight {
            // What may leave at once behind a pause is so much at the rate of the train.
            self.follow_train(now, packet_number, bytes);
        }
        if ack_eliciting && self.sent.restarts_from_idle() {
            self.path.bbr.on_restart_from_idle();
            // TACK-6.4-4: the silence before was the application's.
            self.path.last_feedback = now;
            let window = self.path.restart.packets() * self.config.mss;
            self.path.pacer.on_restart_from_idle(now, window);
            if self.config.bbr.deviations.has(Deviation::ShortBursts) {
                self.path.restart.begin(now, packet_number);
            }
        }
        self.sent.on_sent(now, leaving);
        self.trap.on_first_sent(packet_number, self.window());
        if ack_eliciting {
            self.sent_bytes += bytes as u64;
            if self.last_payload != Some(packet_number) {
                self.streams.on_unseen(self.sent_bytes);
            }
            if flight == self.path.flight {
                self.path.careful_resume.on_sent(packet_number, bytes as u64, self.config.mss);
                if self.begins_train(now) {
                    self.path.trains.on_head(now);
                }
                self.on_data_sent(now, bytes);
                self.path.restart.on_sent(now, packet_number);
                if self.config.packet_trains {
                    let stamped = departure.has_timestamp;
                    self.path.trains.on_sent(now, packet_number, self.sent_bytes, stamped);
                    self.follow_load(now, bytes);
                }
            }
        }
        if let (Some(update), Some(frequency)) = (&departure.update, self.frequency.as_mut()) {
            frequency.on_sent(update, packet_number);
            self.stats.frequency_updates += 1;
            self.recompute();
        }
        ecn
    }

    /// The codepoint of a packet for the path that data goes over.
    fn mark(&mut self, now: Instant, ack_eliciting: bool) -> EcnCodepoint {
        let ecn = self.path.ecn.on_sent(now, ack_eliciting, self.probe_timeout());
        self.marks.on_sent(ecn);
        self.stats.marked_packets += u64::from(ecn != EcnCodepoint::NotEct);
        ecn
    }

    /// A packet left before there was anything to record it, with early data or an answer to that. It was not
    /// marked.
    pub fn on_early_packet_sent(&mut self, at: Instant, packet_number: u64, bytes: usize) {
        let leaving = Leaving {
            packet_number,
            bytes,
            ack_eliciting: true,
            flight: self.path.flight,
            is_probe: false,
            pace: Pace::default(),
            is_marked: false,
        };
        self.sent.on_sent(at, leaving);
        self.sent_bytes += bytes as u64;
        self.streams.on_unseen(self.sent_bytes);
        self.path.careful_resume.on_sent(packet_number, bytes as u64, self.config.mss);
        self.follow_train(at, packet_number, bytes);
        self.on_data_sent(at, bytes);
    }

    /// A packet of data leaves: it may begin or end a train of Startup (TACK-6.2-14).
    fn follow_train(&mut self, now: Instant, packet_number: u64, bytes: usize) {
        let path = self.limits.path;
        if self.path.bbr.on_packet_sent(now, (packet_number, bytes as u64), &path) {
            self.restart_pacer(now);
            self.recompute();
        }
    }

    /// TACK-5.1-10
    fn follow_load(&mut self, now: Instant, bytes: usize) {
        let interval = self.config.light_load_ack_interval;
        if !self.config.has_light_loads()
            || !matches!(self.config.peer, Some(Peer::Tack { .. }))
        {
            return;
        }
        let mut light_load = self.path.light_load;
        let has_changed = light_load.on_sent(now, bytes as u64, || Load {
            capacity: self.measured_by_trains(now),
            longest_pause: self.least_probe_timeout() * 2 / 3,
            interval,
            ack_loss: self.ack_loss.recent(),
        });
        self.path.light_load = light_load;
        if has_changed {
            self.recompute();
        }
    }

    fn on_data_sent(&mut self, now: Instant, bytes: usize) {
        self.path.pacer.on_sent(now, bytes);
        self.repairs = self.repairs.saturating_sub(1);
        let is_time = self.limits.next_change.is_some_and(|at| at <= now);
        if is_time && self.path.bbr.on_time(now, &self.limits.path) {
            let rate = self.wanted_rate(&self.limits.path);
            self.path.pacer.set_rate(now, rate);
            self.recompute();
        }
    }

    fn flight_of(&self, path: Option<PathId>) -> FlightId {
        match path {
            Some(path) if path != self.path.id => self.left.flight(path).unwrap_or(NO_FLIGHT),
            _ => self.path.flight,
        }
    }

    /// Whether the next packet number should be skipped. The packet that the QUIC
    /// stack writes under it must carry nothing that has to arrive, and must not
    /// leave.
    pub fn wants_skip(&self) -> bool {
        self.trap.wants_skip(self.sent.next_packet_number())
    }

    /// A packet number was used for a packet that does not leave. `random` are 64
    /// random bits that the peer cannot know.
    pub fn on_packet_skipped(&mut self, now: Instant, packet_number: u64, random: u64) {
        self.sent.on_withheld(now, packet_number);
        self.trap.on_skipped(packet_number, random, self.window());
        self.stats.skipped_packets += 1;
    }
}
