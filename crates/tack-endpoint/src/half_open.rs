//! Clients whose handshake is not done: how many may begin one without a Retry, and which one gives way.
//!
//! The address that such a handshake is begun from may be forged (RFC 9000 section 8.1), and one packet may end it: a
//! limit on those that go on would bound nothing. So each takes its place for as long as a handshake may last,
//! whatever becomes of the connection, unless it completes.
//!
//! A Retry proves an address, and one address can fill a server with handshakes that it never completes. Where there is
//! no place left, one of the network that has begun most of them gives way to a client of a network that has begun fewer.
//! A customer with many networks of IPv6 can begin one in each: where none has begun more than others, wider
//! networks are compared.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::net::IpAddr;
use std::time::{Duration, Instant};

use crate::by_network::ByNetwork;
use crate::handle::Handle;
use crate::network::Network;

/// How long a connection that has ended counts where a handshake may last for ever.
const WITHOUT_TIMEOUT: Duration = Duration::from_secs(10);

/// The places of one server, or of one of its workers.
pub(crate) struct HalfOpen {
    limit: usize,
    /// Connections in their handshake, by the networks of their clients and by wider ones.
    connections: [ByNetwork<Handle>; 3],
    /// Until when those count that ended before: never more than the limit.
    ended: BinaryHeap<Reverse<Instant>>,
}

/// A client that is counted as half-open.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HalfOpenClient {
    network: Network,
    /// Until when it counts if it ends before its handshake is done; none if it has proven its address.
    counts_until: Option<Instant>,
}

impl HalfOpen {
    pub(crate) fn new(limit: usize) -> Self {
        Self { limit, connections: Default::default(), ended: BinaryHeap::new() }
    }

    /// Until when a connection counts that a client opens now.
    pub(crate) fn counts_until(now: Instant, handshake_timeout: Duration) -> Option<Instant> {
        now.checked_add(handshake_timeout).or_else(|| now.checked_add(WITHOUT_TIMEOUT))
    }

    /// Whether one more may begin its handshake without a Retry.
    pub(crate) fn has_room(&self) -> bool {
        self.len().saturating_add(self.ended.len()) < self.limit
    }

    /// Whether there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn len(&self) -> usize {
        let [connections, ..] = &self.connections;
        connections.len()
    }

    fn remove(&mut self, handle: Handle, client: HalfOpenClient) {
        for (connections, network) in
            self.connections.iter_mut().zip(client.network.with_wider())
        {
            connections.remove(network, &handle);
        }
    }

    /// The connections of which one gives way to a client at this address, the oldest first; `None` if none has to.
    pub(crate) fn give_way_to(&self, ip: IpAddr) -> Option<&VecDeque<Handle>> {
        let mut networks = self.connections.iter().zip(Network::of(ip).with_wider());
        networks.find_map(|(connections, network)| {
            let own = connections.count(network);
            connections.most().filter(|handles| handles.len() > own + 1)
        })
    }

    /// A client at this address begins its handshake.
    pub(crate) fn on_opened(
        &mut self,
        handle: Handle,
        ip: IpAddr,
        counts_until: Option<Instant>,
    ) -> HalfOpenClient {
        let network = Network::of(ip);
        for (connections, network) in self.connections.iter_mut().zip(network.with_wider()) {
            connections.push(network, handle);
        }
        HalfOpenClient { network, counts_until }
    }

    pub(crate) fn on_established(&mut self, handle: Handle, client: HalfOpenClient) {
        self.remove(handle, client);
    }

    /// One has ended before its handshake was done; it counts until its time.
    pub(crate) fn on_failed(&mut self, handle: Handle, client: HalfOpenClient) {
        self.remove(handle, client);
        if let Some(until) = client.counts_until
            && self.ended.len() < self.limit
        {
            self.ended.push(Reverse(until));
        }
    }

    /// Gives up the places whose time is over.
    pub(crate) fn on_time(&mut self, now: Instant) {
        while self.ended.peek().is_some_and(|Reverse(until)| *until <= now) {
            self.ended.pop();
        }
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a test needs some instant to start from")]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// Clients of one network, opened and not ended.
    struct Clients {
        half_open: HalfOpen,
        opened: Vec<(Handle, HalfOpenClient)>,
    }

    impl Clients {
        fn new(limit: usize) -> Self {
            Self { half_open: HalfOpen::new(limit), opened: Vec::new() }
        }

        fn open(&mut self, ip: &str, until: Option<Instant>) -> Handle {
            let handle = Handle::for_test(self.opened.len() as u32);
            let client = self.half_open.on_opened(handle, ip.parse().unwrap(), until);
            self.opened.push((handle, client));
            handle
        }

        fn fail(&mut self) {
            let (handle, client) = self.opened.pop().unwrap();
            self.half_open.on_failed(handle, client);
        }

        fn gives_way_to(&self, ip: &str) -> Option<Handle> {
            self.half_open.give_way_to(ip.parse().unwrap())?.front().copied()
        }
    }

    #[test]
    fn a_handshake_that_completes_makes_room_at_once_and_one_that_fails_after_its_time() {
        let start = Instant::now();
        let until = HalfOpen::counts_until(start, 5 * SECOND);
        let mut clients = Clients::new(2);
        clients.open("192.0.2.1", until);
        clients.open("192.0.2.1", until);
        assert!(!clients.half_open.has_room());
        clients.fail();
        assert!(!clients.half_open.has_room());
        let (handle, client) = clients.opened.pop().unwrap();
        clients.half_open.on_established(handle, client);
        assert!(clients.half_open.has_room() && clients.half_open.is_empty());
        clients.open("192.0.2.1", until);
        clients.half_open.on_time(start + 4 * SECOND);
        assert!(!clients.half_open.has_room());
        clients.half_open.on_time(start + 5 * SECOND);
        assert!(clients.half_open.has_room());
    }

    #[test]
    fn a_client_that_has_proven_its_address_makes_room_when_it_fails() {
        let mut clients = Clients::new(1);
        clients.open("192.0.2.1", None);
        clients.fail();
        assert!(clients.half_open.has_room());
    }

    #[test]
    fn places_are_given_up_in_the_order_of_their_times_whichever_connection_ends_first() {
        let start = Instant::now();
        let mut clients = Clients::new(3);
        for seconds in [3, 1, 2] {
            clients.open("192.0.2.1", Some(start + seconds * SECOND));
            clients.fail();
        }
        for seconds in 1..=3 {
            clients.half_open.on_time(start + seconds * SECOND);
            assert_eq!(clients.half_open.ended.len(), 3 - seconds as usize);
        }
    }

    #[test]
    fn no_more_is_kept_of_connections_that_have_ended_than_there_are_places() {
        let start = Instant::now();
        for limit in [0, 3] {
            let mut clients = Clients::new(limit);
            for _ in 0..1000 {
                clients.open("192.0.2.1", Some(start + SECOND));
                clients.fail();
            }
            assert_eq!(clients.half_open.ended.len(), limit);
            assert!(clients.half_open.is_empty());
        }
    }

    #[test]
    fn the_oldest_client_of_the_network_with_most_gives_way_to_one_of_another_with_fewer() {
        let mut clients = Clients::new(0);
        assert_eq!(clients.gives_way_to("2001:db8::1"), None, "there is none");
        let first = clients.open("2001:db8:0:1::1", None);
        clients.open("192.0.2.1", None);
        assert_eq!(clients.gives_way_to("192.0.2.7"), None, "each has one");
        clients.open("2001:db8:0:1::2", None);
        assert_eq!(clients.gives_way_to("2001:db8:0:1:ffff::3"), None, "its own network");
        assert_eq!(
            clients.gives_way_to("::ffff:192.0.2.1"),
            None,
            "no more than it would have"
        );
        assert_eq!(clients.gives_way_to("192.0.2.7"), Some(first));
        clients.open("2001:db8:0:1::3", None);
        assert_eq!(clients.gives_way_to("192.0.2.1"), Some(first));
    }

    #[test]
    fn one_handshake_for_each_network_of_a_wider_one_keeps_no_other_out() {
        for networks in [["a0", "a1", "a2"], ["a000", "a100", "a200"]] {
            let [first, second, third] =
                networks.map(|network| format!("2001:db8:0:{network}::1"));
            let mut clients = Clients::new(0);
            let oldest = clients.open(&first, None);
            assert_eq!(clients.gives_way_to("192.0.2.1"), None, "each has one");
            clients.open(&second, None);
            assert_eq!(clients.gives_way_to(&third), None, "its own network");
            for other in ["192.0.2.1", "2001:db8:1::1"] {
                assert_eq!(clients.gives_way_to(other), Some(oldest), "{first}, {other}");
            }
            clients.open("192.0.2.1", None);
            assert_eq!(clients.gives_way_to("192.0.2.1"), None, "no more than it would have");
        }
    }

    #[test]
    fn one_that_has_ended_does_not_count_for_ever_where_a_handshake_may_last_so_long() {
        let start = Instant::now();
        let until = HalfOpen::counts_until(start, Duration::MAX);
        assert_eq!(until, Some(start + WITHOUT_TIMEOUT));
    }
}
