//! What TACK adds: whether there is any, its statistics, ECN, Careful Resume.

use std::ffi::c_int;
use std::time::SystemTime;

use libc::ssize_t;
use tack_quiche::tacklib::{CarefulResumePhase, CcParameters, Ecn, EcnState, TackStats};

use super::{ask, length_of, status_of, tack_conn};
use crate::clock::known_nanos;
use crate::error::{INVALID_ARGUMENT, length, status, tack_error};
use crate::number::EcnNumber;
use crate::pointer::{Bytes, BytesMut, TackStatsOut};

/// What the datagrams of a sender are marked with (RFC 3168, RFC 9331).
#[repr(C)]
pub enum tack_ecn {
    /// Nothing.
    TACK_ECN_OFF = 0,
    /// ECT(0): a queue that marks means what it would mean by a drop.
    TACK_ECN_CLASSIC = 1,
    /// ECT(1): a queue marks early and often.
    TACK_ECN_L4S = 2,
}

/// What a sender knows of ECN on a path (RFC 9000 appendix A.4).
#[repr(C)]
pub enum tack_ecn_state {
    /// Nothing is marked.
    TACK_ECN_STATE_OFF = 0,
    /// The first packets are marked.
    TACK_ECN_STATE_TESTING = 1,
    /// The result of the test is awaited.
    TACK_ECN_STATE_UNKNOWN = 2,
    /// Path or peer cannot be relied on: nothing is marked.
    TACK_ECN_STATE_FAILED = 3,
    /// All packets are marked, and marks of the path count.
    TACK_ECN_STATE_CAPABLE = 4,
}

/// Phases of Careful Resume (RFC 9959 section 3).
#[repr(C)]
pub enum tack_careful_resume {
    /// The path is observed, and nothing else.
    TACK_CAREFUL_RESUME_NORMAL = 0,
    /// The initial window finds out whether the path is the one that was observed.
    TACK_CAREFUL_RESUME_RECONNAISSANCE = 1,
    /// A jump: up to the saved window is sent within a round trip.
    TACK_CAREFUL_RESUME_UNVALIDATED = 2,
    /// All of that is on its way.
    TACK_CAREFUL_RESUME_VALIDATING = 3,
    /// It was too much: it drains.
    TACK_CAREFUL_RESUME_SAFE_RETREAT = 4,
}

/// Statistics of the layer. Set `size` to `sizeof(struct tack_stats_tack)` before tack_conn_stats_tack: later
/// versions of the library add fields at the end.
#[repr(C)]
pub struct tack_stats_tack {
    /// Length of the struct, bytes; becomes how much of it was written.
    pub size: usize,
    /// Whether both ends speak TACK.
    pub tack: bool,
    /// What is known of ECN on the path that data goes over (enum tack_ecn_state).
    pub ecn: c_int,
    /// Where Careful Resume is (RFC 9959; enum tack_careful_resume).
    pub careful_resume: c_int,
    /// The rate at which data may be sent, bytes per second: BWmax.
    pub bandwidth: u64,
    /// The rate at which packets leave now, bytes per second.
    pub pacing_rate: u64,
    /// Bytes sent and neither acknowledged nor lost.
    pub bytes_in_flight: u64,
    /// The smallest round trip of the last ten seconds, nanoseconds; TACK_UNKNOWN if none is known.
    pub min_rtt: u64,
    /// Smoothed round trip, nanoseconds, or TACK_UNKNOWN.
    pub smoothed_rtt: u64,
    /// Queueing on the way here, nanoseconds, or TACK_UNKNOWN.
    pub queueing_delay: u64,
    /// Share of lost packets of what is sent, as the receiver reports it: 0 to 1.
    pub loss_rate: f64,
    /// Share of lost packets of what is received: 0 to 1.
    pub incoming_loss_rate: f64,
    /// Share of lost TACKs of those that the peer sends: 0 to 1.
    pub ack_loss_rate: f64,
    /// TACKs sent.
    pub tacks_sent: u64,
    /// IACKs sent.
    pub iacks_sent: u64,
    /// Missing ranges of stream bytes listed in them.
    pub bubbles_sent: u64,
    /// ACKs that a delayed-ACK receiver would have sent instead.
    pub delayed_acks_instead: u64,
    /// TACKs received.
    pub tacks_received: u64,
    /// IACKs received.
    pub iacks_received: u64,
    /// Standard ACK frames received.
    pub acks_received: u64,
    /// ACK_FREQUENCY frames sent.
    pub frequency_updates_sent: u64,
    /// Packets whose data had arrived as bubbles told, when nothing else did.
    pub packets_by_bubbles: u64,
    /// IMMEDIATE_ACK frames sent.
    pub immediate_acks_sent: u64,
    /// Packets taken for lost.
    pub lost_packets: u64,
    /// Of these, packets that had arrived.
    pub spurious_losses: u64,
    /// Bytes taken for lost.
    pub lost_bytes: u64,
    /// Packets received that had to be opened and read; the others are taken by their header.
    pub packets_opened: u64,
    /// Packets received that were damaged, forged or received before.
    pub packets_refused: u64,
    /// Packets sent that were sealed again for the layer's frames.
    pub packets_resealed: u64,
    /// Packets sent with an ECT codepoint.
    pub ecn_marked: u64,
    /// Packets newly reported as CE, on paths where reports can be relied on.
    pub ecn_ce_reported: u64,
    /// Packets received as ECT(0).
    pub ecn_ect0_received: u64,
    /// Packets received as ECT(1).
    pub ecn_ect1_received: u64,
    /// Packets received as CE.
    pub ecn_ce_received: u64,
    /// Bytes sent to measure the path with packet trains, and for nothing else.
    pub train_bytes: u64,
    /// Packet numbers skipped on purpose, as a trap for optimistic acknowledgements.
    pub packets_skipped: u64,
}

impl From<TackStats> for tack_stats_tack {
    fn from(stats: TackStats) -> Self {
        Self {
            size: size_of::<Self>(),
            tack: stats.tack,
            ecn: ecn_state(stats.ecn),
            careful_resume: careful_resume_phase(stats.careful_resume),
            bandwidth: stats.bandwidth,
            pacing_rate: stats.pacing_rate,
            bytes_in_flight: stats.bytes_in_flight,
            min_rtt: known_nanos(stats.min_rtt),
            smoothed_rtt: known_nanos(stats.smoothed_rtt),
            queueing_delay: known_nanos(stats.queueing_delay),
            loss_rate: stats.loss_rate,
            incoming_loss_rate: stats.incoming_loss_rate,
            ack_loss_rate: stats.ack_loss_rate,
            tacks_sent: stats.tacks_sent,
            iacks_sent: stats.iacks_sent,
            bubbles_sent: stats.bubbles_sent,
            delayed_acks_instead: stats.delayed_acks_instead,
            tacks_received: stats.tacks_received,
            iacks_received: stats.iacks_received,
            acks_received: stats.acks_received,
            frequency_updates_sent: stats.frequency_updates_sent,
            packets_by_bubbles: stats.packets_by_bubbles,
            immediate_acks_sent: stats.immediate_acks_sent,
            lost_packets: stats.lost_packets,
            spurious_losses: stats.spurious_losses,
            lost_bytes: stats.lost_bytes,
            packets_opened: stats.packets_opened,
            packets_refused: stats.packets_refused,
            packets_resealed: stats.packets_resealed,
            ecn_marked: stats.ecn_marked,
            ecn_ce_reported: stats.ecn_ce_reported,
            ecn_ect0_received: stats.ecn_ect0_received,
            ecn_ect1_received: stats.ecn_ect1_received,
            ecn_ce_received: stats.ecn_ce_received,
            train_bytes: stats.train_bytes,
            packets_skipped: stats.packets_skipped,
        }
    }
}

fn ecn_state(state: EcnState) -> c_int {
    let state = match state {
        EcnState::Testing => tack_ecn_state::TACK_ECN_STATE_TESTING,
        EcnState::Unknown => tack_ecn_state::TACK_ECN_STATE_UNKNOWN,
        EcnState::Failed => tack_ecn_state::TACK_ECN_STATE_FAILED,
        EcnState::Capable => tack_ecn_state::TACK_ECN_STATE_CAPABLE,
        _ => tack_ecn_state::TACK_ECN_STATE_OFF,
    };
    state as c_int
}

fn careful_resume_phase(phase: CarefulResumePhase) -> c_int {
    use tack_careful_resume as c;
    let phase = match phase {
        CarefulResumePhase::Reconnaissance => c::TACK_CAREFUL_RESUME_RECONNAISSANCE,
        CarefulResumePhase::Unvalidated => c::TACK_CAREFUL_RESUME_UNVALIDATED,
        CarefulResumePhase::Validating => c::TACK_CAREFUL_RESUME_VALIDATING,
        CarefulResumePhase::SafeRetreat => c::TACK_CAREFUL_RESUME_SAFE_RETREAT,
        _ => c::TACK_CAREFUL_RESUME_NORMAL,
    };
    phase as c_int
}

/// Whether both ends speak TACK. False until the handshake is done.
#[unsafe(no_mangle)]
pub extern "C" fn tack_conn_is_tack(conn: Option<&tack_conn>) -> bool {
    ask(conn, |conn| conn.is_tack())
}

/// Tells what the layer has measured and done; all zero before the handshake is done and with
/// TACK_PROFILE_OFF. Returns 0 or an error: TACK_ERR_BUFFER_TOO_SHORT if `size` is not set.
#[unsafe(no_mangle)]
pub extern "C" fn tack_conn_stats_tack(
    conn: Option<&tack_conn>,
    mut out: TackStatsOut,
) -> c_int {
    status(|| out.write(&conn.ok_or(INVALID_ARGUMENT)?.0.tack_stats().into()))
}

/// Has datagrams marked (enum tack_ecn), from the handshake on: to be called right after the connection is made.
/// The program sets the codepoint that tack_conn_send_ecn tells for each. Returns 0 or an error.
#[unsafe(no_mangle)]
pub extern "C" fn tack_conn_set_ecn(conn: Option<&mut tack_conn>, ecn: EcnNumber) -> c_int {
    status_of(conn, |conn| {
        let ecn = match ecn.0 {
            ecn if ecn == tack_ecn::TACK_ECN_OFF as c_int => Ecn::Off,
            ecn if ecn == tack_ecn::TACK_ECN_CLASSIC as c_int => Ecn::Classic,
            ecn if ecn == tack_ecn::TACK_ECN_L4S as c_int => Ecn::L4s,
            _ => return Err(INVALID_ARGUMENT),
        };
        conn.set_ecn(ecn);
        Ok(())
    })
}

/// Returns the ECN codepoint of the datagram that tack_conn_send has written last: the two lowest bits of IP_TOS
/// or IPV6_TCLASS.
#[unsafe(no_mangle)]
pub extern "C" fn tack_conn_send_ecn(conn: Option<&tack_conn>) -> u8 {
    ask(conn, |conn| conn.send_ecn().bits())
}

/// Initiates a key update (RFC 9001 section 6); the layer does so by itself in time. Returns 0 or an error.
#[unsafe(no_mangle)]
pub extern "C" fn tack_conn_initiate_key_update(conn: Option<&mut tack_conn>) -> c_int {
    status_of(conn, |conn| Ok(conn.initiate_key_update()?))
}

/// Writes what the connection has observed of the path, for the next connection between the same addresses (Careful
/// Resume, RFC 9959). Returns its length, TACK_ERR_DONE if there is nothing to keep, or an error;
/// TACK_CC_PARAMETERS_LEN bytes are enough.
#[unsafe(no_mangle)]
pub extern "C" fn tack_conn_cc_parameters(
    conn: Option<&tack_conn>,
    mut out: BytesMut,
    out_len: usize,
) -> ssize_t {
    length(|| {
        let conn = &conn.ok_or(INVALID_ARGUMENT)?.0;
        let out = out.get(out_len)?;
        let parameters = conn.cc_parameters(SystemTime::now());
        let bytes = parameters.ok_or(tack_error::TACK_ERR_DONE)?.to_bytes();
        let out = out.get_mut(..bytes.len()).ok_or(tack_error::TACK_ERR_BUFFER_TOO_SHORT)?;
        out.copy_from_slice(&bytes);
        Ok(bytes.len())
    })
}

/// Offers what tack_conn_cc_parameters of an earlier connection between the same addresses has written. One
/// connection at a time may use it. Returns 1 if it is used, 0 if it is refused because it is old or
/// impossible, or an error.
#[unsafe(no_mangle)]
pub extern "C" fn tack_conn_set_cc_parameters(
    conn: Option<&mut tack_conn>,
    buf: Bytes,
    buf_len: usize,
) -> c_int {
    let used = length_of(conn, |conn| {
        let parameters = CcParameters::from_bytes(buf.get(buf_len)?);
        let now = SystemTime::now();
        Ok(parameters.is_some_and(|known| conn.set_cc_parameters(known, now)).into())
    });
    used as c_int
}

/// Room for what tack_conn_cc_parameters writes, bytes.
pub const TACK_CC_PARAMETERS_LEN: usize = 25;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn careful_resume_parameters_fit() {
        assert_eq!(TACK_CC_PARAMETERS_LEN, CcParameters::ENCODED_LEN);
    }
}
