//! Sessions of MoQ over either transport.

use std::any::Any;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use moq_net::transport::poll::Boxable;
use quinn::crypto::rustls::QuicServerConfig;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use tack_tokio::{Endpoint, EndpointConfig, tacklib};
use tack_web_transport::http3::{self, ConnectRequest};

/// How long a publisher stays for those who are behind; a relay never closes.
const FINISH_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a client may take from its request to what MoQ begins a session with.
const ACCEPT_TIMEOUT: Duration = Duration::from_secs(10);

/// Which QUIC stack carries a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Transport {
    /// tacklib, through tack-web-transport.
    Tack,
    /// quinn, through web-transport-quinn, with CUBIC, its default.
    Quinn,
    /// The same with quinn's BBR.
    QuinnBbr,
}

impl Transport {
    /// Its name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tack => "tack",
            Self::Quinn => "quinn",
            Self::QuinnBbr => "quinn-bbr",
        }
    }
}

/// A session, and what has to stay as long as it does.
pub struct Connected {
    /// The session of MoQ. Its driver runs in a task.
    pub session: moq_net::Session,
    _keep: Box<dyn Any + Send>,
}

impl Connected {
    /// Waits until the other end has what it wants and closes the session, or for a time. A close of this end
    /// would lose what is on its way.
    pub async fn finish(self) {
        let _ = tokio::time::timeout(FINISH_TIMEOUT, self.session.closed()).await;
    }
}

/// Where sessions come in.
pub enum Listener {
    /// Over TACK.
    Tack(http3::Server),
    /// Over quinn.
    Quinn(web_transport_quinn::Server, SocketAddr),
}

/// The time that drivers of moq-net are told.
fn now() -> moq_net::time::Instant {
    tokio::time::Instant::now().into_std()
}

/// The first of the client's protocols that moq-net speaks.
fn select(offered: &[String]) -> Result<String> {
    let known = offered.iter().find(|name| moq_net::ALPNS.contains(&name.as_str()));
    known.cloned().with_context(|| format!("none of {offered:?} is a version of MoQ"))
}

impl Listener {
    /// Listens with a certificate made for it. The TLS secrets of its connections go to `key_log`.
    pub fn bind(
        transport: Transport,
        address: SocketAddr,
        key_log: Option<&Path>,
    ) -> Result<Self> {
        let names = vec!["localhost".to_owned()];
        let made = rcgen::generate_simple_self_signed(names).context("making a certificate")?;
        match transport {
            Transport::Tack => tack_listener(address, &made, key_log),
            Transport::Quinn => quinn_listener(address, &made, key_log, None),
            Transport::QuinnBbr => quinn_listener(address, &made, key_log, Some(bbr())),
        }
    }

    /// The address that it listens on.
    pub fn local_addr(&self) -> SocketAddr {
        match self {
            Self::Tack(server) => server.endpoint().local_addr(),
            Self::Quinn(_, address) => *address,
        }
    }

    /// Waits for the next client; `None` once the endpoint is closed.
    pub async fn next(&mut self) -> Option<Request> {
        match self {
            Self::Tack(server) => server.accept().await.map(Box::new).map(Request::Tack),
            Self::Quinn(server, _) => server.accept().await.map(Box::new).map(Request::Quinn),
        }
    }

    /// Accepts the session of the next client, where it is the only one: others wait meanwhile.
    pub async fn accept(&mut self, moq: &moq_net::Server) -> Result<Connected> {
        self.next().await.context("the endpoint is closed")?.accept(moq).await
    }
}

/// A client that asks for a session.
pub enum Request {
    /// Over TACK.
    Tack(Box<http3::Request>),
    /// Over quinn.
    Quinn(Box<web_transport_quinn::Request>),
}

impl Request {
    /// Accepts the session, with what `moq` publishes and subscribes to. It waits for the client, so a server that has
    /// more than one does this in a task for each.
    pub async fn accept(self, moq: &moq_net::Server) -> Result<Connected> {
        let accepting = async {
            match self {
                Self::Tack(request) => {
                    let protocol = select(request.protocols())?;
                    let session = request.accept_with_protocol(protocol).await?;
                    accepted(moq, session).await
                }
                Self::Quinn(request) => {
                    let protocol = select(&request.protocols)?;
                    let response = web_transport_quinn::proto::ConnectResponse::OK;
                    let session = request.respond(response.with_protocol(protocol)).await?;
                    accepted(moq, session).await
                }
            }
        };
        let in_time = tokio::time::timeout(ACCEPT_TIMEOUT, accepting).await;
        in_time.context("the client begins no session of MoQ")?
    }
}

async fn accepted<S>(moq: &moq_net::Server, transport: S) -> Result<Connected>
where
    S: Boxable<SendStream: Sync, RecvStream: Sync>,
    moq_net::Driver<S>: Send,
{
    let (session, driver) = moq.accept(now(), transport).await?;
    tokio::spawn(moq_net::time::run(driver));
    Ok(Connected { session, _keep: Box::new(()) })
}

async fn connected<S>(
    moq: &moq_net::Client,
    transport: S,
    keep: Box<dyn Any + Send>,
) -> Result<Connected>
where
    S: Boxable,
    moq_net::Driver<S>: Send,
{
    let (session, driver) = moq.connect(now(), transport).await?;
    tokio::spawn(moq_net::time::run(driver));
    Ok(Connected { session, _keep: keep })
}

/// Opens a session to a server on this machine, with what `moq` publishes and subscribes to.
pub async fn connect(
    transport: Transport,
    server: SocketAddr,
    moq: &moq_net::Client,
) -> Result<Connected> {
    if !server.ip().is_loopback() {
        bail!(
            "{server} is not an address of this machine, and no certificate is verified here"
        );
    }
    let url = http3::Url::parse(&format!("https://{server}/moq"))?;
    let request = ConnectRequest::new(url).with_protocol(moq_net::ALPNS[0]);
    match transport {
        Transport::Tack => {
            let local = SocketAddr::from(([127, 0, 0, 1], 0));
            let endpoint = Endpoint::client(local, EndpointConfig::default())?;
            let connecting =
                endpoint.connect(server, Some("localhost"), &mut tack_config()?)?;
            let session = http3::connect(connecting.await?, request).await?;
            connected(moq, session, Box::new(endpoint)).await
        }
        Transport::Quinn | Transport::QuinnBbr => {
            let mut client = web_transport_quinn::ClientBuilder::new();
            if transport == Transport::QuinnBbr {
                // quinn's BBR.
                client = client.with_congestion_control(
                    web_transport_quinn::CongestionControl::LowLatency,
                );
            }
            let client = client.dangerous().with_no_certificate_verification()?;
            let session = client.connect(request).await?;
            connected(moq, session, Box::new(client)).await
        }
    }
}

/// The same limits that quinn has by itself, so far as they matter here.
fn tack_config() -> Result<tacklib::Config> {
    let mut config = tacklib::Config::new(tacklib::quiche::PROTOCOL_VERSION)?;
    config.set_application_protos(&[http3::ALPN])?;
    config.verify_peer(false);
    config.set_max_idle_timeout(30_000);
    config.set_max_recv_udp_payload_size(1452);
    config.set_max_send_udp_payload_size(1452);
    config.set_initial_max_data(8 << 20);
    config.set_initial_max_stream_data_bidi_local(1_250_000);
    config.set_initial_max_stream_data_bidi_remote(1_250_000);
    config.set_initial_max_stream_data_uni(1_250_000);
    config.set_initial_max_streams_bidi(100);
    config.set_initial_max_streams_uni(100);
    config.enable_dgram(true, 64, 64);
    config.set_tack(tacklib::TackConfig::new(tacklib::Profile::Video));
    Ok(config)
}

type Certificate = rcgen::CertifiedKey<rcgen::KeyPair>;

fn tack_listener(
    address: SocketAddr,
    made: &Certificate,
    key_log: Option<&Path>,
) -> Result<Listener> {
    // BoringSSL reads both while the configuration is made.
    let directory = tempfile::tempdir()?;
    let write = |name: &str, contents: String| -> Result<String> {
        let path = directory.path().join(name);
        std::fs::write(&path, contents)?;
        Ok(path.to_str().context("the path of the temporary files is not UTF-8")?.to_owned())
    };
    let mut config = tack_config()?;
    config.load_cert_chain_from_pem_file(&write("cert.pem", made.cert.pem())?)?;
    config.load_priv_key_from_pem_file(&write("key.pem", made.signing_key.serialize_pem())?)?;
    if key_log.is_some() {
        config.log_keys();
    }
    let mut endpoint = EndpointConfig::default();
    endpoint.key_log = key_log.map(Path::to_owned);
    let endpoint = Endpoint::server(address, config, endpoint)?;
    Ok(Listener::Tack(http3::Server::new(endpoint)))
}

fn bbr() -> quinn::TransportConfig {
    let mut transport = quinn::TransportConfig::default();
    let bbr = quinn::congestion::BbrConfig::default();
    transport.congestion_controller_factory(Arc::new(bbr));
    transport
}

fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

fn quinn_listener(
    address: SocketAddr,
    made: &Certificate,
    key_log: Option<&Path>,
    transport: Option<quinn::TransportConfig>,
) -> Result<Listener> {
    let chain = vec![CertificateDer::from(made.cert.der().to_vec())];
    let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()).into();
    let mut tls = rustls::ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_no_client_auth()
        .with_single_cert(chain, key)?;
    tls.alpn_protocols = vec![http3::ALPN.to_vec()];
    if let Some(path) = key_log {
        tls.key_log = Arc::new(AppendingKeyLog(path.to_owned()));
    }
    let tls = QuicServerConfig::try_from(tls)?;
    let mut config = quinn::ServerConfig::with_crypto(Arc::new(tls));
    if let Some(transport) = transport {
        config.transport_config(Arc::new(transport));
    }
    let endpoint = quinn::Endpoint::server(config, address)?;
    let address = endpoint.local_addr()?;
    Ok(Listener::Quinn(web_transport_quinn::Server::new(endpoint), address))
}

/// Appends to a file, as EndpointConfig::key_log does for TACK.
#[derive(Debug)]
struct AppendingKeyLog(PathBuf);

impl rustls::KeyLog for AppendingKeyLog {
    fn log(&self, label: &str, client_random: &[u8], secret: &[u8]) {
        use std::io::Write as _;
        let hex = |bytes: &[u8]| data_encoding::HEXLOWER.encode(bytes);
        let line = format!("{label} {} {}\n", hex(client_random), hex(secret));
        let file = std::fs::File::options().create(true).append(true).open(&self.0);
        // Without it the frames are not counted, which the report says.
        let _ = file.and_then(|mut file| file.write_all(line.as_bytes()));
    }
}
