//! `video demo`: sender, link and player in one process, with TACK and without.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use tack_emulator::relay::Relay;
use tack_endpoint::{Endpoint, EndpointConfig};
use tack_link::PathSpec;
use tacklib::Profile;

use crate::output::Output;
use crate::player::PlayOptions;
use crate::report::PlayerReport;
use crate::serve::Server;
use crate::session::SendOptions;
use crate::source::Source;
use crate::trace::RateTrace;
use crate::transport;
use crate::watch::{WatchOptions, watch};

/// What is shown.
#[derive(Clone, Debug)]
pub struct DemoOptions {
    /// The rate of the link.
    pub trace: RateTrace,
    /// Round-trip propagation delay.
    pub rtt: Duration,
    /// How frames are sent.
    pub send: SendOptions,
    /// How long frames are held at least before they are shown.
    pub delay: Duration,
    /// Where each player writes what it plays.
    pub out: Option<PathBuf>,
    /// Seed of what the link draws.
    pub seed: u64,
}

/// The two runs: the name that is printed, that of its file, and the profile of both ends.
const RUNS: [(&str, &str, Profile); 2] =
    [("TACK", "tack.mp4", Profile::Video), ("plain QUIC", "plain.mp4", Profile::Off)];

/// Plays the same media over the same link twice at the same time: with TACK, and with quiche's own
/// acknowledgements and congestion control. What each player has counted.
pub fn run(
    options: &DemoOptions,
    open: &(dyn Fn() -> Result<Source> + Sync),
) -> Result<Vec<(&'static str, PlayerReport)>> {
    thread::scope(|scope| {
        let running = RUNS.map(|(name, file, profile)| {
            let out = options.out.as_ref().map(|directory| directory.join(file));
            (name, scope.spawn(move || one(options, profile, out.as_deref(), open)))
        });
        let mut reports = Vec::new();
        for (name, run) in running {
            let report = run.join().map_err(|_| anyhow!("the run of {name} panicked"))?;
            reports.push((name, report.with_context(|| format!("the run of {name}"))?));
        }
        Ok(reports)
    })
}

fn one(
    options: &DemoOptions,
    profile: Profile,
    out: Option<&Path>,
    open: &(dyn Fn() -> Result<Source> + Sync),
) -> Result<PlayerReport> {
    let local = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let config = transport::sender(profile, None)?;
    let endpoint = Endpoint::server(local, config, EndpointConfig::default())?;
    let path = PathSpec::with_rtt(options.rtt);
    let link = options.trace.link()?.build(&path, options.seed)?;
    let relay = Relay::start(endpoint.local_addr(), link).context("starting the link")?;
    let output = out.map(Output::file).transpose()?;
    let play = PlayOptions { waits: options.send.lifetime.is_none(), delay: options.delay };
    let options_of_player =
        WatchOptions { server: relay.address(), name: "localhost", play, longest: None };
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let serving = scope.spawn(|| {
            let mut open = || open();
            Server::new(endpoint, options.send, &mut open).run(true, &stop)
        });
        let played = transport::player(profile, None)
            .and_then(|config| watch(options_of_player, config, output));
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        let served = serving.join().map_err(|_| anyhow!("the sender panicked"))?;
        let mut report = played?;
        // What the sender counts at the end of the connection is more than it could tell the player.
        if let Some(last) = served?.pop() {
            report.sender = Some(last);
        }
        Ok(report)
    })
}
