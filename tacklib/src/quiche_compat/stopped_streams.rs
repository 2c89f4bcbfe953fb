//! Streams that the peer has stopped (STOP_SENDING).
//!
//! What: remembers them, tells the application of them, and keeps questions of the layer's from them. Why: quiche (0.30)
//! tells of a stopped stream by [`Error::StreamStopped`](quiche::Error::StreamStopped) where it is written to or asked
//! for its capacity, and where nothing else of the stream is left it forgets it with the first such call, whoever makes
//! it, or with the acknowledgement of its reset: it says `Done` to what is written then, as to a stream that has to wait.
//! Of a stream that was taken from its list of writable ones it never tells by that list. Upstream: not reported. To
//! delete: when quiche has a list of stopped streams, and a question for the capacity changes nothing.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use quiche::BufFactory;

/// Streams that are remembered. Of those before them the application may miss the news.
const REMEMBERED: usize = 4096;

/// A STOP_SENDING frame (RFC 9000 section 19.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stop {
    /// The stream.
    pub stream_id: u64,
    /// The application's error code.
    pub error: u64,
}

#[derive(Clone, Copy, Debug)]
struct Known {
    error: u64,
    /// Something had been written to the stream, and its end had not.
    is_unfinished: bool,
}

/// Streams that were stopped before quiche had done with them.
#[derive(Debug, Default)]
pub struct StoppedStreams {
    known: BTreeMap<u64, Known>,
    /// Those in the order in which they were stopped.
    order: VecDeque<u64>,
    /// The last so many of them, of which the application has not heard.
    untold: usize,
    /// Those that the list of writable streams has not named.
    unlisted: BTreeSet<u64>,
}

impl StoppedStreams {
    /// The peer has asked not to be sent on a stream. `is_unfinished` tells that something was written to it, and its end
    /// was not.
    pub fn on_stopped(&mut self, Stop { stream_id, error }: Stop, is_unfinished: bool) {
        if self.known.contains_key(&stream_id) {
            return;
        }
        self.known.insert(stream_id, Known { error, is_unfinished });
        self.order.push_back(stream_id);
        self.unlisted.insert(stream_id);
        self.untold += 1;
        if self.order.len() > REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
            self.unlisted.remove(&oldest);
            self.untold = self.untold.min(REMEMBERED);
        }
    }

    /// The next one of which the application has not heard.
    pub fn take_untold(&mut self) -> Option<u64> {
        let at = self.order.len() - self.untold;
        let stream_id = self.order.get(at).copied();
        self.untold = self.untold.saturating_sub(1);
        stream_id
    }

    /// The next one that the application has not been told to be writable, which is how quiche tells of it.
    pub fn take_unlisted(&mut self) -> Option<u64> {
        self.unlisted.pop_first()
    }

    /// What an application is told that writes to a stream: `None` if the stream was not stopped.
    pub fn error(&self, stream_id: u64) -> Option<quiche::Error> {
        self.known.get(&stream_id).map(|known| quiche::Error::StreamStopped(known.error))
    }

    /// Whether a stream was stopped of which the application has written all that it began to write.
    pub fn is_behind_end(&self, stream_id: u64) -> bool {
        self.known.get(&stream_id).is_some_and(|known| !known.is_unfinished)
    }

    /// Whether quiche must not be asked about a stream: the answer is the application's.
    pub fn contains(&self, stream_id: u64) -> bool {
        !self.known.is_empty() && self.known.contains_key(&stream_id)
    }

    /// Whether quiche has done with a stream that it had, and that was not stopped before.
    pub fn is_forgotten<F: BufFactory>(
        &self,
        connection: &mut quiche::Connection<F>,
        stream_id: u64,
    ) -> bool {
        connection.stream_closed(stream_id)
            && !self.contains(stream_id)
            && matches!(
                connection.stream_capacity(stream_id),
                Err(quiche::Error::InvalidStreamState(_))
            )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn stop(stream_id: u64) -> Stop {
        Stop { stream_id, error: stream_id + 1 }
    }

    #[test]
    fn each_is_told_once_and_stays_known() {
        let mut stopped = StoppedStreams::default();
        assert_eq!(stopped.take_untold(), None);
        for stream_id in [6, 2, 6] {
            stopped.on_stopped(stop(stream_id), false);
        }
        assert_eq!([(); 3].map(|()| stopped.take_untold()), [Some(6), Some(2), None]);
        stopped.on_stopped(stop(10), true);
        stopped.on_stopped(stop(2), false);
        assert_eq!([(); 2].map(|()| stopped.take_untold()), [Some(10), None]);
        assert!([2, 6, 10].iter().all(|id| stopped.contains(*id)) && !stopped.contains(14));
        assert_eq!([2, 10, 14].map(|id| stopped.is_behind_end(id)), [true, false, false]);
    }

    #[test]
    fn each_is_listed_as_writable_once_and_writing_to_it_tells_why() {
        let mut stopped = StoppedStreams::default();
        for stream_id in [6, 2, 10] {
            stopped.on_stopped(stop(stream_id), false);
        }
        assert_eq!(
            [(); 4].map(|()| stopped.take_unlisted()),
            [Some(2), Some(6), Some(10), None]
        );
        stopped.on_stopped(stop(2), false);
        assert_eq!(stopped.take_unlisted(), None);
        assert_eq!(stopped.error(2), Some(quiche::Error::StreamStopped(3)));
        assert_eq!(stopped.error(14), None);
    }

    #[test]
    fn a_peer_that_stops_all_its_streams_takes_no_memory() {
        let mut stopped = StoppedStreams::default();
        (0..3 * REMEMBERED as u64).for_each(|id| stopped.on_stopped(stop(id), false));
        let lens = (stopped.known.len(), stopped.order.len(), stopped.unlisted.len());
        assert_eq!(lens, (REMEMBERED, REMEMBERED, REMEMBERED));
        let told: Vec<u64> = std::iter::from_fn(|| stopped.take_untold()).collect();
        assert_eq!(told.len(), REMEMBERED);
        assert_eq!(told[0], 2 * REMEMBERED as u64, "the last ones");
    }
}
