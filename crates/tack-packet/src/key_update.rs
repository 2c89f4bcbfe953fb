//! Key updates of both directions together (RFC 9001 section 6).

use std::time::{Duration, Instant};

use crate::{
    CipherSuite, Error, FirstBytes, IncomingKeys, Opened, OutgoingKeys, ProtectedHeader,
    WrittenPacket, incoming::PTOS_AFTER_UPDATE,
};

/// The keys of a connection between a stack and the wire, and the key updates of either.
///
/// The stack need not be able to update its keys: it is enough that it follows its peer, by which
/// its keys of both directions change together with the first packet of the next generation
/// that it accepts.
///
/// - **This end updates** ([`initiate_update`](Self::initiate_update)). From then on all packets
///   are sealed again in the next generation on their way out. The peer answers in that
///   generation, its packet goes to the stack as it came, and with that the stack follows. What
///   it writes then may leave as it is.
/// - **The peer updates.** Its packet goes to the stack as it came, the stack follows, and the
///   wire follows what the stack writes.
/// - **Both update at once.** Each takes the other's packets for the answer.
///
/// A stack does not follow before its handshake is confirmed. The peer's confirmation may come
/// first, and its first update with it: until
/// [`on_handshake_confirmed`](Self::on_handshake_confirmed), packets of that update are
/// translated in both directions.
#[derive(Debug)]
pub struct PacketProtection {
    incoming: IncomingKeys,
    outgoing: OutgoingKeys,
    handshake_confirmed: bool,
    acknowledged: Option<Acknowledged>,
}

/// The first acknowledgement of a packet of some generation.
#[derive(Clone, Copy, Debug)]
struct Acknowledged {
    generation: u64,
    /// When the next update may follow.
    next_update: Instant,
}

impl PacketProtection {
    /// Keys that follow from the secrets of the `CLIENT_TRAFFIC_SECRET_0` and
    /// `SERVER_TRAFFIC_SECRET_0` lines of a key log: that of the peer, and that of this end.
    ///
    /// Fails with [`Error::SecretLength`] if one of them is not of this suite.
    pub fn new(
        suite: CipherSuite,
        incoming_secret: &[u8],
        outgoing_secret: &[u8],
    ) -> Result<Self, Error> {
        let mut incoming = IncomingKeys::new(suite, incoming_secret)?;
        incoming.set_stack_follows(false);
        let outgoing = OutgoingKeys::new(suite, outgoing_secret)?;
        Ok(Self { incoming, outgoing, handshake_confirmed: false, acknowledged: None })
    }

    /// The keys of the packets from the peer.
    pub fn incoming(&self) -> &IncomingKeys {
        &self.incoming
    }

    /// The keys of the packets to the peer.
    pub fn outgoing(&self) -> &OutgoingKeys {
        &self.outgoing
    }

    /// See [`IncomingKeys::read_header`].
    #[inline]
    pub fn read_header(
        &self,
        packet: &[u8],
        dcid_len: usize,
        expected_pn: u64,
    ) -> Result<ProtectedHeader, Error> {
        self.incoming.read_header(packet, dcid_len, expected_pn)
    }

    /// See [`IncomingKeys::first_bytes`].
    #[inline]
    pub fn first_bytes(&self, packet: &[u8], header: &ProtectedHeader) -> Option<FirstBytes> {
        self.incoming.first_bytes(packet, header)
    }

    /// See [`IncomingKeys::open`].
    pub fn open(
        &mut self,
        packet: &[u8],
        header: ProtectedHeader,
        scratch: &mut Vec<u8>,
    ) -> Result<Opened, Error> {
        let opened = self.incoming.open(packet, header, scratch)?;
        if self.incoming.needs_translation(opened.generation) {
            // RFC 9001 section 6.2: the answer is due, and the stack cannot write it.
            self.outgoing.lead_stack();
        }
        Ok(opened)
    }

    /// Whether a packet that was opened must go to the stack by
    /// [`seal_for_stack`](Self::seal_for_stack), even with the frames that it had.
    pub fn needs_translation(&self, opened: &Opened) -> bool {
        self.incoming.needs_translation(opened.generation)
    }

    /// See [`IncomingKeys::seal_for_stack`].
    pub fn seal_for_stack(
        &self,
        opened: &Opened,
        clear_mark: bool,
        frames: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), Error> {
        self.incoming.seal_for_stack(opened, clear_mark, frames, out)
    }

    /// See [`IncomingKeys::on_failed_open`].
    pub fn on_failed_open(&mut self) {
        self.incoming.on_failed_open();
    }

    /// Whether keys from before a key update are kept.
    #[inline]
    pub fn has_previous(&self) -> bool {
        self.incoming.generations().has_previous()
    }

    /// See [`IncomingKeys::discard_previous`].
    pub fn discard_previous(&mut self, now: Instant, pto: Duration) {
        self.incoming.discard_previous(now, pto);
    }

    /// See [`OutgoingKeys::authenticates`].
    pub fn authenticates(
        &self,
        packet: &[u8],
        dcid_len: usize,
        expected_pn: u64,
        scratch: &mut Vec<u8>,
    ) -> bool {
        self.outgoing.authenticates(packet, dcid_len, expected_pn, scratch)
    }

    /// See [`OutgoingKeys::take`].
    #[inline]
    pub fn take<'k, 'b>(
        &'k mut self,
        buf: &'b mut [u8],
        len: usize,
        dcid_len: usize,
        expected_pn: u64,
    ) -> Result<WrittenPacket<'k, 'b>, Error> {
        self.outgoing.take(buf, len, dcid_len, expected_pn)
    }

    /// The stack has confirmed its handshake (RFC 9001 section 4.1.2): a server's when it is
    /// complete, a client's when it has accepted HANDSHAKE_DONE. From then on it follows key
    /// updates, and this end may initiate them.
    pub fn on_handshake_confirmed(&mut self) {
        self.handshake_confirmed = true;
        self.incoming.set_stack_follows(true);
    }

    /// The peer acknowledges these packet numbers in a packet that was opened with the keys of
    /// `generation` ([`Opened::generation`]). The packet that carries the acknowledgement must
    /// have been accepted.
    ///
    /// Fails with [`Error::KeyUpdate`] if the acknowledged packets had newer keys: the peer
    /// must update its own before it acknowledges such a packet (RFC 9001 section 6.2).
    pub fn on_acknowledged(
        &mut self,
        now: Instant,
        pto: Duration,
        largest_acknowledged: u64,
        generation: u64,
    ) -> Result<(), Error> {
        let wire = self.outgoing.wire_generation();
        if !self.outgoing.is_of_wire_generation(largest_acknowledged) {
            return Ok(());
        }
        if generation < wire {
            return Err(Error::KeyUpdate);
        }
        if self.acknowledged.is_some_and(|acknowledged| acknowledged.generation == wire) {
            return Ok(());
        }
        // RFC 9001 section 6.5; before the first update there is nothing to wait for.
        let wait = if wire == 0 { Duration::ZERO } else { pto * PTOS_AFTER_UPDATE };
        self.acknowledged = Some(Acknowledged { generation: wire, next_update: now + wait });
        Ok(())
    }

    /// Whether this end may update its keys now.
    ///
    /// For that the handshake is confirmed, the peer has acknowledged a packet of this generation
    /// in keys as new, which answers the last update (RFC 9001 section 6.1), three probe timeouts
    /// have passed since (section 6.5), and the stack has followed: it has written a packet.
    pub fn can_update(&self, now: Instant) -> bool {
        let wire = self.outgoing.wire_generation();
        self.handshake_confirmed
            && !self.outgoing.wire_is_ahead()
            && self.acknowledged.is_some_and(|acknowledged| {
                acknowledged.generation == wire && acknowledged.next_update <= now
            })
    }

    /// Updates the keys of this end: the next packet leaves in the next generation.
    ///
    /// Fails with [`Error::UpdateNotAllowed`] unless [`can_update`](Self::can_update).
    pub fn initiate_update(&mut self, now: Instant) -> Result<(), Error> {
        if !self.can_update(now) {
            return Err(Error::UpdateNotAllowed);
        }
        self.outgoing.lead_stack();
        Ok(())
    }
}
