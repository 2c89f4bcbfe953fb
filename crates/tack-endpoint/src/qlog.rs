//! A qlog file for each connection.

use std::fs::File;
use std::io::{self, LineWriter};
use std::path::Path;

/// Bytes of an incomplete record that are kept in memory.
const BUFFER: usize = 16 * 1024;

/// Makes a new connection write a qlog file into `directory`: `client-<id>.sqlog` or
/// `server-<id>.sqlog`, with its source connection id. If the file cannot be created, the
/// connection writes none.
pub fn start(directory: &Path, connection: &mut tacklib::Connection) {
    let role = if connection.is_server() { "server" } else { "client" };
    let id = connection.trace_id().to_owned();
    let path = directory.join(format!("{role}-{id}.sqlog"));
    match create(&path) {
        // By lines, so that a process that is killed leaves whole records.
        Ok(file) => connection.set_qlog(
            Box::new(LineWriter::with_capacity(BUFFER, file)),
            format!("{role} {id}"),
            String::new(),
        ),
        Err(error) => log::warn!("{}: no qlog is written: {error}", path.display()),
    }
}

fn create(path: &Path) -> io::Result<File> {
    File::options().write(true).create_new(true).open(path)
}
