//! Moves messages between one QUIC stream and its worker's queues.

use std::time::Instant;

use quiche::Shutdown;

use super::mailbox::{Delivery, Mailbox, Notify, Pickup, StreamEnd};
use super::rate_limit::RateLimits;
use crate::protocol::{Decoder, Encoded, Message, WireError};
use crate::quic::CloseCode;

/// Bytes read from a stream at once.
const READ_BUFFER: usize = 32 * 1024;

/// One stream with a worker thread behind it.
pub(super) struct Pump {
    stream: u64,
    worker: StreamEnd,
    decoder: Decoder,
    /// Bytes read from the stream, of which those before `consumed` are decoded.
    buffer: Vec<u8>,
    consumed: usize,
    /// Decoded, but the worker's queue was full.
    waiting: Option<Message>,
    writing: Encoded,
    fin_seen: bool,
    reading_done: bool,
    writing_done: bool,
}

impl Pump {
    /// Joins `stream` to a new mailbox.
    pub(super) fn new(stream: u64, notify: Notify) -> (Self, Mailbox) {
        let (mailbox, worker) = Mailbox::new(notify);
        let pump = Self {
            stream,
            worker,
            decoder: Decoder::default(),
            buffer: Vec::with_capacity(READ_BUFFER),
            consumed: 0,
            waiting: None,
            writing: Encoded::default(),
            fin_seen: false,
            reading_done: false,
            writing_done: false,
        };
        (pump, mailbox)
    }

    /// Moves what can be moved in both directions, and may be by the `limits`. An error means that
    /// the peer sent something unreadable.
    pub(super) fn drive(
        &mut self,
        conn: &mut tacklib::Connection,
        limits: &mut RateLimits,
        now: Instant,
    ) -> Result<(), WireError> {
        self.read(conn, limits, now)?;
        self.write(conn, limits, now)
    }

    /// Has each side said all it had to say?
    pub(super) fn is_done(&self) -> bool {
        self.reading_done && self.writing_done
    }

    fn read(
        &mut self,
        conn: &mut tacklib::Connection,
        limits: &mut RateLimits,
        now: Instant,
    ) -> Result<(), WireError> {
        while !self.reading_done {
            while let Some(message) = self.next_message()? {
                match self.worker.deliver(message) {
                    Delivery::Taken => {}
                    Delivery::Full(message) => {
                        self.waiting = Some(message);
                        return Ok(());
                    }
                    Delivery::Gone => {
                        self.refuse_the_rest(conn);
                        return Ok(());
                    }
                }
            }
            if self.fin_seen {
                self.finish_reading();
            } else if !self.fill(conn, limits, now) {
                return Ok(());
            }
        }
        Ok(())
    }

    fn next_message(&mut self) -> Result<Option<Message>, WireError> {
        if let Some(message) = self.waiting.take() {
            return Ok(Some(message));
        }
        let mut rest = &self.buffer[self.consumed..];
        let message = self.decoder.push(&mut rest)?;
        self.consumed = self.buffer.len() - rest.len();
        Ok(message)
    }

    /// Reads more of the stream; false if there is nothing to read now.
    fn fill(
        &mut self,
        conn: &mut tacklib::Connection,
        limits: &mut RateLimits,
        now: Instant,
    ) -> bool {
        let room = READ_BUFFER.min(limits.reading.allowance(now));
        if room == 0 {
            return false;
        }
        self.consumed = 0;
        self.buffer.resize(room, 0);
        let result = conn.stream_recv(self.stream, &mut self.buffer);
        self.buffer.truncate(result.as_ref().map_or(0, |(length, _)| *length));
        match result {
            Ok((length, fin)) => {
                limits.on_read(length, now);
                self.fin_seen = fin;
            }
            Err(quiche::Error::Done) => return false,
            // Reset by the peer, or known to be complete.
            Err(_) => self.fin_seen = true,
        }
        true
    }

    fn finish_reading(&mut self) {
        self.reading_done = true;
        self.worker.inbox = None;
    }

    /// The worker has ended (with an error, or it would have read to the end): the peer need
    /// not send what nobody reads.
    fn refuse_the_rest(&mut self, conn: &mut tacklib::Connection) {
        // Fails only if the stream is over, which is what is wanted.
        let _ = conn.stream_shutdown(self.stream, Shutdown::Read, CloseCode::Done as u64);
        self.finish_reading();
    }

    fn write(
        &mut self,
        conn: &mut tacklib::Connection,
        limits: &mut RateLimits,
        now: Instant,
    ) -> Result<(), WireError> {
        while !self.writing_done {
            if self.writing.remaining().is_empty() {
                match self.worker.pick_up() {
                    Pickup::Message(message) => self.writing = Encoded::new(message)?,
                    Pickup::Nothing => return Ok(()),
                    Pickup::End => {
                        // A stream that is gone needs no end.
                        let _ = conn.stream_send(self.stream, &[], true);
                        self.finish_writing();
                        return Ok(());
                    }
                }
            }
            // Each attempt to send more than the capacity queues a DATA_BLOCKED frame.
            match conn.stream_capacity(self.stream) {
                Ok(0) => return Ok(()),
                Ok(capacity) => {
                    let bytes = self.writing.remaining();
                    let bytes = &bytes[..bytes.len().min(capacity).min(limits.may_write(now))];
                    if bytes.is_empty() {
                        return Ok(());
                    }
                    match conn.stream_send(self.stream, bytes, false) {
                        Ok(sent) => {
                            limits.on_written(sent, now);
                            self.writing.advance(sent);
                        }
                        Err(quiche::Error::Done) => return Ok(()),
                        Err(_) => self.finish_writing(),
                    }
                }
                // The peer does not want to read any further.
                Err(_) => self.finish_writing(),
            }
        }
        Ok(())
    }

    fn finish_writing(&mut self) {
        self.writing_done = true;
        self.worker.outbox = None;
    }
}
