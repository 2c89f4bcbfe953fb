//! What the patch consists of.

use crate::digest::sha256;

mod embedded {
    include!(concat!(env!("OUT_DIR"), "/embedded.rs"));
}

/// The sources that are put in quiche's place, and the release that they are made for.
#[derive(Clone, Copy, Debug)]
pub struct Patch<'a> {
    /// Files by their path in the folder of the copies: the crate `quiche`, and what it is built from.
    pub files: &'a [(&'a str, &'a str)],
    /// The manifest of the workspace that they come from.
    pub workspace: &'a str,
    /// The release of quiche.
    pub quiche_version: &'a str,
    /// SHA-256 of its crate file, as crates.io publishes it.
    pub quiche_checksum: &'a str,
}

impl Patch<'static> {
    /// tack-quiche as of this build.
    pub const fn embedded() -> Self {
        Self {
            files: embedded::FILES,
            workspace: embedded::WORKSPACE,
            quiche_version: embedded::QUICHE_VERSION,
            quiche_checksum: embedded::QUICHE_CHECKSUM,
        }
    }
}

impl Patch<'_> {
    /// Tells copies of this build from those of another.
    pub fn digest(&self) -> String {
        let own = [env!("CARGO_PKG_VERSION"), self.workspace, self.quiche_checksum];
        let files = self.files.iter().flat_map(|(name, text)| [*name, *text]);
        sha256(own.into_iter().chain(files).map(str::as_bytes))
    }

    /// The folders of the crates.
    pub fn crates(&self) -> Vec<&str> {
        let mut crates: Vec<_> = self
            .files
            .iter()
            .filter_map(|(name, _)| name.strip_suffix("/Cargo.toml"))
            .collect();
        crates.sort_unstable();
        crates
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_holds_the_layer_and_the_checksum_of_the_release_that_it_is_made_for() {
        let patch = Patch::embedded();
        assert_eq!(patch.crates(), ["quiche", "tack-packet", "tack-proto", "tacklib"]);
        assert!(patch.files.iter().any(|(name, _)| *name == "tacklib/src/connection/send.rs"));
        assert_eq!(patch.quiche_checksum.len(), 64);
        let pinned = format!("quiche = {{ version = \"={}\"", patch.quiche_version);
        assert!(patch.workspace.contains(&pinned), "{pinned}");
    }

    #[test]
    fn another_file_is_another_digest() {
        let patch = Patch::embedded();
        let changed = Patch { files: &patch.files[1..], ..patch };
        assert_ne!(changed.digest(), patch.digest());
    }
}
