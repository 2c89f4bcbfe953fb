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
    /// It does not count, or this machine has no such link, for this reason.
    Skipped(String),
}

impl KernelRun {
    /// What a run comes to whose packets the emulator may have delivered too late.
    fn of(run: TcpRun) -> Self {
        match &run.invalid {
            Some(reason) => Self::Skipped(format!("Kernel TCP does not count: {reason}.")),
            None => Self::Done(run),
        }
    }
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
            Ok(run) => Ok(KernelRun::of(run)),
            Err(reason) if reason.is_unavailable() => {
                Ok(KernelRun::Skipped(format!("Kernel TCP was skipped: {reason}.")))
            }
            Err(reason) => Err(Error::Tcp { cell: cell.to_owned(), reason: Box::new(reason) }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_on_a_machine_that_delivered_too_late_does_not_count() {
        let run = |invalid: Option<&str>| TcpRun {
            delayed_acks: [0; 2],
            reads: [(0, 0); 2],
            late_packets: 9,
            invalid: invalid.map(str::to_owned),
        };
        assert!(matches!(KernelRun::of(run(None)), KernelRun::Done(_)));
        let KernelRun::Skipped(reason) = KernelRun::of(run(Some("9 packets late"))) else {
            panic!("a run that came too late counts");
        };
        assert!(reason.contains("9 packets late"), "{reason}");
    }
}
