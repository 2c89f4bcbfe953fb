//! How frames leave: each on a stream, or cut into DATAGRAMs.

use std::time::Instant;

use tack_media::{Frame, FrameSender, SendError, SenderEvent};
use tacklib::Connection;

use crate::datagrams::DatagramSender;

/// Takes frames, and tells what has become of them.
#[derive(Debug)]
pub enum Sink {
    /// A stream for each frame.
    Streams(FrameSender),
    /// DATAGRAMs.
    Datagrams(DatagramSender),
}

impl Sink {
    /// Frames are captured from `now` on.
    pub fn new(now: Instant, as_datagrams: bool) -> Self {
        if as_datagrams {
            Self::Datagrams(DatagramSender::new(now))
        } else {
            Self::Streams(FrameSender::new(now))
        }
    }

    /// Takes a frame; its number.
    pub fn send_frame(
        &mut self,
        connection: &mut Connection,
        now: Instant,
        frame: Frame,
        payload: &[u8],
    ) -> Result<u64, SendError> {
        match self {
            Self::Streams(sender) => sender.send_frame(connection, now, frame, payload),
            Self::Datagrams(sender) => sender.send_frame(connection, now, frame, payload),
        }
    }

    /// Hands over what the connection takes.
    pub fn flush(
        &mut self,
        connection: &mut Connection,
        now: Instant,
    ) -> Result<(), SendError> {
        match self {
            Self::Streams(sender) => sender.flush(connection, now),
            Self::Datagrams(sender) => sender.flush(connection, now),
        }
    }

    /// What has become of frames since the last call.
    pub fn poll_event(&mut self) -> Option<SenderEvent> {
        match self {
            Self::Streams(sender) => sender.poll_event(),
            Self::Datagrams(sender) => sender.poll_event(),
        }
    }

    /// Frames of which the stack has not taken all.
    pub fn backlog(&self) -> usize {
        match self {
            Self::Streams(sender) => sender.backlog().0,
            Self::Datagrams(sender) => sender.backlog(),
        }
    }

    /// Bytes of these frames that the stack has not taken.
    pub fn unwritten(&self) -> u64 {
        match self {
            Self::Streams(sender) => sender.unwritten(),
            Self::Datagrams(sender) => sender.unwritten(),
        }
    }

    /// DATAGRAMs that the stack has taken.
    pub fn datagrams_sent(&self) -> u64 {
        match self {
            Self::Streams(_) => 0,
            Self::Datagrams(sender) => sender.sent(),
        }
    }
}
