//! `tack-lab tcp`: the kernel's TCP over an emulated link.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, bail};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use serde::Serialize;
use tack_emulator::tcp::{self, Congestion, TcpOptions, TcpReport};
use tack_link::spec::LinkSpec;

use super::tun::{ChosenLink, LinkArgs};
use crate::output;
use crate::versions::Versions;

/// The kernel's TCP over an emulated link, in real time.
///
/// One connection sends as fast as it can between two network namespaces of this machine, which
/// lead nowhere else. Slow start counts. Needs root.
///
/// A run in which the machine could not keep up with the link fails, because its figures mean
/// nothing.
#[derive(Clone, Debug, clap::Args, Serialize)]
pub struct Args {
    #[command(flatten)]
    #[serde(flatten)]
    link: LinkArgs,
    /// The sender's congestion control
    #[arg(long, default_value = "cubic",
          value_parser = PossibleValuesParser::new(["bbr", "cubic"])
              .try_map(|name| name.parse::<Congestion>()))]
    cc: Congestion,
    /// How long to send, in seconds, up to an hour
    #[arg(long, default_value_t = 10.0, value_name = "S")]
    seconds: f64,
}

/// What is printed as JSON.
#[derive(Serialize)]
struct Report {
    #[serde(flatten)]
    measured: TcpReport,
    parameters: Parameters,
    versions: Versions,
}

/// Everything that it takes to run it again, defaults filled in.
#[derive(Serialize)]
struct Parameters {
    #[serde(flatten)]
    args: Args,
    rtt: f64,
    link_spec: LinkSpec,
    capacity_mbps: f64,
}

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode> {
    let duration = duration(args.seconds)?;
    let ChosenLink { spec, path, link } = args.link.choose()?;
    let measured = tcp::run(TcpOptions { link, congestion: args.cc, duration })?;
    let invalid = measured.punctuality.invalid.clone().filter(|_| !args.link.allow_misses);
    if args.link.json {
        output::json(&Report {
            measured,
            parameters: Parameters {
                args,
                rtt: path.rtt.as_secs_f64() * 1e3,
                capacity_mbps: spec.capacity_bps(duration) / 1e6,
                link_spec: spec,
            },
            versions: Versions::of_this_build(),
        })?;
    } else {
        let title = format!(
            "kernel TCP, {}, over {}, {} s",
            args.cc.to_string().to_uppercase(),
            args.link.describe(&path),
            args.seconds
        );
        output::text(&table(&title, &measured))?;
    }
    match invalid {
        Some(reason) => bail!("this run does not count: {reason}"),
        None => Ok(ExitCode::SUCCESS),
    }
}

fn duration(seconds: f64) -> Result<Duration> {
    const MOST: f64 = 3600.0;
    match Duration::try_from_secs_f64(seconds) {
        Ok(duration) if !duration.is_zero() && seconds <= MOST => Ok(duration),
        _ => bail!("--seconds {seconds}: above 0 and up to {MOST} s"),
    }
}

fn table(title: &str, report: &TcpReport) -> String {
    let maybe = |value: Option<f64>| value.map_or("-".to_owned(), |ms| format!("{ms:.2}"));
    let rows = [
        ("goodput, Mbit/s", format!("{:.2}", report.goodput_mbps)),
        ("data packets", report.data_packets.to_string()),
        ("ACK packets", report.ack_packets.to_string()),
        ("ACK bytes", report.ack_bytes.to_string()),
        ("retransmitted packets", report.retransmitted.to_string()),
        ("lost on the link", report.lost.to_string()),
        ("RTTmin at the sender, ms", maybe(report.min_rtt_ms)),
        ("one-way delay, 95 %, ms", maybe(report.owd_p95_ms)),
        ("queueing, 95 %, ms", maybe(report.queue_p95_ms)),
        ("delivered late", report.punctuality.deadline_misses.to_string()),
        ("lateness, 99 %, µs", format!("{:.0}", report.punctuality.lateness_p99_us)),
    ];
    let rows = rows.map(|(name, value)| format!("{name:<34}{value:>14}"));
    format!("{title}\n\n{}", rows.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::testing::parse;

    #[test]
    fn an_unknown_congestion_control_is_answered_with_the_known_ones() {
        let error = parse::<Args>("--cc vegas").unwrap_err().to_string();
        assert!(error.contains("bbr") && error.contains("cubic"), "{error}");
    }

    #[test]
    fn a_time_that_makes_no_sense_is_refused_with_what_is_allowed() {
        for seconds in [0.0, -1.0, f64::NAN, 3601.0] {
            let error = duration(seconds).unwrap_err().to_string();
            assert!(error.starts_with("--seconds") && error.contains("3600"), "{error}");
        }
    }

    #[test]
    fn json_parameters_name_the_round_trip_time_that_was_used() {
        let args = parse::<Args>("--link g").unwrap();
        let ChosenLink { spec, path, .. } = args.link.choose().unwrap();
        let parameters = Parameters {
            args,
            rtt: path.rtt.as_secs_f64() * 1e3,
            capacity_mbps: spec.capacity_bps(Duration::from_secs(1)) / 1e6,
            link_spec: spec,
        };
        let json = serde_json::to_string(&parameters).unwrap();
        assert_eq!(json.matches("\"rtt\":").count(), 1, "{json}");
        assert!(json.contains("\"rtt\":40.0"), "{json}");
    }
}
