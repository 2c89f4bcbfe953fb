//! Answers to path challenges of full length.
//!
//! What: the least payload of a packet with a PATH_RESPONSE. Why: RFC 9000 section 8.2.2 wants the
//! datagram expanded to 1,200 bytes, so that the path's MTU is validated both ways; quiche (0.30) does
//! not expand it. Upstream: not reported. To delete: when quiche pads answers.

use super::path_validation::PATH_PROBE_LEN;

/// Payload bytes of a packet with an answer, where the datagram may have `room` bytes and header and
/// tag take `overhead` of them.
pub fn least_len(room: usize, overhead: usize) -> usize {
    room.min(PATH_PROBE_LEN).saturating_sub(overhead)
}
