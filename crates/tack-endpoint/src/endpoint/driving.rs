//! The connections' turns: timers, packets to send, and what the application is told.

use std::time::{Duration, Instant};

use quiche::ConnectionId;

use super::{Blocked, Endpoint};
use crate::Error;
use crate::event::Event;
use crate::handle::Handle;
use crate::peer::Peer;
use crate::router::Router;
use crate::send_queue::Flush;

/// How long to wait when the device's queue is full, which nothing reports the end of.
const NO_BUFFERS_PAUSE: Duration = Duration::from_millis(1);

/// Connection IDs given to a peer at most, however many it would take.
const MAX_IDS_PER_PEER: usize = 8;

impl Endpoint {
    pub(super) fn run_timers(&mut self, now: Instant) {
        if matches!(self.blocked, Blocked::Until(time) if time <= now) {
            self.blocked = Blocked::No;
        }
        while let Some(handle) = self.timers.pop_due(now) {
            if let Some(peer) = self.peers.get_mut(handle) {
                peer.on_timer(now);
            }
            self.make_ready(handle);
        }
    }

    /// Gives every connection that is ready one turn. Who has more to send than fits one turn
    /// comes again after the others.
    pub(super) fn transmit(&mut self, now: Instant) -> Result<(), Error> {
        for _ in 0..self.ready.len() {
            if self.blocked != Blocked::No {
                break;
            }
            if let Some(handle) = self.ready.pop_front() {
                self.drive(now, handle);
            }
        }
        let wanted = self.blocked == Blocked::UntilWritable;
        self.waiter.want_writable(&mut self.socket.io, wanted).map_err(Error::Wait)
    }

    fn drive(&mut self, now: Instant, handle: Handle) {
        let Some(peer) = self.peers.get_mut(handle) else { return };
        peer.is_ready = false;
        tend_ids(peer, handle, &mut self.router);

        let filled = peer.produce(now, self.config.pace, &mut self.pool);
        let flush = peer.queue.flush(now, &mut self.socket, &mut self.stats);
        peer.queue.release(&mut self.pool);
        match flush {
            Flush::Complete => {}
            Flush::Full => self.blocked = Blocked::UntilWritable,
            Flush::NoBuffers => self.blocked = Blocked::Until(now + NO_BUFFERS_PAUSE),
        }
        let has_more = filled && peer.queue.is_empty();

        self.report(handle);
        if let Some(peer) = self.peers.get_mut(handle) {
            self.timers.set(handle, peer.deadline(now));
        }
        if has_more || flush != Flush::Complete {
            self.make_ready(handle);
        }
    }

    /// Tells the application what has become of a connection.
    fn report(&mut self, handle: Handle) {
        let Some(peer) = self.peers.get_mut(handle) else { return };
        if peer.close_reported {
            self.finish(handle);
            return;
        }
        if !peer.connected_reported && peer.connection.is_established() {
            peer.handshake_done();
            peer.connected_reported = true;
            peer.announced = true;
            let announced = peer.connection.peer_transport_params();
            if let Some(token) = announced.and_then(|params| params.stateless_reset_token) {
                self.router.expect_reset(peer.remote, token, handle);
            }
            self.events.push_back(Event::Connected(handle));
        }
        let usable = peer.connected_reported || peer.connection.is_in_early_data();
        if std::mem::take(&mut peer.is_active) && usable && !peer.activity_pending {
            peer.activity_pending = true;
            peer.announced = true;
            self.events.push_back(Event::Activity(handle));
        }
        if peer.is_over() {
            peer.close_reported = true;
            if peer.announced {
                self.events.push_back(Event::Closed(handle, peer.close_reason()));
            } else {
                self.stats.handshakes_failed += 1;
            }
            self.finish(handle);
        }
    }

    /// Puts a connection that needs no more care on the list to be removed.
    fn finish(&mut self, handle: Handle) {
        if let Some(peer) = self.peers.get_mut(handle)
            && peer.is_gone()
            && !peer.is_finished
        {
            peer.is_finished = true;
            self.finished.push(handle);
        }
    }

    pub(super) fn reap(&mut self) {
        for handle in self.finished.drain(..) {
            self.peers.remove(handle);
            self.router.ids.forget(handle);
            self.timers.set(handle, None);
        }
    }
}

/// Gives the peer spare connection IDs, which it needs to migrate, and drops those it has
/// retired.
fn tend_ids(peer: &mut Peer, handle: Handle, router: &mut Router) {
    let connection = &mut peer.connection;
    while let Some(retired) = connection.retired_scid_next() {
        router.ids.retire(&retired);
    }
    if connection.is_server() {
        // Nobody else takes these from a server's connection, and the client can cause any
        // number of them.
        while let Some(event) = connection.path_event_next() {
            log::debug!("connection {handle}: {event:?}");
        }
    }
    if !connection.is_established() {
        return;
    }
    while connection.scids_left() > 0 && connection.active_scids() < MAX_IDS_PER_PEER {
        let Ok((cid, token)) = router.new_id() else { return };
        if connection.new_scid(&ConnectionId::from_ref(&cid), token, false).is_err() {
            return;
        }
        router.ids.insert(cid, handle);
    }
}
