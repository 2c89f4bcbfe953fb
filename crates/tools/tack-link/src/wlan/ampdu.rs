//! What goes into one transmission (802.11-2016, 9.7 and 10.13).

use std::time::Duration;

use super::timing::{BLOCK_ACK_WINDOW, LONGEST_PPDU};
use super::{Parameters, Timing};

/// Stands before each MPDU of an A-MPDU: length, CRC, signature.
const DELIMITER_BYTES: u32 = 4;

/// The limits of a transmission.
#[derive(Clone, Debug)]
pub(super) struct Limits {
    pub timing: Timing,
    /// Longest A-MPDU; `None`: one MPDU at a time.
    pub ampdu_bytes: Option<u32>,
}

impl Limits {
    pub fn new(parameters: &Parameters, aggregate: bool) -> Self {
        let ampdu_bytes = parameters.ampdu_bytes().filter(|_| aggregate);
        Self { timing: parameters.timing(), ampdu_bytes }
    }
}

/// The MPDUs of one PPDU.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Psdu {
    mpdus: u32,
    /// Delimiters, MPDUs and padding before the last MPDU.
    bytes_before_last: u32,
    last_mpdu_bytes: u32,
}

impl Psdu {
    /// Adds the MPDU of a packet, unless that would exceed a limit; the first always goes.
    pub fn push(&mut self, packet_bytes: u32, limits: &Limits) -> bool {
        let mpdu_bytes = packet_bytes + limits.timing.overhead_bytes;
        if self.mpdus == 0 {
            *self = Self { mpdus: 1, bytes_before_last: 0, last_mpdu_bytes: mpdu_bytes };
            return true;
        }
        let longer = Self {
            mpdus: self.mpdus + 1,
            bytes_before_last: self.bytes_before_last + padded(self.last_mpdu_bytes),
            last_mpdu_bytes: mpdu_bytes,
        };
        let fits = limits.ampdu_bytes.is_some_and(|limit| longer.ampdu_bytes() <= limit)
            && longer.mpdus <= BLOCK_ACK_WINDOW
            && limits.timing.ppdu(longer.ampdu_bytes()) <= LONGEST_PPDU;
        if fits {
            *self = longer;
        }
        fits
    }

    pub const fn mpdus(&self) -> u32 {
        self.mpdus
    }

    /// How long the PPDU is on the air.
    pub const fn duration(&self, timing: &Timing) -> Duration {
        if self.mpdus > 1 || timing.lone_delimiter {
            timing.ppdu(self.ampdu_bytes())
        } else {
            timing.ppdu(self.last_mpdu_bytes)
        }
    }

    /// Each MPDU but the last is padded to a multiple of four bytes.
    const fn ampdu_bytes(&self) -> u32 {
        self.bytes_before_last + DELIMITER_BYTES + self.last_mpdu_bytes
    }
}

const fn padded(mpdu_bytes: u32) -> u32 {
    (DELIMITER_BYTES + mpdu_bytes).next_multiple_of(4)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wlan::{Options, Profile};

    fn full(profile: Profile, ampdu_bytes: Option<u32>, packet_bytes: u32) -> Psdu {
        let options = Options { ampdu_bytes, ..Options::default() };
        let parameters = Parameters::new(profile, &options).unwrap();
        let limits = Limits::new(&parameters, true);
        let mut psdu = Psdu::default();
        while psdu.push(packet_bytes, &limits) {}
        psdu
    }

    #[test]
    fn default_limits_hold_14_and_35_full_size_packets() {
        assert_eq!(full(Profile::G, None, 1500).mpdus(), 1);
        assert_eq!(full(Profile::N, None, 1500).mpdus(), 14);
        assert_eq!(full(Profile::Ac, None, 1500).mpdus(), 35);
    }

    #[test]
    fn the_last_mpdu_is_not_padded() {
        assert_eq!(full(Profile::N, None, 1500).ampdu_bytes(), 13 * 1544 + 1542);
        assert_eq!(full(Profile::N, Some(13 * 1544 + 1542), 1500).mpdus(), 14);
        assert_eq!(full(Profile::N, Some(13 * 1544 + 1541), 1500).mpdus(), 13);
    }

    #[test]
    fn small_packets_are_limited_by_the_block_ack_window() {
        assert_eq!(full(Profile::N, None, 64).mpdus(), 64);
    }

    #[test]
    fn long_packets_are_limited_by_the_longest_ppdu() {
        let psdu = full(Profile::Ac, Some(1_048_575), 11_000);
        assert_eq!(psdu.mpdus(), 53);
        let timing = Parameters::from(Profile::Ac).timing();
        assert!(psdu.duration(&timing) <= LONGEST_PPDU);
    }

    #[test]
    fn only_vht_puts_a_delimiter_before_a_lone_mpdu() {
        let lone = full(Profile::N, Some(1), 1500);
        let n = Parameters::from(Profile::N).timing();
        let ac = Parameters::from(Profile::Ac).timing();
        assert_eq!(lone.duration(&n), n.ppdu(1538));
        assert_eq!(lone.duration(&ac), ac.ppdu(1542));
    }
}
