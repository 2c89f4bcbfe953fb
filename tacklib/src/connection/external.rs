//! What `crate::h3` needs of the connection: quiche's own, and to say what was done with it.
//!
//! An access through `DerefMut` says nothing, and the layer then reads every packet until it
//! knows again what the application has read.

use quiche::BufFactory;

use super::Connection;
use super::send_credits::CreditReason;
use crate::quiche_compat::{GivenUp, Seam};

impl<F: BufFactory> Connection<F> {
    /// quiche's connection, for a caller that tells everything it does with it.
    pub(crate) fn followed(&mut self) -> &mut quiche::Connection<F> {
        &mut self.inner
    }

    /// Whether what is written passes the send buffer; else quiche alone says what can be written.
    pub(crate) fn has_send_buffer(&self) -> bool {
        self.is_enabled()
    }

    /// Room for writing, bytes.
    pub(crate) fn send_room(&self) -> usize {
        if self.is_enabled() { self.seam.send_buffer.room() } else { usize::MAX }
    }

    /// A write to the stream was refused for lack of room: it is to be reported as writable when
    /// there are `needed` bytes of it.
    pub(crate) fn block_stream(&mut self, stream_id: u64, needed: usize) {
        let Seam { send_buffer, stopped_streams, .. } = &mut self.seam;
        send_buffer.block(&mut self.inner, stopped_streams, stream_id, needed);
    }

    /// `bytes` were read from a stream; `fin` if it has no more.
    pub(crate) fn on_followed_read(&mut self, stream_id: u64, bytes: usize, fin: bool) {
        self.on_read(stream_id, (bytes, fin));
    }

    /// One call of `stream_send` took `bytes`, and the end of the stream if `fin`.
    pub(crate) fn on_followed_write(&mut self, stream_id: u64, bytes: usize, fin: bool) {
        if self.is_enabled() {
            self.on_written(stream_id, bytes, fin);
        }
    }

    /// Takes requests that this end has stopped reading, or answering, and that are over.
    pub(crate) fn take_given_up_requests(&mut self) -> Vec<GivenUp> {
        let Seam { given_up_requests, stopped_streams, .. } = &mut self.seam;
        given_up_requests.take_done(&mut self.inner, stopped_streams)
    }

    /// What an application is told that writes to a stream which the peer has stopped.
    pub(crate) fn stopped_error(&self, stream_id: u64) -> Option<quiche::Error> {
        self.seam.stopped_streams.error(stream_id)
    }

    /// Something other than stream data is to leave now.
    pub(crate) fn on_followed_frame(&mut self) {
        self.credits.grant(CreditReason::Application);
        self.pending.add();
    }

    /// What the layer takes for read, on a stream and on all.
    #[cfg(test)]
    pub(crate) fn counted_reads(&mut self, stream_id: u64) -> (u64, u64) {
        self.layer.as_mut().map_or((0, 0), |layer| layer.windows().consumed(stream_id))
    }

    /// Whether the layer reads packets that it could take by their header.
    #[cfg(test)]
    pub(crate) fn reads_all(&mut self) -> bool {
        self.layer.as_mut().is_some_and(|layer| layer.windows().needs_offsets())
    }

    /// What is written and has not left.
    #[cfg(test)]
    pub(crate) fn unsent(&self) -> usize {
        self.config.send_buffer - self.send_room()
    }
}
