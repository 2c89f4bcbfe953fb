//! Packets of an established connection, between quiche, the layer and the caller.

use std::net::SocketAddr;
use std::time::Instant;

use quiche::{RecvInfo, SendInfo};

use super::progress::Progress;
use super::{Connection, Path};
use crate::datagram::{self, Layout};
use crate::layer::{Delivery, Plan, ProtocolError};

impl Connection {
    /// Long headers go to quiche as they are; what the layer looks at begins
    /// behind them, once the handshake that they may complete is done.
    pub(super) fn recv_parts(
        &mut self,
        buf: &mut [u8],
        info: RecvInfo,
        layout: &Layout,
    ) -> quiche::Result<usize> {
        let Some(at) = layout.one_rtt else {
            let result = self.inner.recv(buf, info);
            self.progress = Progress::of(&self.inner);
            return result;
        };
        let (long, short) = buf.split_at_mut(at);
        if !long.is_empty() {
            self.inner.recv(long, info)?;
            self.activate();
            self.progress = Progress::of(&self.inner);
        }
        if self.layer.is_none() {
            return self.inner.recv(short, info).map(|read| at + read);
        }
        self.recv_one_rtt(short, info).map(|read| at + read)
    }

    pub(super) fn recv_one_rtt(
        &mut self,
        packet: &mut [u8],
        info: RecvInfo,
    ) -> quiche::Result<usize> {
        let now = Instant::now();
        let len = packet.len();
        let dcid_len = self.inner.source_id().len();
        let Some(layer) = &mut self.layer else { return self.inner.recv(packet, info) };
        if self.footprint.is_touched() {
            self.progress = Progress::of(&self.inner);
        }
        if let Some(received) = layer.plain_data(packet, dcid_len) {
            let result = self.inner.recv(packet, info);
            let news = self.progress.follow(&self.inner);
            // If there are losses, quiche has something to send again.
            self.data_pending |= news.losses;
            if news.packet {
                layer.record(now, received);
                self.follow_validation(None);
            } else {
                layer.on_plain_refused();
            }
            return result.map(|_| len);
        }
        let (delivery, seen) = match layer.on_incoming(now, packet, dcid_len) {
            Ok(incoming) => incoming,
            Err(error) => return self.refuse(&error),
        };
        // TACK-7-12
        if layer.integrity_limit_reached() {
            // RFC 9001 section 6.6.
            const AEAD_LIMIT_REACHED: u64 = 0x0f;
            let _ = self.inner.close(false, AEAD_LIMIT_REACHED, b"");
        }
        let result = match delivery {
            Delivery::AsIs => self.inner.recv(packet, info),
            Delivery::Rewritten => self.inner.recv(layer.rewritten(), info),
        };
        let news = self.progress.follow(&self.inner);
        self.data_pending |= news.losses;
        if news.packet {
            self.footprint.on_stopped(&seen.stopped);
            // What was acknowledged may have been a probe of the path's MTU.
            layer.sender.set_mss(self.inner.max_send_udp_payload_size() as u64);
            if layer.on_accepted(now, &seen, &self.inner) {
                self.passes = self.passes.max(1);
                self.data_pending = true;
            }
            self.settle_ends();
            self.follow_validation(seen.answer);
        }
        result.map(|_| len)
    }

    /// Finds ends of streams that quiche has forgotten: an acknowledgement or the end of the
    /// other half may just have made it do so.
    pub(super) fn settle_ends(&mut self) {
        let Some(layer) = &self.layer else { return };
        let was_delivered = |pn| layer.sender.was_delivered(pn);
        self.ends.settle(was_delivered, |id| is_forgotten(&mut self.inner, id));
    }

    /// Closes the connection over what the peer sent.
    pub(super) fn refuse(&mut self, error: &ProtocolError) -> quiche::Result<usize> {
        log::warn!("{}: {error}", self.inner.trace_id());
        let _ = self.inner.close(false, error.to_wire(), error.to_string().as_bytes());
        Err(quiche::Error::InvalidFrame)
    }

    /// Has quiche write a packet, within what the plan needs, and finishes it.
    pub(super) fn send_packet(
        &mut self,
        now: Instant,
        out: &mut [u8],
        from: Option<SocketAddr>,
        to: Option<SocketAddr>,
        plan: &Plan,
    ) -> quiche::Result<(usize, SendInfo)> {
        let room = self.validation.room(plan.room(), self.inner.max_send_udp_payload_size());
        let limit = if room == 0 {
            out.len()
        } else {
            out.len().min(self.inner.max_send_udp_payload_size()).saturating_sub(room)
        };
        match self.inner.send_on_path(&mut out[..limit], from, to) {
            Ok((len, mut info)) => {
                info.at = now;
                self.validation.on_sent();
                let path = (info.from, info.to);
                let len = self.finish_packet(now, out, len, plan, path);
                self.follow_route(now, path);
                Ok((len, info))
            }
            Err(quiche::Error::Done) => {
                self.on_nothing_to_send(now);
                Err(quiche::Error::Done)
            }
            Err(error) => Err(error),
        }
    }

    /// Passes what quiche has written through the layer; the final length.
    pub(super) fn finish_packet(
        &mut self,
        now: Instant,
        out: &mut [u8],
        len: usize,
        plan: &Plan,
        path: Path,
    ) -> usize {
        let dcid_len = self.inner.destination_id().len();
        let is_proven = self.is_proven(path);
        let Some(layer) = &mut self.layer else { return len };
        let Some(at) = datagram::layout(&out[..len]).one_rtt else { return len };
        let largest = self.inner.max_send_udp_payload_size().max(len).min(out.len());
        let largest = if is_proven { largest } else { len };
        let plan = plan.to_address(is_proven);
        let passed = layer.pass_outgoing(now, (&out[at..largest], len - at), dcid_len, &plan);
        let sent = passed.or_else(|| {
            let packet = &mut out[at..largest];
            layer.on_outgoing(now, packet, len - at, dcid_len, &plan, &mut self.ends)
        });
        let Some(sent) = sent else { return len };
        self.passes = self.passes.saturating_sub(1);
        self.send_buffer.on_sent(sent.stream_bytes);
        if let Some(data) = sent.challenge {
            self.validation.on_challenge_sent(path, data);
        }
        self.write_journal();
        at + sent.len
    }

    pub(super) fn on_nothing_to_send(&mut self, now: Instant) {
        self.passes = 0;
        self.validation.on_sent();
        self.send_buffer.on_flushed(&self.inner);
        let Some(layer) = &mut self.layer else { return };
        layer.on_nothing_to_send();
        if self.data_pending && layer.sender.may_send(now) {
            layer.sender.on_app_limited();
        }
        self.data_pending = false;
    }

    /// What happened behind the layer's back while the application had the
    /// quiche connection in its hands.
    pub(super) fn heed_application(&mut self) {
        if !self.footprint.is_touched() {
            return;
        }
        let Some(layer) = &mut self.layer else { return };
        layer.windows.on_unseen();
        // If quiche has an acknowledgement to send, asking it for data gets
        // that, and one ACK for each look at the connection is what the layer
        // is there to prevent: so only a change that shows counts.
        let changed = self.footprint.take(&mut self.inner);
        self.data_pending |= changed || !layer.holds_ack();
    }
}

/// Whether quiche has done with a stream that it had. To ask for the capacity of one that the peer
/// has stopped would take the news from the application, so that is the second question.
pub(super) fn is_forgotten(connection: &mut quiche::Connection, stream_id: u64) -> bool {
    connection.stream_closed(stream_id)
        && matches!(
            connection.stream_capacity(stream_id),
            Err(quiche::Error::InvalidStreamState(_))
        )
}
