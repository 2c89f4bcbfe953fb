//! One stream, as the driver and its handles share it.

use std::task::Waker;

use tacklib::quiche::{self, Shutdown};

use crate::connection_state::DEFAULT_URGENCY;
use crate::effects::Effects;

/// A stream that the application has a handle of.
#[derive(Default)]
pub(crate) struct StreamState {
    pub(crate) has_reader: bool,
    pub(crate) has_writer: bool,
    pub(crate) reader: Option<Waker>,
    pub(crate) writer: Option<Waker>,
    /// Waits for [`RecvStream::received_reset`](crate::RecvStream::received_reset).
    pub(crate) end_watcher: Option<Waker>,
    /// Waits for [`SendStream::stopped`](crate::SendStream::stopped).
    pub(crate) watcher: Option<Waker>,
    /// The peer's error code, once it has stopped the stream.
    pub(crate) stopped: Option<u64>,
    /// The deadline has passed.
    pub(crate) expired: bool,
    /// quiche has the end of the stream, so that it can be delivered.
    pub(crate) is_finished: bool,
    /// The peer has all of it. That stays so, whatever becomes of the connection, whose end may come with the
    /// acknowledgement.
    pub(crate) is_delivered: bool,
    /// What the application has set.
    pub(crate) set_urgency: Option<u8>,
    /// Urgency and `incremental`, while quiche does not have the stream: the peer has opened it by opening a later one.
    pub(crate) early_priority: Option<(u8, bool)>,
}

/// How an application ends its half of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SendEnd {
    Finished,
    Reset(u64),
}

impl StreamState {
    /// How urgent the stream is; 0 is the most.
    pub(crate) fn urgency(&self) -> u8 {
        self.set_urgency.unwrap_or(DEFAULT_URGENCY)
    }

    /// Sets urgency and `incremental`, for quiche when it has the stream.
    pub(crate) fn set_priority(
        &mut self,
        connection: &mut tacklib::Connection,
        id: u64,
        priority: (u8, bool),
    ) -> quiche::Result<()> {
        self.set_urgency = Some(priority.0);
        self.early_priority = Some(priority);
        self.apply_priority(connection, id)
    }

    /// Hands quiche the priority that was set before it had the stream, if it has it now. To be called before
    /// something is written.
    pub(crate) fn apply_priority(
        &mut self,
        connection: &mut tacklib::Connection,
        id: u64,
    ) -> quiche::Result<()> {
        let Some((urgency, incremental)) = self.early_priority else { return Ok(()) };
        match connection.stream_priority(id, urgency, incremental) {
            // quiche (0.30) opens streams of this end alone.
            Err(quiche::Error::InvalidStreamState(_)) => Ok(()),
            result => {
                self.early_priority = None;
                result
            }
        }
    }

    /// Wakes those who wait for something that has happened; whether there are others.
    pub(crate) fn on_activity(
        &mut self,
        connection: &mut tacklib::Connection,
        id: u64,
        effects: &mut Effects,
    ) -> bool {
        match connection.stream_capacity(id) {
            Ok(0) => {}
            _ => effects.wake(self.writer.take()),
        }
        if self.watcher.is_some() && self.note_delivery(connection, id) {
            effects.wake(self.watcher.take());
        }
        self.writer.is_some() || self.watcher.is_some()
    }

    /// Whether the peer has all of the stream, which stays so. quiche forgets streams that were stopped or have expired
    /// as it does those that are delivered.
    pub(crate) fn note_delivery(
        &mut self,
        connection: &mut tacklib::Connection,
        id: u64,
    ) -> bool {
        let may_be = self.is_finished && self.stopped.is_none() && !self.expired;
        self.is_delivered |= may_be && connection.stream_delivered(id);
        self.is_delivered
    }

    /// The peer has stopped the stream.
    pub(crate) fn on_stopped(&mut self, code: u64, effects: &mut Effects) {
        self.stopped = Some(code);
        self.wake_writers(effects);
    }

    pub(crate) fn wake_writers(&mut self, effects: &mut Effects) {
        effects.wake(self.writer.take());
        effects.wake(self.watcher.take());
    }

    pub(crate) fn wake_all(&mut self, effects: &mut Effects) {
        effects.wake(self.reader.take());
        effects.wake(self.end_watcher.take());
        self.wake_writers(effects);
    }
}

/// Whether nothing is left to read of a stream but its end, or the peer has reset it.
pub(crate) fn is_at_end(connection: &tacklib::Connection, id: u64) -> bool {
    connection.stream_readable(id) && connection.stream_readable_len(id, 1) == 0
}

/// Takes no more of a stream, and throws away what has arrived of it: at its end quiche forgets it, and there
/// is nothing to stop. Returns false if quiche does not have the stream yet.
pub(crate) fn stop_stream(connection: &mut tacklib::Connection, id: u64, code: u64) -> bool {
    while connection.stream_discard(id, usize::MAX).is_ok_and(|(_, is_end)| !is_end) {}
    match connection.stream_shutdown(id, Shutdown::Read, code) {
        Err(quiche::Error::Done) => connection.stream_closed(id),
        _ => true,
    }
}

/// Ends this end's half of a stream. Returns false if quiche does not have the stream yet.
pub(crate) fn end_stream(connection: &mut tacklib::Connection, id: u64, end: SendEnd) -> bool {
    let ended = match end {
        SendEnd::Finished => connection.stream_send(id, b"", true).map(|_| ()),
        SendEnd::Reset(code) => connection.stream_shutdown(id, Shutdown::Write, code),
    };
    match ended {
        Err(quiche::Error::InvalidStreamState(_)) => false,
        // quiche says so of streams that it does not have, and of those that have ended.
        Err(quiche::Error::Done) => connection.stream_closed(id) || end == SendEnd::Finished,
        _ => true,
    }
}
