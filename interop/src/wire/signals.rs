//! What 1-RTT packets ask of their receiver, and how soon it answers.

use std::collections::VecDeque;
use std::ops::AddAssign;
use std::time::Duration;

use serde::Serialize;
use tack_proto::frame::{AckRanges, Frame, Frames};
use tack_tap::{Direction, OpenedPacket};

/// Requests that are remembered, and answers that are awaited: a peer may send any number.
const MOST: usize = 1000;

/// What one end asked of the other.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Signals {
    /// Its ACK_FREQUENCY frames.
    pub frequencies: Vec<Frequency>,
    /// For each IMMEDIATE_ACK of its that was answered: from where it passed to where the first
    /// acknowledgement of its packet did, in milliseconds.
    pub answers_ms: Vec<f64>,
    /// How many times it changed its keys, on the connection where it did so most.
    pub key_updates: u64,
    /// Packets of its under keys that are not the first ones.
    pub packets_with_new_keys: u64,
}

/// An ACK_FREQUENCY frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Frequency {
    /// Its sequence number.
    pub sequence: u64,
    /// Ack-eliciting packets that need no acknowledgement.
    pub threshold: u64,
    /// The longest wait for one, in microseconds.
    pub max_ack_delay_us: u64,
}

/// Follows the packets of both ends.
#[derive(Debug, Default)]
pub struct Conversation {
    to_server: Asking,
    to_client: Asking,
}

#[derive(Debug, Default)]
struct Asking {
    signals: Signals,
    /// Packets with IMMEDIATE_ACK, and when they passed.
    unanswered: VecDeque<(u64, Duration)>,
}

impl Conversation {
    /// Looks into a packet.
    pub fn packet(&mut self, at: Duration, direction: Direction, packet: OpenedPacket<'_>) {
        let (sender, receiver) = match direction {
            Direction::ToServer => (&mut self.to_server, &mut self.to_client),
            Direction::ToClient => (&mut self.to_client, &mut self.to_server),
        };
        let signals = &mut sender.signals;
        signals.key_updates = signals.key_updates.max(packet.key_updates);
        signals.packets_with_new_keys += u64::from(packet.key_updates > 0);
        for located in Frames::new(packet.payload) {
            let Ok(located) = located else { break };
            match located.frame {
                Frame::ImmediateAck if sender.unanswered.len() < MOST => {
                    sender.unanswered.push_back((packet.number, at));
                }
                Frame::AckFrequency(update) if sender.signals.frequencies.len() < MOST => {
                    sender.signals.frequencies.push(Frequency {
                        sequence: update.sequence,
                        threshold: update.ack_eliciting_threshold,
                        max_ack_delay_us: update.requested_max_ack_delay_us,
                    });
                }
                Frame::Ack(ack) => receiver.answered(at, &ack.ranges),
                Frame::Tack(tack) => receiver.answered(at, &tack.ranges),
                Frame::Iack(iack) => receiver.answered(at, &iack.ranges),
                _ => {}
            }
        }
    }

    /// What was sent to the server, and what to the client.
    pub fn into_signals(self) -> (Signals, Signals) {
        (self.to_server.signals, self.to_client.signals)
    }
}

/// Of several connections together.
impl AddAssign for Signals {
    fn add_assign(&mut self, other: Self) {
        self.frequencies.extend(other.frequencies);
        self.answers_ms.extend(other.answers_ms);
        self.key_updates = self.key_updates.max(other.key_updates);
        self.packets_with_new_keys += other.packets_with_new_keys;
    }
}

impl Asking {
    fn answered(&mut self, at: Duration, ranges: &AckRanges<'_>) {
        let Self { signals, unanswered } = self;
        unanswered.retain(|(number, asked)| {
            let is_answered = ranges.iter().any(|range| range.contains(number));
            if is_answered {
                signals.answers_ms.push(at.saturating_sub(*asked).as_secs_f64() * 1e3);
            }
            !is_answered
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Direction::{ToClient, ToServer};

    const MS: Duration = Duration::from_millis(1);

    fn packet(number: u64, key_updates: u64, payload: &[u8]) -> OpenedPacket<'_> {
        OpenedPacket { number, key_updates, payload }
    }

    #[test]
    fn an_answer_is_the_first_acknowledgement_of_the_very_packet() {
        let mut conversation = Conversation::default();
        conversation.packet(10 * MS, ToServer, packet(4, 0, &[0x1f]));
        conversation.packet(12 * MS, ToClient, packet(0, 0, &[0x02, 3, 0, 0, 3]));
        conversation.packet(17 * MS, ToClient, packet(1, 0, &[0x02, 5, 0, 0, 5]));
        conversation.packet(19 * MS, ToClient, packet(2, 0, &[0x02, 6, 0, 0, 6]));
        let (to_server, to_client) = conversation.into_signals();
        assert_eq!(to_server.answers_ms, [7.0]);
        assert_eq!(to_client, Signals::default());
    }

    #[test]
    fn frequencies_are_kept_as_they_were_asked_for() {
        let mut conversation = Conversation::default();
        let frame = [0x40, 0xaf, 2, 9, 0x59, 0x88, 1];
        conversation.packet(MS, ToClient, packet(4, 0, &frame));
        let (_, to_client) = conversation.into_signals();
        let asked = Frequency { sequence: 2, threshold: 9, max_ack_delay_us: 0x1988 };
        assert_eq!(to_client.frequencies, [asked]);
    }

    #[test]
    fn key_updates_are_counted_with_the_packets_that_follow_them() {
        let mut conversation = Conversation::default();
        for (number, updates) in [(0, 0), (1, 1), (2, 0), (3, 1)] {
            conversation.packet(MS, ToServer, packet(number, updates, &[0x01]));
        }
        let (to_server, _) = conversation.into_signals();
        assert_eq!((to_server.key_updates, to_server.packets_with_new_keys), (1, 2));
    }
}
