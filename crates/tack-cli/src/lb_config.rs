//! What `tack serve` and a load balancer agree upon (draft-ietf-quic-load-balancers-21), in a file.
//!
//! The names are those of the draft's YANG model (appendix A):
//!
//! ```toml
//! config-id = 0
//! server-id-length = 2
//! nonce-length = 8
//! cid-key = "8f95f09245765f80256934e50c66207f"
//! first-octet-encodes-cid-length = true
//! server-id = "0a01"
//! ```
//!
//! All but the last are the same at all servers, where `--server-id` can take its place.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::str::FromStr;

use data_encoding::HEXLOWER_PERMISSIVE;
use serde::Deserialize;
use tack_endpoint::QuicLbConfig;

use crate::error::Error;
use crate::progress::print;

/// Longest file that is read, bytes.
const MOST_BYTES: u64 = 64 << 10;

/// Octets that are written as hexadecimal digits, with colons between them or without.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Octets(pub Vec<u8>);

impl FromStr for Octets {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let octets = HEXLOWER_PERMISSIVE.decode(text.replace(':', "").as_bytes());
        match octets {
            Ok(octets) if !octets.is_empty() => Ok(Self(octets)),
            _ => {
                Err("expected hexadecimal digits, two for each octet, such as 0a01".to_owned())
            }
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Settings {
    config_id: u8,
    server_id_length: Option<usize>,
    nonce_length: usize,
    cid_key: Option<String>,
    #[serde(default)]
    first_octet_encodes_cid_length: bool,
    server_id: Option<String>,
}

/// Reads the file at `path`; `server_id` takes the place of the one in it.
pub fn read(path: &Path, server_id: Option<&Octets>) -> Result<QuicLbConfig, Error> {
    let mut text = String::new();
    let file = File::open(path).map_err(Error::local(path))?;
    let mode = file.metadata().map_err(Error::local(path))?.mode();
    file.take(MOST_BYTES).read_to_string(&mut text).map_err(Error::local(path))?;
    let refuse = |text: &str| Error::Usage(format!("{}: {text}", path.display()));
    let settings: Settings = toml::from_str(&text).map_err(|error| {
        // Without the line itself, which may be that of the key.
        let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
        let line = 1 + before.bytes().filter(|byte| *byte == b'\n').count();
        refuse(&format!("line {line}: {}", error.message()))
    })?;
    if settings.cid_key.is_some() && mode & 0o077 != 0 {
        print(&format!("{}: other users may read the key; chmod 600 it", path.display()));
    }
    configuration(settings, server_id).map_err(|text| refuse(&text))
}

fn configuration(
    settings: Settings,
    server_id: Option<&Octets>,
) -> Result<QuicLbConfig, String> {
    let server_id = match (server_id, settings.server_id) {
        (Some(octets), _) => octets.clone(),
        (None, Some(text)) => text.parse().map_err(|error| format!("server-id: {error}"))?,
        (None, None) => {
            return Err("no server-id; set it there, or pass --server-id HEX".to_owned());
        }
    };
    let length = server_id.0.len();
    if let Some(expected) = settings.server_id_length.filter(|expected| *expected != length) {
        return Err(format!("server-id-length is {expected}, and the server id has {length}"));
    }
    let key = match settings.cid_key {
        None => None,
        Some(text) => {
            let octets = text.parse::<Octets>().map_err(|error| format!("cid-key: {error}"))?;
            let key = <[u8; 16]>::try_from(octets.0)
                .map_err(|octets| format!("cid-key has {} octets, not 16", octets.len()))?;
            Some(key)
        }
    };
    Ok(QuicLbConfig {
        config_id: settings.config_id,
        server_id: server_id.0,
        nonce_len: settings.nonce_length,
        key,
        first_octet_encodes_cid_length: settings.first_octet_encodes_cid_length,
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const GUIDE: &str = include_str!("../../../docs/deploying.md");

    fn parse(text: &str, server_id: Option<&str>) -> Result<QuicLbConfig, String> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lb.toml");
        fs::write(&path, text).unwrap();
        let server_id = server_id.map(|text| text.parse().unwrap());
        read(&path, server_id.as_ref()).map_err(|error| error.to_string())
    }

    #[test]
    fn the_guides_file_is_read_and_the_command_line_says_which_server_it_is() {
        let (_, block) = GUIDE.split_once("```toml\n").unwrap();
        let (text, _) = block.split_once("```").unwrap();
        let config = parse(text, Some("0A:02")).unwrap();
        assert_eq!((config.config_id, config.nonce_len, config.server_id), (0, 8, vec![10, 2]));
        assert!(config.key.is_some() && config.first_octet_encodes_cid_length);
        assert!(parse(text, None).unwrap_err().contains("--server-id"));
        assert!(parse(text, Some("0a")).unwrap_err().contains("server-id-length is 2"));
    }

    #[test]
    fn what_is_not_said_has_the_defaults_of_the_draft() {
        let config =
            parse("config-id = 3\nnonce-length = 4\nserver-id = \"01\"", None).unwrap();
        assert_eq!((config.key, config.first_octet_encodes_cid_length), (None, false));
    }

    #[test]
    fn mistakes_are_told_with_their_line_and_without_the_key() {
        let key = "8f95f09245765f80256934e50c66207f";
        for (text, expected) in [
            ("config-id = 0\nnonce-len = 8", "line 2"),
            ("config-id = 300\nnonce-length = 8", "line 1"),
            ("nonce-length = 8", "config-id"),
            ("config-id = 0\nnonce-length = 8\nserver-id = \"0\"", "two for each octet"),
            ("config-id = 0\nnonce-length = 8\nserver-id = \"01\"\ncid-key = \"00\"", "not 16"),
            (&format!("config-id = 0\ncid-key = {key}"), "line 2"),
        ] {
            let error = parse(text, None).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
            assert!(error.contains("lb.toml") && !error.contains(key), "{error}");
        }
    }
}
