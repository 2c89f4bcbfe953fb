//! What a live source is told, and may write ahead, behind a fall of the path's rate.

#![allow(clippy::unwrap_used)] // a test that cannot be set up has failed

mod common;

use std::time::{Duration, Instant};

use common::*;
use tacklib::{Connection, Profile};

const MS: Duration = Duration::from_millis(1);
const FRAME_INTERVAL: Duration = Duration::from_millis(33);
/// The path behind the fall, Mbit/s.
const LOW: u64 = 2;
/// Urgencies of sound and pictures.
const SOUND: u8 = 2;
const PICTURES: u8 = 3;

type Ends = Pair<Connection, Connection>;

/// A source of pictures at the client, with streams of its own.
struct Source {
    pair: Ends,
    next: u64,
}

impl Source {
    fn over(megabits: u64) -> Self {
        let client = tack_client(&mut profile_config(Profile::Video));
        let server = tack_server(&mut profile_config(Profile::Video));
        let pair = Pair::new(client, server).with_delay(20 * MS).with_rate(megabits);
        let mut pair = pair.with_buffer(1_000_000);
        pair.handshake();
        Self { pair, next: 2 }
    }

    /// A source far below 40 Mbit/s, on a path that then falls to 2, or on one that always had 2.
    fn behind(falls: bool) -> Self {
        let (rate, bytes) = if falls { (40, 60_000) } else { (LOW, 3_000) };
        let mut source = Self::over(rate);
        source.frames(150, bytes);
        source.pair = source.pair.with_rate(LOW);
        source
    }

    /// Writes a frame; its stream.
    fn send(&mut self, bytes: usize, urgency: u8) -> u64 {
        let stream_id = self.next;
        self.next += 4;
        self.pair.client.stream_priority(stream_id, urgency, false).unwrap();
        assert_eq!(self.pair.client.write(stream_id, &pattern(bytes), true), bytes);
        stream_id
    }

    /// Runs until a stream has come, or for so long; when it came.
    fn run(&mut self, time: Duration, awaited: Option<u64>) -> Option<Instant> {
        let end = Instant::now() + time;
        let mut buffer = vec![0; 65_536];
        while Instant::now() < end {
            self.pair.run_for(MS);
            while let Some(id) = self.pair.server.readable().next() {
                let (_, is_end) = self.pair.server.stream_recv(id, &mut buffer).unwrap();
                if is_end && Some(id) == awaited {
                    return Some(Instant::now());
                }
            }
        }
        None
    }

    fn frames(&mut self, frames: usize, bytes: usize) {
        for _ in 0..frames {
            self.send(bytes, PICTURES);
            self.run(FRAME_INTERVAL, None);
        }
    }

    /// What is written now, until no more is taken.
    fn fill(&mut self) -> usize {
        let stream_id = self.next;
        self.next += 4;
        self.pair.client.stream_priority(stream_id, PICTURES, false).unwrap();
        self.pair.client.write(stream_id, &pattern(1_000_000), true)
    }
}

#[test]
fn the_send_buffer_holds_what_leaves_in_its_time_behind_a_fall_of_the_path() {
    for frames in [12, 300] {
        let mut source = Source::behind(true);
        source.frames(frames, 3_000);
        let taken = source.fill();
        // 100 ms of the profile.
        let in_time = (LOW * 125_000 / 10) as usize;
        assert!(
            (in_time / 2..in_time * 3 / 2).contains(&taken),
            "{taken} behind {frames} frames"
        );
    }
}

#[test]
fn a_source_is_told_when_what_it_writes_will_have_left_behind_a_fall_of_the_path() {
    let mut source = Source::behind(true);
    source.frames(60, 3_000);
    source.fill();
    for ms in 0..150 {
        let stats = source.pair.client.media_stats();
        let takes = Duration::from_secs_f64(stats.backlog as f64 / (LOW * 125_000) as f64);
        let told = stats.time_to_leave;
        assert!(
            told >= takes.mul_f64(0.7) && told <= takes.mul_f64(1.5),
            "{ms} ms: {told:?} of {takes:?}"
        );
        source.run(MS, None);
    }
}

/// How long sound takes that is written 30 ms behind the beginning of a key frame of 75 kB.
fn sound_beside_a_key_frame(falls: bool) -> Duration {
    let mut source = Source::behind(falls);
    source.frames(300, 3_000);
    source.run(100 * MS, None);
    let key_frame = pattern(75_000);
    let stream_id = source.next;
    source.next += 4;
    source.pair.client.stream_priority(stream_id, PICTURES, false).unwrap();
    let sound = source.next;
    source.next += 4;
    source.pair.client.stream_priority(sound, SOUND, false).unwrap();
    let began = Instant::now();
    let (mut pictures, mut taken) = (0, 0);
    loop {
        // Sound is offered first: it is the more urgent.
        if began.elapsed() >= 30 * MS && taken == 0 {
            taken = source.pair.client.write(sound, &pattern(171), true);
        }
        if pictures < key_frame.len() {
            pictures += source.pair.client.write(stream_id, &key_frame[pictures..], true);
        }
        if let Some(at) = source.run(MS, Some(sound)) {
            return at - (began + 30 * MS);
        }
    }
}

#[test]
fn sound_beside_a_key_frame_takes_no_longer_behind_a_fall_of_the_path() {
    let always_low = sound_beside_a_key_frame(false);
    let fallen = sound_beside_a_key_frame(true);
    assert!(
        fallen <= always_low + 20 * MS,
        "{fallen:?}, and {always_low:?} where nothing fell"
    );
}

/// The longest queue of a key frame that takes 300 ms, and that begins so long behind a picture.
fn queue_of_a_key_frame(falls: bool, phase: Duration) -> Duration {
    let mut source = Source::behind(falls);
    source.frames(300, 3_000);
    source.run(phase, None);
    let key_frame = pattern(75_000);
    let stream_id = source.next;
    let (mut written, mut longest) = (0, Duration::ZERO);
    for _ in 0..500 {
        if written < key_frame.len() {
            written += source.pair.client.write(stream_id, &key_frame[written..], true);
        }
        source.run(MS, None);
        longest = longest.max(source.pair.client.media_stats().queueing_delay.unwrap());
    }
    longest
}

// TACK-6.8-2: acknowledgements are up to 400 ms apart under this load, and where in that time the frame begins decides how
// long it leaves at 1.25 times what the path carries.
#[test]
fn a_key_frame_makes_no_longer_queue_behind_a_fall_of_the_path_than_where_nothing_fell() {
    let phases = [0, 90, 180, 270, 360].map(|phase| phase * MS);
    let mut fallen = phases.map(|phase| queue_of_a_key_frame(true, phase));
    let always_low = phases.map(|phase| queue_of_a_key_frame(false, phase));
    println!("{fallen:?}, and {always_low:?} where nothing fell");
    assert!(fallen.iter().zip(&always_low).all(|(fallen, low)| fallen <= low));
    fallen.sort_unstable();
    assert!(fallen[2] < 80 * MS, "{:?} of 300 ms", fallen[2]);
}
