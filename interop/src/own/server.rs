//! Our server: answers until it is ended from outside.

use std::collections::HashMap;
use std::io::Write;
use std::time::Duration;

use tack_endpoint::{Endpoint, Event, Handle};

use super::hq::HqService;
use super::http3::H3Service;
use super::settings::Settings;
use super::{OwnError, Service};
use crate::contract::{Protocol, READY};

const TURN: Duration = Duration::from_millis(100);
/// The application's error code for what is no request.
const BAD_REQUEST: u64 = 1;

pub fn run(settings: &Settings) -> Result<(), OwnError> {
    let mut endpoint =
        Endpoint::server(settings.address, settings.quic()?, settings.endpoint())?;
    println!("{READY}{}", endpoint.local_addr());
    // Nobody is left to serve if it cannot be told.
    let _ = std::io::stdout().flush();

    let mut services: HashMap<Handle, Box<dyn Service>> = HashMap::new();
    loop {
        endpoint.poll(Some(TURN))?;
        while let Some(event) = endpoint.next_event() {
            match event {
                Event::Connected(handle) | Event::Activity(handle) => {
                    let service =
                        services.entry(handle).or_insert_with(|| match settings.protocol {
                            Protocol::Hq => Box::<HqService>::default(),
                            Protocol::H3 => Box::<H3Service>::default(),
                        });
                    serve(&mut endpoint, handle, &mut **service, settings);
                }
                Event::Closed(handle, reason) => {
                    eprintln!("{handle}: {reason}");
                    services.remove(&handle);
                }
                _ => {}
            }
        }
    }
}

fn serve(
    endpoint: &mut Endpoint,
    handle: Handle,
    service: &mut dyn Service,
    settings: &Settings,
) {
    let Some(connection) = endpoint.connection_mut(handle) else { return };
    if let Err(error) = service.pump(connection, settings) {
        eprintln!("{handle}: {error}");
        // `Done` would only say that it is closing already.
        let _ = connection.close(true, BAD_REQUEST, b"no such thing");
    }
}
