//! Decides what becomes of a datagram: which connection gets it, or what answers it.
//!
//! The router touches no socket and no connection. With a Retry it keeps no state for a client whose
//! address is not validated (RFC 9000 section 8.1.2).

use std::net::SocketAddr;
use std::time::Instant;

use quiche::ConnectionId;
use ring::rand::{SecureRandom, SystemRandom};
use tack_packet::{Invariants, LongHeader, LongPacketType};

use crate::cid_generator::CidGenerator;
use crate::connection_ids::{Cid, ConnectionIds};
use crate::handle::Handle;
use crate::initial_close;
use crate::retry_token::{RetryTokens, TokenError};
use crate::stateless_reset::{ResetKey, ResetLimit, UnpredictableBits};
use crate::stats::DropReason;
use crate::workers::Worker;
use crate::{EndpointConfig, Error};

pub(crate) struct Router {
    pub(crate) ids: ConnectionIds,
    generator: CidGenerator,
    random: SystemRandom,
    retry: RetryTokens,
    reset_key: ResetKey,
    reset_limit: ResetLimit,
    is_server: bool,
}

/// What to do with a datagram.
#[derive(Debug)]
pub(crate) enum Route {
    /// It belongs to this connection.
    Connection(Handle),
    /// It is for this other worker.
    Forward(usize),
    /// It opens a connection.
    Accept(Admission),
    /// Send this back to where it came from.
    Reply(Reply, Vec<u8>),
    Drop(DropReason),
}

/// Whether a datagram may open a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Opening {
    /// There are too many connections, or the endpoint shuts down.
    Refused,
    /// Once a Retry has validated the client's address.
    WithRetry,
    /// At once.
    Direct,
}

/// How to accept a connection.
#[derive(Debug)]
pub(crate) struct Admission {
    /// Our connection ID, which has not been on the wire before. It is not that of a Retry: whoever saw the Retry could have had
    /// the reset token of that ID before there was a connection (RFC 9000 section 21.11).
    pub(crate) scid: Cid,
    /// The destination ID of this Initial, which the client uses until it has an answer: what it has made up, or
    /// after a Retry the source ID of that.
    pub(crate) initial_dcid: Vec<u8>,
    /// After a Retry: the destination ID of the client's first Initial.
    pub(crate) odcid: Option<ConnectionId<'static>>,
}

/// The kinds of answers that need no connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    Retry,
    /// The close of a client whose Retry token has expired.
    InvalidToken,
    VersionNegotiation,
    Reset,
}

/// The shortest destination connection id that a client makes up (RFC 9000 section 7.2). That of a Retry may be shorter.
const MIN_INITIAL_DCID_LEN: usize = 8;

/// How often to draw a connection id until one is free.
const MAX_DRAWS: usize = 8;

/// The header form bit (RFC 8999 section 5.1).
const LONG_FORM: u8 = 0x80;

impl Router {
    pub(crate) fn new(
        config: &EndpointConfig,
        is_server: bool,
        now: Instant,
        worker: &Worker,
    ) -> Result<Self, Error> {
        let (keys, index) = (worker.keys(), worker.index());
        let retry = RetryTokens::new(&keys.retry, keys.epoch, config.retry_token_lifetime);
        // A client is known to no load balancer.
        let quic_lb = config.quic_lb.as_ref().filter(|_| is_server);
        Ok(Self {
            ids: ConnectionIds::default(),
            generator: CidGenerator::new(quic_lb, index, &keys.mask)?,
            random: SystemRandom::new(),
            retry,
            reset_key: ResetKey::new(config.reset_key.as_ref().unwrap_or(&keys.reset)),
            reset_limit: ResetLimit::new(now, index.count),
            is_server,
        })
    }

    /// Routes one datagram that came to the socket.
    pub(crate) fn route(
        &mut self,
        now: Instant,
        from: SocketAddr,
        datagram: &[u8],
        opening: Opening,
    ) -> Route {
        match self.other_worker(from, datagram) {
            Some(worker) => Route::Forward(worker),
            None => self.route_here(now, from, datagram, opening),
        }
    }

    /// The worker that a datagram is for, if it is another one.
    fn other_worker(&self, from: SocketAddr, datagram: &[u8]) -> Option<usize> {
        if !self.generator.has_workers() {
            return None;
        }
        let dcid = match Invariants::parse(datagram) {
            Some(Invariants { version: 0, .. }) => return None,
            Some(header) => header.dcid,
            None => self.short_dcid(datagram)?,
        };
        // Most are this worker's, and what the peer chose for its first Initial may look like another's.
        if self.ids.find(from, dcid).is_some() {
            return None;
        }
        self.generator.other_worker(dcid)
    }

    /// Routes one datagram that is this worker's, or that another one took for this worker's.
    pub(crate) fn route_here(
        &mut self,
        now: Instant,
        from: SocketAddr,
        datagram: &[u8],
        opening: Opening,
    ) -> Route {
        let Some(Invariants { version, dcid, scid }) = Invariants::parse(datagram) else {
            return self.route_short(now, from, datagram);
        };
        if let Some(handle) = self.ids.find(from, dcid) {
            return Route::Connection(handle);
        }
        if !self.is_server || version == 0 {
            return Route::Drop(DropReason::UnknownConnection);
        }
        // RFC 9000 sections 5.2.2 and 14.1: what may open a connection fills at least 1200 bytes,
        // and a shorter datagram must not be answered with a longer one.
        if datagram.len() < quiche::MIN_CLIENT_INITIAL_LEN {
            return Route::Drop(DropReason::TooShort);
        }
        if !quiche::version_is_supported(version) {
            return negotiate_version(scid, dcid);
        }
        self.open(now, from, datagram, opening)
    }

    /// The connection id in a short header. Only the endpoint knows its length, which it chose itself.
    fn short_dcid<'a>(&self, datagram: &'a [u8]) -> Option<&'a [u8]> {
        match datagram.split_first() {
            Some((first, rest)) if first & LONG_FORM == 0 => {
                rest.get(..self.generator.cid_len())
            }
            _ => None,
        }
    }

    /// A datagram that begins with a short header, or ends within a long one.
    fn route_short(&mut self, now: Instant, from: SocketAddr, datagram: &[u8]) -> Route {
        let Some(dcid) = self.short_dcid(datagram) else {
            return Route::Drop(DropReason::Malformed);
        };
        match self.ids.find(from, dcid).or_else(|| self.received_reset(from, datagram)) {
            Some(handle) => Route::Connection(handle),
            None => self.reset(now, dcid, datagram.len()),
        }
    }

    /// A new connection ID and the token that resets it.
    pub(crate) fn new_id(&mut self) -> Result<(Cid, u128), Error> {
        let cid = self.draw(CidGenerator::generate)?;
        Ok((cid, self.reset_key.token(&cid)))
    }

    /// An ID that no connection has at present.
    fn draw(
        &mut self,
        generate: fn(&mut CidGenerator) -> Result<Cid, Error>,
    ) -> Result<Cid, Error> {
        // Short nonces may come twice while one is in use.
        for _ in 0..MAX_DRAWS {
            let cid = generate(&mut self.generator)?;
            if !self.ids.is_taken(&cid) {
                return Ok(cid);
            }
        }
        Err(Error::Random)
    }

    /// Whether connections get more than one ID.
    pub(crate) fn has_spare_ids(&self) -> bool {
        self.generator.has_spare_ids()
    }

    pub(crate) fn reset_token(&self, cid: &[u8]) -> u128 {
        self.reset_key.token(cid)
    }

    /// Takes packets from `server` that end in this token for resets of a connection to it.
    pub(crate) fn expect_reset(&mut self, server: SocketAddr, token: u128, handle: Handle) {
        let hash = self.reset_key.token_hash(&token.to_be_bytes());
        self.ids.insert_reset((server, hash), handle);
    }

    /// The connection that a datagram is a stateless reset of, which its last bytes say (RFC 9000
    /// section 10.3.1).
    fn received_reset(&self, from: SocketAddr, packet: &[u8]) -> Option<Handle> {
        if !self.ids.has_resets() {
            return None;
        }
        self.ids.find_reset(&(from, self.reset_key.token_hash_of_packet(packet)?))
    }

    /// A first Initial of a client, or something that looks like one.
    fn open(
        &mut self,
        now: Instant,
        from: SocketAddr,
        datagram: &[u8],
        opening: Opening,
    ) -> Route {
        let Some(header) = LongHeader::parse(datagram) else {
            return Route::Drop(DropReason::Malformed);
        };
        if header.packet_type != LongPacketType::Initial {
            return Route::Drop(DropReason::UnknownConnection);
        }
        if opening == Opening::Refused {
            return Route::Drop(DropReason::NotAccepting);
        }
        let retry_scid = Some(header.dcid).filter(|id| id.len() == self.generator.cid_len());
        let verified = retry_scid.map(|scid| self.retry.verify(now, from, header.token, scid));
        match verified {
            Some(Ok(odcid)) => self.accept(&header, Some(odcid)),
            // RFC 9000 section 8.1.2: the client has had its Retry and ignores another.
            Some(Err(TokenError::Expired)) => refuse_token(&header),
            _ if header.dcid.len() < MIN_INITIAL_DCID_LEN => Route::Drop(DropReason::Malformed),
            // RFC 9000 section 8.1.3: a token that does not validate is as good as none. It may be
            // another server's, from a NEW_TOKEN frame.
            _ if opening == Opening::Direct => self.accept(&header, None),
            _ => self.retry(now, from, &header),
        }
    }

    /// Accepts a client. Without an `odcid` the handshake has to validate its address (RFC 9000 section 8.1).
    fn accept(
        &mut self,
        header: &LongHeader<'_>,
        odcid: Option<ConnectionId<'static>>,
    ) -> Route {
        let Ok((scid, _)) = self.new_id() else {
            return Route::Drop(DropReason::NotAccepting);
        };
        Route::Accept(Admission { scid, initial_dcid: header.dcid.to_vec(), odcid })
    }

    fn retry(&mut self, now: Instant, from: SocketAddr, header: &LongHeader<'_>) -> Route {
        let retry_scid = self.draw(CidGenerator::generate_for_retry);
        let Ok(retry_scid) = retry_scid else {
            return Route::Drop(DropReason::NotAccepting);
        };
        let token = self.retry.mint(now, from, header.dcid, &retry_scid);
        let mut out = vec![0; 256];
        let written = quiche::retry(
            &ConnectionId::from_ref(header.scid),
            &ConnectionId::from_ref(header.dcid),
            &ConnectionId::from_ref(&retry_scid),
            &token,
            header.version,
            &mut out,
        );
        reply(Reply::Retry, out, written)
    }

    fn reset(&mut self, now: Instant, dcid: &[u8], triggering_len: usize) -> Route {
        let mut unpredictable = UnpredictableBits::default();
        // A client announces no reset token in its handshake, so its reset would mean nothing.
        if !self.is_server || self.random.fill(&mut unpredictable).is_err() {
            return Route::Drop(DropReason::UnknownConnection);
        }
        match self.reset_key.packet(dcid, triggering_len, &unpredictable) {
            None => Route::Drop(DropReason::TooShort),
            Some(_) if !self.reset_limit.permit(now) => Route::Drop(DropReason::ResetLimited),
            Some(packet) => Route::Reply(Reply::Reset, packet),
        }
    }
}

fn refuse_token(header: &LongHeader<'_>) -> Route {
    match initial_close::invalid_token(header.scid, header.dcid) {
        Some(packet) => Route::Reply(Reply::InvalidToken, packet),
        None => Route::Drop(DropReason::NotAccepting),
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
