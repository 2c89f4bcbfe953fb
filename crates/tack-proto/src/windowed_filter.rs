//! Maximum over a sliding window, the three-candidate way of Kathleen Nichols'
//! filter as BBR uses it: constant space, and exact enough.

/// A maximum and the two next best that came after it.
#[derive(Clone, Copy, Debug)]
pub struct MaxFilter<V> {
    window: u64,
    best: [(u64, V); 3],
}

impl<V: Copy + Ord + Default> MaxFilter<V> {
    /// A filter over `window` units of time; the unit is the caller's.
    pub fn new(window: u64) -> Self {
        Self { window, best: [(0, V::default()); 3] }
    }

    /// The maximum.
    pub fn get(&self) -> V {
        self.best[0].1
    }

    /// Forgets everything for this value.
    pub fn reset(&mut self, time: u64, value: V) {
        self.best = [(time, value); 3];
    }

    /// What has been seen counts for no more than this, for as long as it would have counted.
    pub fn limit(&mut self, most: V) {
        for (_, value) in &mut self.best {
            *value = most.min(*value);
        }
    }

    /// Adds a value that was seen at `time`, which must not go back.
    pub fn update(&mut self, time: u64, value: V) {
        let new = (time, value);
        if value >= self.best[0].1 || time.saturating_sub(self.best[2].0) > self.window {
            self.best = [new; 3];
            return;
        }
        if value >= self.best[1].1 {
            self.best[1] = new;
            self.best[2] = new;
        } else if value >= self.best[2].1 {
            self.best[2] = new;
        }
        // Candidates that left the window make room for younger ones; a second
        // that is as old as the first gets a successor in time.
        if time.saturating_sub(self.best[0].0) > self.window {
            self.best = [self.best[1], self.best[2], new];
            if time.saturating_sub(self.best[0].0) > self.window {
                self.best = [self.best[1], new, new];
            }
        } else if self.best[1].0 == self.best[0].0 && time - self.best[1].0 > self.window / 4 {
            self.best[1] = new;
            self.best[2] = new;
        } else if self.best[2].0 == self.best[1].0 && time - self.best[2].0 > self.window / 2 {
            self.best[2] = new;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peak_is_forgotten_after_the_window() {
        let mut filter = MaxFilter::new(10);
        filter.update(0, 100);
        for time in 1..=10 {
            filter.update(time, 50);
            assert_eq!(filter.get(), 100);
        }
        filter.update(11, 50);
        assert_eq!(filter.get(), 50);
    }

    #[test]
    fn a_limited_peak_is_forgotten_when_it_would_have_been() {
        let mut filter = MaxFilter::new(10);
        filter.update(0, 50);
        filter.update(5, 10);
        filter.limit(20);
        assert_eq!(filter.get(), 20);
        filter.update(11, 10);
        assert_eq!(filter.get(), 10);
    }

    #[test]
    fn a_higher_value_counts_at_once() {
        let mut filter = MaxFilter::new(10);
        filter.update(0, 10);
        filter.update(1, 20);
        assert_eq!(filter.get(), 20);
    }

    #[test]
    fn after_a_pause_only_the_present_counts() {
        let mut filter = MaxFilter::new(10);
        filter.update(0, 100);
        filter.update(100, 7);
        assert_eq!(filter.get(), 7);
    }

    #[test]
    fn a_falling_sequence_is_followed_within_a_window() {
        let mut filter = MaxFilter::new(10);
        for time in 0..200_u64 {
            let value = 1000 - time;
            filter.update(time, value);
            // Never below the present and never older than a window.
            assert!(filter.get() >= value && filter.get() <= value + 11, "{time}");
        }
    }
}
