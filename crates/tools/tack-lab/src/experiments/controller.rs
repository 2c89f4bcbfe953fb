//! The controller at work: rates and queue over time where something happens to the path.

use std::time::Duration;

use serde_json::json;
use tack_link::{LinkSpec, PathSpec};
use tacklib::Ecn;

use super::links::dualpi2;
use super::{Contender, Context, Error, Experiment, Findings};
use crate::report::{Axis, Chart, Colour, Plot, Series, Table};
use crate::sim::{Bin, FlowReport, Rates, Scenario};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "controller",
    title: "The controller at work",
    question: "What do bandwidth estimate, pacing rate and queue do in Startup, in a cycle of \
               ProbeBW, where the path changes or stands still, and by marks?",
    paper: "Section VI-D describes the controller. The paper does not draw it over time.",
    measure,
};

const BIN: Duration = Duration::from_millis(10);
const MBPS: f64 = 50.0;

/// A stretch of one flow's time.
struct Scene {
    name: &'static str,
    /// Of the path, in the words of a link file.
    hop: &'static str,
    rtt_ms: u64,
    ecn: Ecn,
    /// In seconds.
    from: f64,
    to: f64,
    /// What the path carries from which second on.
    rate_mbps: &'static [(f64, f64)],
    marks: &'static [(f64, &'static str)],
}

const STEADY: &str = "kind = \"pipe\"\nrate_mbps = 50.0\nbuffer_bdp = 1.0\n";

const SCENES: [Scene; 5] = [
    Scene {
        name: "Startup and Drain, 50 Mbit/s, 40 ms",
        hop: STEADY,
        rtt_ms: 40,
        ecn: Ecn::Off,
        from: 0.0,
        to: 1.0,
        rate_mbps: &[(0.0, MBPS)],
        marks: &[],
    },
    Scene {
        name: "ProbeBW, 50 Mbit/s, 40 ms",
        hop: STEADY,
        rtt_ms: 40,
        ecn: Ecn::Off,
        from: 4.0,
        to: 6.0,
        rate_mbps: &[(0.0, MBPS)],
        marks: &[],
    },
    Scene {
        name: "A path of 50, 10 and 50 Mbit/s, 40 ms",
        hop: "kind = \"pipe\"\nbuffer_ms = 80.0\n\
              rate_trace = { steps = [[0, 50.0], [3.0, 10.0], [5.0, 50.0]] }\n",
        rtt_ms: 40,
        ecn: Ecn::Off,
        from: 2.5,
        to: 7.0,
        rate_mbps: &[(0.0, MBPS), (3.0, 10.0), (5.0, MBPS)],
        marks: &[],
    },
    Scene {
        name: "A path that stands still for 250 ms, 50 Mbit/s, 40 ms",
        hop: "kind = \"pipe\"\nrate_mbps = 50.0\nbuffer_bdp = 2.0\npauses = [[3.0, 250.0]]\n",
        rtt_ms: 40,
        ecn: Ecn::Off,
        from: 2.8,
        to: 4.0,
        rate_mbps: &[(0.0, MBPS), (3.0, 0.0), (3.25, MBPS)],
        marks: &[(3.0, "stands still"), (3.25, "goes on")],
    },
    Scene {
        name: "Marks of DualPI2, ECT(1), 50 Mbit/s, 20 ms",
        hop: "",
        rtt_ms: 20,
        ecn: Ecn::L4s,
        from: 0.0,
        to: 2.0,
        rate_mbps: &[(0.0, MBPS)],
        marks: &[],
    },
];

fn measure(context: &Context) -> Result<Findings, Error> {
    let seeds = context.seeds(1, 1);
    let runs = context.simulate(&SCENES, &seeds, |scene, seed| {
        let path = PathSpec::with_rtt(Duration::from_millis(scene.rtt_ms));
        let scenario = Scenario {
            link: scene.link()?,
            flows: vec![Contender::TACK.flow(path).with_ecn(scene.ecn)],
            duration: Duration::from_secs_f64(scene.to),
            warm_up: Duration::from_secs_f64(scene.from),
            bin: BIN,
            seed,
        };
        Ok((scene.name.to_owned(), scenario))
    })?;
    let mut table = Table::new("Of the stretch that is drawn")
        .text("scene", "scene")
        .number("goodput_mbps", "goodput", "Mbit/s", 2)
        .number("longest_queue_ms", "longest queue", "ms", 1)
        .number("least_bandwidth_mbps", "least estimate", "Mbit/s", 1)
        .number("most_bandwidth_mbps", "largest estimate", "Mbit/s", 1)
        .number("retransmitted", "sent again", "packets", 0);
    let mut plots = Vec::new();
    let flows = runs.iter().filter_map(|runs| runs.first()?.flows.first());
    for (scene, flow) in SCENES.iter().zip(flows) {
        let bins: Vec<_> = scene.bins(flow).collect();
        let estimates =
            || bins.iter().filter_map(|bin| bin.rates).map(|rates| rates.bandwidth_mbps);
        table.row([
            scene.name.into(),
            flow.goodput_mbps.into(),
            bins.iter().filter_map(|bin| scene.queue_ms(bin)).reduce(f64::max).into(),
            estimates().reduce(f64::min).into(),
            estimates().reduce(f64::max).into(),
            flow.retransmitted.into(),
        ]);
        plots.push(scene.rates(&bins));
        plots.push(scene.queue(&bins));
    }
    Ok(Findings {
        parameters: json!({
            "bin_ms": BIN.as_millis() as u64,
            "scenes": SCENES.iter().map(|scene| json!({
                "name": scene.name,
                "hop": scene.hop,
                "rtt_ms": scene.rtt_ms,
                "from_s": scene.from,
                "to_s": scene.to,
            })).collect::<Vec<_>>(),
        }),
        seeds,
        tables: vec![table],
        plots,
        checks: Vec::new(),
        notes: vec![
            "Of a bin of 10 ms: what arrived in it, and the estimate and the pacing rate when it \
             begins. The queue is the mean one-way delay of what arrived, less the path's own."
                .to_owned(),
        ],
    })
}

impl Scene {
    fn link(&self) -> Result<LinkSpec, Error> {
        if self.hop.is_empty() {
            return Ok(dualpi2(MBPS, false)?);
        }
        Ok(LinkSpec::from_toml(&format!("[[hop]]\n{}", self.hop), self.name)?)
    }

    fn bins<'a>(&self, flow: &'a FlowReport) -> impl Iterator<Item = &'a Bin> {
        let (from, to) = (self.from, self.to);
        flow.timeline.iter().filter(move |bin| (from..to).contains(&bin.at))
    }

    fn queue_ms(&self, bin: &Bin) -> Option<f64> {
        let own = self.rtt_ms as f64 / 2.0;
        bin.owd_ms.map(|delay| (delay - own).max(0.0))
    }

    fn rates(&self, bins: &[&Bin]) -> Plot {
        let of = |value: fn(&Bin) -> Option<f64>| {
            bins.iter().filter_map(|bin| Some((bin.at, value(bin)?))).collect::<Vec<_>>()
        };
        let told = |value: fn(Rates) -> f64| {
            bins.iter().filter_map(|bin| Some((bin.at, value(bin.rates?)))).collect::<Vec<_>>()
        };
        let path = |at: f64| self.rate_mbps.iter().rev().find(|(from, _)| *from <= at);
        let path = bins.iter().filter_map(|bin| Some((bin.at, path(bin.at)?.1))).collect();
        let series = vec![
            Series::reference("path", Colour::Grey, path),
            Series::measured("pacing rate", Colour::Orange, told(|rates| rates.pacing_mbps)),
            Series::measured("bandwidth", Colour::Blue, told(|rates| rates.bandwidth_mbps)),
            Series::measured("goodput", Colour::Green, of(|bin| Some(bin.goodput_mbps))),
        ];
        self.plot("rates", "Mbit/s", series)
    }

    fn queue(&self, bins: &[&Bin]) -> Plot {
        let points = bins.iter().filter_map(|bin| Some((bin.at, self.queue_ms(bin)?)));
        let series = vec![Series::measured("queue", Colour::Violet, points.collect())];
        self.plot("queue", "queueing delay, ms", series)
    }

    fn plot(&self, what: &str, unit: &str, series: Vec<Series>) -> Plot {
        let plot = Plot::new(
            format!("{}: {what}", self.name),
            Axis { scale: crate::report::Scale::Range, ..Axis::linear("time, s") },
            Axis::linear(unit),
            Chart::Steps { series },
        );
        self.marks.iter().fold(plot, |plot, (at, label)| plot.mark(*at, *label))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scene_shows_its_own_time_and_the_queue_without_the_path() {
        let scene = &SCENES[1];
        let bin = |at, owd_ms| Bin { at, owd_ms: Some(owd_ms), ..Bin::default() };
        let timeline = vec![bin(3.99, 90.0), bin(4.0, 26.0), bin(5.99, 19.0), bin(6.0, 90.0)];
        let flow = FlowReport { timeline, ..FlowReport::default() };
        let queues: Vec<_> = scene.bins(&flow).filter_map(|bin| scene.queue_ms(bin)).collect();
        assert_eq!(queues, [6.0, 0.0]);
    }

    #[test]
    fn every_scene_has_a_link_that_can_be_built() {
        for scene in &SCENES {
            assert!(scene.link().is_ok(), "{}", scene.name);
        }
    }
}
