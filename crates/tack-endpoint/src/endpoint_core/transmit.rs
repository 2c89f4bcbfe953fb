//! The connections' turns: timers, packets to send, and events for the application.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use quiche::ConnectionId;

use super::{Blocked, EndpointCore};
use crate::connection_state::ConnectionState;
use crate::event::Event;
use crate::handle::Handle;
use crate::router::Router;
use crate::send_queue::Flush;
use crate::socket::DatagramSocket;
use crate::timer_guard::Expiry;

/// How long to wait when the device's queue is full.
const NO_BUFFERS_PAUSE: Duration = Duration::from_millis(1);

/// How long to wait for a full socket to say that it is writable. Readiness is edge-triggered: a
/// call that fails although there is room (EAGAIN under memory pressure) is followed by no event.
const WRITABLE_TIMEOUT: Duration = Duration::from_millis(10);

/// Connection IDs given to a peer at most, however many it would take.
const MAX_IDS_PER_PEER: usize = 8;

impl<S: DatagramSocket> EndpointCore<S> {
    pub(super) fn run_timers(&mut self, now: Instant) {
        if self.blocked.until().is_some_and(|time| time <= now) {
            self.blocked = Blocked::No;
        }
        while let Some(handle) = self.timers.pop_due(now) {
            if let Some(state) = self.connections.get_mut(handle) {
                state.on_timer(now);
            }
            self.make_ready(handle);
        }
    }

    /// Gives every connection that is ready one turn, in which it sends what may leave. A connection
    /// that has more to send than fits one turn comes again after the others.
    pub fn transmit(&mut self, now: Instant) {
        for _ in 0..self.ready.len() {
            if self.blocked != Blocked::No {
                break;
            }
            if let Some(handle) = self.ready.pop_front() {
                self.drive(now, handle);
            }
        }
    }

    /// Sends the CONNECTION_CLOSE of each connection that owes one, whatever its release time. If
    /// the system does not take it now, it is lost.
    pub(super) fn send_owed_closes(&mut self, now: Instant) {
        for handle in self.connections.handles().collect::<Vec<_>>() {
            let Some(state) = self.connections.get_mut(handle) else { continue };
            if !state.owes_close() {
                continue;
            }
            loop {
                state.queue.release_all(now);
                let has_more = state.fill_queue(now, false, &mut self.pool);
                let flush = state.queue.flush(now, &mut self.socket, &mut self.stats);
                if flush != Flush::Complete || !has_more {
                    break;
                }
            }
        }
    }

    fn drive(&mut self, now: Instant, handle: Handle) {
        let Some(state) = self.connections.get_mut(handle) else { return };
        state.is_ready = false;
        update_connection_ids(state, handle, &mut self.router);

        let is_full = state.fill_queue(now, self.config.pace, &mut self.pool);
        let flush = state.queue.flush(now, &mut self.socket, &mut self.stats);
        state.queue.release_buffer(&mut self.pool);
        match flush {
            Flush::Complete => {}
            Flush::Full => self.blocked = Blocked::Full(now + WRITABLE_TIMEOUT),
            Flush::NoBuffers => self.blocked = Blocked::NoBuffers(now + NO_BUFFERS_PAUSE),
        }
        let has_more = is_full && state.queue.is_empty();

        self.report(handle);
        if let Some(state) = self.connections.get_mut(handle) {
            let expiry = state.next_expiry(now, flush != Flush::Complete);
            self.stats.stale_timers += u64::from(matches!(expiry, Some(Expiry::Postponed(_))));
            self.timers.set(handle, expiry.map(Expiry::at));
        }
        if has_more || flush != Flush::Complete {
            self.make_ready(handle);
        }
    }

    /// Queues the events that a connection's turn has caused.
    fn report(&mut self, handle: Handle) {
        let Some(state) = self.connections.get_mut(handle) else { return };
        if state.close_reported {
            self.finish(handle);
            return;
        }
        if !state.connected_reported && state.connection.is_established() {
            state.handshake_done();
            state.connected_reported = true;
            if let Some(client) = state.half_open.take() {
                self.half_open.on_established(handle, client);
            }
            state.is_announced = true;
            let announced = state.connection.peer_transport_params();
            if let Some(token) = announced.and_then(|params| params.stateless_reset_token) {
                self.router.expect_reset(state.remote, token, handle);
            }
            self.events.push_back(Event::Connected(handle));
        }
        let usable = state.connected_reported || state.connection.is_in_early_data();
        if std::mem::take(&mut state.is_active) && usable && !state.activity_pending {
            state.activity_pending = true;
            state.is_announced = true;
            self.events.push_back(Event::Activity(handle));
        }
        if state.is_closed() {
            state.close_reported = true;
            if state.is_announced {
                self.events.push_back(Event::Closed(handle, state.close_reason()));
            } else {
                self.stats.handshakes_failed += 1;
            }
            self.finish(handle);
        }
    }

    /// Puts a connection that needs no more care on the list to be removed.
    fn finish(&mut self, handle: Handle) {
        if let Some(state) = self.connections.get_mut(handle)
            && state.is_gone()
            && !state.is_finished
        {
            state.is_finished = true;
            self.finished.push(handle);
        }
    }

    /// Removes one of the connections that [`Event::Closed`] told of and that need no more care. It
    /// exchanges nothing any more, but what has arrived can be read.
    pub fn remove_finished(&mut self) -> Option<(Handle, tacklib::Connection)> {
        let handle = self.finished.pop()?;
        let state = self.remove(handle)?;
        Some((handle, state.connection))
    }

    fn remove(&mut self, handle: Handle) -> Option<ConnectionState> {
        self.router.ids.forget(handle);
        self.timers.set(handle, None);
        let mut state = self.connections.remove(handle)?;
        self.worker.connections_removed(1);
        if let Some(client) = state.half_open.take() {
            self.half_open.on_failed(handle, client);
        }
        Some(state)
    }

    /// Ends a handshake for a client at this address, if one has to give way: the oldest of which the application has
    /// not heard, or else the oldest that goes on. Nothing tells its client: that begins another if it still wants to.
    /// Whether one has given way.
    #[cold]
    pub(super) fn make_room_for(&mut self, ip: IpAddr) -> bool {
        let Some(of_network) = self.half_open.give_way_to(ip) else { return false };
        let oldest = |is_eligible: fn(&ConnectionState) -> bool| {
            let state = |handle| self.connections.get(handle);
            of_network.iter().copied().find(|handle| state(*handle).is_some_and(is_eligible))
        };
        if let Some(unknown) = oldest(|state| !state.is_announced && !state.is_finished) {
            self.stats.handshakes_failed += 1;
            self.remove(unknown);
            return true;
        }
        // The application has heard of all of them, because they have sent early data: it hears of the end as well, and
        // until the next turn there is one connection more.
        let Some(known) = oldest(|state| !state.is_over()) else { return false };
        let Some(state) = self.connections.get_mut(known) else { return false };
        state.give_up();
        self.make_ready(known);
        true
    }
}

/// Gives the peer spare connection IDs, which it needs to migrate, and drops those it has
/// retired.
fn update_connection_ids(state: &mut ConnectionState, handle: Handle, router: &mut Router) {
    let connection = &mut state.connection;
    while let Some(retired) = connection.retired_scid_next() {
        router.ids.retire(&retired);
    }
    if connection.is_server() {
        // The client can cause any number of these, and the application of a server does not take
        // them.
        while let Some(event) = connection.path_event_next() {
            log::debug!("connection {handle}: {event:?}");
        }
    }
    if !connection.is_established() {
        return;
    }
    while router.has_spare_ids()
        && connection.scids_left() > 0
        && connection.active_scids() < MAX_IDS_PER_PEER
    {
        let Ok((cid, token)) = router.new_id() else { return };
        if connection.new_scid(&ConnectionId::from_ref(&cid), token, false).is_err() {
            return;
        }
        router.ids.insert(cid, handle);
    }
}
