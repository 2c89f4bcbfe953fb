//! What can go wrong in a simulation.

use tack_link::Time;

use crate::application::ApplicationError;

/// A scenario that could not be run, or whose run counts for nothing.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The scenario asks for what is not there.
    #[error("{field}: {problem}")]
    Scenario {
        /// What it is about, by its name on the command line.
        field: &'static str,
        /// What is wrong, and what is allowed.
        problem: String,
    },
    /// The link makes no sense.
    #[error(transparent)]
    Link(#[from] tack_link::spec::SpecError),
    /// A stack refused its configuration.
    #[error("{stack} could not be set up: {problem}")]
    Setup {
        /// Which.
        stack: &'static str,
        /// Why.
        problem: String,
    },
    /// A connection ended by itself.
    #[error("flow {flow} was closed after {at:.3} s: {reason}")]
    Closed {
        /// Which.
        flow: usize,
        /// When, in seconds of virtual time.
        at: f64,
        /// Why.
        reason: String,
    },
    /// The receiver read something else than what was written.
    #[error("flow {flow}: what arrived is not what was sent, at offset {offset}")]
    Content {
        /// Which.
        flow: usize,
        /// Where.
        offset: u64,
    },
    /// One end of an application protocol gave up.
    #[error("flow {flow}, after {at:.3} s: {error}")]
    Application {
        /// Which flow.
        flow: usize,
        /// When, in seconds of virtual time.
        at: f64,
        /// Why.
        error: ApplicationError,
    },
    /// An application protocol was not over when time was up.
    #[error("flow {flow}: its client had not finished after {seconds} s")]
    Unfinished {
        /// Which flow.
        flow: usize,
        /// How long it had, in seconds of virtual time.
        seconds: f64,
    },
    /// Endpoints keep asking to be called at once: a bug in a stack or in the simulator.
    #[error("no progress of time at {:.6} s: a timer fires over and over", at.as_secs_f64())]
    Stuck {
        /// When.
        at: Time,
    },
    /// The trace could not be written.
    #[error("the trace could not be written: {0}")]
    Trace(#[from] std::io::Error),
}

impl Error {
    pub(super) fn setup(stack: &'static str) -> impl Fn(&dyn std::fmt::Display) -> Self + Copy {
        move |problem| Self::Setup { stack, problem: problem.to_string() }
    }
}
