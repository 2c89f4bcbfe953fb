//! Application protocols above a pair of byte streams.
//!
//! An [`Application`] is one end of such a protocol, without I/O and without a clock. What is below it
//! is a [`ByteStream`]: a connection of a QUIC stack in virtual time
//! ([`sim::run_applications`](crate::sim::run_applications)), a cable without a transport
//! ([`cable`]), or the kernel's TCP in real time ([`kernel_tcp`]). So the same protocol shows what each of them makes of it.

pub mod adb;
mod buffers;
pub mod cable;
pub mod kernel_tcp;
pub mod raw_paste;
pub mod request_reply;

use tack_link::Time;

pub use buffers::{Inbox, Outbox};

/// One end of an application protocol.
pub trait Application {
    /// Reads what has arrived and writes what the stream takes. Called when the stream may have
    /// changed, and when [`next_event`](Self::next_event) is due.
    fn turn(&mut self, stream: &mut dyn ByteStream, now: Time) -> Result<(), ApplicationError>;

    /// When it has something to do by itself; `None` if it waits for the other end.
    fn next_event(&self) -> Option<Time>;

    /// Whether it has nothing more to do. A run is over when its client has finished.
    fn is_finished(&self) -> bool;
}

/// A reliable stream of bytes in each direction.
pub trait ByteStream {
    /// Whether it can be written to: a handshake is over.
    fn is_open(&mut self) -> bool;

    /// Takes what has arrived, up to the length of `out`; returns how many bytes. None: 0.
    fn read(&mut self, out: &mut [u8]) -> usize;

    /// Writes what fits; returns how many bytes were taken. None: 0.
    fn write(&mut self, bytes: &[u8]) -> usize;

    /// Whether the transport of the other end has acknowledged all that was written; `None` where the
    /// stack does not tell.
    fn is_drained(&mut self) -> Option<bool>;
}

/// Why an application gave up.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ApplicationError {
    /// The other end does not keep to the protocol.
    #[error("{protocol}: {problem}")]
    Protocol {
        /// Which protocol.
        protocol: &'static str,
        /// What came, and what was expected.
        problem: String,
    },
    /// It waits for acknowledgements, and the stack does not tell of them.
    #[error(
        "the stack does not tell when data is acknowledged: use a TACK stack, a cable or TCP"
    )]
    DrainUnknown,
}
