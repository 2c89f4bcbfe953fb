//! What was measured with what.

use serde::Serialize;

/// Versions of the stacks in this build.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, serde::Deserialize)]
pub struct Versions {
    /// Of this tool and the TACK stack.
    pub tacklib: String,
    /// Of quiche.
    pub quiche: String,
    /// Of quinn-proto.
    pub quinn_proto: String,
}

impl Versions {
    /// The versions that this build was locked to.
    pub fn of_this_build() -> Self {
        Self {
            tacklib: env!("CARGO_PKG_VERSION").to_owned(),
            quiche: locked("quiche"),
            quinn_proto: locked("quinn-proto"),
        }
    }
}

/// A package's version in the lock file; the packages themselves do not tell.
fn locked(package: &str) -> String {
    let lock = include_str!("../../../../Cargo.lock");
    let entry = lock.split_once(&format!("name = \"{package}\"\nversion = \""));
    let version = entry.and_then(|(_, entry)| entry.split('"').next());
    version.unwrap_or("unknown").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_versions_of_the_stacks_are_known() {
        let versions = Versions::of_this_build();
        assert!(versions.quiche.starts_with("0."), "{versions:?}");
        assert!(versions.quinn_proto.starts_with("0."), "{versions:?}");
    }
}
