//! The QUIC configuration of both ends.

use std::fs;
use std::io::Write;
use std::path::Path;

use tack_endpoint::certificate::Fingerprint;
use tacklib::Config;
use tempfile::NamedTempFile;

use crate::error::Error;
use crate::messages::MAX_END;
use crate::settings::{Mode, Settings};
use crate::trust::Trust;

/// Which way the media go, seen from an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    /// From this end to the other: tacksink.
    Send,
    /// From the other end to this: tacksrc.
    Receive,
}

/// The application protocols (ALPN): two elements of one kind refuse each other in the handshake.
const CALLER_SENDS: &[u8] = b"tack-gst-push/1";
const CALLER_RECEIVES: &[u8] = b"tack-gst-play/1";

/// A connection on which nothing arrives for this long is given up, milliseconds.
const IDLE_TIMEOUT_MS: u64 = 10_000;
/// Addresses and ports that a peer may have one after the other: quiche keeps a path for each, as many as it takes
/// connection ids.
const MAX_ADDRESSES: u64 = 64;
/// What a receiver takes that it has not read, in bytes and in frames: some seconds.
const WINDOW: u64 = 16 << 20;
const FRAMES: u64 = 512;
/// Requests for key frames that wait to be read, bytes.
const REQUESTS: u64 = 1024;

/// The application error code of a close for which nothing is wrong.
pub(crate) const DONE: u64 = 0;
/// That of a caller that does not trust the listener.
pub(crate) const UNTRUSTED: u64 = 1;
/// That of a peer that breaks the protocol, or a stream that cannot be sent.
pub(crate) const FAILED: u64 = 2;
/// That of a listener that has a sender already.
pub(crate) const BUSY: u64 = 3;

/// A configuration, and the certificate's fingerprint for a listener.
pub(crate) struct Quic {
    pub config: Config,
    pub fingerprint: Option<Fingerprint>,
}

/// The configuration of an element.
pub(crate) fn configure(settings: &Settings, direction: Direction) -> Result<Quic, Error> {
    let mut config = Config::new(quiche::PROTOCOL_VERSION)?;
    let caller_sends = (settings.mode == Mode::Caller) == (direction == Direction::Send);
    let protocol = if caller_sends { CALLER_SENDS } else { CALLER_RECEIVES };
    config.set_application_protos(&[protocol])?;
    config.set_max_idle_timeout(IDLE_TIMEOUT_MS);
    config.set_initial_rtt(tack_endpoint::INITIAL_RTT);
    config.set_active_connection_id_limit(MAX_ADDRESSES);
    config.set_profile(settings.profile.into());
    match direction {
        Direction::Receive => {
            config.set_initial_max_streams_bidi(1);
            config.set_initial_max_stream_data_bidi_remote(MAX_END as u64);
            config.set_initial_max_streams_uni(FRAMES);
            config.set_initial_max_stream_data_uni(WINDOW);
            config.set_initial_max_data(WINDOW);
            config.set_max_connection_window(WINDOW);
            config.set_max_stream_window(WINDOW);
        }
        Direction::Send => {
            config.set_initial_max_streams_uni(1);
            config.set_initial_max_stream_data_uni(REQUESTS);
            config.set_initial_max_data(REQUESTS);
        }
    }
    let fingerprint = match settings.mode {
        Mode::Caller => {
            verify(&mut config, settings)?;
            None
        }
        Mode::Listener => Some(identify(&mut config, settings)?),
    };
    Ok(Quic { config, fingerprint })
}

/// What the handshake checks for a caller.
fn verify(config: &mut Config, settings: &Settings) -> Result<(), Error> {
    let trust = Trust::from_settings(settings).map_err(Error::Settings)?;
    config.verify_peer(trust == Trust::Authorities);
    if let Some(path) = settings.ca_file.as_deref() {
        config.load_verify_locations_from_file(text(path)?).map_err(|_| {
            Error::Settings(format!("{}: not a file of certificates", path.display()))
        })?;
    }
    Ok(())
}

/// Gives a listener its certificate, or one that is made now.
fn identify(config: &mut Config, settings: &Settings) -> Result<Fingerprint, Error> {
    match (settings.certificate.as_deref(), settings.private_key.as_deref()) {
        (Some(certificate), Some(key)) => load(config, certificate, key),
        (None, None) => {
            let failed = |why: &dyn std::fmt::Display| {
                Error::Settings(format!("cannot make a certificate: {why}; set `certificate`"))
            };
            let names = vec!["localhost".to_owned(), settings.host.clone()];
            let made = rcgen::generate_simple_self_signed(names).map_err(|e| failed(&e))?;
            let file = || -> std::io::Result<NamedTempFile> {
                // quiche reads files only. Nobody else may read this one.
                let mut file = NamedTempFile::new()?;
                file.write_all(made.cert.pem().as_bytes())?;
                file.write_all(made.signing_key.serialize_pem().as_bytes())?;
                Ok(file)
            };
            let file = file().map_err(|e| failed(&e))?;
            load(config, file.path(), file.path())
        }
        (certificate, _) => {
            let missing = if certificate.is_some() { "private-key" } else { "certificate" };
            Err(Error::Settings(format!(
                "`certificate` and `private-key` go together: set `{missing}`, too"
            )))
        }
    }
}

fn load(config: &mut Config, certificate: &Path, key: &Path) -> Result<Fingerprint, Error> {
    let pem = fs::read(certificate)
        .map_err(|e| Error::Settings(format!("{}: {e}", certificate.display())))?;
    let not_pem = || {
        Error::Settings(format!("{}: not a certificate in PEM format", certificate.display()))
    };
    config.load_cert_chain_from_pem_file(text(certificate)?).map_err(|_| not_pem())?;
    config.load_priv_key_from_pem_file(text(key)?).map_err(|_| {
        Error::Settings(format!(
            "{}: not a private key in PEM format, or not the certificate's",
            key.display()
        ))
    })?;
    Fingerprint::of_pem(&pem).ok_or_else(not_pem)
}

fn text(path: &Path) -> Result<&str, Error> {
    path.to_str().ok_or_else(|| {
        Error::Settings(format!("{}: the path must be valid UTF-8", path.display()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listener() -> Settings {
        Settings { mode: Mode::Listener, ..Settings::default() }
    }

    #[test]
    fn a_listener_without_a_certificate_makes_one_and_tells_its_fingerprint() {
        let first = configure(&listener(), Direction::Send).unwrap().fingerprint.unwrap();
        let second = configure(&listener(), Direction::Send).unwrap().fingerprint.unwrap();
        assert_ne!(first, second);
    }

    #[test]
    fn settings_that_cannot_be_used_are_told_with_their_property_or_file() {
        let error = |settings: &Settings| {
            configure(settings, Direction::Send).err().unwrap().to_string()
        };
        let half = Settings { certificate: Some("/nowhere.pem".into()), ..listener() };
        assert!(error(&half).contains("`private-key`"));
        let missing = Settings { private_key: Some("/nowhere.pem".into()), ..half };
        assert!(error(&missing).contains("/nowhere.pem"));
        let digits = Settings { fingerprint: Some("12".into()), ..Settings::default() };
        assert!(error(&digits).contains("`fingerprint`"));
        let authorities =
            Settings { ca_file: Some("/nowhere.pem".into()), ..Settings::default() };
        assert!(error(&authorities).contains("/nowhere.pem"));
    }
}
