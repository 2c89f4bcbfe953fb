//! Access tokens: made by the server, shown to the client's user, never logged.

use std::path::Path;

use tack_transfer::token as tokens;

use crate::error::Error;
use crate::progress::print;

/// Name of the environment variable that holds a client's token.
pub const VARIABLE: &str = "TACK_TOKEN";

/// Reads the token in the file at `path`; makes one there if there is no such file. Warns if others may read it.
pub fn read_or_create(path: &Path) -> Result<String, Error> {
    warned(path, tokens::read_or_create(path)?)
}

/// Reads the token in the file at `path`. Warns if others may read it.
pub fn read(path: &Path) -> Result<String, Error> {
    warned(path, tokens::read(path)?)
}

fn warned(path: &Path, token: String) -> Result<String, Error> {
    if tokens::is_exposed(path)? {
        print(&format!("{}: other users may read this token; chmod 600 it", path.display()));
    }
    Ok(token)
}
