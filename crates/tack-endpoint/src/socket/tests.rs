use quinn_udp::RecvMeta;
use tacklib::EcnCodepoint;

use super::*;
use crate::receive_buffers::{codepoint, destination};

fn bind(
    address: SocketAddr,
    config: &EndpointConfig,
) -> Result<UdpSocket<std::net::UdpSocket>, Error> {
    UdpSocket::bind(address, config, Ok)
}

#[test]
fn without_receive_offload_every_datagram_arrives_alone() {
    let config = EndpointConfig { gro: false, ..EndpointConfig::default() };
    let localhost = SocketAddr::from(([127, 0, 0, 1], 0));
    let mut sender = bind(localhost, &config).unwrap();
    let mut receiver = bind(localhost, &config).unwrap();
    let contents = [7; 3000];
    let burst = Burst {
        contents: &contents,
        segment: 1000,
        count: 3,
        from: sender.local_addr(),
        to: receiver.local_addr(),
        ecn: EcnCodepoint::NotEct,
    };
    if sender.max_segments() < 3 {
        return; // No segmentation offload here: nothing would put them together.
    }
    sender.send(&burst).unwrap();

    let mut buffers = ReceiveBuffers::new();
    let count = receiver.receive(&mut buffers).unwrap();
    let lengths: Vec<usize> = buffers.filled(count).map(|(_, data)| data.len()).collect();
    assert_eq!(lengths, [1000; 3]);
}

#[test]
#[cfg(target_os = "linux")]
fn the_socket_that_sends_does_not_fragment_with_receive_offload_or_without() {
    use rustix::net::sockopt::{
        Ipv4PathMtuDiscovery, Ipv6PathMtuDiscovery, ip_mtu_discover, ipv6_mtu_discover,
    };
    for gro in [true, false] {
        let config = EndpointConfig { gro, ..EndpointConfig::default() };
        let socket = bind("127.0.0.1:0".parse().unwrap(), &config).unwrap();
        let discovery = ip_mtu_discover(&socket.io).unwrap();
        assert_eq!(discovery, Ipv4PathMtuDiscovery::PROBE, "gro: {gro}");

        let Ok(socket) = bind("[::1]:0".parse().unwrap(), &config) else {
            continue; // No IPv6 here.
        };
        let discovery = ipv6_mtu_discover(&socket.io).unwrap();
        assert_eq!(discovery, Ipv6PathMtuDiscovery::PROBE, "gro: {gro}");
    }
}

#[test]
fn a_wildcard_socket_without_receive_offload_reports_the_address_too() {
    let config = EndpointConfig { gro: false, ..EndpointConfig::default() };
    destination_of_a_datagram_is_reported(&config);
}

#[test]
fn a_wildcard_socket_reports_the_address_a_datagram_was_sent_to() {
    destination_of_a_datagram_is_reported(&EndpointConfig::default());
}

fn destination_of_a_datagram_is_reported(config: &EndpointConfig) {
    let mut sender = bind(SocketAddr::from(([127, 0, 0, 1], 0)), config).unwrap();
    let mut receiver = bind(SocketAddr::from(([0, 0, 0, 0], 0)), config).unwrap();
    let to = SocketAddr::from(([127, 0, 0, 1], receiver.local_addr().port()));
    let from = sender.local_addr();
    let ecn = EcnCodepoint::NotEct;
    let burst = Burst { contents: &[1], segment: 1, count: 1, from, to, ecn };
    sender.send(&burst).unwrap();

    let mut buffers = ReceiveBuffers::new();
    let count = receiver.receive(&mut buffers).unwrap();
    let metas: Vec<RecvMeta> = buffers.filled(count).map(|(meta, _)| meta).collect();
    assert_eq!(metas.len(), 1);
    assert_eq!(metas[0].addr, from);
    assert_eq!(destination(receiver.local_addr(), &metas[0]), to);
}

#[test]
fn datagrams_keep_their_ecn_codepoint_alone_and_in_bursts_over_both_ip_versions() {
    use EcnCodepoint::{Ce, Ect0, Ect1, NotEct};
    for host in ["127.0.0.1:0", "[::1]:0"] {
        let host: SocketAddr = host.parse().unwrap();
        let offloads = [(true, true), (false, true), (true, false)];
        for ((gso, gro), arrival_times) in
            offloads.map(|both| [(both, true), (both, false)]).concat()
        {
            let config =
                EndpointConfig { gso, gro, arrival_times, ..EndpointConfig::default() };
            let Ok(mut sender) = bind(host, &config) else {
                continue; // No IPv6 here.
            };
            let mut receiver = bind(host, &config).unwrap();
            for ecn in [NotEct, Ect0, Ect1, Ce] {
                let count = sender.max_segments().min(3);
                let contents = vec![7; 1000 * count];
                let (from, to) = (sender.local_addr(), receiver.local_addr());
                let burst = Burst { contents: &contents, segment: 1000, count, from, to, ecn };
                sender.send(&burst).unwrap();
                let mut buffers = ReceiveBuffers::new();
                let mut bytes = 0;
                while bytes < contents.len() {
                    let filled = receiver.receive(&mut buffers).unwrap();
                    for (meta, data) in buffers.filled(filled) {
                        assert_eq!(codepoint(&meta), ecn, "{host}, {config:?}");
                        bytes += data.len();
                    }
                }
            }
        }
    }
}

#[test]
#[cfg(target_os = "linux")]
fn each_datagram_has_the_time_at_which_it_came_on_sockets_of_one_address_or_all() {
    for host in ["127.0.0.1:0", "0.0.0.0:0", "[::1]:0", "[::]:0"] {
        let host: SocketAddr = host.parse().unwrap();
        let Ok(mut receiver) = bind(host, &EndpointConfig::default()) else {
            continue; // No IPv6 here.
        };
        let loopback = match host {
            SocketAddr::V4(_) => std::net::Ipv4Addr::LOCALHOST.into(),
            SocketAddr::V6(_) => std::net::Ipv6Addr::LOCALHOST.into(),
        };
        let to = SocketAddr::new(loopback, receiver.local_addr().port());
        let sender = std::net::UdpSocket::bind(SocketAddr::new(loopback, 0)).unwrap();
        // The kernel turns timestamps on behind the first socket that wants them.
        std::thread::sleep(std::time::Duration::from_millis(50));
        let before = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap();
        sender.send_to(&[1; 100], to).unwrap();
        sender.send_to(&[2; 100], to).unwrap();
        let after = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap();

        let mut buffers = ReceiveBuffers::new();
        let count = receiver.receive(&mut buffers).unwrap();
        let metas: Vec<_> = buffers.filled(count).map(|(meta, _)| meta).collect();
        assert_eq!(metas.iter().map(|meta| meta.len).sum::<usize>(), 200, "{host}");
        for meta in metas {
            let at = meta.timestamp.unwrap();
            assert!((before..=after).contains(&at), "{host}: {at:?}, {before:?} to {after:?}");
            assert_eq!(destination(receiver.local_addr(), &meta), to);
            assert_eq!(meta.addr, sender.local_addr().unwrap());
        }
        assert_eq!(
            receiver.receive(&mut buffers).unwrap_err().kind(),
            io::ErrorKind::WouldBlock
        );
    }
}

/// Of addresses that anybody can forge, and of one that this host has lost.
#[test]
#[cfg(target_os = "linux")]
fn a_datagram_that_the_system_refuses_for_its_addresses_costs_no_offload() {
    let localhost = SocketAddr::from(([127, 0, 0, 1], 0));
    let local6 = SocketAddr::from((std::net::Ipv6Addr::LOCALHOST, 4433));
    let lost6: SocketAddr = "[2001:db8::77]:4433".parse().unwrap();
    let multicast = SocketAddr::from(([224, 0, 0, 251], 5353));
    let broadcast = SocketAddr::from(([255, 255, 255, 255], 4433));
    let good = bind(localhost, &EndpointConfig::default()).unwrap();
    for (from, to) in [
        (localhost, localhost),
        (multicast, good.local_addr()),
        (broadcast, good.local_addr()),
        (lost6, local6),
    ] {
        let any: SocketAddr =
            if to.is_ipv6() { "[::]:0" } else { "0.0.0.0:0" }.parse().unwrap();
        let mut socket = bind(any, &EndpointConfig::default()).unwrap();
        if socket.max_segments() == 1 {
            return; // No segmentation offload here: there is nothing to lose.
        }
        let ecn = EcnCodepoint::NotEct;
        let burst = Burst { contents: &[1], segment: 1, count: 1, from, to, ecn };
        let error = socket.try_send(&burst).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EINVAL), "from {from} to {to}");
        assert!(socket.max_segments() > 1, "from {from} to {to}");
        if to.is_ipv4() {
            let from = SocketAddr::from(([127, 0, 0, 1], 0));
            socket.send(&Burst { from, to: good.local_addr(), ..burst }).unwrap();
        }
    }
}

/// More datagrams than the kernel splits.
#[test]
#[cfg(target_os = "linux")]
fn a_burst_that_the_system_refuses_costs_no_ecn_marks_and_bursts_for_a_while_only() {
    const COUNT: usize = 200;
    let localhost = SocketAddr::from(([127, 0, 0, 1], 0));
    let mut sender = bind(localhost, &EndpointConfig::default()).unwrap();
    let mut receiver = bind(localhost, &EndpointConfig::default()).unwrap();
    let segments = sender.max_segments();
    if segments == 1 {
        return; // No segmentation offload here: there is nothing to refuse.
    }
    let contents = [7; 10 * COUNT];
    let (from, to) = (sender.local_addr(), receiver.local_addr());
    let ecn = EcnCodepoint::Ect0;
    let burst = Burst { contents: &contents, segment: 10, count: COUNT, from, to, ecn };
    let error = sender.send(&burst).unwrap_err();
    assert_eq!(classify(&error), SendError::Offload, "{error}");
    assert_eq!(sender.max_segments(), 1);

    let single = Burst { contents: &[7; 10], segment: 10, count: 1, from, to, ecn };
    let mut buffers = ReceiveBuffers::new();
    let mut sent = 0;
    while sender.max_segments() == 1 {
        sender.send(&single).unwrap();
        let count = receiver.receive(&mut buffers).unwrap();
        let marks: Vec<_> = buffers.filled(count).map(|(meta, _)| codepoint(&meta)).collect();
        assert_eq!(marks, [ecn]);
        sent += 1;
        assert!(sent <= 10_000, "no bursts any more");
    }
    assert_eq!(sender.max_segments(), segments);
}

#[test]
fn a_burst_that_is_refused_has_the_next_leave_one_by_one_unless_single_ones_are_too() {
    let after = |count, code| singly_after(count, &io::Error::from_raw_os_error(code));
    for code in [libc::EIO, libc::EINVAL] {
        assert_eq!((after(2, code), after(1, code)), (Some(SINGLY), Some(0)));
    }
    for code in [libc::EAGAIN, libc::EMSGSIZE, libc::ENOBUFS, libc::ECONNREFUSED] {
        assert_eq!((after(2, code), after(1, code)), (None, None));
    }
}

#[test]
fn system_errors_get_their_meaning() {
    let classify = |code| classify(&io::Error::from_raw_os_error(code));
    assert_eq!(classify(libc::EAGAIN), SendError::Full);
    assert_eq!(classify(libc::ENOBUFS), SendError::NoBuffers);
    assert_eq!(classify(libc::EMSGSIZE), SendError::TooLarge);
    assert_eq!(classify(libc::EIO), SendError::Offload);
    assert_eq!(classify(libc::ECONNREFUSED), SendError::Failed);
}
