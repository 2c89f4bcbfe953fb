//! `video serve-http3`: the same media as HLS over HTTP/3, for players that others wrote, and for a page.
//!
//! The page is served beside the media. It plays them by Media Source Extensions, follows the throughput from one
//! bit rate to another, and posts what it has played once a second.

mod page_report;
mod request;
mod response;
mod site;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Result;
use tack_endpoint::{Endpoint, Event, Handle};
use tacklib::h3::{self, Header, NameValue};
use tacklib::{Config, Connection, Profile};

pub use self::page_report::PageReport;
use self::response::{Progress, Response};
pub use self::site::Site;
use crate::transport::{self, Identity};

/// The longest wait: so soon a stop is followed.
const LONGEST_WAIT: Duration = Duration::from_millis(100);
/// Requests of a client at a time, and what may come of each.
const REQUESTS: u64 = 64;
const REQUEST_WINDOW: u64 = 64 << 10;
/// Pages whose reports are kept.
const MAX_PAGES: usize = 1000;

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

/// A server of media and of a page that plays them.
pub struct HttpServer {
    endpoint: Endpoint,
    site: Site,
    http: h3::Config,
    clients: HashMap<Handle, Client>,
    /// What each page told last.
    reports: BTreeMap<u32, PageReport>,
    /// Whether a page has played all, or is gone.
    is_over: bool,
}

struct Client {
    http: h3::Connection,
    /// By their streams.
    responses: BTreeMap<u64, Response>,
    /// Reports that have not come wholly.
    partial: BTreeMap<u64, Vec<u8>>,
    /// Those that have.
    told: Vec<PageReport>,
    /// The pages that have told something.
    pages: BTreeSet<u32>,
}

impl HttpServer {
    /// Serves a site at that endpoint.
    pub fn new(endpoint: Endpoint, site: Site) -> Result<Self> {
        let http = h3::Config::new()?;
        let (clients, reports) = (HashMap::new(), BTreeMap::new());
        Ok(Self { endpoint, site, http, clients, reports, is_over: false })
    }

    /// Serves until `stop`, or with `once` until the first page plays no more; what each page told last.
    pub fn run(mut self, once: bool, stop: &AtomicBool) -> Result<Vec<PageReport>> {
        while !(stop.load(Ordering::Relaxed) || once && self.is_over) {
            self.endpoint.poll(Some(LONGEST_WAIT))?;
            while let Some(event) = self.endpoint.next_event() {
                match event {
                    Event::Connected(handle) | Event::Activity(handle) => self.serve(handle),
                    Event::Closed(handle, reason) => {
                        log::info!("{handle}: {reason}");
                        self.forget(handle);
                    }
                    _ => {}
                }
            }
        }
        self.endpoint.shutdown(NO_ERROR, b"the server ends");
        self.endpoint.flush()?;
        Ok(self.reports.into_values().collect())
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
                    Ok(http) => new.insert(Client::new(http)),
                    Err(error) => {
                        log::warn!("{handle}: HTTP/3 cannot begin: {error}");
                        // Fails if it is closed already.
                        let _ = connection.close(true, NO_ERROR, b"");
                        return;
                    }
                }
            }
        };
        client.take_requests(connection, &self.site);
        client.answer(connection);
        client.forget_stopped(connection);
        for report in std::mem::take(&mut client.told) {
            self.note(handle, report);
        }
    }

    /// Pages whose connection is over may tell more by another one.
    fn forget(&mut self, handle: Handle) {
        let Some(client) = self.clients.remove(&handle) else { return };
        let reports = client.pages.iter().filter_map(|page| self.reports.get(page));
        for report in reports.filter(|report| !report.is_over()) {
            log::info!("{handle}: the browser of a page is gone: {report}");
            self.is_over = true;
        }
    }

    fn note(&mut self, handle: Handle, report: PageReport) {
        let last = self.reports.get(&report.page);
        if last.is_none() {
            log::info!("{handle}: a page has come");
        }
        if report.is_over() && last.is_none_or(|last| !last.is_over()) {
            let level =
                if report.error.is_empty() { log::Level::Info } else { log::Level::Warn };
            log::log!(level, "{handle}: a page plays no more: {report}");
            self.is_over = true;
        }
        if last.is_some() || self.reports.len() < MAX_PAGES {
            if let Some(client) = self.clients.get_mut(&handle) {
                client.pages.insert(report.page);
            }
            self.reports.insert(report.page, report);
        }
    }
}

impl Client {
    fn new(http: h3::Connection) -> Self {
        let (responses, partial) = (BTreeMap::new(), BTreeMap::new());
        Self { http, responses, partial, told: Vec::new(), pages: BTreeSet::new() }
    }

    fn take_requests(&mut self, connection: &mut Connection, site: &Site) {
        loop {
            match self.http.poll(connection) {
                Ok((stream, h3::Event::Headers { list, .. })) => {
                    // Trailers come as such an event, too: the request is known then.
                    if self.partial.contains_key(&stream) {
                        continue;
                    }
                    if is_report(&list) {
                        self.partial.insert(stream, Vec::new());
                        continue;
                    }
                    let answer = || Response::to(site, &list);
                    self.responses.entry(stream).or_insert_with(answer);
                }
                Ok((stream, h3::Event::Data)) => self.take_body(connection, stream),
                Ok((stream, h3::Event::Finished)) => {
                    if let Some(body) = self.partial.remove(&stream) {
                        let answer = Response::without_body(self.take_report(&body), &[]);
                        self.responses.insert(stream, answer);
                    }
                }
                Ok((stream, h3::Event::Reset(_))) => {
                    self.responses.remove(&stream);
                    self.partial.remove(&stream);
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

    /// Reads the body of a request: up to a byte more than reports may have, and the rest in vain.
    fn take_body(&mut self, connection: &mut Connection, stream: u64) {
        let mut buffer = [0; 4096];
        while let Ok(len) = self.http.recv_body(connection, stream, &mut buffer) {
            if let Some(body) = self.partial.get_mut(&stream) {
                let room = (page_report::MAX_LEN + 1).saturating_sub(body.len());
                body.extend_from_slice(&buffer[..len.min(room)]);
            }
        }
    }

    /// Takes what a page tells; the status of the answer.
    fn take_report(&mut self, body: &[u8]) -> &'static str {
        if body.len() > page_report::MAX_LEN {
            return "413";
        }
        match serde_json::from_slice(body) {
            Ok(report) => {
                self.told.push(report);
                "200"
            }
            Err(error) => {
                log::debug!("what a page tells: {error}");
                "400"
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

/// Whether a page tells something.
fn is_report(fields: &[Header]) -> bool {
    let has = |name: &[u8], value: &[u8]| {
        fields.iter().any(|field| field.name() == name && field.value() == value)
    };
    has(b":method", b"POST") && has(b":path", page_report::PATH)
}

/// H3_NO_ERROR and H3_REQUEST_CANCELLED, RFC 9114 section 8.1.
const NO_ERROR: u64 = 0x100;
const REQUEST_CANCELLED: u64 = 0x10c;
