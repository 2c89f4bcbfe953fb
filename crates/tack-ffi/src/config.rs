//! Configuration: quiche's, and the layer's beside it.

use std::ffi::c_int;
use std::time::Duration;

use tack_quiche::tacklib::{Profile, TackConfig};
use tack_quiche::{Config, CongestionControlAlgorithm};

use crate::error::{Failure, INVALID_ARGUMENT, object, status};
use crate::number::{CcAlgorithmNumber, ProfileNumber};
use crate::pointer::{Bytes, Text};

/// A configuration, which connections are made with. It can be freed before they are.
pub struct tack_config(pub(crate) Config);

/// Congestion control of quiche.
#[repr(C)]
pub enum tack_cc_algorithm {
    /// Reno.
    TACK_CC_RENO = 0,
    /// CUBIC.
    TACK_CC_CUBIC = 1,
    /// BBRv2.
    TACK_CC_BBR2_GCONGESTION = 4,
}

/// Sets of defaults for a kind of use.
#[repr(C)]
pub enum tack_profile {
    /// TACK with a hundred acknowledgements a second at most.
    TACK_PROFILE_DEFAULT = 0,
    /// For live video: a change of the path is followed in half the time, and the rate that the path could carry is
    /// measured while less is sent.
    TACK_PROFILE_VIDEO = 1,
    /// Small flows are acknowledged packet by packet.
    TACK_PROFILE_QUICK = 2,
    /// quiche as it comes, without TACK.
    TACK_PROFILE_OFF = 3,
}

/// Creates a configuration for a QUIC version (TACK_PROTOCOL_VERSION), or returns NULL.
///
/// The environment variable TACK_PROFILE (`default`, `video`, `off`) chooses the profile that it begins with.
#[unsafe(no_mangle)]
pub extern "C" fn tack_config_new(version: u32) -> Option<Box<tack_config>> {
    object("create a configuration", || Ok(tack_config(Config::new(version)?)))
}

/// Frees a configuration. NULL is nothing to free.
#[unsafe(no_mangle)]
pub extern "C" fn tack_config_free(config: Option<Box<tack_config>>) {
    drop(config);
}

fn set(config: Option<&mut tack_config>, setter: impl FnOnce(&mut Config)) {
    if let Some(config) = config {
        setter(&mut config.0);
    }
}

fn load(
    config: Option<&mut tack_config>,
    setter: impl FnOnce(&mut Config) -> Result<(), Failure>,
) -> c_int {
    status(|| setter(&mut config.ok_or(INVALID_ARGUMENT)?.0))
}

fn set_tack(config: Option<&mut tack_config>, setter: impl FnOnce(&mut TackConfig)) {
    set(config, |config| {
        let mut tack = *config.tack();
        setter(&mut tack);
        config.set_tack(tack);
    });
}

/// Loads the certificate chain that this end shows. Returns 0 or an error.
#[unsafe(no_mangle)]
pub extern "C" fn tack_config_load_cert_chain_from_pem_file(
    config: Option<&mut tack_config>,
    path: Text,
) -> c_int {
    load(config, |config| Ok(config.load_cert_chain_from_pem_file(path.get()?)?))
}

/// Loads the private key of that certificate. Returns 0 or an error.
#[unsafe(no_mangle)]
pub extern "C" fn tack_config_load_priv_key_from_pem_file(
    config: Option<&mut tack_config>,
    path: Text,
) -> c_int {
    load(config, |config| Ok(config.load_priv_key_from_pem_file(path.get()?)?))
}

/// Loads the certificates that are trusted from a PEM file. Returns 0 or an error.
#[unsafe(no_mangle)]
pub extern "C" fn tack_config_load_verify_locations_from_file(
    config: Option<&mut tack_config>,
    path: Text,
) -> c_int {
    load(config, |config| Ok(config.load_verify_locations_from_file(path.get()?)?))
}

/// Loads the certificates that are trusted from a directory of PEM files. Returns 0 or an error.
#[unsafe(no_mangle)]
pub extern "C" fn tack_config_load_verify_locations_from_directory(
    config: Option<&mut tack_config>,
    path: Text,
) -> c_int {
    load(config, |config| Ok(config.load_verify_locations_from_directory(path.get()?)?))
}

/// Sets the key exchange groups in order of preference, such as `X25519:P-256`. Returns 0 or an error.
#[unsafe(no_mangle)]
pub extern "C" fn tack_config_set_curves_list(
    config: Option<&mut tack_config>,
    curves: Text,
) -> c_int {
    load(config, |config| Ok(config.set_curves_list(curves.get()?)?))
}

/// Sets whether the peer's certificate is verified: yes for clients, no for servers unless set.
#[unsafe(no_mangle)]
pub extern "C" fn tack_config_verify_peer(config: Option<&mut tack_config>, v: bool) {
    set(config, |config| config.verify_peer(v));
}

/// Sets whether reserved values are sent (GREASE): yes unless set.
#[unsafe(no_mangle)]
pub extern "C" fn tack_config_grease(config: Option<&mut tack_config>, v: bool) {
    set(config, |config| config.grease(v));
}

/// Sets whether the path MTU is discovered: no unless set.
#[unsafe(no_mangle)]
pub extern "C" fn tack_config_discover_pmtu(config: Option<&mut tack_config>, v: bool) {
    set(config, |config| config.discover_pmtu(v));
}

/// Sets how often a size is tried before it is taken for too large.
#[unsafe(no_mangle)]
pub extern "C" fn tack_config_set_pmtud_max_probes(
    config: Option<&mut tack_config>,
    max_probes: u8,
) {
    set(config, |config| config.set_pmtud_max_probes(max_probes));
}

/// Has the secrets of connections logged where tack_conn_set_keylog_path and ..._fd say.
#[unsafe(no_mangle)]
pub extern "C" fn tack_config_log_keys(config: Option<&mut tack_config>) {
    set(config, |config| config.log_keys());
}

/// Lets data be sent and received in 0-RTT.
#[unsafe(no_mangle)]
pub extern "C" fn tack_config_enable_early_data(config: Option<&mut tack_config>) {
    set(config, |config| config.enable_early_data());
}

/// Sets the application protocols (ALPN): each is a byte with its length and then the name. Returns 0 or an
/// error.
#[unsafe(no_mangle)]
pub extern "C" fn tack_config_set_application_protos(
    config: Option<&mut tack_config>,
    protos: Bytes,
    protos_len: usize,
) -> c_int {
    load(config, |config| {
        let protos = protos.get(protos_len)?;
        // quiche takes what comes before a name that is cut off, and says nothing.
        if !is_protocol_list(protos) {
            return Err(INVALID_ARGUMENT);
        }
        Ok(config.set_application_protos_wire_format(protos)?)
    })
}

fn is_protocol_list(mut protos: &[u8]) -> bool {
    while let Some((len, rest)) = protos.split_first() {
        let Some(rest) = rest.get(usize::from(*len)..).filter(|_| *len > 0) else {
            return false;
        };
        protos = rest;
    }
    true
}

/// Sets how many times what it has received a server sends before the address is validated: 3 unless set.
#[unsafe(no_mangle)]
pub extern "C" fn tack_config_set_max_amplification_factor(
    config: Option<&mut tack_config>,
    v: usize,
) {
    set(config, |config| config.set_max_amplification_factor(v));
}

/// Sets `max_idle_timeout`, milliseconds; 0 is none, as when it is not set.
#[unsafe(no_mangle)]
pub extern "C" fn tack_config_set_max_idle_timeout(config: Option<&mut tack_config>, v: u64) {
    set(config, |config| config.set_max_idle_timeout(v));
}

/// Sets `max_udp_payload_size`: the longest datagram that is received, bytes.
#[unsafe(no_mangle)]
pub extern "C" fn tack_config_set_max_recv_udp_payload_size(
    config: Option<&mut tack_config>,
    v: usize,
) {
    set(config, |config| config.set_max_recv_udp_payload_size(v));
}

/// Sets the longest datagram that is sent, bytes.
#[unsafe(no_mangle)]
pub extern "C" fn tack_config_set_max_send_udp_payload_size(
    config: Option<&mut tack_config>,
    v: usize,
) {
    set(config, |config| config.set_max_send_udp_payload_size(v));
}

/// Sets `initial_max_data`: bytes that the peer may send on all streams before any is read.
#[unsafe(no_mangle)]
pub extern "C" fn tack_config_set_initial_max_data(config: Option<&mut tack_config>, v: u64) {
    set(config, |config| config.set_initial_max_data(v));
}

/// Sets `initial_max_stream_data_bidi_local`, bytes: the same for each bidirectional stream that this end opens.
#[unsafe(no_mangle)]
pub extern "C" fn tack_config_set_initial_max_stream_data_bidi_local(
    config: Option<&mut tack_config>,
    v: u64,
) {
    set(config, |config| config.set_initial_max_stream_data_bidi_local(v));
}

/// Sets `initial_max_stream_data_bidi_remote`, bytes: for each that the peer opens.
#[unsafe(no_mangle)]
pub extern "C" fn tack_config_set_initial_max_stream_data_bidi_remote(
    config: Option<&mut tack_config>,
    v: u64,
) {
    set(config, |config| config.set_initial_max_stream_data_bidi_remote(v));
}

/// Sets `initial_max_stream_data_uni`, bytes: for each unidirectional stream.
#[unsafe(no_mangle)]
pub extern "C" fn tack_config_set_initial_max_stream_data_uni(
    config: Option<&mut tack_config>,
    v: u64,
) {
    set(config, |config| config.set_initial_max_stream_data_uni(v));
}

/// Sets `initial_max_streams_bidi`: bidirectional streams that the peer may have open.
#[unsafe(no_mangle)]
pub extern "C" fn tack_config_set_initial_max_streams_bidi(
    config: Option<&mut tack_config>,
    v: u64,
) {
    set(config, |config| config.set_initial_max_streams_bidi(v));
}

/// Sets `initial_max_streams_uni`: the same for unidirectional ones.
#[unsafe(no_mangle)]
pub extern "C" fn tack_config_set_initial_max_streams_uni(
    config: Option<&mut tack_config>,
    v: u64,
) {
    set(config, |config| config.set_initial_max_streams_uni(v));
}

/// Sets `ack_delay_exponent`.
#[unsafe(no_mangle)]
pub extern "C" fn tack_config_set_ack_delay_exponent(config: Option<&mut tack_config>, v: u64) {
    set(config, |config| config.set_ack_delay_exponent(v));
}

/// Sets `max_ack_delay`, milliseconds.
#[unsafe(no_mangle)]
pub extern "C" fn tack_config_set_max_ack_delay(config: Option<&mut tack_config>, v: u64) {
    set(config, |config| config.set_max_ack_delay(v));
}

/// Sets `disable_active_migration`.
#[unsafe(no_mangle)]
pub extern "C" fn tack_config_set_disable_active_migration(
    config: Option<&mut tack_config>,
    v: bool,
) {
    set(config, |config| config.set_disable_active_migration(v));
}

/// Sets quiche's congestion control by its name. It has an effect with TACK_PROFILE_OFF alone. Returns 0 or an error.
#[unsafe(no_mangle)]
pub extern "C" fn tack_config_set_cc_algorithm_name(
    config: Option<&mut tack_config>,
    algo: Text,
) -> c_int {
    load(config, |config| Ok(config.set_cc_algorithm_name(algo.get()?)?))
}

/// Sets quiche's congestion control (enum tack_cc_algorithm). It has an effect with TACK_PROFILE_OFF alone; a
/// number that is none of them has no effect.
#[unsafe(no_mangle)]
pub extern "C" fn tack_config_set_cc_algorithm(
    config: Option<&mut tack_config>,
    algo: CcAlgorithmNumber,
) {
    use tack_cc_algorithm as c;
    let algorithm = match algo.0 {
        algo if algo == c::TACK_CC_RENO as c_int => CongestionControlAlgorithm::Reno,
        algo if algo == c::TACK_CC_CUBIC as c_int => CongestionControlAlgorithm::CUBIC,
        algo if algo == c::TACK_CC_BBR2_GCONGESTION as c_int => {
            CongestionControlAlgorithm::Bbr2Gcongestion
        }
        _ => {
            log::error!(
                "{} is no congestion control (enum tack_cc_algorithm): ignored",
                algo.0
            );
            return;
        }
    };
    set(config, |config| config.set_cc_algorithm(algorithm));
}

/// Sets the initial congestion window, packets; those behind the tenth are paced.
#[unsafe(no_mangle)]
pub extern "C" fn tack_config_set_initial_congestion_window_packets(
    config: Option<&mut tack_config>,
    packets: usize,
) {
    set(config, |config| config.set_initial_congestion_window_packets(packets));
}

/// Sets whether quiche's congestion control uses HyStart++. It has an effect with TACK_PROFILE_OFF alone.
#[unsafe(no_mangle)]
pub extern "C" fn tack_config_enable_hystart(config: Option<&mut tack_config>, v: bool) {
    set(config, |config| config.enable_hystart(v));
}

/// Sets whether quiche paces. It has an effect with TACK_PROFILE_OFF alone. TACK always does.
#[unsafe(no_mangle)]
pub extern "C" fn tack_config_enable_pacing(config: Option<&mut tack_config>, v: bool) {
    set(config, |config| config.enable_pacing(v));
}

/// Sets whether quiche's CUBIC leaves idle times out. It has an effect with TACK_PROFILE_OFF alone.
#[unsafe(no_mangle)]
pub extern "C" fn tack_config_set_enable_cubic_idle_restart_fix(
    config: Option<&mut tack_config>,
    v: bool,
) {
    set(config, |config| config.set_enable_cubic_idle_restart_fix(v));
}

/// Has no effect: quiche always does this.
#[unsafe(no_mangle)]
pub extern "C" fn tack_config_set_use_initial_max_data_as_flow_control_win(
    config: Option<&mut tack_config>,
    v: bool,
) {
    let _ = (config, v);
}

/// Sets the highest rate at which quiche paces, bytes per second. It has an effect with TACK_PROFILE_OFF alone.
#[unsafe(no_mangle)]
pub extern "C" fn tack_config_set_max_pacing_rate(config: Option<&mut tack_config>, v: u64) {
    set(config, |config| config.set_max_pacing_rate(v));
}

/// Sets whether DATAGRAM frames are taken, and how many wait to be read and to be sent at most.
#[unsafe(no_mangle)]
pub extern "C" fn tack_config_enable_dgram(
    config: Option<&mut tack_config>,
    enabled: bool,
    recv_queue_len: usize,
    send_queue_len: usize,
) {
    set(config, |config| config.enable_dgram(enabled, recv_queue_len, send_queue_len));
}

/// Sets the largest flow-control window of the connection, bytes.
#[unsafe(no_mangle)]
pub extern "C" fn tack_config_set_max_connection_window(
    config: Option<&mut tack_config>,
    v: u64,
) {
    set(config, |config| config.set_max_connection_window(v));
}

/// Sets the largest flow-control window of a stream, bytes.
#[unsafe(no_mangle)]
pub extern "C" fn tack_config_set_max_stream_window(config: Option<&mut tack_config>, v: u64) {
    set(config, |config| config.set_max_stream_window(v));
}

/// Sets `active_connection_id_limit`: connection ids that the peer may give.
#[unsafe(no_mangle)]
pub extern "C" fn tack_config_set_active_connection_id_limit(
    config: Option<&mut tack_config>,
    v: u64,
) {
    set(config, |config| config.set_active_connection_id_limit(v));
}

/// Sets the stateless reset token of the next server connection: 16 bytes.
#[unsafe(no_mangle)]
pub extern "C" fn tack_config_set_stateless_reset_token(
    config: Option<&mut tack_config>,
    v: Bytes,
) {
    if let Ok(token) = v.array() {
        let token = u128::from_be_bytes(token);
        set(config, |config| config.set_stateless_reset_token(Some(token)));
    }
}

/// Sets whether each path has a destination connection id of its own.
#[unsafe(no_mangle)]
pub extern "C" fn tack_config_set_disable_dcid_reuse(
    config: Option<&mut tack_config>,
    v: bool,
) {
    set(config, |config| config.set_disable_dcid_reuse(v));
}

/// Sets the key of session tickets: 48 bytes. Returns 0 or an error.
#[unsafe(no_mangle)]
pub extern "C" fn tack_config_set_ticket_key(
    config: Option<&mut tack_config>,
    key: Bytes,
    key_len: usize,
) -> c_int {
    load(config, |config| Ok(config.set_ticket_key(key.get(key_len)?)?))
}

/// Sets the profile (enum tack_profile), and all settings of the layer to its defaults. Returns 0, or an error
/// if there is no such profile.
#[unsafe(no_mangle)]
pub extern "C" fn tack_config_set_profile(
    config: Option<&mut tack_config>,
    profile: ProfileNumber,
) -> c_int {
    use tack_profile as c;
    load(config, |config| {
        let profile = match profile.0 {
            profile if profile == c::TACK_PROFILE_DEFAULT as c_int => Profile::Default,
            profile if profile == c::TACK_PROFILE_VIDEO as c_int => Profile::Video,
            profile if profile == c::TACK_PROFILE_QUICK as c_int => Profile::Quick,
            profile if profile == c::TACK_PROFILE_OFF as c_int => Profile::Off,
            _ => return Err(INVALID_ARGUMENT),
        };
        config.set_profile(profile);
        Ok(())
    })
}

/// Returns the profile (enum tack_profile).
#[unsafe(no_mangle)]
pub extern "C" fn tack_config_profile(config: Option<&tack_config>) -> c_int {
    let profile = match config.map(|config| config.0.tack().profile) {
        Some(Profile::Video) => tack_profile::TACK_PROFILE_VIDEO,
        Some(Profile::Quick) => tack_profile::TACK_PROFILE_QUICK,
        Some(Profile::Off) => tack_profile::TACK_PROFILE_OFF,
        None => return INVALID_ARGUMENT.code(),
        _ => tack_profile::TACK_PROFILE_DEFAULT,
    };
    profile as c_int
}

/// Sets how much may be written and not yet sent, bytes: 4 MiB unless set.
#[unsafe(no_mangle)]
pub extern "C" fn tack_config_set_send_buffer(config: Option<&mut tack_config>, bytes: usize) {
    set_tack(config, |tack| tack.send_buffer = bytes);
}

/// Sets the same in time, nanoseconds: no more than leaves in this time waits. 0 is no limit; 100 ms in the
/// video profile unless set.
#[unsafe(no_mangle)]
pub extern "C" fn tack_config_set_send_buffer_time(
    config: Option<&mut tack_config>,
    nanos: u64,
) {
    set_tack(config, |tack| tack.send_buffer_time = time(nanos));
}

/// Sets how long a DATAGRAM may wait before it is dropped, nanoseconds. 0 is no limit, as when it is not set.
#[unsafe(no_mangle)]
pub extern "C" fn tack_config_set_datagram_max_age(
    config: Option<&mut tack_config>,
    nanos: u64,
) {
    set_tack(config, |tack| tack.datagram_max_age = time(nanos));
}

/// Sets the error code with which streams are reset whose deadline has passed: 0 unless set.
#[unsafe(no_mangle)]
pub extern "C" fn tack_config_set_deadline_error(config: Option<&mut tack_config>, err: u64) {
    set_tack(config, |tack| tack.deadline_error = err);
}

/// Sets whether the path is measured with packet trains while less is sent than it carries: yes in the video
/// profile, no in others unless set.
#[unsafe(no_mangle)]
pub extern "C" fn tack_config_set_packet_trains(
    config: Option<&mut tack_config>,
    enabled: bool,
) {
    set_tack(config, |tack| tack.packet_trains = enabled);
}

fn time(nanos: u64) -> Option<Duration> {
    (nanos > 0).then(|| Duration::from_nanos(nanos))
}
