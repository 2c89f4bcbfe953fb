//! An application protocol over the kernel's TCP, in real time.

use std::io::ErrorKind;
use std::time::{Duration, Instant};

use tack_emulator::tcp::{ConnectionOptions, ConnectionReport, TcpEnd, run_connection};
use tack_emulator::tun;
use tack_link::Time;

use super::{Application, ApplicationError, ByteStream};

/// What a connection came to, beside what its applications know.
#[derive(Clone, Debug)]
pub struct TcpRun {
    /// How often the delayed-ACK timer of client and server sent an acknowledgement.
    pub delayed_acks: [u64; 2],
    /// Reads of client and server, and how many of them with `TCP_QUICKACK` in force.
    pub reads: [(u32, u32); 2],
    /// Packets that the emulator delivered late.
    pub late_packets: u64,
    /// Why the emulator's lateness makes the times worth nothing, if it does.
    pub invalid: Option<String>,
}

/// Why a run over TCP failed.
#[derive(Debug, thiserror::Error)]
pub enum TcpError {
    /// There is no link between namespaces here.
    #[error(transparent)]
    Emulator(#[from] tun::Error),
    /// One end gave up.
    #[error(transparent)]
    Application(#[from] ApplicationError),
    /// A socket failed.
    #[error("a socket of an end failed: {0}")]
    Socket(#[from] std::io::Error),
    /// The client had not finished when time was up, or the other end had gone.
    #[error("not finished after {0:?}")]
    Unfinished(Duration),
}

impl TcpError {
    /// Whether this machine, or this user, cannot emulate links at all; says why.
    pub fn is_unavailable(&self) -> bool {
        matches!(self, Self::Emulator(tun::Error::NeedsRoot { .. } | tun::Error::NoTunDevice))
    }
}

/// How often an end looks whether its data is acknowledged, which no call tells.
const DRAIN_POLL: Duration = Duration::from_micros(500);

/// The longest that an end sleeps.
const TICK: Duration = Duration::from_millis(50);

/// Runs a protocol over a connection until its client has finished.
pub fn run(
    options: ConnectionOptions,
    client: &mut (dyn Application + Send),
    server: &mut (dyn Application + Send),
    limit: Duration,
) -> Result<TcpRun, TcpError> {
    let start = Instant::now();
    let report = run_connection(
        options,
        |end| drive(end, client, (start, limit), true),
        |end| drive(end, server, (start, limit), false),
    )?;
    let ConnectionReport { client: client_reads, server: server_reads, .. } = report;
    // A server that failed says why; its client only that nothing came any more.
    let server_reads = server_reads?;
    let client_reads = client_reads?;
    if !client.is_finished() {
        return Err(TcpError::Unfinished(start.elapsed()));
    }
    Ok(TcpRun {
        delayed_acks: report.delayed_acks,
        reads: [client_reads, server_reads],
        late_packets: report.punctuality.deadline_misses,
        invalid: report.punctuality.invalid,
    })
}

/// Lets one end work until the other has gone, time is up, or, `until_finished`, it has nothing more to do.
/// Returns its reads.
fn drive(
    end: TcpEnd,
    application: &mut (dyn Application + Send),
    (start, limit): (Instant, Duration),
    until_finished: bool,
) -> Result<(u32, u32), TcpError> {
    let mut stream =
        TcpStream { end, is_over: false, is_full: false, waits: false, error: None };
    loop {
        let now = Time::from(start.elapsed());
        (stream.is_full, stream.waits) = (false, false);
        application.turn(&mut stream, now)?;
        if let Some(error) = stream.error.take() {
            return Err(error.into());
        }
        let is_finished = until_finished && application.is_finished();
        if is_finished || stream.is_over || start.elapsed() >= limit {
            return Ok(stream.end.reads());
        }
        let now = Time::from(start.elapsed());
        let due = application.next_event().map_or(TICK, |at| at.since(now));
        let most = if stream.waits { DRAIN_POLL } else { TICK };
        stream.end.wait(stream.is_full, due.min(most))?;
    }
}

/// The socket of an end.
struct TcpStream {
    end: TcpEnd,
    /// The other end will send nothing more.
    is_over: bool,
    /// It took less than was written.
    is_full: bool,
    /// The application asked for acknowledgements that are not there.
    waits: bool,
    error: Option<std::io::Error>,
}

impl ByteStream for TcpStream {
    fn is_open(&mut self) -> bool {
        true
    }

    fn read(&mut self, out: &mut [u8]) -> usize {
        if out.is_empty() {
            return 0;
        }
        match self.end.read(out) {
            Ok(0) => self.is_over = true,
            Ok(count) => return count,
            Err(error) => self.on_error(error),
        }
        0
    }

    fn write(&mut self, bytes: &[u8]) -> usize {
        match self.end.write(bytes) {
            Ok(count) => {
                self.is_full = count < bytes.len();
                count
            }
            Err(error) => {
                self.is_full = true;
                self.on_error(error);
                0
            }
        }
    }

    fn is_drained(&mut self) -> Option<bool> {
        match self.end.unacknowledged() {
            Ok(bytes) => {
                self.waits = bytes > 0;
                Some(bytes == 0)
            }
            Err(error) => {
                self.error = Some(error);
                Some(false)
            }
        }
    }
}

impl TcpStream {
    fn on_error(&mut self, error: std::io::Error) {
        match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::Interrupted => {}
            // The other end has what it needs, or its error says more.
            ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => self.is_over = true,
            _ => self.error = Some(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lack_of_privileges_is_no_failure_of_a_run_and_says_what_is_missing() {
        let error =
            TcpError::from(tun::Error::NeedsRoot { task: "create a network namespace" });
        assert!(error.is_unavailable() && error.to_string().contains("root"), "{error}");
        assert!(TcpError::from(tun::Error::NoTunDevice).is_unavailable());
        assert!(!TcpError::Unfinished(Duration::from_secs(1)).is_unavailable());
    }
}
