//! Decides what becomes of a datagram: which connection gets it, or what answers it.
//!
//! The router touches no socket and no connection, and allocates nothing for a client that has
//! not shown that it receives at the address it sends from (when Retry is on).

use std::net::SocketAddr;
use std::time::Instant;

use quiche::{ConnectionId, Type};
use ring::rand::{SecureRandom, SystemRandom};

use crate::connection_ids::{CID_LEN, Cid, ConnectionIds};
use crate::handle::Handle;
use crate::header::Invariants;
use crate::retry_token::RetryTokens;
use crate::stateless_reset::{Noise, ResetKey, ResetLimit};
use crate::stats::DropReason;
use crate::{EndpointConfig, Error};

pub(crate) struct Router {
    pub(crate) ids: ConnectionIds,
    random: SystemRandom,
    retry: Option<RetryTokens>,
    reset_key: ResetKey,
    reset_limit: ResetLimit,
    is_server: bool,
}

/// What to do with a datagram.
#[derive(Debug)]
pub(crate) enum Route {
    /// It belongs to this connection.
    Connection(Handle),
    /// It opens a connection.
    Accept(Admission),
    /// Send this back to where it came from.
    Reply(Reply, Vec<u8>),
    Drop(DropReason),
}

/// How to accept a connection.
#[derive(Debug)]
pub(crate) struct Admission {
    /// Our connection ID; after a Retry, the one the Retry named, which quiche takes for the
    /// `retry_source_connection_id` too.
    pub(crate) scid: Cid,
    /// After a Retry: the ID the client had made up before it.
    pub(crate) odcid: Option<ConnectionId<'static>>,
    /// Without a Retry: the ID the client made up and goes on using during the handshake.
    pub(crate) initial_dcid: Option<Vec<u8>>,
}

/// The kinds of answers that need no connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    Retry,
    VersionNegotiation,
    Reset,
}

/// A client must give us at least this many bytes of entropy to begin with (RFC 9000 7.2).
const MIN_INITIAL_DCID_LEN: usize = 8;

impl Router {
    pub(crate) fn new(
        config: &EndpointConfig,
        is_server: bool,
        now: Instant,
    ) -> Result<Self, Error> {
        let random = SystemRandom::new();
        let mut retry_key = [0; 32];
        random.fill(&mut retry_key).map_err(|_| Error::Random)?;
        let mut reset_key = [0; 32];
        random.fill(&mut reset_key).map_err(|_| Error::Random)?;
        Ok(Self {
            ids: ConnectionIds::default(),
            random,
            retry: config
                .retry
                .then(|| RetryTokens::new(&retry_key, now, config.retry_token_lifetime)),
            reset_key: ResetKey::new(config.reset_key.as_ref().unwrap_or(&reset_key)),
            reset_limit: ResetLimit::new(now),
            is_server,
        })
    }

    /// Routes one datagram. `accepting` says whether a new connection may be opened.
    pub(crate) fn route(
        &mut self,
        now: Instant,
        from: SocketAddr,
        datagram: &mut [u8],
        accepting: bool,
    ) -> Route {
        match Invariants::parse(datagram) {
            None => Route::Drop(DropReason::Malformed),
            Some(Invariants::Short { dcid }) => match self.ids.find(from, &dcid) {
                Some(handle) => Route::Connection(handle),
                None => self
                    .received_reset(from, datagram)
                    .map_or_else(|| self.reset(now, dcid, datagram.len()), Route::Connection),
            },
            Some(Invariants::Long { version, dcid, scid }) => {
                if let Some(handle) = self.ids.find(from, dcid) {
                    return Route::Connection(handle);
                }
                if !self.is_server || version == 0 {
                    return Route::Drop(DropReason::UnknownConnection);
                }
                // RFC 9000 sections 5.2.2 and 14.1: what could open a connection fills at least
                // 1200 bytes; anything shorter must not make us answer with more.
                if datagram.len() < quiche::MIN_CLIENT_INITIAL_LEN {
                    return Route::Drop(DropReason::TooShort);
                }
                if !quiche::version_is_supported(version) {
                    return negotiate_version(scid, dcid);
                }
                self.open(now, from, datagram, accepting)
            }
        }
    }

    /// A new connection ID and the token that resets it.
    pub(crate) fn new_id(&self) -> Result<(Cid, u128), Error> {
        let mut cid = [0; CID_LEN];
        self.random.fill(&mut cid).map_err(|_| Error::Random)?;
        Ok((cid, self.reset_key.token(cid)))
    }

    pub(crate) fn reset_token(&self, cid: Cid) -> u128 {
        self.reset_key.token(cid)
    }

    /// Has packets that end in this token count as resets, by `server`, of a connection that we
    /// opened to it.
    pub(crate) fn expect_reset(&mut self, server: SocketAddr, token: u128, handle: Handle) {
        let mark = self.reset_key.mark(&token.to_be_bytes());
        self.ids.insert_reset((server, mark), handle);
    }

    /// The connection that a packet is a stateless reset of: its connection ID is noise, its end
    /// says it (RFC 9000 section 10.3.1).
    fn received_reset(&self, from: SocketAddr, packet: &[u8]) -> Option<Handle> {
        if !self.ids.has_resets() {
            return None;
        }
        self.ids.find_reset(&(from, self.reset_key.mark_of_packet(packet)?))
    }

    /// A first Initial of a client, or something that looks like one.
    fn open(
        &self,
        now: Instant,
        from: SocketAddr,
        datagram: &mut [u8],
        accepting: bool,
    ) -> Route {
        let Ok(header) = quiche::Header::from_slice(datagram, CID_LEN) else {
            return Route::Drop(DropReason::Malformed);
        };
        if header.ty != Type::Initial {
            return Route::Drop(DropReason::UnknownConnection);
        }
        if header.dcid.len() < MIN_INITIAL_DCID_LEN {
            return Route::Drop(DropReason::Malformed);
        }
        if !accepting {
            return Route::Drop(DropReason::NotAccepting);
        }
        let Some(retry) = &self.retry else {
            let Ok((scid, _)) = self.new_id() else {
                return Route::Drop(DropReason::NotAccepting);
            };
            let initial_dcid = Some(header.dcid.to_vec());
            return Route::Accept(Admission { scid, odcid: None, initial_dcid });
        };

        let token = header.token.as_deref().unwrap_or_default();
        let validated = <Cid>::try_from(header.dcid.as_ref())
            .ok()
            .and_then(|scid| Some((scid, retry.verify(now, from, token, scid)?)));
        match validated {
            Some((scid, odcid)) => {
                Route::Accept(Admission { scid, odcid: Some(odcid), initial_dcid: None })
            }
            // RFC 9000 section 8.1.3: a token that does not validate is as good as none.
            None => self.retry(retry, now, from, &header),
        }
    }

    fn retry(
        &self,
        tokens: &RetryTokens,
        now: Instant,
        from: SocketAddr,
        header: &quiche::Header<'_>,
    ) -> Route {
        let Ok((retry_scid, _)) = self.new_id() else {
            return Route::Drop(DropReason::NotAccepting);
        };
        let token = tokens.mint(now, from, &header.dcid, retry_scid);
        let mut out = vec![0; 256];
        let written = quiche::retry(
            &header.scid,
            &header.dcid,
            &ConnectionId::from_ref(&retry_scid),
            &token,
            header.version,
            &mut out,
        );
        reply(Reply::Retry, out, written)
    }

    fn reset(&mut self, now: Instant, dcid: Cid, triggering_len: usize) -> Route {
        let mut noise = Noise::default();
        // Clients announce no reset tokens with their handshake, so theirs would mean nothing.
        if !self.is_server || self.random.fill(&mut noise).is_err() {
            return Route::Drop(DropReason::UnknownConnection);
        }
        match self.reset_key.packet(dcid, triggering_len, &noise) {
            None => Route::Drop(DropReason::TooShort),
            Some(_) if !self.reset_limit.permit(now) => Route::Drop(DropReason::ResetLimited),
            Some(packet) => Route::Reply(Reply::Reset, packet),
        }
    }
}

fn negotiate_version(scid: &[u8], dcid: &[u8]) -> Route {
    // Both IDs are echoed; those of an unknown version have up to 255 bytes.
    let mut out = vec![0; 1024];
    let written = quiche::negotiate_version(
        &ConnectionId::from_ref(scid),
        &ConnectionId::from_ref(dcid),
        &mut out,
    );
    reply(Reply::VersionNegotiation, out, written)
}

fn reply(kind: Reply, mut out: Vec<u8>, written: quiche::Result<usize>) -> Route {
    match written {
        Ok(len) => {
            out.truncate(len);
            Route::Reply(kind, out)
        }
        Err(_) => Route::Drop(DropReason::Malformed),
    }
}

#[cfg(test)]
#[path = "router_tests.rs"]
mod tests;
