//! Writes files without their blocks of zeros, which a file system then need not store.

use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};

/// So many zeros, aligned, are left out: what common file systems store.
const HOLE: usize = 4096;

/// Appends `data` at `offset`, where the file is positioned; leaves out blocks of zeros, which the
/// file system then need not store. Whether there are such behind the last byte that is written.
pub(super) fn write_sparse(file: &mut File, offset: u64, data: &[u8]) -> io::Result<bool> {
    let (mut done, mut ends_with_hole) = (0, false);
    while done < data.len() {
        // Up to the next boundary of blocks in the file, and then block by block.
        let length_of = |at: usize| {
            let in_block = ((offset + at as u64) % HOLE as u64) as usize;
            (HOLE - in_block).min(data.len() - at)
        };
        // A part of a block, too: the rest of it may be in the data before or behind.
        let is_hole = |at: usize| data[at..at + length_of(at)].iter().all(|byte| *byte == 0);
        let (start, hole) = (done, is_hole(done));
        while done < data.len() && is_hole(done) == hole {
            done += length_of(done);
        }
        ends_with_hole = hole;
        if hole {
            file.seek(SeekFrom::Start(offset + done as u64))?;
        } else {
            file.write_all(&data[start..done])?;
        }
    }
    Ok(ends_with_hole)
}
