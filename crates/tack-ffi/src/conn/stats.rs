//! quiche's statistics.

use std::ffi::c_int;
use std::mem::MaybeUninit;

use libc::{sockaddr_storage, socklen_t, ssize_t};
use tack_quiche::{PathStats, TxBufferTrackingState};

use super::tack_conn;
use crate::address;
use crate::clock::nanos;
use crate::error::{INVALID_ARGUMENT, status, tack_error};

/// Statistics of a connection.
#[repr(C)]
pub struct tack_stats {
    /// QUIC packets received.
    pub recv: usize,
    /// QUIC packets sent.
    pub sent: usize,
    /// QUIC packets taken for lost.
    pub lost: usize,
    /// Of these, packets that were acknowledged later.
    pub spurious_lost: usize,
    /// QUIC packets sent with data that had been sent before.
    pub retrans: usize,
    /// Bytes sent.
    pub sent_bytes: u64,
    /// Bytes received.
    pub recv_bytes: u64,
    /// Bytes acknowledged.
    pub acked_bytes: u64,
    /// Bytes taken for lost.
    pub lost_bytes: u64,
    /// Bytes of streams sent again.
    pub stream_retrans_bytes: u64,
    /// DATAGRAM frames received.
    pub dgram_recv: usize,
    /// DATAGRAM frames sent.
    pub dgram_sent: usize,
    /// Paths, for tack_conn_path_stats.
    pub paths_count: usize,
    /// Streams that this end has reset.
    pub reset_stream_count_local: u64,
    /// Streams that this end has stopped.
    pub stopped_stream_count_local: u64,
    /// Streams that the peer has reset.
    pub reset_stream_count_remote: u64,
    /// Streams that the peer has stopped.
    pub stopped_stream_count_remote: u64,
    /// DATA_BLOCKED frames sent.
    pub data_blocked_sent_count: u64,
    /// STREAM_DATA_BLOCKED frames sent.
    pub stream_data_blocked_sent_count: u64,
    /// DATA_BLOCKED frames received.
    pub data_blocked_recv_count: u64,
    /// STREAM_DATA_BLOCKED frames received.
    pub stream_data_blocked_recv_count: u64,
    /// STREAMS_BLOCKED frames received for bidirectional streams.
    pub streams_blocked_bidi_recv_count: u64,
    /// The same for unidirectional streams.
    pub streams_blocked_uni_recv_count: u64,
    /// PATH_CHALLENGE frames received.
    pub path_challenge_rx_count: u64,
    /// Time with bytes in flight, milliseconds.
    pub bytes_in_flight_duration_msec: u64,
    /// Whether quiche has lost count of what it is to send.
    pub tx_buffered_inconsistent: bool,
}

/// Tells the statistics of a connection.
#[unsafe(no_mangle)]
pub extern "C" fn tack_conn_stats(
    conn: Option<&tack_conn>,
    out: Option<&mut MaybeUninit<tack_stats>>,
) {
    let Some((conn, out)) = conn.zip(out) else { return };
    let stats = conn.0.stats();
    out.write(tack_stats {
        recv: stats.recv,
        sent: stats.sent,
        lost: stats.lost,
        spurious_lost: stats.spurious_lost,
        retrans: stats.retrans,
        sent_bytes: stats.sent_bytes,
        recv_bytes: stats.recv_bytes,
        acked_bytes: stats.acked_bytes,
        lost_bytes: stats.lost_bytes,
        stream_retrans_bytes: stats.stream_retrans_bytes,
        dgram_recv: stats.dgram_recv,
        dgram_sent: stats.dgram_sent,
        paths_count: stats.paths_count,
        reset_stream_count_local: stats.reset_stream_count_local,
        stopped_stream_count_local: stats.stopped_stream_count_local,
        reset_stream_count_remote: stats.reset_stream_count_remote,
        stopped_stream_count_remote: stats.stopped_stream_count_remote,
        data_blocked_sent_count: stats.data_blocked_sent_count,
        stream_data_blocked_sent_count: stats.stream_data_blocked_sent_count,
        data_blocked_recv_count: stats.data_blocked_recv_count,
        stream_data_blocked_recv_count: stats.stream_data_blocked_recv_count,
        streams_blocked_bidi_recv_count: stats.streams_blocked_bidi_recv_count,
        streams_blocked_uni_recv_count: stats.streams_blocked_uni_recv_count,
        path_challenge_rx_count: stats.path_challenge_rx_count,
        bytes_in_flight_duration_msec: u64::try_from(
            stats.bytes_in_flight_duration.as_millis(),
        )
        .unwrap_or(u64::MAX),
        tx_buffered_inconsistent: stats.tx_buffered_state != TxBufferTrackingState::Ok,
    });
}

/// Statistics of a path.
#[repr(C)]
pub struct tack_path_stats {
    /// The address of this end.
    pub local_addr: sockaddr_storage,
    /// Its length.
    pub local_addr_len: socklen_t,
    /// The address of the peer.
    pub peer_addr: sockaddr_storage,
    /// Its length.
    pub peer_addr_len: socklen_t,
    /// -1 if validation has failed, 0 before it, 1 during it, 2 while the path MTU is missing, 3 behind it.
    pub validation_state: ssize_t,
    /// Whether data goes over this path.
    pub active: bool,
    /// QUIC packets received.
    pub recv: usize,
    /// QUIC packets sent.
    pub sent: usize,
    /// QUIC packets taken for lost.
    pub lost: usize,
    /// QUIC packets sent with data that had been sent before.
    pub retrans: usize,
    /// How often the probe timer has expired.
    pub total_pto_count: usize,
    /// DATAGRAM frames received.
    pub dgram_recv: usize,
    /// DATAGRAM frames sent.
    pub dgram_sent: usize,
    /// Smoothed round trip, nanoseconds.
    pub rtt: u64,
    /// Smallest round trip, nanoseconds; 0 if none is known.
    pub min_rtt: u64,
    /// Largest round trip, nanoseconds, with the wait for a TACK; 0 if none is known.
    pub max_rtt: u64,
    /// Variation of the round trip, nanoseconds.
    pub rttvar: u64,
    /// Bytes that may be in flight.
    pub cwnd: usize,
    /// Bytes sent.
    pub sent_bytes: u64,
    /// Bytes received.
    pub recv_bytes: u64,
    /// Bytes taken for lost.
    pub lost_bytes: u64,
    /// Bytes of streams sent again.
    pub stream_retrans_bytes: u64,
    /// The path MTU, bytes.
    pub pmtu: usize,
    /// The bandwidth estimate, bytes per second.
    pub delivery_rate: u64,
    /// The same; the highest that was seen, with TACK_PROFILE_OFF. 0 if none is known.
    pub max_bandwidth: u64,
    /// The window at the end of quiche's slow start, bytes; 0 with TACK.
    pub startup_exit_cwnd: u64,
}

/// Tells the statistics of a path by its number, below `paths_count` of struct tack_stats. Returns 0 or an error:
/// TACK_ERR_DONE if there is no such path.
#[unsafe(no_mangle)]
pub extern "C" fn tack_conn_path_stats(
    conn: Option<&tack_conn>,
    idx: usize,
    out: Option<&mut MaybeUninit<tack_path_stats>>,
) -> c_int {
    status(|| {
        let (conn, out) = conn.zip(out).ok_or(INVALID_ARGUMENT)?;
        let stats = conn.0.path_stats().nth(idx).ok_or(tack_error::TACK_ERR_DONE)?;
        out.write(to_c(&stats));
        Ok(())
    })
}

fn to_c(stats: &PathStats) -> tack_path_stats {
    let (local_addr, local_addr_len) = address::to_c(stats.local_addr);
    let (peer_addr, peer_addr_len) = address::to_c(stats.peer_addr);
    tack_path_stats {
        local_addr,
        local_addr_len,
        peer_addr,
        peer_addr_len,
        // quiche does not export the enum; its states come in this order, from Failed on.
        validation_state: stats.validation_state as ssize_t - 1,
        active: stats.active,
        recv: stats.recv,
        sent: stats.sent,
        lost: stats.lost,
        retrans: stats.retrans,
        total_pto_count: stats.total_pto_count,
        dgram_recv: stats.dgram_recv,
        dgram_sent: stats.dgram_sent,
        rtt: nanos(stats.rtt),
        min_rtt: nanos(stats.min_rtt.unwrap_or_default()),
        max_rtt: nanos(stats.max_rtt.unwrap_or_default()),
        rttvar: nanos(stats.rttvar),
        cwnd: stats.cwnd,
        sent_bytes: stats.sent_bytes,
        recv_bytes: stats.recv_bytes,
        lost_bytes: stats.lost_bytes,
        stream_retrans_bytes: stats.stream_retrans_bytes,
        pmtu: stats.pmtu,
        delivery_rate: stats.delivery_rate,
        max_bandwidth: stats.max_bandwidth.unwrap_or(0),
        startup_exit_cwnd: stats.startup_exit.map_or(0, |exit| exit.cwnd as u64),
    }
}
