//! `video serve-web`: live media for a page in a browser, over WebTransport.
//!
//! The page is a file that this program writes: it holds the address and the hash of the certificate, which is made
//! anew and valid for ten days, as browsers want it. It decodes with WebCodecs, and draws what it measures beside
//! what the sender tells it, five times a second in DATAGRAMs.

mod viewer;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use tack_endpoint::{Endpoint, Event, Handle};
use tacklib::{Config, Profile, h3};

pub use self::viewer::PageReport;
use self::viewer::Viewer;
use crate::browser::{self, PageCertificate};
use crate::http3;
use crate::serve::Open;
use crate::session::{SendOptions, WEB_TRANSPORT_DROPPED};

/// The longest wait: so soon a stop is followed.
const LONGEST_WAIT: Duration = Duration::from_millis(100);
/// What the page is made of.
const PAGE: &str = include_str!("page.html");

/// The configuration of a server that has a certificate.
pub fn config(profile: Profile, certificate: &PageCertificate) -> Result<Config> {
    let mut config = http3::config(profile, Some(certificate.identity()))?;
    let mut tack = *config.tack();
    tack.deadline_error = WEB_TRANSPORT_DROPPED;
    config.set_tack(tack);
    Ok(config)
}

/// Writes the page for a server at that address.
pub fn write_page(
    path: &Path,
    certificate: &PageCertificate,
    server: SocketAddr,
    delay: Duration,
) -> Result<()> {
    let hash: Vec<_> = certificate.hash().as_bytes().iter().map(u8::to_string).collect();
    let page = browser::page(PAGE)
        .replace("__ADDRESS__", &browser::reachable(server).to_string())
        .replace("__HASH__", &hash.join(","))
        .replace("__DELAY__", &delay.as_millis().to_string());
    std::fs::write(path, page).with_context(|| path.display().to_string())
}

/// A server of live media for pages.
pub struct WebServer<'a> {
    endpoint: Endpoint,
    http: h3::Config,
    options: SendOptions,
    open: &'a mut Open<'a>,
    viewers: HashMap<Handle, Viewer>,
    /// What pages that are gone have told.
    reports: Vec<PageReport>,
}

impl<'a> WebServer<'a> {
    /// Serves at that endpoint; `open` opens the media for each page.
    pub fn new(
        endpoint: Endpoint,
        options: SendOptions,
        open: &'a mut Open<'a>,
    ) -> Result<Self> {
        let http = viewer::settings()?;
        let (viewers, reports) = (HashMap::new(), Vec::new());
        Ok(Self { endpoint, http, options, open, viewers, reports })
    }

    /// Serves until `stop`, or with `once` until the first page is gone; what each page told at its end.
    pub fn run(mut self, once: bool, stop: &AtomicBool) -> Result<Vec<PageReport>> {
        while !stop.load(Ordering::Relaxed) && (!once || self.reports.is_empty()) {
            let now = Instant::now();
            let next = self.viewers.values_mut().filter_map(|viewer| viewer.next_at(now)).min();
            let wait = next.map_or(LONGEST_WAIT, |at| at.saturating_duration_since(now));
            self.endpoint.poll(Some(wait.min(LONGEST_WAIT)))?;
            while let Some(event) = self.endpoint.next_event() {
                match event {
                    Event::Connected(handle) | Event::Activity(handle) => self.begin(handle),
                    Event::Closed(handle, reason) => {
                        log::info!("{handle}: {reason}");
                        let viewer = self.viewers.remove(&handle);
                        self.reports.extend(viewer.map(|viewer| viewer.report().clone()));
                    }
                    _ => {}
                }
            }
            for (handle, viewer) in &mut self.viewers {
                let Some(connection) = self.endpoint.connection_mut(*handle) else { continue };
                if let Err(error) =
                    viewer.run(connection, Instant::now(), self.options, self.open)
                {
                    log::warn!("{handle}: {error:#}");
                    // Fails if it is closed already.
                    let _ = connection.close(true, viewer::INTERNAL_ERROR, b"");
                }
                while let Some(notice) = viewer.poll_notice() {
                    log::log!(notice.level(), "{handle}: {notice}");
                }
            }
        }
        self.endpoint.shutdown(viewer::NO_ERROR, b"the sender ends");
        self.endpoint.flush()?;
        Ok(self.reports)
    }

    fn begin(&mut self, handle: Handle) {
        let Some(connection) = self.endpoint.connection_mut(handle) else { return };
        if !connection.is_established() || self.viewers.contains_key(&handle) {
            return;
        }
        match h3::Connection::with_transport(connection, &self.http) {
            Ok(http) => {
                self.viewers.insert(handle, Viewer::new(http));
            }
            Err(error) => {
                log::warn!("{handle}: HTTP/3 cannot begin: {error}");
                let _ = connection.close(true, viewer::INTERNAL_ERROR, b"");
            }
        }
    }
}
