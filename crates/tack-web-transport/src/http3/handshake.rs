//! SETTINGS and CONNECT (RFC 9220, draft-ietf-webtrans-http3 section 3).

use std::future::Future;
use std::sync::Arc;

use tack_tokio::{Connection, ReadError, RecvStream, SendStream};
use tokio::io::AsyncReadExt as _;
use web_transport_proto::http::StatusCode;
use web_transport_proto::{ConnectError, ConnectRequest, ConnectResponse};

use super::connect_stream::ConnectStream;
use super::incoming::{self, Incoming, RequestStream, end_of_stream};
use super::session::{Session, SessionParts};
use super::state::{SessionState, end_of_connection, write_error};
use super::{ALPN, HANDSHAKE_TIMEOUT, LINGER, MAX_HANDSHAKE_BYTES, codes};
use crate::Error;

/// A connection of HTTP/3 without a session yet; dropping it closes the connection.
struct Http3 {
    connection: Connection,
    guard: CloseOnDrop,
    control: SendStream,
    incoming: Incoming,
}

/// Tasks hold the connection, too: it does not end with the handle.
struct CloseOnDrop(Option<Connection>);

impl Drop for CloseOnDrop {
    fn drop(&mut self) {
        if let Some(connection) = &self.0 {
            connection.close(codes::NO_ERROR, b"no session");
        }
    }
}

/// Opens a session on a new connection of a client, whose application protocol is [`ALPN`](super::ALPN).
///
/// Fails with [`Error::Rejected`] if the server refuses, and with another error if it does not speak
/// WebTransport or not within [`HANDSHAKE_TIMEOUT`]; the connection is closed then.
pub async fn connect(
    connection: Connection,
    request: impl Into<ConnectRequest>,
) -> Result<Session, Error> {
    let request = request.into();
    in_time(async move {
        let http3 = Http3::start(connection.clone(), false).await?;
        let (mut send, mut receive) = connection.open_bi().await.map_err(Error::Connection)?;
        let mut frame = Vec::new();
        request.encode(&mut frame)?;
        send.write_all(&frame).await.map_err(write_error)?;
        let response = read_response(&mut receive).await?;
        if let Some(protocol) = &response.protocol
            && !request.protocols.contains(protocol)
        {
            return Err(Error::ProtocolNotOffered(protocol.clone()));
        }
        Ok(http3.into_session(send, receive, request, response))
    })
    .await
}

/// Reads the final answer to a CONNECT.
async fn read_response(receive: &mut RecvStream) -> Result<ConnectResponse, Error> {
    let mut bounded = receive.take(MAX_HANDSHAKE_BYTES);
    loop {
        match ConnectResponse::read(&mut bounded).await {
            // Others follow it (RFC 9114 section 4.1).
            Err(ConnectError::WrongStatus(Some(status))) if status.is_informational() => {}
            Err(ConnectError::WrongStatus(Some(status))) => {
                return Err(Error::Rejected(status));
            }
            Ok(response) => return Ok(response),
            Err(error) => {
                let receive = bounded.into_inner();
                return Err(explain(receive, error).await);
            }
        }
    }
}

/// A client's request for a session. Dropping it closes the connection.
#[must_use = "the client waits for the answer"]
pub struct Request {
    http3: Http3,
    send: SendStream,
    receive: RecvStream,
    connect: ConnectRequest,
}

impl std::fmt::Debug for Request {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Request").field("connect", &self.connect).finish_non_exhaustive()
    }
}

impl Request {
    /// Reads the request on a new connection of a server, whose application protocol is
    /// [`ALPN`](super::ALPN).
    ///
    /// Fails if the client does not speak WebTransport or not within [`HANDSHAKE_TIMEOUT`]; the connection is
    /// closed then. A request of another kind is answered with a status that says so.
    pub async fn receive(connection: Connection) -> Result<Self, Error> {
        in_time(async move {
            let mut http3 = Http3::start(connection.clone(), true).await?;
            let Ok(stream) = (&mut http3.incoming.request).await else {
                return Err(end_of_connection(connection.closed().await));
            };
            let RequestStream { mut send, mut receive, first_frame } = stream;
            let mut first = Vec::new();
            first_frame.encode(&mut first);
            let mut bounded = first.as_slice().chain(&mut receive).take(MAX_HANDSHAKE_BYTES);
            match ConnectRequest::read(&mut bounded).await {
                Ok(connect) => Ok(Self { http3, send, receive, connect }),
                Err(error) => {
                    refuse(&mut send, &error).await;
                    Err(explain(&mut receive, error).await)
                }
            }
        })
        .await
    }

    /// The URL that the client asks for.
    pub fn url(&self) -> &super::Url {
        &self.connect.url
    }

    /// The protocols that the client offers, the preferred ones first.
    pub fn protocols(&self) -> &[String] {
        &self.connect.protocols
    }

    /// Headers of the request, without those of WebTransport.
    pub fn headers(&self) -> &super::http::HeaderMap {
        &self.connect.headers
    }

    /// Accepts the session without one of the client's protocols. Fails with [`Error::HandshakeTimeout`] if the client
    /// does not take the answer, as [`Request::reject`] does.
    pub async fn accept(self) -> Result<Session, Error> {
        self.respond(ConnectResponse::OK).await
    }

    /// Accepts the session with a protocol; fails if the client has not offered that.
    pub async fn accept_with_protocol(
        self,
        protocol: impl Into<String>,
    ) -> Result<Session, Error> {
        let protocol = protocol.into();
        if !self.connect.protocols.contains(&protocol) {
            return Err(Error::ProtocolNotOffered(protocol));
        }
        self.respond(ConnectResponse::OK.with_protocol(protocol)).await
    }

    async fn respond(mut self, response: ConnectResponse) -> Result<Session, Error> {
        // The client may grant no window.
        in_time(write_response(&mut self.send, &response)).await?;
        Ok(self.http3.into_session(self.send, self.receive, self.connect, response))
    }

    /// Refuses the session with a status, waits until the client has it, and closes the connection.
    pub async fn reject(mut self, status: StatusCode) -> Result<(), Error> {
        in_time(write_response(&mut self.send, &status.into())).await?;
        self.send.finish()?;
        let _ = tokio::time::timeout(LINGER, self.send.stopped()).await;
        Ok(())
    }
}

/// Answers a request that is none for a session, so far as it can be answered.
async fn refuse(send: &mut SendStream, error: &ConnectError) {
    let status = match error {
        ConnectError::WrongMethod(Some(_)) | ConnectError::WrongProtocol(_) => {
            StatusCode::NOT_IMPLEMENTED
        }
        ConnectError::FieldSectionTooLarge => StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
        ConnectError::InvalidUrl(_) | ConnectError::InvalidProtocol => StatusCode::BAD_REQUEST,
        _ => {
            let _ = send.reset(codes::MESSAGE_ERROR);
            return;
        }
    };
    if write_response(send, &status.into()).await.is_ok() && send.finish().is_ok() {
        let _ = tokio::time::timeout(LINGER, send.stopped()).await;
    }
}

async fn write_response(
    send: &mut SendStream,
    response: &ConnectResponse,
) -> Result<(), Error> {
    let mut frame = Vec::new();
    response.encode(&mut frame)?;
    send.write_all(&frame).await.map_err(write_error)
}

/// Bounds the time of a handshake.
async fn in_time<T>(handshake: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    match tokio::time::timeout(HANDSHAKE_TIMEOUT, handshake).await {
        Ok(result) => result,
        Err(_) => Err(Error::HandshakeTimeout),
    }
}

/// Why a request or its answer could not be read, if it is the stream's or the connection's end.
async fn explain(receive: &mut RecvStream, error: ConnectError) -> Error {
    match end_of_stream(receive).await {
        Some(Err(ReadError::Reset(code))) => Error::Http3Stream(code),
        Some(Err(ReadError::ConnectionLost(lost))) => end_of_connection(lost),
        _ => Error::Connect(error),
    }
}

impl Http3 {
    /// Sends SETTINGS and waits for the peer's.
    async fn start(connection: Connection, is_server: bool) -> Result<Self, Error> {
        let protocol = connection.application_protocol();
        if protocol != ALPN {
            return Err(Error::NotHttp3(String::from_utf8_lossy(&protocol).into_owned()));
        }
        let mut incoming = incoming::start(&connection, is_server);
        let guard = CloseOnDrop(Some(connection.clone()));
        let control = incoming::open_control(&connection).await?;
        let sessions =
            incoming.sessions.wait_for(Option::is_some).await.map(|sessions| *sessions);
        let Ok(sessions) = sessions else {
            // The tasks that read streams are gone with the connection.
            return Err(end_of_connection(connection.closed().await));
        };
        if sessions.unwrap_or_default() == 0 {
            connection.close(codes::SETTINGS_ERROR, b"no WebTransport");
            return Err(Error::Unsupported);
        }
        Ok(Self { connection, guard, control, incoming })
    }

    /// The session that the request on these streams has opened.
    fn into_session(
        mut self,
        send: SendStream,
        receive: RecvStream,
        request: ConnectRequest,
        response: ConnectResponse,
    ) -> Session {
        self.guard.0 = None;
        let Self { connection, control, incoming, .. } = self;
        let session_id = send.id().value();
        let state = Arc::<SessionState>::default();
        let stream = ConnectStream {
            connection: connection.clone(),
            send,
            receive,
            control,
            state: Arc::clone(&state),
        };
        tokio::spawn(stream.run());
        let (uni, bi) = (incoming.uni, incoming.bi);
        let protocol = response.protocol;
        Session::new(SessionParts { connection, state, session_id, uni, bi, request, protocol })
    }
}
