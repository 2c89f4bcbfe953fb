//! One station's fight for the medium: interframe space, backoff, contention window.

use std::time::Duration;

use rand::RngExt;
use rand_pcg::Pcg64Mcg;

use super::parameters::RETRY_LIMIT;
use super::{Access, Parameters};
use crate::Time;

/// The backoff of one station (802.11-2016, 10.3.4.3 for DCF, 10.22.2.2 and 10.22.2.4 for EDCA).
///
/// It does not run a clock: while the medium is idle, the slots that have passed follow from the
/// time. They are counted when the medium gets busy.
#[derive(Clone, Debug)]
pub(super) struct Contention {
    access: Access,
    slot: Duration,
    notice: Duration,
    ifs: Duration,
    cw_min: u32,
    cw_max: u32,
    /// The contention window, CW.
    window: u32,
    /// Failures since the last success (QSRC of 802.11-2016, 10.22.2.2).
    failures: u32,
    /// Slots left at `counts_from`.
    counter: u32,
    /// When the interframe space ends and slots begin to pass; `None` while others are on the
    /// air, or the station itself.
    counts_from: Option<Time>,
    /// When a response or a NAV ends that keeps the medium busy with nobody's PPDU on the air.
    busy_until: Time,
    /// Whether the station waits for an idle DIFS without having drawn a backoff.
    immediate: bool,
    random: Pcg64Mcg,
}

impl Contention {
    /// At the beginning the medium gets idle, and nobody has a backoff.
    pub fn new(parameters: &Parameters, random: Pcg64Mcg) -> Self {
        let timing = parameters.timing();
        Self {
            access: timing.access,
            slot: timing.slot,
            notice: timing.notice,
            ifs: timing.ifs,
            cw_min: parameters.cw_min(),
            cw_max: parameters.cw_max(),
            window: parameters.cw_min(),
            failures: 0,
            counter: 0,
            counts_from: Some(Time::ZERO + timing.ifs),
            busy_until: Time::ZERO,
            immediate: false,
            random,
        }
    }

    /// When the station may send if the medium stays idle; `None` while it is busy. Of meaning
    /// if it has something to send.
    pub fn access(&self) -> Option<Time> {
        self.counts_from.map(|from| from + self.slots(self.counter.into()))
    }

    /// A station that had nothing to send has a frame now.
    pub fn frame_queued(&mut self, now: Time, on_air: bool) {
        let runs = self.counter > 0 && self.access().is_none_or(|access| access >= now);
        if runs {
            return; // the backoff after the last frame goes on
        }
        if on_air || now < self.busy_until {
            // 10.3.4.2 and 10.22.2.2 a): the medium is busy when the frame is queued.
            self.draw();
        } else if let Some(from) = self.counts_from {
            self.counter = 0;
            self.counts_from = Some(match self.access {
                // 10.3.4.2: the medium is idle when the frame is queued, and remains idle for
                // a DIFS.
                Access::Dcf => from.max(now + self.ifs),
                // 10.22.2.4: at the next slot boundary.
                Access::Edca => from + self.slots(self.boundary_at_or_after(from, now)),
            });
            self.immediate = self.access == Access::Dcf;
        }
    }

    /// Another station is on the air, and this one will notice before its own turn.
    pub fn medium_busy(&mut self, at: Time) {
        let Some(from) = self.counts_from.take() else { return };
        let passed = u32::try_from(self.slots_passed(from, at)).unwrap_or(u32::MAX);
        self.counter = self.counter.saturating_sub(passed);
        if self.immediate {
            // 10.3.4.2: the medium did not remain idle. "Otherwise the random backoff procedure
            // shall be followed."
            self.draw();
        }
    }

    /// The medium is idle, or will be at `busy_until`; slots pass from `counts_from` on.
    pub fn medium_idle(&mut self, busy_until: Time, counts_from: Time) {
        self.busy_until = busy_until;
        self.counts_from = Some(counts_from);
    }

    /// The station is on the air.
    pub fn transmits(&mut self) {
        self.counts_from = None;
        self.counter = 0;
        self.immediate = false;
    }

    /// The response came. There is a backoff after every frame, whether another waits or not.
    pub fn succeeded(&mut self) {
        self.failures = 0;
        self.window = self.cw_min;
        self.draw();
    }

    /// No response came.
    pub fn failed(&mut self) {
        self.failures += 1;
        if self.failures > RETRY_LIMIT {
            self.failures = 0;
            self.window = self.cw_min;
        } else {
            self.window = (2 * self.window + 1).min(self.cw_max);
        }
        self.draw();
    }

    fn draw(&mut self) {
        self.counter = self.random.random_range(0..=self.window);
        self.immediate = false;
    }

    /// How often the counter has gone down when the station notices that the medium is busy.
    /// DCF counts slots that were idle; EDCA counts slot boundaries, and the end of the
    /// interframe space is one (10.22.2.4).
    fn slots_passed(&self, from: Time, busy: Time) -> u64 {
        let boundaries = self.boundary_at_or_after(from, busy + self.notice);
        match self.access {
            Access::Dcf => boundaries.saturating_sub(1),
            Access::Edca => boundaries,
        }
    }

    /// The number of the first slot boundary, counted from the one at `from`, that does not lie
    /// before `at`.
    fn boundary_at_or_after(&self, from: Time, at: Time) -> u64 {
        Time::from(at.since(from)).as_nanos().div_ceil(self.slot.as_nanos() as u64)
    }

    fn slots(&self, number: u64) -> Duration {
        Duration::from_nanos(number * self.slot.as_nanos() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::stream;
    use crate::wlan::Profile;

    const US: u64 = 1_000;

    fn contention(profile: Profile) -> Contention {
        Contention::new(&Parameters::from(profile), stream(1, 0))
    }

    fn at(micros: u64) -> Time {
        Time::from_nanos(micros * US)
    }

    fn access_us(contention: &Contention) -> u64 {
        contention.access().unwrap().as_nanos() / US
    }

    #[test]
    fn dcf_sends_a_lone_frame_after_an_idle_difs() {
        let mut station = contention(Profile::G);
        station.frame_queued(at(1001), false);
        assert_eq!(access_us(&station), 1001 + 28);
    }

    #[test]
    fn edca_sends_a_lone_frame_at_the_next_slot_boundary() {
        let mut station = contention(Profile::N);
        station.frame_queued(at(43 + 9 * 10 + 1), false);
        assert_eq!(access_us(&station), 43 + 9 * 11);
    }

    #[test]
    fn a_frame_queued_while_the_medium_is_busy_waits_for_a_backoff() {
        let mut station = contention(Profile::N);
        station.medium_busy(at(100));
        station.frame_queued(at(150), true);
        station.medium_idle(at(300), at(343));
        assert_eq!(access_us(&station), 343 + 9 * u64::from(station.counter));
        assert!(station.counter > 0, "the seed draws some slots");
    }

    #[test]
    fn the_time_of_a_response_is_busy_too() {
        let mut station = contention(Profile::N);
        station.medium_busy(at(100));
        station.medium_idle(at(300), at(343));
        station.frame_queued(at(200), false);
        assert!(station.counter > 0, "the seed draws some slots");
    }

    #[test]
    fn a_backoff_is_frozen_while_the_medium_is_busy() {
        for (profile, left) in [(Profile::G, 7), (Profile::N, 6)] {
            let mut station = contention(profile);
            station.counter = 10;
            station.medium_idle(at(0), at(1000));
            station.medium_busy(at(1000 + 3 * 9));
            assert_eq!(station.access(), None);
            assert_eq!(
                station.counter, left,
                "EDCA counts the boundary at the AIFS, {profile}"
            );
        }
    }

    #[test]
    fn a_backoff_that_ran_out_unused_leaves_immediate_access() {
        let mut station = contention(Profile::N);
        station.succeeded();
        station.medium_idle(at(0), at(43));
        station.frame_queued(at(43 + 900), false);
        assert_eq!(access_us(&station), 43 + 900);
    }

    #[test]
    fn a_backoff_after_a_frame_holds_the_next_one_up() {
        let mut station = contention(Profile::N);
        station.counter = 12;
        station.medium_idle(at(0), at(43));
        station.frame_queued(at(80), false);
        assert_eq!(access_us(&station), 43 + 12 * 9);
    }

    #[test]
    fn dcf_draws_a_backoff_when_the_medium_gets_busy_within_the_difs() {
        let mut station = contention(Profile::G);
        station.frame_queued(at(1000), false);
        station.medium_busy(at(1010));
        assert!(station.counter > 0, "the seed draws some slots");
    }

    #[test]
    fn the_window_doubles_up_to_the_largest_and_returns_after_the_last_retry() {
        let mut station = contention(Profile::N);
        let mut windows = Vec::new();
        for _ in 0..=RETRY_LIMIT {
            station.failed();
            windows.push(station.window);
        }
        assert_eq!(windows, [31, 63, 127, 255, 511, 1023, 1023, 15]);
    }

    #[test]
    fn a_success_resets_the_window() {
        let mut station = contention(Profile::N);
        station.failed();
        station.succeeded();
        assert_eq!(station.window, 15);
    }
}
