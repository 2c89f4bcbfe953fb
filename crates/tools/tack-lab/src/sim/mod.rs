//! Real QUIC stacks over emulated links, in virtual time.
//!
//! A [`Scenario`] runs on one thread, whose clock is virtual: the stacks believe that a minute
//! has passed when the events of a minute have been worked off. The same scenario gives the same
//! packets at the same times, whatever the machine does meanwhile: link, connection ids and the
//! stacks' decisions draw from its seed. What is measured is read off the wire, with the keys of
//! the connection, in the same way for every stack.

mod applications;
mod busy;
mod call;
mod content;
mod error;
mod frames;
mod identity;
mod media;
mod peer;
mod probe;
mod quiche;
mod quinn;
mod report;
mod run;
mod scenario;
mod trace;

pub(crate) use content::Content;
pub use error::Error;
pub use report::{
    Bin, CarefulResume, DeliveredFrames, FlowReport, FrameReport, Rates, ScenarioReport,
};
pub use run::{run, run_applications, run_traced};
pub use scenario::{
    Acks, Call, Congestion, EndConfig, Flow, FrameRate, Frames, Load, Media, Scenario, Stack,
    step_at,
};
