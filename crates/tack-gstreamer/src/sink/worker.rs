//! The element's thread: an endpoint, and a session with each peer.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use gst::glib;
use gst::prelude::*;
use gst::subclass::prelude::*;
use gst_base::prelude::*;
use tack_endpoint::Handle;
use tack_media::{RateControlConfig, SendError};

use super::TackSink;
use super::session::SendSession;
use super::shared::{PeerStats, Shared};
use crate::error::{self, Error};
use crate::link::{Link, LinkEvent};
use crate::settings::{Mode, Settings};
use crate::transport::{DONE, Direction, FAILED};
use crate::{CAT, payload};

/// The longest wait: what no event tells is looked at so often.
const LONGEST_WAIT: Duration = Duration::from_millis(20);
/// So often the statistics are taken.
const STATS_EVERY: Duration = Duration::from_millis(100);
/// The shortest time between two requests for a key frame.
const REQUESTS_EVERY: Duration = Duration::from_millis(500);
/// For so long peers are told that the connection ends, if they do not answer.
const SHUT_DOWN: Duration = Duration::from_millis(200);
/// Captures count from an instant that lies before all of them by so much.
const BEFORE: Duration = Duration::from_secs(60);
/// What a peer is told that has had its end when the stream begins anew.
const RESTARTED: &[u8] = b"the stream begins anew";
/// How long behind the last deadline a peer may take to say that it has all.
pub(super) const PATIENCE: Duration = Duration::from_secs(1);

/// How the sink sends.
#[derive(Clone, Debug)]
pub(super) struct SendSettings {
    pub link: Settings,
    pub deadline: Duration,
    pub control: RateControlConfig,
}

struct Peer {
    session: SendSession,
    address: String,
    /// When it had all there is, the end included.
    ended: Option<Instant>,
    /// The pipeline was told that the way is longer than the deadline.
    is_far: bool,
}

/// A thread's share of the element.
pub(super) struct Worker {
    link: Link,
    settings: SendSettings,
    shared: Arc<Shared>,
    element: glib::WeakRef<TackSink>,
    peers: BTreeMap<Handle, Peer>,
    epoch: Instant,
    ends_at: Option<Instant>,
    /// How often the stream has begun anew.
    restarts: u64,
    stats_at: Instant,
    requested: Option<Instant>,
    /// A peer has come since the start, or since the stream began anew.
    had_peer: bool,
    /// The pipeline was told that frames are too long.
    is_told_of_long_frames: bool,
}

impl Worker {
    /// Opens the endpoint.
    pub fn open(
        settings: SendSettings,
        shared: Arc<Shared>,
        element: glib::WeakRef<TackSink>,
    ) -> Result<Self, Error> {
        let link = Link::open(&settings.link, Direction::Send, shared.waker.clone())?;
        shared.update(|state| {
            state.current_port = link.listening_port();
            state.fingerprint = link.fingerprint().map(|fingerprint| fingerprint.to_string());
        });
        let now = Instant::now();
        Ok(Self {
            link,
            settings,
            shared,
            element,
            peers: BTreeMap::new(),
            epoch: now.checked_sub(BEFORE).unwrap_or(now),
            ends_at: None,
            restarts: 0,
            stats_at: now,
            requested: None,
            had_peer: false,
            is_told_of_long_frames: false,
        })
    }

    /// Sends until the element stops; tells the peers then.
    pub fn run(mut self) {
        let failure = loop {
            let events = match self.link.poll(LONGEST_WAIT) {
                Ok(events) => events,
                Err(error) => break Some(error),
            };
            if self.shared.lock().stops {
                break None;
            }
            if let Some(error) = events.into_iter().find_map(|event| self.on_event(event)) {
                break Some(error);
            }
            let now = Instant::now();
            if let Err(error) = self.follow_restart() {
                break Some(error);
            }
            let is_last = self.take_buffers(now);
            self.run_sessions(now);
            if is_last && let Some(error) = self.follow_end(now) {
                break Some(error);
            }
            if now >= self.stats_at {
                self.stats_at = now + STATS_EVERY;
                self.publish();
                self.warn_of_long_ways();
            }
            self.request_key_frame(now);
        };
        self.publish();
        if let Some(error) = &failure {
            self.fail(error);
        }
        self.link.shut_down(b"the sender stops", SHUT_DOWN);
    }

    fn fail(&self, error: &Error) {
        // The pipeline's own error, that its streaming ends, comes behind this one.
        if let Some(element) = self.element.upgrade() {
            gst::error!(CAT, obj = element, "{error}");
            error::post(element.imp(), error, Direction::Send);
        }
        self.shared.update(|state| state.has_failed = true);
    }

    /// An error ends the thread.
    fn on_event(&mut self, event: LinkEvent) -> Option<Error> {
        match event {
            LinkEvent::Connected(handle) => {
                self.on_connected(handle);
                None
            }
            LinkEvent::Closed(handle, result) => self.on_closed(handle, result),
            LinkEvent::Failed(error) => Some(error),
        }
    }

    fn on_connected(&mut self, handle: Handle) {
        let (now, address) = (Instant::now(), self.link.peer(handle));
        let mut control = self.settings.control;
        // One encoder is for all: it need not slow down before the new path is known to be slower.
        control.first = self.rate().unwrap_or(control.first);
        let session = SendSession::new(now, self.epoch, self.settings.deadline, control);
        gst::info!(CAT, "{address}: a receiver is there");
        self.peers.insert(handle, Peer { session, address, ended: None, is_far: false });
        self.had_peer = true;
        self.shared.update(|state| {
            state.peers_seen += 1;
            state.has_peer = true;
        });
        self.publish();
    }

    fn on_closed(&mut self, handle: Handle, result: Result<(), Error>) -> Option<Error> {
        let has_all = self.peers.get(&handle).is_some_and(|peer| peer.ended.is_some());
        self.remove_peer(handle);
        let is_caller = self.settings.link.mode == Mode::Caller;
        match result {
            Ok(()) if is_caller && !has_all => Some(Error::Lost {
                peer: self.link.peer(handle),
                why: "the receiver has ended it".to_owned(),
            }),
            Err(error) if is_caller && !has_all => Some(error),
            Err(error) => {
                gst::warning!(CAT, "{error}");
                None
            }
            Ok(()) => None,
        }
    }

    fn remove_peer(&mut self, handle: Handle) {
        let Some(peer) = self.peers.remove(&handle) else { return };
        gst::info!(
            CAT,
            "{}: the receiver is gone: {:?}",
            peer.address,
            peer.session.counters()
        );
        self.shared.update(|state| {
            state.gone.add(peer.session.counters());
            // It is counted once.
            state.peers.retain(|other| other.address != peer.address);
        });
        self.publish();
    }

    /// Follows a stream that begins anew behind its end. Peers that were told the end get nothing more, so a caller
    /// connects again.
    fn follow_restart(&mut self) -> Result<(), Error> {
        let restarts = self.shared.lock().restarts;
        if restarts == self.restarts {
            return Ok(());
        }
        self.restarts = restarts;
        self.ends_at = None;
        let ended = self.peers.iter_mut().filter_map(|(handle, peer)| {
            let goes_on = peer.session.resume();
            (!goes_on).then_some(*handle)
        });
        for handle in ended.collect::<Vec<_>>() {
            self.link.close(handle, DONE, RESTARTED);
            self.remove_peer(handle);
        }
        let has_peer = !self.peers.is_empty();
        self.shared.update(|state| state.has_peer = has_peer);
        if !has_peer && std::mem::take(&mut self.had_peer) {
            self.link.reconnect(RESTARTED, SHUT_DOWN)?;
        }
        Ok(())
    }

    /// Gives the buffers that wait to each peer. True if no more come.
    fn take_buffers(&mut self, now: Instant) -> bool {
        let (queue, is_last) = {
            let mut state = self.shared.lock();
            let (queue, is_last) = state.take_queue();
            if self.peers.is_empty() {
                state.no_peer += queue.len() as u64;
                return is_last;
            }
            (queue, is_last)
        };
        let mut too_long = None;
        for buffer in &queue {
            for (handle, peer) in &mut self.peers {
                let Some(connection) = self.link.connection_mut(*handle) else { continue };
                let result = peer.session.push(connection, now, buffer);
                if let Err(SendError::TooLong(len)) = result {
                    too_long.get_or_insert(len);
                }
                report(&peer.address, connection, result);
            }
        }
        if let Some(len) = too_long {
            self.warn_of_long_frames(len);
        }
        is_last
    }

    /// Warns once of frames that are too long for any peer.
    fn warn_of_long_frames(&mut self, len: usize) {
        if std::mem::replace(&mut self.is_told_of_long_frames, true) {
            return;
        }
        let Some(element) = self.element.upgrade() else { return };
        gst::element_warning!(
            element,
            gst::StreamError::Format,
            (
                "a buffer of {len} bytes is dropped, and so is each that is longer than {} bytes: encode the stream, or \
                 split its buffers",
                tack_media::MAX_PAYLOAD
            )
        );
    }

    fn run_sessions(&mut self, now: Instant) {
        for (handle, peer) in &mut self.peers {
            let Some(connection) = self.link.connection_mut(*handle) else { continue };
            let result = peer.session.run(connection, now);
            report(&peer.address, connection, result);
        }
    }

    /// Tells each peer the end, and the pipeline when all have what they will get. An error if the peer that was
    /// called has never answered: nothing has got anywhere.
    fn follow_end(&mut self, now: Instant) -> Option<Error> {
        let ends_at = *self.ends_at.get_or_insert(now + self.settings.deadline + PATIENCE);
        for peer in self.peers.values_mut() {
            peer.session.end();
            if peer.session.has_told_end() {
                peer.ended.get_or_insert(now);
            }
        }
        // A caller that has not connected yet may still do so.
        let may_come = self.settings.link.mode == Mode::Caller && !self.had_peer;
        if self.peers.is_empty() && !may_come || now >= ends_at {
            self.publish();
            self.shared.update(|state| state.is_drained = state.restarts == self.restarts);
            let link = &self.settings.link;
            return may_come.then(|| Error::Unreachable {
                peer: format!("{}:{}", link.host, link.port),
                why: "no answer before the end of the stream".to_owned(),
            });
        }
        None
    }

    /// Takes the statistics.
    fn publish(&mut self) {
        for (handle, peer) in &mut self.peers {
            // It may have moved.
            peer.address = self.link.peer(*handle);
        }
        let peers = self.peers.iter().filter_map(|(handle, peer)| {
            let connection = self.link.connection(*handle)?;
            Some(PeerStats {
                address: peer.address.clone(),
                is_tack: connection.is_tack(),
                rate: peer.session.rate().unwrap_or(self.settings.control.first),
                media: connection.media_stats(),
                tack: connection.tack_stats(),
                counters: *peer.session.counters(),
            })
        });
        let peers: Vec<_> = peers.collect();
        let rate = self.rate();
        let mut has_changed = false;
        self.shared.update(|state| {
            state.peers = peers;
            has_changed = rate.is_some() && state.estimated_bitrate != rate;
            state.estimated_bitrate = rate.or(state.estimated_bitrate);
        });
        if has_changed && let Some(element) = self.element.upgrade() {
            // Not here: an application may do anything in answer, stop the element among others.
            element.call_async(|element| {
                element.notify("estimated-bitrate");
                element.notify("estimated-bitrate-kbit");
            });
        }
    }

    /// Warns once of each peer that hardly any frame gets to in time.
    fn warn_of_long_ways(&mut self) {
        for (handle, peer) in &mut self.peers {
            let connection = self.link.connection(*handle);
            let min_rtt = connection.and_then(|connection| connection.media_stats().min_rtt);
            let one_way = min_rtt.unwrap_or_default() / 2;
            if peer.is_far || one_way < self.settings.deadline {
                continue;
            }
            peer.is_far = true;
            let Some(element) = self.element.upgrade() else { return };
            gst::element_warning!(
                element,
                gst::ResourceError::Settings,
                (
                    "{}: frames take {} ms at least and are worth nothing after {} ms: set a longer `deadline`",
                    peer.address,
                    one_way.as_millis(),
                    self.settings.deadline.as_millis()
                )
            );
        }
    }

    /// One encoder is for all: the slowest peer counts, of those whose paths are known.
    fn rate(&self) -> Option<u64> {
        self.peers.values().filter_map(|peer| peer.session.rate()).min()
    }

    /// Asks the encoder for a key frame, if a peer can do nothing with other frames.
    fn request_key_frame(&mut self, now: Instant) {
        let is_wanted = self.peers.values().any(|peer| peer.session.wants_key_frame(now));
        let is_soon = self.requested.is_some_and(|at| now < at + REQUESTS_EVERY);
        if !is_wanted || is_soon {
            return;
        }
        let Some(element) = self.element.upgrade() else { return };
        self.requested = Some(now);
        self.shared.lock().key_frame_requests += 1;
        gst::debug!(CAT, obj = element, "asking for a key frame");
        element.call_async(|element| {
            let pad = element.sink_pad();
            // Headers that are in the caps need not come again, and oggmux cannot do with theoraenc's.
            let has_headers = pad.current_caps().is_some_and(|caps| {
                caps.structure(0).is_some_and(|one| one.has_field("streamheader"))
            });
            let event = gst_video::UpstreamForceKeyUnitEvent::builder();
            if !pad.push_event(event.all_headers(!has_headers).build()) {
                gst::debug!(CAT, obj = element, "nothing upstream makes key frames on request");
            }
        });
    }
}

/// A session whose stack fails is closed; its end is an event of its own.
fn report(address: &str, connection: &mut tacklib::Connection, result: Result<(), SendError>) {
    match result {
        Ok(()) | Err(SendError::Closed) => {}
        // The pipeline is told, once.
        Err(error @ SendError::TooLong(_)) => gst::debug!(CAT, "{address}: {error}"),
        Err(error @ SendError::Full) => gst::warning!(CAT, "{address}: {error}"),
        Err(error) => {
            gst::warning!(CAT, "{address}: {error}");
            // Fails if it is closed already.
            let _ = connection.close(true, FAILED, b"sending failed");
        }
    }
}

/// The caps as they travel; why they cannot.
pub(super) fn caps_text(caps: &gst::Caps) -> Result<Arc<str>, &'static str> {
    let text = caps.to_string();
    payload::check_caps(&text)?;
    Ok(text.into())
}
