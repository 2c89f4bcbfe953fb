//! One end of the link: a TUN device in the calling thread's namespace.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use rustix::io::Errno;
use tun_rs::{DeviceBuilder, SyncDevice};

use super::Error;
use crate::MTU;

/// The name of the device, the same in both namespaces.
const NAME: &str = "lab";

/// How many packets may wait for the driver. Waiting is short, but TCP sends in bursts, and what
/// overflows here is lost without the link's knowledge.
const QUEUE_PACKETS: u32 = 10_000;

pub(super) struct Device {
    tun: SyncDevice,
    /// /proc/net/dev of the device's namespace.
    statistics: File,
}

impl Device {
    /// Creates the device in the calling thread's namespace and brings it up. It vanishes when
    /// dropped.
    pub(super) fn open(local: Ipv4Addr, peer: Ipv4Addr) -> Result<Self, Error> {
        if !Path::new("/dev/net/tun").exists() {
            return Err(Error::NoTunDevice);
        }
        let tun = DeviceBuilder::new()
            .name(NAME)
            .mtu(MTU)
            // Offloads hand over packets larger than the MTU, which no link carries.
            .with(|builder| {
                builder.offload(false).tx_queue_len(QUEUE_PACKETS);
            })
            // The only route is the one to the peer.
            .ipv4(local, 32_u8, Some(peer))
            .build_sync()
            .map_err(|error| match Errno::from_io_error(&error) {
                // The device node is there, but no driver behind it.
                Some(Errno::NODEV | Errno::NXIO) => Error::NoTunDevice,
                _ => Error::setup("create a TUN device", error),
            })?;
        tun.set_nonblocking(true)
            .map_err(|error| Error::setup("prepare the TUN device", error))?;
        let statistics = File::open("/proc/thread-self/net/dev")
            .map_err(|error| Error::setup("open the device's statistics", error))?;
        Ok(Self { tun, statistics })
    }

    /// The next packet that the kernel sends, if there is one now.
    pub(super) fn read(&self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        match self.tun.recv(buffer) {
            Ok(length) => Ok(Some(length)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Hands a packet to the kernel, which does all the work of receiving it meanwhile.
    pub(super) fn write(&self, packet: &[u8]) -> io::Result<()> {
        match self.tun.send(packet) {
            // Links damage packets; the kernel takes none without a version number of IP.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(()),
            outcome => outcome.map(|_| ()),
        }
    }

    /// How many packets the kernel had to drop in front of or behind the device.
    pub(super) fn drops(&mut self) -> io::Result<u64> {
        let mut table = String::new();
        self.statistics.rewind()?;
        self.statistics.read_to_string(&mut table)?;
        drops_in(&table).ok_or_else(|| io::Error::other("the device is gone"))
    }
}

impl AsFd for Device {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.tun.as_fd()
    }
}

/// The fourth column counts drops while receiving, the twelfth while sending.
fn drops_in(table: &str) -> Option<u64> {
    let row = table.lines().find_map(|line| {
        let (name, row) = line.split_once(':')?;
        (name.trim() == NAME).then_some(row)
    })?;
    let column = |at| row.split_whitespace().nth(at)?.parse::<u64>().ok();
    Some(column(3)? + column(11)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
    lo:       1       2    3    4    5     6          7         8        9      10   11   12   13    14      15         16
   lab:       1       2    3   40    5     6          7         8        9      10   11  500   13    14      15         16
";

    #[test]
    fn drops_of_both_ways_are_counted_for_the_link_alone() {
        assert_eq!(drops_in(TABLE), Some(540));
    }

    #[test]
    fn a_missing_device_is_noticed() {
        assert_eq!(drops_in("lo: 1 2 3 4 5 6 7 8 9 10 11 12 13"), None);
    }
}
