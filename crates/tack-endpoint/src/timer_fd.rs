//! A timer that counts in nanoseconds: epoll, and what is built on it, counts in milliseconds, which is
//! too coarse for pacing.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::time::{Duration, Instant};

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

/// A timer descriptor of Linux, which becomes readable when the timer expires.
pub struct TimerFd {
    timer: OwnedFd,
    set_to: Option<Instant>,
}

impl TimerFd {
    /// A timer that is not set.
    pub fn new() -> io::Result<Self> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        Ok(Self { timer: timerfd_create(TimerfdClockId::Monotonic, flags)?, set_to: None })
    }

    /// Sets the time at which it expires, which is later than `now`; `None` disarms it. Setting the time
    /// that is set already costs nothing.
    pub fn set(&mut self, now: Instant, until: Option<Instant>) -> io::Result<()> {
        if self.set_to != until {
            // Zero disarms it, so that a time that has passed is a nanosecond away.
            let after = until.map(|until| until.saturating_duration_since(now));
            self.arm(
                after.map(|after| after.max(Duration::from_nanos(1))).unwrap_or_default(),
            )?;
            self.set_to = until;
        }
        Ok(())
    }

    fn arm(&self, after: Duration) -> io::Result<()> {
        // A deadline that the type cannot hold is set to one decades away.
        let after =
            Timespec::try_from(after).unwrap_or(Timespec { tv_sec: 1 << 30, tv_nsec: 0 });
        let once =
            Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value: after };
        timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &once)?;
        Ok(())
    }
}

impl AsFd for TimerFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.timer.as_fd()
    }
}

impl AsRawFd for TimerFd {
    fn as_raw_fd(&self) -> RawFd {
        self.timer.as_raw_fd()
    }
}
