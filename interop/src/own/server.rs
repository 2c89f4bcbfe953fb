//! Our server: answers until it is ended from outside.

use std::collections::HashMap;
use std::io::Write;
use std::time::Duration;

use tack_endpoint::{Endpoint, Event, Handle};

use super::actions::Actions;
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
    // Without a reader there is no client either.
    let _ = std::io::stdout().flush();

    let mut services: HashMap<Handle, (Box<dyn Service>, Actions)> = HashMap::new();
    loop {
        endpoint.poll(Some(TURN))?;
        while let Some(event) = endpoint.next_event() {
            match event {
                Event::Connected(handle) | Event::Activity(handle) => {
                    let (service, actions) = services
                        .entry(handle)
                        .or_insert_with(|| (service(settings), Actions::new(settings)));
                    serve(&mut endpoint, handle, &mut **service, actions, settings);
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

fn service(settings: &Settings) -> Box<dyn Service> {
    match settings.protocol {
        Protocol::Hq => Box::<HqService>::default(),
        Protocol::H3 => Box::<H3Service>::default(),
    }
}

fn serve(
    endpoint: &mut Endpoint,
    handle: Handle,
    service: &mut dyn Service,
    actions: &mut Actions,
    settings: &Settings,
) {
    let Some(connection) = endpoint.connection_mut(handle) else { return };
    let done = service.pump(connection, settings).and_then(|()| Ok(actions.act(connection)?));
    if let Err(error) = done {
        eprintln!("{handle}: {error}");
        // `Done` would only say that it is closing already.
        let _ = connection.close(true, BAD_REQUEST, b"no such thing");
    }
}
