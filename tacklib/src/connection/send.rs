//! Datagrams on their way out: decide, let quiche write, scan, seal.

use std::net::SocketAddr;
use std::time::Instant;

use quiche::{BufFactory, SendInfo};
use tack_packet::{DatagramLayout, is_short};

use super::Connection;
use super::send_credits::CreditReason;
use crate::layer::{Destination, Layer, Lost, MOST_ROOM, Plan, Sent};
use crate::media_stats::rate_below_bandwidth;
use crate::quiche_compat::{AddressPair, Seam, request_carrier};

/// Where the application wants the next datagram to leave and to go, if it does.
pub(super) type Wanted = (Option<SocketAddr>, Option<SocketAddr>);

/// How often quiche is asked again because the packet that it wrote must not leave.
const ATTEMPTS: usize = 4;

/// A short header with the longest connection id (RFC 9000 section 17.3.1), the tag, and the longest control frame that
/// quiche writes, NEW_CONNECTION_ID (RFC 9000 section 19.15).
const LEAST_ROOM_FOR_QUICHE: usize = (1 + 20 + 4) + 16 + (1 + 8 + 8 + 1 + 20 + 16);

/// Buffers that are shorter are too short to begin a packet in. Callers that fill one buffer with several packets come with
/// what is left of it (segmentation offload), and all frames of the layer have to find room beside some of quiche's: where
/// that writes nothing, it counts as having nothing to write. What is due waits for the next buffer.
const SHORTEST_BUFFER: usize = MOST_ROOM + LEAST_ROOM_FOR_QUICHE;

/// Packets that the send buffer holds at least, however slow the path.
const LEAST_BUFFERED: usize = 16;

impl<F: BufFactory> Connection<F> {
    pub(super) fn send_one_rtt(
        &mut self,
        now: Instant,
        out: &mut [u8],
        wanted: Wanted,
    ) -> quiche::Result<(usize, SendInfo)> {
        if out.len() < SHORTEST_BUFFER {
            return Err(quiche::Error::Done);
        }
        self.note_external_access();
        self.follow_send_rate();
        let result = self.send_layered(now, out, wanted);
        if !self.seam.validation.take_deferred_timeout() {
            return result;
        }
        // quiche was asked for a packet, and may be told of the timer.
        self.seam.validation.on_sent();
        self.on_timeout();
        if result == Err(quiche::Error::Done) {
            self.send_layered(now, out, wanted)
        } else {
            result
        }
    }

    fn send_layered(
        &mut self,
        now: Instant,
        out: &mut [u8],
        wanted: Wanted,
    ) -> quiche::Result<(usize, SendInfo)> {
        let Some(mut layer) = self.layer.take() else { return Err(quiche::Error::Done) };
        let result = self.send_next(&mut layer, now, out, wanted);
        self.layer = Some(layer);
        self.write_notes();
        result
    }

    fn send_next(
        &mut self,
        layer: &mut Layer,
        now: Instant,
        out: &mut [u8],
        wanted: Wanted,
    ) -> quiche::Result<(usize, SendInfo)> {
        if self.paths.has_previous()
            && let Some(flushed) = self.flush_previous_path(layer, now, out, wanted)
        {
            return Ok(flushed);
        }
        if (wanted.0.is_some() || wanted.1.is_some()) && self.is_other_path(wanted) {
            return self.send_on_other_path(layer, now, out, wanted);
        }
        for _ in 0..ATTEMPTS {
            match self.send_planned(layer, now, out, wanted) {
                Ok(Some(sent)) => return Ok(sent),
                Ok(None) => {}
                Err(quiche::Error::Done) => break,
                Err(error) => {
                    self.on_send_failed(layer, now);
                    return Err(error);
                }
            }
        }
        if self.seam.validation.is_running {
            return self.flush_path_left_unseen(layer, now, out, wanted);
        }
        Err(quiche::Error::Done)
    }

    /// Whether the application asks for packets of a path that data does not go over.
    #[cold]
    fn is_other_path(&self, (from, to): Wanted) -> bool {
        let active = self.inner.path_stats().find(|path| path.active);
        active.is_some_and(|active| {
            from.is_some_and(|from| from != active.local_addr)
                || to.is_some_and(|to| to != active.peer_addr)
        })
    }

    /// Sends what quiche has for such a path: challenges, answers to those, and PINGs. Whatever else waits is the other
    /// path's, and goes on waiting if there is nothing.
    #[cold]
    fn send_on_other_path(
        &mut self,
        layer: &mut Layer,
        now: Instant,
        out: &mut [u8],
        wanted: Wanted,
    ) -> quiche::Result<(usize, SendInfo)> {
        let (len, mut info) = self.send_inner(out, wanted)?;
        info.at = now;
        let path = (info.from, info.to);
        let finished = self.finish(layer, now, out, len, &Plan::default(), path);
        self.follow_active_path(layer, now, path);
        finished.map(|len| (len, info)).ok_or(quiche::Error::Done)
    }

    /// quiche cannot send: it is asked again after the next event, and until then no timer expires.
    #[cold]
    fn on_send_failed(&mut self, layer: &mut Layer, now: Instant) {
        self.credits.clear();
        self.pending.on_failed();
        layer.give_up_acknowledgement(now);
    }

    /// Sends what may leave now. `Ok(None)` means that quiche wrote a packet that does not leave.
    fn send_planned(
        &mut self,
        layer: &mut Layer,
        now: Instant,
        out: &mut [u8],
        wanted: Wanted,
    ) -> quiche::Result<Option<(usize, SendInfo)>> {
        let Some(plan) = self.decide(layer, now) else { return Err(quiche::Error::Done) };
        let expects_challenge = self.seam.validation.expects_challenge;
        // Of packets that carry no data nothing is to be gained by optimistic acknowledgements.
        let carries_data = plan.stream_data && self.pending.any() && !plan.is_probe;
        if carries_data && !expects_challenge && layer.wants_skip() {
            let skip = Plan::skip(crate::random());
            request_carrier(&mut self.inner)?;
            match self.write(layer, now, out, wanted, &skip) {
                // Nothing may leave at all: what is planned is given up below.
                Err(quiche::Error::Done) => {}
                result => return result,
            }
        }
        if plan.wants_answer {
            request_carrier(&mut self.inner)?;
        }
        let mut result = self.write(layer, now, out, wanted, &plan);
        if matches!(result, Err(quiche::Error::Done)) && plan.stream_data {
            result = self.write_past_stale_streams(layer, now, out, wanted, &plan);
        }
        match result {
            Err(quiche::Error::Done) if self.owes_train_tail(layer, now, &plan) => {
                request_carrier(&mut self.inner)?;
                match self.write(layer, now, out, wanted, &Plan::train_tail()) {
                    Err(quiche::Error::Done) => {
                        self.send_carrier(layer, now, out, wanted, plan)
                    }
                    result => result,
                }
            }
            Err(quiche::Error::Done) => self.send_carrier(layer, now, out, wanted, plan),
            result => result,
        }
    }

    /// Whether DATAGRAMs have left as a packet train that shows nothing yet: quiche writes each whole, and leaves no
    /// room in full ones.
    #[cold]
    fn owes_train_tail(&self, layer: &Layer, now: Instant, plan: &Plan) -> bool {
        plan.stream_data
            && !plan.is_probe
            && self.pending.any()
            && self.pending.has_sent_datagrams()
            && layer.sender().owes_train_tail(now)
    }

    /// Asks quiche again, as it may have something to send after all, until all streams that may hold up others are
    /// behind these. Each of them gets there once until it is written to.
    #[cold]
    fn write_past_stale_streams(
        &mut self,
        layer: &mut Layer,
        now: Instant,
        out: &mut [u8],
        wanted: Wanted,
        plan: &Plan,
    ) -> quiche::Result<Option<(usize, SendInfo)>> {
        loop {
            let questions = self.move_stale_streams();
            for _ in 0..questions {
                let result = self.write(layer, now, out, wanted, plan);
                if !matches!(result, Err(quiche::Error::Done)) {
                    return result;
                }
            }
            if questions == 0 {
                return Err(quiche::Error::Done);
            }
        }
    }

    /// How often quiche may be asked again.
    fn move_stale_streams(&mut self) -> usize {
        let Seam { stale_streams, stream_ends, send_buffer, .. } = &mut self.seam;
        let has_unsent = |id| send_buffer.has_unsent(id);
        stale_streams.on_nothing_to_send(&mut self.inner, stream_ends.unfinished(), has_unsent)
    }

    /// quiche had nothing to write where something was planned, or where it was asked in vain.
    #[cold]
    fn send_carrier(
        &mut self,
        layer: &mut Layer,
        now: Instant,
        out: &mut [u8],
        wanted: Wanted,
        plan: Plan,
    ) -> quiche::Result<Option<(usize, SendInfo)>> {
        self.on_nothing_written(layer, now, &plan);
        if plan.due.is_none() && plan.owed_room == 0 {
            let is_idle = plan.stream_data && layer.has_all_acknowledged();
            let owes_end = is_idle && self.seam.stream_ends.on_idle();
            return if owes_end { Ok(None) } else { Err(quiche::Error::Done) };
        }
        let carrier = Plan { is_carrier: true, stream_data: false, ..plan };
        request_carrier(&mut self.inner)?;
        let result = self.write(layer, now, out, wanted, &carrier);
        // A packet that tries another path is no carrier (TACK-2-6); the next one may be.
        let tries_other = matches!(
            &result, Ok(Some((_, info))) if !self.carries_data((info.from, info.to))
        );
        if plan.due.is_some() && !tries_other && layer.due(now) == plan.due {
            // Nothing can leave (closing, amplification limit), or nothing as long as that: the
            // acknowledgement is given up, or its timer would stay expired.
            layer.give_up_acknowledgement(now);
        }
        result
    }

    /// Whether quiche is asked for a packet, and what that is to carry.
    fn decide(&mut self, layer: &mut Layer, now: Instant) -> Option<Plan> {
        layer.maintain_keys(now);
        if layer.take_window_update(&self.inner) {
            self.credits.grant(CreditReason::WindowUpdate);
        }
        let closing = self.inner.local_error().is_some();
        let may_send = layer.may_send(now, self.pending.any());
        let is_probe = !may_send && self.credits.has_probe();
        let due = layer.due(now);
        let adds_frames = self.adds_frames();
        let owes_frames = adds_frames
            && (may_send || !self.pending.lacks_room())
            && (self.seam.stream_ends.owes() || layer.stopped_reads().owes());
        let wanted = closing
            || self.pending.any() && may_send
            || self.credits.has_probe()
            || self.credits.has_control()
            || due.is_some()
            || owes_frames;
        if !wanted {
            return None;
        }
        let datagrams = self.inner.dgram_send_queue_len() > 0;
        // A DATAGRAM may need the whole packet: the acknowledgement goes before it, in its own. So does one that needs
        // more room than there is beside stream data (TACK-4.1-3).
        let alone = due.is_some_and(|due| datagrams || layer.is_long(due)) && !closing;
        let stream_data = (may_send || is_probe || closing) && !alone;
        let mut plan = layer.plan(now, stream_data, due, &self.seam.stream_ends, datagrams);
        plan.is_probe = is_probe && stream_data;
        if !adds_frames {
            plan.owed_room = 0;
        }
        if stream_data && !is_probe && !datagrams && plan.due.is_none() {
            let waiting = || self.seam.send_buffer.buffered();
            plan.splits = layer.sender().splits(now, waiting).then(waiting);
        }
        Some(plan)
    }

    /// Has quiche write a packet within what the plan lets it, and finishes it.
    fn write(
        &mut self,
        layer: &mut Layer,
        now: Instant,
        out: &mut [u8],
        wanted: Wanted,
        plan: &Plan,
    ) -> quiche::Result<Option<(usize, SendInfo)>> {
        let limit = self.buffer_limit(layer, out.len(), plan).min(self.room_before_flush());
        if limit == 0 {
            return Err(quiche::Error::Done);
        }
        let (len, mut info) = self.send_inner(&mut out[..limit], wanted)?;
        info.at = now;
        self.pending.on_written(plan.leaves_no_room, plan.is_train_tail);
        self.seam.validation.on_sent();
        if plan.is_probe || plan.stream_data && self.credits.has_probe() {
            self.credits.use_probe();
        }
        let is_idle = !self.seam.validation.is_running && self.seam.path_responses.is_empty();
        if is_idle && self.paths.is_active(&info.from, &info.to) {
            let finished = self.finish_settled(layer, now, out, len, plan, &info);
            return Ok(finished.map(|len| (len, info)));
        }
        let path = (info.from, info.to);
        let finished = self.finish(layer, now, out, len, plan, path);
        self.follow_active_path(layer, now, path);
        Ok(finished.map(|len| (len, info)))
    }

    /// How much of the caller's buffer quiche may fill.
    fn buffer_limit(&self, layer: &Layer, available: usize, plan: &Plan) -> usize {
        let full = self.seam.path_mtu.get();
        if !plan.stream_data {
            let dcid_len = self.inner.destination_id().len();
            return available.min(layer.len_without_stream_data(dcid_len));
        }
        match self.seam.validation.room(plan.room(), full) {
            // quiche may have a probe of the path MTU to send.
            0 => available,
            room => available.min(full).saturating_sub(room),
        }
        .min(plan.splits.map_or(usize::MAX, |waiting| {
            // Rounded up, or what is left would need a third packet.
            let dcid_len = self.inner.destination_id().len();
            layer.len_without_stream_data(dcid_len) + (waiting as usize).div_ceil(2)
        }))
    }

    /// As [`Self::finish`], of a packet for the path that data goes over, where nothing is to be found
    /// out about it.
    #[inline]
    fn finish_settled(
        &mut self,
        layer: &mut Layer,
        now: Instant,
        out: &mut [u8],
        len: usize,
        plan: &Plan,
        info: &SendInfo,
    ) -> Option<usize> {
        if !is_short(&out[..len]) {
            let path = (info.from, info.to);
            return self.finish(layer, now, out, len, plan, path);
        }
        let to = Destination {
            dcid_len: self.inner.destination_id().len(),
            dcid_lens: self.seam.connection_id_lengths,
            mtu: self.seam.path_mtu.get(),
            path: None,
            carries_data: true,
            is_proven: true,
            response: None,
        };
        let longest = to.mtu.max(len).min(out.len());
        let packet = (&mut out[..longest], len);
        let sent = layer.finish(now, packet, &to, plan, &mut self.seam.stream_ends).ok()?;
        self.on_finished(&sent, (info.from, info.to), plan);
        Some(sent.len)
    }

    /// Passes what quiche has written through the layer. The datagram's final length, or `None` if
    /// nothing of it leaves.
    pub(super) fn finish(
        &mut self,
        layer: &mut Layer,
        now: Instant,
        out: &mut [u8],
        len: usize,
        plan: &Plan,
        path: AddressPair,
    ) -> Option<usize> {
        let Some(at) = DatagramLayout::parse(&out[..len]).one_rtt else { return Some(len) };
        let to = Destination {
            dcid_len: self.inner.destination_id().len(),
            dcid_lens: self.seam.connection_id_lengths,
            mtu: self.seam.path_mtu.get(),
            path: self.paths.other_than_active(path),
            carries_data: self.carries_data(path),
            is_proven: self.is_proven(path),
            response: self.seam.path_responses.owed(path),
        };
        let reduced;
        let (plan, longest) = if to.is_proven {
            (plan, to.mtu.max(len).min(out.len()))
        } else {
            reduced = plan.to_unproven_address();
            (&reduced, len)
        };
        let packet = (&mut out[at..longest], len - at);
        match layer.finish(now, packet, &to, plan, &mut self.seam.stream_ends) {
            Ok(sent) => {
                if sent.answers_challenge {
                    for data in layer.take_path_responses() {
                        self.seam.path_responses.on_answered(path, data);
                    }
                }
                self.on_finished(&sent, path, plan);
                Some(at + sent.len)
            }
            Err(Lost) => (at > 0).then_some(at),
        }
    }

    /// A packet is ready to leave.
    #[inline]
    fn on_finished(&mut self, sent: &Sent, path: AddressPair, plan: &Plan) {
        self.sent_ecn = sent.ecn;
        if let Some(stream_id) = sent.stream_id {
            self.seam.send_buffer.on_sent(stream_id, sent.stream_end);
        }
        let Sent { packet_number, stream_id, stream_bytes, .. } = *sent;
        self.deadlines.overdue.on_sent(packet_number, stream_id, stream_bytes);
        if let Some((pn, data)) = sent.challenge {
            self.seam.validation.on_challenge_sent(path, pn, data, Instant::now());
            let is_other = self.inner.is_server() && !self.paths.is_received(&path.0, &path.1);
            if is_other && self.seam.validation.is_running {
                // quiche sent a challenge for another path first. The path of the peer still needs one.
                self.expect_challenge();
            }
        }
        self.pending.on_finished(sent.is_ack_only && plan.owed_room > 0 && !plan.stream_data);
        if sent.is_ack_only {
            // quiche has no control frame, or none that fits behind its acknowledgement. That it repeats
            // each time while it owes a PING that does not fit either, and would do so for ever. What is left, if anything
            // is, leaves when the sender may send; so do the layer's frames, which a PING has to carry.
            self.pending.add_if(self.credits.has_control() && !plan.stream_data);
            self.credits.clear_control();
        }
    }

    /// quiche has nothing to send, or nothing that fits where there is no room for stream data.
    fn on_nothing_written(&mut self, layer: &mut Layer, now: Instant, plan: &Plan) {
        self.seam.validation.on_sent();
        if !plan.stream_data {
            self.credits.clear_control();
            // What is left, if anything is, leaves when the sender may send.
            self.pending.add();
            return;
        }
        self.credits.clear();
        self.seam.send_buffer.on_flushed();
        let app_limited = self.pending.any() && layer.may_send(now, true);
        layer.on_nothing_to_send(app_limited);
        self.pending.on_nothing();
    }

    /// Lets the send buffer hold what leaves in the configured time.
    fn follow_send_rate(&mut self) {
        let Some((time, layer)) = self.config.send_buffer_time.zip(self.layer.as_deref())
        else {
            return;
        };
        let sender = layer.sender();
        let rate = match rate_below_bandwidth(sender, Instant::now()) {
            Some(rate) => rate,
            None => sender.bandwidth().max(sender.pacing_rate()),
        };
        let in_time = rate.bytes_in(time);
        let least = LEAST_BUFFERED * self.seam.path_mtu.get();
        let limit = usize::try_from(in_time).unwrap_or(usize::MAX).max(least);
        self.seam.send_buffer.set_limit(limit.min(self.config.send_buffer));
    }

    /// What happened while the application had the quiche connection in its hands.
    fn note_external_access(&mut self) {
        if !self.seam.external_access.has_happened() {
            return;
        }
        let Some(layer) = &mut self.layer else { return };
        layer.windows().on_unseen();
        // If quiche has an acknowledgement to send, asking it for data gets
        // that, and one ACK for each look at the connection is what the layer
        // is there to prevent: so only a change that shows counts.
        let changed =
            self.seam.external_access.take(&mut self.inner, &self.seam.stopped_streams);
        self.pending.add_if(changed || !layer.holds_ack());
    }
}
