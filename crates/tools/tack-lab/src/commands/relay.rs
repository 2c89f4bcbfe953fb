//! `tack-lab relay` and `tack-lab tap`: a link, or a tap alone, between programs of others.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use nix::sys::signal::{SigSet, Signal};
use serde::Serialize;
use tack_emulator::relay::{Datagram, LaneCounters, Observer, Relay, RelayReport};
use tack_link::spec::{LinkSpec, PathSpec};
use tack_tap::{KeyLog, Tap, TapCounters};

use crate::output;
use crate::report::Table;
use crate::versions::Versions;

/// What is read of a key log at a time; a connection writes some 1.5 kB.
const CHUNK: usize = 4096;

/// What is read of it at most: one that never names the secrets is not followed for ever.
const MOST_KEY_LOG: usize = 1 << 20;

/// A link between a client and a server on this machine, in real time.
///
/// The first line on standard output is the address that the client is to be given instead of the
/// server's. Ctrl-C or --seconds ends it, and prints what became of the datagrams. With --key-log the
/// frames of the first connection are counted as well.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Example:\n  \
    SSLKEYLOGFILE=keys.log some-client … & \n  \
    tack-lab relay --to 127.0.0.1:4433 --link n --rtt 40 --key-log keys.log")]
pub struct Args {
    #[command(flatten)]
    common: Common,
    /// The link: b, g, n, ac, pipe:MBIT, pipe:DOWN/UP or a TOML file
    #[arg(long, value_name = "SPEC", default_value = "n")]
    link: String,
    /// Round-trip propagation delay besides the link's own: by default 40 ms, and 0 for a link from a
    /// file
    #[arg(long, value_name = "MS")]
    rtt: Option<f64>,
    /// Probability from 0 to 1 that a packet of the server is lost, behind the link
    #[arg(long, value_name = "P", default_value_t = 0.0)]
    loss_data: f64,
    /// Probability from 0 to 1 that a packet of the client is lost, before the link
    #[arg(long, value_name = "P", default_value_t = 0.0)]
    loss_ack: f64,
    /// Seed of what the link draws
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Counts the frames between a client and a server on this machine, by the key log of one of them.
///
/// The first line on standard output is the address that the client is to be given instead of the
/// server's; nothing is delayed or lost. The first connection is followed.
#[derive(Clone, Debug, clap::Args)]
pub struct TapArgs {
    #[command(flatten)]
    common: Common,
}

#[derive(Clone, Debug, clap::Args)]
struct Common {
    /// The server, an address of this machine
    #[arg(long, value_name = "ADDRESS")]
    to: SocketAddr,
    /// The file that one of the two programs appends TLS secrets to (SSLKEYLOGFILE); it may be made later
    #[arg(long, value_name = "FILE")]
    key_log: Option<PathBuf>,
    /// Ends after that time; without it at SIGINT or SIGTERM
    #[arg(long, value_name = "S")]
    seconds: Option<f64>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs `relay`.
pub fn run(args: &Args) -> Result<ExitCode> {
    let spec = LinkSpec::resolve(&args.link)?;
    let rtt = match args.rtt {
        None => spec.default_rtt(),
        Some(ms) if (0.0..=60e3).contains(&ms) => Duration::from_secs_f64(ms / 1e3),
        Some(ms) => bail!("--rtt {ms}: 0 to 60000 ms"),
    };
    let path = PathSpec { rtt, loss_forward: args.loss_data, loss_reverse: args.loss_ack };
    let parameters = Parameters {
        link_spec: spec,
        rtt: rtt.as_secs_f64() * 1e3,
        loss_data: args.loss_data,
        loss_ack: args.loss_ack,
        seed: args.seed,
    };
    let link = parameters.link_spec.build(&path, args.seed)?;
    let start = |observer| Relay::start_observed(args.common.to, link, observer);
    relay(&args.common, Some(parameters), start)
}

/// Runs `tap`.
pub fn run_tap(args: &TapArgs) -> Result<ExitCode> {
    if args.common.key_log.is_none() {
        bail!("--key-log FILE is needed: without the secrets no frame can be counted");
    }
    relay(&args.common, None, |observer| Relay::start_wire(args.common.to, observer))
}

fn relay(
    common: &Common,
    parameters: Option<Parameters>,
    start: impl FnOnce(Tapped) -> io::Result<Relay<Tapped>>,
) -> Result<ExitCode> {
    if !common.to.ip().is_loopback() {
        bail!("--to {}: only servers on this machine, at a loopback address", common.to);
    }
    let lasts = match common.seconds {
        Some(seconds) if seconds > 0.0 && seconds <= 1e6 => {
            Some(Duration::from_secs_f64(seconds))
        }
        Some(seconds) => bail!("--seconds {seconds}: above 0 and up to 1000000"),
        None => None,
    };
    let ended = signals()?;
    let relay = start(Tapped::new(common.key_log.clone())).context("starting the relay")?;
    output::text(&relay.address().to_string())?;
    // A sender that is gone cannot say anything any more: then the relay goes on until it is killed.
    match lasts {
        Some(lasts) => match ended.recv_timeout(lasts) {
            Ok(()) | Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => thread::sleep(lasts),
        },
        None => ended.recv().context("waiting for a signal")?,
    }
    let report = relay.stop().context("running the relay")?;
    let report = Report::of(&report, parameters);
    if common.json {
        output::json(&report)?;
    } else {
        output::text(&report.table())?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Tells when SIGINT or SIGTERM comes. To be called before other threads are started.
fn signals() -> Result<mpsc::Receiver<()>> {
    let mut signals = SigSet::empty();
    signals.add(Signal::SIGINT);
    signals.add(Signal::SIGTERM);
    signals.thread_block().context("blocking signals")?;
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        if signals.wait().is_ok() {
            // The command may have ended by itself.
            let _ = sender.send(());
        }
        // The second one ends the process.
        let _ = signals.thread_unblock();
        loop {
            thread::park();
        }
    });
    Ok(receiver)
}

/// A tap that reads the key log as it grows.
struct Tapped {
    path: Option<PathBuf>,
    file: Option<File>,
    key_log: KeyLog,
    /// What has been read of the file.
    read: usize,
    tap: Tap,
}

impl Tapped {
    fn new(path: Option<PathBuf>) -> Self {
        let key_log = KeyLog::new();
        Self { path, file: None, tap: Tap::new(key_log.clone()), key_log, read: 0 }
    }

    /// Reads what the file has got since. A connection writes its secrets before it uses them.
    fn follow_file(&mut self) {
        let Some(path) = self.path.as_ref().filter(|_| self.read < MOST_KEY_LOG) else {
            return;
        };
        if self.file.is_none() {
            self.file = File::open(path).ok();
        }
        let mut chunk = [0; CHUNK];
        while let Some(file) = &mut self.file
            && let Ok(len @ 1..) = file.read(&mut chunk)
        {
            self.read += len;
            // It is memory, and takes everything.
            let _ = self.key_log.write_all(&chunk[..len]);
        }
    }

    fn is_decrypting(&self) -> bool {
        let opened = |direction| self.tap.counters(direction).packets > 0;
        opened(tack_tap::Direction::ToClient) && opened(tack_tap::Direction::ToServer)
    }
}

impl Observer for Tapped {
    fn datagram(&mut self, datagram: &Datagram<'_>) {
        if !self.is_decrypting() {
            self.follow_file();
        }
        let direction = match datagram.direction {
            tack_link::Direction::Forward => tack_tap::Direction::ToClient,
            tack_link::Direction::Reverse => tack_tap::Direction::ToServer,
        };
        self.tap.datagram(direction, datagram.bytes);
    }
}

/// What became of the datagrams, and what was in them.
#[derive(Serialize)]
struct Report {
    to_client: Lane,
    to_server: Lane,
    deadline_misses: u64,
    worst_lateness_ms: f64,
    /// `None` where nothing but the observer is between the ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    parameters: Option<Parameters>,
    versions: Versions,
}

/// Everything that it takes to run it again, defaults filled in.
#[derive(Serialize)]
struct Parameters {
    link_spec: LinkSpec,
    rtt: f64,
    loss_data: f64,
    loss_ack: f64,
    seed: u64,
}

#[derive(Serialize)]
struct Lane {
    datagrams: LaneCounters,
    /// `None` without a key log.
    #[serde(skip_serializing_if = "Option::is_none")]
    frames: Option<TapCounters>,
}

impl Report {
    fn of(report: &RelayReport<Tapped>, parameters: Option<Parameters>) -> Self {
        let tapped = &report.observer;
        let frames = |direction| tapped.path.as_ref().map(|_| *tapped.tap.counters(direction));
        Self {
            to_client: Lane {
                datagrams: report.forward,
                frames: frames(tack_tap::Direction::ToClient),
            },
            to_server: Lane {
                datagrams: report.reverse,
                frames: frames(tack_tap::Direction::ToServer),
            },
            deadline_misses: report.deadline_misses,
            worst_lateness_ms: report.worst_lateness.as_secs_f64() * 1e3,
            parameters,
            versions: Versions::of_this_build(),
        }
    }

    fn table(&self) -> String {
        let mut table = Table::new("What passed")
            .text("direction", "direction")
            .number("datagrams", "datagrams", "", 0)
            .number("bytes", "bytes", "", 0)
            .number("lost", "lost", "", 0)
            .number("too_long", "too long", "", 0)
            .number("packets", "1-RTT opened", "", 0)
            .number("ack_packets", "ACK only", "", 0)
            .number("acks", "ACKs", "", 0)
            .number("tacks", "TACKs", "", 0)
            .number("iacks", "IACKs", "", 0)
            .number("stream_bytes", "stream bytes", "", 0)
            .number("resent", "sent again", "", 0);
        for (name, lane) in
            [("to the client", &self.to_client), ("to the server", &self.to_server)]
        {
            let frames = lane.frames.as_ref();
            let count = |of: fn(&TapCounters) -> u64| frames.map(of);
            table.row([
                name.into(),
                lane.datagrams.packets.into(),
                lane.datagrams.bytes.into(),
                lane.datagrams.losses.total().into(),
                lane.datagrams.too_large.into(),
                count(|frames| frames.packets).into(),
                count(|frames| frames.ack_packets).into(),
                count(|frames| frames.ack_frames).into(),
                count(|frames| frames.tacks).into(),
                count(|frames| frames.iacks).into(),
                count(|frames| frames.stream_bytes).into(),
                count(|frames| frames.retransmitted_stream_bytes).into(),
            ]);
        }
        let late = if self.deadline_misses == 0 {
            String::new()
        } else {
            format!(
                "\n{} datagrams left more than 5 ms late, the worst by {:.1} ms: the machine is too \
                 busy for this link.",
                self.deadline_misses, self.worst_lateness_ms
            )
        };
        format!("{table}{late}")
    }
}
