//! The TLS messages of one direction and one packet-number space.

use std::collections::BTreeMap;

use tack_proto::frame::{Frame, Frames, Located};

/// Data beyond this offset is not collected: no flight of a handshake is longer.
const LONGEST_FLIGHT: u64 = 64 << 10;

/// Reassembles the data of CRYPTO frames, which arrive in any order and more than once.
#[derive(Debug, Default)]
pub struct CryptoStream(BTreeMap<u64, Vec<u8>>);

impl CryptoStream {
    /// Takes the CRYPTO frames of a packet.
    pub fn take_from(&mut self, payload: &[u8]) {
        for located in Frames::new(payload).map_while(Result::ok) {
            let Located { frame: Frame::Crypto { offset, data_len }, range } = located else {
                continue;
            };
            if offset.saturating_add(data_len) > LONGEST_FLIGHT {
                continue;
            }
            let data = &payload[range.end - data_len as usize..range.end];
            let known = self.0.entry(offset).or_default();
            if known.len() < data.len() {
                *known = data.to_vec();
            }
        }
    }

    /// Returns the data before the first gap.
    pub fn contiguous(&self) -> Vec<u8> {
        let mut stream: Vec<u8> = Vec::new();
        for (&offset, data) in &self.0 {
            let Some(new) = (stream.len() as u64).checked_sub(offset) else { break };
            stream.extend(data.iter().skip(new as usize));
        }
        stream
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crypto_frames_are_put_in_order_up_to_the_first_gap() {
        let mut stream = CryptoStream::default();
        stream.take_from(&[0x06, 3, 2, 3, 4, 0x06, 0, 2, 0, 1]);
        assert_eq!(stream.contiguous(), [0, 1]);
        stream.take_from(&[0x06, 1, 3, 1, 2, 3]);
        assert_eq!(stream.contiguous(), [0, 1, 2, 3, 4]);
    }
}
