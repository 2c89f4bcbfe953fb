//! web-transport-quinn at the other end.

use std::sync::Arc;

use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use tack_web_transport::http3::{self, Server};
use web_transport_quinn::http::StatusCode;
use web_transport_trait::{Error as _, RecvStream as _, SendStream as _, Session as _};

use super::common::{Certificate, certificate, localhost, patiently};
use super::sessions::{echo, exercise};
use super::{URL, dial, http3_server, request, requested};

fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// A connection of quinn's to a server.
async fn quinn_dial(
    certificate: &Certificate,
    server: std::net::SocketAddr,
) -> (quinn::Connection, quinn::Endpoint) {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from(certificate.cert.der().to_vec())).unwrap();
    let mut tls = rustls::ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    tls.alpn_protocols = vec![http3::ALPN.to_vec()];
    let config = quinn::ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls).unwrap()));
    let endpoint = quinn::Endpoint::client(localhost()).unwrap();
    let connecting = endpoint.connect_with(config, server, "localhost").unwrap();
    (connecting.await.unwrap(), endpoint)
}

fn quinn_server(certificate: &Certificate) -> quinn::Endpoint {
    let chain = vec![CertificateDer::from(certificate.cert.der().to_vec())];
    let key = PrivatePkcs8KeyDer::from(certificate.signing_key.serialize_der()).into();
    let mut tls = rustls::ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .unwrap();
    tls.alpn_protocols = vec![http3::ALPN.to_vec()];
    let tls = Arc::new(QuicServerConfig::try_from(tls).unwrap());
    let config = quinn::ServerConfig::with_crypto(tls);
    quinn::Endpoint::server(config, localhost()).unwrap()
}

fn quinn_request() -> web_transport_quinn::proto::ConnectRequest {
    web_transport_quinn::proto::ConnectRequest::new(http3::Url::parse(URL).unwrap())
        .with_protocol("moq-test")
}

#[tokio::test]
async fn a_client_of_web_transport_quinn_is_served() {
    patiently(async {
        let certificate = certificate();
        let mut server = Server::new(http3_server(&certificate));
        let (connection, endpoint) =
            quinn_dial(&certificate, server.endpoint().local_addr()).await;
        let mut echoing = None;
        let answer = async |request: http3::Request| {
            assert_eq!(request.url().path(), "/room");
            let session = request.accept_with_protocol("moq-test").await.unwrap();
            echoing = Some(tokio::spawn(echo(session)));
        };
        let connecting = web_transport_quinn::Session::connect(connection, quinn_request());
        let client = requested(&mut server, connecting, answer).await.unwrap();
        assert_eq!(client.protocol(), Some("moq-test"));
        exercise(&client, 300_000).await;
        let told = echoing.unwrap().await.unwrap().session_error();
        assert_eq!(told, Some((17, "that is all".to_owned())));
        endpoint.wait_idle().await;
    })
    .await;
}

#[tokio::test]
async fn a_server_of_web_transport_quinn_serves() {
    patiently(async {
        let certificate = certificate();
        let endpoint = quinn_server(&certificate);
        let to = endpoint.local_addr().unwrap();
        let mut server = web_transport_quinn::Server::new(endpoint);
        let serving = tokio::spawn(async move {
            let request = server.accept().await.unwrap();
            assert_eq!(request.url.query(), Some("token=7"));
            let response = web_transport_quinn::proto::ConnectResponse::OK;
            let response = response.with_protocol("moq-test");
            echo(request.respond(response).await.unwrap()).await
        });
        let (connection, endpoint) = dial(to).await;
        let client = http3::connect(connection, request().with_protocol("moq-test")).await;
        let client = client.unwrap();
        assert_eq!(client.protocol(), Some("moq-test"));
        exercise(&client, 300_000).await;
        let told = serving.await.unwrap().session_error();
        assert_eq!(told, Some((17, "that is all".to_owned())));
        endpoint.wait_idle().await;
    })
    .await;
}

#[tokio::test]
async fn web_transport_quinn_closes_refuses_and_is_refused() {
    patiently(async {
        let certificate = certificate();
        // It refuses.
        let endpoint = quinn_server(&certificate);
        let to = endpoint.local_addr().unwrap();
        let mut refusing = web_transport_quinn::Server::new(endpoint);
        let refuse = async {
            let request = refusing.accept().await.unwrap();
            // It does not wait for the delivery: dropping the connection would lose the answer.
            let connection = request.conn().clone();
            request.reject(StatusCode::FORBIDDEN).await.unwrap();
            connection.closed().await;
        };
        let connect = async {
            let (connection, _endpoint) = dial(to).await;
            http3::connect(connection, request()).await
        };
        let (refused, ()) = tokio::join!(connect, refuse);
        let error = refused.unwrap_err().to_string();
        assert!(error.contains("403"), "{error}");

        // It is refused.
        let mut server = Server::new(http3_server(&certificate));
        let to = server.endpoint().local_addr();
        let (connection, _endpoint) = quinn_dial(&certificate, to).await;
        let connecting = web_transport_quinn::Session::connect(connection, quinn_request());
        let answer = async |request: http3::Request| {
            request.reject(StatusCode::NOT_FOUND).await.unwrap();
        };
        let refused = requested(&mut server, connecting, answer).await;
        let error = format!("{:?}", refused.err().unwrap());
        assert!(error.contains("404"), "{error}");

        // It closes, and codes of streams come from it.
        let (connection, _endpoint) = quinn_dial(&certificate, to).await;
        let connecting = web_transport_quinn::Session::connect(connection, quinn_request());
        let mut session = None;
        let answer =
            async |request: http3::Request| session = Some(request.accept().await.unwrap());
        let client = requested(&mut server, connecting, answer).await.unwrap();
        let session = session.unwrap();
        let mut send = client.open_uni().await.unwrap();
        send.write_all(b"data").await.unwrap();
        let mut receive = session.accept_uni().await.unwrap();
        send.reset(40).unwrap();
        assert_eq!(receive.closed().await.unwrap_err().stream_error(), Some(40));
        let mut send = session.open_uni().await.unwrap();
        send.write_all(b"data").await.unwrap();
        client.accept_uni().await.unwrap().stop(41).unwrap();
        assert_eq!(send.closed().await.unwrap_err().stream_error(), Some(41));
        client.close(1000, b"bye");
        let told = session.closed().await.session_error();
        assert_eq!(told, Some((1000, "bye".to_owned())));
    })
    .await;
}
