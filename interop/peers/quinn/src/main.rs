//! quinn as a peer of tack-interop: hq-interop and HTTP/3 in both roles. docs/interop.md has the contract.

#![forbid(unsafe_code)]

mod connection_ids;
mod http3;
mod refused_group;
mod resumption;

use std::error::Error;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{self, ExitCode};
use std::sync::Arc;
use std::time::Duration;
use std::{env, fs, io, thread};

use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn::{
    AckFrequencyConfig, Connection, Endpoint, EndpointConfig, RecvStream, SendStream,
    TransportConfig, VarInt,
};
use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::crypto::ring::cipher_suite::{
    TLS13_AES_128_GCM_SHA256, TLS13_CHACHA20_POLY1305_SHA256,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{DigitallySignedStruct, KeyLogFile, SignatureScheme};

use connection_ids::WithLength;
use refused_group::RefusedGroup;
use resumption::Tickets;

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

const HTTP3: &str = "h3";
/// What the contract says to exit with where a test case is not known, after a line that says so.
const UNSUPPORTED: u8 = 127;
const TEST_CASES: [&str; 21] = [
    "handshake",
    "transfer",
    "chacha20",
    "multiplexing",
    "retry",
    "retry-resumption",
    "helloretry",
    "cid-empty",
    "cid-long",
    "resumption",
    "zerortt",
    "keyupdate",
    "http3",
    "datagrams",
    "transferloss",
    "ackfrequency",
    "ackfrequency-received",
    "immediateack",
    "tack",
    "greased",
    "noannounce",
];
/// What the other end is asked not to acknowledge where that is the test.
const PACKETS_WITHOUT_ACK: u32 = 20;
const IDLE_TIMEOUT: VarInt = VarInt::from_u32(60_000); // ms
/// More than any test case sends.
const LARGEST: usize = 64 << 20;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    end_with_the_runner();
    if !TEST_CASES.contains(&variable("TESTCASE").unwrap_or_default().as_str()) {
        println!("unsupported");
        return UNSUPPORTED.into();
    }
    let done = match variable("ROLE").as_deref() {
        Ok("server") => serve().await,
        Ok("client") => fetch().await,
        _ => Err("TACK_INTEROP_ROLE is neither client nor server".into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("quinn-peer: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Ends this program once the runner, which holds the other end of its standard input, is gone.
fn end_with_the_runner() {
    thread::spawn(|| {
        let _ = io::copy(&mut io::stdin(), &mut io::sink());
        process::exit(1);
    });
}

async fn serve() -> Result<()> {
    let chain = CertificateDer::pem_file_iter(variable("CERTIFICATE")?)?;
    let chain = chain.collect::<std::result::Result<Vec<_>, _>>()?;
    let key = PrivateKeyDer::from_pem_file(variable("KEY")?)?;
    let mut tls = rustls::ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_no_client_auth()
        .with_single_cert(chain, key)?;
    tls.alpn_protocols = vec![protocol().into_bytes()];
    tls.key_log = Arc::new(KeyLogFile::new());
    if is_test("zerortt") {
        tls.max_early_data_size = u32::MAX; // RFC 9001 section 4.6.1
    }
    let mut config =
        quinn::ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(tls)?));
    config.transport_config(transport());
    let address: SocketAddr = variable("ADDRESS")?.parse()?;
    let endpoint = endpoint(address, Some(config))?;
    println!("ready {}", endpoint.local_addr()?);

    let retry = is_test("retry") || is_test("retry-resumption");
    while let Some(incoming) = endpoint.accept().await {
        if retry && !incoming.remote_address_validated() {
            incoming.retry()?;
            continue;
        }
        // One that fails is no reason to leave the others.
        tokio::spawn(async move {
            let served = match incoming.await {
                Ok(connection) if protocol() == HTTP3 => http3::serve(connection).await,
                Ok(connection) => answer_all(connection).await,
                Err(error) => Err(error.into()),
            };
            if let Err(error) = served {
                eprintln!("quinn-peer: {error}");
            }
        });
    }
    Ok(())
}

async fn answer_all(connection: Connection) -> Result<()> {
    // Not every client can.
    if is_test("keyupdate") {
        tokio::spawn(update_keys(connection.clone()));
    }
    if is_test("datagrams") {
        tokio::spawn(return_datagrams(connection.clone()));
    }
    while let Ok((send, receive)) = connection.accept_bi().await {
        tokio::spawn(async move {
            if let Err(error) = answer(send, receive).await {
                eprintln!("quinn-peer: {error}");
            }
        });
    }
    Ok(())
}

async fn answer(mut send: SendStream, mut receive: RecvStream) -> Result<()> {
    let request = receive.read_to_end(LARGEST).await?;
    let end = request.iter().position(|byte| *byte == b'\n').ok_or("no request line")?;
    let line = std::str::from_utf8(&request[..end])?.trim_end();
    match line.split_once(" /") {
        Some(("GET", name)) => send.write_all(&fs::read(inside("FILES", name)?)?).await?,
        Some(("PUT", name)) => fs::write(inside("RECEIVED", name)?, &request[end + 1..])?,
        _ => return Err(format!("not a request: {line:?}").into()),
    }
    send.finish()?;
    send.stopped().await?;
    Ok(())
}

async fn fetch() -> Result<()> {
    let tickets = Tickets::new();
    let mut tls = rustls::ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AnyCertificate))
        .with_no_client_auth();
    tls.alpn_protocols = vec![protocol().into_bytes()];
    tls.key_log = Arc::new(KeyLogFile::new());
    tls.resumption = Resumption::store(tickets.clone());
    tls.enable_early_data = is_test("zerortt");
    // Initial packets always take AES-128, whatever is offered.
    let initial = TLS13_AES_128_GCM_SHA256.tls13().and_then(|suite| suite.quic_suite());
    let initial = initial.ok_or("rustls has no suite for Initial packets")?;
    let tls = QuicClientConfig::with_initial(Arc::new(tls), initial)?;
    let mut config = quinn::ClientConfig::new(Arc::new(tls));
    config.transport_config(transport());
    let server: SocketAddr = variable("ADDRESS")?.parse()?;
    let local = if server.is_ipv4() { "127.0.0.1:0" } else { "[::1]:0" };
    let mut endpoint = endpoint(local.parse()?, None)?;
    endpoint.set_default_client_config(config);

    let requests = variable("REQUESTS")?;
    let mut requests = requests.as_str();
    if is_test("resumption") || is_test("zerortt") || is_test("retry-resumption") {
        let (first, rest) = requests.split_once(',').ok_or("nothing to ask afterwards")?;
        let connection = endpoint.connect(server, "localhost")?.await?;
        ask_all(&connection, first).await?;
        tickets.arrived().await;
        connection.close(0_u32.into(), b"done");
        requests = rest;
    }
    let connecting = endpoint.connect(server, "localhost")?;
    let connection = if is_test("zerortt") {
        let (connection, _) = connecting.into_0rtt().map_err(|_| "no keys for early data")?;
        connection
    } else {
        connecting.await?
    };
    if is_test("keyupdate") {
        tokio::spawn(update_keys(connection.clone()));
    }
    if is_test("datagrams") {
        tokio::spawn(return_datagrams(connection.clone()));
    }
    ask_all(&connection, requests).await?;
    connection.close(0_u32.into(), b"done");
    endpoint.wait_idle().await;
    Ok(())
}

/// An endpoint with connection ids of the length that the test case asks for.
fn endpoint(address: SocketAddr, server: Option<quinn::ServerConfig>) -> Result<Endpoint> {
    let mut config = EndpointConfig::default();
    let length = match () {
        () if is_test("cid-empty") => Some(0),
        () if is_test("cid-long") => Some(20),
        () => None,
    };
    if let Some(length) = length {
        config.cid_generator(move || Box::new(WithLength(length)));
    }
    let socket = std::net::UdpSocket::bind(address)?;
    Ok(Endpoint::new(config, server, socket, Arc::new(quinn::TokioRuntime))?)
}

async fn return_datagrams(connection: Connection) {
    while let Ok(data) = connection.read_datagram().await {
        if connection.send_datagram(data).is_err() {
            return;
        }
    }
}

/// Once the handshake is confirmed, and while most of the data is still to come.
async fn update_keys(connection: Connection) {
    tokio::time::sleep(Duration::from_millis(300)).await;
    connection.force_key_update();
}

async fn ask_all(connection: &Connection, requests: &str) -> Result<()> {
    if protocol() == HTTP3 {
        return http3::fetch(connection, requests).await;
    }
    let mut running = Vec::new();
    for request in requests.split(',').map(str::to_owned) {
        let connection = connection.clone();
        running.push(tokio::spawn(async move { ask(&connection, &request).await }));
    }
    for request in running {
        request.await??;
    }
    Ok(())
}

/// `request` is `GET name` or `PUT name`.
async fn ask(connection: &Connection, request: &str) -> Result<()> {
    let (method, name) = request.split_once(' ').ok_or("not a request")?;
    let (mut send, mut receive) = connection.open_bi().await?;
    send.write_all(format!("{method} /{name}\r\n").as_bytes()).await?;
    if method == "PUT" {
        send.write_all(&fs::read(inside("FILES", name)?)?).await?;
    }
    send.finish()?;
    let answer = receive.read_to_end(LARGEST).await?;
    if method == "GET" {
        fs::write(inside("RECEIVED", name)?, answer)?;
    }
    Ok(())
}

fn protocol() -> String {
    variable("PROTOCOL").unwrap_or_else(|_| "hq-interop".to_owned())
}

fn variable(name: &str) -> Result<String> {
    let name = format!("TACK_INTEROP_{name}");
    env::var(&name).map_err(|_| format!("{name} is not set").into())
}

/// A file of that name in the directory that a variable names.
fn inside(directory: &str, name: &str) -> Result<PathBuf> {
    if name.contains('/') || name.starts_with('.') {
        return Err(format!("not a file name: {name:?}").into());
    }
    Ok(Path::new(&variable(directory)?).join(name))
}

fn is_test(name: &str) -> bool {
    variable("TESTCASE").is_ok_and(|test| test == name)
}

fn transport() -> Arc<TransportConfig> {
    let mut transport = TransportConfig::default();
    // Where much is lost, probes soon come seldom.
    transport.max_idle_timeout(Some(IDLE_TIMEOUT.into()));
    if is_test("ackfrequency-received") {
        let mut frequency = AckFrequencyConfig::default();
        frequency.ack_eliciting_threshold(PACKETS_WITHOUT_ACK.into());
        transport.ack_frequency_config(Some(frequency));
    }
    Arc::new(transport)
}

fn provider() -> Arc<CryptoProvider> {
    let mut provider = rustls::crypto::ring::default_provider();
    let is_client = variable("ROLE").is_ok_and(|role| role == "client");
    if is_test("chacha20") && is_client {
        provider.cipher_suites = vec![TLS13_CHACHA20_POLY1305_SHA256];
    }
    if is_test("helloretry") && is_client {
        // A client sends a share for the first.
        provider.kx_groups.insert(0, &RefusedGroup);
    }
    Arc::new(provider)
}

/// Accepts any certificate: trust is not under test.
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
    ) -> std::result::Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _dss: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        Err(rustls::Error::General("QUIC has no TLS 1.2".to_owned()))
    }

    fn verify_tls13_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _dss: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        provider().signature_verification_algorithms.supported_schemes()
    }
}
