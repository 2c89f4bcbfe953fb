//! Address validation tokens for Retry packets (RFC 9000 section 8.1.2).

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use quiche::ConnectionId;
use ring::hmac;

/// Makes and checks the tokens; keeps no state per client.
///
/// A token is the time it was issued, the client's original destination ID, and a MAC over both,
/// the client's address and port, and the source ID of the Retry. The latter comes back as the
/// destination ID of the client's next Initial and so need not be in the token.
pub(crate) struct RetryTokens {
    key: hmac::Key,
    /// Times in tokens count from here.
    epoch: Instant,
    lifetime: Duration,
}

/// Why a token does not validate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TokenError {
    /// It was issued for this Retry and this client, too long ago.
    Expired,
    /// It was not issued here, or not for this Retry or this client.
    Unknown,
}

const TIME_LEN: usize = 8;
const TAG_LEN: usize = 32;

impl RetryTokens {
    pub(crate) fn new(key: &[u8; 32], epoch: Instant, lifetime: Duration) -> Self {
        Self { key: hmac::Key::new(hmac::HMAC_SHA256, key), epoch, lifetime }
    }

    pub(crate) fn mint(
        &self,
        now: Instant,
        client: SocketAddr,
        odcid: &[u8],
        retry_scid: &[u8],
    ) -> Vec<u8> {
        let issued = now.saturating_duration_since(self.epoch).as_millis() as u64;
        let mut token = issued.to_be_bytes().to_vec();
        token.extend_from_slice(odcid);
        let tag = hmac::sign(&self.key, &authenticated(&token, client, retry_scid));
        token.extend_from_slice(tag.as_ref());
        token
    }

    /// The original destination ID, if this client got this token in a Retry with this source ID
    /// no longer ago than the lifetime.
    pub(crate) fn verify(
        &self,
        now: Instant,
        client: SocketAddr,
        token: &[u8],
        retry_scid: &[u8],
    ) -> Result<ConnectionId<'static>, TokenError> {
        let (issued, odcid) =
            self.open(client, token, retry_scid).ok_or(TokenError::Unknown)?;
        if now.saturating_duration_since(issued) > self.lifetime {
            return Err(TokenError::Expired);
        }
        Ok(ConnectionId::from_vec(odcid.to_vec()))
    }

    /// The time and the ID in a token, if its MAC is right.
    fn open<'a>(
        &self,
        client: SocketAddr,
        token: &'a [u8],
        retry_scid: &[u8],
    ) -> Option<(Instant, &'a [u8])> {
        let (body, tag) = token.split_at_checked(token.len().checked_sub(TAG_LEN)?)?;
        // `verify` compares in constant time.
        hmac::verify(&self.key, &authenticated(body, client, retry_scid), tag).ok()?;
        let (issued, odcid) = body.split_first_chunk::<TIME_LEN>()?;
        let issued = Duration::from_millis(u64::from_be_bytes(*issued));
        Some((self.epoch.checked_add(issued)?, odcid))
    }
}

/// What the MAC covers. Every part but the body, which comes last, has a fixed length, as all source IDs of
/// an endpoint have the same.
fn authenticated(body: &[u8], client: SocketAddr, retry_scid: &[u8]) -> Vec<u8> {
    let ip = match client.ip() {
        std::net::IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        std::net::IpAddr::V6(ip) => ip,
    };
    let mut input = Vec::with_capacity(16 + 2 + retry_scid.len() + body.len());
    input.extend_from_slice(&ip.octets());
    input.extend_from_slice(&client.port().to_be_bytes());
    input.extend_from_slice(retry_scid);
    input.extend_from_slice(body);
    input
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a test needs some instant to start from")]
mod tests {
    use super::*;

    const ODCID: [u8; 8] = [7; 8];
    const SCID: &[u8] = &[5; 8];
    const LIFETIME: Duration = Duration::from_secs(10);

    fn client() -> SocketAddr {
        "192.0.2.1:4433".parse().unwrap()
    }

    fn tokens(epoch: Instant) -> RetryTokens {
        RetryTokens::new(&[1; 32], epoch, LIFETIME)
    }

    #[test]
    fn a_token_returns_the_original_id_until_it_expires() {
        let epoch = Instant::now();
        let tokens = tokens(epoch);
        let issued = epoch + Duration::from_secs(3);
        let token = tokens.mint(issued, client(), &ODCID, SCID);

        let odcid = tokens.verify(issued + LIFETIME, client(), &token, SCID);
        assert_eq!(odcid.as_deref(), Ok(&ODCID[..]));

        let late = issued + LIFETIME + Duration::from_millis(1);
        let expired = tokens.verify(late, client(), &token, SCID);
        assert_eq!(expired, Err(TokenError::Expired));
    }

    #[test]
    fn a_token_is_refused_from_another_address_or_port() {
        let now = Instant::now();
        let tokens = tokens(now);
        let token = tokens.mint(now, client(), &ODCID, SCID);
        for other in ["192.0.2.2:4433", "192.0.2.1:4434", "[2001:db8::1]:4433"] {
            assert_eq!(
                tokens.verify(now, other.parse().unwrap(), &token, SCID),
                Err(TokenError::Unknown)
            );
        }
    }

    #[test]
    fn a_token_is_refused_with_another_retry_source_id() {
        let now = Instant::now();
        let tokens = tokens(now);
        let token = tokens.mint(now, client(), &ODCID, SCID);
        assert_eq!(tokens.verify(now, client(), &token, &[6; 8]), Err(TokenError::Unknown));
    }

    #[test]
    fn a_token_with_any_bit_flipped_or_any_byte_missing_is_refused() {
        let now = Instant::now();
        let tokens = tokens(now);
        let token = tokens.mint(now, client(), &ODCID, SCID);
        for bit in 0..token.len() * 8 {
            let mut forged = token.clone();
            forged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(
                tokens.verify(now, client(), &forged, SCID),
                Err(TokenError::Unknown),
                "bit {bit}"
            );
        }
        for len in 0..token.len() {
            assert_eq!(
                tokens.verify(now, client(), &token[..len], SCID),
                Err(TokenError::Unknown),
                "{len}"
            );
        }
    }

    #[test]
    fn a_token_of_another_endpoint_is_refused() {
        let now = Instant::now();
        let token = tokens(now).mint(now, client(), &ODCID, SCID);
        let other = RetryTokens::new(&[2; 32], now, LIFETIME);
        assert_eq!(other.verify(now, client(), &token, SCID), Err(TokenError::Unknown));
    }
}
