//! Sessions.

use std::sync::Arc;

use bytes::Bytes;
use tack_tokio::{Connection, SendDatagramError};

use crate::poll::Ops;
use crate::{Error, RecvStream, SendStream, Stats};

/// A session: a QUIC connection on which nothing but the application's own streams are.
///
/// It is closed with code 0 when its last clone and the last of its streams are dropped.
#[derive(Clone, Debug)]
pub struct Session {
    connection: Connection,
    /// What was negotiated, if it is text.
    protocol: Option<Arc<str>>,
    pub(crate) ops: Ops<Self>,
}

impl Session {
    /// Takes a connection whose handshake is complete.
    pub fn new(connection: Connection) -> Self {
        let protocol = String::from_utf8(connection.application_protocol()).ok();
        let protocol = protocol.filter(|name| !name.is_empty()).map(Arc::from);
        Self { connection, protocol, ops: Ops::default() }
    }

    /// The connection below.
    pub fn connection(&self) -> &Connection {
        &self.connection
    }
}

impl From<Connection> for Session {
    fn from(connection: Connection) -> Self {
        Self::new(connection)
    }
}

impl web_transport_trait::Session for Session {
    type SendStream = SendStream;
    type RecvStream = RecvStream;
    type Error = Error;

    async fn accept_uni(&self) -> Result<RecvStream, Error> {
        Ok(RecvStream::new(self.connection.accept_uni().await?))
    }

    async fn accept_bi(&self) -> Result<(SendStream, RecvStream), Error> {
        let (send, receive) = self.connection.accept_bi().await?;
        Ok((SendStream::new(send), RecvStream::new(receive)))
    }

    async fn open_bi(&self) -> Result<(SendStream, RecvStream), Error> {
        let (send, receive) = self.connection.open_bi().await?;
        Ok((SendStream::new(send), RecvStream::new(receive)))
    }

    async fn open_uni(&self) -> Result<SendStream, Error> {
        Ok(SendStream::new(self.connection.open_uni().await?))
    }

    fn send_datagram(&self, payload: Bytes) -> Result<(), Error> {
        match self.connection.send_datagram(&payload) {
            // More than the path takes: one is lost, here instead of there.
            Err(SendDatagramError::Blocked) => Ok(()),
            result => Ok(result?),
        }
    }

    async fn recv_datagram(&self) -> Result<Bytes, Error> {
        Ok(self.connection.read_datagram().await?)
    }

    fn max_datagram_size(&self) -> usize {
        self.connection.max_datagram_size().unwrap_or_default()
    }

    fn protocol(&self) -> Option<&str> {
        self.protocol.as_deref()
    }

    fn close(&self, code: u32, reason: &str) {
        self.connection.close(code.into(), reason.as_bytes());
    }

    async fn closed(&self) -> Error {
        self.connection.closed().await.into()
    }

    fn stats(&self) -> impl web_transport_trait::Stats {
        Stats::of(&self.connection)
    }
}
