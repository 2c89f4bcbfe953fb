//! How long everything takes on the air.

use std::time::Duration;

use super::{Preamble, Profile};

/// MPDUs that may be unacknowledged between two stations, and in one A-MPDU: the block-ACK
/// window (802.11-2016, 9.4.1.14).
pub const BLOCK_ACK_WINDOW: u32 = 64;

/// Longest PPDU: aPPDUMaxTime of the HT and VHT PHYs (802.11-2016, table 19-25).
pub const LONGEST_PPDU: Duration = Duration::from_micros(5_484);

/// Which rules a station gets to the medium by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Distributed coordination function (802.11-2016, 10.3): b and g.
    Dcf,
    /// Enhanced distributed channel access (802.11-2016, 10.22.2), best effort: n and ac.
    Edca,
}

/// How bytes become time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Modulation {
    /// Bits follow each other, and the end is rounded up to whole microseconds
    /// (802.11-2016, 16.2.3: the LENGTH field).
    Cck { bits_per_us: u64 },
    /// Symbols; 16 service bits and 6 tail bits are sent with the data.
    Ofdm { symbol_ns: u64, bits_per_symbol: u64 },
}

/// The times of a physical layer and of the MAC above it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Timing {
    /// Which rules apply.
    pub access: Access,
    /// A backoff slot.
    pub slot: Duration,
    /// How soon before its own transmission a station can't be stopped any more by another one's:
    /// aCCATime + aRxTxTurnaroundTime. The rest of a slot is propagation and MAC processing
    /// (802.11-2016, 10.3.7), which take no time here.
    pub notice: Duration,
    /// Between a frame and its response.
    pub sifs: Duration,
    /// The idle time before backoff slots: DIFS with DCF, AIFS with EDCA.
    pub ifs: Duration,
    /// The same after something that a station could not make out:
    /// SIFS + an ACK at the lowest mandatory rate + `ifs` (802.11-2016, 10.3.2.3.7).
    pub eifs: Duration,
    /// Preamble and PHY header of data.
    ///
    /// 40 µs with n is the HT-mixed format with two streams: 8 + 8 + 4 of the legacy preamble, 8 of
    /// HT-SIG, 4 of HT-STF and 4 of HT-LTF for each stream (802.11-2016, 19.3.2). ac has the same here, and
    /// with it the goodput of the reference cells. The VHT format takes 4 µs more, for VHT-SIG-B
    /// (21.3.2): less than 1 % of an exchange with a full A-MPDU.
    pub preamble: Duration,
    /// Silence at the end of every ERP-OFDM frame, in which nothing may begin.
    pub signal_extension: Duration,
    /// An ACK, with all that is on the air of it.
    pub ack: Duration,
    /// A block ACK.
    pub block_ack: Duration,
    /// A block-ACK request.
    pub block_ack_request: Duration,
    /// How long a station waits for the beginning of a response:
    /// SIFS + slot + preamble of the response (802.11-2016, 10.3.2.9).
    pub response_timeout: Duration,
    /// MAC header, LLC header and FCS, in bytes.
    pub overhead_bytes: u32,
    /// Whether an MPDU that goes alone needs a delimiter, as in every VHT PPDU
    /// (802.11-2016, 10.13).
    pub lone_delimiter: bool,
    modulation: Modulation,
}

impl Timing {
    pub(super) const fn of(profile: Profile, preamble: Preamble) -> Self {
        match profile {
            Profile::B => Self::b(preamble),
            Profile::G => Self::g(),
            Profile::N => Self::ht(1080, false),
            Profile::Ac => Self::ht(3120, true),
        }
    }

    const fn b(preamble: Preamble) -> Self {
        let (preamble, ack) = match preamble {
            Preamble::Long => (192, 192 + 56),
            Preamble::Short => (96, 96 + 11),
        };
        // The lowest mandatory rate is 1 Mbit/s, which has the long preamble only.
        let slowest_ack = 192 + 112;
        Self {
            access: Access::Dcf,
            slot: us(20),
            notice: us(15 + 5),
            sifs: us(10),
            ifs: us(50),
            eifs: us(10 + slowest_ack + 50),
            preamble: us(preamble),
            signal_extension: us(0),
            ack: us(ack),
            block_ack: us(ack),
            block_ack_request: us(ack),
            response_timeout: us(10 + 20 + preamble),
            overhead_bytes: 24 + 8 + 4,
            lone_delimiter: false,
            modulation: Modulation::Cck { bits_per_us: 11 },
        }
    }

    const fn g() -> Self {
        let slowest_ack = 20 + 24 + 6;
        Self {
            access: Access::Dcf,
            slot: us(9),
            notice: us(4 + 2),
            sifs: us(10),
            ifs: us(28),
            eifs: us(10 + slowest_ack + 28),
            preamble: us(20),
            signal_extension: us(6),
            ack: us(34),
            block_ack: us(34),
            block_ack_request: us(34),
            response_timeout: us(10 + 9 + 20),
            overhead_bytes: 24 + 8 + 4,
            lone_delimiter: false,
            modulation: Modulation::Ofdm { symbol_ns: 4_000, bits_per_symbol: 216 },
        }
    }

    const fn ht(bits_per_symbol: u64, lone_delimiter: bool) -> Self {
        let slowest_ack = 20 + 24;
        Self {
            access: Access::Edca,
            slot: us(9),
            notice: us(4 + 2),
            sifs: us(16),
            ifs: us(43),
            eifs: us(16 + slowest_ack + 43),
            preamble: us(40),
            signal_extension: us(0),
            ack: us(28),
            block_ack: us(32),
            block_ack_request: us(32),
            response_timeout: us(16 + 9 + 20),
            overhead_bytes: 26 + 8 + 4,
            lone_delimiter,
            modulation: Modulation::Ofdm { symbol_ns: 3_600, bits_per_symbol },
        }
    }

    /// How long a PPDU with that many bytes after the PHY header is on the air.
    ///
    /// Symbols with the short guard interval take 3.6 µs each and no more. The standard rounds their sum up to
    /// a multiple of 4 µs (802.11-2016, 19.4.3 and 21.4.3), which is left out here: it is less than 1 % of
    /// a full A-MPDU, and the reference cells are met without it.
    pub const fn ppdu(&self, psdu_bytes: u32) -> Duration {
        let bits = 8 * psdu_bytes as u64;
        let payload_ns = match self.modulation {
            Modulation::Cck { bits_per_us } => 1_000 * bits.div_ceil(bits_per_us),
            Modulation::Ofdm { symbol_ns, bits_per_symbol } => {
                symbol_ns * (22 + bits).div_ceil(bits_per_symbol)
            }
        };
        let around_ns = self.preamble.as_nanos() + self.signal_extension.as_nanos();
        Duration::from_nanos(around_ns as u64 + payload_ns)
    }
}

const fn us(micros: u64) -> Duration {
    Duration::from_micros(micros)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn full_size_ppdu(profile: Profile) -> Duration {
        let timing = Timing::of(profile, Preamble::Short);
        timing.ppdu(1500 + timing.overhead_bytes)
    }

    #[test]
    fn a_full_size_packet_takes_as_long_as_the_tables_of_the_standard_say() {
        assert_eq!(full_size_ppdu(Profile::B), us(96 + 1118));
        assert_eq!(full_size_ppdu(Profile::G), us(20 + 57 * 4 + 6));
        assert_eq!(full_size_ppdu(Profile::N), Duration::from_nanos(40_000 + 12 * 3_600));
        assert_eq!(full_size_ppdu(Profile::Ac), Duration::from_nanos(40_000 + 4 * 3_600));
    }

    #[test]
    fn the_long_preamble_slows_the_ack_down_too() {
        assert_eq!(Timing::of(Profile::B, Preamble::Long).ack, us(248));
        assert_eq!(Timing::of(Profile::B, Preamble::Short).ack, us(107));
    }
}
