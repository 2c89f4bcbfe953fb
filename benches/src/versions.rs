//! What was measured.

use tack_perf::locked_version;

/// quiche's version, which it does not tell, from the lock file that this was built with.
pub fn quiche_version() -> Option<&'static str> {
    locked_version(include_str!("../../Cargo.lock"), "quiche")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_of_quiche_is_known() {
        let version = quiche_version().unwrap();
        assert!(version.starts_with("0."), "{version}");
    }
}
