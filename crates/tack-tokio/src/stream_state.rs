//! One stream, as the driver and its handles share it.

use std::sync::Arc;
use std::task::Waker;
use std::time::Instant;

use tacklib::quiche::{self, Shutdown};
use tokio::sync::Notify;

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
    /// How many futures of [`SendStream::stopped`](crate::SendStream::stopped) there are.
    watches: usize,
    /// Wakes these.
    settled: Option<Arc<Notify>>,
    /// The peer's error code, once it has stopped the stream.
    pub(crate) stopped: Option<u64>,
    /// The deadline has passed.
    pub(crate) expired: bool,
    /// When the stream expires if the application has not ended it before. The connection's own deadline is one of
    /// what was written: it is forgotten where all of that has arrived.
    pub(crate) deadline: Option<Instant>,
    /// How the application has ended the stream, which quiche may not have yet.
    pub(crate) end: Option<SendEnd>,
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

/// What became of the end of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EndOutcome {
    Ended,
    /// quiche does not have the stream yet.
    Unknown,
    /// The peer had stopped the stream before, with this error code.
    Stopped(u64),
}

impl StreamState {
    /// The stream with what the peer may have said of it before it was accepted.
    pub(crate) fn new(has_writer: bool, has_reader: bool, stopped: Option<u64>) -> Self {
        Self { has_reader, has_writer, stopped, ..Self::default() }
    }

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

    /// Whether neither end has ended the stream, nor its deadline.
    pub(crate) fn is_open(&self) -> bool {
        self.end.is_none() && self.stopped.is_none() && !self.expired
    }

    /// Whether a handle of it is left, or a future.
    pub(crate) fn is_used(&self) -> bool {
        self.has_reader || self.has_writer || self.watches > 0
    }

    /// Whether somebody waits for the stream to be stopped or delivered, which may still happen.
    pub(crate) fn is_watched(&self) -> bool {
        let is_reset = matches!(self.end, Some(SendEnd::Reset(_)));
        let is_settled =
            self.is_delivered || self.stopped.is_some() || self.expired || is_reset;
        self.watches > 0 && !is_settled
    }

    /// Adds a future of [`SendStream::stopped`](crate::SendStream::stopped); the signal wakes it.
    pub(crate) fn add_watch(&mut self) -> Arc<Notify> {
        self.watches += 1;
        Arc::clone(self.settled.get_or_insert_default())
    }

    /// Takes one away.
    pub(crate) fn remove_watch(&mut self) {
        self.watches = self.watches.saturating_sub(1);
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
        if self.is_watched() && self.note_delivery(connection, id) {
            self.wake_watches(effects);
        }
        self.writer.is_some() || self.is_watched()
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

    /// The application has ended the stream, or quiche has got its end now.
    pub(crate) fn on_end(&mut self, end: SendEnd, outcome: EndOutcome, effects: &mut Effects) {
        match outcome {
            EndOutcome::Ended => self.is_finished = end == SendEnd::Finished,
            EndOutcome::Stopped(code) => self.on_stopped(code, effects),
            EndOutcome::Unknown => {}
        }
        if matches!(end, SendEnd::Reset(_)) {
            // Nothing of it will be delivered.
            self.wake_writers(effects);
        }
    }

    /// The peer has stopped the stream.
    pub(crate) fn on_stopped(&mut self, code: u64, effects: &mut Effects) {
        self.stopped = Some(code);
        self.wake_writers(effects);
    }

    /// The deadline has passed.
    pub(crate) fn on_expired(&mut self, effects: &mut Effects) {
        self.expired = true;
        self.wake_writers(effects);
    }

    /// Wakes all futures of [`SendStream::stopped`](crate::SendStream::stopped).
    pub(crate) fn wake_watches(&self, effects: &mut Effects) {
        if let Some(settled) = self.settled.as_ref().filter(|_| self.watches > 0) {
            effects.notify_stream(Arc::clone(settled));
        }
    }

    pub(crate) fn wake_writers(&mut self, effects: &mut Effects) {
        effects.wake(self.writer.take());
        self.wake_watches(effects);
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

/// Ends this end's half of a stream.
pub(crate) fn end_stream(
    connection: &mut tacklib::Connection,
    id: u64,
    end: SendEnd,
) -> EndOutcome {
    let ended = match end {
        SendEnd::Finished => connection.stream_send(id, b"", true).map(|_| ()),
        SendEnd::Reset(code) => connection.stream_shutdown(id, Shutdown::Write, code),
    };
    match ended {
        Err(quiche::Error::StreamStopped(code)) => {
            let_go(connection, id, code);
            EndOutcome::Stopped(code)
        }
        Err(quiche::Error::InvalidStreamState(_)) => EndOutcome::Unknown,
        // quiche says so of a reset where it does not have the stream, and where that has ended.
        Err(quiche::Error::Done) if end != SendEnd::Finished && is_unknown(connection, id) => {
            EndOutcome::Unknown
        }
        _ => EndOutcome::Ended,
    }
}

/// Resets a stream that the peer has stopped, with the peer's code.
///
/// quiche keeps a stream whose stop it may have to tell; now it need not. Its reset has left with this code, or will.
pub(crate) fn let_go(connection: &mut tacklib::Connection, id: u64, code: u64) {
    // `Done` says that it is forgotten.
    let _ = connection.stream_shutdown(id, Shutdown::Write, code);
}

/// Whether quiche does not have a stream, and has not had it.
fn is_unknown(connection: &mut tacklib::Connection, id: u64) -> bool {
    !connection.stream_closed(id)
        && matches!(connection.stream_capacity(id), Err(quiche::Error::InvalidStreamState(_)))
}
