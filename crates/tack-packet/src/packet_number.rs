//! Truncated packet numbers (RFC 9000 section 17.1 and appendix A).

/// Shortens a packet number for a header: the value to write and its length in bytes, 1 to 4.
///
/// `largest_acked` is the largest number that the peer is known to have received, if any.
/// `None` if `packet_number` is not above it, or more than four bytes could tell apart.
pub fn encode_packet_number(
    packet_number: u64,
    largest_acked: Option<u64>,
) -> Option<(u32, usize)> {
    let unacked = match largest_acked {
        Some(acked) => packet_number.checked_sub(acked).filter(|&distance| distance > 0)?,
        None => packet_number.checked_add(1)?,
    };
    // RFC 9000 section 17.1 wants *more* than twice the distance, which at powers of two is one
    // bit more than the sample code of A.2 takes.
    let bits = u64::BITS - unacked.leading_zeros() + 1;
    let len = bits.div_ceil(8) as usize;
    (len <= 4).then(|| ((packet_number & window_mask(len)) as u32, len))
}

/// Restores a packet number of which `len` bytes (1 to 4) were sent: the candidate closest to
/// `expected`, one above the largest number received so far (RFC 9000 appendix A.3).
#[inline]
pub fn decode_packet_number(expected: u64, truncated: u32, len: usize) -> u64 {
    const MAX: u64 = 1 << 62;

    let mask = window_mask(len);
    let (window, half) = (mask + 1, mask / 2 + 1);
    let candidate = (expected & !mask) | (u64::from(truncated) & mask);
    if candidate.saturating_add(half) <= expected && candidate < MAX - window {
        candidate + window
    } else if candidate > expected.saturating_add(half) && candidate >= window {
        candidate - window
    } else {
        candidate
    }
}

/// The bits of a packet number that `len` bytes carry.
#[inline]
fn window_mask(len: usize) -> u64 {
    let len = len.clamp(1, 4);
    (1 << (8 * len)) - 1
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn encodes_the_examples_of_rfc9000_a2() {
        let acked = Some(0x00ab_e8b3);
        assert_eq!(encode_packet_number(0x00ac_5c02, acked), Some((0x5c02, 2)));
        assert_eq!(encode_packet_number(0x00ac_e8fe, acked), Some((0x00ac_e8fe, 3)));
    }

    #[test]
    fn decodes_the_example_of_rfc9000_a3() {
        assert_eq!(decode_packet_number(0xa82f_30eb, 0x9b32, 2), 0xa82f_9b32);
    }

    #[test]
    fn the_first_packets_take_one_byte() {
        assert_eq!(encode_packet_number(0, None), Some((0, 1)));
        assert_eq!(encode_packet_number(126, None), Some((126, 1)));
        assert_eq!(encode_packet_number(127, None), Some((127, 2)));
    }

    #[test]
    fn a_distance_that_four_bytes_cannot_tell_apart_is_refused() {
        assert!(encode_packet_number((1 << 31) - 1, Some(0)).is_some());
        assert_eq!(encode_packet_number(1 << 31, Some(0)), None);
        assert_eq!(encode_packet_number(u64::MAX, None), None);
    }

    #[test]
    fn a_number_already_acknowledged_is_refused() {
        assert_eq!(encode_packet_number(7, Some(7)), None);
        assert_eq!(encode_packet_number(6, Some(7)), None);
    }

    #[test]
    fn of_two_candidates_equally_close_the_higher_is_meant() {
        assert_eq!(decode_packet_number(0x280, 0x00, 1), 0x300);
        assert_eq!(decode_packet_number(0x200, 0x80, 1), 0x280);
    }

    #[test]
    fn decoding_reaches_into_the_windows_before_and_after() {
        assert_eq!(decode_packet_number(0x1ff, 0x02, 1), 0x202);
        assert_eq!(decode_packet_number(0x202, 0xff, 1), 0x1ff);
        assert_eq!(decode_packet_number(0, 0xff, 1), 0xff); // nothing lies below zero
        let last = (1 << 62) - 1;
        assert_eq!(decode_packet_number(last, 0, 1), last - 0xff); // nor above 2^62 - 1
    }

    proptest! {
        #[test]
        fn what_is_encoded_decodes_for_whatever_the_receiver_has_seen(
            acked in 0..(1_u64 << 62) - (1 << 31),
            distance in 1..1_u64 << 31,
            seen in 0..1_u64 << 31,
        ) {
            let number = acked + distance;
            let (truncated, len) = encode_packet_number(number, Some(acked)).unwrap();
            // A receiver has seen at least `acked` and at most the packet before this one.
            let expected = acked + 1 + seen % distance;
            prop_assert_eq!(decode_packet_number(expected, truncated, len), number);
        }

        #[test]
        fn decoding_any_value_is_the_closest_candidate(
            expected in 0..1_u64 << 62,
            truncated: u32,
            len in 0..9_usize,
        ) {
            let number = decode_packet_number(expected, truncated, len);
            let mask = window_mask(len);
            prop_assert_eq!(number & mask, u64::from(truncated) & mask);
            prop_assert!(number.abs_diff(expected) <= mask);
        }

        #[test]
        fn decoding_never_panics(expected: u64, truncated: u32, len: usize) {
            decode_packet_number(expected, truncated, len);
        }
    }
}
