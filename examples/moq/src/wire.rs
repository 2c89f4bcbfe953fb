//! The emulated link between the two ends, with a tap that counts what acknowledges.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result};
use tack_emulator::relay::{Datagram, Observer, Relay};
use tack_link::spec::{LinkSpec, PathSpec};
use tack_tap::{Direction, KeyLog, Tap, TapCounters};

/// What is read of a key log at a time; a connection writes some 1.5 kB.
const CHUNK: usize = 4096;
/// What is read of it at most.
const MOST_KEY_LOG: usize = 1 << 20;

/// The link, and the path behind it.
#[derive(Clone, Debug, serde::Serialize, clap::Args)]
pub struct Path {
    /// The link: b, g, n, ac, pipe:MBIT or a TOML file
    #[arg(long, default_value = "n")]
    pub link: String,
    /// Round-trip propagation delay besides the link's own, ms
    #[arg(long, default_value_t = 40.0)]
    pub rtt: f64,
    /// Probability from 0 to 1 that a packet of the publisher is lost behind the link
    #[arg(long, default_value_t = 0.01)]
    pub loss: f64,
    /// The same for packets of the subscriber, which are acknowledgements but for its subscription
    #[arg(long, default_value_t = 0.0)]
    pub ack_loss: f64,
    /// Seed of what the link draws
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

/// What passed the link.
#[derive(Clone, Copy, Debug, serde::Serialize)]
pub struct Passed {
    /// Of the publisher.
    pub to_subscriber: TapCounters,
    /// Of the subscriber.
    pub to_publisher: TapCounters,
    /// Datagrams that left the link more than 5 ms late: then the machine is too busy.
    pub late: u64,
}

/// A link that is running.
pub struct Wire(Relay<Tapped>);

impl Wire {
    /// Puts a link in front of a publisher that appends its TLS secrets to a file.
    pub fn start(publisher: SocketAddr, path: &Path, key_log: PathBuf) -> Result<Self> {
        let rtt = Duration::try_from_secs_f64(path.rtt / 1e3).context("--rtt")?;
        let spec = PathSpec { rtt, loss_forward: path.loss, loss_reverse: path.ack_loss };
        let link = LinkSpec::resolve(&path.link)?.build(&spec, path.seed)?;
        let relay = Relay::start_observed(publisher, link, Tapped::new(key_log))?;
        Ok(Self(relay))
    }

    /// The address that the subscriber connects to.
    pub fn address(&self) -> SocketAddr {
        self.0.address()
    }

    /// Stops the link.
    pub fn stop(self) -> Result<Passed> {
        let report = self.0.stop().context("running the link")?;
        Ok(Passed {
            to_subscriber: *report.observer.tap.counters(Direction::ToClient),
            to_publisher: *report.observer.tap.counters(Direction::ToServer),
            late: report.deadline_misses,
        })
    }
}

/// A tap that reads the key log as it grows.
struct Tapped {
    path: PathBuf,
    file: Option<File>,
    read: usize,
    key_log: KeyLog,
    tap: Tap,
}

impl Tapped {
    fn new(path: PathBuf) -> Self {
        let key_log = KeyLog::new();
        Self { path, file: None, read: 0, tap: Tap::new(key_log.clone()), key_log }
    }

    fn follow_file(&mut self) {
        if self.file.is_none() {
            self.file = File::open(&self.path).ok();
        }
        let mut chunk = [0; CHUNK];
        while self.read < MOST_KEY_LOG
            && let Some(file) = &mut self.file
            && let Ok(len @ 1..) = file.read(&mut chunk)
        {
            self.read += len;
            // It is memory, and takes everything.
            let _ = self.key_log.write_all(&chunk[..len]);
        }
    }
}

impl Observer for Tapped {
    fn datagram(&mut self, datagram: &Datagram<'_>) {
        let opened = |direction| self.tap.counters(direction).packets > 0;
        if !opened(Direction::ToClient) || !opened(Direction::ToServer) {
            self.follow_file();
        }
        let direction = match datagram.direction {
            tack_link::Direction::Forward => Direction::ToClient,
            tack_link::Direction::Reverse => Direction::ToServer,
        };
        self.tap.datagram(direction, datagram.bytes);
    }
}
