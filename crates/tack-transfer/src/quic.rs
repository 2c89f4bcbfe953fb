//! The QUIC configuration of both ends, in one place.
//!
//! [`Client`](crate::Client) and [`Server`](crate::Server) use it themselves. It is public for programs that speak
//! the protocol on a connection of their own: tests of a peer's behaviour, and measurements.

use std::ops::RangeInclusive;
use std::path::Path;

use boring::ssl::{SslContextBuilder, SslMethod};
use tack_endpoint::{EndpointConfig, INITIAL_RTT};

use crate::error::Error;
pub use crate::pin::Pin;

/// The application protocols, the preferred one first.
///
/// The number is the version of the file transfer protocol: two ends that share none refuse each
/// other in the handshake (RFC 7301 section 3.2). A server of version 2 would pass over what version 3
/// adds to requests, one of version 3 close the connection over the messages of version 4, one of version 4 pass over
/// what version 5 adds, one of version 6 over what version 7 does, one of version 7 close the connection over the names of version 8, and one of version 8 over the
/// holes of version 9: peers ask for that, and send it, in these versions only.
pub const ALPN: [&[u8]; 8] = [
    b"tack-file/9",
    b"tack-file/8",
    b"tack-file/7",
    b"tack-file/6",
    b"tack-file/5",
    b"tack-file/4",
    b"tack-file/3",
    b"tack-file/2",
];
/// The versions of the protocol that [`ALPN`] names.
pub const VERSIONS: RangeInclusive<usize> = OLDEST..=OLDEST + ALPN.len() - 1;
/// The version of the last of them.
const OLDEST: usize = 2;
/// The version of the protocol in which both ends wait for fewer answers: a server finds out itself whether a directory is
/// where a file is to go, takes a large file behind its offer, sends a file behind its listing, says nothing more of files
/// that it does not want, takes what a client wanted for stored if that says so with the end of the connection, and lets
/// early data be filled up.
pub const FEWER_ROUND_TRIPS: usize = 5;
/// The version of the protocol in which a server takes the content of small files right behind their offer.
pub const CONTENT_AHEAD: usize = 7;
/// The version of the protocol in which names may have a backslash.
pub const BACKSLASHES: usize = 8;
/// The version of the protocol in which a server tells what it has removed to make way for what it receives.
pub const TELLS_REMOVED: usize = 8;
/// The version of the protocol in which a server tells it while the client still sends small files.
pub const TELLS_EARLY: usize = 9;
/// The version of the protocol in which zeros of large files cross the network as their number.
pub const HOLES: usize = 9;
/// The version of the protocol in which a file is offered with its other names, and a server says which of them it has.
pub const OTHER_NAMES: usize = 9;
/// The version of the protocol that brought edits.
pub const EDITS: usize = 3;
/// The version of the protocol from which on a server removes parts of unfinished transfers.
pub const REMOVES_PARTS: usize = 6;
/// A connection on which nothing arrives for this long is given up, in milliseconds.
pub const IDLE_TIMEOUT_MS: u64 = 30_000;
/// Largest UDP payload where the path's MTU is not looked for: fits every path that can carry QUIC inside
/// common tunnels.
pub const UDP_PAYLOAD: usize = 1350;
/// Largest UDP payload that is accepted: all that there is.
const MAX_UDP_PAYLOAD: usize = 65_527;
/// Most bytes of a connection that may wait to be read.
pub const CONNECTION_WINDOW: u64 = 16 << 20;
/// Most bytes of one stream that may wait to be read.
pub const STREAM_WINDOW: u64 = 8 << 20;
/// The least of both where a rate limits them.
const SMALLEST_WINDOW: u64 = 64 << 10;
/// Addresses and ports that a client may have one after the other: quiche keeps a path for each, as many as it takes
/// connection ids.
const MAX_ADDRESSES: u64 = 64;
/// Requests that a client may have open at once.
pub const MAX_STREAMS: u64 = 32;

/// Why a connection is closed, as the application error code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseCode {
    /// Nothing is left to do.
    Done = 0,
    /// The access token is missing or wrong.
    WrongToken = 1,
    /// The peer broke the protocol.
    Protocol = 2,
    /// Too many connections.
    Busy = 3,
    /// The connection was silent while another one wanted to send the same file, or to finish the same directory.
    Superseded = 4,
    /// The client does not trust the server.
    Untrusted = 5,
    /// Nothing is left to do, and nothing has failed or been left out.
    Satisfied = 6,
    /// Nothing is left to do, and nothing has failed; a filter has left something out, or something older has stayed.
    SatisfiedInPart = 7,
}

/// How a client decides whether the server's certificate is good during the handshake.
#[derive(Clone, Copy, Debug)]
pub enum Verify<'a> {
    /// By the certificate authorities of the system, or of this PEM file.
    Authorities(Option<&'a Path>),
    /// It is this one.
    Pinned(&'a Pin),
    /// Not at all: it is looked at afterwards, or never.
    Later,
}

/// The version that an application protocol stands for, if it is one of [`ALPN`].
pub(crate) fn version_of(protocol: &[u8]) -> Option<usize> {
    let at = ALPN.iter().rev().position(|known| *known == protocol)?;
    Some(OLDEST + at)
}

/// The configuration of a client.
pub fn client_config(
    profile: tacklib::Profile,
    verify: Verify<'_>,
) -> Result<tacklib::Config, Error> {
    const VERSION: u32 = quiche::PROTOCOL_VERSION;
    let mut config = match verify {
        Verify::Pinned(pin) => {
            let context = pin.context().map_err(|_| quiche::Error::TlsFail)?;
            tacklib::Config::with_boring_ssl_ctx_builder(VERSION, context)?
        }
        Verify::Authorities(_) => tacklib::Config::new(VERSION)?,
        Verify::Later => without_authorities()?,
    };
    set_both(&mut config, profile)?;
    config.enable_early_data();
    match verify {
        Verify::Pinned(_) => {}
        Verify::Later => config.verify_peer(false),
        Verify::Authorities(file) => {
            config.verify_peer(true);
            if let Some(file) = file {
                config.load_verify_locations_from_file(&text(file)?).map_err(|_| {
                    Error::Invalid(format!("{}: not a file of certificates", file.display()))
                })?;
            }
        }
    }
    Ok(config)
}

/// The configuration of a server with its certificate and private key, both PEM.
pub fn server_config(
    profile: tacklib::Profile,
    certificate: &Path,
    key: &Path,
) -> Result<tacklib::Config, Error> {
    let mut config = without_authorities()?;
    set_both(&mut config, profile)?;
    config.load_cert_chain_from_pem_file(&text(certificate)?).map_err(|_| {
        Error::Invalid(format!("{}: not a certificate in PEM format", certificate.display()))
    })?;
    config.load_priv_key_from_pem_file(&text(key)?).map_err(|_| {
        Error::Invalid(format!(
            "{}: not a private key in PEM format, or not the certificate's",
            key.display()
        ))
    })?;
    config.set_initial_max_streams_bidi(MAX_STREAMS);
    Ok(config)
}

/// A configuration that knows no authorities: reading the authorities of the system takes longer than all else that happens
/// before a server can answer.
fn without_authorities() -> Result<tacklib::Config, Error> {
    let context =
        SslContextBuilder::new(SslMethod::tls()).map_err(|_| quiche::Error::TlsFail)?;
    Ok(tacklib::Config::with_boring_ssl_ctx_builder(quiche::PROTOCOL_VERSION, context)?)
}

/// Lets no more wait to be read than what comes in a second at `rate` bytes per second: a sender that
/// is held back by flow control alone sends no more at once.
pub fn limit_windows(config: &mut tacklib::Config, rate: u64) {
    let within = |window: u64| rate.clamp(SMALLEST_WINDOW, window);
    config.set_max_connection_window(within(CONNECTION_WINDOW));
    config.set_max_stream_window(within(STREAM_WINDOW));
    config.set_initial_max_data(within(CONNECTION_WINDOW));
    config.set_initial_max_stream_data_bidi_local(within(STREAM_WINDOW));
    config.set_initial_max_stream_data_bidi_remote(within(STREAM_WINDOW));
}

/// The settings of a socket whose connections write qlog files into `qlog`, which is created.
pub fn endpoint_config(qlog: Option<&Path>) -> Result<EndpointConfig, Error> {
    if let Some(directory) = qlog {
        std::fs::create_dir_all(directory).map_err(Error::local(directory))?;
    }
    let mut config = EndpointConfig::default();
    config.discover_path_mtu = true;
    config.qlog = qlog.map(Path::to_path_buf);
    Ok(config)
}

/// What both ends have.
fn set_both(config: &mut tacklib::Config, profile: tacklib::Profile) -> Result<(), Error> {
    config.set_profile(profile);
    config.set_application_protos(&ALPN)?;
    config.set_max_idle_timeout(IDLE_TIMEOUT_MS);
    config.set_initial_rtt(INITIAL_RTT);
    config.set_max_recv_udp_payload_size(MAX_UDP_PAYLOAD);
    config.set_max_send_udp_payload_size(UDP_PAYLOAD);
    config.set_active_connection_id_limit(MAX_ADDRESSES);
    config.set_initial_max_data(CONNECTION_WINDOW);
    config.set_max_connection_window(CONNECTION_WINDOW);
    config.set_initial_max_stream_data_bidi_local(STREAM_WINDOW);
    config.set_initial_max_stream_data_bidi_remote(STREAM_WINDOW);
    config.set_max_stream_window(STREAM_WINDOW);
    config.discover_pmtu(false);
    Ok(())
}

fn text(path: &Path) -> Result<String, Error> {
    path.to_str().map(str::to_owned).ok_or_else(|| {
        Error::Invalid(format!("{}: the path must be valid UTF-8", path.display()))
    })
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::time::Duration;

    use super::*;

    #[test]
    fn an_application_protocol_ends_with_its_version() {
        for version in VERSIONS {
            let name = format!("tack-file/{version}");
            assert_eq!(version_of(name.as_bytes()), Some(version));
        }
        assert_eq!(VERSIONS.count(), ALPN.len());
        assert_eq!(version_of(b"h3"), None);
    }

    #[test]
    fn a_lost_first_packet_is_repeated_within_a_third_of_a_second() {
        let mut config = client_config(tacklib::Profile::Default, Verify::Later).unwrap();
        let id = quiche::ConnectionId::from_ref(&[7; 8]);
        let client = SocketAddr::from(([127, 0, 0, 1], 4001));
        let server = SocketAddr::from(([127, 0, 0, 1], 4002));
        let mut connection =
            tacklib::connect(Some("localhost"), &id, client, server, &mut config).unwrap();
        let mut datagram = [0; 1350];
        while connection.send(&mut datagram).is_ok() {}
        assert!(connection.timeout().unwrap() <= Duration::from_millis(333));
    }
}
