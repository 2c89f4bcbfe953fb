//! A group that no server is to accept: it makes the server ask for another key share.

use rustls::NamedGroup;
use rustls::crypto::{ActiveKeyExchange, SharedSecret, SupportedKxGroup};

/// Offers secp521r1 with a key share that nothing can be agreed on with.
#[derive(Debug)]
pub struct RefusedGroup;

struct Share([u8; SHARE_LEN]);

/// Of an uncompressed point (RFC 8446 section 4.2.8.2).
const SHARE_LEN: usize = 133;
const UNCOMPRESSED: u8 = 4;

impl SupportedKxGroup for RefusedGroup {
    fn start(&self) -> Result<Box<dyn ActiveKeyExchange>, rustls::Error> {
        let mut share = [1; SHARE_LEN];
        share[0] = UNCOMPRESSED;
        Ok(Box::new(Share(share)))
    }

    fn name(&self) -> NamedGroup {
        NamedGroup::secp521r1
    }
}

impl ActiveKeyExchange for Share {
    fn complete(self: Box<Self>, _: &[u8]) -> Result<SharedSecret, rustls::Error> {
        Err(rustls::Error::General("the server accepted the group".to_owned()))
    }

    fn pub_key(&self) -> &[u8] {
        &self.0
    }

    fn group(&self) -> NamedGroup {
        NamedGroup::secp521r1
    }
}
