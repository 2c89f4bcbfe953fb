//! `tack-lab medium`: the UDP tool of the paper on the emulated Wi-Fi.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::ValueEnum;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::error::ErrorKind;
use serde::Serialize;
use tack_link::ParameterError;
use tack_link::emulation::{Acks, Emulation, Report as Measured};
use tack_link::wlan::{Load, Options, Parameters, Preamble, Profile};

use crate::output;
use crate::report::Table;
use crate::versions::Versions;

const DEFAULT_ACK_EVERY: u32 = 2;

/// Shows what acknowledgements cost on emulated Wi-Fi.
///
/// One end sends packets of 1472 bytes of UDP payload, the other answers with small packets that
/// stand for ACKs. Nothing reacts to anything: what is left is contention on the air. A second of
/// warm-up is not counted.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct Args {
    /// Kind of Wi-Fi
    #[arg(long, value_parser = PossibleValuesParser::new(["b", "g", "n", "ac"])
          .try_map(|name| name.parse::<Profile>()))]
    profile: Profile,
    /// Longest A-MPDU in bytes, of n and ac [default: 21700 of n, 54200 of ac]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    ampdu_bytes: Option<u32>,
    /// Smallest contention window in slots [default: 31 of b and g, 15 of n and ac]
    #[arg(long, value_name = "SLOTS", allow_negative_numbers = true)]
    cwmin: Option<u32>,
    /// Preamble, of b [default: short]
    #[arg(long, value_parser = PossibleValuesParser::new(["short", "long"])
          .try_map(|name| name.parse::<Preamble>()))]
    preamble: Option<Preamble>,
    /// An ACK for every L-th packet [default: 2, as TCP does]
    #[arg(long, value_name = "L", group = "acks",
          value_parser = clap::value_parser!(u32).range(1..=1_000_000_000))]
    ack_every: Option<u32>,
    /// So many ACKs a second, whatever arrives
    #[arg(long, value_name = "F", group = "acks", allow_negative_numbers = true)]
    ack_hz: Option<f64>,
    /// No ACKs at all: the UDP baseline
    #[arg(long, group = "acks")]
    no_acks: bool,
    /// Size of an ACK as an IP packet, 28 to 1500 bytes
    #[arg(long, value_name = "BYTES", default_value_t = 64)]
    ack_bytes: u32,
    /// Whether ACKs are put into A-MPDUs, of n and ac [default: on]
    #[arg(long, value_enum, value_name = "ON")]
    aggregate_acks: Option<Switch>,
    /// The station sends the data, the access point the ACKs
    #[arg(long)]
    uplink: bool,
    /// 2: from station to station through the access point
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=2))]
    hops: u32,
    /// Other stations that send packets of 1500 bytes to the access point
    #[arg(long, value_name = "N", default_value_t = 0)]
    background: u32,
    /// What each of them sends, in Mbit/s of UDP payload [default: all it can]
    #[arg(long, value_name = "R", requires = "background", allow_negative_numbers = true)]
    background_mbps: Option<f64>,
    /// Data that is offered, in Mbit/s of UDP payload [default: there is always more]
    #[arg(long, value_name = "R", allow_negative_numbers = true)]
    offered_mbps: Option<f64>,
    /// Seconds to count, up to 3600
    #[arg(long, value_name = "S", default_value_t = 10.0, allow_negative_numbers = true)]
    seconds: f64,
    /// Seed of everything that is random
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// On or off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Switch {
    On,
    Off,
}

/// What is printed as JSON.
#[derive(Serialize)]
struct Report {
    #[serde(flatten)]
    measured: Measured,
    parameters: Used,
    seed: u64,
    versions: Versions,
}

/// The parameters, defaults filled in.
#[derive(Serialize)]
struct Used {
    profile: Profile,
    /// Of b only.
    #[serde(skip_serializing_if = "Option::is_none")]
    preamble: Option<Preamble>,
    cwmin: u32,
    cwmax: u32,
    /// Of n and ac only.
    #[serde(skip_serializing_if = "Option::is_none")]
    ampdu_bytes: Option<u32>,
    aggregate_acks: bool,
    /// One of three: none, every or hz.
    acks: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    ack_every: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ack_hz: Option<f64>,
    ack_bytes: u32,
    payload_bytes: u32,
    uplink: bool,
    hops: u32,
    background: u32,
    background_mbps: Option<f64>,
    offered_mbps: Option<f64>,
    seconds: f64,
    warm_up_seconds: f64,
}

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode> {
    let json = args.json;
    match measure(&args) {
        Ok(report) if json => output::json(&report)?,
        Ok(report) => output::text(&table(&report).to_string())?,
        Err(error) => {
            // As clap says it, with the exit code of wrong usage.
            clap::Error::raw(ErrorKind::ValueValidation, format!("{}\n", wrong(&error)))
                .print()?;
            return Ok(ExitCode::from(2));
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn measure(args: &Args) -> Result<Report, ParameterError> {
    let emulation = args.emulation()?;
    let measured = emulation.run()?;
    Ok(Report {
        measured,
        parameters: args.used(&emulation),
        seed: args.seed,
        versions: Versions::of_this_build(),
    })
}

/// The same about the option as about the parameter behind it.
fn wrong(error: &ParameterError) -> String {
    let option = match error.field.as_str() {
        "cw_min" => "cwmin".to_owned(),
        "duration" => "seconds".to_owned(),
        field => field.replace('_', "-"),
    };
    format!("invalid value '{}' for '--{option}': allowed: {}", error.value, error.allowed)
}

impl Args {
    fn emulation(&self) -> Result<Emulation, ParameterError> {
        let options = Options {
            preamble: self.preamble,
            cw_min: self.cwmin,
            ampdu_bytes: self.ampdu_bytes,
            aggregate_acks: self.aggregate_acks.map(|switch| switch == Switch::On),
            ..Options::default()
        };
        let duration = Duration::try_from_secs_f64(self.seconds).unwrap_or_default();
        Ok(Emulation {
            acks: self.acks(),
            ack_bytes: self.ack_bytes,
            uplink: self.uplink,
            hops: self.hops,
            background: self.background,
            background_load: self.background_mbps.map_or(Load::Saturated, Load::Mbps),
            offered_mbps: self.offered_mbps,
            duration,
            seed: self.seed,
            ..Emulation::new(Parameters::new(self.profile, &options)?)
        })
    }

    fn acks(&self) -> Acks {
        match (self.no_acks, self.ack_hz) {
            (true, _) => Acks::None,
            (false, Some(hz)) => Acks::Hz(hz),
            (false, None) => Acks::EveryN(self.ack_every.unwrap_or(DEFAULT_ACK_EVERY)),
        }
    }

    fn used(&self, emulation: &Emulation) -> Used {
        let parameters = &emulation.parameters;
        let (acks, ack_every, ack_hz) = match emulation.acks {
            Acks::None => ("none", None, None),
            Acks::EveryN(n) => ("every", Some(n), None),
            Acks::Hz(hz) => ("hz", None, Some(hz)),
        };
        Used {
            profile: self.profile,
            preamble: (self.profile == Profile::B).then_some(parameters.preamble()),
            cwmin: parameters.cw_min(),
            cwmax: parameters.cw_max(),
            ampdu_bytes: parameters.ampdu_bytes(),
            aggregate_acks: parameters.aggregate_acks(),
            acks,
            ack_every,
            ack_hz,
            ack_bytes: self.ack_bytes,
            payload_bytes: tack_link::wlan::FULL_PAYLOAD_BYTES,
            uplink: self.uplink,
            hops: self.hops,
            background: self.background,
            background_mbps: self.background_mbps,
            offered_mbps: self.offered_mbps,
            seconds: self.seconds,
            warm_up_seconds: 1.0,
        }
    }
}

fn table(report: &Report) -> Table {
    let Report { measured, parameters, seed, .. } = report;
    let acks = match (parameters.ack_every, parameters.ack_hz) {
        (Some(l), _) => format!("an ACK for every {l} packets"),
        (_, Some(hz)) => format!("{hz} ACKs a second"),
        _ => "no ACKs".to_owned(),
    };
    let title =
        format!("802.11{}, {acks}, {} s, seed {seed}", parameters.profile, parameters.seconds);
    let mut table = Table::new(title)
        .number("goodput_mbps", "data", "Mbit/s", 2)
        .number("ack_goodput_mbps", "ACKs", "Mbit/s", 3)
        .number("acks_hz", "ACKs", "1/s", 0)
        .number("data_failure_percent", "data failed", "%", 2)
        .number("ack_failure_percent", "ACKs failed", "%", 2)
        .number("collision_percent", "collisions", "%", 2)
        .number("ampdu_mean", "MPDUs per PPDU", "", 1)
        .number("data_airtime_percent", "air of data", "%", 1)
        .number("ack_airtime_percent", "air of ACKs", "%", 1);
    table.row([
        measured.goodput_mbps.into(),
        measured.ack_goodput_mbps.into(),
        measured.acks_hz.into(),
        (measured.data_failure_rate * 100.0).into(),
        (measured.ack_failure_rate * 100.0).into(),
        (measured.collision_rate * 100.0).into(),
        measured.ampdu_mean.into(),
        (measured.data_airtime * 100.0).into(),
        (measured.ack_airtime * 100.0).into(),
    ]);
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::testing::parse;

    fn measured(args: &str) -> serde_json::Value {
        serde_json::to_value(measure(&parse::<Args>(args).unwrap()).unwrap()).unwrap()
    }

    #[test]
    fn json_has_what_was_measured_at_the_top_and_everything_to_repeat_it() {
        let json = measured("--profile n --no-acks --seconds 1 --seed 7");
        for field in [
            "goodput_mbps",
            "ack_goodput_mbps",
            "data_failure_rate",
            "ack_failure_rate",
            "ampdu_mean",
        ] {
            assert!(json[field].is_number(), "{field}");
        }
        assert!(json["goodput_mbps"].as_f64().unwrap() > 200.0);
        assert_eq!(json["seed"], 7);
        assert_eq!(json["parameters"]["acks"], "none");
        assert_eq!(json["parameters"]["ampdu_bytes"], 21_700);
        assert!(json["versions"]["tacklib"].is_string());
    }

    #[test]
    fn acknowledgements_are_for_every_second_packet_by_default() {
        assert_eq!(parse::<Args>("--profile g").unwrap().acks(), Acks::EveryN(2));
        assert_eq!(parse::<Args>("--profile g --ack-hz 50").unwrap().acks(), Acks::Hz(50.0));
        assert_eq!(parse::<Args>("--profile g --no-acks").unwrap().acks(), Acks::None);
    }

    #[test]
    fn two_ways_to_acknowledge_are_refused() {
        let error = parse::<Args>("--profile g --no-acks --ack-hz 50").unwrap_err().to_string();
        assert!(error.contains("--no-acks") && error.contains("--ack-hz"), "{error}");
    }

    #[test]
    fn an_unknown_profile_is_answered_with_the_known_ones() {
        let error = parse::<Args>("--profile ax").unwrap_err().to_string();
        assert!(error.contains("--profile") && error.contains("b, g, n, ac"), "{error}");
    }

    #[test]
    fn a_value_out_of_range_names_the_option_and_what_is_allowed() {
        let refused = |args| wrong(&measure(&parse::<Args>(args).unwrap()).err().unwrap());
        assert_eq!(
            refused("--profile g --ampdu-bytes 9000"),
            "invalid value '9000' for '--ampdu-bytes': allowed: with profiles n and ac only"
        );
        assert!(
            refused("--profile g --cwmin 16").starts_with("invalid value '16' for '--cwmin'")
        );
        assert!(refused("--profile g --seconds 0").contains("'--seconds'"));
        assert!(refused("--profile g --seconds -1").contains("'--seconds'"));
        assert!(refused("--profile g --ack-hz 0").contains("'--ack-hz'"));
        assert!(refused("--profile g --ack-bytes 27").contains("'--ack-bytes'"));
    }

    #[test]
    fn hops_are_one_or_two() {
        let error = parse::<Args>("--profile n --hops 3").unwrap_err().to_string();
        assert!(error.contains("--hops") && error.contains("1..=2"), "{error}");
    }
}
