//! quiche's settings of one connection, which an application makes in BoringSSL's callbacks during the
//! handshake.
//!
//! Those of quiche's controller would take the place of the inert one, whose window never closes; those of
//! the transport parameters would have quiche encode its own anew, without the announcement.

use boring::ssl::SslRef;
use quiche::{BufFactory, CongestionControlAlgorithm};

use super::Connection;
use crate::boringssl;
use crate::negotiation::{self, id};

impl<F: BufFactory> Connection<F> {
    /// Sets the congestion control algorithm, as
    /// [`quiche::Connection::set_cc_algorithm_in_handshake`]. It has an effect in
    /// [`Profile::Off`](crate::Profile::Off) alone.
    pub fn set_cc_algorithm_in_handshake(
        ssl: &mut SslRef,
        algorithm: CongestionControlAlgorithm,
    ) -> quiche::Result<()> {
        without_layer(ssl, |ssl| {
            quiche::Connection::<F>::set_cc_algorithm_in_handshake(ssl, algorithm)
        })
    }

    /// Sets the congestion control algorithm by its name.
    ///
    /// As [`quiche::Connection::set_cc_algorithm_name_in_handshake`]. It has an effect in
    /// [`Profile::Off`](crate::Profile::Off) alone.
    ///
    /// Fails with [`quiche::Error::CongestionControl`] if no algorithm has the name.
    pub fn set_cc_algorithm_name_in_handshake(
        ssl: &mut SslRef,
        name: &str,
    ) -> quiche::Result<()> {
        Self::set_cc_algorithm_in_handshake(ssl, name.parse()?)
    }

    /// Sets the initial congestion window.
    ///
    /// As [`quiche::Connection::set_initial_congestion_window_packets_in_handshake`]. It has an effect
    /// in [`Profile::Off`](crate::Profile::Off) alone.
    pub fn set_initial_congestion_window_packets_in_handshake(
        ssl: &mut SslRef,
        packets: usize,
    ) -> quiche::Result<()> {
        without_layer(ssl, |ssl| {
            quiche::Connection::<F>::set_initial_congestion_window_packets_in_handshake(
                ssl, packets,
            )
        })
    }

    /// Enables or disables HyStart++, as [`quiche::Connection::set_hystart_in_handshake`]. It has an
    /// effect in [`Profile::Off`](crate::Profile::Off) alone.
    pub fn set_hystart_in_handshake(ssl: &mut SslRef, hystart: bool) -> quiche::Result<()> {
        without_layer(ssl, |ssl| {
            quiche::Connection::<F>::set_hystart_in_handshake(ssl, hystart)
        })
    }

    /// Enables or disables quiche's pacing, as [`quiche::Connection::set_pacing_in_handshake`]. It has
    /// an effect in [`Profile::Off`](crate::Profile::Off) alone; the layer always paces.
    pub fn set_pacing_in_handshake(ssl: &mut SslRef, pacing: bool) -> quiche::Result<()> {
        without_layer(ssl, |ssl| quiche::Connection::<F>::set_pacing_in_handshake(ssl, pacing))
    }

    /// Limits quiche's pacing rate, as [`quiche::Connection::set_max_pacing_rate_in_handshake`]. It has
    /// an effect in [`Profile::Off`](crate::Profile::Off) alone.
    pub fn set_max_pacing_rate_in_handshake(
        ssl: &mut SslRef,
        bytes_per_second: Option<u64>,
    ) -> quiche::Result<()> {
        without_layer(ssl, |ssl| {
            quiche::Connection::<F>::set_max_pacing_rate_in_handshake(ssl, bytes_per_second)
        })
    }

    /// Relaxes the loss threshold behind spurious losses.
    ///
    /// As [`quiche::Connection::set_enable_relaxed_loss_threshold_in_handshake`]. It has an effect in
    /// [`Profile::Off`](crate::Profile::Off) alone: quiche would judge losses by other thresholds than
    /// the layer.
    pub fn set_enable_relaxed_loss_threshold_in_handshake(
        ssl: &mut SslRef,
        enable: bool,
    ) -> quiche::Result<()> {
        without_layer(ssl, |ssl| {
            quiche::Connection::<F>::set_enable_relaxed_loss_threshold_in_handshake(ssl, enable)
        })
    }

    /// Sets the send capacity factor, as
    /// [`quiche::Connection::set_send_capacity_factor_in_handshake`]. It has an effect in
    /// [`Profile::Off`](crate::Profile::Off) alone: beyond 1 it lets an application write more than the
    /// peer's flow control lets leave, which the layer takes for data that waits.
    pub fn set_send_capacity_factor_in_handshake(
        ssl: &mut SslRef,
        factor: f64,
    ) -> quiche::Result<()> {
        without_layer(ssl, |ssl| {
            quiche::Connection::<F>::set_send_capacity_factor_in_handshake(ssl, factor)
        })
    }

    /// Sets the idle timeout in milliseconds, as
    /// [`quiche::Connection::set_max_idle_timeout_in_handshake`].
    pub fn set_max_idle_timeout_in_handshake(
        ssl: &mut SslRef,
        milliseconds: u64,
    ) -> quiche::Result<()> {
        quiche::Connection::<F>::set_max_idle_timeout_in_handshake(ssl, milliseconds)?;
        announce(ssl, id::MAX_IDLE_TIMEOUT, milliseconds)
    }

    /// Sets how many bidirectional streams the peer may open at first.
    ///
    /// As [`quiche::Connection::set_initial_max_streams_bidi_in_handshake`].
    pub fn set_initial_max_streams_bidi_in_handshake(
        ssl: &mut SslRef,
        streams: u64,
    ) -> quiche::Result<()> {
        quiche::Connection::<F>::set_initial_max_streams_bidi_in_handshake(ssl, streams)?;
        announce(ssl, id::INITIAL_MAX_STREAMS_BIDI, streams)
    }

    /// Sets the longest datagram to send.
    ///
    /// As [`quiche::Connection::set_max_send_udp_payload_size_in_handshake`].
    pub fn set_max_send_udp_payload_size_in_handshake(
        ssl: &mut SslRef,
        bytes: usize,
    ) -> quiche::Result<()> {
        quiche::Connection::<F>::set_max_send_udp_payload_size_in_handshake(ssl, bytes)
    }

    /// Enables or disables path MTU discovery, as
    /// [`quiche::Connection::set_discover_pmtu_in_handshake`].
    pub fn set_discover_pmtu_in_handshake(
        ssl: &mut SslRef,
        discover: bool,
        max_probes: u8,
    ) -> quiche::Result<()> {
        quiche::Connection::<F>::set_discover_pmtu_in_handshake(ssl, discover, max_probes)
    }

    /// Chooses how CUBIC begins again.
    ///
    /// As [`quiche::Connection::set_enable_cubic_idle_restart_fix_in_handshake`]. It has an effect in
    /// [`Profile::Off`](crate::Profile::Off) alone.
    pub fn set_enable_cubic_idle_restart_fix_in_handshake(
        ssl: &mut SslRef,
        enable: bool,
    ) -> quiche::Result<()> {
        without_layer(ssl, |ssl| {
            quiche::Connection::<F>::set_enable_cubic_idle_restart_fix_in_handshake(ssl, enable)
        })
    }

    /// Sets parameters of quiche's BBR, as
    /// `quiche::Connection::set_custom_bbr_settings_in_handshake`. It has an effect in
    /// [`Profile::Off`](crate::Profile::Off) alone.
    #[cfg(feature = "internal")]
    #[doc(hidden)]
    pub fn set_custom_bbr_settings_in_handshake(
        ssl: &mut SslRef,
        parameters: quiche::BbrParams,
    ) -> quiche::Result<()> {
        without_layer(ssl, |ssl| {
            quiche::Connection::<F>::set_custom_bbr_settings_in_handshake(ssl, parameters)
        })
    }

    /// Does nothing, as
    /// `quiche::Connection::set_use_initial_max_data_as_flow_control_win_in_handshake`.
    #[deprecated(note = "This is now always enabled. This method is a no-op.")]
    pub fn set_use_initial_max_data_as_flow_control_win_in_handshake(
        _ssl: &mut SslRef,
    ) -> quiche::Result<()> {
        Ok(())
    }
}

/// Sets something of quiche's controller, unless the layer has taken its place.
fn without_layer(
    ssl: &mut SslRef,
    set: impl FnOnce(&mut SslRef) -> quiche::Result<()>,
) -> quiche::Result<()> {
    if boringssl::announced_parameters(ssl).is_none() {
        return set(ssl);
    }
    log::warn!(
        "a setting of quiche's congestion control has no effect in the handshake: the layer has its \
         own controller (use Profile::Off to compare with quiche's)"
    );
    Ok(())
}

/// Changes a parameter of those that we announce. quiche has just replaced them all by its own.
fn announce(ssl: &mut SslRef, parameter: u64, value: u64) -> quiche::Result<()> {
    let Some(mut parameters) = boringssl::announced_parameters(ssl).cloned() else {
        return Ok(());
    };
    negotiation::set_integer(&mut parameters, parameter, value)
        .map_err(|_| quiche::Error::InvalidTransportParam)?;
    if boringssl::announce_parameters(ssl, parameters) {
        Ok(())
    } else {
        Err(quiche::Error::TlsFail)
    }
}
