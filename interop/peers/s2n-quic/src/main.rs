//! s2n-quic as a peer of tack-interop: hq-interop in both roles. docs/interop.md has the contract.

#![forbid(unsafe_code)]

use std::error::Error;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{self, ExitCode};
use std::sync::Arc;
use std::{env, fs, io, thread};

use bytes::Bytes;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{DigitallySignedStruct, KeyLogFile, SignatureScheme};
use s2n_quic::client::Connect;
use s2n_quic::provider::{endpoint_limits, tls};
use s2n_quic::stream::BidirectionalStream;
use s2n_quic::{Client, Connection, Server};

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

const ALPN: &[u8] = b"hq-interop";
/// What the contract says to exit with where a test case is not known, after a line that says so.
const UNSUPPORTED: u8 = 127;
/// Neither end resumes sessions with rustls, nor changes its keys before they have protected millions
/// of packets, nor sends ACK_FREQUENCY.
const TEST_CASES: [&str; 22] = [
    "handshake",
    "transfer",
    "chacha20",
    "multiplexing",
    "retry",
    "transferloss",
    "transfercorruption",
    "handshakeloss",
    "handshakecorruption",
    "longrtt",
    "blackhole",
    "amplificationlimit",
    "ipv6",
    "rebind-port",
    "rebind-addr",
    "goodput",
    "crosstraffic",
    "ackfrequency",
    "immediateack",
    "tack",
    "greased",
    "noannounce",
];
/// What its server knows besides.
const SERVER_TEST_CASE: &str = "keyupdate";

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    end_with_the_runner();
    let test_case = variable("TESTCASE").unwrap_or_default();
    let role = variable("ROLE");
    let is_server = role.as_deref().is_ok_and(|role| role == "server");
    let is_known =
        TEST_CASES.contains(&test_case.as_str()) || is_server && test_case == SERVER_TEST_CASE;
    if !is_known {
        println!("unsupported");
        return UNSUPPORTED.into();
    }
    let done = match role.as_deref() {
        Ok("server") => serve().await,
        Ok("client") => fetch().await,
        _ => Err("TACK_INTEROP_ROLE is neither client nor server".into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("s2n-quic-peer: {error}");
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
    let key = PrivateKeyDer::from_pem_file(variable("KEY")?)?;
    let mut config =
        rustls::ServerConfig::builder_with_provider(aws_lc_rs::default_provider().into())
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .with_no_client_auth()
            .with_single_cert(chain.collect::<std::result::Result<_, _>>()?, key)?;
    config.alpn_protocols = vec![ALPN.to_vec()];
    config.key_log = Arc::new(KeyLogFile::new());
    // Above this number of handshakes at once, clients have to prove their address.
    let handshakes = if variable("TESTCASE")? == "retry" { 0 } else { usize::MAX };
    let limits = endpoint_limits::Default::builder()
        .with_inflight_handshake_limit(handshakes)?
        .build()?;
    let address: SocketAddr = variable("ADDRESS")?.parse()?;
    let mut server = Server::builder()
        .with_tls(tls::rustls::Server::from(config))?
        .with_endpoint_limits(limits)?
        .with_io(address)?
        .start()?;
    println!("ready {}", server.local_addr()?);

    while let Some(connection) = server.accept().await {
        tokio::spawn(answer_all(connection));
    }
    Ok(())
}

async fn answer_all(mut connection: Connection) {
    while let Ok(Some(stream)) = connection.accept_bidirectional_stream().await {
        tokio::spawn(async {
            if let Err(error) = answer(stream).await {
                eprintln!("s2n-quic-peer: {error}");
            }
        });
    }
}

async fn answer(mut stream: BidirectionalStream) -> Result<()> {
    let request = read_to_end(&mut stream).await?;
    let end = request.iter().position(|byte| *byte == b'\n').ok_or("no request line")?;
    let line = std::str::from_utf8(&request[..end])?.trim_end();
    match line.split_once(" /") {
        Some(("GET", name)) => stream.send(fs::read(inside("FILES", name)?)?.into()).await?,
        Some(("PUT", name)) => fs::write(inside("RECEIVED", name)?, &request[end + 1..])?,
        _ => return Err(format!("not a request: {line:?}").into()),
    }
    stream.close().await?;
    Ok(())
}

async fn fetch() -> Result<()> {
    let mut provider = aws_lc_rs::default_provider();
    if variable("TESTCASE")? == "chacha20" {
        provider.cipher_suites = vec![aws_lc_rs::cipher_suite::TLS13_CHACHA20_POLY1305_SHA256];
    }
    let mut config = rustls::ClientConfig::builder_with_provider(provider.into())
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AnyCertificate))
        .with_no_client_auth();
    config.alpn_protocols = vec![ALPN.to_vec()];
    config.key_log = Arc::new(KeyLogFile::new());
    let server: SocketAddr = variable("ADDRESS")?.parse()?;
    let local: SocketAddr =
        if server.is_ipv4() { "127.0.0.1:0".parse()? } else { "[::1]:0".parse()? };
    let mut client = Client::builder()
        .with_tls(tls::rustls::Client::from(config))?
        .with_io(local)?
        .start()?;
    let connect = Connect::new(server).with_server_name("localhost");
    let connection = client.connect(connect).await?;

    let mut running = Vec::new();
    for request in variable("REQUESTS")?.split(',').map(str::to_owned) {
        let mut connection = connection.handle();
        running.push(tokio::spawn(async move {
            ask(connection.open_bidirectional_stream().await?, &request).await
        }));
    }
    for request in running {
        request.await??;
    }
    connection.close(0_u32.into());
    client.wait_idle().await?;
    Ok(())
}

/// `request` is `GET name` or `PUT name`.
async fn ask(mut stream: BidirectionalStream, request: &str) -> Result<()> {
    let (method, name) = request.split_once(' ').ok_or("not a request")?;
    stream.send(Bytes::from(format!("{method} /{name}\r\n"))).await?;
    if method == "PUT" {
        stream.send(fs::read(inside("FILES", name)?)?.into()).await?;
    }
    stream.finish()?;
    let answer = read_to_end(&mut stream).await?;
    if method == "GET" {
        fs::write(inside("RECEIVED", name)?, answer)?;
    }
    Ok(())
}

async fn read_to_end(stream: &mut BidirectionalStream) -> Result<Vec<u8>> {
    let mut contents = Vec::new();
    while let Some(chunk) = stream.receive().await? {
        contents.extend_from_slice(&chunk);
    }
    Ok(contents)
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
        aws_lc_rs::default_provider().signature_verification_algorithms.supported_schemes()
    }
}
