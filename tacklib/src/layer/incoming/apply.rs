//! What an incoming packet changes once quiche has accepted it: in the sender's state, the receiver's, and what the layer
//! knows of streams. Nothing here can fail: all of it was checked while the packet was read.

use std::time::Instant;

use tack_proto::ecn::EcnCodepoint;
use tack_proto::frame::Stream;
use tack_proto::receiver::Received;
use tack_proto::sender::AckOutcome;

use super::scan::{Acknowledgement, IncomingScan};
use super::{Applied, Data};
use crate::layer::NumberSpace;
use crate::quiche_compat::{LateReset, is_over};

impl NumberSpace {
    pub(super) fn apply<F: quiche::BufFactory>(
        &mut self,
        now: Instant,
        mut scan: IncomingScan<'_>,
        ecn: EcnCodepoint,
        connection: &quiche::Connection<F>,
    ) -> Applied {
        let Some(received) = scan.received else { return Applied::default() };
        // TACK-4.6-1: it counts now that the packet is accepted.
        let received = Received { ecn, ..received };
        let mut effects = std::mem::take(&mut scan.effects);
        if scan.is_marked {
            let pn = received.packet_number;
            self.first_marked = Some(self.first_marked.map_or(pn, |first| first.min(pn)));
        }
        self.on_received(now, received);
        for acknowledgement in &scan.acknowledgements {
            let outcome = self.on_acknowledgement(now, acknowledgement);
            effects.acknowledged |= !outcome.acked.is_empty();
        }
        self.receiver.on_acknowledgement(|pn| self.sender.was_delivered(pn));
        // Carriers of acknowledgements are in flight, too, and no data.
        let data_rate = if self.sends_data { self.sender.bulk_rate() } else { None };
        self.receiver.set_data_rate(data_rate);
        if let Some(largest) = scan.largest_acked {
            self.flush_pings.forget_overtaken(largest);
        }
        for update in &scan.updates {
            if self.agreement.tack {
                self.receiver.on_frequency_update(update);
            } else {
                self.receiver.on_ack_frequency(update);
            }
        }
        if scan.immediate_ack {
            self.receiver.on_immediate_ack(now);
        }
        for stream in &scan.streams {
            self.on_stream(now, received.packet_number, stream, connection);
        }
        if !scan.fills.is_empty()
            || !scan.waiting_resets.is_empty()
            || !self.late_fills.is_empty()
        {
            self.apply_fills(received.ack_eliciting, &scan, &mut effects, connection);
        }
        for stream_id in scan.asked_streams.whole() {
            self.windows.on_filled(stream_id);
        }
        for &(stream_id, final_size) in &scan.reset_streams {
            self.windows.on_reset(stream_id, final_size, &|id| is_over(connection, id));
            self.receiver.on_reset_stream(stream_id);
            self.stopped_reads.on_received(stream_id);
        }
        effects
    }

    /// What quiche has got of streams that were reset, and what has to wait.
    #[cold]
    fn apply_fills<F: quiche::BufFactory>(
        &mut self,
        is_ack_eliciting: bool,
        scan: &IncomingScan<'_>,
        effects: &mut Applied,
        connection: &quiche::Connection<F>,
    ) {
        let resets = scan.fills.iter().map(|fill| &fill.reset).chain(&scan.waiting_resets);
        for &LateReset { stream_id, .. } in resets {
            self.receiver.on_reset_stream(stream_id);
            self.windows.on_filled(stream_id);
            if self.late_fills.is_told(stream_id) {
                self.stopped_reads.touch(stream_id);
            } else {
                self.stopped_reads.on_received(stream_id);
            }
        }
        let firsts = scan.fills.iter().filter(|fill| fill.is_first);
        effects.late_resets.extend(firsts.map(|fill| fill.reset));
        self.late_fills.on_accepted(scan.zeros, &scan.fills, &scan.waiting_resets);
        self.late_fills.end_turn(&scan.fills, |id| is_over(connection, id));
        // quiche has one to send, whatever the peer's packet elicits.
        self.quiche_owes.ack |= !scan.fills.is_empty();
        // An acknowledgement alone must not answer one (RFC 9000 section 13.2.1).
        let follows = !is_ack_eliciting || !self.late_fills.is_empty();
        effects.wants_packet =
            !scan.waiting_resets.is_empty() || follows && !scan.fills.is_empty();
    }

    #[inline]
    pub(super) fn apply_data<F: quiche::BufFactory>(
        &mut self,
        now: Instant,
        data: &Data,
        ecn: EcnCodepoint,
        connection: &quiche::Connection<F>,
    ) {
        let &Data { packet_number, bytes, stream, .. } = data;
        let received = Received {
            packet_number,
            bytes,
            ack_eliciting: true,
            departure: None,
            ends_stream: false,
            ecn,
        };
        self.on_received(now, received);
        if let Some(stream) = &stream {
            self.on_stream(now, packet_number, stream, connection);
        }
    }

    #[inline]
    fn on_received(&mut self, now: Instant, received: Received) {
        let pn = received.packet_number;
        if self.largest_received.is_none_or(|largest| largest < pn) {
            self.largest_received = Some(pn);
        }
        self.first_received.get_or_insert(pn);
        self.quiche_owes.ack |= received.ack_eliciting;
        self.late_fills.on_received(received.bytes);
        let above_lowest = self.receiver.on_packet(now, received);
        self.sender.on_ack_path_delay(now, above_lowest);
        if received.ack_eliciting {
            self.sender.on_peer_data(received.bytes);
        }
    }

    fn on_stream<F: quiche::BufFactory>(
        &mut self,
        now: Instant,
        pn: u64,
        stream: &Stream,
        connection: &quiche::Connection<F>,
    ) {
        let is_over = |id| is_over(connection, id);
        self.windows.on_received(stream.stream_id, stream.data().end, stream.fin, &is_over);
        self.max_streams.on_received(stream.stream_id);
        self.stopped_reads.on_received(stream.stream_id);
        if self.records_streams() {
            self.record_stream(now, pn, stream, connection);
        }
    }

    fn on_acknowledgement(
        &mut self,
        now: Instant,
        acknowledgement: &Acknowledgement<'_>,
    ) -> AckOutcome {
        match acknowledgement {
            Acknowledgement::Tack(tack) => self.sender.on_tack(now, tack),
            Acknowledgement::LeftTack(sequence) => {
                self.sender.on_left_tack(*sequence);
                AckOutcome::default()
            }
            Acknowledgement::Iack(iack) => self.sender.on_iack(now, iack),
            Acknowledgement::LeftIack => {
                self.sender.on_left_iack();
                AckOutcome::default()
            }
            Acknowledgement::Ack(ack, delay) => self.sender.on_ack(now, ack, *delay),
        }
    }

    /// Tells the receiver of stream data in a packet that quiche has accepted.
    fn record_stream<F: quiche::BufFactory>(
        &mut self,
        now: Instant,
        pn: u64,
        stream: &Stream,
        connection: &quiche::Connection<F>,
    ) {
        let stream_id = stream.stream_id;
        if !self.receiver.knows_stream(stream_id) {
            // What has come of it so far may have come in packets that were not read.
            let arrived = self.windows.arrived(stream_id, connection);
            let before = Stream { stream_id, offset: 0, len: arrived, fin: false };
            self.receiver.on_stream(now, pn, &before);
        }
        self.receiver.on_stream(now, pn, stream);
    }
}
