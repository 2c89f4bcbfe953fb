//! The experiments: the paper's figures again with real QUIC stacks, and checks of the
//! emulation that they run on.

mod ablation;
mod ack_interval;
mod ack_loss;
mod adaptive;
mod bandwidth_step;
mod buffer;
mod burst;
mod busy_ends;
mod busy_room;
mod calibration;
mod careful_resume;
mod coexistence;
mod completion;
mod contender;
mod context;
mod controller;
mod convergence;
mod encoder;
mod fig12;
mod fig13;
mod fig14a;
mod fig14b;
mod fig18;
mod fig3;
mod fig6;
mod fig7;
mod friendliness;
mod heavy_loss;
mod kernel_run;
mod l4s;
mod links;
mod live_media;
mod miracast;
mod nagle;
mod progress;
mod protocol_run;
mod rate_fall;
mod realtime_board;
mod rtt_fairness;
mod shallow_buffer;
mod short_flows;
mod small_writes;
mod stale;
mod startup;
mod statistics;
mod summary;
mod suspension;
mod traffic_change;
mod two_way;

pub use contender::Contender;
pub use context::Context;
pub use progress::Progress;
pub use statistics::{converged_after, jain, median, percentile};

use serde_json::{Map, Value};

use crate::application::cable::CableError;
use crate::application::kernel_tcp::TcpError;
use crate::report::{Check, Outcome, Plot, Table};
use crate::sim;
use crate::versions::Versions;

/// An experiment, and where in the paper it comes from.
#[derive(Clone, Copy, Debug)]
pub struct Experiment {
    /// Name on the command line.
    pub name: &'static str,
    /// A title for people.
    pub title: &'static str,
    /// What is asked.
    pub question: &'static str,
    /// Where it is from: figure or section of the paper as a rule, and what it reports.
    pub paper: &'static str,
    measure: fn(&Context) -> Result<Findings, Error>,
}

/// What an experiment hands back.
#[derive(Debug, Default)]
struct Findings {
    /// A JSON object.
    parameters: Value,
    seeds: Vec<u64>,
    tables: Vec<Table>,
    plots: Vec<Plot>,
    checks: Vec<Check>,
    notes: Vec<String>,
}

/// Why an experiment has no result.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A run of QUIC stacks failed.
    #[error("{cell}: {reason}")]
    Simulation {
        /// Which run.
        cell: String,
        /// Why.
        reason: Box<sim::Error>,
    },
    /// A run of the medium failed.
    #[error(transparent)]
    Medium(#[from] tack_link::ParameterError),
    /// An application protocol over a cable failed.
    #[error(transparent)]
    Cable(#[from] CableError),
    /// A run over the kernel's TCP failed.
    #[error("{cell}: {reason}")]
    Tcp {
        /// Which run.
        cell: String,
        /// Why.
        reason: Box<TcpError>,
    },
    /// A link could not be described.
    #[error(transparent)]
    Link(#[from] tack_link::SpecError),
}

/// All experiments, in the order in which they are run and reported.
pub const ALL: [Experiment; 40] = [
    calibration::EXPERIMENT,
    fig3::EXPERIMENT,
    fig6::EXPERIMENT,
    fig7::EXPERIMENT,
    fig12::EXPERIMENT,
    fig13::EXPERIMENT,
    fig14a::EXPERIMENT,
    fig14b::EXPERIMENT,
    busy_room::EXPERIMENT,
    fig18::EXPERIMENT,
    bandwidth_step::EXPERIMENT,
    rate_fall::EXPERIMENT,
    convergence::EXPERIMENT,
    rtt_fairness::EXPERIMENT,
    friendliness::EXPERIMENT,
    traffic_change::EXPERIMENT,
    live_media::EXPERIMENT,
    stale::EXPERIMENT,
    encoder::EXPERIMENT,
    adaptive::EXPERIMENT,
    miracast::EXPERIMENT,
    suspension::EXPERIMENT,
    buffer::EXPERIMENT,
    short_flows::EXPERIMENT,
    heavy_loss::EXPERIMENT,
    ack_interval::EXPERIMENT,
    two_way::EXPERIMENT,
    busy_ends::EXPERIMENT,
    ack_loss::EXPERIMENT,
    coexistence::EXPERIMENT,
    shallow_buffer::EXPERIMENT,
    startup::EXPERIMENT,
    controller::EXPERIMENT,
    careful_resume::EXPERIMENT,
    l4s::EXPERIMENT,
    realtime_board::EXPERIMENT,
    ablation::EXPERIMENT,
    nagle::EXPERIMENT,
    burst::EXPERIMENT,
    small_writes::EXPERIMENT,
];

impl Experiment {
    /// The experiment of that name.
    pub fn named(name: &str) -> Option<Self> {
        ALL.into_iter().find(|experiment| experiment.name == name)
    }

    /// The names of its rows, where they can be run alone.
    pub fn rows(&self) -> Vec<String> {
        match self.name {
            name if name == realtime_board::EXPERIMENT.name => realtime_board::row_names(),
            name if name == ablation::EXPERIMENT.name => ablation::row_names(),
            _ => Vec::new(),
        }
    }

    /// Runs it.
    pub fn run(&self, context: &Context) -> Result<Outcome, Error> {
        let findings = (self.measure)(context)?;
        let quick = if context.quick() { " --quick" } else { "" };
        let seed = match context.seed() {
            Context::DEFAULT_SEED => String::new(),
            seed => format!(" --seed {seed}"),
        };
        let parameters = match findings.parameters {
            Value::Object(parameters) => parameters,
            _ => Map::new(),
        };
        Ok(Outcome {
            name: self.name.to_owned(),
            title: self.title.to_owned(),
            question: self.question.to_owned(),
            paper: self.paper.to_owned(),
            quick: context.quick(),
            command: format!(
                "tack-lab run {}{quick}{seed}{}",
                self.name,
                context.only_argument()
            ),
            parameters,
            versions: Versions::of_this_build(),
            seeds: findings.seeds,
            tables: findings.tables,
            plots: findings.plots,
            checks: findings.checks,
            notes: findings.notes,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_belongs_to_one_experiment() {
        for experiment in ALL {
            let same = ALL.iter().filter(|other| other.name == experiment.name).count();
            assert_eq!(same, 1, "{}", experiment.name);
            assert_eq!(Experiment::named(experiment.name).unwrap().title, experiment.title);
        }
    }
}
