//! Looking on as packets pass.

use tack_link::{Arrival, Direction, Packet};

/// Something that counts or measures what goes over a link.
pub trait Observer: Send + 'static {
    /// A packet left an end and goes onto the link now; `packet.sent` is the time.
    fn sent(&mut self, direction: Direction, packet: &Packet);

    /// A packet came out of the link.
    fn arrived(&mut self, arrival: &Arrival);
}

/// Observes nothing.
impl Observer for () {
    fn sent(&mut self, _: Direction, _: &Packet) {}

    fn arrived(&mut self, _: &Arrival) {}
}
