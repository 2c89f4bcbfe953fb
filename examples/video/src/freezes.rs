//! How often, and for how long, a viewer looks at a picture that stands still.

use std::time::{Duration, Instant};

/// A picture that stands this much longer than it lasts stands still: less is hardly seen.
const UNSEEN: Duration = Duration::from_millis(150);

/// Counts pictures that stand still.
#[derive(Clone, Copy, Debug, Default)]
pub struct Freezes {
    first: Option<Instant>,
    last: Option<(Instant, Duration)>,
    count: u64,
    stood: Duration,
}

impl Freezes {
    /// A picture is shown that lasts so long.
    pub fn on_picture(&mut self, now: Instant, lasts: Duration) {
        self.first.get_or_insert(now);
        if let Some(stood) = self.standing(now) {
            self.count += 1;
            self.stood += stood;
        }
        self.last = Some((now, lasts));
    }

    /// When the first picture was shown.
    pub fn first(&self) -> Option<Instant> {
        self.first
    }

    /// How often a picture has stood still, for how long, and the share of the time since the first.
    pub fn at(&self, now: Instant, is_over: bool) -> (u64, Duration, f64) {
        let standing = self.standing(now).filter(|_| !is_over);
        let stood = self.stood + standing.unwrap_or_default();
        let played = self.first.map_or(Duration::ZERO, |at| now.saturating_duration_since(at));
        let share = stood.as_secs_f64() / played.as_secs_f64().max(1e-9);
        (self.count + u64::from(standing.is_some()), stood, share.min(1.0))
    }

    /// For how long the last picture stands still already.
    fn standing(&self, now: Instant) -> Option<Duration> {
        let (at, lasts) = self.last?;
        let longer = now.saturating_duration_since(at).saturating_sub(lasts);
        (longer > UNSEEN).then_some(longer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn what_is_longer_than_a_picture_lasts_counts_if_it_is_seen() {
        let now = Instant::now();
        let mut freezes = Freezes::default();
        for at in [0, 33, 66, 180, 680, 713] {
            freezes.on_picture(now + at * MS, 33 * MS);
        }
        let (count, stood, share) = freezes.at(now + 750 * MS, false);
        assert_eq!((count, stood), (1, 467 * MS));
        assert!((0.62..0.63).contains(&share), "{share}");
        assert_eq!(freezes.at(now + 1746 * MS, false).1, 1467 * MS, "it stands now");
        assert_eq!(freezes.at(now + 1746 * MS, true).1, 467 * MS, "it has ended");
    }
}
