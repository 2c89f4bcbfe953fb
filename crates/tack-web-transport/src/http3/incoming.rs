//! Streams of the peer: which of HTTP/3 there are, and which belong to a session.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tack_tokio::{Connection, ReadError, RecvStream, SendStream};
use tokio::io::AsyncReadExt as _;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;
use web_transport_proto::{Frame, Settings, SettingsError, StreamUni, VarInt};

use super::queue::{GiveUp, Permit, Queue, QueueSender, queue};
use super::state::{end_of_connection, write_error};
use super::{LINGER, MAX_HANDSHAKE_BYTES, codes};
use crate::Error;

/// A stream of a session, with the session's id.
pub(super) type Uni = (u64, RecvStream);
/// The same, of both directions.
pub(super) type Bi = (u64, SendStream, RecvStream);

impl GiveUp for Uni {
    fn give_up(self, code: u64) {
        let (_, mut receive) = self;
        // It fails when the stream has been stopped, or the connection is over.
        let _ = receive.stop(code);
    }
}

impl GiveUp for Bi {
    fn give_up(self, code: u64) {
        let (id, mut send, receive) = self;
        // As above.
        let _ = send.reset(code);
        (id, receive).give_up(code);
    }
}

/// The stream of a request, of which the type of the first frame was read.
pub(super) struct RequestStream {
    pub(super) send: SendStream,
    pub(super) receive: RecvStream,
    pub(super) first_frame: VarInt,
}

/// What arrives on a connection of HTTP/3.
pub(super) struct Incoming {
    pub(super) uni: Queue<Uni>,
    pub(super) bi: Queue<Bi>,
    /// The first request, on a server.
    pub(super) request: oneshot::Receiver<RequestStream>,
    /// How many sessions the peer's SETTINGS allow, once they have come.
    pub(super) sessions: watch::Receiver<Option<u64>>,
}

/// Frames that the control stream must not carry behind SETTINGS: DATA, HEADERS, SETTINGS, PUSH_PROMISE, and those of
/// HTTP/2 that HTTP/3 has none of (RFC 9114 section 7.2).
const ELSEWHERE: [u64; 8] = [0x0, 0x1, 0x4, 0x5, 0x2, 0x6, 0x8, 0x9];
/// A client's alone (RFC 9114 section 7.2.7).
const MAX_PUSH_ID: u64 = 0xd;

/// What the tasks that read the peer's streams share.
struct Dispatcher {
    connection: Connection,
    is_server: bool,
    /// Types of unidirectional streams of which there may be one each, and has been.
    critical: Mutex<BTreeSet<u64>>,
    request: Mutex<Option<oneshot::Sender<RequestStream>>>,
    sessions: watch::Sender<Option<u64>>,
}

/// Starts to accept the peer's streams. The tasks end with the connection.
pub(super) fn start(connection: &Connection, is_server: bool) -> Incoming {
    let (uni_sender, uni) = queue();
    let (bi_sender, bi) = queue();
    let (request_sender, request) = oneshot::channel();
    let (sessions_sender, sessions) = watch::channel(None);
    let dispatcher = Arc::new(Dispatcher {
        connection: connection.clone(),
        is_server,
        critical: Mutex::default(),
        request: Mutex::new(Some(request_sender)),
        sessions: sessions_sender,
    });
    tokio::spawn(accept_uni(Arc::clone(&dispatcher), uni_sender));
    tokio::spawn(accept_bi(dispatcher, bi_sender));
    Incoming { uni, bi, request, sessions }
}

async fn accept_uni(dispatcher: Arc<Dispatcher>, streams: QueueSender<Uni>) {
    let mut readers = JoinSet::new();
    // A stream is accepted once there is room for it: streams that end with their header cost the peer nothing.
    while let Some(permit) = streams.reserve().await
        && let Ok(stream) = dispatcher.connection.accept_uni().await
    {
        let dispatcher = Arc::clone(&dispatcher);
        readers.spawn(async move { dispatcher.on_uni(stream, permit).await });
        while readers.try_join_next().is_some() {}
    }
    // What has arrived before the end of the connection is still sorted.
    readers.join_all().await;
}

async fn accept_bi(dispatcher: Arc<Dispatcher>, streams: QueueSender<Bi>) {
    let mut readers = JoinSet::new();
    while let Some(permit) = streams.reserve().await
        && let Ok((send, receive)) = dispatcher.connection.accept_bi().await
    {
        let dispatcher = Arc::clone(&dispatcher);
        readers.spawn(async move { dispatcher.on_bi(send, receive, permit).await });
        while readers.try_join_next().is_some() {}
    }
    readers.join_all().await;
}

impl Dispatcher {
    /// Reads the type of a unidirectional stream (RFC 9114 section 6.2) and what belongs to HTTP/3.
    async fn on_uni(&self, mut stream: RecvStream, permit: Permit<Uni>) {
        let Ok(kind) = VarInt::read(&mut stream).await else { return };
        match StreamUni(kind) {
            StreamUni::WEBTRANSPORT => {
                if let Some(session) = self.read_session_id(&mut stream).await {
                    permit.send((session, stream));
                }
            }
            kind @ (StreamUni::CONTROL
            | StreamUni::QPACK_ENCODER
            | StreamUni::QPACK_DECODER) => {
                drop(permit);
                self.on_critical(kind, stream).await;
            }
            // Nobody has allowed a push, and clients make none (RFC 9114 section 4.6).
            StreamUni::PUSH if self.is_server => {
                self.close(codes::STREAM_CREATION_ERROR, "a push stream of a client");
            }
            StreamUni::PUSH => self.close(codes::ID_ERROR, "a push that was not allowed"),
            kind => {
                log::debug!("ignores a stream of type {:#x}", kind.0.into_inner());
                let _ = stream.stop(codes::STREAM_CREATION_ERROR);
            }
        }
    }

    /// Reads the first frame's type of a bidirectional stream (RFC 9114 section 6.1).
    async fn on_bi(&self, mut send: SendStream, mut receive: RecvStream, permit: Permit<Bi>) {
        let Ok(first_frame) = VarInt::read(&mut receive).await else {
            let _ = send.reset(codes::REQUEST_INCOMPLETE);
            return;
        };
        if Frame(first_frame) == Frame::WEBTRANSPORT {
            if let Some(session) = self.read_session_id(&mut receive).await {
                permit.send((session, send, receive));
            } else {
                let _ = send.reset(codes::REQUEST_INCOMPLETE);
            }
            return;
        }
        if !self.is_server {
            return self.close(codes::STREAM_CREATION_ERROR, "a request of a server");
        }
        let first = self.request.lock().unwrap_or_else(PoisonError::into_inner).take();
        let stream = match first {
            Some(request) => request.send(RequestStream { send, receive, first_frame }),
            None => Err(RequestStream { send, receive, first_frame }),
        };
        // One session for each connection, as SETTINGS say (draft-ietf-webtrans-http3 section 5.2).
        if let Err(stream) = stream {
            (send, receive) = (stream.send, stream.receive);
            let _ = send.reset(codes::REQUEST_REJECTED);
            let _ = receive.stop(codes::REQUEST_REJECTED);
        }
    }

    /// Reads the id of the session that a stream belongs to.
    async fn read_session_id(&self, stream: &mut RecvStream) -> Option<u64> {
        let id = VarInt::read(stream).await.ok()?.into_inner();
        if !id.is_multiple_of(4) {
            self.close(codes::ID_ERROR, "the session id is not one of a request");
            return None;
        }
        Some(id)
    }

    /// A stream that there is once and that stays open (RFC 9114 section 6.2.1, RFC 9204 section 4.2).
    async fn on_critical(&self, kind: StreamUni, mut stream: RecvStream) {
        let is_first = self
            .critical
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(kind.0.into_inner());
        if !is_first {
            return self.close(codes::STREAM_CREATION_ERROR, "a second stream of one kind");
        }
        if kind == StreamUni::CONTROL {
            self.on_control(&mut stream).await;
        } else {
            // Without a dynamic table nothing on them matters.
            discard(&mut stream).await;
        }
        // A peer that ends everything at once ends this first.
        let _ = tokio::time::timeout(LINGER, self.connection.closed()).await;
        self.close(
            codes::CLOSED_CRITICAL_STREAM,
            "the peer has closed a stream that has to stay",
        );
    }

    /// Reads the control stream until it ends, or breaks a rule.
    async fn on_control(&self, stream: &mut RecvStream) {
        let mut kind = Vec::new();
        StreamUni::CONTROL.encode(&mut kind);
        let mut settings = kind.as_slice().chain(&mut *stream).take(MAX_HANDSHAKE_BYTES);
        match Settings::read(&mut settings).await {
            Ok(settings) => {
                self.sessions.send_replace(Some(settings.supports_webtransport()));
            }
            Err(SettingsError::UnexpectedEnd | SettingsError::Io(_)) => {
                return self.close(codes::MISSING_SETTINGS, "no whole SETTINGS frame");
            }
            Err(SettingsError::UnexpectedFrame(_)) => {
                return self.close(codes::MISSING_SETTINGS, "the first frame is not SETTINGS");
            }
            Err(error) => return self.close(codes::SETTINGS_ERROR, &error.to_string()),
        }
        while let Ok(kind) = VarInt::read(stream).await
            && let Ok(len) = VarInt::read(stream).await
        {
            // Others are GOAWAY, which changes nothing for the session there is, or unknown.
            let kind = kind.into_inner();
            if ELSEWHERE.contains(&kind) || !self.is_server && kind == MAX_PUSH_ID {
                return self
                    .close(codes::FRAME_UNEXPECTED, "not a frame of the control stream");
            }
            let mut sink = tokio::io::sink();
            let mut payload = (&mut *stream).take(len.into_inner());
            if tokio::io::copy(&mut payload, &mut sink).await.is_err() {
                return;
            }
        }
    }

    /// Closes the connection for a rule of HTTP/3 that the peer has broken. Does nothing at its end.
    fn close(&self, code: u64, reason: &str) {
        self.connection.close(code, reason.as_bytes());
    }
}

/// Reads a stream until it ends.
pub(super) async fn discard(stream: &mut RecvStream) {
    // Fails when the stream is reset or the connection lost, which ends it, too.
    let _ = tokio::io::copy(stream, &mut tokio::io::sink()).await;
}

/// What is read of a stream now, of which nothing is expected any more; `None` if that is nothing yet.
pub(super) async fn end_of_stream(
    stream: &mut RecvStream,
) -> Option<Result<Option<Bytes>, ReadError>> {
    tokio::time::timeout(Duration::ZERO, stream.read_chunk(1)).await.ok()
}

/// Writes what HTTP/3 begins with on a stream of its own, which has to stay open (RFC 9114 section 6.2.1).
pub(super) async fn open_control(connection: &Connection) -> Result<SendStream, Error> {
    let mut settings = Settings::default();
    settings.enable_webtransport(1);
    let mut frame = Vec::new();
    settings.encode(&mut frame);
    let mut stream = connection.open_uni().await.map_err(end_of_connection)?;
    stream.write_all(&frame).await.map_err(write_error)?;
    Ok(stream)
}
