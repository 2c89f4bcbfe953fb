//! Datagrams on their way in: parse once, open, scan, deliver to quiche, apply.

use std::time::Instant;

use quiche::{BufFactory, RecvInfo};
use tack_packet::{DatagramLayout, ProtectedHeader, is_short};

use super::Connection;
use super::arrival::Arrival;
use super::send_credits::CreditReason;
use crate::error::ExtensionError;
use crate::layer::{Applied, Layer, Look, Scanned};
use crate::quiche_compat::{QuicheDelta, SealedStart, Seam};

impl<F: BufFactory> Connection<F> {
    pub(super) fn receive(
        &mut self,
        buf: &mut [u8],
        info: RecvInfo,
        arrival: Arrival,
    ) -> quiche::Result<usize> {
        if self.seam.validation.has_no_path {
            // As good as lost.
            return Ok(buf.len());
        }
        if self.layer.is_some() && is_short(buf) {
            self.receive_one_rtt(buf, info, arrival)?;
        } else {
            let was_seen = self.layer.is_some();
            self.receive_coalesced(buf, info, arrival)?;
            if !was_seen {
                self.drop_all_unwanted();
            }
        }
        self.write_notes();
        Ok(buf.len())
    }

    /// A datagram that may have packets with long headers.
    fn receive_coalesced(
        &mut self,
        buf: &mut [u8],
        info: RecvInfo,
        arrival: Arrival,
    ) -> quiche::Result<()> {
        let layout = DatagramLayout::parse(buf);
        self.before_handshake_packets(buf, &layout);
        let at = layout.one_rtt.unwrap_or(buf.len());
        let (long, short) = buf.split_at_mut(at);
        if !long.is_empty() {
            let result = self.inner.recv(long, info);
            self.after_handshake_packets(&layout);
            result?;
        }
        if short.is_empty() {
            return Ok(());
        }
        if self.layer.is_some() {
            return self.receive_one_rtt(short, info, arrival);
        }
        let result = self.inner.recv(short, info).map(|_| ());
        self.seam.counters.follow(&self.inner);
        result
    }

    /// The pipeline of 1-RTT packets. What quiche refuses changes a counter and nothing else.
    fn receive_one_rtt(
        &mut self,
        packet: &mut [u8],
        info: RecvInfo,
        arrival: Arrival,
    ) -> quiche::Result<()> {
        let Some(layer) = &mut self.layer else { return Ok(()) };
        let data = match layer.look_at(packet, self.inner.source_id().len()) {
            Look::Data(data) => data,
            Look::Other(header) => return self.receive_other(packet, header, info, arrival),
        };
        let start = SealedStart::of(packet, data.payload_at);
        let is_same_path = self.paths.is_received(&info.to, &info.from);
        let result = self.inner.recv(packet, info);
        let counters = &mut self.seam.counters;
        // Duplicates are decrypted, too, before quiche drops them, and so is what comes from an address that it has no
        // path left for.
        let is_certain =
            data.is_newest && is_same_path && start.was_decrypted(packet, data.payload_at);
        let is_accepted = if result.is_ok() && is_certain {
            // Data acknowledges nothing, and so tells of no losses either. From a peer that leaves out the mark of an
            // acknowledgement they are told with the next packet.
            counters.on_accepted();
            true
        } else {
            let delta = counters.follow(&self.inner);
            if delta.losses {
                self.pending.on_losses();
                self.seam.stale_streams.on_lost();
            }
            delta.accepted > 0
        };
        if is_accepted {
            layer.apply_data(arrival.at, &data, arrival.ecn, &self.inner);
            self.drop_unwanted();
            self.follow_validation(&info, is_same_path, None);
            self.check_answers()?;
        } else {
            layer.on_data_refused();
            self.close_at_aead_limit();
        }
        result.map(|_| ())
    }

    /// A packet that is not stream data alone. `header` is that of one that has to be opened.
    fn receive_other(
        &mut self,
        packet: &mut [u8],
        header: Option<ProtectedHeader>,
        info: RecvInfo,
        arrival: Arrival,
    ) -> quiche::Result<()> {
        let Some(mut layer) = self.layer.take() else { return Ok(()) };
        // What the peer claims is held against this end's clock, whatever is said of the arrival.
        let now = Instant::now();
        let mut buffers = layer.take_buffers();
        let readable = |stream_id| self.inner.stream_readable_len(stream_id, usize::MAX);
        let may_grow = self.is_proven((info.to, info.from));
        if self.seam.external_access.has_happened() {
            layer.windows().on_unseen();
        }
        let scanned =
            layer.scan_incoming(now, packet, header, &mut buffers, &readable, may_grow);
        let result = match scanned {
            Ok(Scanned { mut scan, sealed }) => {
                let Seam { stopped_streams, .. } = &self.seam;
                if !self.paths.is_usual((info.to, info.from)) {
                    scan.forget_departure();
                }
                // quiche takes no notice of a frame for a stream that it has done with.
                scan.retain_stopped(|id| !stopped_streams.is_forgotten(&mut self.inner, id));
                let result = match sealed {
                    Some(sealed) => self.inner.recv(sealed, info),
                    None => self.inner.recv(packet, info),
                };
                let delta = self.seam.counters.follow(&self.inner);
                if delta.accepted == 0 {
                    layer.on_refused();
                    result.map(|_| ())
                } else {
                    match layer.apply(arrival.at, scan, arrival.ecn, &self.inner) {
                        Ok(applied) => {
                            self.on_accepted(&mut layer, &info, &delta, &applied);
                            result.map(|_| ())
                        }
                        Err(error) => self.refuse(error),
                    }
                }
            }
            Err(error) => self.refuse(error),
        };
        layer.return_buffers(buffers);
        self.layer = Some(layer);
        self.drop_unwanted();
        self.close_at_aead_limit();
        result.and_then(|()| self.check_answers())
    }

    /// Closes the connection where its keys must not be used any more (TACK-7-12, RFC 9001 section 6.6).
    fn close_at_aead_limit(&mut self) {
        const AEAD_LIMIT_REACHED: u64 = 0x0f;
        if self.layer.as_ref().is_some_and(|layer| layer.aead_limit_reached()) {
            let _ = self.inner.close(false, AEAD_LIMIT_REACHED, b"");
        }
    }

    /// Closes the connection to a peer that sends and acknowledges nothing (TACK-7-16).
    fn check_answers(&mut self) -> quiche::Result<()> {
        let Some(layer) = &self.layer else { return Ok(()) };
        match layer.sender().check_answers() {
            Err(violation) if self.inner.local_error().is_none() => {
                self.refuse(violation.into())
            }
            _ => Ok(()),
        }
    }

    /// What an accepted packet changes beside the layer's own state.
    fn on_accepted(
        &mut self,
        layer: &mut Layer,
        info: &RecvInfo,
        delta: &QuicheDelta,
        applied: &Applied,
    ) {
        if delta.losses {
            // quiche has something to send again.
            self.pending.on_losses();
            self.seam.stale_streams.on_lost();
        }
        for &stop in &applied.stopped {
            let stream_id = stop.stream_id;
            self.seam.send_buffer.on_dropped(stream_id);
            let is_unfinished = self.seam.stream_ends.is_unfinished(stream_id);
            // quiche answers with a reset, at what has left.
            self.seam.stream_ends.on_reset(stream_id);
            self.seam.stopped_streams.on_stopped(stop, is_unfinished);
        }
        for &reset in &applied.late_resets {
            let Seam { stopped_streams, .. } = &self.seam;
            if !stopped_streams.is_forgotten(&mut self.inner, reset.stream_id) {
                self.seam.late_resets.on_filled(reset);
            }
        }
        if applied.wants_packet {
            self.ask_for_packet();
        }
        for &len in &applied.issued_id_lens {
            self.seam.connection_id_lengths.on_issued(len);
        }
        self.pending.add_if(applied.may_unblock);
        if let Some(data) = applied.path_challenge {
            self.seam.path_responses.on_challenge((info.to, info.from), data);
        }
        if applied.wants_answer {
            self.credits.grant(CreditReason::Answer);
        }
        if applied.acknowledged && self.seam.validation.is_running {
            self.repeat_lost_challenge(layer, Instant::now());
        }
        if applied.acknowledged {
            let lost = || layer.sender().stats().lost_packets;
            self.deadlines.overdue.on_acknowledged(delta.losses, lost);
            self.media.on_acknowledged(Instant::now(), layer);
            // It may have been a probe of the path's MTU.
            let is_black_hole = layer.take_black_hole();
            let mtu = self.seam.path_mtu.get();
            self.seam.path_mtu.on_acknowledged(&mut self.inner, is_black_hole);
            self.on_path_mtu(mtu);
            layer.set_mss(self.seam.path_mtu.get());
            if layer.has_all_acknowledged() && self.pending.take_ended_streams() {
                self.credits.grant(CreditReason::StreamLimit);
            }
        }
        // Such a stream ends with the reset that quiche is going to send.
        self.pending.on_streams_ended(!applied.stopped.is_empty());
        if applied.acknowledged || applied.may_unblock || applied.ends_stream {
            self.settle_stream_ends(layer);
            layer.settle_stopped_reads();
        }
        let is_same_path = self.paths.is_received(&info.to, &info.from);
        self.follow_validation(info, is_same_path, applied.path_response);
    }

    /// Closes the connection over what the peer sent.
    fn refuse(&mut self, error: ExtensionError) -> quiche::Result<()> {
        log::warn!("{}: {error}; the connection is closed", self.inner.trace_id());
        let _ = self.inner.close(false, error.to_wire(), error.to_string().as_bytes());
        self.extension_error = Some(error);
        Err(quiche::Error::InvalidFrame)
    }
}
