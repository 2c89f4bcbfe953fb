//! What persistent congestion leaves in flight, and the way back (RFC 9002 section 7.6.2; the draft's
//! section "Modulating cwnd in Loss Recovery"; TACK-6.6-3, TACK-6.6-4).
//!
//! The models stay: they hold what the path carried when it was last heard of, and the pacing rate
//! with them. What they allow in flight is allowed again once a round trip has shown that the path
//! still carries what it is sent.

/// kMinimumWindow, RFC 9002 section 7.2, in packets.
const MINIMUM_PACKETS: u64 = 2;

/// The window while it is less than what the models allow.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct MinimumWindow {
    reduced: Option<Reduced>,
}

#[derive(Clone, Copy, Debug)]
struct Reduced {
    window: u64,
    /// The round trip ends with a packet that left when so much was delivered.
    round_ends_at: u64,
    /// Something was lost in it.
    has_lost: bool,
}

impl MinimumWindow {
    /// Persistent congestion is established, when so much has been delivered.
    pub fn on_persistent_congestion(&mut self, delivered: u64, mss: u64) {
        let window = MINIMUM_PACKETS * mss;
        self.reduced = Some(Reduced { window, round_ends_at: delivered, has_lost: false });
    }

    /// So many bytes were acknowledged and lost, `delivered` in all so far, and `prior` when the newest
    /// packet left. The window grows as in slow start.
    pub fn on_acked(&mut self, (acked, lost): (u64, u64), delivered: u64, prior: Option<u64>) {
        let Some(reduced) = &mut self.reduced else { return };
        reduced.window = reduced.window.saturating_add(acked);
        reduced.has_lost |= lost > 0;
        if prior.is_none_or(|prior| prior < reduced.round_ends_at) {
            return;
        }
        if !reduced.has_lost {
            self.reduced = None;
            return;
        }
        (reduced.round_ends_at, reduced.has_lost) = (delivered, false);
    }

    /// It was no congestion.
    pub fn undo(&mut self) {
        self.reduced = None;
    }

    /// The volume within the window.
    pub fn bound_inflight(&self, inflight: u64) -> u64 {
        self.reduced.map_or(inflight, |reduced| inflight.min(reduced.window))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reduced() -> MinimumWindow {
        let mut window = MinimumWindow::default();
        assert_eq!(window.bound_inflight(100_000), 100_000);
        window.on_persistent_congestion(7000, 1000);
        window
    }

    #[test]
    fn two_packets_are_left_and_each_acknowledged_one_adds_one() {
        let mut window = reduced();
        assert_eq!(window.bound_inflight(100_000), 2000);
        window.on_acked((1000, 0), 8000, Some(6000));
        assert_eq!(window.bound_inflight(100_000), 3000);
        assert_eq!(window.bound_inflight(2500), 2500);
    }

    #[test]
    fn a_round_trip_without_a_loss_gives_back_what_the_models_allow() {
        let mut window = reduced();
        window.on_acked((2000, 1000), 9000, Some(7000));
        assert_eq!(window.bound_inflight(100_000), 4000, "something was lost in it");
        window.on_acked((1000, 0), 10_000, Some(8000));
        assert_eq!(window.bound_inflight(100_000), 5000, "it is not over");
        window.on_acked((1000, 0), 11_000, Some(9000));
        assert_eq!(window.bound_inflight(100_000), 100_000);
    }

    #[test]
    fn losses_that_were_none_give_it_back_at_once() {
        let mut window = reduced();
        window.undo();
        assert_eq!(window.bound_inflight(100_000), 100_000);
    }
}
