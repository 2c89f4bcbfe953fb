//! DATAGRAMs (RFC 9221).

use std::task::Poll;
use std::time::Instant;

use bytes::Bytes;
use tacklib::quiche;

use crate::connection::Access;
use crate::{Connection, ConnectionError, SendDatagramError};

impl Connection {
    /// Queues a DATAGRAM, which is not repeated if it is lost. How many may wait is set with
    /// `Config::enable_dgram`; when the queue is full this fails with [`SendDatagramError::Blocked`].
    pub fn send_datagram(&self, data: &[u8]) -> Result<(), SendDatagramError> {
        self.queue_datagram(data, None)
    }

    /// Queues a DATAGRAM that is dropped if it has not left at the deadline; otherwise as
    /// [`send_datagram`](Self::send_datagram).
    pub fn send_datagram_until(
        &self,
        data: &[u8],
        deadline: impl Into<Instant>,
    ) -> Result<(), SendDatagramError> {
        self.queue_datagram(data, Some(deadline.into()))
    }

    /// Queues a DATAGRAM, and waits for room in the queue.
    ///
    /// Cancellation safe: it is queued only when this returns.
    pub async fn send_datagram_wait(&self, data: &[u8]) -> Result<(), SendDatagramError> {
        let queue = |access: &mut Access<'_>| match queue(access, data, None) {
            Err(SendDatagramError::Blocked) => {
                access.state.waits.datagram_room = true;
                Poll::Pending
            }
            result => Poll::Ready(Ok(result)),
        };
        self.0.wait(|signals| &signals.datagram_room, queue).await?
    }

    /// Receives the next DATAGRAM. Those that have come can be read after the end of the connection, too;
    /// of more than the queue holds (`Config::enable_dgram`) quiche drops the oldest.
    ///
    /// Cancellation safe: a DATAGRAM is taken only when this returns it.
    pub async fn read_datagram(&self) -> Result<Bytes, ConnectionError> {
        let read = |access: &mut Access<'_>| {
            let len = access.look().and_then(tacklib::Connection::dgram_recv_front_len);
            if let Some(len) = len
                && let Some(connection) = access.touch()
            {
                let mut data = vec![0; len];
                if let Ok(len) = connection.dgram_recv(&mut data) {
                    data.truncate(len);
                    return Poll::Ready(Ok(data.into()));
                }
            }
            access.state.waits.datagram_received = true;
            match access.state.check() {
                Ok(()) => Poll::Pending,
                Err(error) => Poll::Ready(Err(error)),
            }
        };
        self.0.wait(|signals| &signals.datagram_received, read).await
    }

    /// The largest DATAGRAM that fits a packet now, bytes; `None` where one of the ends has not enabled
    /// them. It changes with the path MTU.
    pub fn max_datagram_size(&self) -> Option<usize> {
        let max = self
            .0
            .with(|access| access.look().and_then(tacklib::Connection::dgram_max_writable_len));
        max.ok().flatten()
    }

    fn queue_datagram(
        &self,
        data: &[u8],
        deadline: Option<Instant>,
    ) -> Result<(), SendDatagramError> {
        self.0.with(|access| queue(access, data, deadline))?
    }
}

fn queue(
    access: &mut Access<'_>,
    data: &[u8],
    deadline: Option<Instant>,
) -> Result<(), SendDatagramError> {
    access.state.check()?;
    let Some(connection) = access.look() else {
        return Err(ConnectionError::EndpointStopped.into());
    };
    let Some(max) = connection.dgram_max_writable_len() else {
        return Err(SendDatagramError::Unsupported);
    };
    if data.len() > max {
        return Err(SendDatagramError::TooLarge { len: data.len(), max });
    }
    if connection.is_dgram_send_queue_full() {
        return Err(SendDatagramError::Blocked);
    }
    let Some(connection) = access.touch() else {
        return Err(ConnectionError::EndpointStopped.into());
    };
    let queued = match deadline {
        Some(deadline) => connection.dgram_send_until(data, deadline),
        None => connection.dgram_send(data),
    };
    queued.map_err(|error| match error {
        quiche::Error::Done => SendDatagramError::Blocked,
        error => SendDatagramError::Quic(error),
    })
}
