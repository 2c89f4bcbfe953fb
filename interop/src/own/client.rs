//! Our client: all requests at once, each on a stream of its own. Where a session is to be
//! resumed, the first request is made on a connection before.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

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
    if let Some(ticket) = &ticket {
        wait_until_age_is_true(&mut endpoint, ticket.came_at)?;
    }
    exchange(
        &mut endpoint,
        requests,
        ticket.map(|ticket| ticket.session).as_deref(),
        settings,
    )?;
    endpoint.shutdown(settings.no_error(), b"done");
    let closed = Instant::now();
    while !endpoint.is_idle() && closed.elapsed() < LINGER {
        endpoint.poll(Some(TURN))?;
        while endpoint.next_event().is_some() {}
    }
    Ok(())
}

/// What a connection can be resumed with.
struct Ticket {
    session: Vec<u8>,
    came_at: SystemTime,
}

/// Waits until BoringSSL tells no higher age of a ticket than it has. It counts the seconds of the wall clock that
/// have begun since, so a ticket of a tenth of a second can be a second old. GnuTLS refuses early data with an age
/// above its own count (RFC 8446 section 8.3 has servers allow for such errors).
fn wait_until_age_is_true(
    endpoint: &mut Endpoint,
    ticket_came_at: SystemTime,
) -> Result<(), OwnError> {
    let second_began = |at: SystemTime| {
        let since_epoch = at.duration_since(UNIX_EPOCH).unwrap_or_default();
        Duration::from_nanos(since_epoch.subsec_nanos().into())
    };
    let came = second_began(ticket_came_at);
    while let Some(left) = came.checked_sub(second_began(SystemTime::now())) {
        endpoint.poll(Some(left))?;
        while endpoint.next_event().is_some() {}
    }
    Ok(())
}

/// Makes requests on a connection of their own, and keeps what is needed to resume it.
fn ticket(
    endpoint: &mut Endpoint,
    requests: Vec<Request>,
    settings: &Settings,
) -> Result<Ticket, OwnError> {
    let Exchanged { handle, ticket_came_at } = exchange(endpoint, requests, None, settings)?;
    // Bound by the idle timeout.
    while let Some(connection) = endpoint.connection_mut(handle) {
        if let Some(session) = connection.session().map(<[u8]>::to_vec) {
            let came_at = ticket_came_at.unwrap_or_else(SystemTime::now);
            // `Done` would only say that it is closing already.
            let _ = connection.close(true, settings.no_error(), b"done");
            return Ok(Ticket { session, came_at });
        }
        endpoint.poll(Some(TURN))?;
        while endpoint.next_event().is_some() {}
    }
    Err(OwnError::Ended("the server sent no session ticket".to_owned()))
}

/// A connection whose requests are answered.
struct Exchanged {
    handle: Handle,
    /// When it had something to be resumed with, if it had by then.
    ticket_came_at: Option<SystemTime>,
}

/// Makes requests on a connection, until all are answered.
fn exchange(
    endpoint: &mut Endpoint,
    requests: Vec<Request>,
    ticket: Option<&[u8]>,
    settings: &Settings,
) -> Result<Exchanged, OwnError> {
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
    let mut ticket_came_at = None;
    // Bound by the handshake timeout, then by the idle timeout.
    while !is_done(&*client) {
        endpoint.poll(Some(TURN))?;
        while let Some(event) = endpoint.next_event() {
            if let Some(connection) = endpoint.connection_mut(handle) {
                client.pump(connection)?;
                actions.act(connection)?;
                if ticket_came_at.is_none() && connection.session().is_some() {
                    ticket_came_at = Some(SystemTime::now());
                }
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
    Ok(Exchanged { handle, ticket_came_at })
}

fn is_done(client: &dyn Client) -> bool {
    client.requests().all(|request| request.is_answered)
}
