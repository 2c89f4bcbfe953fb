//! DualPI2, a coupled dual queue with PI2 for L4S (RFC 9332 appendix A).

use std::time::Duration;

use rand::RngExt;
use rand_pcg::Pcg64Mcg;

use super::fifo::Fifo;
use super::{Queued, Tally};
use crate::parameter::number;
use crate::random::stream;
use crate::{ParameterError, Time};

/// The L queue marks nothing by its own delay while it holds no more than that many packets behind
/// the one that leaves: at a low rate a single packet takes longer than the threshold (`Th_len` in
/// RFC 9332 appendix A.1, whose pseudocode looks at the queue after the packet has left it).
const MIN_LENGTH: usize = 1;

const END_OF_TIME: Time = Time::from_nanos(u64::MAX);

/// Parameters of DualPI2.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DualPi2Config {
    /// Delay that the controller holds the queue of Classic traffic at.
    pub target: Duration,
    /// Time between two updates of the base probability p' (`Tupdate`).
    pub update_interval: Duration,
    /// Integral gain: how much p' grows in an update for each second above the target, in Hz.
    pub alpha_hz: f64,
    /// Proportional gain: how much p' grows in an update for each second that the delay grew, in
    /// Hz.
    pub beta_hz: f64,
    /// L4S packets that waited longer are marked with a probability that grows with the delay
    /// (`minTh`).
    pub min_threshold: Duration,
    /// From so much above the threshold on, all are (`range`); zero for a step.
    pub ramp_range: Duration,
    /// L4S packets are marked with this times p' (k), Classic packets with p' squared.
    pub coupling: f64,
    /// Share of the rate that Classic traffic gets at least while both queues are busy, in per
    /// cent (RFC 9332 section 4.2.2).
    pub classic_percent: u32,
}

impl Default for DualPi2Config {
    /// Those of RFC 9332 appendix A.1, where the worst round-trip time (`RTT_max`) is 100 ms: a
    /// target of 15 ms, which is the interval of updates as well (the smaller of the target and
    /// `RTT_max`/3), gains of 0.1 times that interval / `RTT_max`² and of 0.3 / `RTT_max`, a ramp
    /// from 800 to 1200 µs, and k = 2. The RFC leaves the share of Classic traffic to the
    /// scheduler: 10 per cent is that of Linux (tc-dualpi2(8)).
    fn default() -> Self {
        Self {
            target: Duration::from_millis(15),
            update_interval: Duration::from_millis(15),
            alpha_hz: 0.15,
            beta_hz: 3.0,
            min_threshold: Duration::from_micros(800),
            ramp_range: Duration::from_micros(400),
            coupling: 2.0,
            classic_percent: 10,
        }
    }
}

impl DualPi2Config {
    pub(super) fn check(&self) -> Result<(), ParameterError> {
        super::above_zero("target", self.target)?;
        super::above_zero("update_interval", self.update_interval)?;
        number("alpha_hz", self.alpha_hz, 1e-3..=1e3, "Hz")?;
        number("beta_hz", self.beta_hz, 0.0..=1e3, "Hz")?;
        number("coupling", self.coupling, 0.1..=100.0, "")?;
        super::in_range("classic_percent", self.classic_percent, 1..=99, "per cent")
    }
}

/// Two queues of one transmitter: a short one for L4S traffic, which comes first, and one for
/// Classic traffic, whose delay decides what both of them mark and drop.
#[derive(Clone, Debug)]
pub(in crate::pipe) struct DualPi2 {
    config: DualPi2Config,
    classic: Fifo,
    l4s: Fifo,
    /// The base probability p', which a PI controller sets.
    base: f64,
    next_update: Time,
    /// Delay at the last update, in seconds.
    previous_delay: f64,
    /// Weighted round robin: what L4S traffic owes to Classic traffic, in bytes times per cent.
    classic_credit: i64,
    classic_random: Pcg64Mcg,
    l4s_random: Pcg64Mcg,
}

impl DualPi2 {
    pub(super) fn new(config: DualPi2Config, seed: u64) -> Self {
        Self {
            config,
            classic: Fifo::default(),
            l4s: Fifo::default(),
            base: 0.0,
            next_update: Time::ZERO + config.update_interval,
            previous_delay: 0.0,
            classic_credit: 0,
            classic_random: stream(seed, 0),
            l4s_random: stream(seed, 1),
        }
    }

    /// Puts a packet into the queue that its ECN field asks for (RFC 9332 section 2.3).
    pub(super) fn enqueue(&mut self, queued: Queued) {
        self.update(queued.enqueued);
        let queue = if queued.packet.ecn.is_l4s() { &mut self.l4s } else { &mut self.classic };
        queue.push(queued);
    }

    /// The next packet to send (RFC 9332 appendix A).
    pub(super) fn dequeue(&mut self, now: Time, tally: &mut Tally) -> Option<Queued> {
        self.update(now);
        loop {
            let both = !self.l4s.is_empty() && !self.classic.is_empty();
            let l4s_first = !self.l4s.is_empty() && (!both || self.classic_credit <= 0);
            let queued = if l4s_first {
                let queued = self.l4s.pop()?;
                self.judge_l4s(queued, now, tally)
            } else {
                let queued = self.classic.pop()?;
                self.judge_classic(queued, tally)
            };
            let Some(queued) = queued else {
                tally.dropped += 1;
                continue;
            };
            if both {
                self.charge(l4s_first, queued.packet.size);
            }
            return Some(queued);
        }
    }

    pub(super) const fn bytes(&self) -> u64 {
        self.classic.bytes() + self.l4s.bytes()
    }

    pub(super) fn len(&self) -> usize {
        self.classic.len() + self.l4s.len()
    }

    /// Marks a packet or not; `None` if it is dropped.
    fn judge_l4s(&mut self, queued: Queued, now: Time, tally: &mut Tally) -> Option<Queued> {
        let coupled = self.config.coupling * self.base;
        // Overload: marks do not help any more, so drop as in the Classic queue (RFC 9332
        // section 4.2.3).
        let overload = coupled >= 1.0;
        if overload && toss(&mut self.l4s_random, self.base * self.base) {
            return None;
        }
        // The greater of the native and the coupled probability decides, not both of them one
        // after the other (RFC 9332 section 2.4).
        let native = self.native_probability(queued.sojourn(now));
        let mark = toss(&mut self.l4s_random, native.max(coupled));
        Some(if mark { queued.marked(tally) } else { queued })
    }

    /// The native AQM of the L queue: a ramp (`laqm` in RFC 9332 appendix A.1).
    fn native_probability(&self, delay: Duration) -> f64 {
        let Some(above) = delay.checked_sub(self.config.min_threshold) else { return 0.0 };
        if self.l4s.len() <= MIN_LENGTH || above.is_zero() {
            return 0.0;
        }
        // Infinite above a step.
        (above.as_secs_f64() / self.config.ramp_range.as_secs_f64()).min(1.0)
    }

    /// Marks a packet or not; `None` if it is dropped.
    fn judge_classic(&mut self, queued: Queued, tally: &mut Tally) -> Option<Queued> {
        let probability = self.base * self.base;
        if !toss(&mut self.classic_random, probability) {
            return Some(queued);
        }
        // As above: when marks do not help any more, ECN is off (RFC 9332 appendix A.1). With a k
        // below 1, `p_Cmax` is 1, and what is dropped instead of marked is everything.
        let most = self.config.coupling.powi(-2).min(1.0);
        if probability >= most || !queued.is_ecn_capable() {
            return None;
        }
        Some(queued.marked(tally))
    }

    fn charge(&mut self, l4s: bool, size: u32) {
        let share = i64::from(self.config.classic_percent);
        let size = i64::from(size);
        self.classic_credit += if l4s { size * share } else { -size * (100 - share) };
    }

    /// Does the updates of p' that are due (RFC 9332 appendix A.1). Nothing but them has changed
    /// anything since the last packet, so they can be made up for.
    fn update(&mut self, now: Time) {
        while self.next_update <= now {
            if self.is_at_rest() {
                let interval = self.config.update_interval.as_nanos();
                let missed = now.since(self.next_update).as_nanos() / interval;
                let missed = u64::try_from(missed * interval).unwrap_or(u64::MAX);
                self.next_update = self.next_update + Duration::from_nanos(missed);
            } else {
                self.update_once();
            }
            self.next_update = self.next_update + self.config.update_interval;
            if self.next_update == END_OF_TIME {
                return;
            }
        }
    }

    fn is_at_rest(&self) -> bool {
        self.len() == 0 && self.base <= 0.0 && self.previous_delay <= 0.0
    }

    fn update_once(&mut self) {
        let at = self.next_update;
        // The L queue counts as well: it can overload the link alone.
        let delay = self.classic.delay(at).max(self.l4s.delay(at)).as_secs_f64();
        let DualPi2Config { target, alpha_hz, beta_hz, .. } = self.config;
        let integral = alpha_hz * (delay - target.as_secs_f64());
        let proportional = beta_hz * (delay - self.previous_delay);
        self.base = (self.base + integral + proportional).clamp(0.0, 1.0);
        self.previous_delay = delay;
    }
}

/// Whether something of this probability happens; one draw, whatever the probability is.
fn toss(random: &mut Pcg64Mcg, probability: f64) -> bool {
    random.random::<f64>() < probability
}
