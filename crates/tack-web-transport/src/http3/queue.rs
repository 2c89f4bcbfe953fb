//! Streams of the peer that wait to be accepted.

use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{Notify, mpsc};

/// So many streams of each direction may wait to be accepted or for their header; the peer's other streams wait
/// in the connection, where its limit of streams bounds them.
const MAX_WAITING_STREAMS: usize = 128;

/// Streams that wait to be accepted, by whichever task asks first.
pub(super) struct Queue<T> {
    streams: Mutex<mpsc::Receiver<T>>,
    /// Notified when a stream has come.
    changed: Arc<Notify>,
}

impl<T> Queue<T> {
    /// Takes the next stream, and waits for ever when no more can come. Cancellation safe, and holds nothing up
    /// while it waits.
    pub(super) async fn next(&self) -> T {
        loop {
            // Listens before it looks: nothing is missed between the two.
            let mut changed = pin!(self.changed.notified());
            changed.as_mut().enable();
            let next = self.streams.lock().unwrap_or_else(PoisonError::into_inner).try_recv();
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
    changed: Arc<Notify>,
}

/// Room in a [`Queue`].
pub(super) struct Permit<T> {
    room: mpsc::OwnedPermit<T>,
    changed: Arc<Notify>,
}

impl<T> QueueSender<T> {
    /// Waits for room; `None` when nobody accepts any more.
    pub(super) async fn reserve(&self) -> Option<Permit<T>> {
        let room = self.streams.clone().reserve_owned().await.ok()?;
        Some(Permit { room, changed: Arc::clone(&self.changed) })
    }
}

impl<T> Permit<T> {
    pub(super) fn send(self, stream: T) {
        self.room.send(stream);
        self.changed.notify_waiters();
    }
}

pub(super) fn queue<T>() -> (QueueSender<T>, Queue<T>) {
    let (sender, receiver) = mpsc::channel(MAX_WAITING_STREAMS);
    let changed = Arc::<Notify>::default();
    let sender = QueueSender { streams: sender, changed: Arc::clone(&changed) };
    (sender, Queue { streams: Mutex::new(receiver), changed })
}
