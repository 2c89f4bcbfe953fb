//! Streams that are reset behind their end.
//!
//! What: in place of a RESET_STREAM for a stream whose end has come and that lacks something in between, quiche gets
//! the rest of the stream as zeros, and the application an error in place of them. Why: quiche (0.30,
//! `RecvBuf::reset`) does not tell of such a reset: the stream is never readable again, is never forgotten, and the
//! peer may never open another one instead. A video that resets what it could not repeat in time stops when so many
//! frames are lost as streams may be open. Streams that go both ways are often read by `quiche::h3`, which must not
//! take zeros for a body, unless this end has stopped reading: where all of such a stream has come, quiche does not get
//! the reset, and the application gets the stream (RFC 9000 section 3.2 allows both); where something lacks, the reset
//! stays what it is for quiche. So does one of a stream that an application reads from quiche itself. Upstream: not
//! reported. To delete: when quiche makes a stream readable that is reset behind its end.

use std::collections::BTreeMap;

use quiche::BufFactory;
use tack_proto::varint;

/// Of a packet, no more zeros are written: what a millisecond of one core encrypts and copies.
const MOST_FILLED: u64 = 256 * 1024;

/// STREAM with an offset and a length (RFC 9000 section 19.8).
const STREAM: u64 = 0x08 | 0x04 | 0x02;

/// A stream that was reset behind its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LateReset {
    /// The stream.
    pub stream_id: u64,
    /// The application's error code.
    pub error: u64,
}

/// Whether a stream may be filled: no end goes back on it, or this one `is_stopped` and drops what comes.
pub const fn may_fill(stream_id: u64, is_stopped: bool) -> bool {
    stream_id & 2 != 0 || is_stopped
}

/// The STREAM frame that takes the place of a RESET_STREAM, of a stream of which `read` bytes were read. `filled` are
/// the zeros of the packet so far. `None` if RESET_STREAM does no harm, or if it would be too long.
pub fn fill(
    stream_id: u64,
    read: u64,
    final_size: u64,
    filled: &mut u64,
    frames: &mut Vec<u8>,
) -> Option<()> {
    let len = final_size.checked_sub(read).filter(|len| *len > 0)?;
    if *filled + len > MOST_FILLED {
        return None;
    }
    *filled += len;
    for value in [STREAM, stream_id, read, len] {
        varint::put(frames, value);
    }
    frames.resize(frames.len() + usize::try_from(len).ok()?, 0);
    Some(())
}

/// Whether all of a stream that goes both ways has come before its reset: `read` bytes, and `readable` ones, which quiche
/// has to count.
pub fn is_reset_of_whole(
    stream_id: u64,
    read: u64,
    readable: impl FnOnce() -> usize,
    final_size: u64,
) -> bool {
    stream_id & 2 == 0 && read <= final_size && read + readable() as u64 == final_size
}

/// Those of which the application has not heard.
#[derive(Debug, Default)]
pub struct LateResets(BTreeMap<u64, u64>);

impl LateResets {
    /// quiche has taken the frame for it.
    pub fn on_filled(&mut self, reset: LateReset) {
        self.0.insert(reset.stream_id, reset.error);
    }

    /// Whether the application is told of a reset when it reads a stream.
    pub fn contains(&self, stream_id: u64) -> bool {
        self.0.contains_key(&stream_id)
    }

    /// The application wants no more of a stream.
    pub fn forget(&mut self, stream_id: u64) {
        self.0.remove(&stream_id);
    }

    /// The application reads a stream. What it is told instead, and how many bytes quiche had of the stream.
    pub fn take<F: BufFactory>(
        &mut self,
        connection: &mut quiche::Connection<F>,
        stream_id: u64,
    ) -> Option<(quiche::Error, usize)> {
        if self.0.is_empty() {
            return None;
        }
        let error = self.0.remove(&stream_id)?;
        let mut len = 0;
        while let Ok((discarded, is_end)) = connection.stream_discard(stream_id, usize::MAX) {
            len += discarded;
            if is_end {
                break;
            }
        }
        Some((quiche::Error::StreamReset(error), len))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rest_of_a_stream_is_filled_up_to_a_limit_for_each_packet() {
        let (mut filled, mut frames) = (0, Vec::new());
        assert_eq!(fill(7, 10, 13, &mut filled, &mut frames), Some(()));
        assert_eq!(frames, [0x0e, 7, 10, 3, 0, 0, 0]);
        assert_eq!(fill(11, 0, MOST_FILLED - 2, &mut filled, &mut frames), None);
        assert_eq!(fill(11, 5, 5, &mut filled, &mut frames), None, "all has been read");
        assert!(may_fill(7, false) && may_fill(4, true) && !may_fill(4, false));
        assert_eq!((filled, frames.len()), (3, 7));
    }
}
