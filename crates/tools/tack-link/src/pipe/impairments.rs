//! What chance does to packets.

use std::time::Duration;

use rand::RngExt;
use rand_pcg::Pcg64Mcg;

use super::jitter::{Jitter, JitterDraw};
use super::{GilbertElliott, PipeConfig, Reorder};
use crate::Time;
use crate::random::stream;

/// What happens to one packet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Fate {
    pub(super) lost: bool,
    pub(super) extra_delay: Option<Duration>,
    pub(super) duplicated: bool,
    /// Where a bit is flipped: 0 is the first bit of the packet, 1 the end of the last.
    pub(super) flipped_at: Option<f64>,
    jitter: Option<JitterDraw>,
}

/// Decides the fate of one packet after the other.
///
/// Each impairment has a random stream of its own and draws for every packet, whatever else
/// happens to that packet. So the fate of the n-th packet depends on the seed and on n alone, and
/// switching one impairment on leaves what the others do as it was.
#[derive(Clone, Debug)]
pub(super) struct Impairments {
    loss: Bounded,
    bursts: Option<Bursts>,
    reorder: Option<(Coin, Duration)>,
    duplicate: Coin,
    corrupt: Bounded,
    corrupt_where: Pcg64Mcg,
    jitter: Option<Jitter>,
}

impl Impairments {
    pub(super) fn new(config: &PipeConfig, seed: u64) -> Self {
        let coin = |probability, label| Coin { probability, random: stream(seed, label) };
        let bounded = |coin| Bounded { coin, longest: config.longest_run, run: 0 };
        // The labels are part of what a seed means: a new impairment gets a new one.
        Self {
            loss: bounded(coin(config.loss, 0)),
            bursts: config.gilbert_elliott.map(|model| Bursts::new(model, stream(seed, 1))),
            reorder: config
                .reorder
                .map(|Reorder { probability, delay }| (coin(probability, 2), delay)),
            duplicate: coin(config.duplicate, 3),
            corrupt: bounded(coin(config.corrupt, 4)),
            corrupt_where: stream(seed, 5),
            jitter: config.jitter.clone().map(|mean| Jitter::new(mean, stream(seed, 6))),
        }
    }

    pub(super) fn next(&mut self) -> Fate {
        let lost_alone = self.loss.toss();
        let lost_in_burst = self.bursts.as_mut().is_some_and(Bursts::next);
        let reorder = self.reorder.as_mut();
        let extra_delay = reorder.and_then(|(coin, delay)| coin.toss().then_some(*delay));
        let flipped_at = self.corrupt.toss().then(|| self.corrupt_where.random());
        Fate {
            lost: lost_alone || lost_in_burst,
            extra_delay,
            duplicated: self.duplicate.toss(),
            flipped_at,
            jitter: self.jitter.as_mut().map(Jitter::draw),
        }
    }

    /// The jitter of a packet of that fate, if its last bit is sent at `sent`.
    pub(super) fn jitter(&self, fate: &Fate, sent: Time) -> Duration {
        let jitter = self.jitter.as_ref().zip(fate.jitter);
        jitter.map_or(Duration::ZERO, |(jitter, draw)| jitter.at(sent, draw))
    }
}

#[derive(Clone, Debug)]
struct Coin {
    probability: f64,
    random: Pcg64Mcg,
}

impl Coin {
    fn toss(&mut self) -> bool {
        // A probability of 1 is above every draw, one of 0 above none.
        self.probability > 0.0 && self.random.random::<f64>() < self.probability
    }
}

/// A coin that does not come up more often than so many times in a row.
#[derive(Clone, Debug)]
struct Bounded {
    coin: Coin,
    longest: Option<u32>,
    run: u32,
}

impl Bounded {
    fn toss(&mut self) -> bool {
        let up = self.coin.toss() && self.longest.is_none_or(|longest| self.run < longest);
        self.run = if up { self.run + 1 } else { 0 };
        up
    }
}

/// The state of a Gilbert-Elliott model.
#[derive(Clone, Debug)]
struct Bursts {
    model: GilbertElliott,
    bad: bool,
    random: Pcg64Mcg,
}

impl Bursts {
    const fn new(model: GilbertElliott, random: Pcg64Mcg) -> Self {
        Self { model, bad: false, random }
    }

    /// Whether the next packet is lost.
    fn next(&mut self) -> bool {
        let GilbertElliott { p, r, loss_good, loss_bad } = self.model;
        let (loss, change) = if self.bad { (loss_bad, r) } else { (loss_good, p) };
        let lost = self.random.random::<f64>() < loss;
        self.bad ^= self.random.random::<f64>() < change;
        lost
    }
}
