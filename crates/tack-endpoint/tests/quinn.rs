//! Our endpoint and quinn understand each other. quinn announces `min_ack_delay`.

#![allow(clippy::disallowed_methods, reason = "tests bound how long they may take")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail anywhere")]
#![allow(clippy::large_stack_arrays, reason = "buffers of the largest datagram")]
#![allow(missing_docs, reason = "nothing here is public")]

mod common;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use common::{App, Certificate, PATIENCE, pattern};
use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use tack_endpoint::EndpointConfig;

const LEN: usize = 16 << 20;

fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// Takes any certificate: what is tested is not TLS.
#[derive(Debug)]
struct AnyCertificate;

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _dss: &rustls::DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Err(rustls::Error::General("QUIC has no TLS 1.2".to_owned()))
    }

    fn verify_tls13_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _dss: &rustls::DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<rustls::SignatureScheme> {
        provider().signature_verification_algorithms.supported_schemes()
    }
}

fn client_config() -> quinn::ClientConfig {
    let mut tls = rustls::ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AnyCertificate))
        .with_no_client_auth();
    tls.alpn_protocols = vec![common::ALPN.to_vec()];
    quinn::ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls).unwrap()))
}

fn server_config(certificate: &Certificate) -> quinn::ServerConfig {
    let chain = vec![CertificateDer::from(certificate.chain_der.clone())];
    let key = PrivatePkcs8KeyDer::from(certificate.key_der.clone()).into();
    let mut tls = rustls::ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .unwrap();
    tls.alpn_protocols = vec![common::ALPN.to_vec()];
    quinn::ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(tls).unwrap()))
}

/// Runs quinn on a thread of its own while ours runs on this one.
fn on_a_runtime<T: Send + 'static>(
    task: impl Future<Output = T> + Send + 'static,
) -> std::thread::JoinHandle<T> {
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async { tokio::time::timeout(PATIENCE, task).await.unwrap() })
    })
}

fn run_alone(app: &mut App, mut done: impl FnMut(&App) -> bool) {
    let start = Instant::now();
    while !done(app) {
        assert!(start.elapsed() < PATIENCE, "the test hangs");
        app.turn(Duration::from_millis(10));
    }
}

#[test]
fn a_quinn_client_exchanges_16_mib_with_our_server() {
    let (upload, download) = (pattern(LEN, 1), pattern(LEN, 2));
    let config = EndpointConfig::default();
    let mut server = App::server(&Certificate::new(), config, download.clone());
    let address = server.local_addr();
    let data = upload.clone();
    let client = on_a_runtime(async move {
        let endpoint = quinn::Endpoint::client(SocketAddr::from(common::LOCALHOST)).unwrap();
        let connecting = endpoint.connect_with(client_config(), address, "localhost").unwrap();
        let connection = connecting.await.unwrap();
        let (mut send, mut receive) = connection.open_bi().await.unwrap();
        let sending = tokio::spawn(async move {
            send.write_all(&data).await.unwrap();
            send.finish().unwrap();
        });
        let received = receive.read_to_end(2 * LEN).await.unwrap();
        sending.await.unwrap();
        connection.close(0u32.into(), b"done");
        endpoint.wait_idle().await;
        received
    });

    run_alone(&mut server, |server| !server.closed.is_empty());
    assert_eq!(blake3::hash(&client.join().unwrap()), blake3::hash(&download));
    server.exchanges[&server.only()].assert_received(&upload);
    assert_eq!(server.endpoint.stats().recv_errors, 0);
}

#[test]
fn our_client_exchanges_16_mib_with_a_quinn_server() {
    let (upload, download) = (pattern(LEN, 1), pattern(LEN, 2));
    let data = download.clone();
    let (tell_address, address) = std::sync::mpsc::channel();
    let server = on_a_runtime(async move {
        let config = server_config(&Certificate::new());
        let endpoint =
            quinn::Endpoint::server(config, SocketAddr::from(common::LOCALHOST)).unwrap();
        tell_address.send(endpoint.local_addr().unwrap()).unwrap();
        let connection = endpoint.accept().await.unwrap().await.unwrap();
        let (mut send, mut receive) = connection.accept_bi().await.unwrap();
        let receiving =
            tokio::spawn(async move { receive.read_to_end(2 * LEN).await.unwrap() });
        send.write_all(&data).await.unwrap();
        // The client may close when it has everything: it must not before we have.
        let received = receiving.await.unwrap();
        send.finish().unwrap();
        connection.closed().await;
        received
    });

    let mut client = App::client();
    let handle = client.connect(address.recv().unwrap(), upload.clone());
    run_alone(&mut client, |client| {
        client.is_done(handle) || client.closed.contains_key(&handle)
    });
    client.exchanges[&handle].assert_received(&download);
    client.close(handle);
    run_alone(&mut client, |client| client.endpoint.is_idle());
    assert_eq!(blake3::hash(&server.join().unwrap()), blake3::hash(&upload));
}
