//! Our client: all requests at once, each on a stream of its own. Where a session is to be
//! resumed, the first request is made on a connection before.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::{Duration, Instant};

use tack_endpoint::{Endpoint, Event, Handle};

use super::actions::Actions;
use super::hq::HqClient;
use super::http3::H3Client;
use super::request::Request;
use super::settings::Settings;
use super::{Client, OwnError};
use crate::contract::Protocol;

const TURN: Duration = Duration::from_millis(100);
/// How long the close is repeated if it did not arrive. Three PTOs would be minutes after a
/// handshake that took its time; an end that closes its socket need not wait (RFC 9000 section
/// 10.2).
const LINGER: Duration = Duration::from_secs(2);

pub fn run(settings: &Settings) -> Result<(), OwnError> {
    let mut requests = Request::all(settings)?;
    let host = match settings.address {
        SocketAddr::V4(_) => IpAddr::V4(Ipv4Addr::LOCALHOST),
        SocketAddr::V6(_) => IpAddr::V6(Ipv6Addr::LOCALHOST),
    };
    let local = (host, 0).into();
    let mut endpoint = Endpoint::client(local, settings.endpoint())?;
    let ticket = if settings.resumes() {
        let rest = requests.split_off(1);
        let first = std::mem::replace(&mut requests, rest);
        Some(ticket(&mut endpoint, first, settings)?)
    } else {
        None
    };
    exchange(&mut endpoint, requests, ticket.as_deref(), settings)?;
    endpoint.shutdown(settings.no_error(), b"done");
    let closed = Instant::now();
    while !endpoint.is_idle() && closed.elapsed() < LINGER {
        endpoint.poll(Some(TURN))?;
        while endpoint.next_event().is_some() {}
    }
    Ok(())
}

/// Makes requests on a connection of their own, and keeps what is needed to resume it.
fn ticket(
    endpoint: &mut Endpoint,
    requests: Vec<Request>,
    settings: &Settings,
) -> Result<Vec<u8>, OwnError> {
    let handle = exchange(endpoint, requests, None, settings)?;
    // Bound by the idle timeout.
    while let Some(connection) = endpoint.connection_mut(handle) {
        if let Some(ticket) = connection.session().map(<[u8]>::to_vec) {
            // `Done` would only say that it is closing already.
            let _ = connection.close(true, settings.no_error(), b"done");
            return Ok(ticket);
        }
        endpoint.poll(Some(TURN))?;
        while endpoint.next_event().is_some() {}
    }
    Err(OwnError::Ended("the server sent no session ticket".to_owned()))
}

/// Makes requests on a connection, until all are answered.
fn exchange(
    endpoint: &mut Endpoint,
    requests: Vec<Request>,
    ticket: Option<&[u8]>,
    settings: &Settings,
) -> Result<Handle, OwnError> {
    let mut client: Box<dyn Client> = match settings.protocol {
        Protocol::Hq => Box::new(HqClient::new(requests)),
        Protocol::H3 => Box::new(H3Client::new(requests)),
    };
    let handle =
        endpoint.connect(settings.address, Some("localhost"), &mut settings.quic()?)?;
    if let (Some(ticket), Some(connection)) = (ticket, endpoint.connection_mut(handle)) {
        connection.set_session(ticket)?;
    }
    let mut actions = Actions::new(settings);
    // Bound by the handshake timeout, then by the idle timeout.
    while !is_done(&*client) {
        endpoint.poll(Some(TURN))?;
        while let Some(event) = endpoint.next_event() {
            if let Some(connection) = endpoint.connection_mut(handle) {
                client.pump(connection)?;
                actions.act(connection)?;
            }
            if let Event::Closed(of, reason) = event
                && of == handle
                && !is_done(&*client)
            {
                return Err(OwnError::Ended(reason.to_string()));
            }
        }
    }
    client.requests().try_for_each(|request| request.keep(settings))?;
    Ok(handle)
}

fn is_done(client: &dyn Client) -> bool {
    client.requests().all(|request| request.is_answered)
}
