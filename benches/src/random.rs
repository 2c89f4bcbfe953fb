//! Numbers that look random and are the same for the same seed.

/// SplitMix64: one word of state, any seed is a good one.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The sequence that belongs to a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// True with a probability of `share`, a number between 0 and 1.
    pub fn chance(&mut self, share: f64) -> bool {
        // 53 bits are what an f64 holds.
        ((self.next() >> 11) as f64) < share * (1u64 << 53) as f64
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chances_are_as_asked_and_repeat_with_the_seed() {
        let draw = |seed| {
            let mut random = Random::new(seed);
            (0..100_000).filter(|_| random.chance(0.05)).count()
        };
        assert!((4_700..5_300).contains(&draw(1)), "{}", draw(1));
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
        assert!(!Random::new(1).chance(0.0) && Random::new(1).chance(1.0));
    }
}
