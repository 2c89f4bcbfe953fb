//! How long packets may be that are no probes of the path MTU, and what to do when they are not any more.
//!
//! What: follows the size that quiche has validated, and has quiche validate it again when it may be a black hole.
//! Why: while quiche (0.30, `send_on_path`) probes for the path MTU (RFC 9000 section 14.3),
//! `max_send_udp_payload_size` tells the size of the probe. The layer would lengthen its packets to a size that the
//! path may not take, and count windows in it. `PathStats::pmtu` tells what has been validated, but to ask for it
//! with each packet costs more than to follow it: it changes with an acknowledgement, an expired timer or the
//! path. And quiche does not notice when a path stops to take what it took (RFC 8899 section 4.3): all full packets
//! are lost from then on, the probes of its timer among them. Upstream: no issue found. To delete: when
//! `max_send_udp_payload_size` tells the validated size and a black hole ends by itself; `tests/path_mtu.rs`
//! has to pass without it.

use quiche::BufFactory;

/// What quiche writes at most: STREAM frames have lengths of two bytes.
const LARGEST_PACKET: usize = 16_383;

/// What every path takes (RFC 9000 section 14).
const SMALLEST_MAX: usize = 1200;

/// Probe timeouts in a row, without an acknowledgement between them, behind which the size is validated again:
/// kPersistentCongestionThreshold (RFC 9002 section 7.6.1), since nothing less tells a black hole from losses.
const BLACK_HOLE_TIMEOUTS: u32 = 3;

/// The longest packet that the active path is known to take, UDP payload in bytes.
#[derive(Clone, Copy, Debug)]
pub struct PathMtu {
    size: usize,
    timeouts: u32,
}

impl Default for PathMtu {
    fn default() -> Self {
        Self { size: SMALLEST_MAX, timeouts: 0 }
    }
}

impl PathMtu {
    /// The size.
    #[inline]
    pub fn get(self) -> usize {
        self.size
    }

    /// quiche may have learnt of another size, or data goes over another path.
    pub fn follow<F: BufFactory>(&mut self, connection: &quiche::Connection<F>) {
        let active = connection.path_stats().find(|path| path.active);
        if let Some(path) = active {
            self.size = path.pmtu.min(LARGEST_PACKET);
        }
    }

    /// Something has been acknowledged; `is_black_hole` tells that the path may have stopped taking long packets.
    pub fn on_acknowledged<F: BufFactory>(
        &mut self,
        connection: &mut quiche::Connection<F>,
        is_black_hole: bool,
    ) {
        self.timeouts = 0;
        if is_black_hole {
            connection.revalidate_pmtu();
        }
        self.follow(connection);
    }

    /// The probe timer has expired. Without path MTU discovery nothing can be learnt from that.
    pub fn on_probe_timeout<F: BufFactory>(&mut self, connection: &mut quiche::Connection<F>) {
        self.timeouts += 1;
        // TACK-6.5-12
        if self.timeouts == BLACK_HOLE_TIMEOUTS {
            connection.revalidate_pmtu();
        }
        self.follow(connection);
    }
}
