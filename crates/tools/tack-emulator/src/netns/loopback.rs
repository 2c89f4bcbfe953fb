//! Bringing up `lo`, which a new namespace has, but down.

use std::io;

use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, sendto, socket_with,
};

/// Sets the flag `IFF_UP` on `lo` in the namespace of the calling thread.
pub(super) fn bring_up() -> io::Result<()> {
    // NETLINK_ROUTE is protocol 0, the default.
    let netlink = AddressFamily::NETLINK;
    let socket = socket_with(netlink, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
    let kernel = SocketAddrNetlink::new(0, 0);
    sendto(&socket, &up_request(), SendFlags::empty(), &kernel)?;
    let mut reply = [0_u8; 1024];
    let (length, _) = recv(&socket, &mut reply[..], RecvFlags::empty())?;
    outcome(&reply[..length])
}

const HEADER: usize = 16;

/// `RTM_NEWLINK` for the first device: `struct nlmsghdr` and `struct ifinfomsg`, see netlink(7)
/// and rtnetlink(7).
fn up_request() -> [u8; 32] {
    const RTM_NEWLINK: u16 = 16;
    const NLM_F_REQUEST_AND_ACK: u16 = 0x1 | 0x4;
    const LOOPBACK_INDEX: i32 = 1;
    const IFF_UP: u32 = 1;
    let mut request = [0; 32];
    request[0..4].copy_from_slice(&32_u32.to_ne_bytes());
    request[4..6].copy_from_slice(&RTM_NEWLINK.to_ne_bytes());
    request[6..8].copy_from_slice(&NLM_F_REQUEST_AND_ACK.to_ne_bytes());
    // Sequence number, sender, address family and device type stay zero.
    request[20..24].copy_from_slice(&LOOPBACK_INDEX.to_ne_bytes());
    request[24..28].copy_from_slice(&IFF_UP.to_ne_bytes());
    // Which flags to change.
    request[28..32].copy_from_slice(&IFF_UP.to_ne_bytes());
    request
}

/// `NLMSG_ERROR` answers a request that asked for an answer; error 0 means that it was done.
fn outcome(reply: &[u8]) -> io::Result<()> {
    const NLMSG_ERROR: u16 = 2;
    let kind = reply.get(4..6).and_then(|bytes| bytes.try_into().ok());
    let code = reply.get(HEADER..HEADER + 4).and_then(|bytes| bytes.try_into().ok());
    match (kind.map(u16::from_ne_bytes), code.map(i32::from_ne_bytes)) {
        (Some(NLMSG_ERROR), Some(0)) => Ok(()),
        (Some(NLMSG_ERROR), Some(code)) => Err(io::Error::from_raw_os_error(-code)),
        _ => Err(io::Error::other("unexpected answer from the kernel's routing socket")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(kind: u16, code: i32) -> Vec<u8> {
        let mut reply = vec![0; 36];
        reply[4..6].copy_from_slice(&kind.to_ne_bytes());
        reply[16..20].copy_from_slice(&code.to_ne_bytes());
        reply
    }

    #[test]
    fn an_acknowledged_request_succeeded() {
        assert!(outcome(&reply(2, 0)).is_ok());
    }

    #[test]
    fn a_refused_request_gives_the_kernels_error() {
        let error = outcome(&reply(2, -1)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
    }

    #[test]
    fn anything_else_is_not_taken_for_success() {
        assert!(outcome(&reply(3, 0)).is_err());
        assert!(outcome(&[]).is_err());
    }
}
