//! What the commands do.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use tack_endpoint::{Endpoint, EndpointConfig};
use tempfile::TempDir;

use super::{
    Cli, Command, DelayArgs, DemoArgs, HttpArgs, IdentityArgs, MakeArgs, MediaArgs, PlayArgs,
    SendArgs, TraceArgs, WebArgs,
};
use crate::browser::{self, PageCertificate};
use crate::demo::{self, DemoOptions};
use crate::ffmpeg::{self, MakeOptions};
use crate::http3::{self, HttpServer, Site};
use crate::output::Output;
use crate::player::PlayOptions;
use crate::report::{self, PlayerReport};
use crate::serve::Server;
use crate::session::SendOptions;
use crate::source::Source;
use crate::transport::{self, Identity};
use crate::watch::{WatchOptions, watch};
use crate::web::{self, WebServer};
use crate::{rates, trace};

impl Cli {
    /// Does what the command line says.
    pub fn run(self) -> Result<()> {
        match self.command {
            Command::Make(args) => make(args),
            Command::Send(args) => send(&args),
            Command::Play(args) => play(&args),
            Command::Demo(args) => run_demo(&args),
            Command::ServeHttp3(args) => serve_http3(&args),
            Command::ServeWeb(args) => serve_web(&args),
            Command::Trace(args) => print_trace(&args),
        }
    }
}

fn make(args: MakeArgs) -> Result<()> {
    let rates = rates::parse_list(&args.rates)?;
    let MakeArgs { directory, seconds, input, realtime, .. } = args;
    ffmpeg::make(&directory, &MakeOptions { seconds, rates, input, realtime })?;
    print(&format!("{}: {seconds} s of media", directory.display()))
}

/// Media that can be opened once for each player.
#[derive(Debug)]
enum Media {
    Directory(PathBuf, bool),
    Made(TempDir, bool),
    Synthetic { rates: Vec<u64>, seconds: u64, seed: u64 },
}

impl Media {
    fn new(args: &MediaArgs, seconds: u64, repeats: bool, seed: u64) -> Result<Self> {
        if let Some(path) = &args.media {
            return Ok(Self::Directory(path.clone(), repeats));
        }
        let rates = rates::parse_list(&args.rates)?;
        if args.synthetic {
            let seconds = if repeats { u64::MAX } else { seconds };
            return Ok(Self::Synthetic { rates, seconds, seed });
        }
        ensure!(ffmpeg::is_installed(), ffmpeg::MISSING);
        let directory = tempfile::tempdir()?;
        log::info!("making {seconds} s of media with ffmpeg");
        let options = MakeOptions { seconds, rates, input: None, realtime: false };
        ffmpeg::make(directory.path(), &options)?;
        Ok(Self::Made(directory, repeats))
    }

    fn open(&self) -> Result<Source> {
        match self {
            Self::Directory(path, repeats) => Source::open(path, *repeats),
            Self::Made(directory, repeats) => Source::open(directory.path(), *repeats),
            Self::Synthetic { rates, seconds, seed } => {
                Ok(Source::synthetic(rates.clone(), *seconds, *seed))
            }
        }
    }
}

impl IdentityArgs {
    fn get(&self) -> Option<Identity<'_>> {
        let both = self.certificate.as_deref().zip(self.key.as_deref());
        both.map(|(chain, key)| Identity { chain, key })
    }
}

impl DelayArgs {
    fn get(&self) -> Result<Duration> {
        ensure!(self.delay <= 10_000, "--delay {}: 0 to 10000 ms", self.delay);
        Ok(Duration::from_millis(self.delay))
    }
}

impl MediaArgs {
    fn options(&self, longest: Option<u64>) -> Result<SendOptions> {
        ensure!(
            (1..=60_000).contains(&self.lifetime),
            "--lifetime {}: 1 to 60000 ms",
            self.lifetime
        );
        Ok(SendOptions {
            as_datagrams: self.datagrams,
            lifetime: (!self.reliable).then_some(Duration::from_millis(self.lifetime)),
            longest: longest.map(Duration::from_secs),
        })
    }
}

fn send(args: &SendArgs) -> Result<()> {
    let options = args.media.options(args.seconds)?;
    let media = Media::new(&args.media, args.seconds.unwrap_or(60), args.repeats, 1)?;
    // What cannot be opened is told now, not to the first player.
    media.open()?;
    let config = transport::sender(args.profile.into(), args.identity.get())?;
    let endpoint = Endpoint::server(args.listen, config, EndpointConfig::default())?;
    print(&format!("sending at {}", endpoint.local_addr()))?;
    let mut open = || media.open();
    let reports =
        Server::new(endpoint, options, &mut open).run(args.once, &AtomicBool::new(false))?;
    if args.json {
        print(&serde_json::to_string_pretty(&reports)?)?;
    }
    Ok(())
}

fn play(args: &PlayArgs) -> Result<()> {
    if args.ca.is_none() {
        log::info!("the sender's certificate is not checked; --ca FILE checks it");
    }
    let config = transport::player(args.profile.into(), args.ca.as_deref())?;
    let is_pipe = args.out.as_deref() == Some(Path::new("-"));
    let output = match args.out.as_deref() {
        None => None,
        Some(_) if is_pipe => Some(Output::pipe(std::io::stdout())?),
        Some(path) => Some(Output::file(path)?),
    };
    let options = WatchOptions {
        server: args.server,
        name: &args.name,
        play: PlayOptions { waits: args.reliable, delay: args.delay.get()? },
        longest: args.seconds.map(Duration::from_secs),
    };
    let report = watch(options, config, output)?;
    let printed = printed(&[("", &report)], args.json)?;
    if is_pipe {
        // Standard output is the video's.
        log::info!("what was played:\n{printed}");
        return Ok(());
    }
    print(&printed)
}

fn run_demo(args: &DemoArgs) -> Result<()> {
    ensure!((1..=3600).contains(&args.seconds), "--seconds {}: 1 to 3600", args.seconds);
    ensure!(args.rtt <= 10_000, "--rtt {}: 0 to 10000 ms", args.rtt);
    let trace = trace::resolve(&args.trace, args.seconds, args.seed)?;
    let (lowest, highest) = trace.range_mbps();
    let mean = trace.mean_mbps();
    let media = Media::new(&args.media, args.seconds, false, args.seed)?;
    if let Some(directory) = &args.out {
        if args.media.synthetic {
            bail!("--out needs media that ffmpeg made: no decoder reads synthetic ones");
        }
        std::fs::create_dir_all(directory).with_context(|| directory.display().to_string())?;
    }
    let options = DemoOptions {
        trace,
        rtt: Duration::from_millis(args.rtt),
        send: args.media.options(Some(args.seconds))?,
        delay: args.delay.get()?,
        out: args.out.clone(),
        seed: args.seed,
    };
    log::info!(
        "{} s over a link of {lowest:.1} to {highest:.1} Mbit/s, {mean:.1} in the mean",
        args.seconds
    );
    let reports = demo::run(&options, &|| media.open())?;
    let columns: Vec<_> = reports.iter().map(|(name, report)| (*name, report)).collect();
    print(&printed(&columns, args.json)?)
}

fn serve_http3(args: &HttpArgs) -> Result<()> {
    // What cannot be played is told now, not by the first player.
    Source::open(&args.media, false)?;
    let site = Site::new(&args.media)?;
    let own = args.identity.get();
    let made = if own.is_none() { Some(PageCertificate::new()?) } else { None };
    let identity = own.or(made.as_ref().map(PageCertificate::identity));
    let config = http3::config(args.profile.into(), identity)?;
    let endpoint = Endpoint::server(args.listen, config, EndpointConfig::default())?;
    let address = browser::reachable(endpoint.local_addr());
    print(&format!("serving https://{address}/{}", site.master()))?;
    let how = made.as_ref().map_or_else(
        || {
            "open / at a name that the certificate is for; the README has Chromium's options"
                .to_owned()
        },
        |made| browser::chromium_command(address, made.key_hash()),
    );
    print(&format!("to watch: {how}"))?;
    let reports = HttpServer::new(endpoint, site)?.run(args.once, &AtomicBool::new(false))?;
    if args.json {
        print(&serde_json::to_string_pretty(&reports)?)?;
    }
    Ok(())
}

fn serve_web(args: &WebArgs) -> Result<()> {
    if args.media.synthetic || args.media.datagrams {
        bail!(
            "a browser decodes no synthetic media, and this page takes frames on streams only"
        );
    }
    let options = args.media.options(args.seconds)?;
    let media = Media::new(&args.media, args.seconds.unwrap_or(60), args.repeats, 1)?;
    media.open()?;
    let certificate = PageCertificate::new()?;
    let config = web::config(tacklib::Profile::Video, &certificate)?;
    let endpoint = Endpoint::server(args.listen, config, EndpointConfig::default())?;
    web::write_page(&args.page, &certificate, endpoint.local_addr(), args.delay.get()?)?;
    print(&format!("open {} in a browser", args.page.display()))?;
    let mut open = || media.open();
    let server = WebServer::new(endpoint, options, &mut open)?;
    let reports = server.run(args.once, &AtomicBool::new(false))?;
    if args.json {
        print(&serde_json::to_string_pretty(&reports)?)?;
    }
    Ok(())
}

fn print_trace(args: &TraceArgs) -> Result<()> {
    let trace = trace::resolve(&args.trace, args.seconds, args.seed)?;
    let text = if args.link { trace.to_toml() } else { trace.to_mahimahi() };
    print(text.trim_end())
}

fn printed(columns: &[(&str, &PlayerReport)], json: bool) -> Result<String> {
    if !json {
        return Ok(report::table(columns).trim_end().to_owned());
    }
    if let [(_, report)] = columns {
        return Ok(serde_json::to_string_pretty(report)?);
    }
    let by_name: BTreeMap<_, _> = columns.iter().copied().collect();
    Ok(serde_json::to_string_pretty(&by_name)?)
}

/// Prints a line. A reader that has gone away needs no more of them.
fn print(text: &str) -> Result<()> {
    match writeln!(std::io::stdout(), "{text}") {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(error).context("writing to standard output")
        }
        _ => Ok(()),
    }
}
