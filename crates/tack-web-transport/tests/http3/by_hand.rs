//! A client that writes its bytes by hand: what has to be ignored, what is refused, and what is bounded.

use std::time::Duration;

use tack_tokio::{
    CloseReason, Connection, ConnectionError, Endpoint, ReadError, RecvStream, SendStream,
    tacklib,
};
use tack_web_transport::Error;
use tack_web_transport::http3::{self, ConnectResponse, Server, Session};
use tokio::io::AsyncReadExt as _;
use web_transport_proto::{Capsule, ConnectError, Settings, VarInt};
use web_transport_trait::{Error as _, RecvStream as _, SendStream as _, Session as _};

use super::common::{STREAMS, certificate, patiently};
use super::{dial_with, http3_client_config, http3_server, request};

/// A reserved type of streams, frames and settings (RFC 9114 section 7.2.8).
pub const GREASE: u64 = 0x1f * 1000 + 0x21;
const GREASE_CAPSULE: u64 = 0x29 * 1000 + 0x17;
/// draft-ietf-webtrans-http3 section 9.5.
const SESSION_GONE: u64 = 0x170d_7b68;

fn varint(value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    VarInt::from_u64(value).unwrap().encode(&mut bytes);
    bytes
}

pub fn frame(kind: u64, payload: &[u8]) -> Vec<u8> {
    [varint(kind), varint(payload.len() as u64), payload.to_vec()].concat()
}

/// The type of the control stream, and SETTINGS.
pub fn settings() -> Vec<u8> {
    let mut settings = Settings::default();
    settings.enable_webtransport(1);
    let mut bytes = Vec::new();
    settings.encode(&mut bytes);
    bytes
}

fn headers() -> Vec<u8> {
    let mut frame = Vec::new();
    request().encode(&mut frame).unwrap();
    frame
}

struct Client {
    connection: Connection,
    server: Server,
    _endpoint: Endpoint,
}

impl Client {
    async fn new() -> Self {
        Self::with(&mut http3_client_config()).await
    }

    async fn with(config: &mut tacklib::Config) -> Self {
        let server = Server::new(http3_server(&certificate()));
        let (connection, endpoint) = dial_with(server.endpoint().local_addr(), config).await;
        Self { connection, server, _endpoint: endpoint }
    }

    async fn uni(&self, bytes: &[u8]) -> SendStream {
        let mut send = self.connection.open_uni().await.unwrap();
        send.write_all(bytes).await.unwrap();
        send
    }

    async fn bi(&self, bytes: &[u8]) -> (SendStream, RecvStream) {
        let (mut send, receive) = self.connection.open_bi().await.unwrap();
        send.write_all(bytes).await.unwrap();
        (send, receive)
    }

    /// Opens a session with the bytes of the control stream and of the request.
    async fn open(&mut self, control: &[u8], request: &[u8]) -> Opened {
        let control = self.uni(control).await;
        let connect = self.bi(request).await;
        let session = self.server.accept().await.unwrap().accept().await.unwrap();
        Opened { session, connect, _control: control }
    }

    /// Waits for the server to close the connection, and tells the code.
    async fn closed(&mut self) -> u64 {
        let closed = tokio::select! {
            closed = self.connection.closed() => closed,
            request = self.server.accept() => panic!("{request:?}"),
        };
        match closed {
            ConnectionError::Closed(CloseReason::Peer { application: true, code, .. }) => code,
            error => panic!("{error}"),
        }
    }
}

struct Opened {
    session: Session,
    connect: (SendStream, RecvStream),
    _control: SendStream,
}

#[tokio::test]
async fn reserved_and_unknown_streams_frames_settings_and_capsules_are_ignored() {
    patiently(async {
        let mut client = Client::new().await;
        // Streams that come before the control stream, of which one stays without a type.
        let _typeless = client.connection.open_uni().await.unwrap();
        let _typeless = client.uni(&[0xc0]).await;
        let _grease = client.uni(&[varint(GREASE), b"anything".to_vec()].concat()).await;
        let _qpack = [client.uni(&[2]).await, client.uni(&[3]).await];
        let grease = frame(GREASE, &[7; 1000]);
        let (kind, rest) = (settings()[..1].to_vec(), settings()[1..].to_vec());
        // After SETTINGS come a PRIORITY_UPDATE, a GOAWAY, a MAX_PUSH_ID and a frame that nobody knows.
        let control = [
            kind,
            grease.clone(),
            rest,
            frame(0xf_0700, b"\0u=1"),
            frame(7, &[0]),
            frame(0xd, &[3]),
            frame(0x1234, &vec![1; 100_000]),
        ];
        let connect = [grease.clone(), headers()].concat();
        let opened = client.open(&control.concat(), &connect).await;
        let Opened { session, connect: (mut send, mut receive), _control } = opened;

        // The id of the session in the longest form; and a stream of the server's.
        let header = [vec![0x40, 0x54, 0xc0], vec![0; 7], b"data".to_vec()].concat();
        client.uni(&header).await.finish().unwrap();
        let mut stream = session.accept_uni().await.unwrap();
        assert_eq!(stream.read_all().await.unwrap(), b"data"[..]);
        client.connection.send_datagram(&[1, b'x']).unwrap();
        client.connection.send_datagram(&[0, b'y']).unwrap();
        assert_eq!(session.recv_datagram().await.unwrap(), b"y"[..]);

        let mut close = Vec::new();
        Capsule::CloseWebTransportSession { code: 3, reason: "bye".into() }.encode(&mut close);
        let capsules = [frame(GREASE_CAPSULE, b"?"), frame(0x9999, b"??"), close].concat();
        let (one, two) = capsules.split_at(capsules.len() - 3);
        let end = [grease, frame(0, one), frame(0, b""), frame(0, two)].concat();
        send.write_all(&end).await.unwrap();
        assert_eq!(session.closed().await.session_error(), Some((3, "bye".to_owned())));
        // The server answers, ends its half, and closes the connection at last.
        assert!(ConnectResponse::read(&mut receive).await.is_ok());
        assert_eq!(receive.read_chunk(1).await.unwrap(), None);
        client.connection.close(0x100, b"");
    })
    .await;
}

#[tokio::test]
async fn the_id_of_a_session_is_that_of_its_request() {
    patiently(async {
        let mut client = Client::new().await;
        // Nothing comes of the stream 0; its id is that of no session.
        let _first = client.connection.open_bi().await.unwrap();
        let opened = client.open(&settings(), &headers()).await;
        let session = &opened.session;
        assert_eq!(session.id(), 4);
        client.uni(&[0x40, 0x54, 4, b'x']).await.finish().unwrap();
        let mut stream = session.accept_uni().await.unwrap();
        assert_eq!(stream.read_all().await.unwrap(), b"x"[..]);

        // DATAGRAMs have a quarter of it (RFC 9297 section 2.1).
        client.connection.send_datagram(&[4, b'4']).unwrap();
        client.connection.send_datagram(&[1, b'1']).unwrap();
        assert_eq!(session.recv_datagram().await.unwrap(), b"1"[..]);
        session.send_datagram(b"back".to_vec().into()).unwrap();
        assert_eq!(client.connection.read_datagram().await.unwrap(), b"\x01back"[..]);

        let mut send = session.open_uni().await.unwrap();
        send.write_all(b"y").await.unwrap();
        // The first one is the server's control stream.
        let _control = client.connection.accept_uni().await.unwrap();
        let mut receive = client.connection.accept_uni().await.unwrap();
        let mut start = [0; 4];
        receive.read_exact(&mut start).await.unwrap();
        assert_eq!(start, [0x40, 0x54, 4, b'y']);
    })
    .await;
}

#[tokio::test]
async fn a_connection_that_breaks_a_rule_of_http3_is_closed_with_its_code() {
    let too_large = [vec![0, 4], varint(1 << 20)].concat();
    let endless: Vec<u8> = frame(GREASE, &vec![0; 60_000]).repeat(3);
    let cases: &[(&str, Vec<u8>, u64)] = &[
        ("DATA before SETTINGS", [vec![0], frame(0, b"x")].concat(), 0x10a),
        ("large SETTINGS", too_large, 0x109),
        ("half a setting", [vec![0], frame(4, &[1, 0x40])].concat(), 0x109),
        ("too much before SETTINGS", [vec![0], endless].concat(), 0x10a),
        ("HEADERS after SETTINGS", [settings(), headers()].concat(), 0x105),
        ("SETTINGS twice", [settings(), frame(4, &[])].concat(), 0x105),
        ("PUSH_PROMISE after SETTINGS", [settings(), frame(5, &[0, 0, 0])].concat(), 0x105),
        ("PRIORITY of HTTP/2", [settings(), frame(2, &[0; 5])].concat(), 0x105),
        ("WINDOW_UPDATE of HTTP/2", [settings(), frame(8, &[0; 4])].concat(), 0x105),
        ("a push of a client", vec![1, 0], 0x103),
        ("a stream of no session", vec![0x40, 0x54, 3], 0x108),
        ("no WebTransport", [vec![0], frame(4, &[])].concat(), 0x109),
    ];
    for (what, bytes, code) in cases {
        patiently(async {
            let mut client = Client::new().await;
            let _stream = client.uni(bytes).await;
            assert_eq!(client.closed().await, *code, "{what}");
        })
        .await;
    }
}

#[tokio::test]
async fn streams_that_there_is_one_of_stay_and_come_once() {
    patiently(async {
        for kind in [2, 3] {
            let mut client = Client::new().await;
            let _streams = [client.uni(&[kind]).await, client.uni(&[kind]).await];
            assert_eq!(client.closed().await, 0x103);
        }
        let mut client = Client::new().await;
        let _streams = [client.uni(&settings()).await, client.uni(&settings()).await];
        assert_eq!(client.closed().await, 0x103);

        let mut client = Client::new().await;
        client.uni(&settings()).await.finish().unwrap();
        assert_eq!(client.closed().await, 0x104);
    })
    .await;
}

#[tokio::test]
async fn a_datagram_without_the_id_of_a_stream_closes_the_connection() {
    patiently(async {
        for datagram in [&[0x80][..], &[0xff; 8]] {
            let mut client = Client::new().await;
            let opened = client.open(&settings(), &headers()).await;
            client.connection.send_datagram(datagram).unwrap();
            let (received, code) =
                tokio::join!(opened.session.recv_datagram(), client.connection.closed());
            assert!(code.to_string().contains("0x33"), "{code}");
            assert!(received.is_err());
        }
    })
    .await;
}

/// HEADERS with fields that are spelled out (RFC 9204 section 4.5.6), and with the path "/", which is a field of
/// the static table.
fn literal_headers(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut section = vec![0, 0];
    for (name, value) in fields {
        assert!(name.len() >= 7 && name.len() < 134 && value.len() < 127);
        section.extend([0x27, name.len() as u8 - 7]);
        section.extend(name.bytes());
        section.push(value.len() as u8);
        section.extend(value.bytes());
    }
    section.push(0xc1);
    frame(1, &section)
}

#[tokio::test]
async fn requests_for_no_session_are_answered_or_reset() {
    let get = [
        (":method", "GET"),
        (":scheme", "https"),
        (":authority", "localhost"),
        (":protocol", "webtransport"),
    ];
    let mut other = get;
    other[0].1 = "CONNECT";
    other[3].1 = "connect-udp";
    for (request, status) in [
        (literal_headers(&get), Some(501)),
        (literal_headers(&other), Some(501)),
        ([varint(1), varint(20_000), vec![0; 20_000]].concat(), Some(431)),
        (frame(0, b"data first"), None),
        (frame(1, &[0xff; 100]), None),
        (frame(GREASE, &vec![0; 60_000]).repeat(3), None),
    ] {
        patiently(async {
            let mut client = Client::new().await;
            let _control = client.uni(&settings()).await;
            let (_send, mut receive) = client.bi(&request).await;
            let answer = async {
                tokio::select! {
                    response = ConnectResponse::read(&mut receive) => response,
                    request = client.server.accept() => panic!("{request:?}"),
                }
            };
            match (answer.await, status) {
                (Err(ConnectError::WrongStatus(Some(told))), Some(status)) => {
                    assert_eq!(told.as_u16(), status);
                }
                (Err(ConnectError::UnexpectedEnd), None) => {
                    let error = receive.read_chunk(1).await.unwrap_err();
                    // The connection ends after the reset, and may do so first.
                    assert!(
                        matches!(error, ReadError::Reset(0x10e) | ReadError::ConnectionLost(_)),
                        "{error}"
                    );
                }
                (answer, _) => panic!("{answer:?} instead of {status:?}"),
            }
        })
        .await;
    }
}

#[tokio::test]
async fn a_second_session_and_streams_of_one_are_refused() {
    patiently(async {
        let mut client = Client::new().await;
        let opened = client.open(&settings(), &headers()).await;
        let (send, mut receive) = client.bi(&headers()).await;
        assert_eq!(send.stopped().await.unwrap(), Some(0x10b));
        let error = receive.read_chunk(1).await.unwrap_err();
        assert!(matches!(error, ReadError::Reset(0x10b)), "{error}");

        let uni = client.uni(&[0x40, 0x54, 4, b'x']).await;
        let (send, _receive) = client.bi(&[0x40, 0x41, 4, b'x']).await;
        let own = async {
            let (_uni, _bi) =
                tokio::join!(client.uni(&[0x40, 0x54, 0]), client.bi(&[0x40, 0x41, 0]));
            tokio::try_join!(opened.session.accept_uni(), opened.session.accept_bi())
        };
        own.await.unwrap();
        assert_eq!(uni.stopped().await.unwrap(), Some(0x3994_bd84));
        assert_eq!(send.stopped().await.unwrap(), Some(0x3994_bd84));
    })
    .await;
}

#[tokio::test]
async fn streams_that_end_with_their_header_are_bounded_until_they_are_accepted() {
    /// More than the session keeps, which is 128, and than the transport lets be open.
    const MANY: usize = 400;
    patiently(async {
        let mut client = Client::new().await;
        let opened = client.open(&settings(), &headers()).await;
        let mut sent = 0;
        while sent < MANY
            && let Ok(stream) =
                tokio::time::timeout(Duration::from_millis(300), client.connection.open_uni())
                    .await
        {
            let mut stream = stream.unwrap();
            stream.write_all(&[0x40, 0x54, 0]).await.unwrap();
            stream.finish().unwrap();
            sent += 1;
        }
        assert!(sent <= 128 + 2 * STREAMS as usize, "{sent} streams wait");
        for _ in 0..sent {
            let mut stream = opened.session.accept_uni().await.unwrap();
            assert!(stream.read_all().await.unwrap().is_empty());
        }
        // There is room for more.
        client.uni(&[0x40, 0x54, 0, b'x']).await.finish().unwrap();
        let mut stream = opened.session.accept_uni().await.unwrap();
        assert_eq!(stream.read_all().await.unwrap(), b"x"[..]);
        drop(opened.connect);
    })
    .await;
}

#[tokio::test]
async fn the_end_of_the_request_without_a_capsule_is_a_close_with_code_zero() {
    patiently(async {
        let mut client = Client::new().await;
        let mut opened = client.open(&settings(), &headers()).await;
        opened.connect.0.finish().unwrap();
        assert_eq!(opened.session.closed().await.session_error(), Some((0, String::new())));

        let mut client = Client::new().await;
        let mut opened = client.open(&settings(), &headers()).await;
        opened.connect.0.reset(0x10c).unwrap();
        let error = opened.session.closed().await;
        assert_eq!(error.session_error(), None, "{error}");
        assert!(error.to_string().contains("0x10c"), "{error}");

        // The other half alone.
        let mut client = Client::new().await;
        let mut opened = client.open(&settings(), &headers()).await;
        opened.connect.1.stop(0x10c).unwrap();
        let error = opened.session.closed().await;
        assert!(error.to_string().contains("0x10c"), "{error}");

        // A capsule larger than any.
        let mut client = Client::new().await;
        let mut opened = client.open(&settings(), &headers()).await;
        let capsule = frame(0, &[varint(0x2843), varint(1 << 20)].concat());
        opened.connect.0.write_all(&capsule).await.unwrap();
        assert_eq!(opened.session.closed().await.session_error(), None);
        let closed = client.connection.closed().await;
        assert!(closed.to_string().contains("0x10e"), "{closed}");
    })
    .await;
}

#[tokio::test]
async fn a_stream_of_the_request_that_breaks_a_rule_closes_the_connection_with_its_code() {
    let cases = [
        ("SETTINGS", frame(4, &[]), 0x105),
        ("GOAWAY", frame(7, &[0]), 0x105),
        ("the end within a capsule", frame(0, &[varint(0x2843), vec![9]].concat()), 0x10e),
    ];
    for (what, bytes, code) in cases {
        patiently(async {
            let mut client = Client::new().await;
            let mut opened = client.open(&settings(), &headers()).await;
            opened.connect.0.write_all(&bytes).await.unwrap();
            opened.connect.0.finish().unwrap();
            assert_eq!(opened.session.closed().await.session_error(), None, "{what}");
            assert_eq!(client.closed().await, code, "{what}");
        })
        .await;
    }
}

#[tokio::test]
async fn long_frames_and_capsules_that_nobody_knows_do_not_end_the_session() {
    patiently(async {
        let mut client = Client::new().await;
        let mut opened = client.open(&settings(), &headers()).await;
        let unknown = [varint(GREASE_CAPSULE), varint(200_000), vec![7; 200_000]].concat();
        let bytes = [frame(GREASE, &vec![7; 100_000]), frame(0, &unknown)].concat();
        opened.connect.0.write_all(&bytes).await.unwrap();
        opened.connect.0.finish().unwrap();
        assert_eq!(opened.session.closed().await.session_error(), Some((0, String::new())));
    })
    .await;
}

#[tokio::test]
async fn a_client_without_a_window_does_not_hold_up_the_answer_for_ever() {
    for accepts in [true, false] {
        patiently(async {
            let mut config = http3_client_config();
            config.set_initial_max_stream_data_bidi_local(0);
            let mut client = Client::with(&mut config).await;
            let _control = client.uni(&settings()).await;
            let _connect = client.bi(&headers()).await;
            let request = client.server.accept().await.unwrap();
            // Ten seconds pass at once.
            tokio::time::pause();
            let answered = if accepts {
                request.accept().await.map(drop)
            } else {
                request.reject(http3::http::StatusCode::NOT_FOUND).await
            };
            tokio::time::resume();
            assert!(matches!(answered, Err(Error::HandshakeTimeout)), "{answered:?}");
        })
        .await;
    }
}

#[tokio::test]
async fn a_capsule_with_a_short_close_ends_the_connection() {
    patiently(async {
        let short = frame(0, &[varint(0x2843), varint(3), vec![0; 3]].concat());
        // Whatever follows does not make it whole.
        for more in [0, 3] {
            let mut client = Client::new().await;
            let mut opened = client.open(&settings(), &headers()).await;
            let bytes = [short.clone(), frame(0, &[0; 1000]).repeat(more)].concat();
            opened.connect.0.write_all(&bytes).await.unwrap();
            assert_eq!(opened.session.closed().await.session_error(), None);
            assert_eq!(client.closed().await, 0x10e);
        }
    })
    .await;
}

#[tokio::test]
async fn streams_that_nobody_has_accepted_go_with_the_session() {
    patiently(async {
        let mut client = Client::new().await;
        let Opened { session, connect: _connect, _control } =
            client.open(&settings(), &headers()).await;
        let (send, mut receive) = client.bi(&[0x40, 0x41, 0, b'?']).await;
        // One that comes later and is accepted: the first one waits then.
        let _accepted = client.uni(&[0x40, 0x54, 0]).await;
        let uni = client.uni(&[0x40, 0x54, 0, b'?']).await;
        drop(session.accept_uni().await.unwrap());
        drop(session);
        let error = receive.read_chunk(1).await.unwrap_err();
        assert!(matches!(error, ReadError::Reset(SESSION_GONE)), "{error}");
        assert_eq!(send.stopped().await.unwrap(), Some(SESSION_GONE));
        assert_eq!(uni.stopped().await.unwrap(), Some(SESSION_GONE));
    })
    .await;
}

#[tokio::test]
async fn a_stream_that_ends_within_its_header_gets_no_empty_answer() {
    patiently(async {
        let mut client = Client::new().await;
        let _opened = client.open(&settings(), &headers()).await;
        for header in [&[][..], &[0x40], &[0x40, 0x41], &[0x40, 0x41, 0x40]] {
            let (mut send, mut receive) = client.bi(header).await;
            send.finish().unwrap();
            let error = receive.read_chunk(1).await.unwrap_err();
            assert!(matches!(error, ReadError::Reset(0x10d)), "{error}");
        }
    })
    .await;
}

#[tokio::test]
async fn the_capsule_of_a_close_carries_at_most_1024_bytes_of_the_reason() {
    patiently(async {
        let mut client = Client::new().await;
        let Opened { session, connect: (mut send, mut receive), _control } =
            client.open(&settings(), &headers()).await;
        session.close(7, &"€".repeat(400));
        assert!(ConnectResponse::read(&mut receive).await.is_ok());
        let mut capsules = web_transport_proto::Http3CapsuleReader::new(&mut receive);
        let capsule = capsules.read().await.unwrap();
        let reason = "€".repeat(341);
        assert_eq!(capsule, Some(Capsule::CloseWebTransportSession { code: 7, reason }));
        assert!(capsules.read().await.unwrap().is_none(), "nothing follows it");
        send.finish().unwrap();
        client.connection.closed().await;
    })
    .await;
}

#[tokio::test]
async fn a_peer_may_close_the_connection_alone() {
    patiently(async {
        // The code 0x1e of an application (draft-ietf-webtrans-http3 section 4.4).
        for (code, told) in
            [(0x52e4_a40f_a8db + 0x1f, Some((0x1e, "why".to_owned()))), (7, None)]
        {
            let mut client = Client::new().await;
            let opened = client.open(&settings(), &headers()).await;
            client.connection.close(code, b"why");
            assert_eq!(opened.session.closed().await.session_error(), told);
        }
    })
    .await;
}
