//! MicroPython's raw paste mode, as far as uploads of a file use it.
//!
//! The host asks for the mode, and the device answers with a window size. The host sends a command
//! within windows of that size, of which the device adds one with each `\x01`, and ends it with `\x04`.
//! The device confirms with `\x04`, runs the command, and ends its (here empty) output and errors with a
//! `\x04` each and a prompt. A file is a command for each chunk.

mod chunk;
mod device;
mod drain;
mod host;

pub use chunk::chunk_size;
pub use device::{Device, Interpreter};
pub use drain::DrainPolicy;
pub use host::{Host, Upload};

use super::ApplicationError;

/// Asks for raw paste mode.
const ENTER: &[u8] = b"\x05A\x01";
/// The device has it.
const SUPPORTED: &[u8] = b"R\x01";
/// Adds a window.
const MORE: u8 = 0x01;
/// Ends a command, confirms it, and ends what it prints.
const END: u8 = 0x04;
/// What a command that prints nothing is answered with.
const DONE: &[u8] = b"\x04\x04>";
/// What a command has around a chunk.
const BEFORE: &[u8] = b"f.write(b'";
const AFTER: &[u8] = b"')\n";

/// A byte of the file: a letter, so that no byte means something else.
const fn letter(offset: usize) -> u8 {
    b'a' + (offset.wrapping_mul(11) / 7 % 26) as u8
}

/// The other end breaks the rules.
fn violation(problem: String) -> ApplicationError {
    ApplicationError::Protocol { protocol: "raw paste", problem }
}
