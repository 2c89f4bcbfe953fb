//! Careful Resume (RFC 9959): what an earlier connection observed of the path.

use std::time::{SystemTime, UNIX_EPOCH};

use quiche::BufFactory;
use tack_proto::sender::CcParameters;

use super::Connection;

impl<F: BufFactory> Connection<F> {
    /// Offers what an earlier connection over the same path observed (RFC 9959).
    ///
    /// Once the path looks the same, up to half of the window that was saved leaves within a round trip.
    ///
    /// To be called before the initial window has left: a client does so right behind
    /// [`connect`](crate::connect), a server when the handshake is done at the latest. The parameters
    /// are those of this connection's remote endpoint: the local interface and the peer's address. One
    /// connection at a time may use
    /// them (TACK-6.7-9): whoever stores them takes them out, and stores what
    /// [`cc_parameters`](Self::cc_parameters) returns at the end.
    ///
    /// True if they are going to be tried. They are not if they are older than
    /// [`TackConfig::cc_parameters_lifetime`](crate::TackConfig::cc_parameters_lifetime) at `now`, from the
    /// future, or impossible; if more than the initial window was sent; and with
    /// [`Profile::Off`](crate::Profile::Off).
    ///
    /// ```
    /// use std::time::SystemTime;
    ///
    /// use tacklib::{CcParameters, Connection};
    ///
    /// /// Right behind `connect` or `accept`; `stored` is what was kept for the peer's address.
    /// fn begin(connection: &mut Connection, stored: &mut Option<Vec<u8>>) {
    ///     // Taken out: no other connection may use them at the same time.
    ///     let parameters = stored.take().and_then(|bytes| CcParameters::from_bytes(&bytes));
    ///     if let Some(parameters) = parameters {
    ///         connection.set_cc_parameters(parameters, SystemTime::now());
    ///     }
    /// }
    ///
    /// /// Before the connection is closed.
    /// fn end(connection: &Connection, stored: &mut Option<Vec<u8>>) {
    ///     let parameters = connection.cc_parameters(SystemTime::now());
    ///     *stored = parameters.map(|parameters| parameters.to_bytes().to_vec());
    /// }
    /// ```
    pub fn set_cc_parameters(&mut self, parameters: CcParameters, now: SystemTime) -> bool {
        let lifetime = self.config.cc_parameters_lifetime;
        // TACK-6.7-1
        let is_usable =
            parameters.is_plausible() && parameters.is_current(unix_seconds(now), lifetime);
        if !is_usable || !self.is_enabled() {
            return false;
        }
        if let Some(layer) = &mut self.layer {
            return layer.set_cc_parameters(parameters);
        }
        self.handshake.cc_parameters = Some(parameters);
        true
    }

    /// What this connection has observed of its path, for the next one.
    ///
    /// See RFC 9959 section 3.1. It is of the path that data goes over now; or what the connection was given, if it has
    /// not tried that or not filled the path.
    ///
    /// `None` if too little was sent to tell, right after a jump, after a retreat until more is
    /// known, before the handshake is done, and with [`Profile::Off`](crate::Profile::Off). To be
    /// stored for the addresses of the active path of
    /// [`path_stats`](Self::path_stats), in place of what was stored before, if this returns any.
    pub fn cc_parameters(&self, now: SystemTime) -> Option<CcParameters> {
        match &self.layer {
            Some(layer) => layer.sender().cc_parameters(unix_seconds(now)),
            None => self.handshake.cc_parameters,
        }
    }
}

/// Seconds since the Unix epoch; 0 on a machine whose clock was never set.
fn unix_seconds(now: SystemTime) -> u64 {
    now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}
