//! One connection, as the driver and the application's handles share it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Instant;

use tack_endpoint::runtime::{DatagramSocket, EndpointCore};
use tack_endpoint::{CloseReason, Handle};
use tacklib::quiche;
use tokio::sync::Notify;

use crate::driver::clock;
use crate::effects::{Effects, Signals};
use crate::stream_id::{Direction, StreamId};
use crate::stream_state::{
    EndOutcome, SendEnd, StreamState, end_stream, is_at_end, let_go, stop_stream,
};
use crate::write_turns::WriteTurns;
use crate::{ConnectionError, WriteError};

/// A connection with what tasks wait for.
pub(crate) struct ConnectionState {
    pub(crate) signals: Arc<Signals>,
    is_server: bool,
    /// The error code of streams that are reset at their deadline.
    deadline_error: u64,
    pub(crate) is_established: bool,
    /// Data could be exchanged before the handshake was complete.
    pub(crate) had_early_data: bool,
    /// The application has no handle any more.
    pub(crate) is_abandoned: bool,
    /// The core has told of the end.
    pub(crate) is_reported: bool,
    pub(crate) over: Option<ConnectionError>,
    /// The connection itself, once the core has handed it over: what has arrived can be read.
    retired: Option<Box<tacklib::Connection>>,
    /// The streams whose handles the application has.
    streams: HashMap<u64, StreamState>,
    /// How many streams this end has opened, by direction.
    opened: [u64; 2],
    /// How many the peer has, and how many of these were accepted.
    incoming: [u64; 2],
    accepted: [u64; 2],
    turns: WriteTurns,
    /// Streams that somebody waits for the end of without reading.
    watching: BTreeSet<u64>,
    /// How many streams the peer has stopped, and with which code those that were not accepted yet.
    stops: u64,
    early_stops: BTreeMap<u64, u64>,
    /// Streams that ended before quiche had them: the peer has opened them by opening a later one.
    early_ends: BTreeMap<u64, SendEnd>,
    /// The same of those that this end has stopped, with the code.
    early_recv_stops: BTreeMap<u64, u64>,
    /// Somebody waits for the signal of that name.
    pub(crate) waits: Waits,
}

/// Signals that somebody may wait for, so that the others need not be sent.
#[derive(Default)]
pub(crate) struct Waits {
    pub(crate) stream_credit: bool,
    pub(crate) datagram_received: bool,
    pub(crate) datagram_room: bool,
}

impl ConnectionState {
    pub(crate) fn new(is_server: bool, deadline_error: u64) -> Self {
        Self {
            signals: Arc::default(),
            is_server,
            deadline_error,
            is_established: false,
            had_early_data: false,
            is_abandoned: false,
            is_reported: false,
            over: None,
            retired: None,
            streams: HashMap::new(),
            opened: [0; 2],
            incoming: [0; 2],
            accepted: [0; 2],
            turns: WriteTurns::default(),
            watching: BTreeSet::new(),
            stops: 0,
            early_stops: BTreeMap::new(),
            early_ends: BTreeMap::new(),
            early_recv_stops: BTreeMap::new(),
            waits: Waits::default(),
        }
    }

    /// The connection, to look at it.
    pub(crate) fn look<'a, S: DatagramSocket>(
        &'a self,
        core: &'a EndpointCore<S>,
        handle: Handle,
    ) -> Option<&'a tacklib::Connection> {
        self.retired.as_deref().or_else(|| core.connection(handle))
    }

    /// The connection, to read or write; the core has to send afterwards.
    pub(crate) fn touch<'a, S: DatagramSocket>(
        &'a mut self,
        core: &'a mut EndpointCore<S>,
        handle: Handle,
    ) -> Option<&'a mut tacklib::Connection> {
        self.retired.as_deref_mut().or_else(|| core.connection_mut(handle))
    }

    /// The core needs the connection no more.
    pub(crate) fn retire(&mut self, connection: tacklib::Connection) {
        self.retired = Some(Box::new(connection));
    }

    /// Why nothing can be sent any more.
    pub(crate) fn check(&self) -> Result<(), ConnectionError> {
        self.over.clone().map_or(Ok(()), Err)
    }

    /// Closes the connection for the application, unless it is over.
    pub(crate) fn close<S: DatagramSocket>(
        &mut self,
        core: &mut EndpointCore<S>,
        handle: Handle,
        code: u64,
        reason: &[u8],
        effects: &mut Effects,
    ) {
        if self.over.is_some() {
            return;
        }
        if let Some(connection) = core.connection_mut(handle) {
            // `Done` says that it is closed already.
            let _ = connection.close(true, code, reason);
        }
        let reason = CloseReason::Local { application: true, code, reason: reason.to_vec() };
        self.on_over(&ConnectionError::Closed(reason), effects);
    }

    /// The handshake is complete.
    pub(crate) fn on_established(&mut self, effects: &mut Effects) {
        self.is_established = true;
        effects.notify(&self.signals, |signals| &signals.state);
    }

    /// The connection is over: wakes all that wait. The first reason counts.
    pub(crate) fn on_over(&mut self, error: &ConnectionError, effects: &mut Effects) {
        if self.over.is_none() {
            self.over = Some(error.clone());
        }
        effects.notify_all(&self.signals);
        for stream in self.streams.values_mut() {
            stream.wake_all(effects);
        }
    }

    /// Streams may have become readable or writable.
    pub(crate) fn on_activity<S: DatagramSocket>(
        &mut self,
        core: &mut EndpointCore<S>,
        handle: Handle,
        effects: &mut Effects,
    ) {
        let Some(connection) = core.inspect(handle) else { return };
        if !self.is_established && !self.had_early_data && connection.is_in_early_data() {
            self.had_early_data = true;
            effects.notify(&self.signals, |signals| &signals.state);
        }
        let mut has_stopped = false;
        while let Some(id) = connection.stream_readable_next() {
            self.note_incoming(StreamId(id), effects);
            if let Some(code) = self.early_recv_stops.remove(&id) {
                stop_stream(connection, id, code);
                has_stopped = true;
            } else if let Some(stream) = self.streams.get_mut(&id) {
                effects.wake(stream.reader.take());
            }
        }
        // Before a stream may seem to be delivered that is given up.
        while let Some(id) = connection.stream_expired_next() {
            if let Some(stream) = self.streams.get_mut(&id) {
                stream.on_expired(effects);
            }
        }
        // quiche does not tell of the reset of a stream of which something is to be read.
        self.watching.retain(|id| match self.streams.get_mut(id) {
            Some(stream) if is_at_end(connection, *id) => {
                effects.wake(stream.end_watcher.take());
                false
            }
            stream => stream.is_some(),
        });
        self.note_stops(connection, effects);
        let urgency = |id| self.streams.get(&id).map_or(DEFAULT_URGENCY, StreamState::urgency);
        for id in self.turns.in_turn(urgency) {
            let stream = self.streams.get_mut(&id);
            if !stream.is_some_and(|stream| stream.on_activity(connection, id, effects)) {
                self.turns.remove(id);
            }
        }
        // The capacity has told, and quiche has to keep its own list.
        while connection.stream_unblocked_next().is_some() {}
        self.settle(connection, effects);
        let has_ended = self.end_early(connection, effects);
        if has_stopped || has_ended {
            // There is something to tell the peer.
            core.connection_mut(handle);
        }
    }

    /// Notes which streams the peer has stopped, before quiche (0.30) forgets them and their codes.
    fn note_stops(&mut self, connection: &mut tacklib::Connection, effects: &mut Effects) {
        while let Some(id) = connection.stream_stopped_next() {
            self.note_stop(connection, id, effects);
        }
        if connection.is_tack() {
            return;
        }
        // With Profile::Off only a count tells, and that walks all streams.
        let stops = connection.stats().stopped_stream_count_remote;
        if stops == self.stops {
            return;
        }
        self.stops = stops;
        let bi = Direction::Bi as usize;
        let early = (self.accepted[bi]..self.incoming[bi])
            .map(|index| StreamId::new(index, Direction::Bi, !self.is_server).0);
        let ids: Vec<u64> = self.streams.keys().copied().chain(early).collect();
        for id in ids {
            self.note_stop(connection, id, effects);
        }
    }

    fn note_stop(
        &mut self,
        connection: &mut tacklib::Connection,
        id: u64,
        effects: &mut Effects,
    ) {
        self.note_incoming(StreamId(id), effects);
        let Err(quiche::Error::StreamStopped(code)) = connection.stream_capacity(id) else {
            return;
        };
        let_go(connection, id, code);
        let is_known = self.is_known(StreamId(id));
        if let Some(stream) = self.streams.get_mut(&id) {
            stream.on_stopped(code, effects);
        } else if !is_known {
            self.early_stops.insert(id, code);
        }
    }

    /// Wakes those who wait for streams or for DATAGRAMs.
    fn settle(&mut self, connection: &tacklib::Connection, effects: &mut Effects) {
        let streams_left =
            connection.peer_streams_left_bidi() > 0 || connection.peer_streams_left_uni() > 0;
        if streams_left && std::mem::take(&mut self.waits.stream_credit) {
            effects.notify(&self.signals, |signals| &signals.stream_credit);
        }
        if connection.dgram_recv_queue_len() > 0
            && std::mem::take(&mut self.waits.datagram_received)
        {
            effects.notify(&self.signals, |signals| &signals.datagram_received);
        }
        if !connection.is_dgram_send_queue_full()
            && std::mem::take(&mut self.waits.datagram_room)
        {
            effects.notify(&self.signals, |signals| &signals.datagram_room);
        }
    }

    /// Ends streams that quiche did not have when the application ended them.
    fn end_early(
        &mut self,
        connection: &mut tacklib::Connection,
        effects: &mut Effects,
    ) -> bool {
        let before = self.early_ends.len();
        self.early_ends.retain(|id, end| {
            let mut stream = self.streams.get_mut(id);
            if let Some(stream) = &mut stream {
                // It fails for streams that are gone.
                let _ = stream.apply_priority(connection, *id);
            }
            let outcome = end_stream(connection, *id, *end);
            if let Some(stream) = stream {
                stream.on_end(*end, outcome, effects);
            }
            outcome == EndOutcome::Unknown
        });
        self.early_ends.len() < before
    }

    /// Ends this end's half of a stream. Fails if its deadline has passed before it was finished.
    pub(crate) fn end<S: DatagramSocket>(
        &mut self,
        core: &mut EndpointCore<S>,
        handle: Handle,
        id: StreamId,
        end: SendEnd,
        effects: &mut Effects,
    ) -> Result<(), WriteError> {
        self.check()?;
        if end == SendEnd::Finished && self.has_expired(core, handle, id, effects) {
            return Err(WriteError::Expired);
        }
        self.apply_priority(core, handle, id);
        let Some(connection) = core.connection_mut(handle) else { return Ok(()) };
        let outcome = end_stream(connection, id.0, end);
        if outcome == EndOutcome::Unknown {
            self.early_ends.insert(id.0, end);
        }
        if let Some(stream) = self.streams.get_mut(&id.0) {
            stream.end = Some(end);
            stream.on_end(end, outcome, effects);
        }
        Ok(())
    }

    /// Whether the deadline of a stream has passed before it was finished. It is reset then.
    pub(crate) fn has_expired<S: DatagramSocket>(
        &mut self,
        core: &mut EndpointCore<S>,
        handle: Handle,
        id: StreamId,
        effects: &mut Effects,
    ) -> bool {
        let deadline = self.streams.get(&id.0).and_then(|stream| stream.deadline);
        if let Some(deadline) = deadline
            && deadline <= clock()
        {
            self.expire(core, handle, id, effects);
        }
        // What the peer says counts more.
        self.streams.get(&id.0).is_some_and(|stream| stream.expired && stream.stopped.is_none())
    }

    /// Resets a stream whose deadline has passed, if neither end has ended it.
    pub(crate) fn expire<S: DatagramSocket>(
        &mut self,
        core: &mut EndpointCore<S>,
        handle: Handle,
        id: StreamId,
        effects: &mut Effects,
    ) {
        if self.over.is_some() || !self.streams.get(&id.0).is_some_and(StreamState::is_open) {
            return;
        }
        let Some(connection) = core.connection_mut(handle) else { return };
        // The peer may have stopped it before.
        self.note_stop(connection, id.0, effects);
        let reset = SendEnd::Reset(self.deadline_error);
        if let Some(stream) = self.streams.get_mut(&id.0)
            && stream.is_open()
        {
            if end_stream(connection, id.0, reset) == EndOutcome::Unknown {
                self.early_ends.insert(id.0, reset);
            }
            stream.on_expired(effects);
        }
    }

    /// Sets when a stream expires if it is not finished before, and returns what was set.
    pub(crate) fn replace_deadline(
        &mut self,
        id: StreamId,
        deadline: Option<Instant>,
    ) -> Option<Instant> {
        let stream = self.streams.get_mut(&id.0)?;
        std::mem::replace(&mut stream.deadline, deadline)
    }

    /// Sets urgency and `incremental` of a stream.
    pub(crate) fn set_priority<S: DatagramSocket>(
        &mut self,
        core: &mut EndpointCore<S>,
        handle: Handle,
        id: StreamId,
        priority: (u8, bool),
    ) -> Result<(), WriteError> {
        let connection = self.retired.as_deref_mut().or_else(|| core.connection_mut(handle));
        let (Some(connection), Some(stream)) = (connection, self.streams.get_mut(&id.0)) else {
            return Err(ConnectionError::EndpointStopped.into());
        };
        stream.set_priority(connection, id.0, priority).map_err(WriteError::Quic)
    }

    /// Hands quiche a priority that was set before it had the stream.
    pub(crate) fn apply_priority<S: DatagramSocket>(
        &mut self,
        core: &mut EndpointCore<S>,
        handle: Handle,
        id: StreamId,
    ) {
        let connection = self.retired.as_deref_mut().or_else(|| core.inspect(handle));
        if let Some(connection) = connection
            && let Some(stream) = self.streams.get_mut(&id.0)
        {
            // It fails for streams that are gone.
            let _ = stream.apply_priority(connection, id.0);
        }
    }

    /// Notes which streams are delivered of a connection that is over.
    pub(crate) fn note_deliveries<S: DatagramSocket>(
        &mut self,
        core: &mut EndpointCore<S>,
        handle: Handle,
    ) {
        let Some(connection) = core.inspect(handle) else { return };
        for (id, stream) in &mut self.streams {
            stream.note_delivery(connection, *id);
        }
    }

    /// Takes no more of a stream, and throws away what has come.
    pub(crate) fn stop<S: DatagramSocket>(
        &mut self,
        core: &mut EndpointCore<S>,
        handle: Handle,
        id: StreamId,
        code: u64,
        effects: &mut Effects,
    ) {
        let Some(connection) = self.touch(core, handle) else { return };
        if !stop_stream(connection, id.0, code) {
            self.early_recv_stops.insert(id.0, code);
        }
        self.on_read_to_end(core, handle, id, effects);
    }

    /// Something was written to a stream.
    pub(crate) fn on_written(&mut self, id: StreamId) {
        self.turns.on_written(id.0);
    }

    /// The end of a stream was read, or its reset. quiche may forget it with that, and only then is it known that the
    /// other half is delivered.
    pub(crate) fn on_read_to_end<S: DatagramSocket>(
        &mut self,
        core: &mut EndpointCore<S>,
        handle: Handle,
        id: StreamId,
        effects: &mut Effects,
    ) {
        if self.is_delivered(core, handle, id)
            && let Some(stream) = self.streams.get(&id.0)
        {
            stream.wake_watches(effects);
        }
    }

    /// Whether the peer has all of a stream that has ended.
    pub(crate) fn is_delivered<S: DatagramSocket>(
        &mut self,
        core: &mut EndpointCore<S>,
        handle: Handle,
        id: StreamId,
    ) -> bool {
        let Some(stream) = self.streams.get_mut(&id.0) else { return false };
        let connection = self.retired.as_deref_mut().or_else(|| core.inspect(handle));
        connection.is_some_and(|connection| stream.note_delivery(connection, id.0))
    }

    /// Opens a stream of this end; `None` until the peer lets it. Limits of the peer count, and
    /// nothing is sent before something is written.
    pub(crate) fn open<S: DatagramSocket>(
        &mut self,
        core: &mut EndpointCore<S>,
        handle: Handle,
        direction: Direction,
    ) -> quiche::Result<Option<StreamId>> {
        let Some(connection) = core.inspect(handle) else { return Ok(None) };
        let left = match direction {
            Direction::Bi => connection.peer_streams_left_bidi(),
            Direction::Uni => connection.peer_streams_left_uni(),
        };
        if left == 0 {
            self.waits.stream_credit = true;
            return Ok(None);
        }
        let index = self.opened[direction as usize];
        let id = StreamId::new(index, direction, self.is_server);
        // quiche (0.30) opens a stream when it is first named.
        connection.stream_priority(id.0, DEFAULT_URGENCY, true)?;
        self.opened[direction as usize] += 1;
        self.add_stream(id, true, direction == Direction::Bi);
        Ok(Some(id))
    }

    /// Takes the next stream that the peer has opened, in the order in which it has.
    pub(crate) fn accept(&mut self, direction: Direction) -> Option<StreamId> {
        let at = direction as usize;
        if self.accepted[at] == self.incoming[at] {
            return None;
        }
        let id = StreamId::new(self.accepted[at], direction, !self.is_server);
        self.accepted[at] += 1;
        self.add_stream(id, direction == Direction::Bi, true);
        Some(id)
    }

    fn add_stream(&mut self, id: StreamId, has_writer: bool, has_reader: bool) {
        let stopped = self.early_stops.remove(&id.0);
        self.streams.insert(id.0, StreamState::new(has_writer, has_reader, stopped));
    }

    /// A stream that the application has a handle of.
    pub(crate) fn stream(&mut self, id: StreamId) -> Option<&mut StreamState> {
        self.streams.get_mut(&id.0)
    }

    /// Has the writer of a stream woken when there is room, or it is stopped, and those that
    /// [watch](Self::watch) it when it is stopped or delivered.
    pub(crate) fn wait_for(&mut self, id: StreamId) {
        self.turns.insert(id.0);
    }

    /// Adds a future that waits until a stream is stopped or delivered; the signal wakes it. The state of the stream
    /// stays until [`unwatch`](Self::unwatch).
    pub(crate) fn watch(&mut self, id: StreamId) -> Option<Arc<Notify>> {
        self.streams.get_mut(&id.0).map(StreamState::add_watch)
    }

    /// The future is gone.
    pub(crate) fn unwatch(&mut self, id: StreamId) {
        if let Some(stream) = self.streams.get_mut(&id.0) {
            stream.remove_watch();
            self.forget_unused(id);
        }
    }

    /// Has [`StreamState::end_watcher`] woken when the stream has ended or was reset.
    pub(crate) fn wait_for_end(&mut self, id: StreamId) {
        self.watching.insert(id.0);
    }

    /// The application has dropped one of the handles of a stream.
    pub(crate) fn drop_half(&mut self, id: StreamId, is_writer: bool, effects: &mut Effects) {
        let Some(stream) = self.streams.get_mut(&id.0) else { return };
        if is_writer {
            stream.has_writer = false;
            effects.drop_later(stream.writer.take());
        } else {
            stream.has_reader = false;
            effects.drop_later(stream.reader.take());
            effects.drop_later(stream.end_watcher.take());
            self.watching.remove(&id.0);
        }
        self.forget_unused(id);
    }

    /// Forgets a stream that no handle and no future needs any more.
    fn forget_unused(&mut self, id: StreamId) {
        let Some(stream) = self.streams.get(&id.0) else { return };
        if !stream.has_writer && !stream.is_watched() {
            self.turns.remove(id.0);
        }
        if !stream.is_used() {
            self.streams.remove(&id.0);
        }
    }

    /// Counts the streams that the peer has opened with this one: all before it, too (RFC 9000
    /// section 3.2).
    fn note_incoming(&mut self, id: StreamId, effects: &mut Effects) {
        if id.is_of_server() == self.is_server {
            return;
        }
        let count = &mut self.incoming[id.direction() as usize];
        if id.index() >= *count {
            *count = id.index() + 1;
            effects.notify(&self.signals, |signals| &signals.incoming_stream);
        }
    }

    /// Whether the application has, or had, a handle of the stream.
    fn is_known(&self, id: StreamId) -> bool {
        let at = id.direction() as usize;
        let is_own = id.is_of_server() == self.is_server;
        id.index() < if is_own { self.opened[at] } else { self.accepted[at] }
    }
}

/// What quiche gives to a new stream.
pub(crate) const DEFAULT_URGENCY: u8 = 127;
