//! Errors of an emulated link, with advice on how to mend them.

use std::io;

/// Why a link could not be set up or kept going.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The process may not create namespaces and devices.
    #[error(
        "an emulated link between network namespaces needs root (CAP_SYS_ADMIN and \
         CAP_NET_ADMIN): could not {task}; try again with sudo"
    )]
    NeedsRoot {
        /// What was refused.
        task: &'static str,
    },
    /// The kernel offers no TUN devices here.
    #[error(
        "there is no /dev/net/tun: load the module with `modprobe tun`, or give the container \
         the device (`--device /dev/net/tun`)"
    )]
    NoTunDevice,
    /// A step of setting up failed.
    #[error("could not {task}: {source}")]
    Setup {
        /// What failed.
        task: &'static str,
        /// Why.
        source: io::Error,
    },
    /// A kernel parameter of a namespace could not be set.
    #[error("could not set /proc/sys/{name}: {source}; is /proc/sys mounted read-only?")]
    Sysctl {
        /// The parameter.
        name: &'static str,
        /// Why.
        source: io::Error,
    },
    /// Packets could no longer be moved.
    #[error("the emulated link broke: {0}; did something take the device down?")]
    Broken(#[source] io::Error),
    /// The kernel has no such congestion control for TCP.
    #[error(
        "this kernel offers TCP no congestion control {wanted:?}, but {offered}; \
         try `modprobe tcp_{wanted}`"
    )]
    NoSuchCongestionControl {
        /// Its name.
        wanted: &'static str,
        /// What there is, as the kernel lists it.
        offered: String,
    },
    /// The two ends could not talk to each other.
    #[error("TCP over the emulated link failed to {task}: {source}")]
    Tcp {
        /// What failed.
        task: &'static str,
        /// Why.
        source: io::Error,
    },
}

impl Error {
    /// Says what failed; a lack of permission gets advice of its own.
    pub(crate) fn setup(task: &'static str, source: io::Error) -> Self {
        match source.kind() {
            io::ErrorKind::PermissionDenied => Self::NeedsRoot { task },
            _ => Self::Setup { task, source },
        }
    }

    pub(crate) fn tcp(task: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Tcp { task, source }
    }
}
