//! Network namespaces without a name.
//!
//! Nothing in /run/netns refers to them, so the kernel removes a namespace, and the devices in
//! it, with the last process, socket or descriptor that holds it, however that one ended.

mod loopback;

use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::{panic, thread};

use nix::sched::{CloneFlags, unshare};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::error::Error;

/// A namespace in which nothing but the loopback device exists, and which speaks IPv4 only.
pub(crate) struct Namespace {
    handle: File,
}

impl Namespace {
    pub(crate) fn new() -> Result<Self, Error> {
        let handle = on_another_thread(|| {
            // A thread that leaves its namespace is alone in that; the process stays.
            unshare(CloneFlags::CLONE_NEWNET)
                .map_err(|errno| Error::setup("create a network namespace", errno.into()))?;
            keep_to_ipv4().map_err(|error| Error::setup("turn off IPv6", error))?;
            set_sysctl("net/ipv4/ip_forward", "0")?;
            loopback::bring_up().map_err(|error| Error::setup("bring up lo", error))?;
            File::open("/proc/thread-self/ns/net")
                .map_err(|error| Error::setup("open the new network namespace", error))
        })?;
        Ok(Self { handle })
    }

    /// Runs `work` on a thread of its own inside the namespace. Sockets made there, devices
    /// opened and processes started there belong to the namespace and stay in it.
    pub(crate) fn run<T: Send>(
        &self,
        work: impl FnOnce() -> Result<T, Error> + Send,
    ) -> Result<T, Error> {
        on_another_thread(|| {
            let network = Some(LinkNameSpaceType::Network);
            move_into_link_name_space(self.handle.as_fd(), network)
                .map_err(|errno| Error::setup("enter a network namespace", errno.into()))?;
            work()
        })
    }
}

/// Sets a kernel parameter of the namespace that the calling thread is in.
pub(crate) fn set_sysctl(name: &'static str, value: &str) -> Result<(), Error> {
    fs::write(Path::new("/proc/sys").join(name), value)
        .map_err(|source| Error::Sysctl { name, source })
}

/// Router solicitations and other packets of the kernel itself would disturb the link.
fn keep_to_ipv4() -> io::Result<()> {
    for scope in ["all", "default"] {
        match fs::write(format!("/proc/sys/net/ipv6/conf/{scope}/disable_ipv6"), "1") {
            // A kernel without IPv6.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            outcome => outcome?,
        }
    }
    Ok(())
}

/// Threads that changed their namespace must not do anything else afterwards.
fn on_another_thread<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| match scope.spawn(work).join() {
        Ok(value) => value,
        Err(cause) => panic::resume_unwind(cause),
    })
}
