//! The QUIC side: configurations of the two ends.

use std::path::Path;

use anyhow::{Context, Result};
use tack_examples::Certificate;
use tacklib::{Config, Profile};

/// The application protocol (ALPN).
pub const PROTOCOL: &[u8] = b"tack-video/1";

/// A source that stalls keeps the connection open, and a player acknowledges that.
const IDLE_TIMEOUT_MS: u64 = 10_000;
/// What a player takes that it has not read, in bytes and in frames: some seconds.
const WINDOW: u64 = 16 << 20;
const FRAMES: u64 = 512;
/// DATAGRAMs that wait at either end.
const DATAGRAMS: usize = 4096;

/// A certificate chain and its key, in PEM files.
#[derive(Clone, Copy, Debug)]
pub struct Identity<'a> {
    /// The chain.
    pub chain: &'a Path,
    /// The private key.
    pub key: &'a Path,
}

/// The sender's configuration: with a certificate of its own, or one that is made now.
pub fn sender(profile: Profile, identity: Option<Identity<'_>>) -> Result<Config> {
    let mut config = both(profile)?;
    let made;
    let (chain, key) = if let Some(Identity { chain, key }) = identity {
        let path =
            |path: &Path| path.to_str().map(str::to_owned).context("a path is not UTF-8");
        (path(chain)?, path(key)?)
    } else {
        made = Certificate::new()?;
        (made.chain()?, made.key()?)
    };
    load(&chain, "a certificate chain", || config.load_cert_chain_from_pem_file(&chain))?;
    load(&key, "the key of the certificate", || config.load_priv_key_from_pem_file(&key))?;
    Ok(config)
}

/// Loads a file into a configuration, whose own error does not tell why it cannot.
fn load<E>(path: &str, what: &str, into: impl FnOnce() -> Result<(), E>) -> Result<()> {
    std::fs::File::open(path).with_context(|| path.to_owned())?;
    into().map_err(|_| anyhow::anyhow!("{path}: not {what} in PEM"))
}

/// The player's configuration. Without `authority`, a PEM file, it trusts any certificate.
pub fn player(profile: Profile, authority: Option<&Path>) -> Result<Config> {
    let mut config = both(profile)?;
    config.verify_peer(authority.is_some());
    if let Some(path) = authority {
        let name = path.to_str().context("the path of the authority is not UTF-8")?;
        load(name, "certificates", || config.load_verify_locations_from_file(name))?;
    }
    // The sender tells the end on a stream of its own.
    config.set_initial_max_streams_bidi(1);
    config.set_initial_max_stream_data_bidi_remote(64 << 10);
    config.set_initial_max_streams_uni(FRAMES);
    config.set_initial_max_stream_data_uni(WINDOW);
    config.set_initial_max_data(WINDOW);
    config.set_max_connection_window(WINDOW);
    config.set_max_stream_window(WINDOW);
    Ok(config)
}

fn both(profile: Profile) -> Result<Config> {
    let mut config = Config::new(quiche::PROTOCOL_VERSION)?;
    config.set_application_protos(&[PROTOCOL])?;
    config.set_max_idle_timeout(IDLE_TIMEOUT_MS);
    config.set_initial_rtt(tack_endpoint::INITIAL_RTT);
    config.enable_dgram(true, DATAGRAMS, DATAGRAMS);
    config.set_profile(profile);
    Ok(config)
}
