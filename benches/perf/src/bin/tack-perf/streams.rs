//! What an end writes on a stream, and how it reads one.

use std::time::Instant;

use anyhow::{Context, Result};
use quiche::Error;
use tack_perf::PAYLOAD;
use tacklib::Connection;

/// What is to be written on a stream: some bytes, then payload, then the end.
pub struct Outgoing {
    prefix: Vec<u8>,
    prefix_written: usize,
    payload: u64,
    payload_written: u64,
    until: Option<Instant>,
    is_finished: bool,
}

impl Outgoing {
    /// `until` ends the payload early.
    pub fn new(prefix: Vec<u8>, payload: u64, until: Option<Instant>) -> Self {
        let (prefix_written, payload_written, is_finished) = (0, 0, false);
        Self { prefix, prefix_written, payload, payload_written, until, is_finished }
    }

    pub fn payload_written(&self) -> u64 {
        self.payload_written
    }

    pub fn is_finished(&self) -> bool {
        self.is_finished
    }

    /// Writes as much as the connection takes.
    pub fn write(&mut self, connection: &mut Connection, stream: u64) -> Result<()> {
        while !self.is_finished {
            if self.until.is_some_and(|until| Instant::now() >= until) {
                self.payload = self.payload_written;
            }
            let prefix = &self.prefix[self.prefix_written..];
            let left = self.payload - self.payload_written;
            let (chunk, is_last) = if prefix.is_empty() {
                let len = left.min(PAYLOAD.len() as u64);
                (&PAYLOAD[..len as usize], len == left)
            } else {
                (prefix, left == 0)
            };
            let written = match connection.stream_send(stream, chunk, is_last) {
                Ok(written) => written,
                // No room, or the peer allows no more streams yet.
                Err(Error::Done | Error::StreamLimit) => return Ok(()),
                Err(error) => return Err(error).context("writing"),
            };
            let is_whole = written == chunk.len();
            if prefix.is_empty() {
                self.payload_written += written as u64;
            } else {
                self.prefix_written += written;
            }
            self.is_finished = is_last && is_whole;
            if !is_whole {
                return Ok(());
            }
        }
        Ok(())
    }
}

/// Hands what has arrived on a stream to `take`; whether that was the end of the stream.
pub fn read(
    connection: &mut Connection,
    stream: u64,
    buffer: &mut [u8],
    mut take: impl FnMut(&[u8]),
) -> Result<bool> {
    loop {
        match connection.stream_recv(stream, buffer) {
            Ok((len, is_end)) => {
                take(&buffer[..len]);
                if is_end {
                    return Ok(true);
                }
            }
            // Nothing there, or the stream is yet to be opened.
            Err(Error::Done | Error::InvalidStreamState(_)) => return Ok(false),
            Err(error) => return Err(error).context("reading"),
        }
    }
}
