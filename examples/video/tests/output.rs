//! The output of the player: programs that read slowly, or go away.

#![allow(clippy::unwrap_used, clippy::panic)] // a test that cannot be set up has failed

mod media;

use std::io::{self, Write};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

use media::{init, init_with_sound, pictures};
use tack_example_video::init::Init;
use tack_example_video::notice::{Notice, Notices};
use tack_example_video::output::Output;
use tack_example_video::segment;

/// A program that reads nothing until it is told to.
struct Slow {
    go: Receiver<()>,
    read: Arc<Mutex<Vec<u8>>>,
}

impl Write for Slow {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // Fails once the test has let it go: from then on it reads at once.
        let _ = self.go.recv();
        self.read.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn slow() -> (Slow, Sender<()>, Arc<Mutex<Vec<u8>>>) {
    let (go, waits) = channel();
    let read = Arc::default();
    (Slow { go: waits, read: Arc::clone(&read) }, go, read)
}

fn first() -> Init {
    Init::parse(&init((640, 360))).unwrap()
}

/// Gives seconds of pictures to an output, and what it tells.
fn play(output: &mut Output, seconds: std::ops::Range<u64>, notices: &mut Notices) {
    for second in seconds {
        for sample in pictures(second, 200_000) {
            let begins = sample.is_sync.then(first);
            output.write(&sample, begins, notices);
        }
    }
}

#[test]
fn a_program_that_reads_nothing_stops_nobody_and_gets_whole_groups_afterwards() {
    let (program, go, read) = slow();
    let mut output = Output::pipe(program).unwrap();
    let mut notices = Notices::default();
    // Two minutes of 10 MB a second, of which 64 MiB fit.
    for second in 0..120 {
        for sample in pictures(second, 80_000_000) {
            let begins = sample.is_sync.then(first);
            output.write(&sample, begins, &mut notices);
        }
    }
    assert_eq!(notices.pop(), Some(Notice::OutputSlow));
    assert_eq!(notices.pop(), None, "it is told once");
    let (written, left_out) = output.counts();
    assert!((150..210).contains(&written), "{written}");
    assert_eq!(written + left_out, 3600);
    drop(go);
    output.finish().unwrap();

    let bytes = read.lock().unwrap().clone();
    let at = bytes.windows(4).position(|word| word == b"moof").unwrap() - 4;
    let samples = segment::read(&first(), &bytes[at..]).unwrap();
    assert_eq!(samples.len() as u64, written);
    // Behind what was left out there is a key frame.
    for pair in samples.windows(2) {
        let follows = pair[1].decode_time == pair[0].decode_time + 512;
        assert!(follows || pair[1].is_sync, "{}", pair[1].decode_time);
    }
}

#[test]
fn a_program_that_goes_away_is_told_once_and_playing_goes_on() {
    struct Gone;
    impl Write for Gone {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::BrokenPipe.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut output = Output::pipe(Gone).unwrap();
    let mut notices = Notices::default();
    let mut told = Vec::new();
    // Its thread needs a moment to see it.
    for second in 0..1000 {
        play(&mut output, second..second + 1, &mut notices);
        told.extend(std::iter::from_fn(|| notices.pop()));
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    let lost = |notice: &&Notice| matches!(notice, Notice::OutputLost(_));
    assert_eq!(told.iter().filter(lost).count(), 1, "{told:?}");
    output.finish().unwrap();
}

#[test]
fn nothing_is_written_before_a_key_frame() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let mut output = Output::file(file.path()).unwrap();
    let mut notices = Notices::default();
    for sample in &pictures(0, 200_000)[10..] {
        output.write(sample, None, &mut notices);
    }
    assert!(output.is_empty());
    play(&mut output, 1..2, &mut notices);
    assert_eq!(output.counts(), (30, 20));
    output.finish().unwrap();
    assert!(file.path().metadata().unwrap().len() > 20_000);
}

#[test]
fn pictures_of_a_rendition_with_other_tracks_are_left_out() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let mut output = Output::file(file.path()).unwrap();
    let mut notices = Notices::default();
    play(&mut output, 0..1, &mut notices);
    let other = Init::parse(&init_with_sound((1280, 720))).unwrap();
    for sample in pictures(1, 200_000) {
        output.write(&sample, sample.is_sync.then(|| other.clone()), &mut notices);
    }
    assert_eq!(output.counts(), (30, 30), "their parameter sets are not in the file");
    play(&mut output, 2..3, &mut notices);
    assert_eq!(output.counts(), (60, 30));
    assert!(matches!(notices.pop(), Some(Notice::BadFrame(_))));
    output.finish().unwrap();
}
