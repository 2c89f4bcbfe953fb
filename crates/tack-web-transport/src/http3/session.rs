//! Sessions over HTTP/3.

use std::fmt;
use std::sync::Arc;

use bytes::{BufMut as _, Bytes, BytesMut};
use tack_tokio::{Connection, ConnectionError, SendDatagramError};
use web_transport_proto::{ConnectRequest, Frame, StreamUni, VarInt};

use super::codes;
use super::connect_stream::cut_reason;
use super::incoming::{Bi, Uni};
use super::queue::{GiveUp, Queue};
use super::state::{SessionState, end_of_connection};
use super::streams::{RecvStream, SendStream};
use crate::poll::Ops;
use crate::{Error, Stats};

/// A session of WebTransport over HTTP/3.
///
/// Clones are handles of the same session. It is closed with code 0 when its last clone and the last of its
/// streams are dropped. Its connection is closed with it, once the peer knows; wait for
/// [`Endpoint::wait_idle`](tack_tokio::Endpoint::wait_idle) before the program ends.
#[derive(Clone)]
pub struct Session(Arc<SessionRef>, pub(crate) Ops<Self>);

/// What a session is made of.
pub(super) struct SessionParts {
    pub(super) connection: Connection,
    pub(super) state: Arc<SessionState>,
    pub(super) session_id: u64,
    pub(super) uni: Queue<Uni>,
    pub(super) bi: Queue<Bi>,
    pub(super) request: ConnectRequest,
    pub(super) protocol: Option<String>,
}

/// What the handles of a session and of its streams have in common.
pub(super) struct SessionRef {
    connection: Connection,
    pub(super) state: Arc<SessionState>,
    session_id: u64,
    uni: Queue<Uni>,
    bi: Queue<Bi>,
    request: ConnectRequest,
    protocol: Option<String>,
    /// What each stream and each DATAGRAM begins with.
    uni_header: Vec<u8>,
    bi_header: Vec<u8>,
    datagram_header: Vec<u8>,
}

impl fmt::Debug for SessionRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("SessionRef");
        debug.field("connection", &self.connection).field("session_id", &self.session_id);
        debug.finish_non_exhaustive()
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("Session");
        debug.field("url", &self.0.request.url).field("protocol", &self.0.protocol);
        debug.finish_non_exhaustive()
    }
}

impl Drop for SessionRef {
    fn drop(&mut self) {
        self.state.end(Error::SessionClosed { code: 0, reason: String::new() });
    }
}

impl SessionRef {
    /// Opens nothing more once the session is over, and waits for `operation` no longer.
    pub(super) async fn unless_over<T>(
        &self,
        operation: impl Future<Output = Result<T, ConnectionError>>,
    ) -> Result<T, Error> {
        if let Some(end) = self.state.ended() {
            return Err(end);
        }
        tokio::select! {
            biased;
            result = operation => match result {
                Ok(result) => Ok(result),
                // The CONNECT stream may say more than the end of the connection does.
                Err(_) => Err(self.state.wait().await),
            },
            end = self.state.wait() => Err(end),
        }
    }

    /// Takes a stream of the session that has come; the end of the session counts when there is none.
    async fn next<T: GiveUp>(&self, streams: &Queue<T>) -> Result<T, Error> {
        tokio::select! {
            biased;
            stream = streams.next() => Ok(stream),
            end = self.state.wait() => Err(end),
        }
    }
}

impl Session {
    pub(super) fn new(parts: SessionParts) -> Self {
        let SessionParts { connection, state, session_id, uni, bi, request, protocol } = parts;
        let header = |kind: Option<VarInt>, id: u64| {
            let mut header = Vec::new();
            if let Some(kind) = kind {
                kind.encode(&mut header);
            }
            // The id of a stream is one on the wire already.
            VarInt::from_u64(id).unwrap_or(VarInt::MAX).encode(&mut header);
            header
        };
        let session = Arc::new(SessionRef {
            uni_header: header(Some(StreamUni::WEBTRANSPORT.0), session_id),
            bi_header: header(Some(Frame::WEBTRANSPORT.0), session_id),
            // RFC 9297 section 2.1: the quarter stream id.
            datagram_header: header(None, session_id / 4),
            uni,
            bi,
            connection,
            state,
            session_id,
            request,
            protocol,
        });
        Self(session, Ops::default())
    }

    /// The connection below. Its own streams and DATAGRAMs belong to HTTP/3.
    pub fn connection(&self) -> &Connection {
        &self.0.connection
    }

    /// The URL of the session.
    pub fn url(&self) -> &super::Url {
        &self.0.request.url
    }

    /// The id of the session: that of the stream of its request.
    pub fn id(&self) -> u64 {
        self.0.session_id
    }

    fn send_stream(&self, stream: tack_tokio::SendStream) -> SendStream {
        SendStream::new(stream, Arc::clone(&self.0))
    }

    fn recv_stream(&self, stream: tack_tokio::RecvStream) -> RecvStream {
        RecvStream::new(stream, Arc::clone(&self.0))
    }
}

impl web_transport_trait::Session for Session {
    type SendStream = SendStream;
    type RecvStream = RecvStream;
    type Error = Error;

    async fn accept_uni(&self) -> Result<RecvStream, Error> {
        loop {
            let (id, receive) = self.0.next(&self.0.uni).await?;
            if id == self.0.session_id {
                return Ok(self.recv_stream(receive));
            }
            (id, receive).give_up(codes::BUFFERED_STREAM_REJECTED);
        }
    }

    async fn accept_bi(&self) -> Result<(SendStream, RecvStream), Error> {
        loop {
            let (id, send, receive) = self.0.next(&self.0.bi).await?;
            if id == self.0.session_id {
                return Ok((self.send_stream(send), self.recv_stream(receive)));
            }
            (id, send, receive).give_up(codes::BUFFERED_STREAM_REJECTED);
        }
    }

    async fn open_bi(&self) -> Result<(SendStream, RecvStream), Error> {
        let (send, receive) = self.0.unless_over(self.0.connection.open_bi()).await?;
        // Both are given up if this future is dropped.
        let (mut send, receive) = (self.send_stream(send), self.recv_stream(receive));
        web_transport_trait::SendStream::write_all(&mut send, &self.0.bi_header).await?;
        Ok((send, receive))
    }

    async fn open_uni(&self) -> Result<SendStream, Error> {
        let send = self.0.unless_over(self.0.connection.open_uni()).await?;
        let mut send = self.send_stream(send);
        web_transport_trait::SendStream::write_all(&mut send, &self.0.uni_header).await?;
        Ok(send)
    }

    fn send_datagram(&self, payload: Bytes) -> Result<(), Error> {
        if let Some(end) = self.0.state.ended() {
            return Err(end);
        }
        let header = &self.0.datagram_header;
        let mut datagram = BytesMut::with_capacity(header.len() + payload.len());
        datagram.put_slice(header);
        datagram.put(payload);
        match self.0.connection.send_datagram(&datagram) {
            // More than the path takes: one is lost, here instead of there.
            Ok(()) | Err(SendDatagramError::Blocked) => Ok(()),
            Err(SendDatagramError::ConnectionLost(lost)) => Err(end_of_connection(lost)),
            Err(error) => Err(Error::Datagram(error)),
        }
    }

    async fn recv_datagram(&self) -> Result<Bytes, Error> {
        loop {
            let receive = self.0.connection.read_datagram();
            let mut datagram = tokio::select! {
                biased;
                datagram = receive => match datagram {
                    Ok(datagram) => datagram,
                    Err(_) => return Err(self.0.state.wait().await),
                },
                end = self.0.state.wait() => return Err(end),
            };
            match VarInt::decode(&mut datagram) {
                Ok(quarter) if quarter.into_inner() == self.0.session_id / 4 => {
                    return Ok(datagram);
                }
                // Four times that is the id of a stream (RFC 9297 section 2.1).
                Ok(quarter) if quarter.into_inner() < 1 << 60 => {
                    log::debug!("drops a DATAGRAM of request {quarter}");
                }
                _ => self.0.connection.close(codes::DATAGRAM_ERROR, b"no stream id"),
            }
        }
    }

    fn max_datagram_size(&self) -> usize {
        let max = self.0.connection.max_datagram_size().unwrap_or_default();
        max.saturating_sub(self.0.datagram_header.len())
    }

    fn protocol(&self) -> Option<&str> {
        self.0.protocol.as_deref()
    }

    fn close(&self, code: u32, reason: &str) {
        self.0.state.end(Error::SessionClosed { code, reason: cut_reason(reason) });
    }

    async fn closed(&self) -> Error {
        self.0.state.wait().await
    }

    fn stats(&self) -> impl web_transport_trait::Stats {
        Stats::of(&self.0.connection)
    }
}
