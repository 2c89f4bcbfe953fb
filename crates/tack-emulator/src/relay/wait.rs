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

/// Asks that the timeouts of this thread end when they should. Linux lets them end up to 50 µs
/// late otherwise, to wake the processor less often.
pub(super) fn ask_for_exact_timers() {
    #[cfg(target_os = "linux")]
    {
        // Refused, it makes timeouts less exact, which the relay's report shows.
        let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
    }
}
