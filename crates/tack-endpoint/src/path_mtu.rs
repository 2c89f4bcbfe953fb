//! How large a datagram a connection should try: what the first link of its route takes.
//!
//! Path MTU discovery (RFC 9000 section 14.3) searches between 1,200 bytes and a largest size. The closer that is to
//! what the path takes, the shorter the search: the system knows the link that a route begins with, and
//! most paths are no narrower.

use std::net::SocketAddr;
#[cfg(target_os = "linux")]
use std::net::SocketAddrV6;

/// The headers of UDP and of IPv4 or IPv6 without options, bytes.
const UDP_HEADER: usize = 8;
const IPV4_HEADER: usize = 20;
const IPV6_HEADER: usize = 40;

/// What QUIC needs of any path (RFC 9000 section 14), bytes of UDP payload.
const SMALLEST: usize = 1200;

/// The largest packets that are worth trying, bytes of UDP payload: quiche writes none that are longer.
const LARGEST: usize = 16_383;

/// What a link is taken for that Linux does not tell of, as there is no route at present, or that is too narrow for QUIC;
/// bytes with headers.
const ETHERNET_MTU: usize = 1500;

/// The largest UDP payload, in bytes, to try towards `peer`; `None` where the system tells of no link at all.
///
/// On Linux there always is one: a server's configuration is one for all clients, so that what was tried with the last
/// one would be tried otherwise.
pub fn largest_to_try(local: SocketAddr, peer: SocketAddr) -> Option<usize> {
    let known = mtu_of_route(local, peer).and_then(|mtu| payload(mtu, peer));
    if cfg!(target_os = "linux") {
        known.or_else(|| payload(ETHERNET_MTU, peer))
    } else {
        known
    }
}

/// What is left of a link's MTU for the payload of UDP.
fn payload(mtu: usize, peer: SocketAddr) -> Option<usize> {
    let is_ipv4 = match peer {
        SocketAddr::V4(_) => true,
        SocketAddr::V6(address) => address.ip().to_ipv4_mapped().is_some(),
    };
    let headers = UDP_HEADER + if is_ipv4 { IPV4_HEADER } else { IPV6_HEADER };
    let payload = mtu.checked_sub(headers)?.min(LARGEST);
    (payload >= SMALLEST).then_some(payload)
}

/// The MTU of the route, as the system has it: of its first link, or less where it has learnt better. A socket
/// that is connected knows; nothing is sent.
#[cfg(target_os = "linux")]
fn mtu_of_route(local: SocketAddr, peer: SocketAddr) -> Option<usize> {
    use rustix::net::sockopt::{ip_mtu, ipv6_mtu};

    let socket = std::net::UdpSocket::bind(beside(local, peer)).ok()?;
    socket.connect(peer).ok()?;
    let mtu = match peer {
        SocketAddr::V4(_) => ip_mtu(&socket),
        SocketAddr::V6(address) if address.ip().to_ipv4_mapped().is_some() => ip_mtu(&socket),
        SocketAddr::V6(_) => ipv6_mtu(&socket),
    };
    usize::try_from(mtu.ok()?).ok()
}

/// Another port of the local address. A link-local one is that of the peer's link (RFC 4007 section 6), which is not told
/// with the address that a datagram came to.
#[cfg(target_os = "linux")]
fn beside(local: SocketAddr, peer: SocketAddr) -> SocketAddr {
    match (local, peer) {
        (SocketAddr::V6(local), SocketAddr::V6(peer))
            if local.scope_id() == 0 && local.ip().is_unicast_link_local() =>
        {
            SocketAddrV6::new(*local.ip(), 0, 0, peer.scope_id()).into()
        }
        (SocketAddr::V6(local), _) => {
            SocketAddrV6::new(*local.ip(), 0, 0, local.scope_id()).into()
        }
        (SocketAddr::V4(_), _) => SocketAddr::new(local.ip(), 0),
    }
}

#[cfg(not(target_os = "linux"))]
fn mtu_of_route(_: SocketAddr, _: SocketAddr) -> Option<usize> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const IPV4: SocketAddr =
        SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 1);
    const IPV6: SocketAddr =
        SocketAddr::new(std::net::IpAddr::V6(std::net::Ipv6Addr::LOCALHOST), 1);

    #[test]
    fn headers_are_left_out_of_the_mtu() {
        assert_eq!(payload(1500, IPV4), Some(1472));
        assert_eq!(payload(1500, IPV6), Some(1452));
        let mapped = "[::ffff:127.0.0.1]:1".parse().ok();
        assert_eq!(mapped.and_then(|mapped| payload(1500, mapped)), Some(1472));
    }

    #[test]
    fn no_more_is_tried_than_a_packet_can_have() {
        assert_eq!(payload(65_536, IPV4), Some(LARGEST));
    }

    #[test]
    fn a_link_that_is_too_narrow_for_quic_is_not_followed() {
        assert_eq!(payload(1227, IPV4), None);
        assert_eq!(payload(20, IPV4), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_link_local_address_is_bound_on_its_link() {
        let at = |address: &str, scope_id| {
            SocketAddr::from(SocketAddrV6::new(address.parse().unwrap(), 4433, 0, scope_id))
        };
        let bound = |local, peer| match beside(local, peer) {
            SocketAddr::V6(address) => (address.port(), address.scope_id()),
            SocketAddr::V4(address) => panic!("{address}"),
        };
        let peer = at("fe80::2", 3);
        assert_eq!(bound(at("fe80::1", 3), peer), (0, 3));
        assert_eq!(bound(at("fe80::1", 0), peer), (0, 3));
        assert_eq!(bound(at("2001:db8::1", 0), peer), (0, 0));
        assert_eq!(beside(IPV4, IPV4), SocketAddr::new(IPV4.ip(), 0));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_loopback_interface_takes_the_largest_packets() {
        assert_eq!(largest_to_try(SocketAddr::new(IPV4.ip(), 0), IPV4), Some(LARGEST));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn what_ethernet_takes_is_tried_where_there_is_no_route() {
        let lost: SocketAddr = "198.51.100.77:0".parse().unwrap();
        assert_eq!(largest_to_try(lost, IPV4), Some(1472));
        let lost: SocketAddr = "[2001:db8::77]:0".parse().unwrap();
        assert_eq!(largest_to_try(lost, IPV6), Some(1452));
    }
}
