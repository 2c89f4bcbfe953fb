//! Key log and qlog.

use std::fs::{File, OpenOptions};
use std::io::{BufWriter, LineWriter};

use tack_quiche::Connection;

use super::{given, tack_conn};
use crate::error::Failure;
use crate::pointer::{Descriptor, Text};

/// Appends the connection's secrets to a file (NSS Key Log Format). The configuration has to say
/// tack_config_log_keys. Returns false if the file cannot be opened.
#[unsafe(no_mangle)]
pub extern "C" fn tack_conn_set_keylog_path(conn: Option<&mut tack_conn>, path: Text) -> bool {
    let Ok((conn, path)) = given(conn).and_then(|conn| Ok((conn, path.get()?))) else {
        return false;
    };
    let file = OpenOptions::new().create(true).append(true).open(path);
    opened("the key log", path, file)
        .map(|file| conn.set_keylog(Box::new(LineWriter::new(file))))
        .is_some()
}

/// The same with a file that is open: the descriptor becomes the connection's, which closes it.
/// It is closed at once if there is no connection.
#[unsafe(no_mangle)]
pub extern "C" fn tack_conn_set_keylog_fd(conn: Option<&mut tack_conn>, fd: Descriptor) {
    let file = fd.into_file();
    if let (Ok(conn), Ok(file)) = (given(conn), file) {
        conn.set_keylog(Box::new(LineWriter::new(file)));
    }
}

/// Writes a qlog to a file that is not there yet; the layer's events are in it. The strings may be NULL. Returns
/// false if the file cannot be made.
#[unsafe(no_mangle)]
pub extern "C" fn tack_conn_set_qlog_path(
    conn: Option<&mut tack_conn>,
    path: Text,
    log_title: Text,
    log_desc: Text,
) -> bool {
    let set = || -> Result<bool, Failure> {
        let (conn, path) = (given(conn)?, path.get()?);
        let texts = (log_title.optional()?, log_desc.optional()?);
        let file = OpenOptions::new().write(true).create_new(true).open(path);
        let file = opened("the qlog", path, file);
        Ok(file.map(|file| set_qlog(conn, file, texts)).is_some())
    };
    set().unwrap_or(false)
}

/// The same with a file that is open: the descriptor becomes the connection's, which closes it.
/// It is closed at once if another argument is not valid.
#[unsafe(no_mangle)]
pub extern "C" fn tack_conn_set_qlog_fd(
    conn: Option<&mut tack_conn>,
    fd: Descriptor,
    log_title: Text,
    log_desc: Text,
) {
    let set = || -> Result<(), Failure> {
        // It is closed where this fails.
        let file = fd.into_file()?;
        let conn = given(conn)?;
        let texts = (log_title.optional()?, log_desc.optional()?);
        set_qlog(conn, file, texts);
        Ok(())
    };
    // C has no place for the error.
    let _ = set();
}

fn set_qlog(
    conn: &mut Connection,
    file: File,
    (title, description): (Option<&str>, Option<&str>),
) {
    let description = format!("{} id={}", description.unwrap_or_default(), conn.trace_id());
    let title = title.unwrap_or_default().to_owned();
    conn.set_qlog(Box::new(BufWriter::new(file)), title, description);
}

fn opened(what: &str, path: &str, file: std::io::Result<File>) -> Option<File> {
    file.inspect_err(|error| log::error!("cannot open {what} {path}: {error}")).ok()
}
