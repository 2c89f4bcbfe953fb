//! Socket addresses between C and Rust.

use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::ptr;

use libc::{sockaddr, sockaddr_in, sockaddr_in6, sockaddr_storage, socklen_t};
use socket2::{SockAddr, SockAddrStorage};

use crate::error::{Failure, INVALID_ARGUMENT};

/// An address: `const struct sockaddr *`.
///
/// Only C makes a value of it, and promises that it is NULL or valid for the length that comes with it.
#[repr(transparent)]
pub struct Address(*const sockaddr);

impl Address {
    /// The address. It fails if there is none, if it is not one of IPv4 or IPv6, or shorter than that.
    pub(crate) fn get(&self, len: usize) -> Result<SocketAddr, Failure> {
        if self.0.is_null() || len < size_of::<sockaddr_in>() {
            return Err(INVALID_ARGUMENT);
        }
        let mut storage = SockAddrStorage::zeroed();
        let copied = len.min(size_of::<SockAddrStorage>());
        // SAFETY: C promises that `len` bytes can be read. The storage is as long as what is copied, and
        // made of integers, which may have any value.
        unsafe {
            ptr::copy_nonoverlapping(self.0.cast::<u8>(), (&raw mut storage).cast(), copied);
        }
        // SAFETY: what is not copied is zero, so the address is whole whatever its family says.
        let address = unsafe { SockAddr::new(storage, copied as socklen_t) };
        address
            .as_socket()
            .filter(|address| address.is_ipv4() || len >= size_of::<sockaddr_in6>())
            .ok_or(INVALID_ARGUMENT)
    }

    /// The address, if there is one.
    pub(crate) fn optional(&self, len: usize) -> Result<Option<SocketAddr>, Failure> {
        if self.0.is_null() || len == 0 { Ok(None) } else { self.get(len).map(Some) }
    }
}

/// Two addresses, which name a path.
pub(crate) fn path(
    (local, local_len): (&Address, socklen_t),
    (peer, peer_len): (&Address, socklen_t),
) -> Result<(SocketAddr, SocketAddr), Failure> {
    Ok((local.get(local_len as usize)?, peer.get(peer_len as usize)?))
}

/// An address as C has it, and its length.
pub(crate) fn to_c(address: SocketAddr) -> (sockaddr_storage, socklen_t) {
    let address = SockAddr::from(address);
    let len = address.len();
    let mut storage = address.as_storage();
    // SAFETY: the type is one of the platform's address types.
    (*unsafe { storage.view_as::<sockaddr_storage>() }, len)
}

/// Writes an address and its length where C wants them.
pub(crate) fn write(
    address: SocketAddr,
    out: Option<&mut MaybeUninit<sockaddr_storage>>,
    out_len: Option<&mut MaybeUninit<socklen_t>>,
) {
    let (storage, len) = to_c(address);
    if let Some(out) = out {
        out.write(storage);
    }
    if let Some(out_len) = out_len {
        out_len.write(len);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(storage: &sockaddr_storage, len: usize) -> Result<SocketAddr, Failure> {
        Address(ptr::from_ref(storage).cast()).get(len)
    }

    #[test]
    fn addresses_come_back_as_they_went() {
        for text in ["127.0.0.1:4433", "[2001:db8::1]:443", "[fe80::1%3]:9"] {
            let address = text.parse().unwrap();
            let (storage, len) = to_c(address);
            assert_eq!(read(&storage, len as usize), Ok(address));
            // A program may pass the length of its buffer.
            assert_eq!(read(&storage, size_of::<sockaddr_storage>()), Ok(address));
        }
    }

    #[test]
    fn what_is_no_address_is_refused() {
        let (storage, _) = to_c("[::1]:1".parse().unwrap());
        assert_eq!(read(&storage, size_of::<sockaddr_in>()), Err(INVALID_ARGUMENT), "cut off");
        assert_eq!(read(&storage, 0), Err(INVALID_ARGUMENT));
        let (mut storage, len) = to_c("127.0.0.1:1".parse().unwrap());
        storage.ss_family = libc::AF_UNIX as _;
        assert_eq!(read(&storage, len as usize), Err(INVALID_ARGUMENT), "another family");
        assert_eq!(Address(ptr::null()).get(16), Err(INVALID_ARGUMENT));
        assert_eq!(Address(ptr::null()).optional(16), Ok(None));
    }
}
