//! quinn, a stock QUIC stack, at the other end.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test may fail anywhere"
)]
#![allow(clippy::disallowed_methods, reason = "a simulation begins at some time")]
#![allow(missing_docs, reason = "nothing here is public")]

mod common;

use std::sync::Arc;

use common::{
    ALPN, Certificate, certificate, client_config, localhost, patiently, pattern,
    server_config_with,
};
use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use tack_tokio::{CloseReason, ConnectionError, Endpoint, EndpointConfig};

const LEN: usize = 1_000_000;

fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

fn quinn_client(certificate: &Certificate) -> quinn::ClientConfig {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from(certificate.cert.der().to_vec())).unwrap();
    let mut tls = rustls::ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    tls.alpn_protocols = vec![ALPN.to_vec()];
    quinn::ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls).unwrap()))
}

fn quinn_server(certificate: &Certificate) -> quinn::ServerConfig {
    let chain = vec![CertificateDer::from(certificate.cert.der().to_vec())];
    let key = PrivatePkcs8KeyDer::from(certificate.signing_key.serialize_der()).into();
    let mut tls = rustls::ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .unwrap();
    tls.alpn_protocols = vec![ALPN.to_vec()];
    quinn::ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(tls).unwrap()))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_of_quinn_is_served() {
    patiently(async {
        let certificate = certificate();
        let config = server_config_with(&certificate);
        let server = Endpoint::server(localhost(), config, EndpointConfig::default()).unwrap();
        let to = server.local_addr();
        let client = tokio::spawn(async move {
            let endpoint = quinn::Endpoint::client(localhost()).unwrap();
            let connecting = endpoint.connect_with(quinn_client(&certificate), to, "localhost");
            let connection = connecting.unwrap().await.unwrap();
            // More than the server lets open at once, of which it keeps none.
            for n in 0..50_u64 {
                let (mut send, mut receive) = connection.open_bi().await.unwrap();
                let data = pattern(LEN / 50, n);
                send.write_all(&data).await.unwrap();
                send.finish().unwrap();
                assert!(receive.read_to_end(LEN).await.unwrap() == data, "stream {n}");
            }
            connection.send_datagram(b"datagram".to_vec().into()).unwrap();
            assert_eq!(connection.read_datagram().await.unwrap(), b"datagram"[..]);
            connection.close(6_u32.into(), b"done");
            endpoint.wait_idle().await;
        });
        let connection = server.accept().await.unwrap();
        assert!(!connection.is_tack());
        for _ in 0..50 {
            let (mut send, mut receive) = connection.accept_bi().await.unwrap();
            tokio::io::copy(&mut receive, &mut send).await.unwrap();
            send.finish().unwrap();
        }
        let datagram = connection.read_datagram().await.unwrap();
        connection.send_datagram(&datagram).unwrap();
        let ConnectionError::Closed(reason) = connection.closed().await else { panic!() };
        let told = CloseReason::Peer { application: true, code: 6, reason: b"done".to_vec() };
        assert_eq!(reason, told);
        client.await.unwrap();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_of_quinn_is_used() {
    patiently(async {
        let endpoint =
            quinn::Endpoint::server(quinn_server(&certificate()), localhost()).unwrap();
        let to = endpoint.local_addr().unwrap();
        let server = tokio::spawn(async move {
            let connection = endpoint.accept().await.unwrap().await.unwrap();
            let (mut send, mut receive) = connection.accept_bi().await.unwrap();
            let data = receive.read_to_end(LEN).await.unwrap();
            send.write_all(&data).await.unwrap();
            send.finish().unwrap();
            let mut stopped = connection.accept_uni().await.unwrap();
            stopped.stop(12_u32.into()).unwrap();
            connection.closed().await
        });
        let client = Endpoint::client(localhost(), EndpointConfig::default()).unwrap();
        let connecting = client.connect(to, Some("localhost"), &mut client_config()).unwrap();
        let connection = connecting.await.unwrap();
        let (mut send, mut receive) = connection.open_bi().await.unwrap();
        let data = pattern(LEN, 1);
        send.write_all(&data).await.unwrap();
        send.finish().unwrap();
        assert!(receive.read_to_end(LEN).await.unwrap() == data);
        assert_eq!(send.stopped().await.unwrap(), None);
        let mut unwanted = connection.open_uni().await.unwrap();
        unwanted.write_all(b"?").await.unwrap();
        assert_eq!(unwanted.stopped().await.unwrap(), Some(12));
        connection.close(3, b"bye");
        client.wait_idle().await;
        let reason = server.await.unwrap();
        let quinn::ConnectionError::ApplicationClosed(close) = reason else {
            panic!("{reason}")
        };
        assert_eq!((close.error_code.into_inner(), &close.reason[..]), (3, &b"bye"[..]));
    })
    .await;
}
