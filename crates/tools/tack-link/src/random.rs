//! Random streams: one for each thing that draws, all derived from one seed.

use rand::SeedableRng;
use rand_pcg::Pcg64Mcg;

/// The seed of a part of something that has the seed `seed`. Parts are told apart by `label`, so
/// that adding one leaves the draws of the others as they are.
///
/// It is the output of SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number
/// generators", OOPSLA 2014) in the state that `label` steps from `seed` lead to; so the labels 0,
/// 1, 2, ... give that generator's sequence.
pub const fn child_seed(seed: u64, label: u64) -> u64 {
    let step = label.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut bits = seed.wrapping_add(step);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

/// The random stream of that part.
pub(crate) fn stream(seed: u64, label: u64) -> Pcg64Mcg {
    Pcg64Mcg::seed_from_u64(child_seed(seed, label))
}

#[cfg(test)]
mod tests {
    use rand::RngExt;

    use super::*;

    #[test]
    fn neighbouring_seeds_and_labels_have_nothing_in_common() {
        let mut first: Vec<u64> = Vec::new();
        for seed in 0..10 {
            for label in 0..10 {
                first.push(stream(seed, label).random());
            }
        }
        first.sort_unstable();
        first.dedup();
        assert_eq!(first.len(), 100);
    }

    #[test]
    fn a_stream_is_the_same_on_every_machine_and_in_every_build() {
        // Results are published with their seeds: these values must never change.
        assert_eq!(child_seed(0, 0), 0xe220_a839_7b1d_cdaf);
        assert_eq!(stream(1, 2).random::<u64>(), 3_545_783_376_631_377_041);
    }
}
