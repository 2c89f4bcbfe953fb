//! How large a datagram a connection should try: what the first link of its route takes.
//!
//! Path MTU discovery (RFC 9000 section 14.3) searches between 1,200 bytes and a largest size. The closer that is to
//! what the path takes, the shorter the search: the system knows the link that a route begins with, and
//! most paths are no narrower.

use std::net::SocketAddr;

/// The headers of UDP and of IPv4 or IPv6 without options, bytes.
const UDP_HEADER: usize = 8;
const IPV4_HEADER: usize = 20;
const IPV6_HEADER: usize = 40;

/// What QUIC needs of any path (RFC 9000 section 14), bytes of UDP payload.
const SMALLEST: usize = 1200;

/// The largest packets that are worth trying, bytes of UDP payload: quiche writes none that are longer.
const LARGEST: usize = 16_383;

/// The UDP payload, in bytes, that the first link towards `peer` takes; `None` if the system does not tell.
pub fn first_link_payload(local: SocketAddr, peer: SocketAddr) -> Option<usize> {
    payload(mtu_of_route(local, peer)?, peer)
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

    let socket = std::net::UdpSocket::bind(SocketAddr::new(local.ip(), 0)).ok()?;
    socket.connect(peer).ok()?;
    let mtu = match peer {
        SocketAddr::V4(_) => ip_mtu(&socket),
        SocketAddr::V6(address) if address.ip().to_ipv4_mapped().is_some() => ip_mtu(&socket),
        SocketAddr::V6(_) => ipv6_mtu(&socket),
    };
    usize::try_from(mtu.ok()?).ok()
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
    fn the_loopback_interface_takes_the_largest_packets() {
        assert_eq!(first_link_payload(SocketAddr::new(IPV4.ip(), 0), IPV4), Some(LARGEST));
    }
}
