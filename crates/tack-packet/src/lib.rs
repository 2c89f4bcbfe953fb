//! QUIC 1-RTT packet protection from TLS traffic secrets (RFC 9001 sections 5 and 6), and the
//! long headers around it (RFC 9000 section 17.2).
//!
//! The crate is for what stands between a QUIC stack and the wire, knows the secrets from the
//! stack's key log, and changes frames on their way. It does no I/O and reads no clock.
//!
//! | Type | What it does |
//! |---|---|
//! | [`DatagramLayout`], [`packets`], [`LongHeader`] | says what a datagram is made of |
//! | [`PacketProtection`] | holds the keys of both directions, and updates them |
//! | [`WrittenPacket`], [`OpenedPacket`] | own the one ciphertext that may leave for a packet number |
//! | [`ProtectedHeader`], [`Opened`] | are what is known of an incoming packet |
//! | [`ProtectionKeys`] | opens and seals anything, for observers and for peers in tests |
//! | [`QuicLb`] | makes and reads connection ids by which a load balancer finds the server |
//!
//! # Example
//!
//! A stack has written a packet; a frame is put in front of its own on the way out. The peer's
//! packet comes in, and the stack gets it without that frame.
//!
//! ```
//! use tack_packet::{CipherSuite, DatagramLayout, PacketProtection};
//! # use tack_packet::{ProtectionKeys, ShortHeader, TAG_LEN};
//!
//! # let suite = CipherSuite::Aes128GcmSha256;
//! # let (client_secret, server_secret) = ([0xc1; 32], [0x5e; 32]);
//! # // What stands in for the two stacks: a packet with these frames, and an empty connection id.
//! # let write = |secret: &[u8], number: u8, frames: &[u8]| {
//! #     let header = ShortHeader {
//! #         first_byte: 0x40, packet_number: number.into(), pn_len: 1, header_len: 2,
//! #     };
//! #     let mut packet = [&[0x40, number][..], frames, &[0; TAG_LEN]].concat();
//! #     ProtectionKeys::new(suite, secret)?.seal(0, &mut packet, &header, frames.len())?;
//! #     Ok::<_, tack_packet::Error>(packet)
//! # };
//! const EXTENSION: u8 = 0x1f; // IMMEDIATE_ACK
//! const PING: u8 = 0x01;
//!
//! // CLIENT_TRAFFIC_SECRET_0 and SERVER_TRAFFIC_SECRET_0 of the key log.
//! let mut client = PacketProtection::new(suite, &server_secret, &client_secret)?;
//! let mut server = PacketProtection::new(suite, &client_secret, &server_secret)?;
//! let mut scratch = Vec::new();
//!
//! // Out. The client's stack has written a packet to the front of a buffer with room behind it.
//! let mut buf = [0; 1350];
//! # let packet = write(&client_secret, 0, &[PING, 0, 0, 0, 0])?;
//! # buf[..packet.len()].copy_from_slice(&packet);
//! # let len = packet.len();
//! let written = client.take(&mut buf, len, 0, 0)?;
//! assert_eq!(written.first_bytes().map(|bytes| bytes[0]), Some(PING));
//! let opened = written.open(&mut scratch)?;
//! let frames = [&[EXTENSION], opened.payload()].concat();
//! let departed = opened.seal(&frames, true)?;
//! let datagram = &buf[..departed.len];
//!
//! // In. The server takes the frame out before its stack gets the packet.
//! let at = DatagramLayout::parse(datagram).one_rtt.unwrap();
//! let packet = &datagram[at..];
//! let header = server.read_header(packet, 0, 0)?;
//! assert_eq!((header.packet_number(), header.reserved_bits()), (0, 0x18));
//! let opened = server.open(packet, header, &mut scratch)?;
//! let frames = &scratch[opened.payload.clone()];
//! assert_eq!(frames[0], EXTENSION);
//! let mut for_stack = Vec::new();
//! server.seal_for_stack(&opened, true, &frames[1..], &mut for_stack)?;
//! # let mut stack = ProtectionKeys::new(suite, &client_secret)?;
//! # let at_stack = stack.open(&mut for_stack, 0, 0)?;
//! # assert_eq!(at_stack.header.reserved_bits(), 0);
//! # assert_eq!(for_stack[at_stack.payload], [PING, 0, 0, 0, 0]);
//! # Ok::<(), tack_packet::Error>(())
//! ```
//!
//! # Sealing a packet again
//!
//! A packet that is opened, changed and sealed under its own number uses one key and one nonce
//! for two plaintexts. That is sound only while a single one of the two ciphertexts ever leaves
//! the process (NIST SP 800-38D section 8): whoever sees both learns how the plaintexts differ
//! and can forge packets. So a packet that is taken from the stack is owned by a type that is
//! consumed by what lets it leave, and that wipes it otherwise.
//!
//! On the way in there is no such danger: what [`PacketProtection::seal_for_stack`] writes is for
//! the stack in the same process, which has the keys itself.
//!
//! # Secrets in memory
//!
//! Traffic secrets are kept as bytes and wiped: that of a generation when the one after it has
//! been derived from it, which is at once, and the last when the keys are dropped. The memory of the
//! process then holds no secret from which the keys of earlier generations follow. The keys
//! themselves are objects of ring, which has no means to wipe them: they are freed, previous ones
//! three probe timeouts after an update, and what was in their memory stays there until it is used
//! again.

#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod block_cipher;
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
mod quic_lb;
#[cfg(test)]
mod rfc9001_vectors;
mod suite;

pub use datagram::{DatagramLayout, LongPacket, Packet, Packets, is_short, packets};
pub use error::Error;
pub use header::ShortHeader;
pub use incoming::{IncomingKeys, Opened, ProtectedHeader};
pub use key_update::PacketProtection;
pub use keys::FirstBytes;
pub use long_header::{Invariants, LongHeader, LongPacketType, MAX_CID_LEN};
pub use outgoing::{Departed, OpenedPacket, OutgoingKeys, WrittenPacket};
pub use packet_number::{decode_packet_number, encode_packet_number};
pub use protection::ProtectionKeys;
pub use quic_lb::{
    QuicLb, QuicLbConfig, QuicLbError, RoutedCid, Unroutable, unroutable_first_octet,
};
pub use suite::{CipherSuite, TAG_LEN};
