//! Wake-ups, and what else waits until the lock is free: a waker may run code of its own, and so may a socket.

use std::sync::Arc;
use std::task::Waker;

use tokio::sync::Notify;

use crate::socket::AsyncUdpSocket;

/// Wake-ups that are owed, and what is to be dropped.
#[derive(Default)]
pub(crate) struct Effects {
    wakers: Vec<Waker>,
    /// To be dropped: a waker may own a task, whose handles take the lock when they are dropped.
    dropped: Vec<Waker>,
    signals: Vec<Wake>,
    of_streams: Vec<Arc<Notify>>,
    socket: Option<Box<dyn AsyncUdpSocket>>,
}

type Wake = (Arc<Signals>, fn(&Signals) -> &Notify);

impl Effects {
    /// Wakes one task.
    pub(crate) fn wake(&mut self, waker: Option<Waker>) {
        self.wakers.extend(waker);
    }

    /// Drops a waker that is of no use any more.
    pub(crate) fn drop_later(&mut self, waker: Option<Waker>) {
        self.dropped.extend(waker);
    }

    /// Closes a socket.
    pub(crate) fn close(&mut self, socket: Box<dyn AsyncUdpSocket>) {
        self.socket = Some(socket);
    }

    /// Wakes all that wait for a signal of a connection.
    pub(crate) fn notify(&mut self, signals: &Arc<Signals>, which: fn(&Signals) -> &Notify) {
        self.signals.push((Arc::clone(signals), which));
    }

    /// Wakes all that wait for the signal of a stream.
    pub(crate) fn notify_stream(&mut self, signal: Arc<Notify>) {
        self.of_streams.push(signal);
    }

    /// Wakes all that wait for any signal of a connection.
    pub(crate) fn notify_all(&mut self, signals: &Arc<Signals>) {
        self.notify(signals, |signals| &signals.state);
        self.notify(signals, |signals| &signals.stream_credit);
        self.notify(signals, |signals| &signals.incoming_stream);
        self.notify(signals, |signals| &signals.datagram_received);
        self.notify(signals, |signals| &signals.datagram_room);
    }

    /// Closes the socket, and wakes those who may open it again.
    pub(crate) fn run(self) {
        drop(self.socket);
        for (signals, which) in self.signals {
            which(&signals).notify_waiters();
        }
        for signal in self.of_streams {
            signal.notify_waiters();
        }
        for waker in self.wakers {
            waker.wake();
        }
    }
}

/// What tasks wait for, of which any number may wait.
#[derive(Default)]
pub(crate) struct Signals {
    /// The connection is established, can carry early data, or is over.
    pub(crate) state: Notify,
    /// The peer lets more streams be opened.
    pub(crate) stream_credit: Notify,
    /// The peer has opened a stream.
    pub(crate) incoming_stream: Notify,
    /// DATAGRAMs have arrived.
    pub(crate) datagram_received: Notify,
    /// The queue of DATAGRAMs to send has room.
    pub(crate) datagram_room: Notify,
}
