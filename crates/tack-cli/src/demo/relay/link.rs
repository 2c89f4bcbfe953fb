//! When a datagram leaves the link, or why it never does. Arithmetic only: the caller says what
//! time it is.

use std::time::{Duration, Instant};

use super::{Direction, RelayConfig};

/// What one direction of a link did with the datagrams offered to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct LinkCounters {
    /// Datagrams that the endpoint sent.
    pub packets: u64,
    /// Bytes of UDP payload in them.
    pub bytes: u64,
    /// Datagrams handed to the other endpoint.
    pub delivered_packets: u64,
    /// Bytes of UDP payload in them.
    pub delivered_bytes: u64,
    /// Datagrams that found the queue full.
    pub drops_queue: u64,
    /// Datagrams lost at random.
    pub drops_loss: u64,
    /// Datagrams that the host did not take for delivery, as when nobody listens.
    pub drops_host: u64,
}

impl LinkCounters {
    /// Datagrams neither delivered nor dropped: on their way when the relay stopped.
    pub const fn in_transit(&self) -> u64 {
        self.packets
            - self.delivered_packets
            - self.drops_queue
            - self.drops_loss
            - self.drops_host
    }
}

/// One direction of the link.
pub(super) struct Link {
    rate_bps: u64,
    delay: Duration,
    buffer_bytes: u64,
    loss: f64,
    random: SplitMix64,
    /// When the last byte admitted so far has been serialised.
    idle_at: Option<Instant>,
    pub(super) counters: LinkCounters,
}

impl Link {
    pub(super) fn new(config: &RelayConfig, direction: Direction) -> Self {
        // Each direction has draws of its own: what one loses must not depend on when the
        // other happened to send.
        let seed = match direction {
            Direction::ToServer => config.seed,
            Direction::ToClient => !config.seed,
        };
        Self {
            rate_bps: config.rate_bps,
            delay: config.one_way_delay,
            buffer_bytes: config.buffer_bytes,
            loss: config.loss,
            random: SplitMix64(seed),
            idle_at: None,
            counters: LinkCounters::default(),
        }
    }

    /// Takes a datagram of `len` bytes at `now` and says when it arrives; `None` if it is lost
    /// or finds the queue full.
    pub(super) fn admit(&mut self, now: Instant, len: usize) -> Option<Instant> {
        let len = len as u64;
        self.counters.packets += 1;
        self.counters.bytes += len;
        if self.random.uniform() < self.loss {
            self.counters.drops_loss += 1;
            return None;
        }

        let start = self.idle_at.map_or(now, |idle_at| idle_at.max(now));
        let backlog = bytes_in(start - now, self.rate_bps);
        // A link that is idle takes any datagram, however small its queue.
        if backlog > 0 && backlog.saturating_add(len) > self.buffer_bytes {
            self.counters.drops_queue += 1;
            return None;
        }
        let finish = start + time_for(len, self.rate_bps);
        self.idle_at = Some(finish);
        Some(finish + self.delay)
    }

    pub(super) fn delivered(&mut self, len: usize, accepted: bool) {
        if accepted {
            self.counters.delivered_packets += 1;
            self.counters.delivered_bytes += len as u64;
        } else {
            self.counters.drops_host += 1;
        }
    }
}

const BITS_PER_BYTE: u128 = 8;
const NANOS_PER_SEC: u128 = 1_000_000_000;

/// How many bytes a rate moves in some time, rounded down.
pub(super) fn bytes_in(time: Duration, rate_bps: u64) -> u64 {
    let bytes = time.as_nanos() * u128::from(rate_bps) / (BITS_PER_BYTE * NANOS_PER_SEC);
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

/// How long a rate takes for some bytes, rounded up to a nanosecond.
fn time_for(bytes: u64, rate_bps: u64) -> Duration {
    let nanos = (u128::from(bytes) * BITS_PER_BYTE * NANOS_PER_SEC).div_ceil(rate_bps.into());
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

/// The generator of Steele, Lea and Flood, "Fast splittable pseudorandom number generators"
/// (OOPSLA 2014): small, seeded by any value, and good enough for coin flips.
struct SplitMix64(u64);

impl SplitMix64 {
    /// A number from 0 up to, but not including, 1.
    fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^= bits >> 31;
        // The 53 bits that the fraction of an f64 holds.
        (bits >> 11) as f64 / (1_u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    const DELAY: Duration = Duration::from_millis(20);
    const SERVER: (Ipv4Addr, u16) = (Ipv4Addr::LOCALHOST, 9);

    /// 8 Mbit/s: one byte takes a microsecond.
    fn config() -> RelayConfig {
        RelayConfig::new(SERVER.into(), 8_000_000, DELAY)
    }

    fn link(config: &RelayConfig) -> Link {
        Link::new(config, Direction::ToServer)
    }

    fn micros(micros: u64) -> Duration {
        Duration::from_micros(micros)
    }

    #[test]
    fn an_idle_link_takes_serialisation_and_propagation() {
        let (mut link, now) = (link(&config()), Instant::now());
        assert_eq!(link.admit(now, 1000), Some(now + micros(1000) + DELAY));
        let later = now + micros(5000);
        assert_eq!(link.admit(later, 500), Some(later + micros(500) + DELAY));
    }

    #[test]
    fn datagrams_sent_at_once_arrive_at_the_rate_of_the_link() {
        let (mut link, now) = (link(&config()), Instant::now());
        for n in 1..=50 {
            assert_eq!(link.admit(now, 1000), Some(now + micros(n * 1000) + DELAY));
        }
    }

    #[test]
    fn a_rate_that_divides_nothing_evenly_stays_exact_over_time() {
        let config = RelayConfig { rate_bps: 77_777_777, buffer_bytes: u64::MAX, ..config() };
        let (mut link, now) = (link(&config), Instant::now());
        let last = (0..10_000).filter_map(|_| link.admit(now, 1350)).last().unwrap();
        let exact = 10_000.0 * 1350.0 * 8.0 / 77_777_777.0;
        let took = (last - (now + DELAY)).as_secs_f64();
        assert!((took / exact - 1.0).abs() < 1e-4, "{took} instead of {exact}");
    }

    #[test]
    fn what_does_not_fit_the_queue_is_dropped_and_takes_no_time() {
        let config = RelayConfig { buffer_bytes: 3000, ..config() };
        let (mut link, now) = (link(&config), Instant::now());
        for _ in 0..3 {
            assert!(link.admit(now, 1000).is_some());
        }
        assert_eq!(link.admit(now, 1), None);
        assert_eq!(link.counters.drops_queue, 1);

        // A thousand bytes have left after a millisecond.
        let later = now + micros(1000);
        assert_eq!(link.admit(later, 1001), None);
        assert_eq!(link.admit(later, 1000), Some(now + micros(4000) + DELAY));
    }

    #[test]
    fn an_idle_link_takes_a_datagram_larger_than_its_queue() {
        let config = RelayConfig { buffer_bytes: 0, ..config() };
        let (mut link, now) = (link(&config), Instant::now());
        assert!(link.admit(now, 1350).is_some());
        assert_eq!(link.admit(now, 1350), None);
        assert!(link.admit(now + micros(1350), 1350).is_some());
    }

    #[test]
    fn losses_follow_the_seed_and_only_the_seed() {
        let fates = |seed, direction, spacing: u64| {
            let config = RelayConfig { loss: 0.3, seed, buffer_bytes: u64::MAX, ..config() };
            let (mut link, now) = (Link::new(&config, direction), Instant::now());
            (0..500)
                .map(|n| link.admit(now + micros(n * spacing), 100).is_some())
                .collect::<Vec<_>>()
        };
        let (up, down) = (Direction::ToServer, Direction::ToClient);
        assert_eq!(fates(1, up, 0), fates(1, up, 777));
        assert_ne!(fates(1, up, 0), fates(2, up, 0));
        assert_ne!(fates(1, up, 0), fates(1, down, 0));
    }

    #[test]
    fn losses_are_as_frequent_as_asked() {
        for loss in [0.0, 0.001, 0.05, 0.5, 1.0] {
            let config = RelayConfig { loss, buffer_bytes: u64::MAX, ..config() };
            let (mut link, now) = (link(&config), Instant::now());
            for _ in 0..100_000 {
                link.admit(now, 100);
            }
            let lost = link.counters.drops_loss as f64 / 100_000.0;
            let deviation = (loss * (1.0 - loss) / 100_000.0).sqrt();
            assert!((lost - loss).abs() <= 4.0 * deviation, "{lost} instead of {loss}");
        }
    }

    #[test]
    fn lost_datagrams_do_not_occupy_the_link() {
        let config = RelayConfig { loss: 0.5, buffer_bytes: u64::MAX, ..config() };
        let (mut link, now) = (link(&config), Instant::now());
        let arrivals: Vec<_> = (0..100).filter_map(|_| link.admit(now, 1000)).collect();
        assert!(arrivals.len() < 100);
        assert_eq!(
            arrivals.last(),
            Some(&(now + micros(arrivals.len() as u64 * 1000) + DELAY))
        );
    }

    #[test]
    fn the_default_queue_is_the_product_of_rate_and_round_trip_but_not_tiny() {
        let config = |rate_bps, delay| RelayConfig::new(SERVER.into(), rate_bps, delay);
        let hundred_millis = Duration::from_millis(100);
        assert_eq!(config(80_000_000, hundred_millis).buffer_bytes, 2_000_000);
        assert_eq!(config(1_000_000, Duration::from_millis(1)).buffer_bytes, 65_536);
    }

    #[test]
    fn counters_add_up() {
        let config = RelayConfig { loss: 0.2, buffer_bytes: 20_000, ..config() };
        let (mut link, now) = (link(&config), Instant::now());
        let admitted = (0..100).filter_map(|_| link.admit(now, 1000)).count() as u64;
        assert_eq!(link.counters.in_transit(), admitted);
        link.delivered(1000, true);
        link.delivered(1000, false);
        let counters = link.counters;
        assert_eq!((counters.packets, counters.bytes), (100, 100_000));
        assert!(counters.drops_queue > 0 && counters.drops_loss > 0);
        assert_eq!((counters.delivered_packets, counters.delivered_bytes), (1, 1000));
        assert_eq!(counters.drops_host, 1);
        assert_eq!(counters.in_transit(), admitted - 2);
    }
}
