//! Pointers to more than one object, as C passes them.
//!
//! Each type is a pointer for C. Only C makes a value of one, and promises with it what the header says:
//! the pointer is NULL, or valid for the length that comes with it until the function returns, nothing else
//! writes to that memory meanwhile, and memory that the function writes overlaps no other that it is given.

use std::ffi::{CStr, c_char, c_int};
use std::fs::File;
use std::os::fd::FromRawFd;
use std::{ptr, slice};

use tack_quiche::h3::Priority;

use crate::conn::media::tack_media_stats;
use crate::conn::tack::tack_stats_tack;
use crate::error::{Failure, INVALID_ARGUMENT, tack_error};
use crate::frames::receiver::tack_frame_receiver_event;
use crate::frames::sender::{tack_frame_sender_event, tack_frame_stats};
use crate::h3::tack_h3_header;

/// Bytes to read: `const uint8_t *`.
#[repr(transparent)]
pub struct Bytes(*const u8);

impl Bytes {
    /// The bytes. No pointer is no bytes; it fails if there are to be some.
    pub(crate) fn get(&self, len: usize) -> Result<&[u8], Failure> {
        if len == 0 {
            return Ok(&[]);
        }
        check(self.0, len)?;
        // SAFETY: the pointer is not NULL, the length is one that an object can have, and C promises that
        // so many bytes can be read while this function's caller, which holds `self`, runs.
        Ok(unsafe { slice::from_raw_parts(self.0, len) })
    }

    /// As many bytes as the array has.
    pub(crate) fn array<const N: usize>(&self) -> Result<[u8; N], Failure> {
        self.get(N)?.try_into().map_err(|_| INVALID_ARGUMENT)
    }

    pub(crate) fn is_null(&self) -> bool {
        self.0.is_null()
    }
}

/// Bytes to write: `uint8_t *`.
#[repr(transparent)]
pub struct BytesMut(*mut u8);

impl BytesMut {
    /// The bytes. No pointer is no bytes; it fails if there are to be some.
    pub(crate) fn get(&mut self, len: usize) -> Result<&mut [u8], Failure> {
        if len == 0 {
            return Ok(&mut []);
        }
        check(self.0, len)?;
        // SAFETY: as in `Bytes::get`, and C promises that nothing else uses the memory. What C has not
        // initialised has some value: the compiler cannot see into the program that made the memory.
        Ok(unsafe { slice::from_raw_parts_mut(self.0, len) })
    }
}

/// A string: `const char *`.
#[repr(transparent)]
pub struct Text(*const c_char);

impl Text {
    /// The string; `None` if there is none. It fails if the string is not UTF-8.
    pub(crate) fn optional(&self) -> Result<Option<&str>, Failure> {
        if self.0.is_null() {
            return Ok(None);
        }
        // SAFETY: the pointer is not NULL, and C promises a string with an end.
        let text = unsafe { CStr::from_ptr(self.0) };
        text.to_str().map(Some).map_err(|_| INVALID_ARGUMENT)
    }

    /// The string, which there has to be.
    pub(crate) fn get(&self) -> Result<&str, Failure> {
        self.optional()?.ok_or(INVALID_ARGUMENT)
    }
}

/// A file that becomes the library's: `int`.
#[repr(transparent)]
pub struct Descriptor(c_int);

impl Descriptor {
    /// The file, which is closed when it is dropped.
    pub(crate) fn into_file(self) -> Result<File, Failure> {
        if self.0 < 0 {
            return Err(INVALID_ARGUMENT);
        }
        // SAFETY: it is no negative number, and C promises that the descriptor is open and hands it over.
        Ok(unsafe { File::from_raw_fd(self.0) })
    }
}

/// HTTP/3 header fields: `const struct tack_h3_header *`.
#[repr(transparent)]
pub struct Headers(*const tack_h3_header);

impl Headers {
    /// The header fields. No pointer is none.
    pub(crate) fn get(&self, len: usize) -> Result<&[tack_h3_header], Failure> {
        if len == 0 {
            return Ok(&[]);
        }
        check(self.0, len)?;
        // SAFETY: as in `Bytes::get`. The fields of the struct are a pointer and a length each, which are
        // valid whatever they hold.
        Ok(unsafe { slice::from_raw_parts(self.0, len) })
    }
}

/// Defines a place for a struct that begins with its size, as the program knew it when it was compiled.
macro_rules! sized {
    ($(#[$attribute:meta])* $name:ident, $struct:ty) => {
        $(#[$attribute])*
        #[repr(transparent)]
        pub struct $name(*mut $struct);

        impl $name {
            /// Writes as much of the struct as there is room for, and how much that is.
            pub(crate) fn write(&mut self, value: &$struct) -> Result<(), Failure> {
                write_sized(self.0, value)
            }
        }
    };
}

sized! {
    /// A place for statistics of the layer: `struct tack_stats_tack *`.
    TackStatsOut, tack_stats_tack
}
sized! {
    /// A place for statistics for live media: `struct tack_media_stats *`.
    MediaStatsOut, tack_media_stats
}

sized! {
    /// A place for what has become of a frame: `struct tack_frame_sender_event *`.
    FrameSenderEventOut, tack_frame_sender_event
}
sized! {
    /// A place for statistics of a sender of frames: `struct tack_frame_stats *`.
    FrameStatsOut, tack_frame_stats
}
sized! {
    /// A place for a frame that has come: `struct tack_frame_receiver_event *`.
    FrameReceiverEventOut, tack_frame_receiver_event
}

fn write_sized<T>(out: *mut T, value: &T) -> Result<(), Failure> {
    if out.is_null() {
        return Err(INVALID_ARGUMENT);
    }
    let size = out.cast::<usize>();
    // SAFETY: the pointer is not NULL, and C promises that the struct begins with its size.
    let room = unsafe { size.read_unaligned() };
    if room < size_of::<usize>() {
        return Err(tack_error::TACK_ERR_BUFFER_TOO_SHORT.into());
    }
    let len = room.min(size_of::<T>());
    // SAFETY: `value` is as long as `T` at least, C promises that `out` is as long as it says, and that
    // nothing else is there. Padding is copied as bytes without a value.
    unsafe { ptr::copy_nonoverlapping(ptr::from_ref(value).cast::<u8>(), out.cast(), len) };
    // SAFETY: as where it was read.
    unsafe { size.write_unaligned(len) };
    Ok(())
}

/// The fields of a priority, which quiche does not show: urgency, and 1 if it is incremental.
pub(crate) fn priority_fields(priority: Priority) -> [u8; 2] {
    // SAFETY: the struct is `repr(C)` and has a byte and a truth value, which is a byte, and no padding.
    unsafe { std::mem::transmute(priority) }
}

/// Whether there can be an array of so many.
fn check<T>(pointer: *const T, len: usize) -> Result<(), Failure> {
    let fits =
        len.checked_mul(size_of::<T>()).is_some_and(|bytes| isize::try_from(bytes).is_ok());
    if pointer.is_null() || !pointer.is_aligned() || !fits {
        return Err(INVALID_ARGUMENT);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_pointer_is_no_bytes_and_never_some() {
        let (mut read, mut write) = (Bytes(ptr::null()), BytesMut(ptr::null_mut()));
        assert_eq!(read.get(0), Ok(&[][..]));
        assert_eq!(write.get(0), Ok(&mut [][..]));
        assert_eq!(read.get(1), Err(INVALID_ARGUMENT));
        assert_eq!(write.get(1), Err(INVALID_ARGUMENT));
        read.0 = b"four".as_ptr();
        assert_eq!(read.get(4), Ok(&b"four"[..]));
        assert_eq!(read.array(), Ok(*b"four"));
        assert_eq!(read.get(usize::MAX), Err(INVALID_ARGUMENT), "no object is that long");
    }

    #[test]
    fn strings_are_utf_8() {
        assert_eq!(Text(ptr::null()).optional(), Ok(None));
        assert_eq!(Text(ptr::null()).get(), Err(INVALID_ARGUMENT));
        assert_eq!(Text(c"name".as_ptr()).get(), Ok("name"));
        assert_eq!(Text(c"\xff".as_ptr()).optional(), Err(INVALID_ARGUMENT));
    }

    #[test]
    fn a_program_that_knows_less_of_a_struct_gets_that_and_one_that_knows_more_hears_it() {
        let value: [u64; 4] = [32, 1, 2, 3];
        for (room, expected) in [(32, [32, 1, 2, 3]), (64, [32, 1, 2, 3]), (16, [16, 1, 9, 9])]
        {
            let mut out: [u64; 4] = [room, 9, 9, 9];
            assert_eq!(write_sized(&raw mut out, &value), Ok(()));
            assert_eq!(out, expected);
        }
        let mut unset: [u64; 4] = [0; 4];
        let short = tack_error::TACK_ERR_BUFFER_TOO_SHORT.into();
        assert_eq!(write_sized(&raw mut unset, &value), Err(short));
        assert_eq!(unset, [0; 4]);
    }

    #[test]
    fn the_fields_of_a_priority_are_what_it_was_made_of() {
        assert_eq!(priority_fields(Priority::new(5, true)), [5, 1]);
        assert_eq!(priority_fields(Priority::new(2, false)), [2, 0]);
    }
}
