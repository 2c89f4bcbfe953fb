//! quiche's methods that change something the layer need not see.
//!
//! They stand here because a call through `DerefMut` makes the layer look for reads and writes that it
//! has not seen; these do neither. Some have quiche write a frame that must not wait.

use std::net::SocketAddr;

use boring::ssl::SslRef;
use quiche::{BufFactory, ConnectionId, PathEvent};

use super::Connection;
use super::send_credits::CreditReason;
use crate::quiche_compat::{error_code, shortened};

impl<F: BufFactory> Connection<F> {
    /// The next stream that can be read from, as [`quiche::Connection::stream_readable_next`].
    pub fn stream_readable_next(&mut self) -> Option<u64> {
        self.inner.stream_readable_next()
    }

    /// Sets the priority of a stream, as [`quiche::Connection::stream_priority`].
    pub fn stream_priority(
        &mut self,
        stream_id: u64,
        urgency: u8,
        incremental: bool,
    ) -> quiche::Result<()> {
        let is_unknown = !self.inner.stream_closed(stream_id)
            && !self.seam.stopped_streams.contains(stream_id)
            && self.inner.stream_capacity(stream_id).is_err();
        if is_unknown {
            // quiche opens it.
            self.deadlines.overdue.on_opening(stream_id);
        }
        let priority = (urgency, incremental);
        self.seam.stale_streams.set_priority(&mut self.inner, stream_id, priority)
    }

    /// Reads a DATAGRAM, as [`quiche::Connection::dgram_recv`].
    pub fn dgram_recv(&mut self, buf: &mut [u8]) -> quiche::Result<usize> {
        self.inner.dgram_recv(buf)
    }

    /// Reads a DATAGRAM without a copy, as [`quiche::Connection::dgram_recv_buf`].
    pub fn dgram_recv_buf(&mut self) -> quiche::Result<F::DgramBuf> {
        self.inner.dgram_recv_buf()
    }

    /// Sends an ack-eliciting packet, as [`quiche::Connection::send_ack_eliciting`].
    pub fn send_ack_eliciting(&mut self) -> quiche::Result<()> {
        self.inner.send_ack_eliciting()?;
        self.on_control_frame();
        Ok(())
    }

    /// Sends an ack-eliciting packet on a path, as
    /// [`quiche::Connection::send_ack_eliciting_on_path`].
    pub fn send_ack_eliciting_on_path(
        &mut self,
        local: SocketAddr,
        peer: SocketAddr,
    ) -> quiche::Result<()> {
        self.inner.send_ack_eliciting_on_path(local, peer)?;
        self.on_control_frame();
        Ok(())
    }

    /// Issues a connection id, as [`quiche::Connection::new_scid`].
    pub fn new_scid(
        &mut self,
        scid: &ConnectionId<'_>,
        reset_token: u128,
        retire_if_needed: bool,
    ) -> quiche::Result<u64> {
        let sequence = self.inner.new_scid(scid, reset_token, retire_if_needed)?;
        self.on_control_frame();
        Ok(sequence)
    }

    /// Retires a connection id of the peer's, as [`quiche::Connection::retire_dcid`].
    pub fn retire_dcid(&mut self, sequence: u64) -> quiche::Result<()> {
        self.inner.retire_dcid(sequence)?;
        self.on_control_frame();
        Ok(())
    }

    /// Begins path MTU discovery anew, as [`quiche::Connection::revalidate_pmtu`].
    pub fn revalidate_pmtu(&mut self) {
        self.inner.revalidate_pmtu();
        let mtu = self.seam.path_mtu.get();
        self.seam.path_mtu.follow(&self.inner);
        self.on_path_mtu(mtu);
        if let Some(layer) = &mut self.layer {
            layer.set_mss(self.seam.path_mtu.get());
        }
        self.pending.add();
    }

    /// Closes the connection, as [`quiche::Connection::close`]. Of a reason that is longer, the first 1,000 bytes are
    /// told, and a code above 2^62 - 1 as that.
    pub fn close(&mut self, app: bool, error: u64, reason: &[u8]) -> quiche::Result<()> {
        self.inner.close(app, error_code(error), shortened(reason))
    }

    /// The next event of a path, as [`quiche::Connection::path_event_next`].
    pub fn path_event_next(&mut self) -> Option<PathEvent> {
        self.inner.path_event_next()
    }

    /// The next connection id that the peer has retired, as
    /// [`quiche::Connection::retired_scid_next`].
    pub fn retired_scid_next(&mut self) -> Option<ConnectionId<'static>> {
        self.inner.retired_scid_next()
    }

    /// Resumes a session, as [`quiche::Connection::set_session`].
    pub fn set_session(&mut self, session: &[u8]) -> quiche::Result<()> {
        self.inner.set_session(session)
    }

    /// Writes a qlog, as [`quiche::Connection::set_qlog`]; the layer's events are in it.
    #[cfg(feature = "qlog")]
    pub fn set_qlog(
        &mut self,
        writer: Box<dyn std::io::Write + Send + Sync>,
        title: String,
        description: String,
    ) {
        self.inner.set_qlog(writer, title, description);
    }

    /// Writes a qlog of a level, as [`quiche::Connection::set_qlog_with_level`].
    #[cfg(feature = "qlog")]
    pub fn set_qlog_with_level(
        &mut self,
        writer: Box<dyn std::io::Write + Send + Sync>,
        title: String,
        description: String,
        level: quiche::QlogLevel,
    ) {
        self.inner.set_qlog_with_level(writer, title, description, level);
    }

    /// quiche's writer of the qlog, as [`quiche::Connection::qlog_streamer`].
    #[cfg(feature = "qlog")]
    pub fn qlog_streamer(&mut self) -> Option<&mut qlog::streamer::QlogStreamer> {
        self.inner.qlog_streamer()
    }

    /// quiche has a control frame to send, which fits where stream data does not.
    pub(super) fn on_control_frame(&mut self) {
        self.credits.grant(CreditReason::Application);
        self.pending.add();
    }
}

impl<F: BufFactory> AsMut<SslRef> for Connection<F> {
    fn as_mut(&mut self) -> &mut SslRef {
        self.inner.as_mut()
    }
}
