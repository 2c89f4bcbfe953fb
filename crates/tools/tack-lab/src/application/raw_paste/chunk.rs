//! How much of a file goes into one command.

/// Below that a file goes in one command, bytes.
const SINGLE_SHOT: usize = 3 * 1024;

/// What a command carries by the memory that the device has free, both in bytes.
const BY_MEMORY: [(usize, usize); 3] = [(100 << 10, 2048), (50 << 10, 1024), (20 << 10, 512)];

/// What it carries where there is less.
const LEAST: usize = 256;

/// Bytes of a file of that length in each command, for a device with so much memory free.
pub fn chunk_size(file: usize, free_memory: usize) -> usize {
    if file < SINGLE_SHOT {
        return file.max(1);
    }
    let fitting = BY_MEMORY.iter().find(|(memory, _)| free_memory > *memory);
    fitting.map_or(LEAST, |(_, chunk)| *chunk)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_file_goes_in_one_command_and_others_as_the_memory_allows() {
        assert_eq!(chunk_size(3071, 0), 3071);
        let chunks = [293, 100, 51, 50, 21, 20, 0].map(|kib| chunk_size(3072, kib << 10));
        assert_eq!(chunks, [2048, 1024, 1024, 512, 512, 256, 256]);
    }
}
