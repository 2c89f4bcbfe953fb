//! A sender's session and a player over a link in virtual time, and what may go wrong with each.

#![allow(clippy::unwrap_used, clippy::panic)] // a test that cannot be set up has failed
#![allow(clippy::disallowed_methods)] // its clock is virtual

#[path = "../../../tacklib/tests/common/mod.rs"]
mod common;
mod media;

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use common::*;
use media::{FORMS, FPS, Ladder};
use tack_example_video::init::Init;
use tack_example_video::notice::Notice;
use tack_example_video::output::Output;
use tack_example_video::player::{PlayOptions, Player};
use tack_example_video::report::PlayerReport;
use tack_example_video::sample::Sample;
use tack_example_video::segment;
use tack_example_video::session::{SendOptions, Session};
use tack_example_video::source::Source;
use tack_example_video::transport;
use tacklib::{Connection, Profile};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const RATES: [u64; 4] = [400_000, 1_000_000, 2_500_000, 6_000_000];

const LIVE: SendOptions = SendOptions {
    as_datagrams: false,
    lifetime: Some(Duration::from_millis(500)),
    longest: None,
};
const RELIABLE: SendOptions = SendOptions { lifetime: None, ..LIVE };
const DATAGRAMS: SendOptions = SendOptions { as_datagrams: true, ..LIVE };

/// A sender at the server, and a player at the client.
struct Live {
    pair: Pair<Connection, Connection>,
    session: Session,
    player: Player,
    sends: bool,
    reads: bool,
    /// What either end has told, in words.
    told: Vec<String>,
    most_waiting: usize,
}

impl Live {
    fn over(megabits: u64, source: Source, options: SendOptions) -> Self {
        Self::with(Profile::Video, megabits, source, options, None)
    }

    fn with(
        profile: Profile,
        megabits: u64,
        source: Source,
        options: SendOptions,
        output: Option<Output>,
    ) -> Self {
        enter_virtual_time();
        let client = tack_client(&mut transport::player(profile, None).unwrap());
        let server = tack_server(&mut transport::sender(profile, None).unwrap());
        let mut pair = Pair::new(client, server)
            .with_delay(20 * MS)
            .with_rate(megabits)
            .with_buffer(100_000);
        pair.handshake();
        let now = Instant::now();
        let play = PlayOptions { waits: options.lifetime.is_none(), delay: 150 * MS };
        Self {
            pair,
            session: Session::new(now, source, options),
            player: Player::new(now, play, output),
            sends: true,
            reads: true,
            told: Vec::new(),
            most_waiting: 0,
        }
    }

    fn run_for(&mut self, time: Duration) {
        let end = Instant::now() + time;
        self.run_until(|_| Instant::now() >= end);
    }

    fn run_until(&mut self, mut done: impl FnMut(&Self) -> bool) {
        while !done(self) {
            self.pair.run_for(2 * MS);
            let now = Instant::now();
            if self.sends {
                self.session.run(&mut self.pair.server, now).unwrap();
            }
            if self.reads {
                self.player.read(now, &mut self.pair.client);
                self.player.show(now);
            }
            let mut tell = |notice: Notice| self.told.push(notice.to_string());
            std::iter::from_fn(|| self.session.poll_notice()).for_each(&mut tell);
            std::iter::from_fn(|| self.player.poll_notice()).for_each(&mut tell);
            self.most_waiting = self.most_waiting.max(self.session.backlog());
        }
    }

    /// Until all has been played, which may take so long.
    fn finish(mut self, within: Duration) -> (PlayerReport, Vec<String>) {
        let end = Instant::now() + within;
        self.run_until(|live| {
            assert!(Instant::now() < end, "it does not end: {:?}", live.player.report(end));
            live.player.is_over(Instant::now())
        });
        (self.player.finish(Instant::now()).unwrap(), self.told)
    }

    fn report(&self) -> PlayerReport {
        self.player.report(Instant::now())
    }

    fn was_told(&self, words: &str) -> usize {
        self.told.iter().filter(|line| line.contains(words)).count()
    }
}

fn synthetic(seconds: u64) -> Source {
    Source::synthetic(RATES.to_vec(), seconds, 1)
}

fn open(directory: &Path) -> Source {
    Source::open(directory, false).unwrap()
}

/// Media on disk of so many seconds.
fn ladder(directory: &Path, seconds: u64) -> Ladder<'_> {
    let ladder = Ladder { directory, forms: &FORMS };
    ladder.write(&(0..seconds).collect::<Vec<_>>(), true);
    ladder
}

/// The samples of a file that the player wrote.
fn written(path: &Path) -> Vec<Sample> {
    let bytes = fs::read(path).unwrap();
    let at = bytes.windows(4).position(|word| word == b"moof").unwrap() - 4;
    let (head, rest) = bytes.split_at(at);
    segment::read(&Init::parse(head).unwrap(), rest).unwrap()
}

#[test]
fn every_frame_of_reliable_media_is_shown_whatever_the_path_loses() {
    for profile in [Profile::Video, Profile::Off] {
        let mut live = Live::with(profile, 8, synthetic(10), RELIABLE, None);
        live.pair.tamper_down(lossy(2, 7));
        let (report, told) = live.finish(60 * SECOND);
        let sender = report.sender.unwrap();
        assert_eq!((report.shown, report.broken, report.late), (sender.frames, 0, 0));
        assert_eq!((report.missing, report.lost), (Some(0), 0));
        assert!(sender.frames >= 10 * u64::from(FPS) + 10 * 46, "{sender:?}");
        assert_eq!(sender.dropped.total(), 0);
        assert_eq!(told, [""; 0]);
    }
}

#[test]
fn the_bit_rate_follows_the_path() {
    let mean = |megabits| {
        let (report, _) = Live::over(megabits, synthetic(15), LIVE).finish(30 * SECOND);
        assert!(report.rebuffering_ratio < 0.1, "{report:?}");
        assert!(report.startup_ms.unwrap() < 1000.0, "{report:?}");
        report.mean_bits_per_second / 1e6
    };
    let (narrow, middle, wide) = (mean(1), mean(4), mean(30));
    assert!((0.3..0.95).contains(&narrow), "{narrow} of 1 Mbit/s");
    assert!((1.2..3.6).contains(&middle), "{middle} of 4 Mbit/s");
    assert!(wide > 1.3 * middle, "{wide} of 30 Mbit/s, {middle} of 4");
}

#[test]
fn frames_in_datagrams_that_the_path_loses_are_counted_and_shown_to_nobody() {
    let mut live = Live::over(8, synthetic(12), DATAGRAMS);
    live.pair.tamper_down(lossy(1, 3));
    let (report, _) = live.finish(40 * SECOND);
    let sender = report.sender.clone().unwrap();
    assert!(sender.datagrams && sender.datagrams_sent > sender.frames, "{sender:?}");
    assert!(report.parts_lost > 0 && report.lost > 0 && report.broken > 0, "{report:?}");
    let accounted = report.received + report.lost + report.missing.unwrap();
    assert_eq!(accounted, sender.frames, "{report:?}");
    assert!(report.shown > sender.frames / 2, "{report:?}");
}

#[test]
fn frames_in_datagrams_all_arrive_over_a_clean_path() {
    let (report, told) = Live::over(10, synthetic(8), DATAGRAMS).finish(30 * SECOND);
    let sender = report.sender.clone().unwrap();
    assert_eq!(report.received, sender.frames, "{report:?}");
    assert_eq!((report.parts_lost, report.broken, report.malformed), (0, 0, 0), "{report:?}");
    assert_eq!(told, [""; 0]);
}

#[test]
fn a_player_that_stops_reading_is_noticed_costs_bounded_memory_and_goes_on() {
    let mut live = Live::over(10, synthetic(60), LIVE);
    live.run_for(5 * SECOND);
    let before = live.report().shown;
    assert!(before > 200, "{before}");
    live.reads = false;
    live.run_for(25 * SECOND);
    assert_eq!(live.was_told("has taken no frame for"), 1, "{:?}", live.told);
    // Half a second of frames: those that are older are dropped.
    assert!(live.most_waiting < 60, "{} frames wait", live.most_waiting);
    live.reads = true;
    live.run_for(10 * SECOND);
    assert_eq!(live.was_told("takes frames again"), 1, "{:?}", live.told);
    live.run_for(5 * SECOND);
    let now = live.report().shown;
    live.run_for(5 * SECOND);
    let later = live.report().shown;
    assert!(later > now + 300, "{} more in five seconds", later - now);
}

#[test]
fn reliable_media_wait_for_a_player_that_stops_reading() {
    let mut live = Live::over(10, synthetic(15), RELIABLE);
    live.run_for(3 * SECOND);
    live.reads = false;
    live.run_for(20 * SECOND);
    assert!(live.most_waiting <= 65, "{} frames wait", live.most_waiting);
    live.reads = true;
    let (report, _) = live.finish(60 * SECOND);
    let sender = report.sender.unwrap();
    assert_eq!((report.shown, report.missing), (sender.frames, Some(0)));
}

#[test]
fn a_source_that_stalls_is_noticed_and_the_connection_outlives_it() {
    let directory = tempfile::tempdir().unwrap();
    let ladder = ladder(directory.path(), 6);
    ladder.list(3, false);
    let mut live = Live::over(10, open(directory.path()), LIVE);
    // Longer than the idle timeout.
    live.run_for(20 * SECOND);
    assert_eq!(live.was_told("the source stalls"), 1, "{:?}", live.told);
    assert_eq!(live.report().shown, 90);
    assert!(!live.pair.client.is_closed() && !live.pair.server.is_closed());
    ladder.list(6, true);
    let (report, told) = live.finish(20 * SECOND);
    assert!(told.iter().any(|line| line.contains("the source goes on")), "{told:?}");
    assert_eq!((report.shown, report.late, report.missing), (180, 0, Some(0)), "{report:?}");
    assert!(report.freezes == 1 && report.rebuffering_ms > 15_000.0, "{report:?}");
}

#[test]
fn a_live_playlist_that_forgets_its_oldest_segments_is_followed() {
    let directory = tempfile::tempdir().unwrap();
    let ladder = ladder(directory.path(), 8);
    ladder.list_from(1, 4, false);
    let mut live = Live::over(10, open(directory.path()), LIVE);
    live.run_for(2 * SECOND);
    ladder.list_from(3, 6, false);
    live.run_for(4 * SECOND);
    // What was next is gone meanwhile.
    ladder.list_from(7, 8, true);
    let (report, _) = live.finish(20 * SECOND);
    assert_eq!((report.shown, report.missing), (6 * 30, Some(0)), "{report:?}");
}

#[test]
fn a_segment_that_vanishes_is_replaced_by_another_bit_rate_or_left_out() {
    let directory = tempfile::tempdir().unwrap();
    let ladder = ladder(directory.path(), 6);
    // The first two are of the lowest rates.
    for (rate, _) in &FORMS[1..] {
        fs::remove_file(ladder.segment(*rate, 2)).unwrap();
    }
    for (rate, _) in FORMS {
        fs::remove_file(ladder.segment(rate, 4)).unwrap();
    }
    let (report, told) = Live::over(20, open(directory.path()), LIVE).finish(20 * SECOND);
    let lines = |words: &str| told.iter().filter(|line| line.contains(words)).count();
    assert_eq!(lines("segment 2 of"), 1, "{told:?}");
    assert_eq!(lines("sending that of 400kbit/s instead"), 1, "{told:?}");
    assert_eq!(lines("segment 4 of"), 1, "{told:?}");
    assert_eq!(lines("it is left out"), 1, "{told:?}");
    // Five segments are there at some rate, and follow each other.
    assert_eq!((report.shown, report.missing), (150, Some(0)), "{report:?}");
    assert_eq!(report.freezes, 0, "{report:?}");
}

#[test]
fn a_segment_that_is_damaged_is_left_out() {
    let directory = tempfile::tempdir().unwrap();
    let ladder = ladder(directory.path(), 5);
    for (rate, _) in FORMS {
        let path = ladder.segment(rate, 2);
        let bytes = fs::read(&path).unwrap();
        fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
    }
    let (report, told) = Live::over(20, open(directory.path()), LIVE).finish(20 * SECOND);
    assert!(told.iter().any(|line| line.contains("outside of the segment")), "{told:?}");
    assert_eq!((report.shown, report.missing), (120, Some(0)), "{report:?}");
}

#[test]
fn the_resolution_may_change_within_the_file_that_the_player_writes() {
    let directory = tempfile::tempdir().unwrap();
    ladder(directory.path(), 12);
    let file = directory.path().join("played.mp4");
    let output = Some(Output::file(&file).unwrap());
    let live = Live::with(Profile::Video, 20, open(directory.path()), RELIABLE, output);
    let (report, told) = live.finish(40 * SECOND);
    assert_eq!((report.shown, report.written, report.not_written), (360, 360, 0), "{report:?}");
    assert!(report.resolution_switches >= 2, "{report:?}");
    assert!(told.iter().any(|line| line.contains("from 640x360 to 854x480")), "{told:?}");
    let samples = written(&file);
    assert_eq!(samples.len(), 360);
    let keys: Vec<_> = samples.iter().filter(|sample| sample.is_sync).collect();
    assert_eq!(keys.len(), 12);
    let sets = |sample: &Sample| sample.data[4..10].to_vec();
    assert_ne!(
        sets(keys[0]),
        sets(keys[11]),
        "each begins with the parameters of its rendition"
    );
}

#[test]
fn a_sender_that_was_suspended_goes_on_from_now_without_a_burst() {
    let mut live = Live::over(10, synthetic(40), LIVE);
    live.run_for(6 * SECOND);
    live.sends = false;
    live.run_for(5 * SECOND);
    live.sends = true;
    let before = live.report().received;
    live.run_for(SECOND);
    assert_eq!(live.was_told("going on from now"), 1, "{:?}", live.told);
    let came = live.report().received - before;
    assert!((60..120).contains(&came), "{came} frames in a second");
    live.run_for(5 * SECOND);
    let report = live.report();
    assert_eq!((report.late, report.broken), (0, 0), "{report:?}");
}

#[test]
fn times_in_the_media_that_jump_are_noticed_and_played_as_if_they_did_not() {
    let directory = tempfile::tempdir().unwrap();
    let ladder = Ladder { directory: directory.path(), forms: &FORMS };
    ladder.write(&[0, 1, 2, 3602, 3603, 1, 2], true);
    let file = directory.path().join("played.mp4");
    let output = Some(Output::file(&file).unwrap());
    let live = Live::with(Profile::Video, 20, open(directory.path()), LIVE, output);
    let (report, told) = live.finish(30 * SECOND);
    let jumps: Vec<_> =
        told.iter().filter(|line| line.contains("the times in the media")).collect();
    assert!(
        jumps.len() == 2 && jumps[0].contains("3599.000") && jumps[1].contains("-3603"),
        "{told:?}"
    );
    assert_eq!((report.shown, report.freezes, report.written), (210, 0, 210), "{report:?}");
    let times: Vec<_> = written(&file).iter().map(|sample| sample.decode_time).collect();
    assert!(times.windows(2).all(|pair| pair[1] - pair[0] == 512), "{times:?}");
}

#[test]
fn a_peer_that_sends_no_payload_of_ours_is_noticed_and_the_rest_is_played() {
    use tack_media::{Frame, FrameKind, FrameSender};
    let mut live = Live::over(10, synthetic(5), LIVE);
    live.sends = false;
    let now = Instant::now();
    let mut sender = FrameSender::new(now);
    let frame = Frame {
        kind: FrameKind::Key,
        layer: 0,
        captured_at: now,
        deadline: now + SECOND,
        depends_on: None,
    };
    for payload in [&[][..], &[9; 40], &[1, 2, 0, 0, 1, 1, 0, 0, 0, 2, 0xff, 0xff, 3]] {
        sender.send_frame(&mut live.pair.server, now, frame, payload).unwrap();
    }
    live.run_for(SECOND);
    assert_eq!(live.report().malformed, 3, "{:?}", live.told);
    assert_eq!(live.was_told("a frame cannot be used"), 3, "{:?}", live.told);
    assert!(!live.pair.client.is_closed());
}
