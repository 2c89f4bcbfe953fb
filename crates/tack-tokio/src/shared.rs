//! What the driver and the handles of an endpoint share, under one lock.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};
use std::task::Waker;
use std::time::Instant;

use tack_endpoint::runtime::EndpointCore;
use tack_endpoint::{CloseReason, Event, Handle};
use tokio::sync::Notify;

use crate::ConnectionError;
use crate::connection_state::ConnectionState;
use crate::effects::Effects;
use crate::socket::{AsyncUdpSocket, ClosedSocket};
use crate::stream_deadlines::StreamDeadlines;

/// The state of an endpoint, and what tasks that wait for the endpoint wait for.
pub(crate) struct Shared {
    state: Mutex<State>,
    /// A connection came in, or none will.
    pub(crate) incoming: Notify,
    /// No connection is left.
    pub(crate) idle: Notify,
}

impl Shared {
    /// `deadline_error` is the error code of streams that a server's connections reset at their deadline.
    pub(crate) fn new(
        core: EndpointCore<Box<dyn AsyncUdpSocket>>,
        max_incoming: usize,
        deadline_error: u64,
    ) -> Self {
        Self {
            state: Mutex::new(State {
                core,
                max_incoming,
                deadline_error,
                deadlines: StreamDeadlines::default(),
                connections: HashMap::new(),
                incoming: VecDeque::new(),
                driver: None,
                is_closed: false,
                is_abandoned: false,
                failure: None,
                wakes_incoming: false,
                wakes_idle: false,
            }),
            incoming: Notify::new(),
            idle: Notify::new(),
        }
    }

    /// Works on the state, and wakes tasks once the lock is free. A panic of another thread under the
    /// lock does not spread: the state is whole between the calls of quiche.
    pub(crate) fn with<T>(&self, work: impl FnOnce(&mut State, &mut Effects) -> T) -> T {
        let mut effects = Effects::default();
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let result = work(&mut state, &mut effects);
        let incoming = std::mem::take(&mut state.wakes_incoming);
        let idle = std::mem::take(&mut state.wakes_idle);
        drop(state);
        effects.run();
        if incoming {
            self.incoming.notify_waiters();
        }
        if idle {
            self.idle.notify_waiters();
        }
        result
    }
}

/// A connection, with what belongs to the endpoint.
pub(crate) struct ConnectionParts<'a> {
    pub(crate) state: &'a mut ConnectionState,
    pub(crate) core: &'a mut EndpointCore<Box<dyn AsyncUdpSocket>>,
    pub(crate) deadlines: &'a mut StreamDeadlines,
}

/// An endpoint and its connections.
pub(crate) struct State {
    pub(crate) core: EndpointCore<Box<dyn AsyncUdpSocket>>,
    connections: HashMap<Handle, ConnectionState>,
    /// Connections that wait to be accepted, some of which may be over.
    incoming: VecDeque<Handle>,
    /// How many may wait.
    max_incoming: usize,
    /// The error code of streams that connections of clients reset at their deadline.
    deadline_error: u64,
    pub(crate) deadlines: StreamDeadlines,
    /// The driver, if it sleeps.
    pub(crate) driver: Option<Waker>,
    /// The application has closed the endpoint.
    pub(crate) is_closed: bool,
    /// The last handle of the endpoint is gone.
    is_abandoned: bool,
    /// Why nothing works any more.
    pub(crate) failure: Option<ConnectionError>,
    wakes_incoming: bool,
    wakes_idle: bool,
}

impl State {
    /// Has the driver send what was written.
    pub(crate) fn wake_driver(&mut self, effects: &mut Effects) {
        effects.wake(self.driver.take());
    }

    /// Adds a connection that this end has begun.
    pub(crate) fn insert_outgoing(
        &mut self,
        handle: Handle,
        deadline_error: u64,
    ) -> &ConnectionState {
        let new = || ConnectionState::new(false, deadline_error);
        self.connections.entry(handle).or_insert_with(new)
    }

    /// A connection that the application has, with the core's part of it.
    pub(crate) fn connection(&mut self, handle: Handle) -> Option<ConnectionParts<'_>> {
        let state = self.connections.get_mut(&handle)?;
        Some(ConnectionParts { state, core: &mut self.core, deadlines: &mut self.deadlines })
    }

    /// Gives up the streams whose deadline has passed before they were finished.
    pub(crate) fn expire_streams(&mut self, now: Instant, effects: &mut Effects) {
        while let Some((handle, id)) = self.deadlines.take_due(now) {
            if let Some(state) = self.connections.get_mut(&handle) {
                state.expire(&mut self.core, handle, id, effects);
            }
        }
    }

    /// Takes a connection that waits to be accepted.
    pub(crate) fn accept(&mut self) -> Option<(Handle, &ConnectionState)> {
        let handle = self.incoming.pop_front()?;
        let state = self.connections.get(&handle)?;
        Some((handle, state))
    }

    /// Whether a connection may still come in.
    pub(crate) fn is_accepting(&self) -> bool {
        !self.is_closed && self.failure.is_none()
    }

    /// Closes every connection, and takes no more.
    pub(crate) fn close(&mut self, code: u64, reason: &[u8], effects: &mut Effects) {
        self.is_closed = true;
        for (handle, state) in &mut self.connections {
            state.close(&mut self.core, *handle, code, reason, effects);
        }
        self.abandon_incoming(effects);
        self.core.shutdown(crate::driver::clock(), code, reason);
        self.wakes_incoming = true;
        self.wake_driver(effects);
    }

    /// The application has dropped the endpoint, and accepts no connections any more.
    pub(crate) fn abandon(&mut self, effects: &mut Effects) {
        self.is_abandoned = true;
        self.core.refuse_new();
        self.abandon_incoming(effects);
        self.wake_driver(effects);
    }

    /// Nobody accepts the connections that wait any more.
    fn abandon_incoming(&mut self, effects: &mut Effects) {
        while let Some(handle) = self.incoming.pop_front() {
            self.abandon_connection(handle, effects);
        }
    }

    /// The application has dropped all handles of a connection.
    pub(crate) fn abandon_connection(&mut self, handle: Handle, effects: &mut Effects) {
        let Some(state) = self.connections.get_mut(&handle) else { return };
        state.close(&mut self.core, handle, 0, b"", effects);
        state.is_abandoned = true;
        if state.is_reported || self.failure.is_some() {
            self.connections.remove(&handle);
        }
        self.wake_driver(effects);
    }

    /// Acts on what has happened in the core.
    pub(crate) fn take_events(&mut self, effects: &mut Effects) {
        while let Some(event) = self.core.next_event() {
            match event {
                Event::Connected(handle) => self.on_connected(handle, effects),
                Event::Activity(handle) => self.on_activity(handle, effects),
                Event::Closed(handle, reason) => self.on_closed(handle, reason, effects),
                // What a later core may tell beside is of no concern here.
                _ => {}
            }
        }
        while let Some((handle, connection)) = self.core.remove_finished() {
            if let Some(state) = self.connections.get_mut(&handle) {
                state.retire(connection);
            }
        }
    }

    fn on_connected(&mut self, handle: Handle, effects: &mut Effects) {
        self.announce(handle, effects);
        if let Some(state) = self.connections.get_mut(&handle) {
            state.on_established(effects);
        }
        // Data may have come with the end of the handshake.
        self.on_activity(handle, effects);
    }

    fn on_activity(&mut self, handle: Handle, effects: &mut Effects) {
        self.announce(handle, effects);
        if let Some(state) = self.connections.get_mut(&handle) {
            state.on_activity(&mut self.core, handle, effects);
        }
    }

    fn on_closed(&mut self, handle: Handle, reason: CloseReason, effects: &mut Effects) {
        let Some(state) = self.connections.get_mut(&handle) else { return };
        // What has come with the close can still be accepted and read, and what was acknowledged is delivered.
        state.on_activity(&mut self.core, handle, effects);
        state.note_deliveries(&mut self.core, handle);
        state.is_reported = true;
        state.on_over(&ConnectionError::Closed(reason), effects);
        if state.is_abandoned {
            self.connections.remove(&handle);
        }
    }

    /// Lets a client's connection be accepted when an event names it for the first time.
    fn announce(&mut self, handle: Handle, effects: &mut Effects) {
        if self.connections.contains_key(&handle) {
            return;
        }
        self.connections.insert(handle, ConnectionState::new(true, self.deadline_error));
        let is_full = self.incoming.len() >= self.max_incoming;
        if self.is_closed || self.is_abandoned || is_full {
            // Its handshake was on the way; or nobody accepts, and the core does not count those
            // that are over.
            self.abandon_connection(handle, effects);
            return;
        }
        self.incoming.push_back(handle);
        self.wakes_incoming = true;
    }

    /// Whether the driver may end.
    pub(crate) fn is_done(&mut self, effects: &mut Effects) -> bool {
        let is_idle = self.is_idle();
        self.wakes_idle |= is_idle;
        let is_done = is_idle && self.is_abandoned;
        if is_done {
            self.fail(&ConnectionError::EndpointStopped, effects);
        }
        is_done
    }

    /// Whether no connection is left, not even one that is closing.
    pub(crate) fn is_idle(&self) -> bool {
        self.failure.is_some() || self.core.is_idle()
    }

    /// Closes the socket, which handles that are left would keep open.
    pub(crate) fn close_socket(&mut self, effects: &mut Effects) {
        let closed = Box::new(ClosedSocket(self.core.local_addr()));
        effects.close(std::mem::replace(self.core.socket_mut(), closed));
    }

    /// Nothing works any more: tells all that wait. The first reason counts.
    pub(crate) fn fail(&mut self, error: &ConnectionError, effects: &mut Effects) {
        if self.failure.is_some() {
            return;
        }
        self.failure = Some(error.clone());
        for state in self.connections.values_mut() {
            state.on_over(error, effects);
        }
        self.connections.retain(|_, state| !state.is_abandoned);
        (self.wakes_incoming, self.wakes_idle) = (true, true);
    }
}

#[cfg(test)]
mod tests {
    use tack_endpoint::EndpointConfig;

    use super::*;
    use crate::driver::clock;

    #[test]
    fn connections_that_nobody_has_accepted_are_forgotten_when_the_endpoint_is_closed() {
        let local = ([127, 0, 0, 1], 1000).into();
        let socket: Box<dyn AsyncUdpSocket> = Box::new(ClosedSocket(local));
        let core = EndpointCore::new(socket, None, EndpointConfig::default(), clock()).unwrap();
        let shared = Shared::new(core, 10, 0);
        let mut config = tacklib::Config::new(tacklib::quiche::PROTOCOL_VERSION).unwrap();
        shared.with(|state, effects| {
            // One is over already, the other is not.
            for is_over in [true, false] {
                let handle = state.core.connect(clock(), local, None, &mut config).unwrap();
                state.announce(handle, effects);
                if is_over {
                    state.on_closed(handle, CloseReason::IdleTimeout, effects);
                }
            }
            assert_eq!((state.connections.len(), state.incoming.len()), (2, 2));
            state.close(0, b"", effects);
            assert_eq!((state.connections.len(), state.incoming.len()), (1, 0));
            assert!(state.connections.values().all(|left| left.is_abandoned));
        });
    }
}
