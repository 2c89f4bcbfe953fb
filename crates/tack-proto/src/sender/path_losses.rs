//! What the path loses of less than it carries (TACK-6.2-16).
//!
//! Losses that come with the rate are told from those that do not by sending less: in ProbeBW Down data leaves at three
//! quarters of what the path was seen to deliver. A shallow buffer or a policer drops nothing of that, a wireless path
//! loses as much as ever.

use super::bbr::LOSS_THRESH;

/// Packets that a share is an average over, about.
const MEMORY_PACKETS: f64 = 500.0;

/// Packets from which on it is known.
const LEAST_PACKETS: f64 = 50.0;

/// No path is taken to lose more by itself.
const MOST: f64 = 0.5;

/// What became of packets of late, in decayed sums.
#[derive(Clone, Copy, Debug, Default)]
struct Recent {
    acked: f64,
    lost: f64,
}

impl Recent {
    fn add(&mut self, (acked, lost): (u64, u64), mss: u64) {
        let packets = |bytes: u64| bytes as f64 / mss.max(1) as f64;
        self.acked += packets(acked);
        self.lost += packets(lost);
        let sent = self.acked + self.lost;
        if sent > MEMORY_PACKETS {
            self.acked *= MEMORY_PACKETS / sent;
            self.lost *= MEMORY_PACKETS / sent;
        }
    }

    fn share(&self) -> f64 {
        let sent = self.acked + self.lost;
        if sent < LEAST_PACKETS { 0.0 } else { self.lost / sent }
    }
}

/// Counts what is lost of what is sent at the path's rate, and of what is sent below it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PathLosses {
    level: Recent,
    slow: Recent,
}

impl PathLosses {
    /// So many bytes that were sent at the path's rate have arrived, and so many are lost.
    pub fn on_level(&mut self, volume: (u64, u64), mss: u64) {
        self.level.add(volume, mss);
    }

    /// The same of what Down has sent, where nothing queued.
    pub fn on_slow(&mut self, volume: (u64, u64), mss: u64) {
        self.slow.add(volume, mss);
    }

    /// Whether it is worth knowing what is lost of less.
    pub fn are_many(&self) -> bool {
        self.level.share() > LOSS_THRESH
    }

    /// The share that the path loses of whatever is sent, 0 to 0.5: what is lost of less, less by as much as more is lost
    /// at the path's rate. What a probe may lose counts as nothing.
    pub fn share(&self) -> f64 {
        let (level, slow) = (self.level.share(), self.slow.share());
        let share = slow.min(level) - (level - slow).max(0.0);
        if share > LOSS_THRESH { share.min(MOST) } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACKET: u64 = 1400;

    /// What is known when so much is lost of a thousand packets at the path's rate, and of a thousand below it.
    fn known(level: u64, slow: u64) -> PathLosses {
        let mut losses = PathLosses::default();
        for _ in 0..100 {
            losses.on_level(((1000 - level) * PACKET / 100, level * PACKET / 100), PACKET);
            losses.on_slow(((1000 - slow) * PACKET / 100, slow * PACKET / 100), PACKET);
        }
        losses
    }

    #[test]
    fn what_is_lost_at_any_rate_is_the_paths() {
        assert!((known(300, 300).share() - 0.3).abs() < 0.01);
        assert!(known(300, 300).are_many());
    }

    #[test]
    fn losses_that_come_with_the_rate_are_not() {
        assert!(known(200, 0).share() <= 0.0, "a policer");
        assert!(known(200, 100).share() <= 0.0, "half of it");
        assert!((known(200, 180).share() - 0.16).abs() < 0.01);
    }

    #[test]
    fn nothing_is_gained_by_hiding_what_was_sent_slowly() {
        assert!(known(0, 500).share() <= 0.0);
        assert!((known(100, 500).share() - 0.1).abs() < 0.01);
    }

    #[test]
    fn few_losses_and_few_packets_count_as_none() {
        assert!(known(20, 20).share() <= 0.0);
        let mut losses = PathLosses::default();
        losses.on_level((20 * PACKET, 20 * PACKET), PACKET);
        losses.on_slow((20 * PACKET, 20 * PACKET), PACKET);
        assert!(losses.share() <= 0.0);
    }

    #[test]
    fn a_path_that_loses_nothing_any_more_is_known_within_a_thousand_packets() {
        let mut losses = known(300, 300);
        for _ in 0..1500 {
            losses.on_level((PACKET, 0), PACKET);
        }
        assert!(losses.share() <= 0.0);
    }
}
