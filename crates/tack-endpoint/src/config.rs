//! Settings of an endpoint.

use std::net::SocketAddr;
use std::time::Duration;

use tack_packet::QuicLbConfig;
use tacklib::Ecn;

use crate::path_mtu::largest_to_try;

/// An initial round-trip time for lossy paths.
///
/// For [`set_initial_rtt`](tacklib::quiche::Config::set_initial_rtt) of a connection's
/// configuration. With the 333 ms that RFC 9002 section 6.2.2 recommends, a lost first packet is
/// repeated after 1 s and then after 2 and 4 s more, and the
/// [handshake timeout](EndpointConfig::handshake_timeout) of ten seconds leaves no further try.
/// With 100 ms there are five. A path with a longer round trip than 300 ms gets an Initial or two
/// too many.
pub const INITIAL_RTT: Duration = Duration::from_millis(100);

/// Settings of an [`Endpoint`](crate::Endpoint); those of its connections are in
/// [`tacklib::Config`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct EndpointConfig {
    /// Connections a server keeps at once. Default: 1000.
    ///
    /// Half-open ones and those of all its workers are included. While there are as many,
    /// packets that would open another are dropped, and clients try again; but of the network (an IPv4 address, or 2^64
    /// of IPv6) that has begun most handshakes the oldest gives way to a client of another that has fewer, once a Retry has
    /// validated the address of that, also without `retry`. Where none has more, networks of 2^72 and of 2^80 addresses
    /// are compared.
    pub max_connections: usize,
    /// Whether a server validates the address of a client with a Retry. Default: true.
    ///
    /// It does so before it allocates anything for the client (RFC 9000 section 8.1.2). Costs one round trip. Clients on
    /// quiche lose what 0-RTT gains: quiche repeats 0-RTT packets only when it takes them for lost.
    pub retry: bool,
    /// Handshakes at once before `retry` holds. Default: 0, a Retry for each client.
    ///
    /// A server, or each of its workers, lets so many connections be in their handshake without a Retry: without load
    /// clients save the round trip. One whose handshake fails counts on until `handshake_timeout` has passed, or ten
    /// seconds where that is more than the clock can tell, so that an attacker with a false address costs as many
    /// handshakes in that time and no more.
    pub half_open_without_retry: usize,
    /// Bytes that a server takes in on a new connection. Default: none.
    ///
    /// It holds until [`lift_receive_limit`](crate::Endpoint::lift_receive_limit): what comes beyond is dropped, but for
    /// the datagram that exceeds it and for packets of the handshake. It bounds what a client that completes a handshake
    /// can make a server keep; flow-control windows (RFC 9000 section 4) do so as well, and open again step by step only.
    pub receive_limit: Option<u64>,
    /// How long a client may take to answer a Retry; later it is refused with INVALID_TOKEN. Within
    /// this time the client can use its token again, from the same address. Default: 10 s.
    pub retry_token_lifetime: Duration,
    /// How long a handshake may take, on either side; [`Duration::MAX`] sets no limit. Default: 10 s.
    pub handshake_timeout: Duration,
    /// Period after which a connection sends a PING if no packet has arrived. Default: none.
    ///
    /// See RFC 9000 section 10.1.2. Set it at the end that only receives: that end does not notice otherwise that its
    /// address or the port of its NAT has changed, and the peer goes on sending to the old one. A period below half
    /// of the idle timeout keeps the connection open while both ends run.
    pub keep_alive: Option<Duration>,
    /// Key of the stateless reset tokens. A server that keeps it over a restart resets the
    /// connections from before; otherwise their clients wait for the idle timeout. Must stay
    /// secret. Default: none, a random key.
    pub reset_key: Option<[u8; 32]>,
    /// What a load balancer reads from the connection IDs of this server.
    ///
    /// See draft-ietf-quic-load-balancers-21. Without a key the server gives clients no spare IDs and asks them
    /// not to migrate, as the draft says. Default: none, random IDs.
    pub quic_lb: Option<QuicLbConfig>,
    /// Whether to use generic segmentation offload. Default: true.
    ///
    /// The endpoint then sends datagrams of one size to one peer in one system call where the kernel can.
    pub gso: bool,
    /// Whether to use generic receive offload. Default: true.
    ///
    /// The kernel then hands over received datagrams in one piece where it can.
    pub gro: bool,
    /// Whether to measure by the times at which datagrams came to the socket. Default: true.
    ///
    /// Delays and rates then go by the kernel's timestamps (`SO_TIMESTAMPNS`), and not by when this process got to read
    /// the datagrams. Linux only.
    pub arrival_times: bool,
    /// Whether to count ICMP port unreachable messages. Default: false.
    ///
    /// Until the first datagram comes, [`EndpointStats::refusals`](crate::EndpointStats::refusals) counts them. A
    /// client need not wait for the handshake timeout then. An attacker who guesses the port of the socket can forge
    /// such a message. Linux only.
    pub count_refusals: bool,
    /// Size of each of the socket's two buffers, in bytes. Default: 2 MiB.
    ///
    /// The send buffer and the receive buffer. The system may grant less.
    pub socket_buffer: usize,
    /// What packets are marked with (RFC 9000 section 13.4). Default: [`Ecn::Off`].
    ///
    /// Only on paths that mark and deliver them; [`TackStats::ecn`](tacklib::TackStats::ecn) tells which. Marks of the
    /// peer's packets are reported to it in any case. Connections with [`Profile::Off`](tacklib::Profile::Off) do
    /// neither.
    pub ecn: Ecn,
    /// Whether each connection discovers the MTU of its path. Default: false.
    ///
    /// It finds out how large datagrams the path takes (RFC 9000 section 14.3), and sends such. It tries what the
    /// first link of the route takes, up to 16,383 bytes, which takes the place of
    /// [`set_max_send_udp_payload_size`](quiche::Config::set_max_send_udp_payload_size) and
    /// [`discover_pmtu`](quiche::Config::discover_pmtu) in the connection's configuration; until it has found more,
    /// it sends 1,200 bytes. It tries what Ethernet takes where Linux knows no route; other systems do not tell of
    /// the link, and the configuration counts. The peer has to accept as much
    /// ([`set_max_recv_udp_payload_size`](quiche::Config::set_max_recv_udp_payload_size)): what it drops is not tried
    /// again. A path that becomes narrower later is noticed by all profiles but [`Off`](tacklib::Profile::Off).
    pub discover_path_mtu: bool,
    /// Whether to hold a packet until its release time. Default: true.
    ///
    /// Without that (`SendInfo::at`) plain quiche does not pace.
    pub pace: bool,
    /// File to which every connection appends its TLS secrets, in the format of SSLKEYLOGFILE. For
    /// debugging: the file decrypts the traffic. Takes effect for connections whose configuration
    /// has [`log_keys`](quiche::Config::log_keys) set. Default: none.
    pub key_log: Option<std::path::PathBuf>,
    /// Directory in which each connection writes a qlog file. Default: none.
    ///
    /// The file is named after the connection's role and source connection id. For debugging: each client of a server
    /// adds a file.
    #[cfg(feature = "qlog")]
    pub qlog: Option<std::path::PathBuf>,
}

impl Default for EndpointConfig {
    fn default() -> Self {
        Self {
            max_connections: 1000,
            retry: true,
            half_open_without_retry: 0,
            receive_limit: None,
            retry_token_lifetime: Duration::from_secs(10),
            handshake_timeout: Duration::from_secs(10),
            keep_alive: None,
            reset_key: None,
            quic_lb: None,
            gso: true,
            gro: true,
            arrival_times: true,
            count_refusals: false,
            socket_buffer: 2 * 1024 * 1024,
            ecn: Ecn::Off,
            discover_path_mtu: false,
            pace: true,
            key_log: None,
            #[cfg(feature = "qlog")]
            qlog: None,
        }
    }
}

impl EndpointConfig {
    /// Has the next connection of this configuration find out how large datagrams its path takes.
    pub(crate) fn prepare_path_mtu(
        &self,
        connection: &mut tacklib::Config,
        local: SocketAddr,
        peer: SocketAddr,
    ) {
        if !self.discover_path_mtu {
            return;
        }
        if let Some(payload) = largest_to_try(local, peer) {
            connection.set_max_send_udp_payload_size(payload);
            connection.discover_pmtu(true);
        }
    }
}
