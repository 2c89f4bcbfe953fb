//! `video serve-http3`: the same media as HLS over HTTP/3, for players that others wrote.

mod request;
mod response;

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use tack_endpoint::{Endpoint, Event, Handle};
use tacklib::{Config, Connection, Profile, h3};

use self::response::{Progress, Response};
use crate::transport::{self, Identity};

/// The longest wait: so soon a stop is followed.
const LONGEST_WAIT: Duration = Duration::from_millis(100);
/// Requests of a client at a time, and what may come of each.
const REQUESTS: u64 = 64;
const REQUEST_WINDOW: u64 = 64 << 10;

/// The server's configuration.
pub fn config(profile: Profile, identity: Option<Identity<'_>>) -> Result<Config> {
    let mut config = transport::sender(profile, identity)?;
    config.set_application_protos(h3::APPLICATION_PROTOCOL)?;
    config.set_initial_max_data(REQUESTS * REQUEST_WINDOW);
    config.set_initial_max_stream_data_bidi_remote(REQUEST_WINDOW);
    config.set_initial_max_stream_data_uni(REQUEST_WINDOW);
    config.set_initial_max_streams_bidi(REQUESTS);
    // HTTP/3's own: control, and two of QPACK.
    config.set_initial_max_streams_uni(8);
    Ok(config)
}

/// A server of the files of media.
pub struct HttpServer {
    endpoint: Endpoint,
    root: PathBuf,
    http: h3::Config,
    clients: HashMap<Handle, Client>,
}

struct Client {
    http: h3::Connection,
    /// By their streams.
    responses: BTreeMap<u64, Response>,
}

impl HttpServer {
    /// Serves the media in a directory at that endpoint.
    pub fn new(endpoint: Endpoint, root: &Path) -> Result<Self> {
        let root = root.canonicalize().with_context(|| root.display().to_string())?;
        Ok(Self { endpoint, root, http: h3::Config::new()?, clients: HashMap::new() })
    }

    /// Serves until `stop`.
    pub fn run(mut self, stop: &AtomicBool) -> Result<()> {
        while !stop.load(Ordering::Relaxed) {
            self.endpoint.poll(Some(LONGEST_WAIT))?;
            while let Some(event) = self.endpoint.next_event() {
                match event {
                    Event::Connected(handle) | Event::Activity(handle) => self.serve(handle),
                    Event::Closed(handle, reason) => {
                        log::info!("{handle}: {reason}");
                        self.clients.remove(&handle);
                    }
                    _ => {}
                }
            }
        }
        self.endpoint.shutdown(NO_ERROR, b"the server ends");
        Ok(self.endpoint.flush()?)
    }

    fn serve(&mut self, handle: Handle) {
        let Some(connection) = self.endpoint.connection_mut(handle) else { return };
        if !connection.is_established() {
            return;
        }
        let client = match self.clients.entry(handle) {
            std::collections::hash_map::Entry::Occupied(known) => known.into_mut(),
            std::collections::hash_map::Entry::Vacant(new) => {
                match h3::Connection::with_transport(connection, &self.http) {
                    Ok(http) => new.insert(Client { http, responses: BTreeMap::new() }),
                    Err(error) => {
                        log::warn!("{handle}: HTTP/3 cannot begin: {error}");
                        // Fails if it is closed already.
                        let _ = connection.close(true, NO_ERROR, b"");
                        return;
                    }
                }
            }
        };
        client.take_requests(connection, &self.root);
        client.answer(connection);
        client.forget_stopped(connection);
    }
}

impl Client {
    fn take_requests(&mut self, connection: &mut Connection, root: &Path) {
        loop {
            match self.http.poll(connection) {
                Ok((stream, h3::Event::Headers { list, .. })) => {
                    // Trailers come as such an event, too: the request is known then.
                    let answer = || Response::to(root, &list);
                    self.responses.entry(stream).or_insert_with(answer);
                }
                Ok((stream, h3::Event::Data)) => {
                    let mut unwanted = [0; 4096];
                    while self.http.recv_body(connection, stream, &mut unwanted).is_ok() {}
                }
                Ok((stream, h3::Event::Reset(_))) => {
                    self.responses.remove(&stream);
                    // Fails if this half is over, too.
                    let _ = connection.stream_shutdown(
                        stream,
                        quiche::Shutdown::Write,
                        REQUEST_CANCELLED,
                    );
                }
                Ok(_) => {}
                Err(h3::Error::Done) => return,
                Err(error) => {
                    // quiche has closed the connection with the error's code.
                    log::debug!("a client breaks HTTP/3: {error}");
                    return;
                }
            }
        }
    }

    fn answer(&mut self, connection: &mut Connection) {
        let http = &mut self.http;
        self.responses.retain(|stream, response| {
            response.send(http, connection, *stream) == Progress::Waits
        });
    }

    /// quiche forgets a stream that the player has stopped when it is asked for, and before that the player gets no
    /// other stream instead. Those that are being answered are asked for by that.
    fn forget_stopped(&mut self, connection: &mut Connection) {
        for stream in connection.writable() {
            if !self.responses.contains_key(&stream) {
                let _ = connection.stream_capacity(stream);
            }
        }
    }
}

/// H3_NO_ERROR and H3_REQUEST_CANCELLED, RFC 9114 section 8.1.
const NO_ERROR: u64 = 0x100;
const REQUEST_CANCELLED: u64 = 0x10c;
