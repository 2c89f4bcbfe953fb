//! The element's thread: an endpoint, and a session with the sender.

use std::sync::Arc;
use std::time::{Duration, Instant};

use gst::glib;
use gst::subclass::prelude::*;
use tack_endpoint::Handle;

use super::TackSrc;
use super::output::{SenderStats, Shared};
use super::session::ReceiveSession;
use crate::CAT;
use crate::error::{self, Error};
use crate::link::{Link, LinkEvent};
use crate::settings::{Mode, Settings};
use crate::transport::{BUSY, Direction};

/// The longest wait: what no event tells is looked at so often.
const LONGEST_WAIT: Duration = Duration::from_millis(20);
/// So often the statistics are taken.
const STATS_EVERY: Duration = Duration::from_millis(100);
/// The shortest time between two requests for a key frame.
const REQUESTS_EVERY: Duration = Duration::from_millis(500);
/// For so long the sender is told that the connection ends, if it does not answer.
const SHUT_DOWN: Duration = Duration::from_millis(200);

/// How the source receives.
#[derive(Clone, Debug)]
pub(super) struct ReceiveSettings {
    pub link: Settings,
    pub latency: Duration,
}

/// A thread's share of the element.
pub(super) struct Worker {
    link: Link,
    settings: ReceiveSettings,
    shared: Arc<Shared>,
    element: glib::WeakRef<TackSrc>,
    sender: Option<(Handle, ReceiveSession)>,
    stats_at: Instant,
    requested: Option<Instant>,
}

/// How the thread ends, if the element does not stop.
enum Outcome {
    /// The sender has ended.
    End,
    Failed(Error),
}

impl Worker {
    /// Opens the endpoint.
    pub fn open(
        settings: ReceiveSettings,
        shared: Arc<Shared>,
        element: glib::WeakRef<TackSrc>,
    ) -> Result<Self, Error> {
        let link = Link::open(&settings.link, Direction::Receive, shared.waker.clone())?;
        shared.update(|state| {
            state.current_port = link.listening_port();
            state.fingerprint = link.fingerprint().map(|fingerprint| fingerprint.to_string());
        });
        let stats_at = Instant::now();
        let (sender, requested) = (None, None);
        Ok(Self { link, settings, shared, element, sender, stats_at, requested })
    }

    /// Receives until the sender ends or the element stops; tells the sender then.
    pub fn run(mut self) {
        let outcome = loop {
            let events = match self.link.poll(self.longest_wait()) {
                Ok(events) => events,
                Err(error) => break Some(Outcome::Failed(error)),
            };
            if self.shared.lock().stops {
                break None;
            }
            let now = Instant::now();
            // What has come before the end of the connection is handed on.
            let outcome = events.into_iter().find_map(|event| self.on_event(event, now));
            self.receive(now);
            if outcome.is_some() {
                break outcome;
            }
            if let Some((handle, session)) = &self.sender
                && session.is_over(now)
            {
                gst::info!(CAT, "{}: the sender has ended", self.link.peer(*handle));
                break Some(Outcome::End);
            }
            if now >= self.stats_at {
                self.stats_at = now + STATS_EVERY;
                self.publish();
            }
        };
        self.publish();
        match &outcome {
            Some(Outcome::End) => self.shared.update(|state| state.is_ended = true),
            Some(Outcome::Failed(error)) => self.fail(error),
            None => {}
        }
        self.link.shut_down(b"the receiver stops", SHUT_DOWN);
    }

    fn longest_wait(&self) -> Duration {
        let next = self.sender.as_ref().and_then(|(_, session)| session.next_at());
        let next = next.map(|at| at.saturating_duration_since(Instant::now()));
        next.map_or(LONGEST_WAIT, |next| next.min(LONGEST_WAIT))
    }

    fn fail(&self, error: &Error) {
        // The pipeline's own error, that its streaming ends, comes behind this one.
        if let Some(element) = self.element.upgrade() {
            gst::error!(CAT, obj = element, "{error}");
            error::post(element.imp(), error, Direction::Receive);
        }
        self.shared.update(|state| state.has_failed = true);
    }

    fn on_event(&mut self, event: LinkEvent, now: Instant) -> Option<Outcome> {
        match event {
            LinkEvent::Connected(handle) if self.sender.is_some() => {
                gst::warning!(
                    CAT,
                    "{}: refused, a sender is there already",
                    self.link.peer(handle)
                );
                self.link.close(handle, BUSY, b"another sender is connected");
                None
            }
            LinkEvent::Connected(handle) => {
                gst::info!(CAT, "{}: the sender is there", self.link.peer(handle));
                self.sender = Some((handle, ReceiveSession::new(self.settings.latency)));
                self.publish();
                None
            }
            LinkEvent::Closed(handle, result) => self.on_closed(handle, result, now),
            LinkEvent::Failed(error) => Some(Outcome::Failed(error)),
        }
    }

    fn on_closed(
        &mut self,
        handle: Handle,
        result: Result<(), Error>,
        now: Instant,
    ) -> Option<Outcome> {
        let is_sender = self.sender.as_ref().is_some_and(|(sender, _)| *sender == handle);
        if !is_sender {
            // A listener goes on; a caller has no other connection.
            let is_caller = self.settings.link.mode == Mode::Caller;
            return result.err().filter(|_| is_caller).map(Outcome::Failed);
        }
        self.receive(now);
        let mut has_end = false;
        if let Some((_, session)) = &mut self.sender {
            has_end = session.has_end();
            // What waits behind a gap is handed on with the next call of `receive`.
            session.close();
        }
        match result {
            Err(error) if !has_end => Some(Outcome::Failed(error)),
            _ => Some(Outcome::End),
        }
    }

    /// Reads what has come, and hands on what can be.
    fn receive(&mut self, now: Instant) {
        let Some((handle, session)) = &mut self.sender else { return };
        let wants_key_frame = self.shared.lock().wants_key_frame;
        let is_soon = self.requested.is_some_and(|at| now < at + REQUESTS_EVERY);
        if wants_key_frame && !is_soon {
            self.requested = Some(now);
            self.shared.lock().wants_key_frame = false;
            session.request_key_frame();
        }
        if let Some(connection) = self.link.connection_mut(*handle) {
            session.read(connection, now);
        }
        if let Some(problem) = session.take_problem() {
            gst::warning!(CAT, "the sender sends what cannot be read: {problem}");
        }
        // The jitter buffer is bounded, and nothing comes into it meanwhile.
        while let Some(buffer) = session.pop(now) {
            let has_dropped = self.shared.update(|state| state.push(buffer));
            if has_dropped {
                gst::warning!(
                    CAT,
                    "the pipeline takes no buffers; dropping up to the next key frame"
                );
            }
        }
    }

    /// Takes the statistics.
    fn publish(&mut self) {
        let Some((handle, session)) = &self.sender else { return };
        let counters = session.counters();
        let sender = self.link.connection(*handle).map(|connection| SenderStats {
            address: self.link.peer(*handle),
            is_tack: connection.is_tack(),
            media: connection.media_stats(),
            tack: connection.tack_stats(),
        });
        self.shared.update(|state| {
            state.counters = counters;
            state.sender = sender.or(state.sender.take());
        });
    }
}
