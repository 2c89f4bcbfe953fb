//! Counters of the endpoint.

/// Counters of one [`Endpoint`](crate::Endpoint) since it was created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct EndpointStats {
    /// Datagrams received.
    pub datagrams_in: u64,
    /// UDP payload bytes received.
    pub bytes_in: u64,
    /// Datagrams received that carried a congestion mark (ECN CE).
    pub ecn_ce_in: u64,
    /// Receive system calls, those that found nothing included.
    pub recv_calls: u64,
    /// Receive system calls that failed. Each was tried again.
    pub recv_calls_failed: u64,
    /// ICMP port unreachable messages for datagrams of this endpoint
    /// ([`EndpointConfig::count_refusals`](crate::EndpointConfig::count_refusals)).
    pub refusals: u64,
    /// Datagrams sent.
    pub datagrams_out: u64,
    /// UDP payload bytes sent.
    pub bytes_out: u64,
    /// Send system calls, failed ones included.
    pub send_calls: u64,
    /// Send calls that had to wait because the socket buffer was full.
    pub send_blocked: u64,
    /// The most datagrams that one send call has carried (segmentation offload).
    pub gso_segments_max: usize,
    /// Connections accepted.
    pub accepted: u64,
    /// Accepted connections that closed before their handshake was done; no event told of them.
    pub handshakes_failed: u64,
    /// Datagrams that closed their connection with a connection error.
    ///
    /// The peer violated the protocol (RFC 9000 section 11.1).
    pub connection_errors: u64,
    /// Timers of connections that expired to no effect.
    ///
    /// They were postponed, so that the endpoint does not spin.
    pub stale_timers: u64,
    /// Retry packets sent.
    pub retries_sent: u64,
    /// Clients refused since the token of their Retry had expired.
    pub invalid_tokens: u64,
    /// Version Negotiation packets sent.
    pub version_negotiations_sent: u64,
    /// Stateless resets sent.
    pub resets_sent: u64,
    /// Datagrams handed to the worker that they were for.
    pub forwarded_out: u64,
    /// Datagrams that other workers have handed to this one. Those count as received where they came to the
    /// socket.
    pub forwarded_in: u64,
    /// Datagrams dropped, by reason.
    pub dropped: DropStats,
}

/// Datagrams dropped, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DropStats {
    /// Received, but not QUIC.
    pub malformed: u64,
    /// Received, but too short for what it claims to be or to be answered.
    pub too_short: u64,
    /// Received for a connection that does not exist and could not be opened.
    pub unknown_connection: u64,
    /// Wanted to open a connection when the endpoint was full or shutting down.
    pub not_accepting: u64,
    /// Received for a connection that does not exist, and not answered.
    ///
    /// The rate of stateless resets is limited.
    pub reset_limited: u64,
    /// Received where no answer can go: from port 0, or from or to an address of several hosts.
    pub unanswerable: u64,
    /// Received for another worker, which had no room for it.
    pub forwarding_full: u64,
    /// Received beyond [`EndpointConfig::receive_limit`](crate::EndpointConfig::receive_limit).
    pub receive_limit: u64,
    /// To be sent, but larger than the path takes; path MTU discovery tries that on purpose.
    pub too_large: u64,
    /// To be sent, but refused by the operating system.
    pub send_failed: u64,
}

/// Why a received datagram is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DropReason {
    Malformed,
    TooShort,
    UnknownConnection,
    NotAccepting,
    ResetLimited,
    Unanswerable,
    ForwardingFull,
    ReceiveLimit,
}

impl DropStats {
    pub(crate) fn count(&mut self, reason: DropReason) {
        *match reason {
            DropReason::Malformed => &mut self.malformed,
            DropReason::TooShort => &mut self.too_short,
            DropReason::UnknownConnection => &mut self.unknown_connection,
            DropReason::NotAccepting => &mut self.not_accepting,
            DropReason::ResetLimited => &mut self.reset_limited,
            DropReason::Unanswerable => &mut self.unanswerable,
            DropReason::ForwardingFull => &mut self.forwarding_full,
            DropReason::ReceiveLimit => &mut self.receive_limit,
        } += 1;
    }
}
