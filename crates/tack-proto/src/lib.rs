//! The TACK protocol without any I/O: frames, and what a data receiver and a
//! data sender do with them.
//!
//! Nothing here reads a clock, owns a socket or starts a thread; time comes in
//! as an argument. Nothing here knows of quiche or of encryption either: the
//! crate `tacklib` joins this one with both.
//!
//! - [`frame`]: every frame of RFC 9000 as far as an observer needs it, and the
//!   extension frames in full.
//! - [`transport_parameters`]: what the two ends announce.
//! - [`receiver`]: which packets arrived, when to acknowledge, what to report.
//! - [`ecn`]: the ECN field of the IP header, and what a sender marks.
//! - [`sender`]: what is in flight, pacing, receiver-driven BBR.
//!
//! # Both ends of a transfer
//!
//! A QUIC stack tells the sender and the receiver of one connection what it sends and what arrives, and
//! carries the frames that they write. Here a loop stands for both stacks and the path between them: packets
//! arrive in the order of time, then each end is asked what it has to send.
//!
//! ```
//! use std::collections::BTreeMap;
//! use std::time::{Duration, Instant};
//!
//! use tack_proto::ecn::EcnCodepoint;
//! use tack_proto::frame::{AckFrequency, Frame, Frames};
//! use tack_proto::profiles::Profile;
//! use tack_proto::receiver::{Received, Receiver, ReceiverConfig};
//! use tack_proto::sender::{Departure, Peer, Sender, SenderConfig};
//!
//! const PACKETS: u64 = 1000;
//! const SIZE: usize = 1250;
//! const ONE_WAY: Duration = Duration::from_millis(20);
//! const MAX_ACK_DELAY: Duration = Duration::from_millis(25);
//!
//! /// What is on its way.
//! enum Packet {
//!     Data { number: u64, timestamp: Option<u64>, update: Option<AckFrequency> },
//!     Acknowledgement(Vec<u8>),
//! }
//!
//! let mut now = Instant::now();
//! // In earnest, 64 random bits.
//! let mut config = SenderConfig::new(Profile::DEFAULT, SIZE as u64, 7);
//! // What the receiver's transport parameters have announced.
//! let min_ack_delay = Duration::from_millis(1);
//! config.peer = Some(Peer::Tack { min_ack_delay, max_ack_delay: MAX_ACK_DELAY });
//! // The handshake has shown a round trip.
//! let mut sender = Sender::new(now, config, Some(2 * ONE_WAY));
//! let mut receiver = Receiver::new(now, ReceiverConfig::new(MAX_ACK_DELAY));
//! // By the time of their arrival; packets that arrive together keep their order.
//! let mut path = BTreeMap::<(Instant, u64), Packet>::new();
//! let (mut events, mut next, mut acknowledgements) = (0, 0, 0);
//!
//! while sender.largest_acked() != Some(PACKETS - 1) {
//!     // What arrives now.
//!     while let Some(entry) = path.first_entry().filter(|entry| entry.key().0 <= now) {
//!         match entry.remove() {
//!             Packet::Data { number, timestamp, update } => {
//!                 receiver.on_packet(now, Received {
//!                     packet_number: number,
//!                     bytes: SIZE,
//!                     ack_eliciting: true,
//!                     departure: timestamp,
//!                     ends_stream: number + 1 == PACKETS,
//!                     ecn: EcnCodepoint::NotEct,
//!                 });
//!                 if let Some(update) = update {
//!                     receiver.on_frequency_update(&update);
//!                 }
//!             }
//!             Packet::Acknowledgement(payload) => {
//!                 for frame in Frames::new(&payload) {
//!                     match frame?.frame {
//!                         Frame::Tack(tack) => {
//!                             // A claim that the record contradicts ends the connection.
//!                             sender.check_tack(now, &tack)?;
//!                             let outcome = sender.on_tack(now, &tack);
//!                             assert_eq!(outcome.lost_packets, 0);
//!                         }
//!                         Frame::Iack(iack) => {
//!                             sender.check_iack(now, &iack)?;
//!                             sender.on_iack(now, &iack);
//!                         }
//!                         _ => {}
//!                     }
//!                 }
//!             }
//!         }
//!     }
//!     // What the receiver acknowledges now.
//!     while let Some(due) = receiver.due(now) {
//!         let mut payload = Vec::new();
//!         receiver.write(now, due, SIZE, &mut payload);
//!         acknowledgements += 1;
//!         events += 1;
//!         path.insert((now + ONE_WAY, events), Packet::Acknowledgement(payload));
//!     }
//!     // What the sender lets go now.
//!     while next < PACKETS && sender.may_send(now, true) {
//!         let timestamp = sender.timestamp(now).map(|timestamp| timestamp.0);
//!         let update = sender.frequency_update();
//!         sender.on_packet_sent(now, &Departure {
//!             packet_number: next,
//!             bytes: SIZE,
//!             ack_eliciting: true,
//!             path: None,
//!             is_probe: false,
//!             is_mtu_probe: false,
//!             update,
//!             has_timestamp: timestamp.is_some(),
//!         });
//!         events += 1;
//!         path.insert((now + ONE_WAY, events), Packet::Data { number: next, timestamp, update });
//!         next += 1;
//!     }
//!     // Nothing changes before the next of these; a stack waits for them and for its own timers.
//!     let arrival = path.first_key_value().map(|((at, _), _)| *at);
//!     let release = (next < PACKETS).then(|| sender.release_time()).filter(|at| *at > now);
//!     let waits = [arrival, receiver.deadline(), release].into_iter().flatten();
//!     now = waits.min().unwrap_or(now).max(now);
//! }
//! assert!(acknowledgements < PACKETS / 10);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod bandwidth;
pub mod ecn;
pub mod frame;
pub mod loss_detection;
pub mod profiles;
pub mod range_set;
pub mod receiver;
mod repetition;
pub mod sender;
pub mod transport_parameters;
pub mod varint;
mod windowed_filter;

/// An arbitrary instant for tests to count from.
#[cfg(test)]
#[allow(clippy::disallowed_methods)] // the only place where a test needs a clock
fn test_clock() -> std::time::Instant {
    std::time::Instant::now()
}
