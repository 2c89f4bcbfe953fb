//! Live frames, each on a stream of its own, and which of them come in time.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use tack_link::Time;
use tack_media::{EncoderRateControl, RateControlConfig};

use super::content::Content;
use super::peer::Peer;
use super::scenario::{FrameRate, Frames};
use super::{DeliveredFrames, Error};

/// Urgency of all frames (RFC 9218's default): among equals the older stream goes first.
const URGENCY: u8 = 3;

/// A frame that has not come so long after it was made never counts as delivered.
const GIVEN_UP: Duration = Duration::from_secs(3);

/// Both applications: the server's makes frames and drops those that wait too long, the client's
/// reads them.
#[derive(Debug)]
pub struct FramesRun {
    frames: Frames,
    /// When the server got the request and made the first frame.
    start: Option<Time>,
    made: u64,
    /// The frames that wait for the stack.
    waiting: VecDeque<Made>,
    /// The frame that is being written, and how much of it is.
    current: Option<(Made, u64)>,
    /// Frames that have begun.
    begun: u64,
    /// Streams that have not been read whole: number, frame, bytes read.
    open: VecDeque<(u64, Made, u64)>,
    /// Deadlines of streams that have begun since they were last taken.
    deadlines: Vec<(u64, Time)>,
    counts: Counts,
    delays_us: Vec<u64>,
    completed: Vec<(Time, Option<Duration>)>,
    estimates: Vec<(f64, f64)>,
    rates: Vec<(f64, f64)>,
    control: Option<EncoderRateControl>,
    probing_share: Option<f64>,
}

/// Payload of a frame in a DATAGRAM, bytes, behind the number of the frame.
const PART: u64 = 1200;
const PART_HEADER: usize = 8;

/// A frame: when it was made, and its length.
#[derive(Clone, Copy, Debug)]
struct Made {
    at: Time,
    bytes: u64,
}

impl Made {
    /// DATAGRAMs that it takes.
    fn parts(self) -> u64 {
        self.bytes.div_ceil(PART)
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    made: u64,
    dropped: u64,
    in_time: u64,
}

impl FramesRun {
    pub fn new(frames: Frames) -> Self {
        Self {
            frames,
            start: None,
            made: 0,
            waiting: VecDeque::new(),
            current: None,
            begun: 0,
            open: VecDeque::new(),
            deadlines: Vec::new(),
            counts: Counts { made: 0, dropped: 0, in_time: 0 },
            delays_us: Vec::new(),
            completed: Vec::new(),
            estimates: Vec::new(),
            rates: Vec::new(),
            control: match frames.rate {
                FrameRate::Adaptive(first) => {
                    let mut config = RateControlConfig::default();
                    config.first = first;
                    Some(EncoderRateControl::new(config))
                }
                _ => None,
            },
            probing_share: None,
        }
    }

    /// The server's application: hands over what the stack takes, one frame after the other.
    pub fn supply(
        &mut self,
        peer: &mut dyn Peer,
        content: &Content,
        now: Time,
        epoch: Instant,
    ) {
        if self.start.is_none() && peer.is_requested() {
            self.start = Some(now);
        }
        let Some(start) = self.start else { return };
        self.make(peer, start, now, epoch);
        if self.frames.as_datagrams {
            self.send_datagrams(peer);
            return;
        }
        self.drop_old(now);
        loop {
            let Some((made, written)) = self.current else {
                let Some(made) = self.waiting.pop_front() else { return };
                self.current = Some((made, 0));
                continue;
            };
            let deadline = made.at + self.frames.lifetime;
            if written > 0 && self.frames.has_deadlines && deadline <= now {
                // The stack has reset the stream.
                self.current = None;
                self.begun += 1;
                self.drop_old(now);
                continue;
            }
            let (taken, ended) =
                peer.write_stream(self.begun, URGENCY, content, written..made.bytes, true);
            if written == 0 && taken > 0 {
                self.open.push_back((self.begun, made, 0));
                self.deadlines.push((self.begun, deadline));
                if self.frames.has_deadlines {
                    peer.set_stream_deadline(self.begun, epoch + deadline.since(Time::ZERO));
                }
            }
            if ended {
                self.current = None;
                self.begun += 1;
                continue;
            }
            if written + taken == 0 {
                // It has not begun: a fresher one may go in its place.
                self.current = None;
                self.waiting.push_front(made);
            } else {
                self.current = Some((made, written + taken));
            }
            return;
        }
    }

    /// Makes the frames that are due.
    fn make(&mut self, peer: &mut dyn Peer, start: Time, now: Time, epoch: Instant) {
        while self.made_at(start) <= now {
            let at = self.made_at(start);
            let stats = peer.media_stats();
            let estimate = stats.map(|stats| 8.0 * stats.estimated_send_rate as f64);
            let adaptive = match (&mut self.control, &stats) {
                (Some(control), Some(stats)) => {
                    control.update(epoch + at.since(Time::ZERO), stats)
                }
                _ => 0,
            };
            self.probing_share = peer.probing_share();
            let age = at.since(Time::ZERO);
            self.estimates.extend(estimate.map(|bps| (age.as_secs_f64(), bps)));
            let bps = self.frames.rate.bps(age, estimate, adaptive);
            self.rates.push((age.as_secs_f64(), bps));
            let bytes = ((bps / 8.0 / self.frames.fps) as u64).max(1);
            self.waiting.push_back(Made { at, bytes });
            self.made += 1;
            self.counts.made += u64::from(self.counts_at(at));
        }
    }

    /// Hands over all frames that wait, cut into DATAGRAMs: number of the frame, of the part, and how many parts.
    fn send_datagrams(&mut self, peer: &mut dyn Peer) {
        while let Some(made) = self.waiting.pop_front() {
            for part in 0..made.parts() {
                let last = made.bytes - part * PART;
                let mut datagram = vec![0; PART_HEADER + last.min(PART) as usize];
                datagram[..8].copy_from_slice(&self.begun.to_be_bytes());
                peer.send_datagram(&datagram);
            }
            self.open.push_back((self.begun, made, 0));
            self.begun += 1;
        }
    }

    /// Counts the DATAGRAMs that have come of each frame.
    fn read_datagrams(&mut self, peer: &mut dyn Peer) {
        while let Some(datagram) = peer.read_datagram() {
            let Some(number) = datagram.first_chunk().map(|bytes| u64::from_be_bytes(*bytes))
            else {
                continue;
            };
            let first = self.open.front().map_or(0, |(number, ..)| *number);
            let at = number.checked_sub(first).and_then(|at| usize::try_from(at).ok());
            if let Some((_, _, parts)) = at.and_then(|at| self.open.get_mut(at)) {
                *parts += 1;
            }
        }
    }

    /// Frames that have waited too long and have not begun.
    fn drop_old(&mut self, now: Time) {
        while let Some(made) = self.waiting.front().copied()
            && now.since(made.at) > self.frames.patience
        {
            self.waiting.pop_front();
            self.counts.dropped += u64::from(self.counts_at(made.at));
            self.completed.push((made.at, None));
        }
    }

    /// The client's application: reads all there is. `Err` with the offset of what does not match.
    pub fn consume(
        &mut self,
        peer: &mut dyn Peer,
        content: &Content,
        now: Time,
    ) -> Result<(), u64> {
        if self.frames.as_datagrams {
            self.read_datagrams(peer);
        }
        let mut open = std::mem::take(&mut self.open);
        for (stream, made, read) in &mut open {
            let whole = if self.frames.as_datagrams {
                *read == made.parts()
            } else if *read < made.bytes {
                *read = peer.read_stream(*stream, content, *read)?;
                *read == made.bytes
            } else {
                false
            };
            if !whole {
                continue;
            }
            let delay = now.since(made.at);
            // It is not looked at again.
            *read = u64::MAX;
            self.completed.push((made.at, Some(delay)));
            if self.counts_at(made.at) {
                self.delays_us.push(delay.as_micros() as u64);
                self.counts.in_time += u64::from(delay <= self.frames.playout);
            }
        }
        // In the order of their numbers, without gaps: DATAGRAMs are counted by it.
        while let Some((_, made, read)) = open.front()
            && (*read == u64::MAX || now.since(made.at) >= GIVEN_UP)
        {
            if *read != u64::MAX {
                self.completed.push((made.at, None));
            }
            open.pop_front();
        }
        self.open = open;
        Ok(())
    }

    /// The streams that have begun since the last call, and their deadlines.
    pub fn take_deadlines(&mut self) -> Vec<(u64, Time)> {
        std::mem::take(&mut self.deadlines)
    }

    /// When the next frame is made.
    pub fn next_event(&self) -> Option<Time> {
        self.start.map(|start| self.made_at(start))
    }

    /// Which frames came, and how late, with those that are missing at `end`.
    pub fn report(mut self, end: Time) -> Result<DeliveredFrames, Error> {
        if self.start.is_none() {
            let problem = "the source never began".to_owned();
            return Err(Error::Scenario { field: "frames", problem });
        }
        self.delays_us.sort_unstable();
        let delivered = percentiles_ms(&self.delays_us);
        let mut all = self.delays_us.clone();
        all.resize(all.len() + self.missing(end), NEVER_US);
        let all = percentiles_ms(&all);
        let from = Time::from(self.frames.measured_from);
        Ok(DeliveredFrames {
            made: self.counts.made,
            dropped: self.counts.dropped,
            delivered: self.delays_us.len() as u64,
            in_time: self.counts.in_time,
            delay_p50_ms: all[0],
            delay_p99_ms: all[1],
            delivered_p50_ms: delivered[0],
            delivered_p99_ms: delivered[1],
            probing_share: self.probing_share,
            frames: {
                self.completed.sort_by_key(|(made, _)| *made);
                let counted = self.completed.iter().filter(|(made, _)| *made >= from);
                let seconds = |time: Duration| time.as_secs_f64();
                counted
                    .map(|(made, delay)| (seconds(made.since(Time::ZERO)), delay.map(seconds)))
                    .collect()
            },
            estimates: self.estimates,
            rates: self.rates,
        })
    }

    /// Frames that count and never came: those that were dropped or given up, and those that are not there at `end`
    /// though their time is over.
    fn missing(&self, end: Time) -> usize {
        let never = self.completed.iter().filter(|(_, delay)| delay.is_none());
        let waiting = self.waiting.iter();
        let open = self.open.iter().filter(|(_, _, read)| *read != u64::MAX);
        let late = waiting.chain(open.map(|(_, made, _)| made));
        let late = late.filter(|made| made.at + self.frames.playout <= end);
        let made = never.map(|(made, _)| *made).chain(late.map(|made| made.at));
        made.filter(|made| self.counts_at(*made)).count()
    }

    fn counts_at(&self, made: Time) -> bool {
        made >= Time::from(self.frames.measured_from)
    }

    fn made_at(&self, start: Time) -> Time {
        start + Duration::from_secs_f64(self.made as f64 / self.frames.fps)
    }
}

/// The time of a frame that never comes: later than all others.
const NEVER_US: u64 = u64::MAX;

/// Median and 99th percentile of sorted times; none for one that is of a frame that never came.
fn percentiles_ms(sorted_us: &[u64]) -> [Option<f64>; 2] {
    [0.5, 0.99].map(|share| {
        let at = sorted_us.len().saturating_sub(1) as f64 * share;
        let us = sorted_us.get(at.ceil() as usize).filter(|us| **us != NEVER_US)?;
        Some(*us as f64 / 1e3)
    })
}
