//! `tack demo`: the same transfer twice over an emulated link, as plain QUIC and with TACK.
//!
//! A server and a client, the ones that `tack serve` and `tack get` use, exchange one file over
//! real UDP sockets on the loopback interface. Between them a relay makes it the link that was
//! asked for, and a tap counts what crosses it.

mod report;
mod run;

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use tack_link::{LinkSpec, PathSpec};

use crate::error::Error;
use crate::progress::Display;
use tack_transfer::{Digest, Hasher, Progress, WirePath};

use report::{Comparison, Parameters, Versions};

/// The generated file takes the link about this long, unless the user asks for a size. Start-up
/// is over by then, and both transfers together are done before one gets impatient.
const DEFAULT_DURATION: Duration = Duration::from_secs(5);
/// Largest size that is generated without being asked for, in MiB.
const MAX_DEFAULT_MIB: f64 = 256.0;

/// Arguments of `tack demo`.
#[derive(Debug, Args)]
#[command(after_help = "\
LINK is a Wi-Fi profile (b, g, n or ac), pipe:RATE for a wire with RATE in Mbit/s, or a TOML file \
that describes a link.")]
pub struct DemoArgs {
    /// File to transfer [default: a generated one]
    pub file: Option<PathBuf>,
    /// Size of the generated file in MiB [default: what the link carries in five seconds]
    #[arg(long, value_name = "MIB", conflicts_with = "file")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub size: Option<u32>,
    /// Link to emulate, b, g, n, ac, pipe:RATE, or a file
    #[arg(long, value_name = "LINK", default_value = "n", value_parser = LinkSpec::resolve)]
    pub link: LinkSpec,
    /// Short for --link pipe:MBIT/S
    #[arg(long, value_name = "MBIT/S", conflicts_with = "link", value_parser = parse_rate)]
    pub rate: Option<LinkSpec>,
    /// Round-trip time of the path behind the link in milliseconds [default: 40; what the file
    /// says, with a file]
    #[arg(long, value_name = "MS", value_parser = parse_rtt)]
    pub rtt: Option<f64>,
    /// Datagrams lost at random on that path in each direction, in percent
    #[arg(long, value_name = "PERCENT", default_value_t = 0.0, value_parser = parse_loss)]
    pub loss: f64,
    /// Seed of all that is left to chance, and of the generated file
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Prints the result as JSON
    #[arg(long)]
    pub json: bool,
    /// Prints the result only
    #[arg(long, short)]
    pub quiet: bool,
}

impl DemoArgs {
    fn spec(&self) -> &LinkSpec {
        self.rate.as_ref().unwrap_or(&self.link)
    }

    fn path(&self) -> PathSpec {
        let asked = self.rtt.map(|ms| Duration::from_secs_f64(ms / 1e3));
        let loss = self.loss / 100.0;
        PathSpec {
            rtt: asked.unwrap_or_else(|| self.spec().default_rtt()),
            loss_forward: loss,
            loss_reverse: loss,
        }
    }

    /// Size of the generated file in bytes.
    fn size(&self) -> u64 {
        let bits = self.spec().capacity_bps(DEFAULT_DURATION) * DEFAULT_DURATION.as_secs_f64();
        let fitting = (bits / 8.0 / f64::from(1 << 20)).clamp(1.0, MAX_DEFAULT_MIB);
        self.size.map_or(fitting as u64, u64::from) << 20
    }
}

/// Runs the comparison and prints it.
pub fn run(args: &DemoArgs) -> Result<(), Error> {
    let (spec, path) = (args.spec(), args.path());
    let unusable = |error: tack_link::SpecError| Error::Usage(error.to_string());
    let buffer_bytes = spec.buffer_bytes(&path).map_err(unusable)?;
    let scratch = tempfile::tempdir().map_err(Error::local(std::env::temp_dir()))?;
    let source = Source::open(args, scratch.path())?;
    let transfer = |name: &str, profile| {
        let link = spec.build(&path, args.seed).map_err(unusable)?;
        let mut display = Display::new(args.quiet);
        display.note(name);
        let mut update = |progress: &Progress| display.update(progress);
        let result = run::transfer(&source, profile, link, scratch.path(), &mut update);
        display.finish();
        result
    };
    let plain = transfer("first as plain QUIC …", tacklib::Profile::Off)?;
    let tack = transfer("now with TACK …", tacklib::Profile::Default)?;
    let comparison = Comparison {
        parameters: Parameters {
            bytes: source.size,
            rtt_ms: (spec.own_rtt() + path.rtt).as_secs_f64() * 1e3,
            rate_mbps: spec.capacity_bps(DEFAULT_DURATION) / 1e6,
            loss_percent: args.loss,
            buffer_bytes,
            link: spec.clone(),
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
            generate(&path, args.size(), args.seed).map_err(Error::local(&path))?;
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

fn parse_rate(text: &str) -> Result<LinkSpec, tack_link::SpecError> {
    LinkSpec::resolve(&format!("pipe:{text}"))
}

fn parse_rtt(text: &str) -> Result<f64, String> {
    parse_between(text, 0.0, 10_000.0)
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
    use clap::Parser;

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
        assert!(parse_rtt("NaN").is_err() && parse_rate("0").is_err());
        assert_eq!(parse_loss("0.5"), Ok(0.5));
    }

    #[derive(Debug, clap::Parser)]
    struct Line {
        #[command(flatten)]
        args: DemoArgs,
    }

    fn parse(line: &str) -> Result<DemoArgs, clap::Error> {
        Line::try_parse_from(line.split_whitespace()).map(|line| line.args)
    }

    #[test]
    fn the_link_is_wi_fi_with_40_ms_behind_it_unless_another_is_asked_for() {
        let args = parse("demo").unwrap();
        assert_eq!(args.spec().name(), "n");
        assert_eq!(args.path().rtt, Duration::from_millis(40));
        let args = parse("demo --link b --rtt 7.5").unwrap();
        assert_eq!(args.spec().name(), "b");
        assert_eq!(args.path().rtt, Duration::from_micros(7500));
    }

    #[test]
    fn a_rate_is_short_for_a_pipe() {
        assert_eq!(parse("demo --rate 50").unwrap().spec().name(), "pipe:50");
        assert!(parse("demo --rate 50 --link n").is_err());
    }

    #[test]
    fn losses_are_on_both_ways_of_the_path() {
        let path = parse("demo --loss 3").unwrap().path();
        assert_eq!((path.loss_forward, path.loss_reverse), (0.03, 0.03));
    }

    #[test]
    fn the_generated_file_is_what_the_link_carries_in_some_seconds() {
        let mib = |line: &str| parse(line).unwrap().size() >> 20;
        assert_eq!(mib("demo --rate 50"), 29);
        assert_eq!(mib("demo --rate 0.1"), 1);
        assert_eq!(mib("demo --rate 10000"), 256);
        assert_eq!(mib("demo --rate 50 --size 3"), 3);
    }

    #[test]
    fn an_unknown_link_is_answered_with_the_known_ones() {
        let error = parse("demo --link ax").unwrap_err().to_string();
        assert!(error.contains("give b, g, n, ac, pipe:RATE"), "{error}");
    }
}
