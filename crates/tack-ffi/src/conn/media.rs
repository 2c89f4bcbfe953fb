//! What live media needs: statistics to adapt to, deadlines.

use std::ffi::c_int;

use tack_quiche::tacklib::MediaStats;

use super::streams::stream_or_none;
use super::{status_of, tack_conn};
use crate::clock::{self, known_nanos, nanos};
use crate::error::{INVALID_ARGUMENT, status};
use crate::pointer::MediaStatsOut;

/// What a live source adapts to. Set `size` to `sizeof(struct tack_media_stats)` before tack_conn_media_stats:
/// later versions of the library add fields at the end.
#[repr(C)]
pub struct tack_media_stats {
    /// Length of the struct, bytes; becomes how much of it was written.
    pub size: usize,
    /// The rate that the path could carry now, bytes of UDP payload per second.
    pub estimated_send_rate: u64,
    /// Time since it was last measured, nanoseconds; TACK_UNKNOWN before the first time.
    pub rate_age: u64,
    /// What is left of it beside what is sent, bytes per second.
    pub spare_rate: u64,
    /// Smoothed round trip, nanoseconds, or TACK_UNKNOWN.
    pub smoothed_rtt: u64,
    /// The smallest round trip of the last ten seconds, nanoseconds, or TACK_UNKNOWN.
    pub min_rtt: u64,
    /// Mean difference of round trips in a row, nanoseconds, or TACK_UNKNOWN.
    pub jitter: u64,
    /// What the latest round trip lies above the smallest, nanoseconds, or TACK_UNKNOWN.
    pub queueing_delay: u64,
    /// Share of the bytes taken for lost of those sent in the last half second to second: 0 to 1.
    pub loss_rate: f64,
    /// Bytes of streams that are written and have not left.
    pub backlog: u64,
    /// Time until a byte leaves that is written now, nanoseconds.
    pub time_to_leave: u64,
    /// Time until it arrives, nanoseconds, or TACK_UNKNOWN: with the median of the last 64 round trips.
    pub time_to_arrive_p50: u64,
    /// The same with their 95th percentile.
    pub time_to_arrive_p95: u64,
    /// Streams that were reset at their deadline.
    pub expired_streams: u64,
    /// DATAGRAMs that were dropped at theirs.
    pub expired_datagrams: u64,
}

impl From<MediaStats> for tack_media_stats {
    fn from(stats: MediaStats) -> Self {
        Self {
            size: size_of::<Self>(),
            estimated_send_rate: stats.estimated_send_rate,
            rate_age: known_nanos(stats.rate_age),
            spare_rate: stats.spare_rate,
            smoothed_rtt: known_nanos(stats.smoothed_rtt),
            min_rtt: known_nanos(stats.min_rtt),
            jitter: known_nanos(stats.jitter),
            queueing_delay: known_nanos(stats.queueing_delay),
            loss_rate: stats.loss_rate,
            backlog: stats.backlog,
            time_to_leave: nanos(stats.time_to_leave),
            time_to_arrive_p50: known_nanos(stats.time_to_arrive_p50),
            time_to_arrive_p95: known_nanos(stats.time_to_arrive_p95),
            expired_streams: stats.expired_streams,
            expired_datagrams: stats.expired_datagrams,
        }
    }
}

/// Tells what a live source adapts to. Before the handshake is done and with TACK_PROFILE_OFF it only counts.
/// Returns 0 or an error: TACK_ERR_BUFFER_TOO_SHORT if `size` is not set.
#[unsafe(no_mangle)]
pub extern "C" fn tack_conn_media_stats(
    conn: Option<&tack_conn>,
    mut out: MediaStatsOut,
) -> c_int {
    status(|| out.write(&conn.ok_or(INVALID_ARGUMENT)?.0.media_stats().into()))
}

/// Returns `estimated_send_rate`, bytes per second, if it differs by more than a twentieth from what this
/// function last returned, and 0 if not. To be asked after tack_conn_recv.
#[unsafe(no_mangle)]
pub extern "C" fn tack_conn_send_rate_change(conn: Option<&mut tack_conn>) -> u64 {
    conn.and_then(|conn| conn.0.send_rate_change()).unwrap_or(0)
}

/// Begins or ends to measure the path with packet trains, where the configuration has asked for them.
#[unsafe(no_mangle)]
pub extern "C" fn tack_conn_set_packet_trains(conn: Option<&mut tack_conn>, enabled: bool) {
    if let Some(conn) = conn {
        conn.0.set_packet_trains(enabled);
    }
}

/// Sets that the data of a stream is worth nothing any more in `nanos` from now; TACK_NO_DEADLINE takes that
/// back.
///
/// If its end is not written then, some of it has not left, or is to be sent again, the stream is reset; one that has
/// wholly left is reset as soon as some of it is lost, or when a probe timer expires. Nothing of it is sent or sent
/// again, nothing is taken for it any more, what waits in the
/// send buffer is dropped, and tack_conn_stream_expired_next tells. Of a stream that was reset for a probe it tells
/// when some of it turns out to be lost, or nothing is heard of it until the next probe: it may have arrived, and then
/// it has not expired.
///
/// This holds for a deadline that is set before any of the stream leaves. Any other stream, and each with
/// TACK_PROFILE_OFF, is reset at its deadline unless all of it is acknowledged, which quiche tells of unidirectional
/// streams whose end was written, or nothing of the connection is unsent or in flight. Returns 0 or an error.
#[unsafe(no_mangle)]
pub extern "C" fn tack_conn_set_stream_deadline(
    conn: Option<&mut tack_conn>,
    stream_id: u64,
    nanos: u64,
) -> c_int {
    status_of(conn, |conn| {
        let deadline = if nanos == u64::MAX { None } else { clock::from_now(nanos) };
        Ok(conn.set_stream_deadline(stream_id, deadline)?)
    })
}

/// Returns the next stream that was reset because its deadline has passed, or -1. Each is told once. To be asked
/// after tack_conn_recv, tack_conn_on_timeout and tack_conn_send.
#[unsafe(no_mangle)]
pub extern "C" fn tack_conn_stream_expired_next(conn: Option<&mut tack_conn>) -> i64 {
    stream_or_none(conn.and_then(|conn| conn.0.stream_expired_next()))
}
