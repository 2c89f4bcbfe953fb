//! When quiche has MAX_STREAMS to send.
//!
//! What: a mirror of how many streams the peer may open. Why: MAX_STREAMS that waits with an
//! acknowledgement stops a peer that has opened all streams it may and sends nothing more: no acknowledgement
//! is due then. quiche does not say when it has one. quiche's rule is followed from outside: it sends one
//! when a stream of the peer is done with and half of the first limit is left, or less (0.30,
//! `should_update_max_streams_uni`); a question in vain costs no packet. Upstream: no hook. To delete: when
//! quiche tells whether it has anything to send but an acknowledgement.

use tack_proto::transport_parameters::Parameters;
use tack_proto::varint::Reader;

/// The streams that the peer may open.
#[derive(Debug)]
pub struct MaxStreams {
    bidi: Openable,
    uni: Openable,
    is_server: bool,
}

/// Those of one kind.
#[derive(Clone, Copy, Debug, Default)]
struct Openable {
    initial: u64,
    /// As it was announced, as far as is known: quiche may have announced more.
    limit: u64,
    opened: u64,
    finished: u64,
}

impl Openable {
    fn new(initial: u64) -> Self {
        Self { initial, limit: initial, ..Self::default() }
    }

    fn is_low(&self) -> bool {
        self.limit.saturating_sub(self.opened) <= self.initial / 2
    }

    fn on_asked(&mut self) {
        if self.is_low() {
            self.limit = self.limit.max(self.initial + self.finished);
        }
    }
}

impl MaxStreams {
    /// Starts from our own encoded transport parameters.
    pub fn new(parameters: &[u8], is_server: bool) -> Self {
        let (mut bidi, mut uni) = (Openable::default(), Openable::default());
        for (id, value) in Parameters::new(parameters).flatten() {
            let Ok(value) = Reader::new(value).read_varint() else { continue };
            match id {
                0x08 => bidi = Openable::new(value),
                0x09 => uni = Openable::new(value),
                _ => {}
            }
        }
        Self { bidi, uni, is_server }
    }

    /// The application is done with a stream; whether quiche may have MAX_STREAMS to send now.
    pub fn on_finished(&mut self, stream_id: u64) -> bool {
        // RFC 9000 section 2.1: bit 0 is the initiator, bit 1 the direction.
        let is_own = (stream_id & 1 == 1) == self.is_server;
        if is_own {
            return false;
        }
        let openable = if stream_id & 2 == 0 { &mut self.bidi } else { &mut self.uni };
        // The peer has opened all below it.
        openable.opened = openable.opened.max(stream_id / 4 + 1);
        openable.finished += 1;
        openable.is_low()
    }

    /// quiche was asked for what it has to announce.
    pub fn on_asked(&mut self) {
        self.bidi.on_asked();
        self.uni.on_asked();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits() -> MaxStreams {
        let mut blob = Vec::new();
        for (id, limit) in [(0x08, 6_u64), (0x09, 1)] {
            let mut value = Vec::new();
            tack_proto::varint::put(&mut value, limit);
            tack_proto::transport_parameters::set(&mut blob, id, &value).unwrap();
        }
        MaxStreams::new(&blob, true)
    }

    #[test]
    fn quiche_is_asked_when_half_of_the_streams_are_left() {
        let mut limits = limits();
        let due: Vec<bool> = (0..4).map(|index| limits.on_finished(index * 4)).collect();
        assert_eq!(due, [false, false, true, true]);
        limits.on_asked();
        assert!(!limits.on_finished(16), "ten may be opened, and five have been");
        assert!(limits.on_finished(2), "of one stream each counts");
        assert!((0..10).all(|index| !limits.on_finished(index * 4 + 1)), "this end's own");
    }

    #[test]
    fn one_that_is_finished_counts_although_many_others_stay_open() {
        let mut limits = limits();
        assert!(limits.on_finished(20), "the peer has opened all six");
    }
}
