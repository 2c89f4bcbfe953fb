//! ICMP port unreachable: the port of a peer is closed.
//!
//! Linux tells a socket that has no fixed peer of ICMP errors only if it asks for them (`IP_RECVERR`, ip(7)). Each
//! then fails one call, whichever comes next, and waits in a queue besides, which is of no interest here.
//! RFC 9000 has no use for such errors, as an attacker who guesses the port can forge them: they count only until the first
//! datagram comes.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether a socket is told of refusals.
pub(crate) struct Refusals(AtomicBool);

impl Refusals {
    /// Asks for them, if they are `wanted`.
    pub(crate) fn new(socket: &std::net::UdpSocket, wanted: bool) -> Self {
        Self(AtomicBool::new(wanted && set(socket, true)))
    }

    /// Whether `error` is one.
    pub(crate) fn is_one(&self, error: &io::Error) -> bool {
        error.kind() == io::ErrorKind::ConnectionRefused && self.0.load(Ordering::Relaxed)
    }

    /// A call has failed. Empties the queue, which keeps the socket in an error state.
    pub(crate) fn on_error<S: Source>(&self, socket: &S, error: &io::Error) {
        if error.kind() != io::ErrorKind::WouldBlock && self.0.load(Ordering::Relaxed) {
            // Switching it off forgets all that waits.
            set(socket, false);
            self.0.store(set(socket, true), Ordering::Relaxed);
        }
    }

    /// Something was received.
    pub(crate) fn end<S: Source>(&self, socket: &S) {
        if self.0.load(Ordering::Relaxed) {
            set(socket, false);
            self.0.store(false, Ordering::Relaxed);
        }
    }
}

#[cfg(target_os = "linux")]
pub(crate) use std::os::fd::AsFd as Source;

/// Whether it is as it was wanted.
#[cfg(target_os = "linux")]
fn set(socket: &impl Source, on: bool) -> bool {
    use nix::sys::socket::{
        setsockopt,
        sockopt::{Ipv4RecvErr, Ipv6RecvErr},
    };
    // A socket of one IP version refuses the other's option.
    let (v4, v6) = (setsockopt(socket, Ipv4RecvErr, &on), setsockopt(socket, Ipv6RecvErr, &on));
    v4.is_ok() || v6.is_ok()
}

#[cfg(not(target_os = "linux"))]
pub(crate) trait Source {}
#[cfg(not(target_os = "linux"))]
impl<T> Source for T {}

#[cfg(not(target_os = "linux"))]
fn set(_socket: &impl Source, _on: bool) -> bool {
    false
}
