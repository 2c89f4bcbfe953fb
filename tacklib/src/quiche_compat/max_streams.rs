//! When quiche has MAX_STREAMS to send.
//!
//! What: a mirror of how many streams the peer may open. Why: MAX_STREAMS that waits with an acknowledgement stops a peer
//! that has opened all streams it may, and quiche does not say when it has one. It sends one when it has done with a
//! stream of the peer and the peer may open half as many as at first, or less (0.30, `should_update_max_streams_uni`). How
//! many the peer has opened is in packets that the layer does not read; it reads those that end a stream. So it may take
//! the peer to have opened fewer, and then MAX_STREAMS leaves with the acknowledgement that is due. While none is due,
//! quiche is asked about each stream that it has done with. A question in vain costs an acknowledgement, which quiche
//! writes in any case.
//! Upstream: no hook. To delete: when quiche tells whether it has anything to send but an acknowledgement.

use quiche::BufFactory;
use tack_proto::transport_parameters::Parameters;
use tack_proto::varint::Reader;

/// Of the streams of one kind.
#[derive(Clone, Copy, Debug, Default)]
struct Limit {
    initial: u64,
    announced: u64,
    /// At least so many are open, or were.
    opened: u64,
}

/// How many streams the peer may open.
#[derive(Clone, Copy, Debug)]
pub struct MaxStreams {
    bidi: Limit,
    uni: Limit,
    is_server: bool,
}

impl MaxStreams {
    /// Starts from our own encoded transport parameters.
    pub fn new(parameters: &[u8], is_server: bool) -> Self {
        let mut limits = Self { bidi: Limit::default(), uni: Limit::default(), is_server };
        for (id, value) in Parameters::new(parameters).flatten() {
            let Ok(initial) = Reader::new(value).read_varint() else { continue };
            let limit = Limit { initial, announced: initial, opened: 0 };
            match id {
                0x08 => limits.bidi = limit,
                0x09 => limits.uni = limit,
                _ => {}
            }
        }
        limits
    }

    /// A packet with data of this stream has come.
    pub fn on_received(&mut self, stream_id: u64) {
        if !self.is_own(stream_id) {
            let limit = self.of(stream_id);
            limit.opened = limit.opened.max(stream_id / 4 + 1);
        }
    }

    /// MAX_STREAMS leaves.
    pub fn on_max_streams(&mut self, bidi: bool, max: u64) {
        let limit = if bidi { &mut self.bidi } else { &mut self.uni };
        limit.announced = limit.announced.max(max);
    }

    /// The application has read all of a stream, or was told of its end otherwise. Whether quiche is to be asked for
    /// MAX_STREAMS; `is_acknowledgement_due` says that they would soon leave without that.
    pub fn on_over<F: BufFactory>(
        &mut self,
        connection: &quiche::Connection<F>,
        stream_id: u64,
        is_acknowledgement_due: bool,
    ) -> bool {
        if self.is_own(stream_id) || !connection.stream_closed(stream_id) {
            return false;
        }
        self.on_received(stream_id);
        !is_acknowledgement_due || self.of(stream_id).is_to_be_raised()
    }

    /// RFC 9000 section 2.1: bit 0 is the initiator.
    const fn is_own(&self, stream_id: u64) -> bool {
        (stream_id & 1 == 1) == self.is_server
    }

    /// RFC 9000 section 2.1: bit 1 is the direction.
    const fn of(&mut self, stream_id: u64) -> &mut Limit {
        if stream_id & 2 == 0 { &mut self.bidi } else { &mut self.uni }
    }
}

impl Limit {
    const fn is_to_be_raised(&self) -> bool {
        self.announced.saturating_sub(self.opened) <= self.initial / 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_server() -> MaxStreams {
        // initial_max_streams_bidi and initial_max_streams_uni.
        MaxStreams::new(&[0x08, 1, 3, 0x09, 1, 10], true)
    }

    #[test]
    fn a_limit_is_to_be_raised_once_half_of_it_is_used() {
        let mut limits = of_server();
        let raised = |limits: &mut MaxStreams, stream: u64| {
            limits.on_received(stream);
            limits.of(stream).is_to_be_raised()
        };
        assert!(!raised(&mut limits, 4 * 3 + 2), "six are left");
        assert!(raised(&mut limits, 4 * 4 + 2));
        limits.on_max_streams(false, 15);
        assert!(!raised(&mut limits, 4 * 8 + 2));
        assert!(raised(&mut limits, 4 * 9 + 2));
        assert!(!raised(&mut limits, 0), "the other kind");
        assert!(raised(&mut limits, 4));
    }

    #[test]
    fn own_streams_and_late_packets_change_nothing() {
        let mut limits = of_server();
        limits.on_received(4 * 4 + 2);
        limits.on_received(2);
        limits.on_received(4 * 100 + 3);
        assert_eq!((limits.uni.opened, limits.bidi.opened), (5, 0));
    }
}
