//! One time line for all that is sent, whatever times are in the media.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::sample::{Sample, TrackKind, ticks};

/// Groups that begin this long behind the end of the last one go on from there.
const JUMP: Duration = Duration::from_millis(200);

/// Shifts the times of groups so that they follow each other.
#[derive(Debug, Default)]
pub struct Timeline {
    /// What is added to the times in the media, microseconds.
    shift: i128,
    /// Where the last group's pictures end, on the time line.
    end: Option<Duration>,
    /// Where each sound track's last sample ends, in its ticks.
    ends: BTreeMap<u32, u64>,
}

impl Timeline {
    /// Puts a group on the time line, and leaves out samples that the last group has had. By how many microseconds
    /// its times jump, if they do.
    pub fn place(&mut self, samples: &mut Vec<Sample>) -> Option<i128> {
        let first = samples.iter().find(|sample| sample.kind == TrackKind::Video)?;
        // Times that are rounded overlap by less.
        let overlap = micros((first.lasts() / 2).min(JUMP));
        let first = first.time();
        let (begins, mut jump) = (micros(first) + self.shift, None);
        if let Some(end) = self.end.map(micros)
            && (begins - end > micros(JUMP) || end - begins > overlap)
        {
            self.shift += end - begins;
            jump = Some(begins - end);
        } else if begins < 0 {
            self.shift = -micros(first);
        }
        for sample in &mut *samples {
            sample.decode_time = self.shifted(sample.decode_time, sample.timescale);
        }
        samples.retain(|sample| {
            if sample.kind == TrackKind::Video {
                return true;
            }
            let end = self.ends.entry(sample.track).or_default();
            // Renditions may be cut at other pieces of sound: one comes twice then.
            let is_new = sample.decode_time + u64::from(sample.duration / 2) >= *end;
            if is_new {
                *end = sample.decode_time + u64::from(sample.duration);
            }
            is_new
        });
        let video = samples.iter().rfind(|sample| sample.kind == TrackKind::Video)?;
        let end = video.decode_time + u64::from(video.duration);
        self.end = Some(ticks(end, video.timescale));
        jump
    }

    fn shifted(&self, decode_time: u64, timescale: u32) -> u64 {
        let shift = self.shift * i128::from(timescale) / 1_000_000;
        // Below the longest varint, and with room for the duration.
        u64::try_from((i128::from(decode_time) + shift).clamp(0, 1 << 60)).unwrap_or(0)
    }

    /// Where what has been placed ends.
    pub fn end(&self) -> Duration {
        self.end.unwrap_or_default()
    }
}

fn micros(time: Duration) -> i128 {
    i128::try_from(time.as_micros()).unwrap_or(i128::MAX / 4)
}

/// The time at which a sample is decoded after `start`.
pub fn since(start: Duration, sample: &Sample) -> Duration {
    ticks(sample.decode_time, sample.timescale).saturating_sub(start)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::Synthetic;

    fn second(number: u64) -> Vec<Sample> {
        let mut source = Synthetic::new(vec![400_000], number + 1, 1);
        (0..number).for_each(|_| drop(source.next(0)));
        source.next(0).unwrap()
    }

    fn moved(mut samples: Vec<Sample>, seconds: u64) -> Vec<Sample> {
        for sample in &mut samples {
            sample.decode_time += seconds * u64::from(sample.timescale);
        }
        samples
    }

    #[test]
    fn groups_that_follow_each_other_are_left_as_they_are() {
        let mut timeline = Timeline::default();
        for number in 0..3 {
            let mut samples = second(number);
            assert_eq!(timeline.place(&mut samples), None);
            assert_eq!(samples, second(number));
        }
        assert_eq!(timeline.end().as_millis(), 3000);
    }

    #[test]
    fn times_that_jump_ahead_or_back_go_on_from_where_they_were() {
        let mut timeline = Timeline::default();
        timeline.place(&mut second(0));
        let mut ahead = moved(second(1), 3600);
        assert_eq!(timeline.place(&mut ahead), Some(3_600_000_000));
        assert_eq!(ahead, second(1));
        let mut goes_on = moved(second(2), 3600);
        assert_eq!(timeline.place(&mut goes_on), None);
        assert_eq!(goes_on, second(2));
        let mut back = second(0);
        assert_eq!(timeline.place(&mut back), Some(-3_603_000_000));
        assert_eq!(back[0].time().as_secs(), 3);
        assert!(back.windows(2).all(|pair| pair[0].time() <= pair[1].time()));
    }

    #[test]
    fn a_group_that_begins_early_keeps_all_its_pictures_and_goes_on_from_the_last_one() {
        for early in [5, 100, 199] {
            let mut timeline = Timeline::default();
            timeline.place(&mut second(0));
            let mut next = second(1);
            for sample in &mut next {
                sample.decode_time -= early * u64::from(sample.timescale) / 1000;
            }
            let jump = timeline.place(&mut next);
            let pictures = |samples: &[Sample]| {
                samples.iter().filter(|sample| sample.kind == TrackKind::Video).count()
            };
            assert_eq!(pictures(&next), pictures(&second(1)), "{early} ms");
            // Less than half a picture is let be.
            assert_eq!(jump.is_some(), early > 5);
            assert!(timeline.end().as_millis() >= 1990, "{early} ms");
        }
    }

    #[test]
    fn a_piece_of_sound_that_two_groups_have_is_sent_once() {
        let mut timeline = Timeline::default();
        let (mut first, mut next) = (second(0), second(1));
        let audio = |sample: &&Sample| sample.kind == TrackKind::Audio;
        let twice = first.iter().rfind(audio).cloned().unwrap();
        next.insert(0, twice.clone());
        timeline.place(&mut first);
        timeline.place(&mut next);
        assert!(!next.contains(&twice));
        assert_eq!(next.len(), second(1).len());
    }
}
