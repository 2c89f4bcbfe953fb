//! When quiche has MAX_STREAMS to send.
//!
//! What: counts the streams of the peer that the application has read to their end. Why: MAX_STREAMS that
//! waits with an acknowledgement stops a peer that has opened all streams it may and sends nothing more: no
//! acknowledgement is due then. quiche does not say when it has one. quiche's rule is followed from
//! outside: it sends one when half of the first limit is left (0.30, `should_update_max_streams_uni`), so
//! that it is asked after so many ends; a question in vain costs no packet. Upstream: no hook. To delete: when
//! quiche tells whether it has anything to send but an acknowledgement.

use tack_proto::transport_parameters::Parameters;
use tack_proto::varint::Reader;

/// The limits of the streams that the peer may open, by direction.
#[derive(Debug)]
pub struct MaxStreams {
    initial: [u64; 2],
    ended: [u64; 2],
    is_server: bool,
}

impl MaxStreams {
    /// Starts from our own encoded transport parameters.
    pub fn new(parameters: &[u8], is_server: bool) -> Self {
        let mut initial = [0; 2];
        for (id, value) in Parameters::new(parameters).flatten() {
            let Ok(value) = Reader::new(value).read_varint() else { continue };
            match id {
                0x08 => initial[0] = value,
                0x09 => initial[1] = value,
                _ => {}
            }
        }
        Self { initial, ended: [0; 2], is_server }
    }

    /// The application has read a stream to its end; whether quiche may have MAX_STREAMS to send now.
    pub fn on_end(&mut self, stream_id: u64) -> bool {
        // RFC 9000 section 2.1: bit 0 is the initiator, bit 1 the direction.
        let is_own = (stream_id & 1 == 1) == self.is_server;
        if is_own {
            return false;
        }
        let direction = usize::from(stream_id & 2 != 0);
        let ended = &mut self.ended[direction];
        *ended += 1;
        let is_due = *ended >= self.initial[direction].div_ceil(2);
        if is_due {
            *ended = 0;
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_due_after_half_of_the_streams_that_the_peer_may_open() {
        let mut blob = Vec::new();
        for (id, limit) in [(0x08, 5u64), (0x09, 1)] {
            let mut value = Vec::new();
            tack_proto::varint::put(&mut value, limit);
            tack_proto::transport_parameters::set(&mut blob, id, &value).unwrap();
        }
        let mut limits = MaxStreams::new(&blob, true);
        let ends: Vec<bool> = (0..6).map(|index| limits.on_end(index * 4)).collect();
        assert_eq!(ends, [false, false, true, false, false, true]);
        assert!(limits.on_end(2) && limits.on_end(6), "of one stream each counts");
        assert!((0..10).all(|index| !limits.on_end(index * 4 + 1)), "this end's own");
    }
}
