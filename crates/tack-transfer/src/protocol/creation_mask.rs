//! The process's file mode creation mask.

use std::sync::OnceLock;

/// What is taken from everybody but the owner if the system does not tell.
const CAUTIOUS: u32 = 0o077;

/// The bits that new files and directories must not have (umask). Read once: the system call
/// that reads it also sets it, for all threads.
pub(super) fn creation_mask() -> u32 {
    static MASK: OnceLock<u32> = OnceLock::new();
    *MASK.get_or_init(|| read().unwrap_or(CAUTIOUS))
}

fn read() -> Option<u32> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let mask = status.lines().find_map(|line| line.strip_prefix("Umask:"))?;
    u32::from_str_radix(mask.trim(), 8).ok()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn the_mask_is_what_the_system_applies() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        std::fs::write(&file, "").unwrap();
        assert_eq!(file.metadata().unwrap().mode() & 0o777, 0o666 & !creation_mask());
    }
}
