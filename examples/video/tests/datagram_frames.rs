//! Frames in DATAGRAMs over a link that has become too slow, in virtual time.

#![allow(clippy::unwrap_used)] // a test that cannot be set up has failed
#![allow(clippy::disallowed_methods)] // its clock is virtual

#[path = "../../../tacklib/tests/common/mod.rs"]
mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use common::*;
use tack_example_video::datagrams::{DatagramReceiver, DatagramSender};
use tack_media::{DropCause, Frame, FrameKind, ReceiverEvent, SenderEvent};
use tacklib::{Connection, Profile};

const MS: Duration = Duration::from_millis(1);
const INTERVAL: Duration = Duration::from_millis(33);
/// Frames from one key frame to the next.
const GROUP: u64 = 30;

struct Live {
    pair: Pair<Connection, Connection>,
    sender: DatagramSender,
    receiver: DatagramReceiver,
    dropped: BTreeMap<u64, DropCause>,
    come: BTreeSet<u64>,
    next: u64,
}

impl Live {
    fn over(megabits: u64) -> Self {
        let config = || {
            let mut config = profile_config(Profile::Video);
            config.enable_dgram(true, 1000, 1000);
            config
        };
        let pair = Pair::new(tack_client(&mut config()), tack_server(&mut config()));
        let mut pair = pair.with_delay(20 * MS).with_rate(megabits);
        pair.handshake();
        Self {
            pair,
            sender: DatagramSender::new(Instant::now()),
            receiver: DatagramReceiver::default(),
            dropped: BTreeMap::new(),
            come: BTreeSet::new(),
            next: 0,
        }
    }

    fn depends_on(number: u64) -> Option<u64> {
        (!number.is_multiple_of(GROUP)).then(|| number - 1)
    }

    fn frames(&mut self, frames: u64, bytes: usize) {
        for _ in 0..frames {
            let now = Instant::now();
            let depends_on = Self::depends_on(self.next);
            let kind = if depends_on.is_none() { FrameKind::Key } else { FrameKind::Delta };
            let deadline = now + 200 * MS;
            let frame = Frame { kind, layer: 0, captured_at: now, deadline, depends_on };
            let payload = vec![7; bytes];
            let client = &mut self.pair.client;
            assert_eq!(self.sender.send_frame(client, now, frame, &payload), Ok(self.next));
            self.next += 1;
            let end = now + INTERVAL;
            while Instant::now() < end {
                self.pair.run_for(MS);
                let now = Instant::now();
                self.sender.flush(&mut self.pair.client, now).unwrap();
                while let Some(event) = self.sender.poll_event() {
                    if let SenderEvent::Dropped { number, cause } = event {
                        assert_eq!(self.dropped.insert(number, cause), None, "frame {number}");
                    }
                }
                self.receiver.read(now, &mut self.pair.server);
                while let Some(event) = self.receiver.poll_event() {
                    if let ReceiverEvent::Frame(frame) = event {
                        self.come.insert(frame.header.number);
                    }
                }
            }
        }
    }
}

#[test]
fn frames_whose_datagrams_expire_are_told_with_all_that_depends_on_them() {
    let mut live = Live::over(8);
    live.frames(60, 20_000);
    assert!(live.dropped.is_empty(), "{:?}", live.dropped);
    live.pair = live.pair.with_rate(2);
    live.frames(150, 20_000);
    let expired = live.dropped.values().filter(|cause| **cause == DropCause::Expired).count();
    assert!(expired > 3, "{:?}", live.dropped);
    // What is neither there nor told is on its way still, or was lost on it.
    for number in 60..live.next - 15 {
        let lacks = Live::depends_on(number).is_some_and(|on| live.dropped.contains_key(&on));
        assert!(!lacks || live.dropped.contains_key(&number), "frame {number} goes on");
    }
    let whole = live.come.iter().filter(|number| !live.dropped.contains_key(number)).count();
    let broken = live.come.len() - whole;
    assert!(broken < whole / 4, "{broken} frames of {} are of no use", live.come.len());
}
