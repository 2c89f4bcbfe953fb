//! Figure 12: how often TACK acknowledges.

use std::time::Duration;

use serde_json::json;
use tack_link::PathSpec;
use tack_link::wlan::Profile;

use super::links::{standard, udp_baseline, wlan};
use super::summary::{acks_hz, median_flow};
use super::{Contender, Context, Error, Experiment, Findings};
use crate::report::{Axis, Chart, Check, Colour, Plot, Series, Table};
use crate::sim::{FlowReport, Scenario, ScenarioReport};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "fig12",
    title: "ACK frequency",
    question: "How many ACKs a second does TACK send on 802.11b, g, n and ac at 10, 80 and 200 \
               ms?",
    paper: "Figure 12(b), equation (4): 294, 50 and 20 Hz on b, 400, 50 and 20 Hz on ac; a delayed \
            ACK (L = 2) makes 294 Hz on b and 24,777 Hz on ac.",
    measure,
};

const RTTS_MS: [u64; 3] = [10, 80, 200];
const MSS_BYTES: f64 = 1500.0;
const L: f64 = 2.0;
const BETA: f64 = 4.0;
const STACKS: [Contender; 4] =
    [Contender::TACK, Contender::EVERY_SECOND, Contender::QUICHE_BBR, Contender::QUINN];

/// Equation (1): an ACK for every L-th packet.
fn byte_counting_hz(bandwidth_mbps: f64) -> f64 {
    bandwidth_mbps * 1e6 / (L * MSS_BYTES * 8.0)
}

/// Equation (4).
pub(super) fn tack_hz(bandwidth_mbps: f64, rtt: Duration) -> f64 {
    byte_counting_hz(bandwidth_mbps).min(BETA / rtt.as_secs_f64())
}

fn measure(context: &Context) -> Result<Findings, Error> {
    let seeds = context.seeds(5, 1);
    let measured = Duration::from_secs(context.pick(20, 2));
    // TACK acknowledges every packet while BBR starts up, some fifteen round trips long.
    let warm_up = |rtt: Duration| Duration::from_secs(1) + 25 * rtt;
    let paths: Vec<_> = Profile::ALL
        .into_iter()
        .flat_map(|profile| RTTS_MS.map(|rtt| (profile, Duration::from_millis(rtt))))
        .collect();
    let cells: Vec<_> =
        paths.iter().flat_map(|path| STACKS.map(|stack| (*path, stack))).collect();
    let runs = context.simulate(&cells, &seeds, |((profile, rtt), stack), seed| {
        let scenario = Scenario {
            link: wlan(*profile)?,
            flows: vec![stack.flow(PathSpec::with_rtt(*rtt))],
            duration: warm_up(*rtt) + measured,
            warm_up: warm_up(*rtt),
            bin: measured,
            seed,
        };
        Ok((format!("{}, {rtt:?}, {}", standard(*profile), stack.label), scenario))
    })?;
    let paths: Vec<_> = paths
        .into_iter()
        .zip(runs.chunks(STACKS.len()))
        .map(|((profile, rtt), runs)| OnPath::new(profile, rtt, runs))
        .collect();
    Ok(Findings {
        parameters: json!({
            "mss_bytes": MSS_BYTES,
            "l": L,
            "beta": BETA,
            "bandwidth_mbps": Profile::ALL.map(udp_baseline),
            "rtt_ms": RTTS_MS,
            "measured_s": measured.as_secs_f64(),
            "warm_up_s": "1 and 25 RTTs",
        }),
        seeds,
        tables: vec![table(&paths)],
        plots: vec![plot(&paths)],
        checks: paths.iter().filter_map(check).collect(),
        notes: notes(),
    })
}

/// What was seen on one kind of Wi-Fi at one round-trip time.
struct OnPath {
    profile: Profile,
    rtt: Duration,
    /// The medians of [`STACKS`].
    flows: Vec<FlowReport>,
}

impl OnPath {
    fn new(profile: Profile, rtt: Duration, runs: &[Vec<ScenarioReport>]) -> Self {
        let flows = runs.iter().map(|runs| median_flow(runs, 0)).collect();
        Self { profile, rtt, flows }
    }

    const fn rtt_ms(&self) -> u64 {
        self.rtt.as_millis() as u64
    }

    fn bandwidth_mbps(&self) -> f64 {
        udp_baseline(self.profile)
    }

    /// TACK's frequency by equation (4).
    fn expected_hz(&self) -> f64 {
        tack_hz(self.bandwidth_mbps(), self.rtt)
    }

    /// TACK's frequency here.
    fn seen_hz(&self) -> f64 {
        acks_hz(&self.flows[0])
    }
}

fn table(paths: &[OnPath]) -> Table {
    let mut table = Table::new("ACKs a second")
        .text("profile", "profile")
        .number("rtt_ms", "RTT", "ms", 0)
        .number("equation_tack_hz", "equation (4)", "Hz", 0)
        .number("equation_l2_hz", "L = 2", "Hz", 0)
        .number("tack_hz", STACKS[0].label, "Hz", 0)
        .number("tack_iacks_hz", "IACKs in it", "Hz", 1)
        .number("l2_hz", STACKS[1].label, "Hz", 0)
        .number("quiche_hz", STACKS[2].label, "Hz", 0)
        .number("quinn_hz", STACKS[3].label, "Hz", 0)
        .number("tack_goodput_mbps", "TACK's goodput", "Mbit/s", 1);
    for path in paths {
        let flows = &path.flows;
        table.row([
            standard(path.profile).into(),
            path.rtt_ms().into(),
            path.expected_hz().into(),
            byte_counting_hz(path.bandwidth_mbps()).into(),
            path.seen_hz().into(),
            (flows[0].iacks as f64 / flows[0].seconds).into(),
            acks_hz(&flows[1]).into(),
            acks_hz(&flows[2]).into(),
            acks_hz(&flows[3]).into(),
            flows[0].goodput_mbps.into(),
        ]);
    }
    table
}

/// Against the paper's number, where it gives one.
fn check(path: &OnPath) -> Option<Check> {
    let (rtt_ms, seen) = (path.rtt_ms(), path.seen_hz());
    let paper = paper_hz(path.profile, rtt_ms)?;
    Some(Check::paper_or_better(
        format!("{}, {rtt_ms} ms", standard(path.profile)),
        format!("{seen:.0} Hz"),
        format!("{paper:.0} Hz"),
        (paper / 1.25..=paper * 1.25).contains(&seen),
        seen < paper,
    ))
}

fn plot(paths: &[OnPath]) -> Plot {
    let mut series = Vec::new();
    for (at, rtt_ms) in RTTS_MS.into_iter().enumerate() {
        let colour = Colour::nth(at);
        let points = |hz: fn(&OnPath) -> f64| -> Vec<(f64, f64)> {
            let paths = paths.iter().filter(|path| path.rtt_ms() == rtt_ms);
            paths.map(|path| (path.bandwidth_mbps(), hz(path))).collect()
        };
        let (seen, expected) = (points(OnPath::seen_hz), points(OnPath::expected_hz));
        series.push(Series::measured(format!("{rtt_ms} ms"), colour, seen));
        series.push(Series::reference(format!("{rtt_ms} ms, eq. (4)"), colour, expected));
    }
    let counting = Profile::ALL.map(udp_baseline).map(|bw| (bw, byte_counting_hz(bw)));
    series.push(Series::reference("L = 2, eq. (1)", Colour::Grey, counting.to_vec()));
    Plot::new(
        "ACKs a second of TACK on 802.11b, g, n and ac",
        Axis::log("UDP baseline, Mbit/s"),
        Axis::log("ACKs, Hz"),
        Chart::Lines { series },
    )
}

fn notes() -> Vec<String> {
    vec![
        "Measured are real stacks whose RTTmin includes the time on the air; equation (4) \
         takes the RTT of the path alone. IACKs are counted among the ACKs."
            .to_owned(),
        "TACK acknowledges less often than the paper's, whose parameters are L = 2 and beta = 4: \
         here L = 10 and beta = 2, one TACK for a round trip of up to 20 ms, and 100 Hz at \
         most. Fewer ACKs are better here, more are worse; `agrees` is within a quarter of \
         the paper's number. `tack-lab transfer --ack tack-paper` has the paper's parameters."
            .to_owned(),
        "quiche and quinn acknowledge a batch that arrives at one time once: an A-MPDU is a \
         batch."
            .to_owned(),
    ]
}

fn paper_hz(profile: Profile, rtt_ms: u64) -> Option<f64> {
    match (profile, rtt_ms) {
        (Profile::B, 10) => Some(294.0),
        (Profile::Ac, 10) => Some(400.0),
        (Profile::B | Profile::Ac, 80) => Some(50.0),
        (Profile::B | Profile::Ac, 200) => Some(20.0),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equation_4_takes_the_smaller_of_the_two_frequencies() {
        let rtt = Duration::from_millis(10);
        assert!((tack_hz(7.06, rtt) - 294.2).abs() < 0.1);
        assert!((tack_hz(594.6, rtt) - 400.0).abs() < 0.1);
    }
}
