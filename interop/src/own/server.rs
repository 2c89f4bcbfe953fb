//! Our server: answers until it is ended from outside.

use std::collections::HashMap;
use std::fs;
use std::io::Write;
use std::time::Duration;

use tack_endpoint::{Endpoint, Event, Handle};

use super::OwnError;
use super::outgoing::Outgoing;
use super::settings::Settings;
use crate::contract::{Method, READY, parse_request};

const TURN: Duration = Duration::from_millis(100);
/// More than any test case sends in a request.
const LONGEST_REQUEST: usize = 64 << 20;
/// The application's error code for what is no request.
const BAD_REQUEST: u64 = 1;

enum Exchange {
    Asking(Vec<u8>),
    Answering(Outgoing),
}

pub fn run(settings: &Settings) -> Result<(), OwnError> {
    let mut endpoint =
        Endpoint::server(settings.address, settings.quic()?, settings.endpoint())?;
    println!("{READY}{}", endpoint.local_addr());
    // Nobody is left to serve if it cannot be told.
    let _ = std::io::stdout().flush();

    let mut exchanges: HashMap<(Handle, u64), Exchange> = HashMap::new();
    loop {
        endpoint.poll(Some(TURN))?;
        while let Some(event) = endpoint.next_event() {
            match event {
                Event::Connected(handle) | Event::Activity(handle) => {
                    serve(&mut endpoint, handle, &mut exchanges, settings);
                }
                Event::Closed(handle, reason) => {
                    eprintln!("{handle}: {reason}");
                    exchanges.retain(|(of, _), _| *of != handle);
                }
            }
        }
    }
}

fn serve(
    endpoint: &mut Endpoint,
    handle: Handle,
    exchanges: &mut HashMap<(Handle, u64), Exchange>,
    settings: &Settings,
) {
    let Some(connection) = endpoint.connection_mut(handle) else { return };
    let mut buffer = [0; 16 << 10];
    for stream in connection.readable() {
        let exchange = exchanges.entry((handle, stream));
        let exchange = exchange.or_insert_with(|| Exchange::Asking(Vec::new()));
        while let Ok((len, fin)) = connection.stream_recv(stream, &mut buffer) {
            let Exchange::Asking(request) = exchange else { continue };
            request.extend_from_slice(&buffer[..len]);
            if request.len() > LONGEST_REQUEST {
                // `Done` would only say that it is closing already.
                let _ = connection.close(true, BAD_REQUEST, b"too long");
                return;
            }
            if !fin {
                continue;
            }
            match answer(request, settings) {
                Ok(answer) => *exchange = Exchange::Answering(Outgoing::new(answer)),
                Err(error) => {
                    eprintln!("{handle}: stream {stream}: {error}");
                    let _ = connection.close(true, BAD_REQUEST, b"no such thing");
                    return;
                }
            }
        }
    }
    exchanges.retain(|(of, stream), exchange| {
        let Exchange::Answering(answer) = exchange else { return true };
        if *of != handle {
            return true;
        }
        if let Err(error) = answer.write(connection, *stream) {
            eprintln!("{handle}: stream {stream}: {error}");
            return false;
        }
        !answer.is_done()
    });
}

fn answer(request: &[u8], settings: &Settings) -> Result<Vec<u8>, OwnError> {
    let bad = || OwnError::Ended("not a request".to_owned());
    let end = request.iter().position(|byte| *byte == b'\n').ok_or_else(bad)?;
    let line = std::str::from_utf8(&request[..end]).map_err(|_| bad())?.trim_end();
    // What is asked for is the same but for the slash.
    let line = line.replacen(" /", " ", 1);
    let (method, name) = parse_request(&line).ok_or_else(bad)?;
    let file = |error| OwnError::File(name.to_owned(), error);
    match method {
        Method::Get => fs::read(settings.files.join(name)).map_err(file),
        Method::Put => {
            fs::write(settings.received.join(name), &request[end + 1..]).map_err(file)?;
            Ok(Vec::new())
        }
    }
}
