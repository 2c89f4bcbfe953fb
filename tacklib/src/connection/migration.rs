//! Paths: which one data goes over, which are being validated (RFC 9000 sections 8.2 and 9).

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use quiche::{BufFactory, PathStats, RecvInfo, SendInfo};
use tack_proto::sender::PathId;

use super::Connection;
use super::send::Wanted;
use super::send_credits::CreditReason;
use crate::layer::{Layer, Plan};
use crate::quiche_compat::{AddressPair, is_without_path, may_be_blocked, ping_packet_len};

/// Pairs of hosts that are told apart; the oldest is forgotten first.
const MAX_PATHS: usize = 8;

/// Room for the first frames to an address that is not proven: an acknowledgement of a few ranges, and a challenge.
const FIRST_FRAMES: usize = 9 + 16;

/// An address that is not proven and has room for so many full packets had room before its last datagram, too.
const FULL_PACKETS_IN_ROOM: usize = 8;

/// Round trips within which a challenge is answered, and how long they count as at least.
const ROUND_TRIPS_IN_TIME: u32 = 3;
const LEAST_IN_TIME: Duration = Duration::from_millis(300);

/// The paths of a connection.
#[derive(Debug, Default)]
pub(super) struct Paths {
    /// Where the last accepted datagram came from: local and remote address.
    received: Option<AddressPair>,
    /// Whether datagrams have arrived from more than one address.
    has_several: bool,
    /// Where data goes to.
    active: Option<AddressPair>,
    /// Where data went before, until a flush PING has left there.
    previous: Option<AddressPair>,
    /// The probe timer has expired since it is being proven where data goes to.
    has_probe_timeout: bool,
    /// The hosts of the paths that data went over. A change of the port alone is most likely a NAT's,
    /// and the path the same.
    known: Vec<(AddressPair, PathId)>,
    next_id: u32,
}

impl Paths {
    /// Whether a PING has to leave where data went before.
    #[inline]
    pub(super) fn has_previous(&self) -> bool {
        self.previous.is_some()
    }

    /// Whether data goes over this path.
    #[inline]
    pub(super) fn is_active(&self, from: &SocketAddr, to: &SocketAddr) -> bool {
        self.active.as_ref().is_some_and(|path| path.0 == *from && path.1 == *to)
    }

    /// Whether the last accepted datagram came over this path, too.
    #[inline]
    pub(super) fn is_received(&self, local: &SocketAddr, peer: &SocketAddr) -> bool {
        self.received.as_ref().is_some_and(|path| path.0 == *local && path.1 == *peer)
    }

    /// Whether data goes over this path, as far as is known, or one that differs in a port alone.
    #[inline]
    pub(super) fn is_usual(&self, path: AddressPair) -> bool {
        self.active.is_none_or(|active| active == path || same_hosts(active, path))
    }

    /// The path's number, if data does not go over it.
    #[inline]
    pub(super) fn other_than_active(&mut self, path: AddressPair) -> Option<PathId> {
        let active = self.active?;
        if active == path || same_hosts(active, path) { None } else { Some(self.id_of(path)) }
    }

    /// The path's number, if data has gone over it.
    pub(super) fn known_id(&self, path: AddressPair) -> Option<PathId> {
        let of = |(known, id): &(AddressPair, PathId)| same_hosts(*known, path).then_some(*id);
        self.known.iter().find_map(of)
    }

    fn id_of(&mut self, path: AddressPair) -> PathId {
        if let Some(id) = self.known_id(path) {
            return id;
        }
        if self.known.len() == MAX_PATHS {
            self.known.remove(0);
        }
        let id = PathId(self.next_id);
        self.next_id += 1;
        self.known.push((path, id));
        id
    }
}

fn same_hosts(a: AddressPair, b: AddressPair) -> bool {
    a.0.ip() == b.0.ip() && a.1.ip() == b.1.ip()
}

impl<F: BufFactory> Connection<F> {
    /// Validates a path, as [`quiche::Connection::probe_path`].
    pub fn probe_path(&mut self, local: SocketAddr, peer: SocketAddr) -> quiche::Result<u64> {
        let sequence = self.inner.probe_path(local, peer)?;
        self.seam.counters.on_path_opened(&self.inner);
        self.expect_challenge();
        Ok(sequence)
    }

    /// Goes on from another address, as [`quiche::Connection::migrate_source`].
    pub fn migrate_source(&mut self, local: SocketAddr) -> quiche::Result<u64> {
        let sequence = self.inner.migrate_source(local)?;
        self.seam.counters.on_path_opened(&self.inner);
        self.expect_challenge();
        Ok(sequence)
    }

    /// Goes on over another path, as [`quiche::Connection::migrate`].
    pub fn migrate(&mut self, local: SocketAddr, peer: SocketAddr) -> quiche::Result<u64> {
        let sequence = self.inner.migrate(local, peer)?;
        self.seam.counters.on_path_opened(&self.inner);
        self.expect_challenge();
        Ok(sequence)
    }

    /// Asks for a challenge again that was lost, or whose answer was, where its path is still to be validated.
    pub(super) fn repeat_lost_challenge(&mut self, layer: &Layer, now: Instant) {
        let was_delivered = |pn| layer.was_delivered(pn);
        let in_time = layer.sender().smoothed_rtt().map_or(LEAST_IN_TIME, |round_trip| {
            (ROUND_TRIPS_IN_TIME * round_trip).max(LEAST_IN_TIME)
        });
        let validation = &mut self.seam.validation;
        let lost = validation.take_lost(now.checked_sub(in_time), was_delivered);
        let Some((local, peer)) = lost else { return };
        // A server need not know more of an address that its client has left.
        if self.inner.is_server() && self.paths.active != Some((local, peer)) {
            return;
        }
        // The path may be gone: then there is nothing to find out about it.
        if self.inner.is_path_validated(local, peer) == Ok(false)
            && self.inner.probe_path(local, peer).is_ok()
        {
            self.expect_challenge();
        }
    }

    /// quiche has a challenge to send, most likely: it is to be asked, and to have the room.
    pub(super) fn expect_challenge(&mut self) {
        self.seam.validation.expect_challenge();
        self.credits.grant_path_probe();
        self.pending.add();
    }

    /// What may leave over the active path, so that the PING which leaves last when it is left still may
    /// (`path_flush_ping.rs`): three times what has come may be sent to an address that is not proven (RFC 9000 section
    /// 8.1), and quiche would never learn what of that was lost.
    #[inline]
    pub(super) fn room_before_flush(&self) -> usize {
        let validation = &self.seam.validation;
        // A connection without a path is asked for a packet whatever there is room for.
        if validation.is_running && !validation.has_no_path && self.inner.is_server() {
            self.room_of_unproven()
        } else {
            usize::MAX
        }
    }

    #[cold]
    fn room_of_unproven(&self) -> usize {
        // The path that quiche sends over next: the layer follows behind the first packet.
        let active = self.inner.path_stats().find(|path| path.active);
        let is_proven = |path: &PathStats| self.is_proven((path.local_addr, path.peer_addr));
        active.filter(|path| !is_proven(path)).map_or(usize::MAX, |path| {
            // If more has left, it was proven once.
            let left = (3 * path.recv_bytes).checked_sub(path.sent_bytes);
            let left = left.and_then(|left| usize::try_from(left).ok()).unwrap_or(usize::MAX);
            let ping = ping_packet_len(self.inner.destination_id().len());
            let rest = left.saturating_sub(ping);
            // The answer to the challenge brings more.
            if path.sent == 0 && rest < ping + FIRST_FRAMES { left } else { rest }
        })
    }

    /// Whether frames of the layer's own may leave over the path that quiche sends over next: to an address that is not
    /// proven what quiche writes must not get longer.
    #[inline]
    pub(super) fn adds_frames(&self) -> bool {
        let is_proven =
            |path: PathStats| !path.active || self.is_proven((path.local_addr, path.peer_addr));
        !self.seam.validation.is_running || self.inner.path_stats().all(is_proven)
    }

    /// Whether quiche sends data over this path: the layer follows behind the first packet.
    pub(super) fn carries_data(&self, path: AddressPair) -> bool {
        let active = self.inner.path_stats().find(|path| path.active);
        active.is_none_or(|active| (active.local_addr, active.peer_addr) == path)
    }

    /// Has quiche write a packet, for the path that the application wants.
    pub(super) fn send_inner(
        &mut self,
        out: &mut [u8],
        (from, to): Wanted,
    ) -> quiche::Result<(usize, SendInfo)> {
        let result = self.inner.send_on_path(out, from, to);
        let is_any = from.is_none() && to.is_none();
        let has_others = self.paths.has_several && self.inner.is_server();
        if !has_others || !is_any || result != Err(quiche::Error::Done) {
            return result;
        }
        match self.paths.received {
            Some(path) if may_be_blocked(&self.inner, path) => {
                self.inner.send_on_path(out, Some(path.0), Some(path.1))
            }
            _ => result,
        }
    }

    /// Whether any amount may be sent over a path. If not, quiche knows how much may, and what it
    /// writes must not get longer (RFC 9000 section 8.1).
    pub(super) fn is_proven(&self, path: AddressPair) -> bool {
        !self.inner.is_server()
            || self.paths.active == Some(path) && !self.seam.validation.is_running
            || self.seam.validation.has_proven(path)
            || self.inner.is_path_validated(path.0, path.1) == Ok(true)
    }

    /// A packet that came so has been accepted, with a `response` to a challenge. `is_same_path`: over the path of the
    /// last one.
    #[inline]
    pub(super) fn follow_validation(
        &mut self,
        info: &RecvInfo,
        is_same_path: bool,
        response: Option<[u8; 8]>,
    ) {
        if !is_same_path || self.seam.validation.is_running || response.is_some() {
            self.validate_further((info.to, info.from), response);
        }
    }

    fn validate_further(&mut self, path: AddressPair, response: Option<[u8; 8]>) {
        let validation = &mut self.seam.validation;
        let before = self.paths.received.replace(path);
        if before != Some(path) {
            self.paths.has_several |= before.is_some();
            validation.on_path_change();
        }
        let is_answer = response.is_some_and(|data| validation.on_answer(Some(path), data));
        if !validation.is_running && !is_answer {
            return;
        }
        let is_open = |path: Option<AddressPair>| {
            path.is_some_and(|(local, peer)| {
                self.inner.is_path_validated(local, peer) == Ok(false)
            })
        };
        let is_new = std::mem::take(&mut validation.has_changed) || is_answer;
        validation.is_running = is_open(self.paths.active);
        validation.has_no_path = is_without_path(&self.inner);
        let has_no_path = validation.has_no_path;
        let is_unproven = is_open(Some(path));
        if is_answer && is_unproven {
            // quiche wants to ask again with a longer datagram, or has given up this challenge for lost: then it would not.
            let _ = self.inner.probe_path(path.0, path.1);
        }
        if is_new && is_unproven || has_no_path {
            self.expect_challenge();
        }
        // Each datagram lets more leave, the answer to the challenge all (RFC 9000 section 8.1). What could leave before
        // has left: quiche, which is asked, has an acknowledgement each time.
        let few = FULL_PACKETS_IN_ROOM * self.seam.path_mtu.get();
        let is_short_of_room = self.room_before_flush() < few;
        self.pending.add_if(is_new || has_no_path || is_short_of_room);
    }

    /// Notices when data goes another way: the peer's address has changed, or
    /// the application has migrated. `used` is the path of the packet that quiche has just written.
    pub(super) fn follow_active_path(
        &mut self,
        layer: &mut Layer,
        now: Instant,
        used: AddressPair,
    ) {
        if self.paths.active == Some(used) {
            return;
        }
        let Some(stats) = self.inner.path_stats().find(|path| path.active) else { return };
        let active = (stats.local_addr, stats.peer_addr);
        let Some(left) = self.paths.active.replace(active) else {
            // The first path, which the sender has begun on.
            self.paths.id_of(active);
            let dcid_len = self.inner.destination_id().len();
            self.seam.connection_id_lengths.on_issued(dcid_len);
            return;
        };
        if left == active {
            return;
        }
        let mtu = self.seam.path_mtu.get();
        self.seam.path_mtu.follow(&self.inner);
        self.on_path_mtu(mtu);
        layer.set_mss(self.seam.path_mtu.get());
        self.paths.previous = Some(left);
        self.seam.validation.is_running = true;
        self.credits.grant(CreditReason::NewPath);
        self.pending.add();
        if !same_hosts(left, active) {
            // RFC 9000 section 9.4.
            let id = self.paths.id_of(active);
            layer.set_path(now, id);
        }
    }

    /// Flushes the path that quiche has left for one over which nothing may leave yet, not even a challenge (RFC 9000
    /// section 8.1): no timer would ever end that. A peer whose packets another host has sent on answers from where it is,
    /// and quiche goes back there. Each time that the probe timer expires the PING is repeated: it may have got lost, and
    /// quiche probes the active path alone.
    #[cold]
    pub(super) fn flush_path_left_unseen(
        &mut self,
        layer: &mut Layer,
        now: Instant,
        out: &mut [u8],
        wanted: Wanted,
    ) -> quiche::Result<(usize, SendInfo)> {
        let active = self.inner.path_stats().find(|path| path.active);
        if let Some(active) = active {
            self.follow_active_path(layer, now, (active.local_addr, active.peer_addr));
        }
        if std::mem::take(&mut self.paths.has_probe_timeout) && !self.paths.has_previous() {
            let is_proven = |path: &PathStats| {
                !path.active
                    && self.inner.is_path_validated(path.local_addr, path.peer_addr) == Ok(true)
            };
            let proven = self.inner.path_stats().find(is_proven);
            self.paths.previous = proven.map(|path| (path.local_addr, path.peer_addr));
        }
        self.flush_previous_path(layer, now, out, wanted).ok_or(quiche::Error::Done)
    }

    /// The probe timer has expired.
    pub(super) fn on_path_probe_timeout(&mut self) {
        self.paths.has_probe_timeout =
            self.seam.validation.is_running && self.inner.is_server();
    }

    /// Sends a PING over the path that was left, by which quiche finds out what was lost there.
    pub(super) fn flush_previous_path(
        &mut self,
        layer: &mut Layer,
        now: Instant,
        out: &mut [u8],
        (from, to): Wanted,
    ) -> Option<(usize, SendInfo)> {
        let wanted = |path: &mut AddressPair| {
            from.is_none_or(|from| from == path.0) && to.is_none_or(|to| to == path.1)
        };
        let (local, peer) = self.paths.previous.take_if(wanted)?;
        let room = out.len().min(ping_packet_len(self.inner.destination_id().len()));
        let written = self
            .inner
            .send_ack_eliciting_on_path(local, peer)
            .and_then(|()| self.inner.send_on_path(&mut out[..room], Some(local), Some(peer)));
        // The path may be gone: then there is nothing to flush.
        let (len, mut info) = written.ok()?;
        info.at = now;
        let finished = self.finish(layer, now, out, len, &Plan::flush(), (local, peer));
        finished.map(|len| (len, info))
    }
}
