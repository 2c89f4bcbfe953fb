//! Frames from a sender to a receiver over a link in virtual time.

#![allow(clippy::unwrap_used, clippy::panic)] // a test that cannot be set up has failed
#![allow(clippy::disallowed_methods)] // its clock is virtual

#[path = "../../../tacklib/tests/common/mod.rs"]
mod common;

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use common::*;
use tack_media::{
    DropCause, EncoderRateControl, Frame, FrameHeader, FrameKind, FrameReceiver, FrameSender,
    JitterBuffer, JitterBufferConfig, Missing, Playback, RateControlConfig, ReceiverEvent,
    SendError, SenderEvent, path_stats,
};
use tacklib::{Connection, Profile};

const MS: Duration = Duration::from_millis(1);
const INTERVAL: Duration = Duration::from_millis(33);
const LIFETIME: Duration = Duration::from_millis(200);
/// Frames from one key to the next.
const GROUP: u64 = 30;

/// A live source at the client, and a viewer at the server.
struct Live {
    pair: Pair<Connection, Connection>,
    sender: FrameSender,
    receiver: FrameReceiver,
    last: Option<u64>,
    /// What was sent, and what has come.
    sent: BTreeMap<u64, Vec<u8>>,
    come: BTreeMap<u64, (FrameHeader, Instant)>,
    dropped: BTreeMap<u64, DropCause>,
    lost: u64,
    malformed: u64,
    reads: bool,
    start: Instant,
}

impl Live {
    fn over(megabits: u64) -> Self {
        let client = tack_client(&mut profile_config(Profile::Video));
        let server = tack_server(&mut profile_config(Profile::Default));
        let mut pair = Pair::new(client, server)
            .with_delay(20 * MS)
            .with_rate(megabits)
            .with_buffer(200_000);
        pair.handshake();
        Self {
            pair,
            sender: FrameSender::new(Instant::now()),
            receiver: FrameReceiver::new(),
            last: None,
            sent: BTreeMap::new(),
            come: BTreeMap::new(),
            dropped: BTreeMap::new(),
            lost: 0,
            malformed: 0,
            reads: true,
            start: Instant::now(),
        }
    }

    /// A frame of so many bytes, and the time until the next one.
    fn frame(&mut self, bytes: usize) -> u64 {
        let now = Instant::now();
        let is_key = self.last.is_none_or(|last| (last + 1) % GROUP == 0);
        let frame = Frame {
            kind: if is_key { FrameKind::Key } else { FrameKind::Delta },
            layer: 0,
            captured_at: now,
            deadline: now + LIFETIME,
            depends_on: self.last.filter(|_| !is_key),
        };
        let payload: Vec<u8> =
            (0..bytes).map(|at| (at as u64 * 7 + self.last.unwrap_or(0)) as u8).collect();
        let client = &mut self.pair.client;
        let number = self.sender.send_frame(client, now, frame, &payload).unwrap();
        self.sent.insert(number, payload);
        self.last = Some(number);
        self.run_for(INTERVAL);
        number
    }

    fn frames(&mut self, count: u64, bytes: usize) {
        (0..count).for_each(|_| {
            self.frame(bytes);
        });
    }

    fn run_for(&mut self, time: Duration) {
        let end = Instant::now() + time;
        while Instant::now() < end {
            self.pair.run_for(MS);
            let now = Instant::now();
            self.sender.flush(&mut self.pair.client, now).unwrap();
            while let Some(event) = self.sender.poll_event() {
                if let SenderEvent::Dropped { number, cause } = event {
                    assert_eq!(self.dropped.insert(number, cause), None, "{number} twice");
                }
            }
            if self.reads {
                self.receiver.read(now, &mut self.pair.server);
            }
            while let Some(event) = self.receiver.poll_event() {
                match event {
                    ReceiverEvent::Frame(frame) => {
                        assert_eq!(self.sent[&frame.header.number], frame.payload);
                        let came = self.come.insert(frame.header.number, (frame.header, now));
                        assert_eq!(came, None, "{} twice", frame.header.number);
                    }
                    ReceiverEvent::Lost { .. } => self.lost += 1,
                    ReceiverEvent::Malformed { .. } => self.malformed += 1,
                    other => panic!("{other:?}"),
                }
            }
        }
    }

    fn causes(&self, cause: DropCause) -> usize {
        self.dropped.values().filter(|of| **of == cause).count()
    }
}

#[test]
fn a_preamble_is_in_front_of_each_frame_on_its_stream() {
    let mut live = Live::over(10);
    live.reads = false;
    live.sender.set_preamble(&[0x40, 0x54, 0]);
    live.frames(2, 300);
    let streams: Vec<_> = live.pair.server.readable().collect();
    assert_eq!(streams.len(), 2);
    for (stream, number) in streams.into_iter().zip(0..) {
        let mut bytes = [0; 1000];
        let (len, is_end) = live.pair.server.stream_recv(stream, &mut bytes).unwrap();
        assert!(is_end && bytes.starts_with(&[0x40, 0x54, 0]));
        let (header, at) = FrameHeader::decode(&bytes[3..len]).unwrap();
        assert_eq!((header.number, header.len), (number, 300));
        assert_eq!(bytes[3 + at..len], live.sent[&number][..]);
    }
}

#[test]
fn all_frames_come_whole_where_the_path_carries_them() {
    let mut live = Live::over(8);
    live.frames(90, 10_000);
    live.run_for(200 * MS);
    assert_eq!(live.come.len(), 90);
    assert!(live.dropped.is_empty(), "{:?}", live.dropped);
    for (number, (header, _)) in &live.come {
        let is_key = number % GROUP == 0;
        assert_eq!(header.kind == FrameKind::Key, is_key);
        assert_eq!(header.depends_on, number.checked_sub(1).filter(|_| !is_key));
        assert_eq!(header.lifetime, LIFETIME);
    }
    assert_eq!(live.sender.backlog(), (0, 0));
}

#[test]
fn what_is_too_much_for_the_path_is_dropped_with_all_that_depends_on_it() {
    let mut live = Live::over(2);
    // 4.8 Mbit/s.
    live.frames(240, 20_000);
    live.run_for(Duration::from_secs(1));
    assert!(live.causes(DropCause::Dependency) > 20, "{:?}", live.dropped);
    assert!(live.come.len() > 20, "{}", live.come.len());
    // What was on its way when it was dropped may come all the same.
    let dropped = |number: &u64| live.dropped.contains_key(number);
    let (late, whole): (Vec<u64>, Vec<u64>) =
        live.come.keys().copied().partition(|number| dropped(number));
    assert!(late.len() < 10, "{late:?}");
    for number in whole {
        let first = number - number % GROUP;
        for before in first..number {
            assert!(!dropped(&before), "{number} without {before}");
        }
    }
    let start = live.start;
    for (header, at) in live.come.values() {
        let age = (*at - start).saturating_sub(header.captured);
        assert!(age < LIFETIME + 150 * MS, "frame {} came after {age:?}", header.number);
    }
    // Nothing is left over, and what comes next is delivered at once.
    assert_eq!(live.sender.backlog(), (0, 0));
    let group = live.last.unwrap() / GROUP + 1;
    while live.last.unwrap() + 1 < group * GROUP {
        live.frame(500);
    }
    let key = live.frame(1000);
    live.run_for(100 * MS);
    assert!(live.come.contains_key(&key));
}

#[test]
fn the_receiver_hears_of_each_frame_but_of_those_that_never_began() {
    let mut live = Live::over(2);
    live.pair.tamper_up(lossy(3, 5));
    live.frames(240, 20_000);
    live.run_for(Duration::from_secs(1));
    let (come, never_begun) = (live.come.len() as u64, live.sender.never_begun());
    assert!(never_begun > 20 && live.lost > 5, "{never_begun}, {} reset", live.lost);
    assert_eq!(come + live.lost + never_begun, 240);
}

#[test]
fn a_path_that_was_too_narrow_for_every_frame_is_tried_again() {
    let mut live = Live::over(20);
    live.frames(60, 40_000);
    assert!(live.dropped.is_empty(), "{:?}", live.dropped);
    // 320 ms for each, which may take 200.
    live.pair = std::mem::replace(&mut live.pair, Live::over(1).pair).with_rate(1);
    live.frames(150, 40_000);
    assert!(live.causes(DropCause::Expired) > 0, "{:?}", live.dropped);
    live.pair = std::mem::replace(&mut live.pair, Live::over(1).pair).with_rate(20);
    let back = live.last.unwrap();
    live.frames(150, 40_000);
    let come = live.come.keys().filter(|number| **number > back).count();
    assert!(come > 75, "{come} of 150");
}

#[test]
fn frames_that_arrive_in_time_are_delivered_where_the_round_trip_is_longer_than_they_live() {
    let mut live = Live::over(8);
    live.pair = std::mem::replace(&mut live.pair, Live::over(1).pair).with_delay(130 * MS);
    live.frames(150, 4000);
    live.run_for(Duration::from_secs(1));
    assert!(live.dropped.is_empty(), "{:?}", live.dropped);
    assert_eq!(live.come.len(), 150);
}

#[test]
fn a_path_that_loses_frames_for_long_does_not_run_out_of_streams() {
    let mut live = Live::over(8);
    // What is lost can't be repeated in time.
    live.pair = std::mem::replace(&mut live.pair, Live::over(1).pair).with_delay(90 * MS);
    live.pair.tamper_up(lossy(3, 3));
    live.frames(4000, 6000);
    assert!(live.lost > 100, "{} were reset", live.lost);
    let come = live.come.len();
    live.frames(300, 6000);
    assert!(live.come.len() > come + 30, "{} of the last 300", live.come.len() - come);
    // They may all be open again once they are read.
    live.run_for(Duration::from_secs(1));
    let left = live.pair.client.peer_streams_left_uni();
    assert!(left >= 50, "{left} of 100 are left");
}

#[test]
fn a_frame_that_has_begun_is_finished_before_a_more_urgent_one_that_has_no_stream_yet() {
    let mut live = Live::over(8);
    let mut config = profile_config(Profile::Default);
    config.set_initial_max_streams_uni(1);
    let mut fresh =
        Pair::new(tack_client(&mut profile_config(Profile::Video)), tack_server(&mut config));
    fresh = fresh.with_delay(20 * MS).with_rate(8).with_buffer(200_000);
    fresh.handshake();
    live.pair = fresh;
    live.sender = FrameSender::new(Instant::now());
    let now = Instant::now();
    let send = |live: &mut Live, kind, bytes| {
        let deadline = now + Duration::from_secs(3600);
        let frame = Frame { kind, layer: 0, captured_at: now, deadline, depends_on: None };
        let payload = vec![1; bytes];
        let client = &mut live.pair.client;
        let number = live.sender.send_frame(client, now, frame, &payload).unwrap();
        live.sent.insert(number, payload);
    };
    send(&mut live, FrameKind::Key, 1_000_000);
    assert!(live.sender.backlog().0 == 1, "the stack holds less");
    // What waits in the stack leaves meanwhile.
    live.pair.run_for(100 * MS);
    send(&mut live, FrameKind::Audio, 100);
    live.run_for(Duration::from_secs(4));
    assert_eq!(live.come.keys().copied().collect::<Vec<_>>(), [0, 1]);
}

#[test]
fn a_viewer_that_stops_reading_blocks_nothing_for_good() {
    let mut live = Live::over(8);
    live.frames(10, 10_000);
    live.reads = false;
    // More than the windows hold, and more streams than may be open.
    live.frames(200, 20_000);
    let (frames, bytes) = live.sender.backlog();
    assert!(frames < 32 && bytes < 1 << 20, "{frames} frames, {bytes} bytes");
    live.reads = true;
    live.run_for(Duration::from_secs(2));
    let next_key = (live.last.unwrap() / GROUP + 1) * GROUP;
    while live.last.unwrap() < next_key + 5 {
        live.frame(5000);
    }
    live.run_for(200 * MS);
    assert!((next_key..next_key + 5).all(|number| live.come.contains_key(&number)));
}

#[test]
fn a_frame_that_a_viewer_who_does_not_read_leaves_no_room_for_ends_at_its_deadline() {
    const WINDOW: u64 = 64 << 10;
    let mut live = Live::over(8);
    let mut config = profile_config(Profile::Default);
    config.set_initial_max_stream_data_uni(WINDOW);
    config.set_max_stream_window(WINDOW);
    live.pair =
        Pair::new(tack_client(&mut profile_config(Profile::Video)), tack_server(&mut config))
            .with_delay(20 * MS)
            .with_rate(8)
            .with_buffer(200_000);
    live.pair.handshake();
    live.sender = FrameSender::new(Instant::now());
    live.reads = false;
    let number = live.frame(200_000);
    live.run_for(Duration::from_secs(1));
    // All that fits has left and was acknowledged.
    assert_eq!(live.dropped.get(&number), Some(&DropCause::Expired));
    assert_eq!(live.sender.backlog(), (0, 0));
    live.reads = true;
    live.run_for(Duration::from_secs(1));
    assert_eq!((live.come.len(), live.lost), (0, 1), "the rest does not come late");
    live.last = None;
    let number = live.frame(5000);
    live.run_for(200 * MS);
    assert!(live.come.contains_key(&number));
}

#[test]
fn a_connection_that_is_over_is_an_error_and_not_a_backlog() {
    let mut live = Live::over(8);
    live.frames(10, 10_000);
    live.pair.server.close(true, 0, b"enough").unwrap();
    live.pair.run_for(Duration::from_secs(1));
    let now = Instant::now();
    let ended = live.sender.flush(&mut live.pair.client, now);
    assert_eq!(ended, Err(SendError::Closed));
}

#[test]
fn a_program_that_never_takes_what_has_come_holds_a_bounded_part_of_it() {
    const FRAMES: u64 = 100;
    let mut live = Live::over(100);
    let deadline = Instant::now() + Duration::from_secs(3600);
    let (mut sent, mut last) = (0, Instant::now());
    while sent < FRAMES && last.elapsed() < Duration::from_secs(2) {
        let now = Instant::now();
        if live.sender.backlog().0 == 0 {
            last = now;
            let frame = Frame {
                kind: FrameKind::Audio,
                layer: 0,
                captured_at: now,
                deadline,
                depends_on: None,
            };
            live.sender
                .send_frame(&mut live.pair.client, now, frame, vec![7; 1 << 20])
                .unwrap();
            sent += 1;
        }
        live.pair.run_for(MS);
        live.sender.flush(&mut live.pair.client, Instant::now()).unwrap();
        live.receiver.read(Instant::now(), &mut live.pair.server);
    }
    assert!(sent < 90, "{sent} MB were sent, of which the program has taken none");
    // When it takes them, the others follow.
    let mut come = 0;
    while last.elapsed() < Duration::from_secs(30) {
        while let Some(event) = live.receiver.poll_event() {
            come += u64::from(matches!(event, ReceiverEvent::Frame(_)));
        }
        live.pair.run_for(MS);
        live.sender.flush(&mut live.pair.client, Instant::now()).unwrap();
        live.receiver.read(Instant::now(), &mut live.pair.server);
        if come == sent {
            return;
        }
    }
    panic!("{come} of {sent} have come");
}

#[test]
fn a_stream_that_holds_no_frame_is_stopped_and_others_go_on() {
    let mut live = Live::over(8);
    live.sender = FrameSender::with_first_stream(Instant::now(), 3);
    let client = &mut live.pair.client;
    client
        .stream_send(2, b"GET / HTTP/1.1\r\n\r\n, and more than a header holds", false)
        .unwrap();
    // Ends inside its header, and inside its payload.
    client.stream_send(6, &[1, 1, 0], true).unwrap();
    client.stream_send(10, &[1, 1, 0, 0, 0, 0, 0, 9, 1, 2], true).unwrap();
    live.frames(30, 5000);
    live.run_for(100 * MS);
    assert_eq!((live.malformed, live.lost, live.come.len()), (1, 2, 30));
    assert_eq!(live.pair.client.stream_capacity(2), Err(quiche::Error::StreamStopped(1)));
}

#[test]
fn a_frame_that_cannot_be_is_refused_before_anything_leaves() {
    let mut live = Live::over(8);
    let now = Instant::now();
    let frame = Frame {
        kind: FrameKind::Delta,
        layer: 1,
        captured_at: now,
        deadline: now + LIFETIME,
        depends_on: Some(0),
    };
    let refused = live.sender.send_frame(&mut live.pair.client, now, frame, b"x");
    assert_eq!(refused, Err(SendError::UnknownDependency(0)));
    let frame = Frame { depends_on: None, ..frame };
    let long = vec![0; (16 << 20) + 1];
    let refused = live.sender.send_frame(&mut live.pair.client, now, frame, long);
    assert_eq!(refused, Err(SendError::TooLong((16 << 20) + 1)));
    assert_eq!(live.frame(100), 0);
}

/// What an encoder makes of a path of 4 Mbit/s, behind a step to 2, and behind the way back, Mbit/s.
fn follow_steps() -> [f64; 4] {
    let mut live = Live::over(4);
    let mut control = EncoderRateControl::new(RateControlConfig::default());
    let mut run = |live: &mut Live, seconds: u64| {
        for _ in 0..seconds * 30 {
            let stats = live.pair.client.media_stats();
            let rate = control.update(Instant::now(), &stats);
            live.frame(usize::try_from(rate / 8 / 30).unwrap());
        }
        control.rate() as f64 / 1e6
    };
    let found = run(&mut live, 12);
    assert!(live.dropped.is_empty(), "{:?}", live.dropped);
    live.pair = std::mem::replace(&mut live.pair, Live::over(4).pair).with_rate(2);
    let (at_once, settled) = (run(&mut live, 1), run(&mut live, 4));
    live.pair = std::mem::replace(&mut live.pair, Live::over(4).pair).with_rate(4);
    [found, at_once, settled, run(&mut live, 5)]
}

#[test]
fn an_encoder_follows_the_path_down_at_once_and_up_again() {
    // The ends draw their own random numbers, and a run in thirty is slow to come back up.
    let runs: Vec<_> = (0..5).map(|_| follow_steps()).collect();
    let median = |of: usize| {
        let mut rates: Vec<_> = runs.iter().map(|rates| rates[of]).collect();
        rates.sort_by(f64::total_cmp);
        rates[rates.len() / 2]
    };
    assert!((3.2..3.8).contains(&median(0)), "{runs:?} Mbit/s, first of 4");
    assert!(runs.iter().all(|rates| rates[1] < 2.0), "{runs:?} Mbit/s, second of 2");
    assert!((1.5..2.0).contains(&median(2)), "{runs:?} Mbit/s, third of 2");
    assert!(median(3) > 3.2, "{runs:?} Mbit/s, last of 4");
    let worst = runs.iter().map(|rates| rates[2].min(rates[3])).fold(f64::MAX, f64::min);
    assert!(worst > 1.0, "{runs:?} Mbit/s");
}

#[test]
fn a_viewer_sees_even_times_and_counts_what_it_missed() {
    let mut live = Live::over(8);
    let start = Instant::now();
    let mut config = JitterBufferConfig::default();
    config.missing = Missing::Wait;
    let mut buffer = JitterBuffer::new(config);
    let mut playback = Playback::new(start);
    live.frames(60, 10_000);
    live.run_for(200 * MS);
    let mut shown = Vec::new();
    let frames: Vec<_> = live.come.values().copied().collect();
    for (header, arrived) in frames {
        let frame = tack_media::ReceivedFrame {
            header,
            payload: live.sent[&header.number].clone(),
            arrived,
        };
        playback.on_event(&mut buffer, ReceiverEvent::Frame(frame));
        while let Some(due) = buffer.pop(arrived) {
            playback.on_shown(&due);
            shown.push(due.frame.header.number);
        }
    }
    let end = Instant::now() + Duration::from_secs(1);
    while let Some(due) = buffer.pop(end) {
        playback.on_shown(&due);
        shown.push(due.frame.header.number);
    }
    assert_eq!(shown, (0..60).collect::<Vec<_>>());
    let report = playback.report(end, &buffer);
    assert_eq!((report.shown, report.broken, report.late, report.lost), (60, 0, 0, 0));
    assert!(report.startup.unwrap() < 100 * MS, "{report:?}");
    assert_eq!(report.stood, Duration::ZERO);
    assert!(report.frame_delay_p99 < 50 * MS, "{report:?}");
}

#[test]
fn the_rate_towards_plain_quic_is_that_of_the_path_in_use() {
    let config = || {
        let mut config = profile_config(Profile::Off);
        config.set_active_connection_id_limit(4);
        config
    };
    let client = tack_client(&mut config());
    let server = tack_server(&mut config());
    let mut pair = Pair::new(client, server).with_delay(20 * MS).with_rate(20);
    pair.handshake();
    for id in 1..3_u8 {
        let id = quiche::ConnectionId::from_vec(vec![0xc1 + id; 16]);
        pair.client.new_scid(&id, 1, false).unwrap();
    }
    let exchange = |pair: &mut Pair<Connection, Connection>, time: Duration| {
        let end = Instant::now() + time;
        let (data, mut buffer) = (pattern(1 << 16), vec![0; 1 << 16]);
        pair.run_until(|pair| {
            while pair.server.write(3, &data, false) > 0 {}
            while pair.client.read(3, &mut buffer).is_ok() {}
            Instant::now() >= end
        });
    };
    exchange(&mut pair, Duration::from_secs(1));
    let address = SocketAddr::from((Ipv4Addr::new(127, 0, 0, 2), 4011));
    pair.rebind(address);
    let mut pair = pair.with_rate(1).with_buffer(20_000);
    exchange(&mut pair, Duration::from_secs(3));
    assert!(pair.server.path_stats().count() > 1);
    let active = pair.server.path_stats().find(|path| path.active).unwrap();
    assert_eq!(active.peer_addr, address);
    let stats = path_stats(&pair.server);
    assert_eq!(
        stats.estimated_send_rate,
        (active.cwnd as f64 / active.rtt.as_secs_f64()) as u64
    );
}
