//! quinn as the other end of an exchange.

use std::net::SocketAddr;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;

use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn::{Connection, ConnectionStats, TransportConfig};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName, UnixTime};

use crate::common::{ALPN, Certificate, LOCALHOST, PATIENCE};

/// What quinn has seen when the connection is closed.
pub struct Outcome {
    pub received: Vec<u8>,
    pub stats: ConnectionStats,
}

/// What quinn does beside the exchange.
pub type Beside = fn(Connection);

/// Nothing.
pub fn idle(_: Connection) {}

/// Connects to `server`, sends `data`, receives, and closes.
pub fn client(
    server: SocketAddr,
    transport: TransportConfig,
    data: Vec<u8>,
    beside: Beside,
) -> JoinHandle<Outcome> {
    on_a_runtime(async move {
        let endpoint = quinn::Endpoint::client(SocketAddr::from(LOCALHOST)).unwrap();
        let connecting =
            endpoint.connect_with(client_config(transport), server, "localhost").unwrap();
        let connection = connecting.await.unwrap();
        beside(connection.clone());
        let (mut send, mut receive) = connection.open_bi().await.unwrap();
        let sending = tokio::spawn(async move {
            send.write_all(&data).await.unwrap();
            send.finish().unwrap();
        });
        let received = receive.read_to_end(LIMIT).await.unwrap();
        sending.await.unwrap();
        connection.close(0u32.into(), b"done");
        endpoint.wait_idle().await;
        Outcome { received, stats: connection.stats() }
    })
}

/// Waits for a client, sends `data`, receives, and waits for the client to close.
pub fn server(
    transport: TransportConfig,
    data: Vec<u8>,
    beside: Beside,
) -> (SocketAddr, JoinHandle<Outcome>) {
    let (tell_address, address) = mpsc::channel();
    let running = on_a_runtime(async move {
        let config = server_config(&Certificate::new(), transport);
        let endpoint = quinn::Endpoint::server(config, SocketAddr::from(LOCALHOST)).unwrap();
        tell_address.send(endpoint.local_addr().unwrap()).unwrap();
        let connection = endpoint.accept().await.unwrap().await.unwrap();
        beside(connection.clone());
        let (mut send, mut receive) = connection.accept_bi().await.unwrap();
        let receiving = tokio::spawn(async move { receive.read_to_end(LIMIT).await.unwrap() });
        send.write_all(&data).await.unwrap();
        // The client may close when it has everything: it must not before we have.
        let received = receiving.await.unwrap();
        send.finish().unwrap();
        connection.closed().await;
        Outcome { received, stats: connection.stats() }
    });
    (address.recv().unwrap(), running)
}

/// More than any test sends.
const LIMIT: usize = 64 << 20;

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

fn client_config(transport: TransportConfig) -> quinn::ClientConfig {
    let mut tls = rustls::ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AnyCertificate))
        .with_no_client_auth();
    tls.alpn_protocols = vec![ALPN.to_vec()];
    let crypto = Arc::new(QuicClientConfig::try_from(tls).unwrap());
    let mut config = quinn::ClientConfig::new(crypto);
    config.transport_config(Arc::new(transport));
    config
}

fn server_config(certificate: &Certificate, transport: TransportConfig) -> quinn::ServerConfig {
    let chain = vec![CertificateDer::from(certificate.chain_der.clone())];
    let key = PrivatePkcs8KeyDer::from(certificate.key_der.clone()).into();
    let mut tls = rustls::ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .unwrap();
    tls.alpn_protocols = vec![ALPN.to_vec()];
    let crypto = Arc::new(QuicServerConfig::try_from(tls).unwrap());
    let mut config = quinn::ServerConfig::with_crypto(crypto);
    config.transport_config(Arc::new(transport));
    config
}

/// Runs quinn on a thread of its own while ours runs on this one.
fn on_a_runtime<T: Send + 'static>(
    task: impl Future<Output = T> + Send + 'static,
) -> JoinHandle<T> {
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async { tokio::time::timeout(PATIENCE, task).await.unwrap() })
    })
}
