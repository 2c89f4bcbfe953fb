//! What went over the wire, packet by packet.

use std::io::{self, Write};

use tack_link::{Direction, Time};

/// One line for each packet that is put on the link or comes out of it:
/// nanoseconds, `+` sent or `-` arrived, flow, `>` data or `<` acknowledgements, length of the IP
/// packet, `long` or `short` header.
///
/// The same scenario gives the same bytes. Contents are left out: keys differ from run to run,
/// as TLS draws some randomness that cannot be replaced, and with them ciphertexts.
pub struct Trace<'a> {
    out: Option<&'a mut dyn Write>,
    error: Option<io::Error>,
}

/// Whether a packet begins its way or ends it.
#[derive(Clone, Copy)]
pub enum Event {
    Sent,
    Arrived,
}

impl<'a> Trace<'a> {
    pub fn new(out: Option<&'a mut dyn Write>) -> Self {
        Self { out, error: None }
    }

    pub fn note(
        &mut self,
        event: Event,
        (flow, direction): (usize, Direction),
        (size, datagram): (u32, &[u8]),
        now: Time,
    ) {
        let Some(out) = &mut self.out else { return };
        let event = match event {
            Event::Sent => '+',
            Event::Arrived => '-',
        };
        let way = match direction {
            Direction::Forward => '>',
            Direction::Reverse => '<',
        };
        let long = datagram.first().is_some_and(|first| first & 0x80 != 0);
        let header = if long { "long" } else { "short" };
        let nanos = now.as_nanos();
        let written = writeln!(out, "{nanos} {event} {flow} {way} {size} {header}");
        if let Err(error) = written {
            self.error.get_or_insert(error);
        }
    }

    /// The first error, if there was one.
    pub fn finish(self) -> io::Result<()> {
        self.error.map_or(Ok(()), Err)
    }
}
