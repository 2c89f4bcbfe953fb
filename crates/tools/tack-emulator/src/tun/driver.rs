//! The loop that moves packets between the devices, with the link in between.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;
use tack_link::{Direction, Link, Packet, Time};

use super::device::Device;
use super::observer::Observer;
use super::promptness::{Rank, ask_for_promptness};
use super::punctuality::Punctuality;
use crate::MTU;

/// How many packets to read from one device before looking at the other and at the clock.
const BATCH: usize = 32;

/// Tells a driver to stop, also while it sleeps.
#[derive(Clone)]
pub(super) struct StopSignal(Arc<(AtomicBool, OwnedFd)>);

impl StopSignal {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self(Arc::new((AtomicBool::new(false), eventfd(0, EventfdFlags::CLOEXEC)?))))
    }

    pub(super) fn raise(&self) {
        self.0.0.store(true, Ordering::Release);
        // Fails only when the counter is full, and then the driver is awake.
        let _ = rustix::io::write(&self.0.1, &1_u64.to_ne_bytes());
    }

    fn is_raised(&self) -> bool {
        self.0.0.load(Ordering::Acquire)
    }
}

pub(super) struct Driver<O> {
    pub(super) link: Box<dyn Link + Send>,
    /// The device that packets of a direction are read from.
    pub(super) devices: [Device; 2],
    pub(super) observer: O,
    pub(super) punctuality: Punctuality,
    pub(super) stop: StopSignal,
    pub(super) start: Instant,
}

impl<O: Observer> Driver<O> {
    /// Moves packets until told to stop.
    pub(super) fn run(mut self) -> io::Result<Self> {
        self.punctuality.set_real_time(ask_for_promptness(Rank::Link));
        let mut buffer = [0; MTU as usize];
        let mut readable = [true; 2];
        while !self.stop.is_raised() {
            for direction in Direction::ALL {
                if readable[direction.index()] {
                    readable[direction.index()] = self.take_in(direction, &mut buffer)?;
                }
            }
            self.deliver(self.now())?;
            if readable == [false; 2] {
                readable = self.sleep()?;
            }
        }
        let drops = self.devices[0].drops()? + self.devices[1].drops()?;
        self.punctuality.set_drops(drops);
        Ok(self)
    }

    fn now(&self) -> Time {
        Time::from(self.start.elapsed())
    }

    /// Puts what one end sends onto the link; false when it has no more.
    fn take_in(&mut self, direction: Direction, buffer: &mut [u8]) -> io::Result<bool> {
        for _ in 0..BATCH {
            let Some(length) = self.devices[direction.index()].read(buffer)? else {
                return Ok(false);
            };
            let bytes = &buffer[..length];
            if bytes.first().is_none_or(|first| first >> 4 != 4) {
                continue; // not IPv4
            }
            // The link sees a packet when it is read, not when the driver woke up for it, and
            // only after what has happened on the link until then.
            let now = self.now();
            self.deliver(now)?;
            let size = u32::try_from(length).unwrap_or(u32::MAX);
            let packet = Packet::new(size, 0, now, bytes.to_vec());
            self.observer.sent(direction, &packet);
            self.link.send(direction, packet, now);
        }
        Ok(true)
    }

    /// Hands over everything that has arrived at `now`.
    fn deliver(&mut self, now: Time) -> io::Result<()> {
        if self.link.next_event().is_none_or(|at| at > now) {
            return Ok(());
        }
        while let Some(arrival) = self.link.arrival(now) {
            // Writing one takes a few microseconds, so those behind it are later.
            self.punctuality.record(self.now().since(arrival.at));
            self.observer.arrived(&arrival);
            let far_end = arrival.direction.opposite().index();
            self.devices[far_end].write(&arrival.packet.bytes)?;
        }
        Ok(())
    }

    /// Waits for a packet or for the link; says which devices have something to read.
    fn sleep(&self) -> io::Result<[bool; 2]> {
        let timeout = self
            .link
            .next_event()
            .map(|at| Timespec::try_from(at.since(self.now())))
            .transpose()
            .map_err(io::Error::other)?;
        let [first, second] = &self.devices;
        let mut ready = [first.as_fd(), second.as_fd(), self.stop.0.1.as_fd()]
            .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
        match poll(&mut ready, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        // An error on a device shows in reading it.
        Ok([!ready[0].revents().is_empty(), !ready[1].revents().is_empty()])
    }
}
