//! Streams that the peer has stopped (STOP_SENDING).
//!
//! What: remembers them, tells the application of them, and keeps questions of the layer's from them. Why: quiche (0.30)
//! tells of a stopped stream by [`Error::StreamStopped`](quiche::Error::StreamStopped) where it is written to or asked
//! for its capacity, and where nothing else of the stream is left it forgets it with the first such call, whoever makes
//! it. Of a stream that was taken from its list of writable ones it never tells by that list. Upstream: not reported. To
//! delete: when quiche has a list of stopped streams, and a question for the capacity changes nothing.

use std::collections::{BTreeSet, VecDeque};

use quiche::BufFactory;

/// Streams that are remembered. Of those before them the application may miss the news.
const REMEMBERED: usize = 4096;

/// Streams that were stopped before quiche had done with them.
#[derive(Debug, Default)]
pub struct StoppedStreams {
    known: BTreeSet<u64>,
    /// Those in the order in which they were stopped.
    order: VecDeque<u64>,
    /// The last so many of them, of which the application has not heard.
    untold: usize,
}

impl StoppedStreams {
    /// The peer has asked not to be sent on a stream.
    pub fn on_stopped(&mut self, stream_id: u64) {
        if !self.known.insert(stream_id) {
            return;
        }
        self.order.push_back(stream_id);
        self.untold += 1;
        if self.order.len() > REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
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

    /// Whether quiche must not be asked about a stream: the answer is the application's.
    pub fn contains(&self, stream_id: u64) -> bool {
        !self.known.is_empty() && self.known.contains(&stream_id)
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

    #[test]
    fn each_is_told_once_and_stays_known() {
        let mut stopped = StoppedStreams::default();
        assert_eq!(stopped.take_untold(), None);
        for stream_id in [6, 2, 6] {
            stopped.on_stopped(stream_id);
        }
        assert_eq!([(); 3].map(|()| stopped.take_untold()), [Some(6), Some(2), None]);
        stopped.on_stopped(10);
        stopped.on_stopped(2);
        assert_eq!([(); 2].map(|()| stopped.take_untold()), [Some(10), None]);
        assert!([2, 6, 10].iter().all(|id| stopped.contains(*id)) && !stopped.contains(14));
    }

    #[test]
    fn a_peer_that_stops_all_its_streams_takes_no_memory() {
        let mut stopped = StoppedStreams::default();
        (0..3 * REMEMBERED as u64).for_each(|id| stopped.on_stopped(id));
        assert_eq!((stopped.known.len(), stopped.order.len()), (REMEMBERED, REMEMBERED));
        let told: Vec<u64> = std::iter::from_fn(|| stopped.take_untold()).collect();
        assert_eq!(told.len(), REMEMBERED);
        assert_eq!(told[0], 2 * REMEMBERED as u64, "the last ones");
    }
}
