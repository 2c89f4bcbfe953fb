//! DATAGRAM frames (RFC 9221): what fits into a packet, and what becomes of one that does not fit any more.

use quiche::BufFactory;

use super::Connection;
use crate::quiche_compat::longest_datagram;

impl<F: BufFactory> Connection<F> {
    /// The longest DATAGRAM that leaves as things are, as [`quiche::Connection::dgram_max_writable_len`]. While the path
    /// MTU is being looked for, what has been validated counts.
    pub fn dgram_max_writable_len(&self) -> Option<usize> {
        let len = self.inner.dgram_max_writable_len()?;
        Some(self.longest_datagram().map_or(len, |longest| len.min(longest)))
    }

    /// What a packet of the validated size holds; `None` where quiche's own answer holds.
    fn longest_datagram(&self) -> Option<usize> {
        self.layer.as_ref()?;
        Some(longest_datagram(&self.inner, self.seam.path_mtu.get()))
    }

    /// Refuses what no packet holds.
    pub(super) fn check_datagram(&self, len: usize) -> quiche::Result<()> {
        match self.longest_datagram() {
            Some(longest) if len > longest => Err(quiche::Error::BufferTooShort),
            _ => Ok(()),
        }
    }

    /// Packets may have become longer or shorter. A DATAGRAM that does not fit any more would keep those behind it
    /// waiting, and is dropped.
    #[inline]
    pub(super) fn on_path_mtu(&mut self, before: usize) {
        let size = self.seam.path_mtu.get();
        if size != before {
            self.purge_too_long(size);
        }
    }

    #[cold]
    fn purge_too_long(&mut self, size: usize) {
        if self.inner.dgram_send_queue_len() > 0 {
            self.pending.add();
            let longest = longest_datagram(&self.inner, size);
            self.dgram_purge_outgoing(|datagram| datagram.len() > longest);
        }
    }

    /// Queues a DATAGRAM, as [`quiche::Connection::dgram_send`].
    pub fn dgram_send(&mut self, buf: &[u8]) -> quiche::Result<()> {
        self.check_datagram(buf.len())?;
        self.inner.dgram_send(buf)?;
        self.on_datagram_queued(None);
        Ok(())
    }

    /// Queues a DATAGRAM without a copy, as [`quiche::Connection::dgram_send_buf`].
    pub fn dgram_send_buf(&mut self, buf: F::DgramBuf) -> quiche::Result<()> {
        self.check_datagram(buf.as_ref().len())?;
        self.inner.dgram_send_buf(buf)?;
        self.on_datagram_queued(None);
        Ok(())
    }
}
