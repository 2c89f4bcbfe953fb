//! `tack-lab transfer`: one flow in virtual time.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde::Serialize;
use tack_link::Direction;
use tack_link::spec::{LinkSpec, PathSpec};
use tacklib::{Ecn, Profile};

use crate::output;
use crate::pool;
use crate::sim::{
    self, Acks, Congestion, EndConfig, Flow, FlowReport, Load, Scenario, ScenarioReport, Stack,
};
use crate::versions::Versions;

/// One connection over an emulated link, in virtual time.
///
/// The server sends, the client receives and acknowledges; with --two-way both do both. What is
/// counted is read off the wire, in the same way for every stack. The same arguments give the
/// same packets.
#[derive(clap::Args, Clone, Debug, Serialize)]
pub struct Args {
    /// The link: b, g, n, ac, pipe:MBIT, pipe:DOWN/UP or a TOML file.
    ///
    /// pipe:100/10 carries 100 Mbit/s to the client and 10 Mbit/s to the server.
    #[arg(long, default_value = "n", value_name = "SPEC")]
    link: String,
    /// The QUIC stack at both ends, or at the server's with --client.
    #[arg(long, value_enum, default_value_t = Stack::Tack)]
    stack: Stack,
    /// The QUIC stack of the client, where it is another one; as it comes.
    #[arg(long, value_enum, value_name = "STACK", conflicts_with = "ack")]
    client: Option<Stack>,
    /// Both ends send as much as possible at the same time, on one stream.
    ///
    /// The figures of what the client sends begin with reverse_ in the JSON.
    #[arg(long, conflicts_with_all = ["bytes", "source"])]
    two_way: bool,
    /// How the receiver acknowledges: tack, tack-poor, tack-paper, tack:MS, delayed, every:L or
    /// periodic:MS.
    ///
    /// By default as the stack does by itself: `tack`, and `delayed` for plain quiche, which
    /// acknowledges each batch that it reads, and for quinn, which acknowledges every second
    /// packet. quinn is asked for `every:L` and `periodic:MS` by ACK_FREQUENCY; quiche has no
    /// way but its own.
    #[arg(long, value_name = "HOW")]
    #[serde(skip)]
    ack: Option<Acks>,
    /// The sender's congestion control: BBR by default for TACK, CUBIC for the others.
    #[arg(long, value_enum)]
    #[serde(skip)]
    cc: Option<Congestion>,
    /// Round-trip propagation delay besides the link's own: by default 40 ms, and 0 for a link
    /// from a file.
    #[arg(long, value_name = "MS")]
    #[serde(skip)]
    rtt: Option<f64>,
    /// Probability from 0 to 1 that a data packet is lost, behind the link.
    #[arg(long, default_value_t = 0.0, value_name = "P")]
    loss_data: f64,
    /// Probability from 0 to 1 that a packet of the receiver is lost, before the link.
    #[arg(long, default_value_t = 0.0, value_name = "P")]
    loss_ack: f64,
    /// Virtual time to run for.
    #[arg(long, default_value_t = 10.0, value_name = "S")]
    seconds: f64,
    /// Time at the start that is not counted.
    #[arg(long, default_value_t = 0.0, value_name = "S")]
    warm_up: f64,
    /// Send so many bytes instead of as many as possible; the run ends when they have arrived.
    #[arg(long, value_name = "BYTES")]
    bytes: Option<u64>,
    /// Send from a source of so many Mbit/s instead of as much as possible.
    #[arg(long, value_name = "MBIT", conflicts_with = "bytes")]
    source: Option<f64>,
    /// UDP payload of a full packet, 1200 to 1472 bytes.
    #[arg(long, default_value_t = 1472, value_name = "BYTES")]
    udp_payload: usize,
    /// TACK's profile.
    #[arg(long, value_enum, default_value_t = ProfileName::Default, conflicts_with = "video")]
    profile: ProfileName,
    /// Short for --profile video.
    #[arg(long)]
    video: bool,
    /// Let TACK sample round trips as TCP's timestamps do, and not by one-way delays.
    #[arg(long)]
    plain_sampling: bool,
    /// How late both ends read and send on average, as on a machine that has other work.
    #[arg(long, default_value_t = 0.0, value_name = "MS")]
    busy: f64,
    /// Tell TACK when each datagram came to the socket, not only when it was read.
    #[arg(long)]
    arrival_times: bool,
    /// What both ends mark their packets with; `off` reads no marks either.
    ///
    /// quinn has `off` and `classic`, plain quiche `off` alone.
    #[arg(long, value_enum, default_value_t = EcnName::Off)]
    ecn: EcnName,
    /// Seed of everything that is random.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Run with this many seeds, from --seed on, in parallel; show the medians.
    #[arg(long, default_value_t = 1, value_name = "N",
          value_parser = clap::value_parser!(u64).range(1..=10_000))]
    seeds: u64,
    /// Write a line for each packet to this file (with one seed).
    #[arg(long, value_name = "FILE")]
    #[serde(skip)]
    trace: Option<PathBuf>,
    /// Add the flow over time to the JSON, in bins of so many milliseconds.
    #[arg(long, value_name = "MS")]
    timeline: Option<f64>,
    /// Print JSON.
    #[arg(long)]
    #[serde(skip)]
    json: bool,
}

/// A profile of the TACK stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
enum ProfileName {
    /// An acknowledgement for ten packets and twice a round trip, at most.
    Default,
    /// For live video.
    Video,
    /// Slow flows are acknowledged packet by packet.
    Quick,
    /// The layer in place and TACK off.
    Off,
}

impl From<ProfileName> for Profile {
    fn from(name: ProfileName) -> Self {
        match name {
            ProfileName::Default => Self::Default,
            ProfileName::Video => Self::Video,
            ProfileName::Quick => Self::Quick,
            ProfileName::Off => Self::Off,
        }
    }
}

/// What is marked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
enum EcnName {
    /// Nothing.
    Off,
    /// ECT(0), of which a queue marks what it would drop.
    Classic,
    /// ECT(1), which L4S queues mark early.
    L4s,
}

impl From<EcnName> for Ecn {
    fn from(name: EcnName) -> Self {
        match name {
            EcnName::Off => Self::Off,
            EcnName::Classic => Self::Classic,
            EcnName::L4s => Self::L4s,
        }
    }
}

/// What is printed as JSON.
#[derive(Serialize)]
struct Report<'a> {
    /// Medians over the seeds.
    #[serde(flatten)]
    median: FlowReport,
    parameters: Parameters<'a>,
    versions: Versions,
    /// Each seed by itself, where there are several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    runs: Vec<Run>,
}

/// Everything that it takes to run it again, defaults filled in.
#[derive(Serialize)]
struct Parameters<'a> {
    #[serde(flatten)]
    args: &'a Args,
    ack: Acks,
    cc: Congestion,
    rtt: f64,
    link_spec: &'a LinkSpec,
    capacity_mbps: f64,
    reverse_capacity_mbps: f64,
}

#[derive(Serialize)]
struct Run {
    seed: u64,
    #[serde(flatten)]
    report: FlowReport,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<ExitCode> {
    let (scenario, rtt) = scenario(args)?;
    let flow = &scenario.flows[0];
    let seeds = (0..args.seeds).map(|index| args.seed.wrapping_add(index));
    let scenarios: Vec<Scenario> =
        seeds.map(|seed| Scenario { seed, ..scenario.clone() }).collect();
    let reports = match &args.trace {
        Some(_) if args.seeds > 1 => bail!("--trace: a trace is of one seed, --seeds 1"),
        Some(path) => {
            let file =
                File::create(path).with_context(|| format!("--trace {}", path.display()))?;
            let mut out = BufWriter::new(file);
            let report = sim::run_traced(&scenario, Some(&mut out))?;
            out.flush()?;
            vec![report]
        }
        None => pool::run_all(&scenarios, sim::run).into_iter().collect::<Result<_, _>>()?,
    };
    let mut flows: Vec<FlowReport> =
        reports.into_iter().flat_map(|ScenarioReport { flows }| flows).collect();
    if args.timeline.is_none() {
        for flow in &mut flows {
            flow.timeline.clear();
            if let Some(reverse) = &mut flow.reverse {
                reverse.timeline.clear();
            }
        }
    }
    let capacity_mbps =
        |direction| scenario.link.direction_capacity_bps(direction, scenario.duration) / 1e6;
    let report = Report {
        median: FlowReport::median(&flows),
        parameters: Parameters {
            args,
            ack: flow.client.acks,
            cc: flow.server.congestion,
            rtt,
            link_spec: &scenario.link,
            capacity_mbps: capacity_mbps(Direction::Forward),
            reverse_capacity_mbps: capacity_mbps(Direction::Reverse),
        },
        versions: Versions::of_this_build(),
        runs: if flows.len() == 1 {
            Vec::new()
        } else {
            let seeds = scenarios.iter().map(|scenario| scenario.seed);
            seeds.zip(flows).map(|(seed, report)| Run { seed, report }).collect()
        },
    };
    if args.json {
        output::json(&report)?;
    } else {
        output::text(&table(&report))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Rates of `--source`, as those of links.
const SOURCE_MBPS: RangeInclusive<f64> = 0.001..=100_000.0;

/// Refuses what changes TACK alone where neither end speaks it.
fn check_options_of_tack(args: &Args) -> Result<()> {
    if args.stack == Stack::Tack || args.client == Some(Stack::Tack) {
        return Ok(());
    }
    let given = [
        ("--video", args.video),
        ("--profile", args.profile != ProfileName::Default),
        ("--plain-sampling", args.plain_sampling),
        ("--arrival-times", args.arrival_times),
    ];
    match given.iter().find(|(_, given)| *given) {
        Some((option, _)) => bail!("{option}: only where one of the ends is tack"),
        None => Ok(()),
    }
}

/// The scenario, and the round-trip time in ms that was chosen.
fn scenario(args: &Args) -> Result<(Scenario, f64)> {
    check_options_of_tack(args)?;
    let link = LinkSpec::resolve(&args.link)?;
    let rtt = match args.rtt {
        None => link.default_rtt(),
        Some(ms) => milliseconds("--rtt", ms, 0.0)?,
    };
    let path = PathSpec { rtt, loss_forward: args.loss_data, loss_reverse: args.loss_ack };
    let acks = args.ack.unwrap_or(args.stack.own_acks());
    let congestion = args.cc.unwrap_or(args.stack.own_congestion());
    let load = match (args.bytes, args.source) {
        _ if args.two_way => Load::TwoWay,
        (Some(bytes), _) => Load::Bytes(bytes),
        (None, Some(mbps)) if SOURCE_MBPS.contains(&mbps) => Load::Rate(mbps * 1e6),
        (None, Some(mbps)) => {
            let (least, most) = (SOURCE_MBPS.start(), SOURCE_MBPS.end());
            bail!("--source {mbps}: {least} to {most} Mbit/s")
        }
        (None, None) => Load::Bulk { stop: None },
    };
    let profile = if args.video { ProfileName::Video } else { args.profile };
    let of_tack = |end| EndConfig {
        profile: profile.into(),
        plain_sampling: args.plain_sampling,
        arrival_times: args.arrival_times,
        ..end
    };
    let server = of_tack(EndConfig::new(args.stack, acks, congestion));
    let client = args.client.map_or(server, |stack| of_tack(EndConfig::own(stack)));
    let flow =
        Flow { udp_payload: args.udp_payload, load, ..Flow::between(server, client, path) }
            .with_busy_ends(milliseconds("--busy", args.busy, 0.0)?)
            .with_ecn(args.ecn.into());
    let bin = args
        .timeline
        .map_or(Ok(Duration::from_secs(1)), |ms| milliseconds("--timeline", ms, 1.0))?;
    let scenario = Scenario {
        link,
        flows: vec![flow],
        duration: seconds("--seconds", args.seconds)?,
        warm_up: seconds("--warm-up", args.warm_up)?,
        bin,
        seed: args.seed,
    };
    Ok((scenario, rtt.as_secs_f64() * 1e3))
}

fn milliseconds(option: &str, value: f64, least: f64) -> Result<Duration> {
    const MOST: f64 = 60e3;
    if !(least..=MOST).contains(&value) {
        bail!("{option} {value}: from {least} to {MOST} ms");
    }
    Ok(Duration::from_secs_f64(value / 1e3))
}

fn seconds(option: &str, value: f64) -> Result<Duration> {
    const MOST: f64 = 86_400.0;
    if !(0.0..=MOST).contains(&value) {
        bail!("{option} {value}: from 0 to {MOST} s");
    }
    Ok(Duration::from_secs_f64(value))
}

fn table(report: &Report<'_>) -> String {
    let mut lines = vec![headline(&report.parameters), String::new()];
    let flow = &report.median;
    if let Some(reverse) = &flow.reverse {
        let (down, up) = (rows(flow), rows(reverse));
        lines.push(format!("{:<34}{:>14}{:>14}", "", "to client", "to server"));
        let both = down.into_iter().zip(up);
        lines.extend(
            both.map(|((name, down), (_, up))| format!("{name:<34}{down:>14}{up:>14}")),
        );
    } else {
        let mut rows = rows(flow);
        if report.parameters.args.bytes.is_some() {
            rows.push(("completed after, ms", maybe(flow.completion_ms, 1)));
        }
        lines.extend(rows.into_iter().map(|(name, value)| format!("{name:<34}{value:>14}")));
    }
    lines.join("\n")
}

fn headline(parameters: &Parameters<'_>) -> String {
    let Parameters { args, ack, cc, rtt, capacity_mbps, reverse_capacity_mbps, .. } =
        parameters;
    let seeds = match args.seeds {
        1 => format!("seed {}", args.seed),
        n => format!("medians of {n} seeds from {}", args.seed),
    };
    let name = |stack| match stack {
        Stack::Tack => "tacklib",
        Stack::Plain => "quiche",
        Stack::Quinn => "quinn",
    };
    let cc = match cc {
        Congestion::Bbr => "BBR",
        Congestion::Cubic => "CUBIC",
    };
    let stacks = match args.client {
        None => format!("{}, ACKs {ack}, {cc}", name(args.stack)),
        Some(client) => format!("{} ({cc}) to {}", name(args.stack), name(client)),
    };
    let busy = match args.busy {
        0.0 => String::new(),
        late => format!("ends {late} ms late, "),
    };
    let capacity = if args.two_way {
        format!("{capacity_mbps:.1} and {reverse_capacity_mbps:.1} Mbit/s")
    } else {
        format!("{capacity_mbps:.1} Mbit/s")
    };
    format!(
        "{stacks}, over {} ({capacity}), RTT {rtt} ms, loss {} data {} ACK, {busy}{} s, {seeds}",
        args.link, args.loss_data, args.loss_ack, args.seconds
    )
}

/// What is shown of one direction.
fn rows(flow: &FlowReport) -> Vec<(&'static str, String)> {
    let number = |value: f64, decimals: usize| format!("{value:.decimals$}");
    vec![
        ("goodput, Mbit/s", number(flow.goodput_mbps, 2)),
        ("utilisation, %", number(flow.utilisation * 100.0, 1)),
        ("data packets", flow.data_packets.to_string()),
        ("ACK packets", flow.ack_packets.to_string()),
        ("ACK bytes", flow.ack_bytes.to_string()),
        ("IACKs", flow.iacks.to_string()),
        ("retransmitted packets", flow.retransmitted.to_string()),
        ("  of these needless", flow.spurious.to_string()),
        ("lost on the link", flow.lost.to_string()),
        ("arrived with CE", flow.ce_marked.to_string()),
        ("  of these reported", flow.ce_reported.map_or("-".to_owned(), |n| n.to_string())),
        ("RTTmin at the sender, ms", maybe(flow.min_rtt_ms, 2)),
        ("one-way delay, 95 %, ms", maybe(flow.owd_p95_ms, 2)),
        ("queueing, 95 %, ms", maybe(flow.queue_p95_ms, 2)),
        ("queueing, 99 %, ms", maybe(flow.queue_p99_ms, 2)),
        ("queueing, longest, ms", maybe(flow.queue_max_ms, 2)),
        ("queue, 95 %, bytes", maybe(flow.queue_p95_bytes, 0)),
        ("queue, longest, bytes", maybe(flow.queue_max_bytes, 0)),
        ("blocked behind gaps, 95 %, bytes", maybe(flow.hol_blocked_bytes_p95, 0)),
    ]
}

fn maybe(value: Option<f64>, decimals: usize) -> String {
    value.map_or("-".to_owned(), |value| format!("{value:.decimals$}"))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Cli {
        #[command(flatten)]
        args: Args,
    }

    fn args(line: &str) -> Args {
        Cli::try_parse_from(line.split_whitespace()).unwrap().args
    }

    fn refusal(line: &str) -> String {
        scenario(&args(line)).unwrap_err().to_string()
    }

    #[test]
    fn a_source_that_no_link_has_is_refused() {
        for rate in ["1e-30", "0", "NaN", "1e6"] {
            let refusal = refusal(&format!("transfer --source {rate}"));
            assert!(refusal.contains("--source"), "{refusal}");
        }
        assert!(scenario(&args("transfer --source 0.5")).is_ok());
    }

    #[test]
    fn what_changes_tack_alone_is_refused_where_no_end_is_tack() {
        for option in ["--video", "--profile quick", "--plain-sampling", "--arrival-times"] {
            let refusal = refusal(&format!("transfer --stack plain {option}"));
            assert!(option.starts_with(refusal.split(':').next().unwrap()), "{refusal}");
            let with_tack = format!("transfer --stack plain --client tack {option}");
            assert!(scenario(&args(&with_tack)).is_ok(), "{option}");
        }
    }

    #[test]
    fn json_has_each_parameter_once_with_its_default_filled_in() {
        let args = args("transfer");
        let (scenario, rtt) = scenario(&args).unwrap();
        let parameters = Parameters {
            args: &args,
            ack: args.stack.own_acks(),
            cc: args.stack.own_congestion(),
            rtt,
            link_spec: &scenario.link,
            capacity_mbps: 1.0,
            reverse_capacity_mbps: 1.0,
        };
        let json = serde_json::to_string(&parameters).unwrap();
        for name in ["ack", "cc", "rtt"] {
            assert_eq!(json.matches(&format!("\"{name}\":")).count(), 1, "{json}");
        }
    }
}
