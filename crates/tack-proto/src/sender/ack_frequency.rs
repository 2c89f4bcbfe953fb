//! How often the receiver should acknowledge: equation (4) of the paper,
//! advertised in ACK_FREQUENCY frames.
//!
//! ```text
//! f_tack = min( bw / (L * MSS), beta / RTTmin )
//! ```

use std::time::Duration;

use crate::bandwidth::Bandwidth;
use crate::frame::AckFrequency;
use crate::loss_detection::PACKET_THRESHOLD;

/// Shortest TACK interval. Below it the timers of operating systems decide,
/// and on such short paths nothing is gained by acknowledging more often.
pub const SHORTEST_INTERVAL: Duration = Duration::from_millis(1);

/// What the peer does with ACK_FREQUENCY.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// Follows TACK's rule.
    Tack {
        /// Its `min_ack_delay` transport parameter.
        min_ack_delay: Duration,
        /// Its `max_ack_delay`, which it holds fewer than L packets for.
        max_ack_delay: Duration,
    },
    /// Follows the draft: *more than* a threshold of packets, or a delay.
    Stock {
        /// Its `min_ack_delay` transport parameter.
        min_ack_delay: Duration,
        /// Its `max_ack_delay`: asking for more would spoil its peer's timers.
        max_ack_delay: Duration,
    },
}

impl Peer {
    /// Its `min_ack_delay`: it can be asked for no shorter delay (TACK-8-1).
    pub fn min_ack_delay(self) -> Duration {
        match self {
            Self::Tack { min_ack_delay, .. } | Self::Stock { min_ack_delay, .. } => {
                min_ack_delay
            }
        }
    }
}

/// beta in Startup, where the rate doubles within a round trip: an acknowledgement held for a
/// sixteenth of it delays that by a thirty-second.
const STARTUP_PER_ROUND_TRIP: f64 = 16.0;

/// L in Startup, as RFC 9000 section 13.2.2 recommends it.
const STARTUP_PACKETS: u64 = 2;

/// L under a light load: the few packets of a frame are not to be acknowledged before the interval is over.
const LIGHT_LOAD_PACKETS: u64 = 2;

/// The parameters of equation (4).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Frequency {
    /// L, full-sized packets for an acknowledgement.
    pub packets: u64,
    /// beta, acknowledgements for a round trip.
    pub per_round_trip: f64,
    /// No interval is shorter. An acknowledgement takes the same time on the air however short
    /// the path is: on 802.11n a hundred a second take 2 % of the link.
    pub shortest_interval: Duration,
    /// Paths shorter than this are acknowledged once for a round trip, and longer ones no more
    /// often than this: beta spares the long paths, and it is the short ones whose
    /// acknowledgements are many.
    pub short_path_interval: Duration,
    /// No interval is longer.
    pub longest_interval: Duration,
}

impl Frequency {
    /// The time between two acknowledgements: alpha, or what L packets take, which the peer waits
    /// for no longer than its `max_ack_delay` (TACK-4.2-3).
    pub fn expected_interval(
        &self,
        bandwidth: Bandwidth,
        min_rtt: Duration,
        mss: u64,
        max_ack_delay: Duration,
    ) -> Duration {
        let counted = bandwidth.time_for(self.packets * mss).min(max_ack_delay);
        self.interval(min_rtt).max(counted)
    }

    /// alpha = RTTmin / beta, the TACK interval (TACK-5.1-1).
    pub fn interval(&self, min_rtt: Duration) -> Duration {
        let alpha = min_rtt.div_f64(self.per_round_trip.max(0.01));
        let shortest = self.shortest_interval.max(SHORTEST_INTERVAL);
        alpha
            .max(self.short_path_interval.min(min_rtt))
            .max(shortest)
            .min(self.longest_interval.max(SHORTEST_INTERVAL))
    }

    /// The parameters of Startup.
    pub(super) fn of_startup(self) -> Self {
        Self {
            packets: STARTUP_PACKETS.min(self.packets),
            per_round_trip: STARTUP_PER_ROUND_TRIP.max(self.per_round_trip),
            shortest_interval: SHORTEST_INTERVAL,
            short_path_interval: Duration::ZERO,
            ..self
        }
    }

    /// The parameters where acknowledgements fill their own path: one for each such interval, for however few packets
    /// (TACK-5.1-9).
    pub(super) fn spaced(self, interval: Duration) -> Self {
        let longest_interval = self.longest_interval.max(interval);
        Self { packets: 1, shortest_interval: interval, longest_interval, ..self }
    }

    /// The parameters under a light load: one acknowledgement for each such interval, and a lone packet is held for no
    /// longer than usual (TACK-5.1-10).
    pub(super) fn light(self, interval: Duration) -> Self {
        Self { packets: LIGHT_LOAD_PACKETS.min(self.packets), ..self.spaced(interval) }
    }

    /// f_tack in hertz.
    pub fn hertz(&self, bandwidth: Bandwidth, min_rtt: Duration, mss: u64) -> f64 {
        let counting =
            bandwidth.bytes_per_second() as f64 / (self.packets.max(1) * mss.max(1)) as f64;
        counting.min(1.0 / self.interval(min_rtt).as_secs_f64())
    }
}

/// Decides when to advertise a new frequency. What was lost is written anew (TACK-3-2).
#[derive(Debug)]
pub struct AckFrequencySender {
    peer: Peer,
    /// Packets of a slow start share acknowledgements (TACK-5.1-3).
    spaces_start: bool,
    next_sequence: u64,
    /// The values of the last update.
    advertised: Option<Wanted>,
    /// Reordering Threshold of a stock peer: what it should be, and what was last sent.
    reordering: u64,
    advertised_reordering: u64,
    /// Packet that carried it, until it is acknowledged.
    unconfirmed: Option<u64>,
    /// That packet was lost: whatever is wanted now is sent, even if it is what a
    /// connection begins with (TACK-5.1-6).
    was_lost: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Wanted {
    threshold: u64,
    delay: Duration,
    /// The sender's part of equation (5), for TACK peers.
    unreported: u64,
}

/// Between TACK peers a delay of zero stands for every packet (TACK-5.1-2).
const EVERY_PACKET: Wanted = Wanted { threshold: 0, delay: Duration::ZERO, unreported: 0 };

impl AckFrequencySender {
    /// Nothing has been advertised yet.
    pub fn new(peer: Peer) -> Self {
        Self {
            peer,
            spaces_start: false,
            next_sequence: 0,
            advertised: None,
            reordering: PACKET_THRESHOLD,
            advertised_reordering: PACKET_THRESHOLD,
            unconfirmed: None,
            was_lost: false,
        }
    }

    /// The same for a source with a light load (TACK-5.1-10): where a TACK peer would acknowledge every packet of a start
    /// that is slow, the packets of a burst share an acknowledgement.
    pub fn with_spaced_start(self, spaces_start: bool) -> Self {
        Self { spaces_start, ..self }
    }

    /// Sets the Reordering Threshold: the distance at which packets are taken
    /// for lost (section 9 of the draft).
    pub fn set_reordering_threshold(&mut self, packets: u64) {
        self.reordering = packets;
    }

    /// The frame to send now, if any. `startup` asks for every packet (every second one of a
    /// stock peer) until sixteen acknowledgements for a round trip are fewer. `unreported` is
    /// for a TACK peer.
    pub fn next_frame(
        &self,
        frequency: &Frequency,
        startup: bool,
        bandwidth: Bandwidth,
        min_rtt: Duration,
        mss: u64,
        unreported: u64,
    ) -> Option<AckFrequency> {
        let mut wanted = self.wanted(frequency, startup, bandwidth, min_rtt, mss);
        if matches!(self.peer, Peer::Tack { .. }) {
            wanted.unreported = unreported;
        }
        match self.advertised {
            _ if self.was_lost => {}
            // TACK-5.1-3: a TACK peer begins with every packet by itself.
            None if wanted == EVERY_PACKET => return None,
            Some(last) if !differs(last, wanted) && !self.reordering_changed() => return None,
            _ => {}
        }
        Some(AckFrequency {
            sequence: self.next_sequence,
            ack_eliciting_threshold: wanted.threshold,
            requested_max_ack_delay_us: wanted.delay.as_micros() as u64,
            reordering_threshold: match self.peer {
                Peer::Tack { .. } => wanted.unreported,
                Peer::Stock { .. } => self.reordering,
            },
        })
    }

    /// The frame has left in packet `pn`.
    pub fn on_sent(&mut self, frame: &AckFrequency, pn: u64) {
        self.next_sequence = frame.sequence + 1;
        self.advertised_reordering = frame.reordering_threshold;
        self.advertised = Some(Wanted {
            threshold: frame.ack_eliciting_threshold,
            delay: Duration::from_micros(frame.requested_max_ack_delay_us),
            unreported: match self.peer {
                Peer::Tack { .. } => frame.reordering_threshold,
                Peer::Stock { .. } => 0,
            },
        });
        self.unconfirmed = Some(pn);
        self.was_lost = false;
    }

    fn reordering_changed(&self) -> bool {
        matches!(self.peer, Peer::Stock { .. }) && self.reordering != self.advertised_reordering
    }

    /// Learns the fate of the packet that carried the last frame.
    ///
    /// `was_delivered` asks the record of sent packets: `None` while a packet is neither acknowledged nor lost.
    pub fn on_acknowledgement(&mut self, was_delivered: impl Fn(u64) -> Option<bool>) {
        let Some(pn) = self.unconfirmed else { return };
        match was_delivered(pn) {
            None => {}
            Some(true) => self.unconfirmed = None,
            Some(false) => {
                self.unconfirmed = None;
                self.was_lost = true;
            }
        }
    }

    /// Whether the last update said that packets go unreported: then the peer lists bubbles.
    pub fn asks_for_bubbles(&self) -> bool {
        self.advertised.is_some_and(|last| last.unreported > 0)
    }

    /// How long the peer may hold the acknowledgement of a lone packet; `None` if it
    /// acknowledges every packet.
    pub fn hold(&self) -> Option<Duration> {
        match (self.peer, self.advertised) {
            (Peer::Tack { max_ack_delay, .. }, last) => {
                let last = last.filter(|last| !last.delay.is_zero())?;
                Some(if last.threshold == 0 { last.delay } else { max_ack_delay })
            }
            (Peer::Stock { .. }, Some(last)) => (last.threshold > 0).then_some(last.delay),
            (Peer::Stock { max_ack_delay, .. }, None) => Some(max_ack_delay),
        }
    }

    fn wanted(
        &self,
        frequency: &Frequency,
        startup: bool,
        bandwidth: Bandwidth,
        min_rtt: Duration,
        mss: u64,
    ) -> Wanted {
        let frequency = if startup { frequency.of_startup() } else { *frequency };
        let alpha = frequency.interval(min_rtt);
        // TACK-5.1-3
        let is_slow_start = startup && alpha < bandwidth.time_for(frequency.packets * mss);
        match self.peer {
            Peer::Tack { .. }
                if is_slow_start && !(self.spaces_start && alpha > SHORTEST_INTERVAL) =>
            {
                EVERY_PACKET
            }
            Peer::Tack { min_ack_delay, .. } => Wanted {
                threshold: if is_slow_start { 0 } else { frequency.packets.saturating_sub(1) },
                delay: alpha.max(min_ack_delay),
                unreported: 0,
            },
            Peer::Stock { min_ack_delay, max_ack_delay } => {
                let delay = alpha.min(max_ack_delay).max(min_ack_delay);
                // TACK-8-1: the draft takes whichever comes first, TACK what comes last:
                // a threshold worth alpha's packets makes the two meet.
                let per_interval = bandwidth.bytes_in(delay) / mss.max(1);
                let packets = per_interval.max(frequency.packets);
                Wanted { threshold: packets.saturating_sub(1), delay, unreported: 0 }
            }
        }
    }
}

/// Section VI-C: update when the frequency has doubled or halved.
fn differs(last: Wanted, wanted: Wanted) -> bool {
    let far = |a: f64, b: f64| a >= 2.0 * b || b >= 2.0 * a;
    let (a, b) = (last.delay.as_secs_f64(), wanted.delay.as_secs_f64());
    (last.delay.is_zero() != wanted.delay.is_zero())
        || (a > 0.0 && b > 0.0 && far(a, b))
        || (last.threshold != wanted.threshold
            && far((last.threshold + 1) as f64, (wanted.threshold + 1) as f64))
        || far((last.unreported + 1) as f64, (wanted.unreported + 1) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);
    const FREQUENCY: Frequency = Frequency {
        packets: 2,
        per_round_trip: 4.0,
        shortest_interval: SHORTEST_INTERVAL,
        short_path_interval: Duration::ZERO,
        longest_interval: Duration::from_millis(50),
    };
    const FIFTY_MEGABITS: Bandwidth = Bandwidth::from_bytes_per_second(6_250_000);

    #[test]
    fn equation_four_takes_the_lower_of_counting_and_period() {
        // The paper's figure 12(b): 50 Hz at 80 ms, 20 Hz at 200 ms.
        assert!((FREQUENCY.hertz(FIFTY_MEGABITS, 80 * MS, 1500) - 50.0).abs() < 0.01);
        assert!((FREQUENCY.hertz(FIFTY_MEGABITS, 200 * MS, 1500) - 20.0).abs() < 0.01);
        // A slow flow is counted: 7 Mbit/s at 10 ms is 292 Hz, not 400.
        let slow = Bandwidth::from_bytes_per_second(875_000);
        assert!((FREQUENCY.hertz(slow, 10 * MS, 1500) - 291.7).abs() < 0.1);
    }

    #[test]
    fn a_short_path_is_acknowledged_once_a_round_trip_and_a_long_one_beta_times() {
        let frequency = Frequency {
            per_round_trip: 2.0,
            shortest_interval: 10 * MS,
            short_path_interval: 20 * MS,
            ..FREQUENCY
        };
        let paths = [(2, 10), (10, 10), (15, 15), (20, 20), (40, 20), (50, 25), (200, 50)];
        for (min_rtt, alpha) in paths {
            assert_eq!(frequency.interval(min_rtt * MS), alpha * MS, "{min_rtt} ms");
        }
        assert_eq!(frequency.of_startup().interval(20 * MS), 20 * MS / 16);
    }

    #[test]
    fn a_tack_peer_learns_alpha_and_when_it_doubles() {
        let mut sender =
            AckFrequencySender::new(Peer::Tack { min_ack_delay: MS, max_ack_delay: 50 * MS });
        let next = |sender: &AckFrequencySender, startup, rtt| {
            sender.next_frame(&FREQUENCY, startup, FIFTY_MEGABITS, rtt, 1500, 0)
        };
        let frame = next(&sender, false, 40 * MS).unwrap();
        assert_eq!(frame.ack_eliciting_threshold, 1);
        assert_eq!(frame.requested_max_ack_delay_us, 10_000);
        sender.on_sent(&frame, 7);
        assert_eq!(next(&sender, false, 70 * MS), None);
        let update = next(&sender, false, 80 * MS).unwrap();
        assert_eq!((update.sequence, update.requested_max_ack_delay_us), (1, 20_000));
    }

    #[test]
    fn startup_asks_for_every_packet_until_sixteen_acknowledgements_a_round_trip_are_fewer() {
        let tack = Peer::Tack { min_ack_delay: MS, max_ack_delay: 50 * MS };
        let stock = Peer::Stock { min_ack_delay: MS, max_ack_delay: 25 * MS };
        let next = |peer, megabits: u64| {
            let rate = Bandwidth::from_bytes_per_second(megabits * 125_000);
            let sender = AckFrequencySender::new(peer);
            let frame = sender.next_frame(&FREQUENCY, true, rate, 80 * MS, 1250, 0)?;
            Some((frame.ack_eliciting_threshold, frame.requested_max_ack_delay_us))
        };
        // Two packets take 10 ms, and 1 ms.
        assert_eq!(next(tack, 2), None, "it begins with every packet");
        assert_eq!(next(tack, 20), Some((1, 5000)));
        assert_eq!(next(stock, 2), Some((1, 5000)));
        assert_eq!(next(stock, 20), Some((9, 5000)), "ten packets in 5 ms");
    }

    #[test]
    fn packets_of_a_slow_start_share_acknowledgements_where_that_is_wanted_and_the_path_long() {
        let next = |min_rtt, megabits: u64| {
            let peer = Peer::Tack { min_ack_delay: MS, max_ack_delay: 25 * MS };
            let rate = Bandwidth::from_bytes_per_second(megabits * 125_000);
            let mut sender = AckFrequencySender::new(peer).with_spaced_start(true);
            let frame = sender.next_frame(&FREQUENCY, true, rate, min_rtt, 1250, 0)?;
            sender.on_sent(&frame, 7);
            Some((frame.ack_eliciting_threshold, sender.hold()?))
        };
        assert_eq!(next(80 * MS, 2), Some((0, 5 * MS)));
        assert_eq!(next(80 * MS, 20), Some((1, 25 * MS)));
        assert_eq!(next(16 * MS, 2), None, "it begins with every packet");
    }

    #[test]
    fn a_stock_peer_learns_a_new_reordering_threshold_at_once() {
        let peer = Peer::Stock { min_ack_delay: MS, max_ack_delay: 25 * MS };
        let mut sender = AckFrequencySender::new(peer);
        let next = |sender: &AckFrequencySender| {
            sender.next_frame(&FREQUENCY, false, FIFTY_MEGABITS, 40 * MS, 1500, 0)
        };
        let frame = next(&sender).unwrap();
        assert_eq!(frame.reordering_threshold, 3);
        sender.on_sent(&frame, 7);
        assert_eq!(next(&sender), None);
        sender.set_reordering_threshold(4);
        assert_eq!(next(&sender).unwrap().reordering_threshold, 4);
    }

    #[test]
    fn a_stock_peer_is_given_the_threshold_that_equals_alpha() {
        let peer = Peer::Stock { min_ack_delay: MS, max_ack_delay: 25 * MS };
        let sender = AckFrequencySender::new(peer);
        let steady =
            sender.next_frame(&FREQUENCY, false, FIFTY_MEGABITS, 40 * MS, 1250, 0).unwrap();
        assert_eq!(steady.ack_eliciting_threshold, 49, "50 packets in 10 ms");
        let long =
            sender.next_frame(&FREQUENCY, false, FIFTY_MEGABITS, 400 * MS, 1250, 0).unwrap();
        assert_eq!(long.requested_max_ack_delay_us, 25_000, "its own max_ack_delay");
    }

    #[test]
    fn packets_that_go_unreported_are_advertised_to_tack_peers_only() {
        let next = |sender: &AckFrequencySender, unreported| {
            sender.next_frame(&FREQUENCY, false, FIFTY_MEGABITS, 40 * MS, 1500, unreported)
        };
        let mut sender =
            AckFrequencySender::new(Peer::Tack { min_ack_delay: MS, max_ack_delay: 50 * MS });
        sender.on_sent(&next(&sender, 0).unwrap(), 7);
        assert!(!sender.asks_for_bubbles());
        let frame = next(&sender, 40).unwrap();
        assert_eq!(frame.reordering_threshold, 40);
        sender.on_sent(&frame, 8);
        assert!(sender.asks_for_bubbles());
        assert_eq!(next(&sender, 70), None);
        let frame = next(&sender, 0).unwrap();
        sender.on_sent(&frame, 9);
        assert!(!sender.asks_for_bubbles());

        let peer = Peer::Stock { min_ack_delay: MS, max_ack_delay: 25 * MS };
        let mut stock = AckFrequencySender::new(peer);
        let frame = next(&stock, 40).unwrap();
        assert_eq!(frame.reordering_threshold, PACKET_THRESHOLD);
        stock.on_sent(&frame, 7);
        assert_eq!(next(&stock, 0), None);
    }

    #[test]
    fn the_hold_follows_from_the_last_update() {
        let steady = |mut sender: AckFrequencySender| {
            let frame =
                sender.next_frame(&FREQUENCY, false, FIFTY_MEGABITS, 40 * MS, 1250, 0).unwrap();
            sender.on_sent(&frame, 7);
            sender.hold()
        };
        let tack = || {
            AckFrequencySender::new(Peer::Tack { min_ack_delay: MS, max_ack_delay: 50 * MS })
        };
        assert_eq!(tack().hold(), None, "it begins with every packet");
        assert_eq!(steady(tack()), Some(50 * MS));
        let peer = Peer::Stock { min_ack_delay: MS, max_ack_delay: 25 * MS };
        assert_eq!(AckFrequencySender::new(peer).hold(), Some(25 * MS));
        assert_eq!(steady(AckFrequencySender::new(peer)), Some(10 * MS));
    }

    #[test]
    fn a_lost_update_that_asks_for_every_packet_is_repeated() {
        let mut sender =
            AckFrequencySender::new(Peer::Tack { min_ack_delay: MS, max_ack_delay: 50 * MS });
        let slow = Bandwidth::from_bytes_per_second(250_000);
        let next = |sender: &AckFrequencySender, startup| {
            sender.next_frame(&FREQUENCY, startup, slow, 10 * MS, 1250, 0)
        };
        sender.on_sent(&next(&sender, false).unwrap(), 7);
        let every_packet = next(&sender, true).unwrap();
        assert_eq!(every_packet.requested_max_ack_delay_us, 0);
        sender.on_sent(&every_packet, 8);
        assert_eq!(next(&sender, true), None);
        sender.on_acknowledgement(|pn| Some(pn != 8));
        let again = next(&sender, true).unwrap();
        assert_eq!((again.sequence, again.requested_max_ack_delay_us), (2, 0));
        sender.on_sent(&again, 9);
        assert_eq!(next(&sender, true), None);
    }

    #[test]
    fn a_lost_update_is_sent_again_with_a_higher_sequence() {
        let mut sender =
            AckFrequencySender::new(Peer::Tack { min_ack_delay: MS, max_ack_delay: 50 * MS });
        let frame =
            sender.next_frame(&FREQUENCY, false, FIFTY_MEGABITS, 40 * MS, 1500, 0).unwrap();
        sender.on_sent(&frame, 7);
        sender.on_acknowledgement(|_| None);
        assert!(
            sender.next_frame(&FREQUENCY, false, FIFTY_MEGABITS, 40 * MS, 1500, 0).is_none()
        );
        sender.on_acknowledgement(|pn| Some(pn != 7));
        let again =
            sender.next_frame(&FREQUENCY, false, FIFTY_MEGABITS, 40 * MS, 1500, 0).unwrap();
        assert_eq!(again.sequence, frame.sequence + 1);
    }
}
