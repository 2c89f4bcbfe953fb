//! Trains of a source over a bottleneck that is slower, faster, jittery or dishonest.

use super::*;
use crate::frame::StampedArrival;

const MS: Duration = Duration::from_millis(1);
const MSS: u64 = 1472;
const KNOWN: Bandwidth = Bandwidth::from_bytes_per_second(100_000);

/// A source of frames in front of a bottleneck of `rate` bytes a second, of all that an IP packet holds.
struct Source {
    trains: PacketTrains,
    now: Instant,
    rate: f64,
    next: u64,
    sent: u64,
    /// What the controller knows.
    known: Bandwidth,
}

impl Source {
    fn new(rate: f64) -> Self {
        let trains = PacketTrains::default();
        Self { trains, now: crate::test_clock(), rate, next: 0, sent: 0, known: KNOWN }
    }

    /// A frame of so many packets, which leave at `pace` bytes a second, and what the receiver says of it:
    /// the time in which the train arrived is `claimed` of the true one.
    fn frame(&mut self, packets: u64, pace: f64, claimed: f64) {
        let mut arrivals = Arrivals::default();
        let (first, mut free) = (self.now, self.now);
        let mut last = None;
        for packet in 0..packets {
            let left = first + Duration::from_secs_f64((packet * MSS) as f64 / pace);
            let is_stamped = packet == 0 || packet + 1 == packets;
            self.sent += MSS;
            if packet == 0 {
                self.trains.on_head(left);
            }
            self.trains.on_sent(left, self.next, self.sent, is_stamped);
            free = free.max(left) + Duration::from_secs_f64((MSS + HEADERS) as f64 / self.rate);
            if is_stamped {
                let since_last = last.replace(free).map_or(Duration::ZERO, |last| free - last);
                arrivals.push(StampedArrival {
                    packet_number: self.next,
                    since_last_us: (since_last.as_micros() as f64 * claimed) as u64,
                    bytes: if packet == 0 { 0 } else { MSS * (packets - 1) },
                });
            }
            self.next += 1;
        }
        self.trains.on_run_dry();
        self.now += 33 * MS;
        self.trains.on_arrivals(self.now, &arrivals, self.known, MSS);
    }

    /// The pace of the sender: what trains are given, or what the controller knows.
    fn pace(&self) -> f64 {
        self.trains
            .rate()
            .map_or(KNOWN.bytes_per_second() as f64, |rate| rate.bytes_per_second() as f64)
    }

    fn follow(&mut self, frames: u32) {
        for _ in 0..frames {
            self.frame(4, self.pace(), 1.0);
        }
    }

    /// The estimate over what the bottleneck carries in full packets.
    fn error(&self) -> f64 {
        let estimate = self.trains.estimate().unwrap().bytes_per_second() as f64;
        estimate * (MSS + HEADERS) as f64 / MSS as f64 / self.rate - 1.0
    }
}

#[test]
fn a_source_that_sends_a_tenth_finds_what_the_path_carries() {
    let mut source = Source::new(5e6);
    source.follow(40);
    assert!(source.error().abs() < 0.02, "{}", source.error());
}

// TACK-6.8-2
#[test]
fn no_train_leaves_at_more_than_a_quarter_above_the_estimate() {
    let mut source = Source::new(1e9);
    for _ in 0..40 {
        source.follow(1);
        if let (Some(rate), Some(estimate)) = (source.trains.rate(), source.trains.estimate()) {
            assert!(rate <= estimate.scaled(1.251), "{rate:?} where {estimate:?} is known");
        }
    }
    // At 30 frames a second, a path that has become twenty times as fast is found in less than a second.
    let (mut frames, mut faster) = (0, Source::new(0.25e6));
    faster.follow(40);
    faster.rate *= 20.0;
    while faster.error() < -0.1 {
        faster.follow(1);
        frames += 1;
    }
    assert!(frames < 30, "{frames} frames");
}

#[test]
fn trains_that_are_not_stretched_show_nothing_before_a_rate_is_known() {
    let mut source = Source::new(5e6);
    source.known = Bandwidth::from_bytes_per_second(0);
    (0..10).for_each(|_| source.frame(4, 1e6, 1.0));
    assert_eq!((source.trains.estimate(), source.trains.measured()), (None, None));
    source.known = KNOWN;
    source.follow(40);
    assert!(source.error().abs() < 0.02, "{}", source.error());
}

#[test]
fn a_stretched_train_shows_a_slower_path_at_once() {
    let mut source = Source::new(5e6);
    source.follow(40);
    source.rate = 0.6e6;
    source.follow(2);
    assert!(source.error().abs() < 0.02, "{}", source.error());
}

/// A process that does not get to run between two packets of a small frame.
#[test]
fn a_train_that_was_held_up_is_no_slower_path() {
    // Before the limit is met, and behind trains that were stretched by it.
    for (rate, frames) in [(1e9, 10), (5e6, 40)] {
        let mut source = Source::new(rate);
        source.follow(frames);
        assert_eq!(source.trains.recent.is_empty(), frames == 10);
        let (before, measured) = (source.trains.estimate(), source.trains.measured());
        source.frame(2, source.pace(), 1000.0);
        assert_eq!((source.trains.estimate(), source.trains.measured()), (before, measured));
        for _ in 0..10 {
            // Slower than the estimate, which shows nothing but that the other one's rate was not the path's.
            let slow = before.unwrap().bytes_per_second() as f64 / 10.0;
            source.frame(2, slow, 1.0);
            source.frame(2, source.pace(), 1000.0);
            assert_eq!(source.trains.estimate(), before);
        }
        source.follow(8);
        let error = source.error();
        assert!(source.trains.estimate() >= before && error < 0.02, "{error}");
    }
}

#[test]
fn two_stretched_trains_in_a_row_show_a_slower_path_and_the_faster_counts() {
    let mut source = Source::new(1e9);
    source.follow(40);
    source.rate = 0.6e6;
    source.frame(4, source.pace(), 3.0);
    source.follow(1);
    assert!(source.error().abs() < 0.02, "{}", source.error());
}

#[test]
fn what_jitter_does_to_single_trains_is_evened_out() {
    let mut source = Source::new(5e6);
    source.follow(40);
    let mut worst: f64 = 0.0;
    for claimed in [0.9, 1.1, 0.8, 1.1, 1.0, 1.2, 0.9, 1.0].into_iter().cycle().take(80) {
        source.frame(10, source.pace(), claimed);
        worst = worst.max(source.error().abs());
    }
    assert!(worst < 0.1, "{worst}");
}

#[test]
fn a_train_shows_no_more_than_the_rate_at_which_it_left() {
    let mut source = Source::new(1e6);
    source.follow(40);
    let honest = source.trains.estimate().unwrap();
    // All of it has come at once, says the receiver; no train leaves at above 1.1 times the path's rate.
    for _ in 0..100 {
        source.frame(20, 1.1e6, 0.0);
    }
    assert!(source.trains.estimate().unwrap() <= honest.scaled(1.2));
}

#[test]
fn what_leaves_between_two_frames_is_no_train() {
    let mut source = Source::new(5e6);
    let mut arrivals = Arrivals::default();
    for packet_number in 0..4 {
        source.sent += MSS;
        source.trains.on_head(source.now);
        source.trains.on_sent(source.now, packet_number, source.sent, true);
        source.trains.on_run_dry();
        source.now += 33 * MS;
        arrivals.push(StampedArrival { packet_number, since_last_us: 33_000, bytes: MSS });
    }
    source.trains.on_arrivals(source.now, &arrivals, KNOWN, MSS);
    assert_eq!(source.trains.estimate(), None);
}

#[test]
fn small_frames_are_split_for_a_fiftieth_of_the_bytes_at_most() {
    let mut source = Source::new(250_000.0);
    let mut cost = 0;
    for _ in 0..1000 {
        if source.trains.splits(800, source.sent, MSS) {
            source.trains.on_cost(SPLIT_COST);
            cost += SPLIT_COST;
        }
        source.sent += 800;
        source.trains.on_sent(source.now, source.next, source.sent, false);
        source.next += 1;
        source.trains.on_run_dry();
    }
    assert!((source.sent / 55..=source.sent / 50).contains(&cost), "{cost}");
    assert!(!source.trains.splits(150, u64::MAX, MSS), "too small");
    assert!(!source.trains.splits(1400, u64::MAX, MSS), "two packets are needed anyway");
}

/// Frames of a thousand bytes and more, of which each leaves in one call and arrives in one.
#[test]
fn trains_that_left_and_arrived_at_once_show_no_more_than_a_rate_that_grows_step_by_step() {
    let mut source = Source::new(5e6);
    source.follow(40);
    let before = source.trains.estimate().unwrap().bytes_per_second();
    for _ in 0..2 {
        let mut arrivals = Arrivals::default();
        for packet in 0..2 {
            source.sent += MSS;
            if packet == 0 {
                source.trains.on_head(source.now);
            }
            source.trains.on_sent(source.now, source.next, source.sent, true);
            arrivals.push(StampedArrival {
                packet_number: source.next,
                since_last_us: packet * 2,
                bytes: packet * MSS,
            });
            source.next += 1;
        }
        source.trains.on_run_dry();
        source.now += 33 * MS;
        source.trains.on_arrivals(source.now, &arrivals, source.known, MSS);
        let estimate = source.trains.estimate().unwrap().bytes_per_second();
        assert!(
            estimate <= 2 * before + before / 100,
            "{estimate} bytes a second behind {before}"
        );
    }
}
