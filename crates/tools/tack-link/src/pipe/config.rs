//! What a pipe is like.

use std::time::Duration;

use super::jitter::check_jitter;
use super::{QueueDiscipline, Schedule};
use crate::ParameterError;
use crate::parameter::probability;

/// Longest delay of a pipe: beyond it lies a mistake in a unit.
pub const MAX_DELAY: Duration = Duration::from_secs(60);
/// Highest rate of a pipe, in bits per second.
pub const MAX_RATE_BPS: u64 = 1_000_000_000_000;

/// One direction of a wide-area link.
#[derive(Clone, Debug, PartialEq)]
pub struct PipeConfig {
    /// Rate in bits per second, of everything in the IP packet; zero for a while is an outage.
    /// `None`: packets take no time and never queue.
    pub rate_bps: Option<Schedule<u64>>,
    /// Propagation delay. The one at the moment when the last bit of a packet is sent counts.
    pub delay: Schedule<Duration>,
    /// Nominal mean of a delay that varies from packet to packet as on Wi-Fi, and keeps them in
    /// order: 0 for none, or 1 to 91 ms. The model is that of draft-huitema-ccwg-c4-test; its true
    /// mean lies 0.32 ms below. The mean at the moment when the last bit of a packet is sent
    /// counts.
    pub jitter: Option<Schedule<Duration>>,
    /// Size in bytes of the queue in front of the rate. The packet that is being sent has left
    /// the queue and does not count.
    pub buffer_bytes: u64,
    /// What that queue does when it grows. All but drop-tail need a rate.
    pub queue: QueueDiscipline,
    /// Whether the ECN field of every packet that leaves is set to Not-ECT, as some routers do; also of
    /// those that the queue has marked.
    pub bleach_ecn: bool,
    /// Probability that a packet is lost.
    pub loss: f64,
    /// Losses in bursts, besides those of `loss`.
    pub gilbert_elliott: Option<GilbertElliott>,
    /// Packets that others overtake.
    pub reorder: Option<Reorder>,
    /// Probability that a packet arrives twice.
    pub duplicate: f64,
    /// Probability that one bit of a packet is flipped.
    pub corrupt: f64,
    /// How many packets in a row `loss` takes at most, and `corrupt` as well. `None`: as many as
    /// chance will have it.
    pub longest_run: Option<u32>,
}

/// A link that is good or bad, as E. N. Gilbert ("Capacity of a burst-noise channel", 1960) and
/// E. O. Elliott (1963) describe it.
///
/// A packet is lost with the probability of the state that it meets; then the state may change.
/// Bad times last 1 / `r` packets on average, and p / (p + r) of all packets meet one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GilbertElliott {
    /// Probability that the link turns bad after a packet.
    pub p: f64,
    /// Probability that the link turns good again after a packet.
    pub r: f64,
    /// Probability of a loss while the link is good.
    pub loss_good: f64,
    /// Probability of a loss while the link is bad.
    pub loss_bad: f64,
}

/// Packets that take longer, so that later ones arrive before them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reorder {
    /// Probability that a packet takes longer.
    pub probability: f64,
    /// How much longer.
    pub delay: Duration,
}

impl Default for PipeConfig {
    /// A wire of no length: packets arrive as they are sent.
    fn default() -> Self {
        Self {
            rate_bps: None,
            delay: Schedule::constant(Duration::ZERO),
            jitter: None,
            buffer_bytes: u64::MAX,
            queue: QueueDiscipline::DropTail,
            bleach_ecn: false,
            loss: 0.0,
            gilbert_elliott: None,
            reorder: None,
            duplicate: 0.0,
            corrupt: 0.0,
            longest_run: None,
        }
    }
}

impl PipeConfig {
    /// A pipe without impairments.
    pub fn new(rate_bps: u64, delay: Duration, buffer_bytes: u64) -> Self {
        Self {
            rate_bps: Some(Schedule::constant(rate_bps)),
            delay: Schedule::constant(delay),
            buffer_bytes,
            ..Self::default()
        }
    }

    pub(super) fn check(&self) -> Result<(), ParameterError> {
        if let Some(rate) = &self.rate_bps {
            check_rate("rate_bps", rate)?;
        }
        self.delay.values().try_for_each(|delay| check_delay("delay", delay))?;
        let mut jitter = self.jitter.iter().flat_map(Schedule::values);
        jitter.try_for_each(|mean| check_jitter("jitter", mean))?;
        self.check_queue()?;
        probability("loss", self.loss)?;
        probability("duplicate", self.duplicate)?;
        probability("corrupt", self.corrupt)?;
        self.gilbert_elliott
            .map_or(Ok(()), GilbertElliott::check)
            .map_err(|error| error.within("gilbert_elliott"))?;
        self.reorder.map_or(Ok(()), Reorder::check).map_err(|error| error.within("reorder"))
    }

    /// Fails if there is nothing for the queue to wait for, or if its parameters make no sense.
    pub(crate) fn check_queue(&self) -> Result<(), ParameterError> {
        if self.rate_bps.is_none() && self.queue != QueueDiscipline::DropTail {
            let allowed = "drop-tail, unless the pipe has a rate";
            return Err(ParameterError::new("queue", self.queue.name(), allowed));
        }
        self.queue.check().map_err(|error| error.within("queue"))
    }
}

pub(crate) fn check_rate(field: &str, rate: &Schedule<u64>) -> Result<(), ParameterError> {
    if let Some(value) = rate.values().find(|value| *value > MAX_RATE_BPS) {
        let allowed = format!("up to {MAX_RATE_BPS} bits per second");
        return Err(ParameterError::new(field, value, allowed));
    }
    let goes_on = match rate.period() {
        Some(_) => rate.values().any(|value| value > 0),
        None => rate.values().last().is_some_and(|value| value > 0),
    };
    if goes_on {
        return Ok(());
    }
    // What is queued would wait for ever; a link that is gone loses everything.
    let allowed = "above 0 in the end (for a link that dies, let everything be lost)";
    Err(ParameterError::new(field, "0 for ever", allowed))
}

pub(super) fn check_delay(field: &str, delay: Duration) -> Result<(), ParameterError> {
    if delay <= MAX_DELAY {
        return Ok(());
    }
    Err(ParameterError::new(field, format!("{delay:?}"), format!("up to {MAX_DELAY:?}")))
}

impl GilbertElliott {
    fn check(self) -> Result<(), ParameterError> {
        probability("p", self.p)?;
        probability("r", self.r)?;
        probability("loss_good", self.loss_good)?;
        probability("loss_bad", self.loss_bad)?;
        Ok(())
    }
}

impl Reorder {
    fn check(self) -> Result<(), ParameterError> {
        probability("probability", self.probability)?;
        check_delay("delay", self.delay)
    }
}
