//! The link between the ends.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use serde::Serialize;
use tack_emulator::relay::{Change, Rebinding, Setup};
use tack_link::Direction;
use tack_link::compose::{BoxedLink, Deaf, Duplex, Omitting, Pauses};
use tack_link::pipe::{PipeConfig, Reorder};

use super::described::serialize_change;
use super::narrow::Narrow;
use crate::contract::Role;
use crate::error::Error;

const PACKET: u64 = 1500;
/// By how much longer a packet takes that others overtake.
const OVERTAKEN_BY: Duration = Duration::from_millis(10);
/// Headers of IPv4, without options, and UDP, in bytes.
const HEADERS_V4: usize = 28;
/// Headers of IPv6 and UDP, in bytes.
const HEADERS_V6: usize = 48;

/// A wire, and what happens on it. All times are in milliseconds from the first datagram of a
/// client.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Conditions {
    /// Propagation delay each way.
    pub delay_ms: u64,
    /// Mbit/s each way, of everything in an IP packet.
    pub rate_mbps: u64,
    /// Packets that the queue holds.
    pub queue_packets: u64,
    /// Decides which packets are lost or corrupted: a cell meets the same losses each time.
    pub seed: u64,
    /// Each packet is lost with this probability.
    pub loss: f64,
    /// Each packet has a bit flipped with this probability.
    pub corrupt: f64,
    /// Packets in a row that are lost at most, or corrupted at most.
    pub longest_run: u32,
    /// Each packet is overtaken by later ones with this probability.
    pub reorder: f64,
    /// Each packet arrives twice with this probability.
    pub duplicate: f64,
    /// The largest UDP payload that is carried, in bytes; `None` for any.
    pub largest_datagram: Option<usize>,
    /// Times in which nothing arrives: when each begins, and how long it lasts.
    pub deaf_ms: &'static [(u64, u64)],
    /// Times in which nothing arrives of what the peer sends: when each begins, and how long it
    /// lasts.
    pub peer_muted_ms: &'static [(u64, u64)],
    /// The packets of clients that are lost, the first of all being 1.
    pub omitted_to_server: &'static [u64],
    /// When clients get another address.
    pub rebound_ms: &'static [u64],
    /// What is new about it.
    #[serde(serialize_with = "serialize_change")]
    pub change: Change,
    /// Addresses are those of IPv6.
    pub ipv6: bool,
}

impl Conditions {
    /// The link of the quic-interop-runner where it says nothing else.
    pub const DEFAULT: Self = Self {
        delay_ms: 15,
        rate_mbps: 10,
        queue_packets: 25,
        seed: 1,
        loss: 0.0,
        corrupt: 0.0,
        // As in the quic-interop-runner.
        longest_run: 3,
        reorder: 0.0,
        duplicate: 0.0,
        largest_datagram: None,
        deaf_ms: &[],
        peer_muted_ms: &[],
        omitted_to_server: &[],
        rebound_ms: &[],
        change: Change::Port,
        ipv6: false,
    };

    /// The link, if our end has this role; the same seed does the same to the same packets.
    pub fn link(&self, ours: Role) -> Result<BoxedLink, Error> {
        let delay = Duration::from_millis(self.delay_ms);
        let pipe = PipeConfig {
            loss: self.loss,
            corrupt: self.corrupt,
            longest_run: Some(self.longest_run),
            reorder: (self.reorder > 0.0)
                .then_some(Reorder { probability: self.reorder, delay: OVERTAKEN_BY }),
            duplicate: self.duplicate,
            ..PipeConfig::new(self.rate_mbps * 1_000_000, delay, self.queue_packets * PACKET)
        };
        let wrong = |error: tack_link::ParameterError| Error::Link(error.to_string());
        let duplex = Duplex::new(&pipe, &pipe, self.seed).map_err(wrong)?;
        let ms = Duration::from_millis;
        let times = |times: &'static [(u64, u64)]| {
            times.iter().map(move |(start, length)| (ms(*start), ms(*length)))
        };
        let deaf = Pauses::new(times(self.deaf_ms)).map_err(wrong)?;
        let deaf = Deaf::new(Box::new(duplex), deaf);
        let from_peer = match ours {
            Role::Client => Direction::Forward,
            Role::Server => Direction::Reverse,
        };
        let muted = Pauses::new(times(self.peer_muted_ms)).map_err(wrong)?;
        let muted = Deaf::one_way(Box::new(deaf), from_peer, muted);
        let omitted = self.omitted_to_server.iter().copied();
        let link = Box::new(Omitting::new(Box::new(muted), Direction::Reverse, omitted));
        let headers = if self.ipv6 { HEADERS_V6 } else { HEADERS_V4 };
        Ok(match self.largest_datagram {
            Some(largest) => Box::new(Narrow::new(link, (largest + headers) as u32)),
            None => link,
        })
    }

    /// The setup of the relay in front of these servers.
    pub fn setup(&self, servers: Vec<SocketAddr>) -> Setup {
        let rebinding =
            |at: &u64| Rebinding { at: Duration::from_millis(*at), change: self.change };
        Setup { servers, rebindings: self.rebound_ms.iter().map(rebinding).collect() }
    }

    /// The address that servers listen on.
    pub const fn host(&self) -> IpAddr {
        if self.ipv6 {
            IpAddr::V6(Ipv6Addr::LOCALHOST)
        } else {
            IpAddr::V4(Ipv4Addr::LOCALHOST)
        }
    }

    /// The end of the last time in which nothing arrives.
    pub fn heard_again(&self) -> Option<Duration> {
        let (start, length) = self.deaf_ms.last()?;
        Some(Duration::from_millis(start + length))
    }

    /// The round trip, without any queue.
    pub const fn round_trip(&self) -> Duration {
        Duration::from_millis(2 * self.delay_ms)
    }
}

#[cfg(test)]
mod tests {
    use tack_link::{Link, Packet, Time};

    use super::*;

    fn send(link: &mut BoxedLink, direction: Direction, millis: u64) -> Option<u64> {
        let sent = Time::from(Duration::from_millis(millis));
        let packet = Packet::new(1250, 0, sent, vec![0; 1222]);
        link.send(direction, packet, sent);
        let next = link.next_event()?;
        link.arrival(next).map(|arrival| arrival.at.as_nanos() / 1_000_000)
    }

    #[test]
    fn the_default_link_is_that_of_the_quic_interop_runner() {
        let mut link = Conditions::DEFAULT.link(Role::Client).unwrap();
        // A packet of 1250 bytes takes a millisecond.
        assert_eq!(send(&mut link, Direction::Forward, 100), Some(116));
        assert_eq!(send(&mut link, Direction::Reverse, 200), Some(216));
        assert_eq!(Conditions::DEFAULT.round_trip(), Duration::from_millis(30));
    }

    #[test]
    fn what_is_to_happen_happens_when_and_where_it_is_to() {
        let conditions = Conditions {
            deaf_ms: &[(1000, 500)],
            omitted_to_server: &[2],
            ..Conditions::DEFAULT
        };
        let mut link = conditions.link(Role::Client).unwrap();
        assert_eq!(send(&mut link, Direction::Reverse, 0), Some(16));
        assert_eq!(send(&mut link, Direction::Reverse, 100), None);
        assert_eq!(send(&mut link, Direction::Forward, 200), Some(216));
        assert_eq!(send(&mut link, Direction::Forward, 990), None);
        assert_eq!(send(&mut link, Direction::Forward, 1490), Some(1506));
        assert_eq!(conditions.heard_again(), Some(Duration::from_millis(1500)));
    }

    #[test]
    fn a_muted_peer_is_not_heard_while_our_end_is() {
        let conditions = Conditions { peer_muted_ms: &[(100, 50)], ..Conditions::DEFAULT };
        let (to_client, to_server) = (Direction::Forward, Direction::Reverse);
        for (ours, from_us, from_peer) in
            [(Role::Client, to_server, to_client), (Role::Server, to_client, to_server)]
        {
            let mut link = conditions.link(ours).unwrap();
            assert_eq!(send(&mut link, from_peer, 0), Some(16));
            assert_eq!(send(&mut link, from_us, 100), Some(116));
            assert_eq!(send(&mut link, from_peer, 110), None);
            assert_eq!(send(&mut link, from_peer, 140), Some(156));
            assert_eq!(link.losses(from_peer).prescribed, 1);
            assert_eq!(link.losses(from_us).prescribed, 0);
        }
    }

    #[test]
    fn a_narrow_link_loses_what_is_larger_than_it_carries() {
        // The packet of 1250 bytes has 28 of headers.
        let narrow =
            |largest| Conditions { largest_datagram: Some(largest), ..Conditions::DEFAULT };
        let mut link = narrow(1222).link(Role::Client).unwrap();
        assert_eq!(send(&mut link, Direction::Forward, 0), Some(16));
        let mut link = narrow(1221).link(Role::Client).unwrap();
        assert_eq!(send(&mut link, Direction::Forward, 0), None);
        assert_eq!(link.losses(Direction::Forward).prescribed, 1);
    }

    #[test]
    fn rebindings_and_addresses_are_what_the_relay_is_told() {
        let conditions =
            Conditions { rebound_ms: &[5, 9], change: Change::Address, ..Conditions::DEFAULT };
        let setup = conditions.setup(Vec::new());
        let at = Duration::from_millis(9);
        assert_eq!(setup.rebindings.len(), 2);
        assert_eq!(setup.rebindings[1], Rebinding { at, change: Change::Address });
        assert!(conditions.host().is_ipv4());
        assert!(Conditions { ipv6: true, ..conditions }.host().is_ipv6());
    }
}
