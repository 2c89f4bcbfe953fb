//! Datagrams that other workers have handed to one, for which they were.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Instant;

use tacklib::EcnCodepoint;

/// A datagram that came to another worker's socket.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Forwarded {
    pub(crate) from: SocketAddr,
    /// The local address that it was sent to.
    pub(crate) to: SocketAddr,
    pub(crate) ecn: EcnCodepoint,
    /// When it came to the socket.
    pub(crate) at: Instant,
    pub(crate) datagram: Vec<u8>,
}

/// What each of the other workers has handed over, in bounded space.
///
/// A worker may take as much of the space as it leaves free: one that is flooded with datagrams for this
/// worker takes half of it, and the others' find room. They are taken in turns.
pub(crate) struct Inbox {
    /// By the worker that handed over.
    queues: Vec<Queue>,
    /// Bytes in all of them.
    held: usize,
    capacity: usize,
    /// The queue whose turn it is.
    turn: usize,
}

#[derive(Default)]
struct Queue {
    datagrams: VecDeque<Forwarded>,
    bytes: usize,
}

/// What became of a datagram that was handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Put {
    /// It is the only one: whoever takes them has to be woken.
    First,
    Queued,
    /// There is no room: it is lost.
    Full,
}

impl Inbox {
    /// Room for datagrams of `capacity` bytes, what it takes to keep them included.
    pub(crate) fn new(workers: usize, capacity: usize) -> Self {
        let queues = (0..workers).map(|_| Queue::default()).collect();
        Self { queues, held: 0, capacity, turn: 0 }
    }

    pub(crate) fn put(&mut self, worker: usize, forwarded: Forwarded) -> Put {
        let cost = cost(&forwarded);
        let free = self.capacity.saturating_sub(self.held);
        let Some(queue) = self.queues.get_mut(worker) else { return Put::Full };
        if queue.bytes + cost > free {
            return Put::Full;
        }
        let was_empty = self.held == 0;
        queue.bytes += cost;
        self.held += cost;
        queue.datagrams.push_back(forwarded);
        if was_empty { Put::First } else { Put::Queued }
    }

    /// Takes up to `limit` datagrams, one of each worker in turns; whether there are more.
    pub(crate) fn take(&mut self, limit: usize, taken: &mut Vec<Forwarded>) -> bool {
        let mut empty = 0;
        while taken.len() < limit && empty < self.queues.len() {
            self.turn = (self.turn + 1) % self.queues.len();
            let queue = &mut self.queues[self.turn];
            let Some(forwarded) = queue.datagrams.pop_front() else {
                empty += 1;
                continue;
            };
            empty = 0;
            queue.bytes -= cost(&forwarded);
            self.held -= cost(&forwarded);
            taken.push(forwarded);
        }
        self.held > 0
    }
}

/// What keeping it takes: an empty datagram, too, takes memory.
fn cost(forwarded: &Forwarded) -> usize {
    size_of::<Forwarded>() + forwarded.datagram.len()
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a test needs some instant to start from")]
mod tests {
    use super::*;

    const CAPACITY: usize = 100_000;

    fn datagram(len: usize, mark: u8) -> Forwarded {
        let address = SocketAddr::from(([127, 0, 0, 1], 1));
        Forwarded {
            from: address,
            to: address,
            ecn: EcnCodepoint::NotEct,
            at: Instant::now(),
            datagram: vec![mark; len],
        }
    }

    fn fill(inbox: &mut Inbox, worker: usize, len: usize) -> usize {
        (0..1_000_000)
            .take_while(|_| inbox.put(worker, datagram(len, worker as u8)) != Put::Full)
            .count()
    }

    fn take(inbox: &mut Inbox, limit: usize) -> (Vec<Forwarded>, bool) {
        let mut taken = Vec::new();
        let more = inbox.take(limit, &mut taken);
        (taken, more)
    }

    #[test]
    fn what_is_handed_over_comes_out_as_it_was() {
        let mut inbox = Inbox::new(2, CAPACITY);
        let mut marked = datagram(10, 3);
        marked.ecn = EcnCodepoint::Ce;
        let at = marked.at;
        assert_eq!(inbox.put(1, marked), Put::First);
        assert_eq!(inbox.put(1, datagram(0, 0)), Put::Queued);
        let (taken, more) = take(&mut inbox, 10);
        assert!(!more);
        assert_eq!(
            (taken[0].ecn, taken[0].at, taken[0].datagram.len()),
            (EcnCodepoint::Ce, at, 10)
        );
        assert_eq!(taken.len(), 2);
        assert_eq!(inbox.put(1, datagram(0, 0)), Put::First);
    }

    #[test]
    fn a_worker_that_hands_over_without_end_leaves_room_for_the_others() {
        let mut inbox = Inbox::new(4, CAPACITY);
        let flood = fill(&mut inbox, 1, 1200);
        assert!(inbox.held <= CAPACITY / 2, "{} bytes", inbox.held);
        assert!(fill(&mut inbox, 2, 1200) >= flood / 3);
        assert!(fill(&mut inbox, 3, 1200) >= flood / 6);
        assert!(inbox.held < CAPACITY);
    }

    #[test]
    fn no_size_of_datagrams_makes_it_keep_more() {
        for len in [0, 1, 1200, 65_527] {
            let mut inbox = Inbox::new(2, CAPACITY);
            fill(&mut inbox, 1, len);
            let datagrams =
                inbox.queues.iter().map(|queue| queue.datagrams.len()).sum::<usize>();
            assert!(datagrams * (len + size_of::<Forwarded>()) <= CAPACITY, "{len}");
        }
    }

    #[test]
    fn workers_are_served_in_turns_however_much_one_has() {
        let mut inbox = Inbox::new(3, CAPACITY);
        fill(&mut inbox, 1, 100);
        for _ in 0..3 {
            inbox.put(2, datagram(100, 2));
        }
        let (taken, more) = take(&mut inbox, 6);
        assert!(more);
        assert_eq!(taken.iter().filter(|forwarded| forwarded.datagram[0] == 2).count(), 3);
        while take(&mut inbox, 64).1 {}
        assert_eq!(inbox.held, 0);
        assert!(inbox.queues.iter().all(|queue| queue.bytes == 0));
    }
}
