//! Attacks on tacklib in virtual time.
//!
//! A [`Network`] carries the datagrams of real connections over tack-link's models, on one
//! thread and with a virtual clock, so a run depends on nothing but its seed. An attacker sits
//! where a test puts it:
//!
//! - On the path, without keys: a [tap](Network::tap) sees each datagram that an end sends, and
//!   drops, replaces or copies it.
//! - Off the path: [`Network::inject`] delivers a forged datagram from any address.
//! - At one end, with keys: a tap with [`keys::Opener`] and [`keys::Sealer`] changes what an
//!   honest end says, and a [`Puppet`] says what it likes, packet by packet.
//!
//! The tests under `tests/` are the attacks. Each holds a figure that an honest connection
//! must keep, or that an attacker must not exceed.

#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::expect_used)] // a test that cannot be set up has failed
#![allow(clippy::missing_panics_doc)] // for the same reason

mod content;
mod endpoint;
mod identity;
pub mod keys;
pub mod liar;
mod network;
mod puppet;
mod queue;
mod setup;

pub use endpoint::{Endpoint, Stack};
pub use network::{ConnectionIndex, Injection, LinkIndex, Network, Sighting, Verdict};
pub use puppet::{Conduct, Puppet};
pub use queue::QueueLog;
pub use setup::{CID_LEN, Kind, Setup, pipe};
pub use tack_link::{Time, pipe::PipeConfig};

use std::net::{Ipv4Addr, SocketAddr};

/// Which end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The end that connects.
    Client,
    /// The end that accepts.
    Server,
}

impl Side {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Client, Self::Server];

    /// The other one.
    #[must_use]
    pub const fn peer(self) -> Self {
        match self {
            Self::Client => Self::Server,
            Self::Server => Self::Client,
        }
    }

    const fn index(self) -> usize {
        match self {
            Self::Client => 0,
            Self::Server => 1,
        }
    }
}

/// An address of a client; 0 is where each client starts.
pub fn client_address(number: u8) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::new(10, 0, 0, 1 + number), 4001))
}

/// The address of each server.
pub fn server_address() -> SocketAddr {
    SocketAddr::from((Ipv4Addr::new(10, 0, 1, 1), 4433))
}

/// An address that neither end has.
pub fn attacker_address() -> SocketAddr {
    SocketAddr::from((Ipv4Addr::new(10, 0, 2, 66), 6666))
}
