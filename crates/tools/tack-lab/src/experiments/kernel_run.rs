//! An application protocol over the kernel's TCP, where this machine can emulate a link for it.

use std::time::Duration;

use tack_emulator::tcp::{Congestion, ConnectionOptions, SocketOptions};
use tack_link::PathSpec;

use super::Error;
use super::protocol_run::Route;
use crate::application::Application;
use crate::application::kernel_tcp::{self, TcpRun};

/// What became of a run.
pub(super) enum KernelRun {
    /// It counts.
    Done(TcpRun),
    /// There is no such link here, for this reason.
    Skipped(String),
}

impl Route {
    /// Runs a protocol over a connection of the kernel's CUBIC, in real time.
    pub(super) fn run_tcp(
        self,
        cell: &str,
        [of_client, of_server]: [SocketOptions; 2],
        (seed, limit): (u64, Duration),
        client: &mut (dyn Application + Send),
        server: &mut (dyn Application + Send),
    ) -> Result<KernelRun, Error> {
        let link = self.link()?.build(&PathSpec::with_rtt(self.rtt), seed)?;
        let options = ConnectionOptions {
            link,
            congestion: Congestion::Cubic,
            client: of_client,
            server: of_server,
        };
        match kernel_tcp::run(options, client, server, limit) {
            Ok(run) => Ok(KernelRun::Done(run)),
            Err(reason) if reason.is_unavailable() => {
                Ok(KernelRun::Skipped(format!("Kernel TCP was skipped: {reason}.")))
            }
            Err(reason) => Err(Error::Tcp { cell: cell.to_owned(), reason: Box::new(reason) }),
        }
    }
}
