//! Packets without stream data.
//!
//! What: the length of a buffer in which quiche has room for acknowledgements, PINGs, window updates
//! and the like, and none for stream data. Why: quiche's own congestion window is pinned open, so only
//! the layer knows whether data may leave; and quiche fills every packet that it is asked for.
//! Upstream: no hook says "control frames only". To delete: when quiche has one, or takes a congestion
//! controller from outside.

use tack_packet::TAG_LEN;

/// quiche (0.30, `frame::MAX_STREAM_OVERHEAD`) writes a STREAM frame only where more room than this is
/// left in the packet.
const MAX_STREAM_OVERHEAD: usize = 12;

/// Bytes of a short-header packet that cannot hold stream data.
///
/// `largest_acked` must not be below what quiche takes for the largest acknowledged number: then
/// quiche's packet number is at least as long as assumed here, and leaves no more room.
pub fn without_stream_data(
    dcid_len: usize,
    packet_number: u64,
    largest_acked: Option<u64>,
) -> usize {
    let pn_len = packet_number_len(packet_number, largest_acked.unwrap_or(packet_number));
    1 + dcid_len + pn_len + TAG_LEN + MAX_STREAM_OVERHEAD
}

/// How quiche (0.30, `pkt_num_len`) chooses the length of a packet number.
fn packet_number_len(packet_number: u64, largest_acked: u64) -> usize {
    let unacked = packet_number.saturating_sub(largest_acked) + 1;
    let bits = u64::BITS - unacked.leading_zeros() + 1;
    bits.div_ceil(8) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_room_is_that_of_the_shortest_packet_number_that_quiche_may_choose() {
        assert_eq!(without_stream_data(8, 100, None), 1 + 8 + 1 + 16 + 12);
        assert_eq!(without_stream_data(8, 100, Some(99)), 1 + 8 + 1 + 16 + 12);
        assert_eq!(without_stream_data(0, 1000, Some(0)), 1 + 2 + 16 + 12);
    }
}
