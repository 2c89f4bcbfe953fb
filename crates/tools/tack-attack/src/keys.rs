//! Opens and seals 1-RTT packets with the secrets of a key log: the only place that knows
//! tack-packet.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use tack_packet::{CipherSuite, ProtectionKeys, ShortHeader, TAG_LEN};

use crate::Side;

/// The bits that mark a packet between TACK peers, before header protection.
const MARK: u8 = 0x18;

/// A key log that keeps the first 1-RTT secrets.
#[derive(Clone, Debug, Default)]
pub struct Secrets(Arc<Mutex<Vec<u8>>>);

impl Write for Secrets {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Secrets {
    /// The secret of what `sender` sends, once the key log has it.
    fn secret(&self, sender: Side) -> Option<Vec<u8>> {
        let label = match sender {
            Side::Client => "CLIENT_TRAFFIC_SECRET_0 ",
            Side::Server => "SERVER_TRAFFIC_SECRET_0 ",
        };
        let text = String::from_utf8(self.0.lock().unwrap().clone()).unwrap();
        let line = text.lines().find(|line| line.starts_with(label))?;
        let hex = line.split(' ').nth(2)?;
        let byte = |at| u8::from_str_radix(hex.get(at..at + 2)?, 16).ok();
        (0..hex.len()).step_by(2).map(byte).collect()
    }

    /// Keys for each cipher suite that takes a secret of this length: a key log does not name
    /// the suite.
    fn candidates(&self, sender: Side) -> Vec<ProtectionKeys> {
        let Some(secret) = self.secret(sender) else { return Vec::new() };
        let keys = |suite| ProtectionKeys::new(suite, &secret).ok();
        CipherSuite::ALL.into_iter().filter_map(keys).collect()
    }
}

/// A packet that was opened.
#[derive(Clone, Debug)]
pub struct Packet {
    /// Its number.
    pub number: u64,
    /// Whether it has the mark.
    pub marked: bool,
    /// Its frames.
    pub payload: Vec<u8>,
    header: ShortHeader,
    plain_header: Vec<u8>,
    generation: u64,
}

/// Opens the 1-RTT packets that one side sends, and seals them again.
#[derive(Debug)]
pub struct Opener {
    secrets: Secrets,
    sender: Side,
    dcid_len: usize,
    /// The first opens; before any was opened there may be several.
    keys: Vec<ProtectionKeys>,
    expected: u64,
}

impl Opener {
    /// Opens what `sender` sends, with connection ids of `dcid_len` bytes in front.
    pub fn new(secrets: Secrets, sender: Side, dcid_len: usize) -> Self {
        Self { secrets, sender, dcid_len, keys: Vec::new(), expected: 0 }
    }

    /// Opens a datagram that is one 1-RTT packet.
    pub fn open(&mut self, datagram: &[u8]) -> Option<Packet> {
        if datagram.first().is_none_or(|first| first & 0xc0 != 0x40) {
            return None;
        }
        if self.keys.is_empty() {
            self.keys = self.secrets.candidates(self.sender);
        }
        for at in 0..self.keys.len() {
            let mut bytes = datagram.to_vec();
            let Ok(opened) = self.keys[at].open(&mut bytes, self.dcid_len, self.expected)
            else {
                continue;
            };
            self.keys.swap(0, at);
            self.keys.truncate(1);
            self.expected = self.expected.max(opened.header.packet_number + 1);
            return Some(Packet {
                number: opened.header.packet_number,
                marked: opened.header.reserved_bits() != 0,
                payload: bytes[opened.payload.clone()].to_vec(),
                plain_header: bytes[..opened.payload.start].to_vec(),
                header: opened.header,
                generation: opened.generation,
            });
        }
        None
    }

    /// Seals a packet that was opened here, with other frames and the mark.
    pub fn reseal(&self, packet: &Packet, payload: &[u8]) -> Vec<u8> {
        let mut plain_header = packet.plain_header.clone();
        plain_header[0] |= MARK;
        seal(&self.keys[0], packet.generation, &plain_header, &packet.header, payload)
    }
}

/// Seals packets of a sender's own making.
#[derive(Debug)]
pub struct Sealer {
    keys: ProtectionKeys,
    dcid: Vec<u8>,
}

impl Sealer {
    /// Seals for `dcid` with the keys that `opener` has found for the same direction.
    pub fn new(opener: Opener, dcid: Vec<u8>) -> Self {
        let keys = opener.keys.into_iter().next().expect("no packet was opened yet");
        Self { keys, dcid }
    }

    /// A datagram of one packet.
    pub fn seal(&self, number: u64, marked: bool, payload: &[u8]) -> Vec<u8> {
        let pn_len = 4;
        let first_byte = 0x43 | if marked { MARK } else { 0 };
        let mut plain = vec![first_byte];
        plain.extend_from_slice(&self.dcid);
        plain.extend_from_slice(&(number as u32).to_be_bytes());
        let header =
            ShortHeader { first_byte, packet_number: number, pn_len, header_len: plain.len() };
        seal(&self.keys, 0, &plain, &header, payload)
    }
}

fn seal(
    keys: &ProtectionKeys,
    generation: u64,
    plain_header: &[u8],
    header: &ShortHeader,
    payload: &[u8],
) -> Vec<u8> {
    let mut datagram = plain_header.to_vec();
    // Header protection needs as much (RFC 9001 section 5.4.2); zeros are PADDING.
    let len = payload.len().max(4);
    datagram.extend_from_slice(payload);
    datagram.resize(plain_header.len() + len, 0);
    datagram.resize(datagram.len() + TAG_LEN, 0);
    keys.seal(generation, &mut datagram, header, len).unwrap();
    datagram
}
