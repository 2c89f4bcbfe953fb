//! A link that a seed decides.

use std::fmt::Write;
use std::time::Duration;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use serde::Serialize;
use tack_link::{LinkSpec, PathSpec, SpecError, child_seed};

/// Label of the random stream that draws links; the link itself draws from others.
const DRAW: u64 = 0x736f_616b;
/// Length of a full packet with its IP header.
const PACKET_BYTES: f64 = 1500.0;
/// Stream bytes of a full packet. The stacks differ by some ten bytes.
const STREAM_BYTES: f64 = 1432.0;
/// No queue is shorter, in packets: the initial window of RFC 9002 section 7.2.
const SHORTEST_QUEUE: f64 = 10.0;
/// A transfer lasts so many round trips of the empty path, if that is not too many packets.
const ROUND_TRIPS: f64 = 50.0;
/// A transfer takes the link so many seconds at least: handshakes and probe timers, which have
/// fixed times, would decide a shorter one.
const LEAST_SECONDS: f64 = 2.0;
/// The packets of a transfer, at least and at most.
const PACKETS: (f64, f64) = (300.0, 30_000.0);
/// Up to this loss of data a link is clean.
const CLEAN_LOSS: f64 = 0.01;
/// Up to this loss of acknowledgements a link is clean.
const CLEAN_ACK_LOSS: f64 = 0.1;
/// Round trips from which on a transfer tells how well a link can be filled.
const MANY_ROUND_TRIPS: f64 = 20.0;

/// A link and the transfer over it. Rate, round trip, queue, delays and probabilities are drawn
/// uniformly on a logarithmic scale. Both directions are alike but for their losses.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RandomLink {
    /// From 0.1 to 1,000 Mbit/s of IP packets.
    pub rate_mbps: f64,
    /// Round trip without queues, from 1 to 800 ms.
    pub rtt_ms: f64,
    /// The queue of each direction, in bandwidth-delay products as drawn: from 0.1 to 10.
    pub queue_bdp: f64,
    /// The same in bytes: room for ten packets at least.
    pub queue_bytes: u64,
    /// Probability that a data packet is lost behind the link: up to 20 %, or none.
    pub loss: f64,
    /// Probability that a packet of the receiver is lost: up to 50 %, or none.
    pub ack_loss: f64,
    /// Mean of a delay that varies as on Wi-Fi and keeps the order, or 0.
    pub jitter_ms: f64,
    /// Share of the packets that others overtake, and by how many milliseconds they are late.
    pub reorder: Option<(f64, f64)>,
    /// When the link stands still: seconds after the start, and for how many milliseconds.
    pub blackouts: Vec<[f64; 2]>,
    /// Bytes of the transfer.
    pub bytes: u64,
}

impl RandomLink {
    /// The link of a seed.
    pub fn draw(seed: u64) -> Self {
        let mut draw = Draw(Pcg64Mcg::seed_from_u64(child_seed(seed, DRAW)));
        let rate_mbps = draw.between(0.1, 1000.0);
        let rtt_ms = draw.between(1.0, 800.0);
        let queue_bdp = draw.between(0.1, 10.0);
        let bdp = rate_mbps * rtt_ms * 125.0;
        let queue_bytes = (queue_bdp * bdp).max(SHORTEST_QUEUE * PACKET_BYTES) as u64;
        let loss = draw.sometimes(2, 3, |draw| draw.between(1e-4, 0.2)).unwrap_or_default();
        let ack_loss = draw.sometimes(2, 3, |draw| draw.between(1e-3, 0.5));
        // The model of jitter has no mean between 0 and 1 ms.
        let jitter = draw.sometimes(1, 3, |draw| draw.between(1.0, (rtt_ms / 4.0).min(30.0)));
        let reorder = draw.sometimes(1, 3, |draw| {
            (draw.between(1e-3, 0.05), draw.between(rtt_ms / 20.0, rtt_ms))
        });
        let seconds = (ROUND_TRIPS * rtt_ms / 1e3).max(LEAST_SECONDS);
        let packets = rate_mbps * 1e6 * seconds / 8.0 / PACKET_BYTES;
        let packets = packets.clamp(PACKETS.0, PACKETS.1);
        let link = Self {
            rate_mbps,
            rtt_ms,
            queue_bdp,
            queue_bytes,
            loss,
            ack_loss: ack_loss.unwrap_or_default(),
            jitter_ms: jitter.filter(|_| rtt_ms >= 4.0).unwrap_or_default(),
            reorder,
            blackouts: Vec::new(),
            bytes: (packets * STREAM_BYTES) as u64,
        };
        let blackouts = draw.sometimes(1, 4, |draw| draw.blackouts(link.least_seconds()));
        Self { blackouts: blackouts.unwrap_or_default(), ..link }
    }

    /// Whether little is lost on the way, so that every stack should do well.
    pub fn is_clean(&self) -> bool {
        self.loss <= CLEAN_LOSS && self.ack_loss <= CLEAN_ACK_LOSS
    }

    /// Whether the transfer lasts so many round trips that its middle shows how well a sender
    /// fills the link, and not how soon it has found the rate.
    pub fn is_long(&self) -> bool {
        self.least_seconds() * 1e3 >= MANY_ROUND_TRIPS * self.rtt_ms
    }

    /// What the link can carry: megabits of stream data per second in full packets, less what is
    /// lost behind it. Blackouts are not taken off.
    pub fn capacity_mbps(&self) -> f64 {
        self.rate_mbps * (1.0 - self.loss) * STREAM_BYTES / PACKET_BYTES
    }

    /// Seconds that the link needs for the transfer at this capacity.
    pub fn least_seconds(&self) -> f64 {
        self.bytes as f64 * 8.0 / 1e6 / self.capacity_mbps()
    }

    /// Seconds between two moments in which the link stands still.
    pub fn blackout_seconds(&self, from: f64, to: f64) -> f64 {
        let overlap =
            |[start, ms]: &[f64; 2]| ((start + ms / 1e3).min(to) - start.max(from)).max(0.0);
        self.blackouts.iter().map(overlap).sum()
    }

    /// The link as a file of `tack-lab transfer --link`, which knows the round trip too.
    pub fn toml(&self) -> String {
        let mut toml = format!(
            "default_rtt_ms = {:?}\n[[hop]]\nkind = \"pipe\"\nrate_mbps = {:?}\n\
             buffer_bytes = {}\njitter_ms = {:?}\n",
            self.rtt_ms, self.rate_mbps, self.queue_bytes, self.jitter_ms
        );
        // Writing to a string cannot fail.
        if let Some((share, ms)) = self.reorder {
            let _ =
                writeln!(toml, "reorder = {{ probability = {share:?}, delay_ms = {ms:?} }}");
        }
        if !self.blackouts.is_empty() {
            let _ = writeln!(toml, "pauses = {:?}", self.blackouts);
        }
        toml
    }

    /// The link for the emulation.
    pub fn spec(&self) -> Result<LinkSpec, SpecError> {
        LinkSpec::from_toml(&self.toml(), "random link")
    }

    /// The path behind it.
    pub fn path(&self) -> PathSpec {
        PathSpec {
            rtt: Duration::from_secs_f64(self.rtt_ms / 1e3),
            loss_forward: self.loss,
            loss_reverse: self.ack_loss,
        }
    }
}

struct Draw(Pcg64Mcg);

impl Draw {
    /// A value on a logarithmic scale, rounded to four digits so that it is what is printed.
    fn between(&mut self, low: f64, high: f64) -> f64 {
        let place: f64 = self.0.random();
        let value = low * (high / low).max(1.0).powf(place);
        let unit = 10_f64.powi(3 - value.log10().floor() as i32);
        (value * unit).round() / unit
    }

    /// Draws something for so many of so many links, and as often for the others, so that one
    /// property of a link does not shift the others.
    fn sometimes<T>(
        &mut self,
        share: u32,
        of: u32,
        what: impl Fn(&mut Self) -> T,
    ) -> Option<T> {
        let chosen = self.0.random_range(0..of) < share;
        let value = what(self);
        chosen.then_some(value)
    }

    /// One to three times without service within so many seconds, one after another.
    fn blackouts(&mut self, seconds: f64) -> Vec<[f64; 2]> {
        let number = self.0.random_range(1..=3_u32);
        let share = 0.9 / f64::from(number);
        let mut blackouts = Vec::new();
        let mut over = 0.0;
        for index in 0..number {
            let at = (f64::from(index) * share + 0.05 + self.0.random::<f64>() * share / 2.0)
                * seconds;
            let at = (at * 1e3).round() / 1e3;
            let ms = self.between(50.0, 2000.0);
            // A long one reaches beyond the start of the next, which is then left out.
            if at > over {
                blackouts.push([at, ms]);
                over = at + ms / 1e3;
            }
        }
        blackouts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_link_and_every_link_can_be_built() {
        for seed in 0..500 {
            let link = RandomLink::draw(seed);
            assert_eq!(link, RandomLink::draw(seed));
            let spec = link.spec().unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            spec.build(&link.path(), seed)
                .unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            assert_eq!(
                spec.default_rtt().as_nanos(),
                link.path().rtt.as_nanos(),
                "seed {seed}"
            );
        }
    }

    #[test]
    fn links_cover_the_whole_of_what_is_drawn_from() {
        let links: Vec<_> = (0..2000).map(RandomLink::draw).collect();
        let some =
            |of: &dyn Fn(&RandomLink) -> bool| links.iter().filter(|link| of(link)).count();
        for decade in [0.1, 1.0, 10.0, 100.0] {
            let inside = |link: &RandomLink| (decade..decade * 10.0).contains(&link.rate_mbps);
            assert!((400..600).contains(&some(&inside)), "{decade} Mbit/s");
        }
        assert!(some(&|link| link.rtt_ms < 3.0) > 200);
        assert!(some(&|link| link.rtt_ms > 300.0) > 200);
        assert!(some(&|link| link.queue_bdp < 0.3) > 300);
        assert!(some(&|link| link.loss > 0.05) > 100);
        assert!(some(&|link| link.ack_loss > 0.2) > 100);
        assert!(some(&|link| link.reorder.is_some()) > 400);
        assert!(some(&|link| link.jitter_ms > 0.0) > 300);
        assert!(some(&|link| !link.blackouts.is_empty()) > 300);
        assert!(some(&RandomLink::is_clean) > 600);
        let all = |of: &dyn Fn(&RandomLink) -> bool| assert_eq!(some(of), links.len());
        all(&|link| (0.1..=1000.0).contains(&link.rate_mbps));
        all(&|link| (1.0..=800.0).contains(&link.rtt_ms));
        all(&|link| link.loss <= 0.2 && link.ack_loss <= 0.5);
        all(&|link| link.bytes <= (PACKETS.1 * STREAM_BYTES) as u64);
    }

    #[test]
    fn time_without_service_is_counted_where_it_lies() {
        let link =
            RandomLink { blackouts: vec![[1.0, 500.0], [3.0, 100.0]], ..RandomLink::draw(1) };
        assert!((link.blackout_seconds(0.0, 10.0) - 0.6).abs() < 1e-9);
        assert!((link.blackout_seconds(1.25, 3.05) - 0.3).abs() < 1e-9);
        assert!(link.blackout_seconds(1.6, 2.9).abs() < 1e-9);
    }
}
