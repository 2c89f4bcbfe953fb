//! A key log for tools that decrypt captured packets.

use std::fs::File;
use std::path::Path;

/// Appends the TLS secrets of a connection that was just created to the file. A connection whose
/// file cannot be opened goes on without.
pub fn start(path: &Path, connection: &mut tacklib::Connection) {
    match File::options().create(true).append(true).open(path) {
        Ok(file) => connection.set_keylog(Box::new(file)),
        Err(error) => log::warn!("{}: no key log is written: {error}", path.display()),
    }
}
