//! A call: audio and two videos, sent as they are made, and how late each frame is.

use std::time::Duration;

use tack_link::Time;

use super::content::Content;
use super::peer::Peer;
use super::scenario::Call;
use super::{Error, FrameReport};

const AUDIO_EVERY: Duration = Duration::from_millis(20);
const AUDIO_BYTES: u64 = 80;
const FRAMES_PER_SECOND: u64 = 30;
/// Frames of a group, of which the first can be shown without others.
const GROUP: u64 = 30;
/// A frame of the second video that is later than this ends its group.
const PATIENCE: Duration = Duration::from_millis(250);
/// The first video is on every even stream, the second on every odd one.
const VIDEOS: [Video; 2] = [
    Video { first_frame: 37_500, other_frame: 3750, priority: 4 },
    Video { first_frame: 62_500, other_frame: 6250, priority: 6 },
];

/// A video: frames of known sizes.
#[derive(Clone, Copy, Debug)]
struct Video {
    /// Bytes of a group's first frame.
    first_frame: u64,
    /// Bytes of each other frame.
    other_frame: u64,
    /// Urgency as in RFC 9218: lower goes first.
    priority: u8,
}

impl Video {
    /// Bytes of the first frames of a group.
    const fn bytes(self, frames: u64) -> u64 {
        if frames == 0 { 0 } else { self.first_frame + (frames - 1) * self.other_frame }
    }
}

/// Both applications of a call: the server's makes the frames, the client's reads them.
#[derive(Debug)]
pub struct CallRun {
    call: Call,
    /// When the server got the request and made the first frames.
    start: Option<Time>,
    audio_sent: u64,
    /// Whether each frame of audio has come.
    audio_read: Vec<bool>,
    /// In the order of their streams.
    groups: Vec<Group>,
    latencies: Latencies,
}

/// A group of frames on its stream.
#[derive(Clone, Copy, Debug, Default)]
struct Group {
    written: u64,
    ended: bool,
    read: u64,
    /// Frames that have been read whole.
    frames_read: u64,
    stopped: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Latencies {
    count: u64,
    sum_ms: f64,
    max_ms: f64,
}

impl CallRun {
    pub fn new(call: Call) -> Self {
        let groups = call.video_frames.div_ceil(GROUP) * VIDEOS.len() as u64;
        Self {
            call,
            start: None,
            audio_sent: 0,
            audio_read: vec![false; call.audio_frames as usize],
            groups: vec![Group::default(); groups as usize],
            latencies: Latencies::default(),
        }
    }

    /// The server's application: hands over what has been made and not been taken yet.
    pub fn supply(&mut self, peer: &mut dyn Peer, content: &Content, now: Time) {
        if self.start.is_none() && peer.is_requested() {
            self.start = Some(now);
        }
        let Some(start) = self.start else { return };
        while self.audio_sent < self.call.audio_frames && self.audio_at(start) <= now {
            let mut frame = content.at(0, AUDIO_BYTES).to_vec();
            frame[..8].copy_from_slice(&self.audio_sent.to_be_bytes());
            peer.send_datagram(&frame);
            self.audio_sent += 1;
        }
        // The first video first, in every group: a stack's room is given away in this order.
        for (which, video) in VIDEOS.into_iter().enumerate() {
            for at in (which..self.groups.len()).step_by(VIDEOS.len()) {
                let frames = self.frames_of(at);
                let made = (0..frames).take_while(|frame| made(at, *frame, start) <= now);
                let made = made.count() as u64;
                let group = &mut self.groups[at];
                if made == 0 || group.ended {
                    continue;
                }
                let until = video.bytes(made);
                let last = made == frames;
                let (taken, ended) = peer.write_stream(
                    at as u64,
                    video.priority,
                    content,
                    group.written..until,
                    last,
                );
                group.written += taken;
                group.ended = ended;
            }
        }
    }

    /// The client's application: reads all there is, and gives up groups that are too late.
    /// `Err` with the offset of what does not match.
    pub fn consume(
        &mut self,
        peer: &mut dyn Peer,
        content: &Content,
        now: Time,
    ) -> Result<(), u64> {
        let Some(start) = self.start else { return Ok(()) };
        while let Some(frame) = peer.read_datagram() {
            let Some(number) = frame.first_chunk().map(|bytes| u64::from_be_bytes(*bytes))
            else {
                continue;
            };
            if let Some(read) = self.audio_read.get_mut(number as usize)
                && !std::mem::replace(read, true)
            {
                self.note(start + AUDIO_EVERY * number as u32, now);
            }
        }
        for at in 0..self.groups.len() {
            let frames = self.frames_of(at);
            if made(at, 0, start) > now {
                break;
            }
            let group = self.groups[at];
            if group.stopped || group.frames_read == frames {
                continue;
            }
            self.groups[at].read = peer.read_stream(at as u64, content, group.read)?;
            self.note_frames(at, start, now);
            let group = self.groups[at];
            let late = made(at, group.frames_read, start) + PATIENCE <= now;
            if at % VIDEOS.len() == 1 && group.frames_read < frames && late {
                self.groups[at].stopped = peer.stop_stream(at as u64);
            }
        }
        Ok(())
    }

    /// When one of the applications next has something to do by itself.
    pub fn next_event(&self, now: Time) -> Option<Time> {
        let start = self.start?;
        let audio = (self.audio_sent < self.call.audio_frames).then(|| self.audio_at(start));
        let since = now.since(start).as_nanos() as u64 * FRAMES_PER_SECOND / 1_000_000_000;
        let video = (since..since + 3).filter(|frame| *frame < self.call.video_frames);
        let video = video.map(|frame| video_at(start, frame)).find(|at| *at > now);
        let late = (1..self.groups.len()).step_by(VIDEOS.len()).filter_map(|at| {
            let group = self.groups[at];
            let waits = !group.stopped && group.frames_read < self.frames_of(at);
            let late_at = made(at, group.frames_read, start) + PATIENCE;
            (waits && late_at > now).then_some(late_at)
        });
        audio.into_iter().chain(video).chain(late).min()
    }

    /// How late the frames were, with those that are missing at `now`.
    pub fn report(mut self, now: Time) -> Result<FrameReport, Error> {
        let Some(start) = self.start else {
            let problem = "the call never began".to_owned();
            return Err(Error::Scenario { field: "call", problem });
        };
        let lost_audio = self.audio_read.iter().filter(|read| !**read).count() as u64;
        for frame in 0..self.audio_sent {
            if !self.audio_read[frame as usize] {
                let made = start + AUDIO_EVERY * frame as u32;
                self.note(made, made + PATIENCE);
            }
        }
        for at in (0..self.groups.len()).step_by(VIDEOS.len()) {
            for frame in self.groups[at].frames_read..self.frames_of(at) {
                self.note(made(at, frame, start), now);
            }
        }
        let Latencies { count, sum_ms, max_ms } = self.latencies;
        Ok(FrameReport {
            count,
            mean_ms: sum_ms / count.max(1) as f64,
            max_ms,
            lost_audio,
            stopped_groups: self.groups.iter().filter(|group| group.stopped).count() as u64,
        })
    }

    fn note_frames(&mut self, at: usize, start: Time, now: Time) {
        let which = at % VIDEOS.len();
        let (video, frames) = (VIDEOS[which], self.frames_of(at));
        while self.groups[at].frames_read < frames
            && self.groups[at].read >= video.bytes(self.groups[at].frames_read + 1)
        {
            if which == 0 {
                self.note(made(at, self.groups[at].frames_read, start), now);
            }
            self.groups[at].frames_read += 1;
        }
    }

    /// A frame that counts, unless it was made too early.
    fn note(&mut self, made: Time, now: Time) {
        if self.start.is_some_and(|start| made.since(start) < self.call.measured_from) {
            return;
        }
        let ms = now.since(made).as_secs_f64() * 1e3;
        self.latencies.count += 1;
        self.latencies.sum_ms += ms;
        self.latencies.max_ms = self.latencies.max_ms.max(ms);
    }

    fn audio_at(&self, start: Time) -> Time {
        start + AUDIO_EVERY * self.audio_sent as u32
    }

    /// How many frames the group on a stream has.
    fn frames_of(&self, at: usize) -> u64 {
        let before = (at / VIDEOS.len()) as u64 * GROUP;
        self.call.video_frames.saturating_sub(before).min(GROUP)
    }
}

/// When a frame of the group on a stream is made.
fn made(at: usize, frame: u64, start: Time) -> Time {
    video_at(start, (at / VIDEOS.len()) as u64 * GROUP + frame)
}

fn video_at(start: Time, frame: u64) -> Time {
    start + Duration::from_nanos(frame * 1_000_000_000 / FRAMES_PER_SECOND)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::ops::Range;
    use std::time::Instant;

    use super::super::peer::Consumed;
    use super::*;

    /// A stack whose other end gets what it takes when the test says so.
    #[derive(Default)]
    struct Pipe {
        requested: bool,
        /// What a stream takes of what is written.
        room: u64,
        datagrams: Vec<Vec<u8>>,
        written: BTreeMap<u64, u64>,
        stopped: Vec<u64>,
    }

    impl Peer for Pipe {
        fn receive(&mut self, _: &mut [u8], _: tack_link::Ecn, _: Duration) {}
        fn transmit(&mut self, _: &mut Vec<u8>) -> Option<(Instant, tack_link::Ecn)> {
            None
        }
        fn timeout(&mut self) -> Option<Instant> {
            None
        }
        fn on_timeout(&mut self) {}
        fn supply(&mut self, _: &Content, _: u64, _: bool) {}
        fn consume(&mut self, _: &Content) -> Result<Consumed, u64> {
            Ok(Consumed::default())
        }
        fn min_rtt(&self) -> Option<Duration> {
            None
        }
        fn closed(&self) -> Option<String> {
            None
        }
        fn is_requested(&mut self) -> bool {
            self.requested
        }
        fn send_datagram(&mut self, datagram: &[u8]) {
            self.datagrams.push(datagram.to_vec());
        }
        fn write_stream(
            &mut self,
            stream: u64,
            _: u8,
            _: &Content,
            range: Range<u64>,
            last: bool,
        ) -> (u64, bool) {
            let taken = (range.end - range.start).min(self.room);
            *self.written.entry(stream).or_default() += taken;
            (taken, last && range.start + taken == range.end)
        }
        fn read_datagram(&mut self) -> Option<Vec<u8>> {
            self.datagrams.pop()
        }
        fn read_stream(&mut self, stream: u64, _: &Content, _: u64) -> Result<u64, u64> {
            Ok(self.written.get(&stream).copied().unwrap_or_default())
        }
        fn stop_stream(&mut self, stream: u64) -> bool {
            self.stopped.push(stream);
            true
        }
    }

    const CALL: Call =
        Call { audio_frames: 50, video_frames: 30, measured_from: Duration::from_millis(200) };

    fn at(ms: u64) -> Time {
        Time::from(Duration::from_millis(ms))
    }

    /// Runs the call to its end; the stack has `room` for so many bytes of each write, and the
    /// client reads so late.
    fn run(room: u64, late: u64) -> (FrameReport, Pipe) {
        let content = Content::new();
        let mut pipe = Pipe { requested: true, room, ..Pipe::default() };
        let mut call = CallRun::new(CALL);
        for ms in 0..1500 {
            call.supply(&mut pipe, &content, at(ms));
            if late == 0 || ms % late == late - 1 {
                call.consume(&mut pipe, &content, at(ms)).unwrap();
            }
        }
        (call.report(at(1500)).unwrap(), pipe)
    }

    #[test]
    fn frames_that_pass_at_once_are_not_late_and_those_of_the_start_do_not_count() {
        let (frames, pipe) = run(u64::MAX, 0);
        // 40 of audio and 24 of video are made from 200 ms on.
        assert_eq!((frames.count, frames.lost_audio, frames.stopped_groups), (64, 0, 0));
        assert!(frames.max_ms < 1.0, "{frames:?}");
        assert_eq!(pipe.written[&0], VIDEOS[0].bytes(30));
        assert_eq!(pipe.written[&1], VIDEOS[1].bytes(30));
    }

    #[test]
    fn a_frame_is_as_late_as_its_last_byte() {
        let (frames, _) = run(u64::MAX, 50);
        assert!((45.0..51.0).contains(&frames.max_ms), "{frames:?}");
        assert!((15.0..35.0).contains(&frames.mean_ms), "{frames:?}");
    }

    #[test]
    fn audio_that_never_comes_counts_as_late_as_what_is_given_up() {
        let content = Content::new();
        let mut pipe = Pipe { requested: true, room: u64::MAX, ..Pipe::default() };
        let mut call = CallRun::new(CALL);
        for ms in 0..1500 {
            call.supply(&mut pipe, &content, at(ms));
            if ms == 500 {
                pipe.datagrams.clear();
            }
            call.consume(&mut pipe, &content, at(ms)).unwrap();
        }
        let frames = call.report(at(1500)).unwrap();
        assert_eq!((frames.count, frames.lost_audio), (64, 1), "{frames:?}");
        assert!((frames.max_ms - 250.0).abs() < 1.0, "{frames:?}");
    }

    #[test]
    fn a_late_group_of_the_second_video_is_stopped_and_one_of_the_first_is_not() {
        // 30 bytes a millisecond: the first frames take seconds.
        let (frames, pipe) = run(30, 0);
        assert_eq!(pipe.stopped, [1]);
        assert_eq!(frames.stopped_groups, 1);
        // The frame of 200 ms is still missing.
        assert!((frames.max_ms - 1300.0).abs() < 1.0, "{frames:?}");
    }

    #[test]
    fn a_frame_has_its_time_even_if_nothing_else_happens() {
        let mut call = CallRun::new(CALL);
        assert_eq!(call.next_event(at(0)), None);
        let mut pipe = Pipe { requested: true, room: 0, ..Pipe::default() };
        call.supply(&mut pipe, &Content::new(), at(100));
        assert_eq!(call.next_event(at(100)), Some(at(120)));
        call.supply(&mut pipe, &Content::new(), at(120));
        let next = call.next_event(at(120)).unwrap();
        assert_eq!(next.as_nanos() / 1000, 133_333);
    }
}
