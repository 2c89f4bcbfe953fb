//! The library itself: its version, its log, variable-length integers.

use std::ffi::{CString, c_char, c_int, c_void};
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicPtr, Ordering};

use libc::ssize_t;

use crate::error::{INVALID_ARGUMENT, length, status, tack_error};
use crate::pointer::{Bytes, BytesMut};

/// Returns the library's version, a string that need not be freed.
#[unsafe(no_mangle)]
pub extern "C" fn tack_version() -> *const c_char {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    VERSION.as_ptr().cast()
}

/// What `tack_enable_debug_logging` was given.
struct Logger {
    callback: extern "C" fn(*const c_char, *mut c_void),
    argument: AtomicPtr<c_void>,
}

impl log::Log for Logger {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        let line = format!("{}: {}", record.target(), record.args()).replace('\0', "\u{fffd}");
        if let Ok(line) = CString::new(line) {
            (self.callback)(line.as_ptr(), self.argument.load(Ordering::Relaxed));
        }
    }

    fn flush(&self) {}
}

/// Has `cb` called with each line of the log and `argp`, from now to the end of the process and from each
/// thread that calls the library. Returns 0, or -1 if there is a log already.
#[unsafe(no_mangle)]
pub extern "C" fn tack_enable_debug_logging(
    cb: Option<extern "C" fn(line: *const c_char, argp: *mut c_void)>,
    argp: *mut c_void,
) -> c_int {
    status(|| {
        let callback = cb.ok_or(INVALID_ARGUMENT)?;
        let logger = Logger { callback, argument: AtomicPtr::new(argp) };
        log::set_boxed_logger(Box::new(logger)).map_err(|_| tack_error::TACK_ERR_DONE)?;
        log::set_max_level(log::LevelFilter::Trace);
        Ok(())
    })
}

/// Writes a variable-length integer (RFC 9000 section 16) to `buf`. Returns 0 or an error: there are 8 bytes
/// at most, and `val` is below 2^62.
#[unsafe(no_mangle)]
pub extern "C" fn tack_put_varint(mut buf: BytesMut, buf_len: usize, val: u64) -> c_int {
    status(|| {
        let buf = buf.get(buf_len)?;
        let len = varint_len(val).ok_or(INVALID_ARGUMENT)?;
        let out = buf.get_mut(..len).ok_or(tack_error::TACK_ERR_BUFFER_TOO_SHORT)?;
        out.copy_from_slice(&val.to_be_bytes()[8 - len..]);
        // The two highest bits tell the length: 1, 2, 4 or 8.
        out[0] |= (len.trailing_zeros() as u8) << 6;
        Ok(())
    })
}

/// Reads a variable-length integer from `buf` into `val`. Returns its length, or an error.
#[unsafe(no_mangle)]
pub extern "C" fn tack_get_varint(
    buf: Bytes,
    buf_len: usize,
    val: Option<&mut MaybeUninit<u64>>,
) -> ssize_t {
    length(|| {
        let (value, len) =
            read_varint(buf.get(buf_len)?).ok_or(tack_error::TACK_ERR_BUFFER_TOO_SHORT)?;
        val.ok_or(INVALID_ARGUMENT)?.write(value);
        Ok(len)
    })
}

/// Reads a variable-length integer, and how many bytes it has; `None` if there are fewer.
pub(crate) fn read_varint(buf: &[u8]) -> Option<(u64, usize)> {
    let len = 1 << (buf.first()? >> 6);
    let bytes = buf.get(..len)?;
    let value = bytes.iter().fold(0, |value, byte| value << 8 | u64::from(*byte));
    Some((value & (u64::MAX >> (64 - 8 * len + 2)), len))
}

fn varint_len(value: u64) -> Option<usize> {
    match value {
        0..0x40 => Some(1),
        0x40..0x4000 => Some(2),
        0x4000..0x4000_0000 => Some(4),
        0x4000_0000..0x4000_0000_0000_0000 => Some(8),
        _ => None,
    }
}
