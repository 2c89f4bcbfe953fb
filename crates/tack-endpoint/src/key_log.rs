//! A key log for tools that decrypt captured packets.

use std::fs::File;
use std::path::Path;

/// Makes a new connection append its TLS secrets to the file. If the file cannot be opened, the
/// connection writes none.
pub fn start(path: &Path, connection: &mut tacklib::Connection) {
    match File::options().create(true).append(true).open(path) {
        Ok(file) => connection.set_keylog(Box::new(file)),
        Err(error) => log::warn!("{}: no key log is written: {error}", path.display()),
    }
}
