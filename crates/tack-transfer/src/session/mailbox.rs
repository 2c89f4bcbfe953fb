//! The queues between a stream and its worker thread.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender, TryRecvError, TrySendError};

use crate::protocol::{Message, TransferError};

/// Messages that wait in each direction. With 64 KiB of content each this covers the time
/// that a thread switch takes, and little more.
const DEPTH: usize = 4;

/// Tells the thread that drives the connection that a queue has moved.
pub type Notify = Arc<dyn Fn() + Send + Sync>;

/// The worker's end: blocking.
pub struct Mailbox {
    inbox: Option<Receiver<Message>>,
    outbox: Option<SyncSender<Message>>,
    notify: Notify,
    /// See [`Self::peer_has_all`].
    has_all: Arc<AtomicBool>,
    /// What has come while this end was sending, if it sends without waiting for answers.
    held: RefCell<Option<VecDeque<Message>>>,
}

/// The stream's end: never blocks. Dropping a half tells the worker that nothing more comes, or
/// that nothing more is wanted.
pub(super) struct StreamEnd {
    pub(super) inbox: Option<SyncSender<Message>>,
    pub(super) outbox: Option<Receiver<Message>>,
}

/// What became of an attempt to give a message to the worker.
pub(super) enum Delivery {
    Taken,
    /// The worker has not caught up; the message comes back.
    Full(Message),
    /// The worker has ended.
    Gone,
}

/// What the worker has to send.
pub(super) enum Pickup {
    Message(Message),
    Nothing,
    /// The worker has ended; nothing more comes.
    End,
}

impl Mailbox {
    pub(super) fn new(notify: Notify) -> (Self, StreamEnd) {
        let (to_worker, inbox) = mpsc::sync_channel(DEPTH);
        let (outbox, from_worker) = mpsc::sync_channel(DEPTH);
        let has_all = Arc::default();
        let held = RefCell::default();
        let worker = Self { inbox: Some(inbox), outbox: Some(outbox), notify, has_all, held };
        (worker, StreamEnd { inbox: Some(to_worker), outbox: Some(from_worker) })
    }

    /// One whose peer says this, no more than [`DEPTH`] messages, and ends.
    #[cfg(test)]
    pub(crate) fn hearing(messages: Vec<Message>) -> Self {
        let (mailbox, mut stream) = Self::new(Arc::new(|| {}));
        for message in messages {
            assert!(matches!(stream.deliver(message), Delivery::Taken));
        }
        mailbox
    }

    /// One whose peer says to each message what `answer` makes of it.
    #[cfg(test)]
    pub(crate) fn answered_by(
        mut answer: impl FnMut(Message) -> Vec<Message> + Send + 'static,
    ) -> Self {
        let (mailbox, stream) = Self::new(Arc::new(|| {}));
        std::thread::spawn(move || {
            let StreamEnd { inbox: Some(inbox), outbox: Some(outbox) } = stream else { return };
            for message in outbox {
                for answer in answer(message) {
                    inbox.send(answer).unwrap();
                }
            }
        });
        mailbox
    }

    /// Has `flag` tell [`Self::peer_has_all`].
    #[must_use]
    pub(super) fn with_flag(mut self, flag: &Arc<AtomicBool>) -> Self {
        self.has_all = Arc::clone(flag);
        self
    }

    /// Whether the peer has ended the connection because it has everything that it wanted: an answer that did not
    /// come would have said so of its file.
    pub fn peer_has_all(&self) -> bool {
        self.has_all.load(Ordering::Acquire)
    }

    /// Lets the peer send while this end does: what comes waits for [`Self::recv`], and no more of it is taken than
    /// a queue holds.
    pub fn hold_messages(&self) {
        self.held.borrow_mut().get_or_insert_default();
    }

    /// Waits for the peer's next message. [`Message::Fail`] is an error.
    pub fn recv(&self) -> Result<Message, TransferError> {
        let held = self.held.borrow_mut().as_mut().and_then(VecDeque::pop_front);
        if let Some(message) = held {
            return Ok(message);
        }
        let inbox = self.inbox.as_ref().ok_or(TransferError::Disconnected)?;
        let message = inbox.recv().map_err(|_| TransferError::Disconnected)?;
        (self.notify)();
        match message {
            Message::Fail(fail) => Err(TransferError::Remote(fail)),
            message => Ok(message),
        }
    }

    /// Sends a message; waits while the queue is full. If the peer stopped listening because
    /// something failed there, the error is its explanation.
    pub fn send(&self, message: Message) -> Result<(), TransferError> {
        self.check_objection()?;
        let outbox = self.outbox.as_ref().ok_or(TransferError::Disconnected)?;
        if outbox.send(message).is_ok() {
            (self.notify)();
            return Ok(());
        }
        loop {
            self.recv()?;
        }
    }

    /// Tells the peer about an error, if there is something to tell.
    pub fn fail(&self, error: &TransferError) {
        if let (Some(fail), Some(outbox)) = (error.to_fail(), &self.outbox) {
            // Nobody listens any more: then nobody needs to know.
            let _ = outbox.send(Message::Fail(fail));
        }
    }

    /// Whoever is about to send hears nothing from the peer meanwhile, unless it failed or answers are held.
    fn check_objection(&self) -> Result<(), TransferError> {
        while self.held.borrow().as_ref().is_none_or(|held| held.len() < DEPTH) {
            match self.inbox.as_ref().map(Receiver::try_recv) {
                Some(Ok(Message::Fail(fail))) => return Err(TransferError::Remote(fail)),
                Some(Ok(message)) => match &mut *self.held.borrow_mut() {
                    Some(held) => held.push_back(message),
                    None => return Err(TransferError::unexpected(&message)),
                },
                Some(Err(TryRecvError::Disconnected)) => {
                    return Err(TransferError::Disconnected);
                }
                Some(Err(TryRecvError::Empty)) | None => return Ok(()),
            }
            (self.notify)();
        }
        Ok(())
    }
}

impl Drop for Mailbox {
    fn drop(&mut self) {
        // Closed before the notice, or the notice could be too early to show it.
        self.inbox = None;
        self.outbox = None;
        (self.notify)();
    }
}

impl StreamEnd {
    pub(super) fn deliver(&mut self, message: Message) -> Delivery {
        match self.inbox.as_ref().map(|inbox| inbox.try_send(message)) {
            Some(Ok(())) => Delivery::Taken,
            Some(Err(TrySendError::Full(message))) => Delivery::Full(message),
            Some(Err(TrySendError::Disconnected(_))) | None => Delivery::Gone,
        }
    }

    pub(super) fn pick_up(&mut self) -> Pickup {
        match self.outbox.as_ref().map(Receiver::try_recv) {
            Some(Ok(message)) => Pickup::Message(message),
            Some(Err(TryRecvError::Empty)) => Pickup::Nothing,
            Some(Err(TryRecvError::Disconnected)) | None => Pickup::End,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::{Fail, FailCode};

    fn pair() -> (Mailbox, StreamEnd) {
        Mailbox::new(Arc::new(|| {}))
    }

    fn fail() -> Message {
        Message::Fail(Fail { code: FailCode::NoSpace, text: "full".to_owned() })
    }

    #[test]
    fn a_slow_worker_makes_the_stream_wait() {
        let (mailbox, mut stream) = pair();
        for _ in 0..DEPTH {
            assert!(matches!(stream.deliver(Message::Equal), Delivery::Taken));
        }
        assert!(matches!(stream.deliver(Message::Equal), Delivery::Full(Message::Equal)));
        mailbox.recv().unwrap();
        assert!(matches!(stream.deliver(Message::Equal), Delivery::Taken));
    }

    #[test]
    fn a_sender_hears_why_the_peer_stopped_listening() {
        let (mailbox, mut stream) = pair();
        stream.outbox = None;
        stream.deliver(fail());
        stream.inbox = None;
        assert!(matches!(mailbox.send(Message::Stored), Err(TransferError::Remote(_))));
    }

    #[test]
    fn what_comes_while_one_sends_is_an_error_unless_it_is_held_and_little_is() {
        let (mailbox, mut stream) = pair();
        stream.deliver(Message::Equal);
        assert!(matches!(mailbox.send(Message::Stored), Err(TransferError::Protocol(_))));
        let (mailbox, mut stream) = pair();
        mailbox.hold_messages();
        let mut taken = 0;
        for _ in 0..3 {
            while matches!(stream.deliver(Message::EndOfChunks), Delivery::Taken) {
                taken += 1;
            }
            mailbox.send(Message::Stored).unwrap();
        }
        assert_eq!(taken, 2 * DEPTH, "the stream waits");
        for _ in 0..taken {
            assert_eq!(mailbox.recv().unwrap(), Message::EndOfChunks);
        }
        stream.deliver(fail());
        assert!(matches!(mailbox.send(Message::Stored), Err(TransferError::Remote(_))));
    }

    #[test]
    fn a_sender_whose_queue_is_full_is_released_when_the_stream_ends() {
        let (mailbox, mut stream) = pair();
        for _ in 0..DEPTH {
            mailbox.send(Message::Stored).unwrap();
        }
        let worker = std::thread::spawn(move || mailbox.send(Message::Stored));
        stream.inbox = None;
        stream.outbox = None;
        assert!(matches!(worker.join().unwrap(), Err(TransferError::Disconnected)));
    }

    #[test]
    fn the_last_message_counts_even_if_the_peer_closes_right_after_it() {
        let (mailbox, mut stream) = pair();
        mailbox.send(Message::Stored).unwrap();
        stream.inbox = None;
        drop(mailbox);
        assert!(matches!(stream.pick_up(), Pickup::Message(Message::Stored)));
        assert!(matches!(stream.pick_up(), Pickup::End));
    }

    #[test]
    fn a_worker_that_has_ended_is_noticed() {
        let (mailbox, mut stream) = pair();
        drop(mailbox);
        assert!(matches!(stream.deliver(Message::Equal), Delivery::Gone));
    }
}
