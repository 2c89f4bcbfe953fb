#![allow(clippy::disallowed_methods)] // its clock is virtual

#[path = "../../../../tacklib/tests/common/mod.rs"]
mod common;

use common::*;
use tacklib::Profile;

use super::*;
use crate::frame::FrameKind;
use crate::receiver::{FrameReceiver, ReceiverEvent};

const MS: Duration = Duration::from_millis(1);
const INTERVAL: Duration = Duration::from_millis(10);
const DAY: Duration = Duration::from_secs(24 * 3600);

/// A sender at the client, and a receiver at the server.
struct Live {
    pair: Pair<Connection, Connection>,
    sender: FrameSender,
    receiver: FrameReceiver,
    received: u64,
    last: Option<u64>,
    /// Bytes of each frame.
    len: usize,
}

impl Live {
    fn new(server: Profile) -> Self {
        Self::towards(&mut profile_config(server))
    }

    fn towards(server: &mut tacklib::Config) -> Self {
        let client = tack_client(&mut profile_config(Profile::Video));
        let server = tack_server(server);
        let mut pair = Pair::new(client, server).with_delay(20 * MS).with_rate(20);
        pair.handshake();
        let sender = FrameSender::new(Instant::now());
        Self {
            pair,
            sender,
            receiver: FrameReceiver::new(),
            received: 0,
            last: None,
            len: 2000,
        }
    }

    /// A frame that depends on the one before, and the time until the next.
    fn frame(&mut self, lifetime: Duration) {
        let now = Instant::now();
        let frame = Frame {
            kind: if self.last.is_none() { FrameKind::Key } else { FrameKind::Delta },
            layer: 0,
            captured_at: now,
            deadline: now + lifetime,
            depends_on: self.last,
        };
        let payload = vec![7; self.len];
        let number = self.sender.send_frame(&mut self.pair.client, now, frame, payload);
        self.last = Some(number.unwrap());
        self.run_for(INTERVAL);
    }

    fn run_for(&mut self, time: Duration) {
        let end = Instant::now() + time;
        while Instant::now() < end {
            self.pair.run_for(MS);
            let now = Instant::now();
            self.sender.flush(&mut self.pair.client, now).unwrap();
            self.receiver.read(now, &mut self.pair.server);
            while let Some(event) = self.receiver.poll_event() {
                self.received += u64::from(matches!(event, ReceiverEvent::Frame(_)));
            }
        }
    }
}

#[test]
fn frames_that_are_delivered_are_forgotten_long_before_their_deadline() {
    // A peer without TACK, too.
    for server in [Profile::Default, Profile::Off] {
        let mut live = Live::new(server);
        live.pair.tamper_up(lossy(2, 7));
        let mut most = 0;
        for _ in 0..1000 {
            live.frame(DAY);
            most = most.max(live.sender.taken.len());
        }
        assert!(most < 60, "{most} frames with {server:?}");
        live.run_for(Duration::from_secs(1));
        assert_eq!((live.received, live.sender.taken.len()), (1000, 0), "{server:?}");
        assert_eq!(live.sender.open.len(), 0);
    }
}

#[test]
fn the_deadline_of_a_frame_that_is_delivered_sets_no_timer() {
    let lifetime = Duration::from_secs(5);
    let mut live = Live::new(Profile::Default);
    (0..20).for_each(|_| live.frame(lifetime));
    live.run_for(500 * MS);
    assert_eq!(live.received, 20);
    let next = live.pair.client.timeout_instant().unwrap();
    let left = next.saturating_duration_since(Instant::now());
    assert!(left > lifetime, "in {left:?}; the idle timeout is ten seconds");
}

#[test]
fn what_depends_on_a_lost_frame_is_dropped_though_frames_in_between_are_delivered() {
    let lifetime = 200 * MS;
    let mut live = Live::new(Profile::Default);
    live.len = 300;
    (0..10).for_each(|_| live.frame(lifetime));
    // A long frame never comes, however often it is sent.
    live.pair.tamper_up(Box::new(|datagram| (datagram.len() < 900).then_some(datagram)));
    live.len = 1000;
    live.frame(lifetime);
    live.len = 300;
    (0..30).for_each(|_| live.frame(lifetime));
    let dropped: Vec<_> = std::iter::from_fn(|| live.sender.poll_event())
        .filter_map(|event| match event {
            SenderEvent::Dropped { number, .. } => Some(number),
            _ => None,
        })
        .collect();
    assert_eq!(dropped, (10..=40).collect::<Vec<_>>());
    assert!(live.received > 20, "{} have come all the same", live.received);
}

#[test]
fn a_frame_that_arrived_takes_nothing_with_it_though_its_acknowledgements_were_lost() {
    let lifetime = 60 * MS;
    let mut live = Live::new(Profile::Default);
    (0..30).for_each(|_| live.frame(lifetime));
    live.run_for(200 * MS);
    live.pair.tamper_down(Box::new(|_| None));
    let (before, _) = live.pair.packets();
    live.frame(lifetime);
    live.run_for(30 * MS);
    let (sent, _) = live.pair.packets();
    while live.pair.packets().0 == sent {
        live.run_for(MS); // until the probe timer expires
    }
    assert!(sent > before, "the frame has left");
    live.pair.tamper_down(Box::new(Some));
    (0..30).for_each(|_| live.frame(lifetime));
    live.run_for(200 * MS);
    let is_dropped = |event| matches!(event, SenderEvent::Dropped { .. });
    assert!(!std::iter::from_fn(|| live.sender.poll_event()).any(is_dropped));
    assert_eq!((live.received, live.sender.taken.len()), (61, 0));
}

#[test]
fn of_events_that_nobody_takes_the_newest_4096_are_kept() {
    let mut live = Live::new(Profile::Default);
    for _ in 0..5000 {
        let now = Instant::now();
        let late = Frame {
            kind: FrameKind::Audio,
            layer: 0,
            captured_at: now,
            deadline: now,
            depends_on: None,
        };
        live.sender.send_frame(&mut live.pair.client, now, late, b"sound").unwrap();
    }
    let events: Vec<_> = std::iter::from_fn(|| live.sender.poll_event()).collect();
    let expected = (5000 - 4096..5000)
        .map(|number| SenderEvent::Dropped { number, cause: DropCause::Late });
    assert!(events.into_iter().eq(expected));
}

#[test]
fn a_frame_that_there_is_no_room_for_is_refused_and_leaves_no_gap() {
    let mut live = Live::new(Profile::Default);
    let sent_at = Instant::now();
    let sound = Frame {
        kind: FrameKind::Audio,
        layer: 0,
        captured_at: sent_at,
        deadline: sent_at + DAY,
        depends_on: None,
    };
    let send = |live: &mut Live| {
        live.sender.send_frame(&mut live.pair.client, Instant::now(), sound, [7; 2000])
    };
    let mut taken = 0;
    while taken < 2000 && send(&mut live) == Ok(taken) {
        taken += 1;
    }
    assert_eq!(send(&mut live), Err(SendError::Full));
    assert!((MOST_WAITING as u64..2 * MOST_WAITING as u64).contains(&taken), "{taken}");
    live.run_for(100 * MS);
    assert_eq!(send(&mut live), Ok(taken), "it has the next number");
    live.run_for(Duration::from_secs(5));
    assert_eq!((live.received, live.sender.never_begun()), (taken + 1, 0));
    let is_dropped = |event| matches!(event, SenderEvent::Dropped { .. });
    assert!(!std::iter::from_fn(|| live.sender.poll_event()).any(is_dropped));
}

fn dropped(live: &mut Live) -> Vec<(u64, DropCause)> {
    std::iter::from_fn(|| live.sender.poll_event())
        .filter_map(|event| match event {
            SenderEvent::Dropped { number, cause } => Some((number, cause)),
            _ => None,
        })
        .collect()
}

/// A picture that needs no other.
fn key_frame(lifetime: Duration) -> Frame {
    let now = Instant::now();
    let (captured_at, deadline) = (now, now + lifetime);
    Frame { kind: FrameKind::Key, layer: 0, captured_at, deadline, depends_on: None }
}

#[test]
fn a_whole_frame_whose_stream_the_receiver_stops_is_refused_with_what_depends_on_it() {
    let mut live = Live::new(Profile::Default);
    live.sender.set_drop_error(77);
    for _ in 0..3 {
        let frame = Frame { depends_on: live.last, ..key_frame(DAY) };
        let now = Instant::now();
        let number = live.sender.send_frame(&mut live.pair.client, now, frame, [7; 3000]);
        live.last = Some(number.unwrap());
    }
    assert_eq!((live.sender.backlog(), live.sender.taken.len()), ((0, 0), 3));
    // The first frame comes, and a part of the second one.
    let mut datagrams = 0;
    live.pair.tamper_up(Box::new(move |datagram| {
        datagrams += 1;
        (datagrams < 5).then_some(datagram)
    }));
    live.pair.run_until(|pair| pair.server.stream_readable(6));
    live.pair.server.stream_shutdown(6, Shutdown::Read, 7).unwrap();
    live.pair.run_for(30 * MS);
    live.pair.tamper_up(Box::new(Some));
    for _ in 0..100 {
        live.pair.run_for(MS);
        live.sender.flush(&mut live.pair.client, Instant::now()).unwrap();
    }
    let refused = [(1, DropCause::Refused), (2, DropCause::Dependency)];
    assert_eq!((dropped(&mut live), live.sender.taken.len()), (refused.to_vec(), 0));
    let read = live.pair.server.stream_recv(10, &mut [0; 5000]);
    assert_eq!(read, Err(quiche::Error::StreamReset(77)), "the code that was set");
}

#[test]
fn a_stream_of_the_application_that_is_stopped_has_an_event() {
    let mut live = Live::new(Profile::Default);
    live.pair.client.stream_send(0, b"mine", false).unwrap();
    live.run_for(100 * MS);
    live.pair.server.stream_shutdown(0, Shutdown::Read, 7).unwrap();
    live.run_for(100 * MS);
    let stopped = SenderEvent::OtherStopped { stream_id: 0 };
    assert_eq!(live.sender.poll_event(), Some(stopped));
}

#[test]
fn a_frame_waits_until_the_streams_that_are_the_applications_are_granted() {
    let mut config = profile_config(Profile::Default);
    config.set_initial_max_streams_uni(2);
    let mut live = Live::towards(&mut config);
    live.sender = FrameSender::with_first_stream(Instant::now(), 2);
    live.frame(DAY);
    assert_eq!(live.sender.backlog().0, 1);
    live.sender.flush(&mut live.pair.client, Instant::now()).unwrap();
    for stream_id in [2, 6] {
        live.pair.client.stream_send(stream_id, b"mine", true).unwrap();
    }
    live.pair.run_for(100 * MS);
    for stream_id in [2, 6] {
        live.pair.server.stream_recv(stream_id, &mut [0; 10]).unwrap();
    }
    live.run_for(200 * MS);
    assert_eq!((live.received, live.sender.backlog().0), (1, 0));
}

#[test]
fn a_stream_that_was_opened_while_nothing_could_be_written_is_used_later() {
    let mut config = profile_config(Profile::Default);
    config.set_initial_max_streams_uni(1);
    config.set_initial_max_data(1000);
    let mut live = Live::towards(&mut config);
    assert_eq!(live.pair.client.stream_send(0, &[7; 1000], false), Ok(1000));
    live.frame(DAY);
    live.run_for(100 * MS);
    assert_eq!(live.sender.backlog().0, 1);
    live.pair.server.stream_recv(0, &mut [0; 1000]).unwrap();
    live.run_for(300 * MS);
    assert_eq!((live.received, live.sender.backlog().0), (1, 0));
}

#[test]
fn a_frame_for_a_connection_that_is_over_gets_no_number() {
    let mut live = Live::new(Profile::Default);
    live.pair.client.close(true, 0, b"").unwrap();
    live.pair.run_for(100 * MS);
    let (now, frame) = (Instant::now(), key_frame(DAY));
    let sent = live.sender.send_frame(&mut live.pair.client, now, frame, [7; 100]);
    assert_eq!(sent, Err(SendError::Closed));
    assert_eq!((live.sender.next_number, live.sender.backlog()), (0, (0, 0)));
}

#[test]
fn what_fails_while_a_frame_is_taken_is_told_by_the_next_flush() {
    let mut live = Live::new(Profile::Default);
    // The application has ended a stream that is the sender's.
    live.pair.client.stream_send(2, b"mine", true).unwrap();
    let (now, frame) = (Instant::now(), key_frame(DAY));
    let client = &mut live.pair.client;
    assert_eq!(live.sender.send_frame(client, now, frame, [7; 100]), Ok(0));
    let failed = live.sender.flush(client, now);
    assert!(matches!(failed, Err(SendError::Connection(_))), "{failed:?}");
}
