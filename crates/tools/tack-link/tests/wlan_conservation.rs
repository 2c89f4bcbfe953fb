//! Whatever is sent over the 802.11 medium, whenever: it arrives or is counted as lost.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test may fail anywhere"
)]

use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use tack_link::wlan::{Options, Parameters, Profile, Wlan, WlanConfig};
use tack_link::{Direction, Link, Packet, Time};

#[derive(Clone, Debug)]
struct Sent {
    gap_us: u64,
    forward: bool,
    size: u32,
}

fn sendings() -> impl Strategy<Value = Vec<Sent>> {
    let gap = prop_oneof![Just(0), 0..60_u64, 0..5_000_u64];
    let sent = (gap, any::<bool>(), 28..=1500_u32);
    vec(sent.prop_map(|(gap_us, forward, size)| Sent { gap_us, forward, size }), 1..150)
}

fn config() -> impl Strategy<Value = WlanConfig> {
    let profile = prop::sample::select(&Profile::ALL[..]);
    let errors = prop::sample::select(vec![0.0, 0.2, 0.8, 1.0]);
    let queue = prop::sample::select(vec![5_000_u64, 1_000_000]);
    (profile, errors, queue, 1..=2_u32, any::<bool>()).prop_map(
        |(profile, errors, queue, hops, uplink)| {
            let options = Options { mpdu_error_rate: Some(errors), ..Options::default() };
            let parameters = Parameters::new(profile, &options).unwrap();
            WlanConfig {
                hops,
                uplink,
                forward_queue_bytes: queue,
                reverse_queue_bytes: queue,
                ..WlanConfig::new(parameters)
            }
        },
    )
}

/// Drives a link and looks at everything that comes out of it.
struct Observer {
    wlan: Wlan,
    sent: [u64; 2],
    arrived: [u64; 2],
    /// Number of the packet that arrived last, in each direction.
    last: [Option<u32>; 2],
    last_arrival: Time,
}

impl Observer {
    fn send(&mut self, direction: Direction, size: u32, now: Time) {
        let number = &mut self.sent[direction.index()];
        let packet = Packet::new(size, *number as u32, now, Vec::new());
        *number += 1;
        self.wlan.send(direction, packet, now);
    }

    fn on_the_way(&self, direction: Direction) -> u64 {
        let gone = self.arrived[direction.index()] + self.wlan.losses(direction).total();
        self.sent[direction.index()].checked_sub(gone).expect("nothing comes from nowhere")
    }

    fn take(&mut self, now: Time) {
        while let Some(arrival) = self.wlan.arrival(now) {
            assert!(arrival.at <= now && arrival.at >= self.last_arrival);
            assert!(arrival.at > arrival.packet.sent);
            self.last_arrival = arrival.at;
            let direction = arrival.direction.index();
            assert!(self.last[direction] < Some(arrival.packet.flow), "in order");
            self.last[direction] = Some(arrival.packet.flow);
            self.arrived[direction] += 1;
        }
        let next = self.wlan.next_event();
        assert!(next.is_none_or(|next| next > now), "everything up to now is done");
        let waiting = Direction::ALL.into_iter().any(|way| self.on_the_way(way) > 0);
        assert!(!waiting || next.is_some(), "what is queued must get its turn");
    }

    fn run_until(&mut self, end: Time) {
        while let Some(now) = self.wlan.next_event().filter(|now| *now <= end) {
            self.take(now);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn what_is_sent_arrives_in_order_or_is_counted_as_lost(
        config in config(),
        sendings in sendings(),
        seed in any::<u64>(),
        prompt in any::<bool>(),
    ) {
        let mut link = Observer {
            wlan: Wlan::new(&config, seed).unwrap(),
            sent: [0; 2],
            arrived: [0; 2],
            last: [None; 2],
            last_arrival: Time::ZERO,
        };
        let mut now = Time::ZERO;
        for sent in &sendings {
            now = now + Duration::from_micros(sent.gap_us);
            if prompt {
                link.run_until(now);
            }
            let direction = if sent.forward { Direction::Forward } else { Direction::Reverse };
            link.send(direction, sent.size, now);
        }
        link.take(now);
        link.run_until(now + Duration::from_secs(600));
        for direction in Direction::ALL {
            prop_assert_eq!(link.on_the_way(direction), 0);
        }
        prop_assert_eq!(link.wlan.next_event(), None);
    }
}
