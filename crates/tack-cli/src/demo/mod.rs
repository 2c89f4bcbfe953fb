//! `tack demo`: the same transfer twice over an emulated link, as plain QUIC and with TACK.
//!
//! A server and a client, the ones that `tack serve` and `tack get` use, exchange one file over
//! real UDP sockets on the loopback interface. Between them the [`relay`] makes it a slow, long
//! and lossy path, and the [`tap`] counts what crosses it.

pub mod relay;
mod report;
mod run;
pub mod tap;

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;

use crate::error::Error;
use crate::progress::Display;
use crate::session::Progress;
use crate::transfer::{Digest, Hasher, WirePath};

use relay::RelayConfig;
use report::{Comparison, Parameters, Versions};

/// Size of the generated file unless the user asks for another, in MiB.
const DEFAULT_SIZE: u32 = 64;

/// Arguments of `tack demo`.
#[derive(Debug, Args)]
pub struct DemoArgs {
    /// File to transfer [default: a generated one]
    pub file: Option<PathBuf>,
    /// Size of the generated file in MiB
    #[arg(long, value_name = "MIB", default_value_t = DEFAULT_SIZE, conflicts_with = "file")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub size: u32,
    /// Round-trip time of the link in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 40.0, value_parser = parse_rtt)]
    pub rtt: f64,
    /// Rate of the link in each direction, in Mbit/s of UDP payload
    #[arg(long, value_name = "MBIT/S", default_value_t = 50.0, value_parser = parse_link_rate)]
    pub rate: f64,
    /// Datagrams lost at random in each direction, in percent
    #[arg(long, value_name = "PERCENT", default_value_t = 0.0, value_parser = parse_loss)]
    pub loss: f64,
    /// Seed of the losses and of the generated file
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Prints the result as JSON
    #[arg(long)]
    pub json: bool,
    /// Prints the result only
    #[arg(long, short)]
    pub quiet: bool,
}

/// Runs the comparison and prints it.
pub fn run(args: &DemoArgs) -> Result<(), Error> {
    let scratch = tempfile::tempdir().map_err(Error::local(std::env::temp_dir()))?;
    let source = Source::open(args, scratch.path())?;
    let link = |server| RelayConfig {
        loss: args.loss / 100.0,
        seed: args.seed,
        ..RelayConfig::new(
            server,
            (args.rate * 1e6) as u64,
            Duration::from_secs_f64(args.rtt / 2e3),
        )
    };
    let transfer = |name: &str, profile| {
        let mut display = Display::new(args.quiet);
        display.note(name);
        let mut update = |progress: &Progress| display.update(progress);
        let result = run::transfer(&source, profile, &link, scratch.path(), &mut update);
        display.finish();
        result
    };
    let plain = transfer("first as plain QUIC …", tacklib::Profile::Off)?;
    let tack = transfer("now with TACK …", tacklib::Profile::Default)?;
    let comparison = Comparison {
        parameters: Parameters {
            bytes: source.size,
            rtt_ms: args.rtt,
            rate_mbps: args.rate,
            loss_percent: args.loss,
            buffer_bytes: link(([127, 0, 0, 1], 0).into()).buffer_bytes,
            seed: args.seed,
            versions: Versions::of_this_build(),
        },
        plain,
        tack,
    };
    comparison.print(args.json).map_err(Error::local("standard output"))?;
    comparison.verdict()
}

/// The file that is transferred.
struct Source {
    directory: PathBuf,
    name: WirePath,
    size: u64,
    digest: Digest,
}

impl Source {
    fn open(args: &DemoArgs, scratch: &Path) -> Result<Self, Error> {
        let path = if let Some(path) = &args.file {
            path.canonicalize().map_err(Error::local(path))?
        } else {
            let path = scratch.join("generated");
            let size = u64::from(args.size) << 20;
            generate(&path, size, args.seed).map_err(Error::local(&path))?;
            path
        };
        let (Some(directory), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(Error::Usage(format!("{}: not a file", path.display())));
        };
        let name = name.to_str().ok_or_else(|| {
            Error::Usage(format!("{}: the name must be valid UTF-8", path.display()))
        })?;
        let name = WirePath::new(name).map_err(|e| Error::Usage(e.to_string()))?;
        let mut hasher = Hasher::default();
        let size = File::open(&path)
            .and_then(|mut file| hasher.read(&mut file, u64::MAX))
            .map_err(Error::local(&path))?;
        Ok(Self { directory: directory.to_owned(), name, size, digest: hasher.digest() })
    }
}

/// Writes bytes that look random and depend on the seed alone.
fn generate(path: &Path, size: u64, seed: u64) -> io::Result<()> {
    let random = blake3::Hasher::new().update(&seed.to_le_bytes()).finalize_xof();
    let mut file = File::create(path)?;
    io::copy(&mut random.take(size), &mut file)?;
    file.flush()
}

fn parse_rtt(text: &str) -> Result<f64, String> {
    parse_between(text, 0.0, 10_000.0)
}

fn parse_link_rate(text: &str) -> Result<f64, String> {
    parse_between(text, 0.1, 10_000.0)
}

fn parse_loss(text: &str) -> Result<f64, String> {
    parse_between(text, 0.0, 50.0)
}

fn parse_between(text: &str, least: f64, most: f64) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if (least..=most).contains(&value) => Ok(value),
        _ => Err(format!("expected a number from {least} to {most}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_generated_file_depends_on_the_seed_alone() {
        let dir = tempfile::tempdir().unwrap();
        let content = |seed| {
            let path = dir.path().join("file");
            generate(&path, 100_000, seed).unwrap();
            std::fs::read(path).unwrap()
        };
        assert_eq!(content(1).len(), 100_000);
        assert!(content(1) == content(1));
        assert!(content(1) != content(2));
    }

    #[test]
    fn numbers_out_of_range_are_refused() {
        assert!(parse_loss("51").is_err() && parse_loss("-1").is_err());
        assert!(parse_rtt("NaN").is_err() && parse_link_rate("0").is_err());
        assert_eq!(parse_link_rate("0.5"), Ok(0.5));
    }
}
