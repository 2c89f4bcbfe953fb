//! The 802.11 medium: stations that share one channel by carrier sense and chance.
//!
//! What acknowledgements cost on Wi-Fi is not their bytes but their turns: a 64-byte packet needs
//! the same interframe space, backoff, preamble and response as a full one, and it collides with
//! data. This is a model of the standard's rules for that; no constant is fitted to a measurement.
//! Clauses are those of IEEE 802.11-2016.
//!
//! # Modelled
//!
//! - Any number of stations in range of each other on a half-duplex channel that loses nothing but
//!   collisions (and, on request, single MPDUs at random). No RTS/CTS, no hidden stations, no rate
//!   adaptation, no beacons, no association. Propagation takes no time.
//! - DCF for b and g (10.3), EDCA with the parameters of best effort and TXOP limit 0 for n and ac
//!   (10.22.2): interframe space, slotted backoff with freezing, contention window, retries.
//!   One PPDU per turn.
//! - A-MPDUs within the limits of bytes, of the block-ACK window of 64 and of the longest PPDU
//!   (9.7, 10.13), block ACKs for each MPDU, retransmission of what is missing, block-ACK
//!   requests, and the receiver's reordering buffer (10.24.7). Agreements are there from the
//!   start and never end.
//! - A packet arrives when its PPDU ends: all packets of an A-MPDU at the same time.
//!
//! # Choices
//!
//! Where the constants leave one:
//!
//! - **After a failure** the interframe space begins when the timeout of the response ends, which
//!   is SIFS + slot + preamble (10.22.2.4 c) 1); used for DCF too). Of two stations that collide,
//!   the one whose frame was shorter counts from the end of the longer one, if its own timeout
//!   has passed by then: it has the advantage of the other's timeout, five slots with n and ac.
//! - **EIFS** (10.3.2.3.7): stations that heard a collision wait SIFS + ACK at the lowest
//!   mandatory rate longer (1 Mbit/s for b, 6 Mbit/s for the others). Stations that took part in
//!   it did not hear a frame begin, and don't.
//! - **Same slot**: after a collision the slots of different stations don't lie on top of each
//!   other. Transmissions collide if they begin less than aCCATime + aRxTxTurnaroundTime apart:
//!   20 µs for b, a whole slot, and 6 µs for the others. The rest of a slot is for propagation and
//!   processing (10.3.7), which take no time here.
//! - **Counting slots**: DCF counts idle slots. EDCA counts slot boundaries (10.22.2.4), and so
//!   once more for each time that the medium gets busy. This is worth up to 1 % of
//!   goodput.
//! - **Immediate access**: a frame that is queued while the medium is idle and no backoff runs
//!   goes after an idle DIFS with DCF (10.3.4.2), and at the next slot boundary after the AIFS
//!   with EDCA. If it is queued while the medium is busy, a backoff is drawn. The medium counts
//!   as busy from the beginning of a frame to the end of its response, SIFS included: an
//!   acknowledgement sent when data arrives draws a backoff.
//! - **After a success** a backoff is drawn, whether something waits or not (10.22.2.2 b)).
//! - **A-MPDU without a block ACK**: the sender can't tell a lost A-MPDU from a lost block ACK, so
//!   in both cases it fights for the medium again to send a block-ACK request (32 µs). The answer
//!   is a success: the contention window is reset. What is missing is then sent again, with new
//!   MPDUs added if there is room. The receiver answers if it got at least one MPDU.
//! - **A lone MPDU**, also under a block-ACK agreement, is answered by an ACK (28 µs with n and
//!   ac), and sent again without a request. With ac it has a delimiter nevertheless (an S-MPDU).
//! - **Retries**: an MPDU is sent eight times at most. The contention window is reset after as
//!   many failures in a row. A block-ACK request goes after each loss under an agreement, so
//!   that the receiver stops waiting.
//! - **Several receivers** (the access point of two hops): a queue for each, and the one with the
//!   oldest packet goes first, after what has to be sent again.
//! - **CWmin of g** is 31 by default, as in the reference cells. That of a g cell without
//!   802.11b stations is 15.
//!
//! [`closed_form`] and [`bianchi`] are what theory says about two of its aspects.

mod ampdu;
mod analysis;
mod contention;
mod flow;
mod link;
mod medium;
mod parameters;
mod profile;
mod reordering;
mod source;
mod statistics;
mod timing;

pub use self::analysis::{bianchi, closed_form};
pub use self::link::{Role, Wlan, WlanConfig};
pub use self::parameters::{Options, Parameters, RETRY_LIMIT};
pub use self::profile::{Preamble, Profile};
pub use self::source::{FULL_PACKET_BYTES, FULL_PAYLOAD_BYTES, Load};
pub use self::statistics::Statistics;
pub use self::timing::{Access, BLOCK_ACK_WINDOW, LONGEST_PPDU, Timing};
