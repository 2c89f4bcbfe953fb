//! An application protocol over a stack and a link, in virtual time.

use std::time::Duration;

use tack_link::{LinkSpec, PathSpec};

use super::{Contender, Error};
use crate::application::Application;
use crate::sim::{self, Flow, FlowReport, Load, Scenario};

/// A queue that holds more than the credit of any protocol.
const LOSSLESS: u64 = 64 << 20;

/// A link with a propagation delay.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Route {
    /// Rate of the pipe in both directions, Mbit/s.
    pub rate_mbps: f64,
    /// Round trip without any packet's length.
    pub rtt: Duration,
    /// What its queue holds in each direction, bytes.
    pub buffer: u64,
}

impl Route {
    /// A pipe of so many Mbit/s and a round trip of so many microseconds, whose queue never loses what an
    /// application of the lab sends ahead.
    pub(super) const fn new(rate_mbps: f64, rtt_us: u64) -> Self {
        Self { rate_mbps, rtt: Duration::from_micros(rtt_us), buffer: LOSSLESS }
    }

    pub(super) fn rtt_ms(self) -> f64 {
        self.rtt.as_secs_f64() * 1e3
    }

    pub(super) fn link(self) -> Result<LinkSpec, Error> {
        let Self { rate_mbps, buffer, .. } = self;
        let hop = format!(
            "[[hop]]\nkind = \"pipe\"\nrate_mbps = {rate_mbps:?}\nbuffer_bytes = {buffer}\n"
        );
        Ok(LinkSpec::from_toml(&hop, "pipe")?)
    }

    /// Runs a protocol over a stack until its client has finished, which it has to within `limit`.
    pub(super) fn run(
        self,
        stack: &Contender,
        (seed, limit): (u64, Duration),
        client: &mut dyn Application,
        server: &mut dyn Application,
    ) -> Result<FlowReport, Error> {
        let flow = stack.flow(PathSpec::with_rtt(self.rtt));
        let scenario = Scenario {
            link: self.link()?,
            flows: vec![Flow { load: Load::Applications, ..flow }],
            duration: limit,
            warm_up: Duration::ZERO,
            bin: limit,
            seed,
        };
        let failed = |reason| Error::Simulation {
            cell: format!("{} over {} Mbit/s, {:?}", stack.label, self.rate_mbps, self.rtt),
            reason: Box::new(reason),
        };
        let report = sim::run_applications(&scenario, client, server).map_err(failed)?;
        let flow = report.flows.into_iter().next();
        flow.filter(|flow| flow.completion_ms.is_some()).ok_or_else(|| {
            failed(sim::Error::Unfinished { flow: 0, seconds: limit.as_secs_f64() })
        })
    }
}

/// Packets with acknowledgements alone, of both ends.
pub(super) fn ack_packets(flow: &FlowReport) -> u64 {
    flow.ack_packets + flow.reverse.as_ref().map_or(0, |reverse| reverse.ack_packets)
}
