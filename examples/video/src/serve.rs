//! `video send`: a server that sends live media to each player that connects.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;
use tack_endpoint::{CloseReason, Endpoint, Event, Handle};
use tack_media::SendError;

use crate::report::SenderReport;
use crate::session::{SendOptions, Session};
use crate::source::Source;

/// The longest wait: so soon a stop is followed.
const LONGEST_WAIT: Duration = Duration::from_millis(100);
/// How long a player may play on behind the end before the sender closes the connection.
const PATIENCE: Duration = Duration::from_secs(30);

/// Opens the media for another player.
pub type Open<'a> = dyn FnMut() -> Result<Source> + 'a;

/// A server and its players.
pub struct Server<'a> {
    endpoint: Endpoint,
    options: SendOptions,
    open: &'a mut Open<'a>,
    players: HashMap<Handle, Playing>,
    /// What was counted of those that are gone.
    reports: Vec<SenderReport>,
}

struct Playing {
    session: Session,
    ended: Option<Instant>,
    report: SenderReport,
}

impl<'a> Server<'a> {
    /// Serves at that endpoint; `open` opens the media for each player.
    pub fn new(endpoint: Endpoint, options: SendOptions, open: &'a mut Open<'a>) -> Self {
        Self { endpoint, options, open, players: HashMap::new(), reports: Vec::new() }
    }

    /// Serves until `stop`, or with `once` until the first player is gone; what was counted of each.
    pub fn run(mut self, once: bool, stop: &AtomicBool) -> Result<Vec<SenderReport>> {
        while !stop.load(Ordering::Relaxed) && (!once || self.reports.is_empty()) {
            let now = Instant::now();
            let next = self.players.values_mut().map(|playing| playing.session.next_at(now));
            let wait = next.min().map_or(LONGEST_WAIT, |at| at.saturating_duration_since(now));
            self.endpoint.poll(Some(wait.min(LONGEST_WAIT)))?;
            while let Some(event) = self.endpoint.next_event() {
                self.on_event(&event);
            }
            self.run_sessions();
        }
        self.endpoint.shutdown(0, b"the sender ends");
        let until = Instant::now() + LONGEST_WAIT;
        while !self.endpoint.is_idle() && Instant::now() < until {
            self.endpoint.poll(Some(LONGEST_WAIT / 10))?;
            while self.endpoint.next_event().is_some() {}
        }
        Ok(self.reports)
    }

    fn on_event(&mut self, event: &Event) {
        match event {
            Event::Connected(handle) => {
                let source = match (self.open)() {
                    Ok(source) => source,
                    Err(error) => {
                        log::error!("{handle}: the media cannot be opened: {error:#}");
                        let connection = self.endpoint.connection_mut(*handle);
                        // It may be closed already.
                        let _ = connection.map(|open| open.close(true, 1, b"no media"));
                        return;
                    }
                };
                log::info!("{handle}: a player has come");
                let session = Session::new(Instant::now(), source, self.options);
                let report = SenderReport::default();
                self.players.insert(*handle, Playing { session, ended: None, report });
            }
            Event::Closed(handle, reason) => {
                if let Some(mut playing) = self.players.remove(handle) {
                    // It can still be asked, until the next poll.
                    if let Some(connection) = self.endpoint.connection(*handle) {
                        playing.report = playing.session.report(connection);
                    }
                    let is_expected =
                        matches!(reason, CloseReason::Peer { application: true, code: 0, .. });
                    let level = if is_expected { log::Level::Info } else { log::Level::Warn };
                    log::log!(level, "{handle}: the player is gone: {reason}");
                    self.reports.push(playing.report);
                }
            }
            _ => {}
        }
    }

    fn run_sessions(&mut self) {
        for (handle, playing) in &mut self.players {
            let Some(connection) = self.endpoint.connection_mut(*handle) else { continue };
            let now = Instant::now();
            let session = &mut playing.session;
            match session.run(connection, now) {
                // Its end is an event of its own.
                Ok(()) | Err(SendError::Closed) => {}
                Err(error) => {
                    log::warn!("{handle}: {error}");
                    // Fails if it is closed already.
                    let _ = connection.close(true, 1, b"sending failed");
                }
            }
            while let Some(notice) = session.poll_notice() {
                log::log!(notice.level(), "{handle}: {notice}");
            }
            if session.has_ended() {
                let ended = *playing.ended.get_or_insert(now);
                if now > ended + PATIENCE {
                    let _ = connection.close(true, 0, b"the media have ended");
                }
            }
        }
    }
}
