//! Waiting for sockets with a timeout finer than a millisecond.

use std::io;
use std::net::UdpSocket;
use std::time::Duration;

/// Waits until one of `sockets` can be read or `timeout` has passed, and writes the positions
/// of those that can into `ready`.
#[cfg(unix)]
pub(super) fn readable<'a>(
    sockets: impl Iterator<Item = &'a UdpSocket>,
    timeout: Duration,
    ready: &mut Vec<usize>,
) -> io::Result<()> {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    let mut fds: Vec<_> = sockets.map(|socket| PollFd::new(socket, PollFlags::IN)).collect();
    let timeout = Timespec::try_from(timeout).map_err(io::Error::other)?;
    ready.clear();
    match poll(&mut fds, Some(&timeout)) {
        Ok(_) => {}
        Err(rustix::io::Errno::INTR) => return Ok(()),
        Err(error) => return Err(error.into()),
    }
    // An error on a socket shows in reading it.
    let is_ready = |fd: &PollFd<'_>| !fd.revents().is_empty();
    ready.extend((0..fds.len()).filter(|&at| is_ready(&fds[at])));
    Ok(())
}

/// The standard library cannot wait for several sockets: sleep briefly, then try them all.
#[cfg(not(unix))]
pub(super) fn readable<'a>(
    sockets: impl Iterator<Item = &'a UdpSocket>,
    timeout: Duration,
    ready: &mut Vec<usize>,
) -> io::Result<()> {
    std::thread::sleep(timeout.min(Duration::from_micros(500)));
    ready.clear();
    ready.extend(0..sockets.count());
    Ok(())
}

/// Asks the kernel to wake this thread on time and before the endpoints, where it can be asked.
pub(super) fn ask_for_promptness() {
    #[cfg(target_os = "linux")]
    {
        use crate::tun::promptness::{Rank, ask_for_promptness};

        // Without the permission the relay is later at times, which its report shows.
        let _ = ask_for_promptness(Rank::Link);
    }
}
