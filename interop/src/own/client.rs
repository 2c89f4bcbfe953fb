//! Our client: all requests at once, each on a stream of its own.

use std::net::Ipv4Addr;
use std::time::Duration;

use tack_endpoint::{Endpoint, Event};

use super::hq::HqClient;
use super::http3::H3Client;
use super::request::Request;
use super::settings::Settings;
use super::{Client, OwnError};
use crate::contract::Protocol;

const TURN: Duration = Duration::from_millis(100);

pub fn run(settings: &Settings) -> Result<(), OwnError> {
    let requests = Request::all(settings)?;
    let mut client: Box<dyn Client> = match settings.protocol {
        Protocol::Hq => Box::new(HqClient::new(requests)),
        Protocol::H3 => Box::new(H3Client::new(requests)),
    };
    let local = (Ipv4Addr::LOCALHOST, 0).into();
    let mut endpoint = Endpoint::client(local, settings.endpoint())?;
    let handle =
        endpoint.connect(settings.address, Some("localhost"), &mut settings.quic()?)?;

    // Bound by the handshake timeout, then by the idle timeout.
    while !is_done(&*client) {
        endpoint.poll(Some(TURN))?;
        while let Some(event) = endpoint.next_event() {
            if let Some(connection) = endpoint.connection_mut(handle) {
                client.pump(connection)?;
            }
            if let Event::Closed(_, reason) = event
                && !is_done(&*client)
            {
                return Err(OwnError::Ended(reason.to_string()));
            }
        }
    }
    client.requests().try_for_each(|request| request.keep(settings))?;
    endpoint.shutdown(settings.no_error(), b"done");
    while !endpoint.is_idle() {
        endpoint.poll(Some(TURN))?;
        while endpoint.next_event().is_some() {}
    }
    Ok(())
}

fn is_done(client: &dyn Client) -> bool {
    client.requests().all(|request| request.is_answered)
}
