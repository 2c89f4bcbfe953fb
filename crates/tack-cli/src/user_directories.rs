//! Where a user's files are, after the XDG base directory specification.

use std::path::PathBuf;

use tack_transfer::{CcParametersStore, SessionStore};

/// Where data is kept: `~/.local/share/tack`. `None` without a home.
pub fn data() -> Option<PathBuf> {
    of("XDG_DATA_HOME", ".local/share")
}

/// Where state is kept that can be lost: `~/.local/state/tack`. `None` without a home.
pub fn state() -> Option<PathBuf> {
    of("XDG_STATE_HOME", ".local/state")
}

/// Where the parameters of paths are kept, if they are `wanted` and there is a place for state.
pub fn cc_parameters(wanted: bool) -> Option<CcParametersStore> {
    state().filter(|_| wanted).map(CcParametersStore::in_directory)
}

/// Where TLS sessions are kept, if they are `wanted` and there is a place for state.
pub fn sessions(wanted: bool) -> Option<SessionStore> {
    state().filter(|_| wanted).map(SessionStore::in_directory)
}

/// Where the user's configuration is: `~/.config/tack`. `None` without a home.
pub fn config() -> Option<PathBuf> {
    of("XDG_CONFIG_HOME", ".config")
}

fn of(variable: &str, below_home: &str) -> Option<PathBuf> {
    // Relative paths are invalid, and to be ignored.
    let absolute = |name: &str| {
        std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute())
    };
    let base =
        absolute(variable).or_else(|| absolute("HOME").map(|home| home.join(below_home)));
    Some(base?.join("tack"))
}
