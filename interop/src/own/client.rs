//! Our client: all requests at once, each on a stream of its own.

use std::fs;
use std::net::Ipv4Addr;
use std::time::Duration;

use tack_endpoint::{Endpoint, Event, Handle};

use super::OwnError;
use super::outgoing::Outgoing;
use super::settings::Settings;
use crate::contract::Method;

const TURN: Duration = Duration::from_millis(100);

struct Exchange {
    stream: u64,
    method: Method,
    name: String,
    request: Outgoing,
    answer: Vec<u8>,
    answered: bool,
}

pub fn run(settings: &Settings) -> Result<(), OwnError> {
    let mut exchanges = exchanges(settings)?;
    let local = (Ipv4Addr::LOCALHOST, 0).into();
    let mut endpoint = Endpoint::client(local, settings.endpoint())?;
    let handle =
        endpoint.connect(settings.address, Some("localhost"), &mut settings.quic()?)?;

    // Bound by the handshake timeout, then by the idle timeout.
    while !exchanges.iter().all(|exchange| exchange.answered) {
        endpoint.poll(Some(TURN))?;
        while let Some(event) = endpoint.next_event() {
            match event {
                Event::Connected(_) | Event::Activity(_) => {
                    pump(&mut endpoint, handle, &mut exchanges)?;
                }
                Event::Closed(_, reason) => {
                    pump(&mut endpoint, handle, &mut exchanges)?;
                    if !exchanges.iter().all(|exchange| exchange.answered) {
                        return Err(OwnError::Ended(reason.to_string()));
                    }
                }
            }
        }
    }
    for Exchange { method, name, answer, .. } in &exchanges {
        if *method == Method::Get {
            let path = settings.received.join(name);
            fs::write(&path, answer)
                .map_err(|error| OwnError::File(path.display().to_string(), error))?;
        }
    }
    endpoint.shutdown(0, b"done");
    while !endpoint.is_idle() {
        endpoint.poll(Some(TURN))?;
        while endpoint.next_event().is_some() {}
    }
    Ok(())
}

fn exchanges(settings: &Settings) -> Result<Vec<Exchange>, OwnError> {
    let requests = Settings::requests()?.into_iter().enumerate();
    requests
        .map(|(at, (method, name))| {
            let mut request = format!("{} /{name}\r\n", method.name()).into_bytes();
            if method == Method::Put {
                let path = settings.files.join(&name);
                let body = fs::read(&path)
                    .map_err(|error| OwnError::File(path.display().to_string(), error))?;
                request.extend(body);
            }
            Ok(Exchange {
                stream: 4 * at as u64, // bidirectional, the client's
                method,
                name,
                request: Outgoing::new(request),
                answer: Vec::new(),
                answered: false,
            })
        })
        .collect()
}

fn pump(
    endpoint: &mut Endpoint,
    handle: Handle,
    exchanges: &mut [Exchange],
) -> Result<(), OwnError> {
    let Some(connection) = endpoint.connection_mut(handle) else { return Ok(()) };
    let mut buffer = [0; 16 << 10];
    for exchange in exchanges.iter_mut().filter(|exchange| !exchange.answered) {
        if !connection.is_closed() {
            exchange.request.write(connection, exchange.stream)?;
        }
        loop {
            match connection.stream_recv(exchange.stream, &mut buffer) {
                Ok((len, fin)) => {
                    exchange.answer.extend_from_slice(&buffer[..len]);
                    exchange.answered |= fin;
                }
                // Nothing more for now, or the stream could not be opened yet, or is finished.
                Err(quiche::Error::Done | quiche::Error::InvalidStreamState(_)) => break,
                Err(error) => return Err(error.into()),
            }
        }
    }
    Ok(())
}
