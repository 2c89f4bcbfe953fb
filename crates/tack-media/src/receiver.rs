//! Frames put together from their streams.

use std::collections::{BTreeMap, VecDeque};
use std::time::Instant;

use quiche::{BufFactory, Shutdown};
use tacklib::Connection;

use crate::frame::{FrameHeader, HeaderError, MAX_HEADER};

/// Bytes of frames that are not whole, at most; a stream beyond it is refused.
const MOST_PARTIAL: usize = 64 << 20;

/// Bytes of frames that wait to be taken, and events, from which on nothing is read: the windows stop the sender then.
const MOST_UNTAKEN_BYTES: usize = 64 << 20;
const MOST_UNTAKEN: usize = 4096;

/// How much is read at a time.
const CHUNK: usize = 64 << 10;

/// The application error code of STOP_SENDING for a stream that holds no frame.
const MALFORMED: u64 = 1;

/// A whole frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceivedFrame {
    /// What it is.
    pub header: FrameHeader,
    /// Its bytes.
    pub payload: Vec<u8>,
    /// When the last of them was read.
    pub arrived: Instant,
}

/// What a receiver has seen.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReceiverEvent {
    /// A frame has come whole.
    Frame(ReceivedFrame),
    /// A frame will not come: its stream was reset, or has ended too early.
    Lost {
        /// What it was, if its header has come.
        header: Option<FrameHeader>,
    },
    /// A stream that holds no frame was stopped.
    Malformed {
        /// The stream.
        stream_id: u64,
        /// What is wrong with it.
        error: HeaderError,
    },
}

#[derive(Debug, Default)]
struct Partial {
    header: Option<FrameHeader>,
    bytes: Vec<u8>,
}

/// Reads the frames that a [`FrameSender`](crate::FrameSender) at the other end sends.
#[derive(Debug, Default)]
pub struct FrameReceiver {
    partial: BTreeMap<u64, Partial>,
    partial_bytes: usize,
    events: VecDeque<ReceiverEvent>,
    /// Bytes of the frames among them.
    untaken_bytes: usize,
    chunk: Vec<u8>,
}

impl FrameReceiver {
    /// A receiver that has received nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads all that has come on the peer's unidirectional streams. Others are left to the application.
    ///
    /// While frames of 64 MiB or 4,096 events have not been taken with [`poll_event`](Self::poll_event), it reads
    /// nothing: to be called again when they have.
    pub fn read<F: BufFactory>(&mut self, now: Instant, connection: &mut Connection<F>) {
        let peers = if connection.is_server() { 2 } else { 3 };
        let readable: Vec<_> = connection.readable().filter(|id| id % 4 == peers).collect();
        for stream_id in readable {
            if self.untaken_bytes >= MOST_UNTAKEN_BYTES || self.events.len() >= MOST_UNTAKEN {
                return;
            }
            self.read_stream(now, connection, stream_id);
        }
    }

    /// What has come since the last call.
    pub fn poll_event(&mut self) -> Option<ReceiverEvent> {
        let event = self.events.pop_front()?;
        if let ReceiverEvent::Frame(frame) = &event {
            self.untaken_bytes -= frame.payload.len();
        }
        Some(event)
    }

    fn read_stream<F: BufFactory>(
        &mut self,
        now: Instant,
        connection: &mut Connection<F>,
        stream_id: u64,
    ) {
        self.chunk.resize(CHUNK, 0);
        loop {
            match connection.stream_recv(stream_id, &mut self.chunk) {
                Ok((len, is_end)) => {
                    let partial = self.partial.entry(stream_id).or_default();
                    partial.bytes.extend_from_slice(&self.chunk[..len]);
                    self.partial_bytes += len;
                    if let Err(error) = self.check(stream_id, is_end) {
                        // The stream is over if this fails.
                        let _ =
                            connection.stream_shutdown(stream_id, Shutdown::Read, MALFORMED);
                        self.take(stream_id);
                        self.events.push_back(ReceiverEvent::Malformed { stream_id, error });
                        return;
                    }
                    if is_end {
                        self.finish(now, stream_id);
                        return;
                    }
                }
                Err(quiche::Error::Done) => return,
                // It was reset, or the connection is over.
                Err(_) => {
                    let header = self.take(stream_id).and_then(|partial| partial.header);
                    self.events.push_back(ReceiverEvent::Lost { header });
                    return;
                }
            }
        }
    }

    /// Reads the header as soon as it is there; an error if the stream holds no frame.
    fn check(&mut self, stream_id: u64, is_end: bool) -> Result<(), HeaderError> {
        let total = self.partial_bytes;
        let Some(partial) = self.partial.get_mut(&stream_id) else { return Ok(()) };
        if partial.header.is_none() {
            match FrameHeader::decode(&partial.bytes) {
                Ok((header, len)) => {
                    partial.header = Some(header);
                    partial.bytes.drain(..len);
                    self.partial_bytes -= len;
                }
                Err(HeaderError::Truncated) if !is_end && partial.bytes.len() < MAX_HEADER => {}
                Err(HeaderError::Truncated) if is_end => {}
                Err(error) => return Err(error),
            }
        }
        let Some(header) = partial.header else { return Ok(()) };
        if partial.bytes.len() > header.len || total > MOST_PARTIAL {
            return Err(HeaderError::TooLong(partial.bytes.len() as u64));
        }
        Ok(())
    }

    fn finish(&mut self, now: Instant, stream_id: u64) {
        let Some(partial) = self.take(stream_id) else { return };
        let event = match partial.header {
            Some(header) if partial.bytes.len() == header.len => {
                self.untaken_bytes += header.len;
                ReceiverEvent::Frame(ReceivedFrame {
                    header,
                    payload: partial.bytes,
                    arrived: now,
                })
            }
            // Of a stream that was reset the end may come first.
            header => ReceiverEvent::Lost { header },
        };
        self.events.push_back(event);
    }

    fn take(&mut self, stream_id: u64) -> Option<Partial> {
        let partial = self.partial.remove(&stream_id)?;
        self.partial_bytes -= partial.bytes.len();
        Some(partial)
    }
}
