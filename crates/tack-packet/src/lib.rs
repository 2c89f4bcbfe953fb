//! QUIC 1-RTT packet protection from TLS traffic secrets (RFC 9001 sections 5 and 6).
//!
//! [`ProtectionKeys`] opens and seals the short-header packets of one direction of a
//! connection, across key updates. It starts from the secret that TLS writes to a key log, so
//! it can follow a connection whose keys another QUIC stack holds:
//!
//! ```
//! use tack_packet::{CipherSuite, ProtectionKeys, ShortHeader, TAG_LEN};
//!
//! let secret = [7; 32]; // CLIENT_TRAFFIC_SECRET_0
//! let mut keys = ProtectionKeys::new(CipherSuite::Aes128GcmSha256, &secret)?;
//!
//! // A header of an empty connection id and packet number 5, sent in two bytes.
//! let header = ShortHeader { first_byte: 0x41, packet_number: 5, pn_len: 2, header_len: 3 };
//! let mut packet = [0; 3 + 4 + TAG_LEN];
//! packet[..3].copy_from_slice(&[0x41, 0, 5]);
//! packet[3..7].copy_from_slice(b"ping");
//! keys.seal(0, &mut packet, &header, 4)?;
//!
//! let opened = keys.open(&mut packet, 0, 0)?;
//! assert_eq!(opened.header, header);
//! assert_eq!(&packet[opened.payload], b"ping");
//! # Ok::<(), tack_packet::Error>(())
//! ```
//!
//! # Sealing a packet again
//!
//! A packet that is opened, changed and sealed under its own number uses one key and one nonce
//! for two plaintexts. That is sound only while a single one of the two ciphertexts ever leaves
//! the process. Whoever seals again must discard what was sealed first.

#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod datagram;
mod error;
mod generations;
mod header;
mod incoming;
mod key_update;
mod keys;
mod long_header;
mod outgoing;
mod packet_number;
mod protection;
#[cfg(test)]
mod rfc9001_vectors;
mod suite;

pub use datagram::{DatagramLayout, LongPacket, Packet, Packets, packets};
pub use error::Error;
pub use header::ShortHeader;
pub use incoming::{IncomingKeys, Opened, ProtectedHeader};
pub use key_update::PacketProtection;
pub use long_header::{Invariants, LongHeader, LongPacketType, MAX_CID_LEN};
pub use outgoing::{Departed, OpenedPacket, OutgoingKeys, WrittenPacket};
pub use packet_number::{decode_packet_number, encode_packet_number};
pub use protection::ProtectionKeys;
pub use suite::{CipherSuite, TAG_LEN};
