//! A qlog file for each connection.

use std::fs::File;
use std::io::{self, LineWriter};
use std::path::Path;

/// Bytes of events that may wait in memory for the end of their record.
const BUFFER: usize = 16 * 1024;

/// Logs a connection that was just created into `directory`, as
/// `client-<id>.sqlog` or `server-<id>.sqlog` with its source connection id. A
/// connection whose file cannot be created goes on without.
pub fn start(directory: &Path, connection: &mut tacklib::Connection) {
    let role = if connection.is_server() { "server" } else { "client" };
    let id = connection.trace_id().to_owned();
    let path = directory.join(format!("{role}-{id}.sqlog"));
    match create(&path) {
        // By lines, so that whatever ends the process leaves whole records.
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
