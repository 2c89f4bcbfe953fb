//! Streams of the peer that wait to be accepted.

use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{Notify, mpsc};

use super::codes;

/// So many streams of each direction may wait to be accepted or for their header; the peer's other streams wait
/// in the connection, where its limit of streams bounds them.
const MAX_WAITING_STREAMS: usize = 128;

/// A stream that can be ended with a code. The transport finishes one that is dropped, and the peer would take that end
/// for an empty answer.
pub(super) trait GiveUp {
    fn give_up(self, code: u64);
}

/// What both ends of a [`Queue`] hold.
struct Shared<T> {
    streams: Mutex<mpsc::Receiver<T>>,
    /// Notified when a stream has come.
    changed: Notify,
}

impl<T: GiveUp> Shared<T> {
    /// Takes no more streams, and gives those up that wait.
    fn close(&self) {
        let mut streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
        streams.close();
        while let Ok(stream) = streams.try_recv() {
            stream.give_up(codes::SESSION_GONE);
        }
    }
}

/// Streams that wait to be accepted, by whichever task asks first. Those that wait when it is dropped are given up
/// with the session.
pub(super) struct Queue<T: GiveUp>(Arc<Shared<T>>);

impl<T: GiveUp> Drop for Queue<T> {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl<T: GiveUp> Queue<T> {
    /// Takes the next stream, and waits for ever when no more can come. Cancellation safe, and holds nothing up
    /// while it waits.
    pub(super) async fn next(&self) -> T {
        loop {
            // Listens before it looks: nothing is missed between the two.
            let mut changed = pin!(self.0.changed.notified());
            changed.as_mut().enable();
            let next = self.0.streams.lock().unwrap_or_else(PoisonError::into_inner).try_recv();
            if let Ok(stream) = next {
                return stream;
            }
            changed.await;
        }
    }
}

/// The other end of a [`Queue`].
pub(super) struct QueueSender<T> {
    streams: mpsc::Sender<T>,
    shared: Arc<Shared<T>>,
}

/// Room in a [`Queue`].
pub(super) struct Permit<T> {
    room: mpsc::OwnedPermit<T>,
    shared: Arc<Shared<T>>,
}

impl<T> QueueSender<T> {
    /// Waits for room; `None` when the queue is gone.
    pub(super) async fn reserve(&self) -> Option<Permit<T>> {
        let room = self.streams.clone().reserve_owned().await.ok()?;
        Some(Permit { room, shared: Arc::clone(&self.shared) })
    }
}

impl<T: GiveUp> Permit<T> {
    /// Has a stream wait, or gives it up if the queue is gone.
    pub(super) fn send(self, stream: T) {
        // Looks after it has sent: a stream that comes while the queue is dropped is seen by one of the two.
        if self.room.send(stream).is_closed() {
            self.shared.close();
        }
        self.shared.changed.notify_waiters();
    }
}

pub(super) fn queue<T: GiveUp>() -> (QueueSender<T>, Queue<T>) {
    let (sender, receiver) = mpsc::channel(MAX_WAITING_STREAMS);
    let shared = Arc::new(Shared { streams: Mutex::new(receiver), changed: Notify::new() });
    (QueueSender { streams: sender, shared: Arc::clone(&shared) }, Queue(shared))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tells with which code it is given up.
    struct Stream(mpsc::UnboundedSender<u64>);

    impl GiveUp for Stream {
        fn give_up(self, code: u64) {
            self.0.send(code).unwrap();
        }
    }

    #[tokio::test]
    async fn a_stream_that_comes_before_or_after_the_queue_is_dropped_is_given_up() {
        let (tell, mut told) = mpsc::unbounded_channel();
        let (sender, queue) = queue();
        let early = sender.reserve().await.unwrap();
        let late = sender.reserve().await.unwrap();
        early.send(Stream(tell.clone()));
        assert!(told.try_recv().is_err(), "it waits");
        drop(queue);
        assert_eq!(told.try_recv(), Ok(codes::SESSION_GONE));
        late.send(Stream(tell));
        assert_eq!(told.try_recv(), Ok(codes::SESSION_GONE));
        assert!(sender.reserve().await.is_none());
    }
}
