//! Frames on streams that go one after the other, and on streams that take turns (RFC 9218, `incremental`), over a link
//! in virtual time. docs/embedding.md has the figures that it prints:
//!
//! ```sh
//! cargo test -p tack-media --test priorities -- --nocapture
//! ```

#![allow(clippy::unwrap_used, clippy::panic)] // a test that cannot be set up has failed
#![allow(clippy::disallowed_methods)] // its clock is virtual

#[path = "../../../tacklib/tests/common/mod.rs"]
mod common;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use common::*;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use tacklib::{Connection, Profile};

const MS: Duration = Duration::from_millis(1);
const INTERVAL: Duration = Duration::from_micros(33_333);
/// Frames from one key frame to the next, and all of them: a minute.
const GROUP: u64 = 30;
const FRAMES: u64 = 1800;
const KEY: usize = 60_000;
const DELTA: usize = 9_000;
const MEGABITS: u64 = 3;
const LOSS: f64 = 0.01;
const URGENCY: u8 = 3;

/// Delays from the capture of each frame.
struct Delays {
    /// Until all of it has come.
    whole: Vec<Duration>,
    /// Until all of it has come, and of those before it in its group.
    shown: Vec<Duration>,
}

/// Frames on their way, each on a stream.
struct Run {
    pair: Pair<Connection, Connection>,
    /// What the connection has not taken, by stream.
    unwritten: BTreeMap<u64, usize>,
    /// By stream.
    captured: BTreeMap<u64, Instant>,
    come: BTreeMap<u64, Instant>,
}

impl Run {
    fn new() -> Self {
        let client = tack_client(&mut profile_config(Profile::Video));
        let server = tack_server(&mut profile_config(Profile::Video));
        let pair = Pair::new(client, server);
        let mut pair = pair.with_delay(20 * MS).with_rate(MEGABITS).with_buffer(100_000);
        pair.handshake();
        let mut random = Pcg64Mcg::seed_from_u64(1);
        pair.tamper_up(Box::new(move |datagram| {
            (!random.random_bool(LOSS)).then_some(datagram)
        }));
        Self {
            pair,
            unwritten: BTreeMap::new(),
            captured: BTreeMap::new(),
            come: BTreeMap::new(),
        }
    }

    /// Captures a frame.
    fn capture(&mut self, number: u64, is_incremental: bool) {
        let stream = 4 * number + 2;
        self.pair.client.stream_priority(stream, URGENCY, is_incremental).unwrap();
        self.captured.insert(stream, Instant::now());
        let is_key = number.is_multiple_of(GROUP);
        self.unwritten.insert(stream, if is_key { KEY } else { DELTA });
    }

    /// Writes what the connection takes, of the oldest frame first, and reads what has come.
    fn turn(&mut self) {
        static ZEROES: [u8; KEY] = [0; KEY];
        self.unwritten.retain(|stream, left| {
            *left -= self.pair.client.write(*stream, &ZEROES[..*left], true);
            *left > 0
        });
        self.pair.run_for(MS);
        let mut out = vec![0; 1 << 16];
        let readable: Vec<u64> = self.pair.server.readable().collect();
        for stream in readable {
            while let Ok((_, is_end)) = self.pair.server.stream_recv(stream, &mut out) {
                if is_end {
                    self.come.insert(stream, Instant::now());
                    break;
                }
            }
        }
    }

    fn delays(&self) -> Delays {
        let (mut whole, mut shown, mut all_of_group) = (Vec::new(), Vec::new(), None);
        for (number, (stream, captured)) in (0..).zip(&self.captured) {
            let come = self.come[stream];
            let before = all_of_group.filter(|_| number % GROUP != 0);
            let all = before.map_or(come, |before: Instant| before.max(come));
            all_of_group = Some(all);
            whole.push(come - *captured);
            shown.push(all - *captured);
        }
        whole.sort_unstable();
        shown.sort_unstable();
        Delays { whole, shown }
    }
}

fn run(is_incremental: bool) -> Delays {
    let mut run = Run::new();
    let start = Instant::now();
    let mut next = 0;
    while run.come.len() < FRAMES as usize {
        if next < FRAMES && Instant::now() >= start + INTERVAL * next as u32 {
            run.capture(next, is_incremental);
            next += 1;
        }
        run.turn();
    }
    run.delays()
}

/// The value that so many hundredths of the sorted ones do not exceed, in milliseconds.
fn percentile(sorted: &[Duration], hundredths: usize) -> u128 {
    sorted[(sorted.len() * hundredths).div_ceil(100) - 1].as_millis()
}

#[test]
fn frames_come_sooner_on_streams_that_go_one_after_the_other() {
    let [one_by_one, in_turns] = [false, true].map(run);
    println!("{FRAMES} frames over {MEGABITS} Mbit/s, ms   whole: p50  p99   shown: p50  p99");
    for (name, delays) in [("non-incremental", &one_by_one), ("incremental", &in_turns)] {
        let [whole_50, whole_99] = [50, 99].map(|share| percentile(&delays.whole, share));
        let [shown_50, shown_99] = [50, 99].map(|share| percentile(&delays.shown, share));
        println!("{name:33}{whole_50:11} {whole_99:4} {shown_50:12} {shown_99:4}");
    }
    // A player's delay goes by the latest frames. Many others find the link idle.
    let [first, second] = [&one_by_one, &in_turns].map(|delays| percentile(&delays.shown, 99));
    assert!(3 * first < 2 * second, "{first} ms and {second} ms");
    let [first, second] = [&one_by_one, &in_turns].map(|delays| percentile(&delays.shown, 50));
    assert!(first <= second, "{first} ms and {second} ms");
}
