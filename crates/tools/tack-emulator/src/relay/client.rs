//! Clients, and the addresses by which the servers know them.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::Change;
use super::socket::Socket;

pub(super) struct Client {
    pub(super) address: SocketAddr,
    /// Place of the server in the setup.
    pub(super) server: usize,
    /// Place of its upstream that counts.
    pub(super) current: usize,
}

/// A socket that stands for a client.
pub(super) struct Upstream {
    pub(super) client: usize,
    /// How many the client had before.
    pub(super) path: u32,
    pub(super) socket: Socket,
}

impl Upstream {
    pub(super) fn first(client: usize, server: SocketAddr) -> io::Result<Self> {
        Ok(Self { client, path: 0, socket: listener(server)? })
    }

    /// The one that follows.
    pub(super) fn next(&self, change: Change) -> io::Result<Self> {
        let host = self.socket.local_addr()?.ip();
        let host = match (change, host) {
            (Change::Port, host) => host,
            (Change::Address, IpAddr::V4(host)) => {
                Ipv4Addr::from(u32::from(host).wrapping_add(1)).into()
            }
            (Change::Address, IpAddr::V6(_)) => {
                let message = "there is only one loopback address in IPv6 to rebind to";
                return Err(io::Error::new(io::ErrorKind::Unsupported, message));
            }
        };
        Ok(Self { client: self.client, path: self.path + 1, socket: Socket::bind(host)? })
    }
}

/// A socket for clients of that server.
pub(super) fn listener(server: SocketAddr) -> io::Result<Socket> {
    Socket::bind(loopback(server))
}

const fn loopback(server: SocketAddr) -> IpAddr {
    match server {
        SocketAddr::V4(_) => IpAddr::V4(Ipv4Addr::LOCALHOST),
        SocketAddr::V6(_) => IpAddr::V6(Ipv6Addr::LOCALHOST),
    }
}
