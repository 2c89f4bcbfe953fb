//! A link between two network namespaces.
//!
//! Each namespace has one TUN device and `lo`, and one route: to the other end. What is sent
//! there goes through the link, and nowhere else. Everything vanishes with the [`Emulator`], or
//! with its process, however that ends.
//!
//! Needs Linux, root, and /dev/net/tun.

mod commands;
mod device;
mod driver;
mod init;
mod observer;
pub(crate) mod promptness;
mod punctuality;

use std::net::Ipv4Addr;
use std::thread::{self, JoinHandle};
use std::time::Instant;
use std::{io, panic};

use tack_link::Link;

pub use commands::{
    CommandOptions, CommandsReport, LOCAL_VARIABLE, PEER_VARIABLE, Until, run_commands,
};
pub use init::init;
pub use observer::Observer;
pub use punctuality::{LATE_SHARE_ALLOWED, Punctuality, PunctualitySummary, TOLERANCE};

pub use crate::error::Error;
use crate::netns::{Namespace, set_sysctl};
use device::Device;
use driver::{Driver, StopSignal};

/// One of the two ends of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Where packets going forward are sent.
    A,
    /// Where packets going forward arrive.
    B,
}

impl End {
    /// Both.
    pub const ALL: [Self; 2] = [Self::A, Self::B];

    /// The IPv4 address of this end, out of the range for benchmarks of RFC 2544: no network
    /// that the machine is connected to uses it.
    pub const fn address(self) -> Ipv4Addr {
        match self {
            Self::A => Ipv4Addr::new(198, 18, 0, 1),
            Self::B => Ipv4Addr::new(198, 18, 0, 2),
        }
    }

    /// The other one.
    #[must_use]
    pub const fn peer(self) -> Self {
        match self {
            Self::A => Self::B,
            Self::B => Self::A,
        }
    }

    /// A place in an array with one element for each end.
    pub const fn index(self) -> usize {
        match self {
            Self::A => 0,
            Self::B => 1,
        }
    }
}

/// A link in operation.
pub struct Emulator<O> {
    namespaces: [Namespace; 2],
    stop: StopSignal,
    /// `None` once joined.
    driver: Option<JoinHandle<io::Result<Driver<O>>>>,
}

impl<O: Observer> Emulator<O> {
    /// Creates the namespaces and devices and starts to move packets.
    pub fn start(link: Box<dyn Link + Send>, observer: O) -> Result<Self, Error> {
        let namespaces = [Namespace::new()?, Namespace::new()?];
        let open = |end: End| {
            let address = (end.address(), end.peer().address());
            namespaces[end.index()].run(|| Device::open(address.0, address.1))
        };
        let devices = [open(End::A)?, open(End::B)?];
        let stop = StopSignal::new()
            .map_err(|error| Error::setup("create an event descriptor", error))?;
        let punctuality = Punctuality::new()
            .map_err(|error| Error::setup("create a histogram", io::Error::other(error)))?;
        let driver = Driver {
            link,
            devices,
            observer,
            punctuality,
            stop: stop.clone(),
            start: Instant::now(),
        };
        let driver = thread::Builder::new()
            .name("link".to_owned())
            .spawn(move || driver.run())
            .map_err(|error| Error::setup("start a thread", error))?;
        Ok(Self { namespaces, stop, driver: Some(driver) })
    }

    /// Runs `work` on a thread of its own in the namespace of one end. Sockets created and
    /// processes started there stay in the namespace; the sockets can be used from anywhere.
    pub fn run_at<T: Send>(
        &self,
        end: End,
        work: impl FnOnce() -> Result<T, Error> + Send,
    ) -> Result<T, Error> {
        self.namespaces[end.index()].run(work)
    }

    /// Sets a kernel parameter in the namespaces of both ends.
    pub(crate) fn set_sysctl(&self, name: &'static str, value: &str) -> Result<(), Error> {
        self.namespaces
            .iter()
            .try_for_each(|namespace| namespace.run(|| set_sysctl(name, value)))
    }

    /// Whether packets are moved; false when the link broke, and [`stop`](Self::stop) says why.
    pub fn is_running(&self) -> bool {
        self.driver.as_ref().is_some_and(|driver| !driver.is_finished())
    }

    /// Stops moving packets and takes the devices down.
    pub fn stop(mut self) -> Result<Record<O>, Error> {
        self.stop.raise();
        let Some(driver) = self.driver.take() else {
            return Err(Error::Broken(io::Error::other("the driver is gone")));
        };
        match driver.join() {
            Ok(Ok(driver)) => Ok(Record {
                link: driver.link,
                observer: driver.observer,
                punctuality: driver.punctuality,
            }),
            Ok(Err(error)) => Err(Error::Broken(error)),
            Err(cause) => panic::resume_unwind(cause),
        }
    }
}

impl<O> Drop for Emulator<O> {
    fn drop(&mut self) {
        if let Some(driver) = self.driver.take() {
            self.stop.raise();
            // The devices are down when the driver has ended; its own troubles end with it.
            let _ = driver.join();
        }
    }
}

/// The report of a link that has stopped.
pub struct Record<O> {
    /// The link, for its losses.
    pub link: Box<dyn Link + Send>,
    /// The observer.
    pub observer: O,
    /// Whether the driver kept up.
    pub punctuality: Punctuality,
}
