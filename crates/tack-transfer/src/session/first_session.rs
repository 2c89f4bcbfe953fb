//! A TLS session that a server gives before anybody has connected: to a client that is told of it in another way, as by
//! `tack copy` over ssh, whose requests then leave with the first packet (RFC 9001 section 4.6).
//!
//! It is that of a connection within the process. Whoever has it can read what the client sends early, so it is as
//! secret as the access token, and travels the same way.

use std::net::{Ipv4Addr, SocketAddr};

use quiche::{ConnectionId, RecvInfo};
use tacklib::{Config, Connection};

use crate::error::Error;
use crate::quic::{self, Verify};

/// Longer than any datagram of a handshake.
const DATAGRAM: usize = 1500;
/// Turns in which both ends say all that they have to say: a handshake takes three.
const TURNS: usize = 20;

/// The session that a client of `server` has after a handshake; `None` if it gives none.
pub(super) fn first_session(
    server: &mut Config,
    profile: tacklib::Profile,
) -> Result<Option<Vec<u8>>, Error> {
    let (here, there) = (address(1), address(2));
    // The server is this process.
    let mut client = quic::client_config(profile, Verify::Later)?;
    let id = |byte| ConnectionId::from_vec(vec![byte; quiche::MAX_CONN_ID_LEN]);
    let mut client = tacklib::connect(None, &id(1), here, there, &mut client)?;
    let mut server = tacklib::accept(&id(2), None, there, here, server)?;
    for _ in 0..TURNS {
        if let Some(session) = client.session() {
            return Ok(Some(session.to_vec()));
        }
        carry(&mut client, &mut server)?;
        carry(&mut server, &mut client)?;
    }
    Ok(None)
}

fn address(port: u16) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, port))
}

/// Carries what `from` has to say.
fn carry(from: &mut Connection, to: &mut Connection) -> Result<(), Error> {
    let mut datagram = [0; DATAGRAM];
    loop {
        let (len, info) = match from.send(&mut datagram) {
            Ok(sent) => sent,
            Err(quiche::Error::Done) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        to.recv(&mut datagram[..len], RecvInfo { from: info.from, to: info.to })?;
    }
}
