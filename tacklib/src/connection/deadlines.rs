//! Deadlines: what is too late is neither sent nor sent again.
//!
//! A stream whose deadline passes is reset (RFC 9000 section 3.1): quiche then drops what it has not
//! sent and repeats none of what was lost. DATAGRAMs wait in quiche's queue in the order in which they
//! came, and leave it in that order, so a record of their deadlines beside it tells which are too old.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Instant;

use quiche::{BufFactory, Shutdown};

use super::Connection;
use super::overdue::{Overdue, PacketRecord};
use crate::layer::Layer;
use crate::quiche_compat::error_code;

/// Streams, and tags of DATAGRAMs, kept for an application that does not ask which have expired.
const REMEMBERED: usize = 4096;

/// Streams that are remembered because they were not opened before their deadline.
const MOST_UNOPENED: usize = 256;

/// Deadlines that the application has set.
#[derive(Debug, Default)]
pub(super) struct Deadlines {
    of_stream: BTreeMap<u64, Instant>,
    /// The same in the order of time.
    in_time: BTreeSet<(Instant, u64)>,
    /// Streams behind their deadline that are not opened: they are reset when they are.
    unopened: BTreeSet<u64>,
    /// Streams that were reset, and of which the application has not heard yet.
    expired: VecDeque<u64>,
    datagrams: DatagramDeadlines,
    pub(super) overdue: Overdue,
    expired_streams: u64,
    expired_datagrams: u64,
}

impl Deadlines {
    fn set(&mut self, stream_id: u64, deadline: Option<Instant>) {
        self.overdue.on_deadline(stream_id, deadline.is_some());
        self.unopened.remove(&stream_id);
        if let Some(old) = self.of_stream.remove(&stream_id) {
            self.in_time.remove(&(old, stream_id));
        }
        if let Some(at) = deadline {
            self.of_stream.insert(stream_id, at);
            self.in_time.insert((at, stream_id));
        }
    }

    /// The next stream whose deadline has passed; its deadline is gone then.
    fn take_due(&mut self, now: Instant) -> Option<u64> {
        let (at, stream_id) = self.in_time.first().copied().filter(|(at, _)| *at <= now)?;
        self.in_time.remove(&(at, stream_id));
        self.of_stream.remove(&stream_id);
        Some(stream_id)
    }

    fn on_stream_expired(&mut self, stream_id: u64) {
        self.expired_streams += 1;
        remember(&mut self.expired, stream_id);
    }

    /// The deadline of a stream has passed that is not opened.
    fn on_unopened(&mut self, stream_id: u64) {
        if self.unopened.len() >= MOST_UNOPENED {
            self.unopened.pop_first();
        }
        self.unopened.insert(stream_id);
    }

    /// When the next one passes.
    pub(super) fn next(&self) -> Option<Instant> {
        let stream = self.in_time.first().map(|(at, _)| *at);
        [stream, self.datagrams.next].into_iter().flatten().min()
    }

    /// Streams and DATAGRAMs that have expired.
    pub(super) fn counts(&self) -> (u64, u64) {
        (self.expired_streams, self.expired_datagrams)
    }
}

impl PacketRecord for Layer {
    fn first(&self) -> u64 {
        self.sender().first_packet_number()
    }

    fn was_delivered(&self, packet_number: u64) -> Option<bool> {
        self.sender().was_delivered(packet_number)
    }
}

/// Appends what the application is to be told; the oldest gives way.
fn remember(told: &mut VecDeque<u64>, id: u64) {
    if told.len() == REMEMBERED {
        told.pop_front();
    }
    told.push_back(id);
}

/// What is known of a DATAGRAM in quiche's queue.
#[derive(Clone, Copy, Debug, Default)]
struct QueuedDatagram {
    deadline: Option<Instant>,
    /// What the application calls it. One with a tag has a deadline, too.
    tag: Option<u64>,
}

/// The deadlines of the DATAGRAMs in quiche's queue, in its order. Empty while none has one.
#[derive(Debug, Default)]
pub(super) struct DatagramDeadlines {
    queue: VecDeque<QueuedDatagram>,
    /// The earliest of them, or earlier.
    next: Option<Instant>,
    /// Tags of those that were dropped, and of which the application has not heard yet.
    dropped: VecDeque<u64>,
}

impl DatagramDeadlines {
    /// A DATAGRAM was queued, and `len` are in the queue now.
    fn on_queued(&mut self, len: usize, datagram: QueuedDatagram) {
        if datagram.deadline.is_none() && self.next.is_none() {
            self.queue.clear();
            return;
        }
        self.follow(len.saturating_sub(1));
        self.queue.push_back(datagram);
        self.next = [self.next, datagram.deadline].into_iter().flatten().min();
    }

    /// `len` are in the queue: those before have left it. What came in unseen has no deadline.
    fn follow(&mut self, len: usize) {
        let left = self.queue.len().saturating_sub(len);
        self.queue.drain(..left);
        self.queue.resize(len, QueuedDatagram::default());
    }

    /// Which of the `len` in the queue have expired; their deadlines are gone then. `None` if no
    /// deadline has passed.
    fn take_due(&mut self, len: usize, now: Instant) -> Option<Vec<bool>> {
        self.next.filter(|next| *next <= now)?;
        self.follow(len);
        let is_due = |datagram: &QueuedDatagram| datagram.deadline.is_some_and(|at| at <= now);
        let due: Vec<bool> = self.queue.iter().map(is_due).collect();
        self.remove(&due);
        self.next = self.queue.iter().filter_map(|datagram| datagram.deadline).min();
        Some(due)
    }

    /// The queue of `len` is purged: `is_purged` tells of each whether it goes.
    fn on_purged(&mut self, len: usize, is_purged: &[bool]) {
        if self.next.is_some() {
            self.follow(len);
            self.remove(is_purged);
        }
    }

    /// Removes those that are dropped.
    fn remove(&mut self, are_dropped: &[bool]) {
        let mut are_dropped = are_dropped.iter();
        let dropped = &mut self.dropped;
        self.queue.retain(|datagram| {
            let is_dropped = are_dropped.next().copied().unwrap_or_default();
            if let Some(tag) = datagram.tag.filter(|_| is_dropped) {
                remember(dropped, tag);
            }
            !is_dropped
        });
    }
}

impl<F: BufFactory> Connection<F> {
    /// Sets when the data of a stream is worth nothing any more, or takes that back (`None`).
    ///
    /// When the deadline passes before the end of the stream is written and all of it has left, or while some of it is
    /// to be sent again, the stream is
    /// reset with [`TackConfig::deadline_error`](crate::TackConfig::deadline_error); one that is wholly on its way is
    /// as soon as something of it is lost, or when a probe timer expires. One that is not opened by then is reset when
    /// it is written to, before anything of it leaves. No byte of it is sent or sent again, what
    /// waits in the send buffer is dropped and its room is free at once, and
    /// [`stream_expired_next`](Self::stream_expired_next) reports the stream. One that was reset for a probe is
    /// reported when something of it turns out to be lost, or nothing is heard of it until the next probe: it may
    /// have arrived, and then it has not expired. Writing to it then fails
    /// as after [`stream_shutdown`](Self::stream_shutdown). [`timeout`](Self::timeout) counts the
    /// deadline; it takes effect in [`on_timeout`](Self::on_timeout) and before
    /// [`send`](Self::send) writes a packet. A later call replaces the deadline, and one in the past
    /// takes effect at the next of these calls.
    ///
    /// Which packets a stream has left in is known if its deadline is set before the first one leaves, and not
    /// with [`Profile::Off`](crate::Profile::Off). Any other stream is reset at its deadline unless all of it is
    /// acknowledged, as quiche (0.30) tells of unidirectional ones, or nothing at all is unsent or in flight.
    ///
    /// Fails with [`quiche::Error::InvalidStreamState`] on a stream that only the peer can write to.
    pub fn set_stream_deadline(
        &mut self,
        stream_id: u64,
        deadline: Option<Instant>,
    ) -> quiche::Result<()> {
        if self.is_receive_only(stream_id) {
            return Err(quiche::Error::InvalidStreamState(stream_id));
        }
        self.deadlines.set(stream_id, deadline);
        Ok(())
    }

    /// Takes a stream that was reset because its deadline has passed.
    ///
    /// As far as is known it did not arrive before that ([`set_stream_deadline`](Self::set_stream_deadline)). Each is
    /// reported once; of more than 4,096 that were not asked for the last ones are.
    pub fn stream_expired_next(&mut self) -> Option<u64> {
        self.deadlines.expired.pop_front()
    }

    /// Queues a DATAGRAM that is dropped if it has not left at the deadline.
    ///
    /// It is dropped sooner if [`TackConfig::datagram_max_age`](crate::TackConfig::datagram_max_age) is shorter. Fails as
    /// [`quiche::Connection::dgram_send`] does.
    pub fn dgram_send_until(&mut self, buf: &[u8], deadline: Instant) -> quiche::Result<()> {
        self.send_datagram_until(buf, deadline, None)
    }

    /// Queues a DATAGRAM as [`dgram_send_until`](Self::dgram_send_until), with a tag.
    ///
    /// [`dgram_dropped_next`](Self::dgram_dropped_next) returns the tag if the DATAGRAM is dropped. Tags may be used
    /// again, and by several DATAGRAMs.
    pub fn dgram_send_tagged(
        &mut self,
        buf: &[u8],
        deadline: Instant,
        tag: u64,
    ) -> quiche::Result<()> {
        self.send_datagram_until(buf, deadline, Some(tag))
    }

    fn send_datagram_until(
        &mut self,
        buf: &[u8],
        deadline: Instant,
        tag: Option<u64>,
    ) -> quiche::Result<()> {
        self.check_datagram(buf.len())?;
        self.inner.dgram_send(buf)?;
        self.queue_datagram(Some(deadline), tag);
        Ok(())
    }

    /// Takes the tag of a DATAGRAM that has not left and will not.
    ///
    /// Its deadline has passed, no packet of the path holds it any more, or
    /// [`dgram_purge_outgoing`](Self::dgram_purge_outgoing) has dropped it. Each is reported once; of more than 4,096
    /// that were not asked for the last ones are.
    pub fn dgram_dropped_next(&mut self) -> Option<u64> {
        self.deadlines.datagrams.dropped.pop_front()
    }

    /// Drops DATAGRAMs that wait, as [`quiche::Connection::dgram_purge_outgoing`].
    pub fn dgram_purge_outgoing<P: Fn(&[u8]) -> bool>(&mut self, predicate: P) {
        let len = self.inner.dgram_send_queue_len();
        let purged = RefCell::new(Vec::new());
        self.inner.dgram_purge_outgoing(|datagram: &[u8]| {
            let is_purged = predicate(datagram);
            purged.borrow_mut().push(is_purged);
            is_purged
        });
        self.deadlines.datagrams.on_purged(len, &purged.into_inner());
    }

    /// quiche has queued a DATAGRAM with that deadline of its own.
    pub(super) fn on_datagram_queued(&mut self, deadline: Option<Instant>) {
        self.queue_datagram(deadline, None);
    }

    fn queue_datagram(&mut self, deadline: Option<Instant>, tag: Option<u64>) {
        self.pending.add();
        let by_age =
            self.config.datagram_max_age.and_then(|age| Instant::now().checked_add(age));
        let deadline = [deadline, by_age].into_iter().flatten().min();
        let len = self.inner.dgram_send_queue_len();
        self.deadlines.datagrams.on_queued(len, QueuedDatagram { deadline, tag });
    }

    /// Drops all that is too late. To be called before quiche is asked for a packet.
    #[inline]
    pub(super) fn expire(&mut self, now: Instant) {
        if self.deadlines.overdue.is_due()
            || self.deadlines.next().is_some_and(|next| next <= now)
        {
            self.drop_expired(now);
        }
        if !self.deadlines.unopened.is_empty() && self.pending.any() {
            self.reset_opened();
        }
    }

    /// Resets streams that were opened behind their deadline.
    #[cold]
    fn reset_opened(&mut self) {
        for stream_id in std::mem::take(&mut self.deadlines.unopened) {
            if self.is_unopened(stream_id) {
                self.deadlines.unopened.insert(stream_id);
            } else {
                self.reset_expired(stream_id);
            }
        }
    }

    /// Whether quiche has never known a stream.
    fn is_unopened(&mut self, stream_id: u64) -> bool {
        !self.inner.stream_closed(stream_id)
            && !self.seam.stopped_streams.contains(stream_id)
            && self.inner.stream_capacity(stream_id).is_err()
    }

    #[cold]
    fn drop_expired(&mut self, now: Instant) {
        let is_idle = self.has_all_acknowledged();
        while let Some(stream_id) = self.deadlines.take_due(now) {
            if self.is_unopened(stream_id) {
                self.deadlines.on_unopened(stream_id);
                continue;
            }
            // What the application wrote behind the deadline would leave.
            let has_left =
                !self.lacks_end(stream_id) && !self.seam.send_buffer.has_unsent(stream_id);
            if has_left && is_idle {
                self.deadlines.overdue.forget(stream_id);
            } else if !(has_left && self.waits_for_packets(stream_id)) {
                self.reset_expired(stream_id);
            }
        }
        if let Some(layer) = &self.layer {
            let lost = self.deadlines.overdue.take_lost(&**layer);
            let expired = self.deadlines.overdue.take_expired(&**layer);
            for stream_id in lost {
                self.reset_expired(stream_id);
            }
            for stream_id in expired {
                self.deadlines.on_stream_expired(stream_id);
            }
        }
        debug_assert!(
            self.deadlines.overdue.is_bounded_by(self.deadlines.of_stream.len()),
            "a stream is never forgotten"
        );
        let len = self.inner.dgram_send_queue_len();
        let Some(due) = self.deadlines.datagrams.take_due(len, now) else { return };
        let at = Cell::new(0);
        self.inner.dgram_purge_outgoing(|_: &[u8]| {
            due.get(at.replace(at.get() + 1)).copied().unwrap_or_default()
        });
        self.deadlines.expired_datagrams += due.iter().filter(|is_due| **is_due).count() as u64;
    }

    /// Whether the end of a stream is known not to have been written, or not to have left.
    fn lacks_end(&self, stream_id: u64) -> bool {
        self.seam.stream_ends.is_unfinished(stream_id)
            || self.deadlines.overdue.is_untouched(stream_id)
    }

    /// Whether what becomes of the packets of a stream decides, and not its deadline.
    fn waits_for_packets(&mut self, stream_id: u64) -> bool {
        let Some(layer) = &self.layer else { return false };
        let (repeats, lost) = (self.pending.may_repeat(), layer.sender().stats().lost_packets);
        self.deadlines.overdue.wait(stream_id, repeats, lost, &**layer)
    }

    /// Resets what has wholly left and is too late. To be called before quiche sends something again whose packets
    /// are not known to be lost.
    pub(super) fn expire_overdue(&mut self) {
        for stream_id in self.deadlines.overdue.take_unheard() {
            self.deadlines.on_stream_expired(stream_id);
        }
        for stream_id in self.deadlines.overdue.on_timeout() {
            if !self.reset_late(stream_id) {
                self.deadlines.set(stream_id, None);
            }
        }
    }

    fn reset_expired(&mut self, stream_id: u64) {
        self.deadlines.overdue.forget(stream_id);
        if self.reset_late(stream_id) {
            self.deadlines.on_stream_expired(stream_id);
        }
    }

    /// It fails for streams that are gone or were reset: nothing of them is to be dropped.
    fn reset_late(&mut self, stream_id: u64) -> bool {
        let error = error_code(self.config.deadline_error);
        self.stream_shutdown(stream_id, Shutdown::Write, error).is_ok()
    }

    /// Whether quiche has nothing to send and nothing is on its way.
    pub(super) fn has_all_acknowledged(&self) -> bool {
        !self.pending.any()
            && self.layer.as_ref().is_some_and(|layer| layer.has_all_acknowledged())
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods)] // the record takes any time
mod tests {
    use std::time::Duration;

    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn until(deadline: Option<Instant>) -> QueuedDatagram {
        QueuedDatagram { deadline, tag: None }
    }

    #[test]
    fn streams_expire_in_the_order_of_their_deadlines_and_once() {
        let now = Instant::now();
        let mut deadlines = Deadlines::default();
        deadlines.set(3, Some(now + 30 * MS));
        deadlines.set(7, Some(now + 10 * MS));
        deadlines.set(11, Some(now + 20 * MS));
        deadlines.set(11, None);
        assert_eq!(deadlines.next(), Some(now + 10 * MS));
        assert_eq!(deadlines.take_due(now + 9 * MS), None);
        assert_eq!(deadlines.take_due(now + 30 * MS), Some(7));
        assert_eq!(deadlines.take_due(now + 30 * MS), Some(3));
        assert_eq!(deadlines.take_due(now + 30 * MS), None);
        assert!(deadlines.of_stream.is_empty() && deadlines.next().is_none());
    }

    #[test]
    fn the_record_of_datagrams_follows_the_queue() {
        let now = Instant::now();
        let mut datagrams = DatagramDeadlines::default();
        datagrams.on_queued(1, until(None));
        datagrams.on_queued(2, until(Some(now + 10 * MS)));
        datagrams.on_queued(3, until(Some(now + 5 * MS)));
        // The first one has left, and one came in unseen.
        assert_eq!(datagrams.take_due(3, now + 4 * MS), None);
        assert_eq!(datagrams.take_due(2, now + 7 * MS), Some(vec![false, true]));
        assert_eq!(datagrams.next, Some(now + 10 * MS));
        datagrams.on_queued(3, until(None));
        assert_eq!(datagrams.take_due(3, now + 10 * MS), Some(vec![true, false, false]));
        assert_eq!(datagrams.next, None);
    }

    #[test]
    fn a_purge_takes_the_deadlines_of_what_it_drops_along() {
        let now = Instant::now();
        let mut datagrams = DatagramDeadlines::default();
        for at in 1..=3 {
            datagrams.on_queued(at, until(Some(now + MS * at as u32)));
        }
        datagrams.on_purged(3, &[false, true, false]);
        assert_eq!(datagrams.take_due(2, now + 2 * MS), Some(vec![true, false]));
    }

    #[test]
    fn an_application_that_never_asks_costs_no_more_memory() {
        let mut deadlines = Deadlines::default();
        (0..10_000).for_each(|stream_id| deadlines.on_stream_expired(stream_id));
        assert_eq!(
            (deadlines.expired.len(), deadlines.expired.front()),
            (REMEMBERED, Some(&5904))
        );
    }
}
