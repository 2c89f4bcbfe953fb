//! A server that writes its bytes by hand, at the other end of a client.

use tack_tokio::{CloseReason, Connection, ConnectionError, Endpoint, RecvStream, SendStream};
use tack_web_transport::Error;
use tack_web_transport::http3::http::StatusCode;
use tack_web_transport::http3::{self, ConnectRequest, ConnectResponse, Session};
use web_transport_trait::{Error as _, Session as _};

use super::by_hand::{GREASE, frame, settings};
use super::common::{certificate, patiently};
use super::{dial, http3_server, request};

struct Server {
    connection: Connection,
    /// The client, which waits for the session.
    client: tokio::task::JoinHandle<Result<Session, Error>>,
    _endpoints: [Endpoint; 2],
}

impl Server {
    async fn new() -> Self {
        let server = http3_server(&certificate());
        let ((connection, client), accepted) =
            tokio::join!(dial(server.local_addr()), server.accept());
        let offer = request().with_protocol("offered");
        let connecting = tokio::spawn(http3::connect(connection, offer));
        Self { connection: accepted.unwrap(), client: connecting, _endpoints: [server, client] }
    }

    async fn uni(&self, bytes: &[u8]) -> SendStream {
        let mut send = self.connection.open_uni().await.unwrap();
        send.write_all(bytes).await.unwrap();
        send
    }

    /// Reads the request, and answers with these bytes.
    async fn answer(&self, bytes: &[u8]) -> (SendStream, RecvStream) {
        let (mut send, mut receive) = self.connection.accept_bi().await.unwrap();
        let request = ConnectRequest::read(&mut receive).await.unwrap();
        assert_eq!(
            (request.url.path(), &request.protocols[..]),
            ("/room", &["offered".to_owned()][..])
        );
        send.write_all(bytes).await.unwrap();
        (send, receive)
    }

    /// Waits for the client to close the connection, and tells the code.
    async fn closed(&self) -> u64 {
        match self.connection.closed().await {
            ConnectionError::Closed(CloseReason::Peer { application: true, code, .. }) => code,
            error => panic!("{error}"),
        }
    }
}

fn response(status: StatusCode, protocol: Option<&str>) -> Vec<u8> {
    let mut response = ConnectResponse::new(status);
    response.protocol = protocol.map(str::to_owned);
    let mut bytes = Vec::new();
    response.encode(&mut bytes).unwrap();
    bytes
}

#[tokio::test]
async fn an_answer_may_follow_others_that_are_not_final() {
    patiently(async {
        let server = Server::new().await;
        let _control = server.uni(&settings()).await;
        let early = response(StatusCode::EARLY_HINTS, None);
        let last = response(StatusCode::OK, Some("offered"));
        let bytes = [frame(GREASE, b"?"), early.clone(), early, last].concat();
        let (send, _receive) = server.answer(&bytes).await;
        let session = server.client.await.unwrap().unwrap();
        assert_eq!(session.protocol(), Some("offered"));
        // A server that goes away without a capsule.
        drop(send);
        assert_eq!(session.closed().await.session_error(), Some((0, String::new())));
    })
    .await;
}

#[tokio::test]
async fn an_answer_that_opens_no_session_ends_the_connection() {
    patiently(async {
        let server = Server::new().await;
        let _control = server.uni(&settings()).await;
        let _streams = server.answer(&response(StatusCode::OK, Some("other"))).await;
        let closed = server.closed().await;
        let error = server.client.await.unwrap().unwrap_err();
        assert!(
            matches!(&error, Error::ProtocolNotOffered(name) if name == "other"),
            "{error}"
        );
        assert_eq!(closed, 0x100);

        for bytes in [frame(0, b"data"), frame(1, &[0xff; 9]), frame(1, &vec![0; 20_000])] {
            let server = Server::new().await;
            let _control = server.uni(&settings()).await;
            let _streams = server.answer(&bytes).await;
            server.closed().await;
            let error = server.client.await.unwrap().unwrap_err();
            assert!(matches!(error, Error::Connect(_)), "{error}");
        }

        let server = Server::new().await;
        let _control = server.uni(&settings()).await;
        let (mut send, _receive) = server.answer(b"").await;
        send.reset(0x10b).unwrap();
        let error = server.client.await.unwrap().unwrap_err();
        assert!(matches!(error, Error::Http3Stream(0x10b)), "{error}");
    })
    .await;
}

#[tokio::test]
async fn a_server_that_breaks_a_rule_of_http3_is_told_its_code() {
    patiently(async {
        let server = Server::new().await;
        let _push = server.uni(&[1, 0]).await;
        assert_eq!(server.closed().await, 0x108);

        let server = Server::new().await;
        let (mut send, _receive) = server.connection.open_bi().await.unwrap();
        send.write_all(&frame(1, b"a request")).await.unwrap();
        assert_eq!(server.closed().await, 0x103);
        assert!(matches!(server.client.await.unwrap(), Err(Error::Connection(_))));

        let server = Server::new().await;
        let _control = server.uni(&[&[0][..], &frame(4, &[8, 1])].concat()).await;
        assert_eq!(server.closed().await, 0x109);
        assert!(matches!(server.client.await.unwrap(), Err(Error::Unsupported)));
    })
    .await;
}
