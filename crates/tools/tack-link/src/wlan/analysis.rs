//! What can be calculated, to hold the simulation against.

use super::Parameters;
use super::ampdu::{Limits, Psdu};
use super::source::{FULL_PACKET_BYTES, FULL_PAYLOAD_BYTES};

/// Goodput in Mbit/s of UDP payload of a single station that always has a packet of 1500 bytes to
/// send and gets nothing back but responses of the MAC:
/// payload / (IFS + CWmin / 2 slots + PPDU + SIFS + response).
///
/// Without collisions and damage the contention window stays as it is.
pub fn closed_form(parameters: &Parameters) -> f64 {
    let timing = parameters.timing();
    let limits = Limits::new(parameters, true);
    let mut psdu = Psdu::default();
    while psdu.push(FULL_PACKET_BYTES, &limits) {}
    let response = if psdu.mpdus() == 1 { timing.ack } else { timing.block_ack };
    let backoff = timing.slot * parameters.cw_min() / 2;
    let cycle = timing.ifs + backoff + psdu.duration(&timing) + timing.sifs + response;
    let bits = 8 * FULL_PAYLOAD_BYTES * psdu.mpdus();
    f64::from(bits) / cycle.as_secs_f64() / 1e6
}

/// Probability that a transmission collides when that many stations always have something to
/// send (G. Bianchi, "Performance analysis of the IEEE 802.11 distributed coordination
/// function", 2000, equations 7 and 9).
///
/// `max_backoff_stage` is how often the contention window doubles: 5 from 31 to 1023. That stations
/// are independent of each other is an approximation: the backoffs of two of them, followed
/// exactly, collide with 5.9 and 11.1 % where this gives 5.7 and 10.5 % (windows of 32 and 16).
pub fn bianchi(stations: u32, cw_min: u32, max_backoff_stage: u32) -> f64 {
    let others = f64::from(stations.saturating_sub(1));
    let window = f64::from(cw_min) + 1.0;
    // Probability that a station sends in a slot if its transmissions collide with probability p.
    let sends = |p: f64| {
        let stages = (0..max_backoff_stage).map(|stage| (2.0 * p).powf(stage.into()));
        2.0 / (1.0 + window + p * window * stages.sum::<f64>())
    };
    let collides = |p: f64| 1.0 - (1.0 - sends(p)).powf(others);
    // The more collisions, the fewer transmissions: there is one fixed point.
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        if collides(middle) > middle { low = middle } else { high = middle }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wlan::Profile;

    #[test]
    fn the_closed_form_of_each_profile_is_what_pencil_and_paper_give() {
        let expected = [6.964, 25.298, 211.880, 589.727];
        for (profile, expected) in Profile::ALL.into_iter().zip(expected) {
            let goodput = closed_form(&Parameters::from(profile));
            assert!((goodput / expected - 1.0).abs() < 1e-4, "{profile}: {goodput}");
        }
    }

    #[test]
    fn bianchi_for_two_stations_is_what_he_says() {
        assert!((bianchi(2, 31, 5) - 0.057).abs() < 5e-4, "{}", bianchi(2, 31, 5));
        assert!((bianchi(2, 15, 6) - 0.105).abs() < 5e-4, "{}", bianchi(2, 15, 6));
    }

    #[test]
    fn a_single_station_never_collides() {
        assert!(bianchi(1, 15, 6) < 1e-9);
    }
}
