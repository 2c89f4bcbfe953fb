//! What several tests need.

use std::fs::File;
use std::io::{Seek, Write};

use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// Bytes that nothing repeats itself in.
pub(super) fn noise(length: usize, seed: u64) -> Vec<u8> {
    let mut bytes = vec![0; length];
    Pcg64Mcg::seed_from_u64(seed).fill_bytes(&mut bytes);
    bytes
}

/// An open file without a name that holds `content`.
pub(super) fn file_of(content: &[u8]) -> File {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(content).unwrap();
    file.rewind().unwrap();
    file
}
