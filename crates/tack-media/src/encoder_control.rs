//! What an encoder is to do for one peer: its bit rate, and when a key frame is due.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use quiche::BufFactory;
use tacklib::{Connection, MediaStats};

use crate::frame::FrameKind;
use crate::key_frames::KeyFrames;
use crate::overshoot::Overshoot;
use crate::path_rate::path_stats;
use crate::quiet::Quiet;
use crate::rate_control::{EncoderRateControl, RateControlConfig};
use crate::sender::{DropCause, SenderEvent};

/// Frames without which others can be shown, of which an event may still come: a frame sender keeps fewer.
const MOST_EXPENDABLE: usize = 4096;

/// Tells an encoder its bit rate and when to make a key frame, from the path and from what becomes of its frames.
///
/// The rate is that of an [`EncoderRateControl`]. It is lower while key frames are too long for their deadline, and while
/// frames come too late because the encoder, or a muxer behind it, makes more than it was told. A key frame is due at the
/// start, after the loss of a frame that others need, and when the peer asks for one; while the peer receives no key
/// frame, they become due less and less often. An outage of the path changes neither rate nor key frames.
///
/// The application tells it each frame that a [`FrameSender`](crate::FrameSender) has taken, and each event of that.
#[derive(Debug)]
pub struct EncoderControl {
    rate: EncoderRateControl,
    lowest: u64,
    lifetime: Duration,
    key_frames: KeyFrames,
    overshoot: Overshoot,
    quiet: Quiet,
    /// The least one-way delay, as far as it is known.
    one_way: Duration,
    round_trip: Duration,
    has_begun: bool,
    expendable: BTreeSet<u64>,
}

impl EncoderControl {
    /// Begins with [`RateControlConfig::first`], and with a key frame. A frame lives for `lifetime`, from its capture to
    /// its deadline.
    pub fn new(now: Instant, config: RateControlConfig, lifetime: Duration) -> Self {
        Self {
            rate: EncoderRateControl::new(config),
            lowest: config.lowest,
            lifetime,
            key_frames: KeyFrames::new(now, lifetime),
            overshoot: Overshoot::new(now),
            quiet: Quiet::new(),
            one_way: Duration::ZERO,
            round_trip: Duration::ZERO,
            has_begun: false,
            expendable: BTreeSet::new(),
        }
    }

    /// Follows the path. `unwritten` are the bytes that wait in the frame sender ([`FrameSender::unwritten`]). To be called
    /// for each frame or more often.
    ///
    /// [`FrameSender::unwritten`]: crate::FrameSender::unwritten
    pub fn update<F: BufFactory>(
        &mut self,
        now: Instant,
        connection: &Connection<F>,
        unwritten: u64,
    ) {
        let mut stats = path_stats(connection);
        stats.backlog += unwritten;
        let packets = connection.stats();
        self.follow(now, &stats, packets.recv, packets.sent);
    }

    /// Follows the path by what is known of it, where so many packets have come from the peer, and left for it, in all.
    fn follow(&mut self, now: Instant, stats: &MediaStats, received: usize, sent: usize) {
        // Before a frame was sent nothing has shown what the path carries.
        if self.has_begun {
            self.rate.update(now, stats);
        }
        self.key_frames.update(now);
        self.overshoot.update(now);
        self.one_way = stats.min_rtt.unwrap_or_default() / 2;
        self.round_trip = stats.smoothed_rtt.unwrap_or_default();
        if self.quiet.update(now, received, sent, self.round_trip) {
            self.key_frames.on_alive(now);
        }
    }

    /// The frame sender has taken a frame and given it that number. `is_reference`: other frames may need it.
    pub fn on_sent(&mut self, now: Instant, number: u64, kind: FrameKind, is_reference: bool) {
        self.has_begun = true;
        if kind == FrameKind::Key {
            self.key_frames.on_sent(now, number);
        }
        if !is_reference || kind == FrameKind::Audio {
            self.expendable.insert(number);
            if self.expendable.len() > MOST_EXPENDABLE {
                self.expendable.pop_first();
            }
        }
    }

    /// What has become of a frame: all events of the frame sender.
    pub fn on_event(&mut self, now: Instant, event: &SenderEvent) {
        let SenderEvent::Dropped { number, cause } = event else { return };
        let is_key = !self.expendable.remove(number)
            && self.key_frames.on_dropped(now, *number, &self.quiet);
        if !is_key && *cause == DropCause::Late && !self.quiet.is_quiet() {
            self.overshoot.on_late(now, self.lifetime, self.one_way);
        }
    }

    /// A frame that others need has not even been given to the frame sender.
    pub fn on_skipped(&mut self) {
        self.key_frames.on_wanted();
    }

    /// The peer asks for a key frame.
    pub fn on_key_frame_request(&mut self, now: Instant) {
        self.key_frames.on_request(now, self.round_trip);
    }

    /// The bit rate for what is encoded next, bits per second.
    pub fn rate(&self) -> u64 {
        let share = self.key_frames.share() * self.overshoot.share();
        ((self.rate.rate() as f64 * share) as u64).max(self.lowest)
    }

    /// Whether the next picture is to be a key frame: the peer can do nothing with others until then. Meaningless where
    /// only sound is sent.
    pub fn wants_key_frame(&self, now: Instant) -> bool {
        self.key_frames.asks(now)
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods)] // a test counts from some instant
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn control(now: Instant) -> EncoderControl {
        EncoderControl::new(now, RateControlConfig::default(), 200 * MS)
    }

    fn dropped(number: u64, cause: DropCause) -> SenderEvent {
        SenderEvent::Dropped { number, cause }
    }

    #[test]
    fn a_key_frame_is_due_at_first_and_behind_the_loss_of_a_picture_that_others_need() {
        let now = Instant::now();
        let mut control = control(now);
        assert!(control.wants_key_frame(now));
        control.on_sent(now, 0, FrameKind::Key, true);
        control.on_sent(now, 1, FrameKind::Delta, true);
        assert!(!control.wants_key_frame(now));
        control.on_event(now, &dropped(1, DropCause::Expired));
        assert!(control.wants_key_frame(now));
    }

    #[test]
    fn a_loss_before_a_key_frame_that_has_left_asks_for_no_other() {
        let now = Instant::now();
        let mut control = control(now);
        control.on_sent(now, 0, FrameKind::Key, true);
        control.on_sent(now, 1, FrameKind::Delta, true);
        control.on_sent(now, 2, FrameKind::Key, true);
        control.on_event(now, &dropped(1, DropCause::Expired));
        assert!(!control.wants_key_frame(now));
        control.on_event(now, &dropped(2, DropCause::Expired));
        assert!(control.wants_key_frame(now));
    }

    #[test]
    fn sound_and_pictures_that_no_other_needs_are_lost_without_a_key_frame() {
        let now = Instant::now();
        let mut control = control(now);
        control.on_sent(now, 0, FrameKind::Key, true);
        control.on_sent(now, 1, FrameKind::Audio, true);
        control.on_sent(now, 2, FrameKind::Delta, false);
        for number in [1, 2] {
            control.on_event(now, &dropped(number, DropCause::Expired));
        }
        assert!(!control.wants_key_frame(now));
    }

    #[test]
    fn late_frames_lower_the_rate_but_not_in_an_outage() {
        let start = Instant::now();
        let mut stats = MediaStats::default();
        stats.smoothed_rtt = Some(40 * MS);
        let rate_behind = |quiet_for: Duration| {
            let mut control = control(start);
            control.on_sent(start, 0, FrameKind::Key, true);
            control.follow(start, &stats, 1, 1);
            control.follow(start, &stats, 1, 2);
            let now = start + quiet_for;
            control.follow(now, &stats, 1, 2);
            control.on_event(now, &dropped(1, DropCause::Late));
            control.rate()
        };
        assert_eq!(rate_behind(500 * MS), 1_000_000);
        assert_eq!(rate_behind(100 * MS), 930_000);
    }

    #[test]
    fn a_key_frame_of_an_outage_that_is_given_up_behind_it_delays_no_other_one() {
        let start = Instant::now();
        let mut stats = MediaStats::default();
        stats.smoothed_rtt = Some(40 * MS);
        let mut control = control(start);
        control.on_sent(start, 0, FrameKind::Key, true);
        control.follow(start, &stats, 1, 1);
        // Nothing comes for 400 ms.
        for at in [0, 150, 250, 350] {
            control.follow(start + at * MS, &stats, 1, 2);
        }
        control.on_sent(start + 350 * MS, 1, FrameKind::Key, true);
        control.follow(start + 400 * MS, &stats, 2, 3);
        control.on_event(start + 550 * MS, &dropped(1, DropCause::Expired));
        assert!(control.wants_key_frame(start + 550 * MS));
        control.on_sent(start + 550 * MS, 2, FrameKind::Key, true);
        control.on_event(start + 750 * MS, &dropped(2, DropCause::Expired));
        assert!(control.wants_key_frame(start + 750 * MS), "the first that is lost behind it");
        control.on_sent(start + 750 * MS, 3, FrameKind::Key, true);
        control.on_event(start + 950 * MS, &dropped(3, DropCause::Expired));
        assert!(!control.wants_key_frame(start + 950 * MS), "the second one");
    }

    #[test]
    fn key_frames_that_are_too_long_become_shorter_at_four_frames_a_second_too() {
        let start = Instant::now();
        let mut stats = MediaStats::default();
        stats.smoothed_rtt = Some(40 * MS);
        let mut control = control(start);
        let (mut number, mut packets) = (0_u64, 1);
        for tick in 0..400_u64 {
            let now = start + Duration::from_millis(10 * tick);
            let in_frame = tick % 25;
            let is_key = number.is_multiple_of(8);
            if in_frame == 0 {
                let kind = if is_key { FrameKind::Key } else { FrameKind::Delta };
                control.on_sent(now, number, kind, true);
            }
            // What leaves at once is acknowledged within 60 ms, and nothing else comes.
            let received = packets + usize::from(in_frame >= 6);
            control.follow(now, &stats, received, packets + 1);
            if in_frame == 20 && is_key {
                control.on_event(now, &dropped(number, DropCause::Expired));
            }
            if in_frame == 24 {
                (number, packets) = (number + 1, packets + 1);
            }
        }
        assert!(control.rate() < 700_000, "{}", control.rate());
    }

    #[test]
    fn what_is_known_of_expendable_frames_is_bounded() {
        let now = Instant::now();
        let mut control = control(now);
        for number in 0..10_000 {
            control.on_sent(now, number, FrameKind::Audio, false);
        }
        assert_eq!(control.expendable.len(), MOST_EXPENDABLE);
    }
}
