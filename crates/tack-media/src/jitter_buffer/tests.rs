#![allow(clippy::disallowed_methods)] // a test counts from some instant

use super::waiting_frames::{MOST_WAITING, MOST_WAITING_BYTES};
use super::*;
use crate::frame::FrameHeader;

const MS: Duration = Duration::from_millis(1);

fn frame(start: Instant, number: u64, took: Duration) -> ReceivedFrame {
    let captured = u32::try_from(number).unwrap() * 33 * MS;
    let kind = if number == 0 { FrameKind::Key } else { FrameKind::Delta };
    let header = FrameHeader {
        kind,
        layer: 0,
        number,
        depends_on: number.checked_sub(1),
        captured,
        lifetime: 200 * MS,
        len: 3,
    };
    ReceivedFrame { header, payload: vec![1; 3], arrived: start + captured + took }
}

fn buffer(missing: Missing) -> JitterBuffer {
    JitterBuffer::new(JitterBufferConfig { missing, ..JitterBufferConfig::default() })
}

/// Shows all that is due until `until`, and when.
fn show(buffer: &mut JitterBuffer, until: Instant) -> Vec<(u64, bool)> {
    std::iter::from_fn(|| buffer.pop(until))
        .map(|due| (due.frame.header.number, due.is_whole))
        .collect()
}

#[test]
fn early_a_frame_is_handed_over_as_soon_as_nothing_is_missing_before_it() {
    let start = Instant::now();
    let mut buffer = JitterBuffer::new(JitterBufferConfig {
        shortest: 200 * MS,
        ..JitterBufferConfig::default()
    });
    let numbers = |buffer: &mut JitterBuffer, at| -> Vec<_> {
        std::iter::from_fn(|| buffer.pop_early(at)).map(|due| due.frame.header.number).collect()
    };
    buffer.push(frame(start, 1, 20 * MS));
    assert!(numbers(&mut buffer, start + 60 * MS).is_empty(), "the key frame may come");
    buffer.push(frame(start, 0, 70 * MS));
    assert_eq!(numbers(&mut buffer, start + 70 * MS), [0, 1]);
    for number in [3, 4] {
        buffer.push(frame(start, number, 20 * MS));
    }
    assert!(numbers(&mut buffer, start + 200 * MS).is_empty(), "frame 2 may come");
    let at = buffer.next_at().unwrap();
    assert_eq!(at, start + (3 * 33 + 20 + 200) * MS);
    assert_eq!(numbers(&mut buffer, at), [3, 4]);
    assert_eq!(buffer.pop(at + 500 * MS), None);
}

#[test]
fn delays_of_any_length_are_as_long_as_they_can_be() {
    let start = Instant::now();
    for (shortest, missing) in [(Duration::MAX, Missing::Skip), (10 * MS, Missing::Wait)] {
        let mut buffer = JitterBuffer::new(JitterBufferConfig {
            shortest,
            longest: Duration::MAX,
            missing,
            ..JitterBufferConfig::default()
        });
        for number in [0, 1, 3] {
            buffer.push(frame(start, number, 20 * MS));
        }
        let soon = start + Duration::from_secs(3600);
        let shown = show(&mut buffer, soon);
        assert_eq!(shown.len(), if missing == Missing::Skip { 0 } else { 2 });
        assert!(buffer.next_at().is_none_or(|at| at > soon));
    }
}

#[test]
fn frames_are_shown_in_order_at_even_times_however_they_come() {
    let start = Instant::now();
    let mut buffer = buffer(Missing::Skip);
    let took = [20, 60, 25, 45, 20, 70, 30, 20, 65, 25].map(|ms| ms * MS);
    for (number, took) in (0..300).zip(took.into_iter().cycle()) {
        buffer.push(frame(start, number, took));
    }
    assert!((50 * MS..=51 * MS).contains(&buffer.delay()), "{:?}", buffer.delay());
    let end = start + Duration::from_secs(60);
    let mut shown = Vec::new();
    while let Some(due) = buffer.pop(end) {
        assert!(due.at >= due.frame.arrived);
        shown.push((due.frame.header.number, due.at));
    }
    assert_eq!(shown.len(), 300);
    for pair in shown.windows(2) {
        assert_eq!(pair[1].0, pair[0].0 + 1);
        assert_eq!(pair[1].1 - pair[0].1, 33 * MS);
    }
}

#[test]
fn what_depends_on_a_missing_frame_is_broken_until_the_next_key() {
    let start = Instant::now();
    let mut buffer = buffer(Missing::Skip);
    for number in [0, 1, 3, 4] {
        buffer.push(frame(start, number, 20 * MS));
    }
    let mut key = frame(start, 5, 20 * MS);
    (key.header.kind, key.header.depends_on) = (FrameKind::Key, None);
    buffer.push(key);
    buffer.push(frame(start, 6, 20 * MS));
    let shown = show(&mut buffer, start + Duration::from_secs(9));
    assert_eq!(shown, [(0, true), (1, true), (3, false), (4, false), (5, true), (6, true)]);
    assert!(!buffer.push(frame(start, 2, 400 * MS)), "its time has passed");
    assert_eq!(buffer.late(), 1);
}

#[test]
fn a_frame_that_is_late_makes_those_behind_it_whole_again() {
    let start = Instant::now();
    let mut buffer = buffer(Missing::Skip);
    for number in [0, 1, 4] {
        buffer.push(frame(start, number, 20 * MS));
    }
    let now = start + 200 * MS;
    assert_eq!(show(&mut buffer, now), [(0, true), (1, true), (4, false)]);
    // It needs 2, which is missing as well.
    assert!(!buffer.push(frame(start, 3, 120 * MS)));
    assert_eq!(show(&mut buffer, now), []);
    assert!(!buffer.push(frame(start, 2, 150 * MS)));
    for number in [2, 3, 4] {
        let due = buffer.pop(now).unwrap();
        assert_eq!((due.frame.header.number, due.is_whole, due.is_late), (number, true, true));
    }
    assert!(!buffer.push(frame(start, 2, 150 * MS)), "again");
    buffer.push(frame(start, 5, 20 * MS));
    let due = buffer.pop(start + 900 * MS).unwrap();
    assert_eq!((due.frame.header.number, due.is_whole, due.is_late), (5, true, false));
    assert_eq!(buffer.pop(start + 900 * MS), None);
    assert_eq!(buffer.late_frames.kept(), (0, 0));
}

#[test]
fn what_is_late_behind_a_newer_key_frame_is_needed_no_more() {
    let start = Instant::now();
    let mut buffer = buffer(Missing::Skip);
    for number in [0, 2, 3] {
        buffer.push(frame(start, number, 20 * MS));
    }
    let mut key = frame(start, 4, 20 * MS);
    (key.header.kind, key.header.depends_on) = (FrameKind::Key, None);
    buffer.push(key);
    show(&mut buffer, start + 900 * MS);
    assert_eq!(buffer.late_frames.kept(), (0, 0));
    buffer.push(frame(start, 1, 500 * MS));
    assert_eq!(buffer.pop(start + 900 * MS), None);
}

#[test]
fn frames_that_are_kept_for_a_late_one_are_bounded() {
    let start = Instant::now();
    let mut buffer = buffer(Missing::Skip);
    buffer.push(frame(start, 0, 20 * MS));
    for number in 2..5000 {
        let mut large = frame(start, number, 20 * MS);
        large.payload = vec![0; 100_000];
        buffer.push(large);
        show(&mut buffer, start + Duration::from_secs(600));
    }
    let (frames, bytes) = buffer.late_frames.kept();
    assert!(frames > 100 && frames <= 256 && bytes <= 16 << 20, "{frames}, {bytes} bytes");
    buffer.push(frame(start, 1, 900 * MS));
    assert!(show(&mut buffer, start + Duration::from_secs(600)).len() <= 256);
}

/// Sound, which needs no picture.
fn sound(start: Instant, number: u64, took: Duration) -> ReceivedFrame {
    let mut sound = frame(start, number, took);
    (sound.header.kind, sound.header.depends_on) = (FrameKind::Audio, None);
    sound
}

#[test]
fn what_needs_a_key_frame_that_comes_behind_the_first_sound_is_whole_only_with_it() {
    let start = Instant::now();
    let mut buffer = buffer(Missing::Skip);
    buffer.push(sound(start, 1, 20 * MS));
    let now = start + 200 * MS;
    assert_eq!(show(&mut buffer, now), [(1, true)]);
    let mut delta = frame(start, 2, 20 * MS);
    delta.header.depends_on = Some(0);
    buffer.push(delta);
    assert_eq!(show(&mut buffer, now), [(2, false)]);
    assert!(!buffer.push(frame(start, 0, 150 * MS)), "its time has passed");
    for number in [0, 2] {
        let due = buffer.pop(now).unwrap();
        assert_eq!((due.frame.header.number, due.is_whole, due.is_late), (number, true, true));
    }
    assert_eq!(buffer.pop(now), None);
}

#[test]
fn what_comes_before_the_first_key_frame_waits_for_it() {
    let start = Instant::now();
    for first in [sound(start, 1, 20 * MS), frame(start, 1, 20 * MS)] {
        let mut buffer = buffer(Missing::Wait);
        buffer.push(first);
        let now = start + 200 * MS;
        assert_eq!(show(&mut buffer, now), []);
        assert!(buffer.next_at().unwrap() > now);
        buffer.push(frame(start, 0, 250 * MS));
        assert_eq!(show(&mut buffer, start + 300 * MS), [(0, true), (1, true)]);
        // Playback has not stood still: it had not begun.
        assert_eq!(buffer.stood(start + 300 * MS), Duration::ZERO);
    }
}

#[test]
fn playback_begins_without_frames_that_the_sender_never_began() {
    let start = Instant::now();
    let mut buffer = buffer(Missing::Wait);
    let mut key = frame(start, 11, 20 * MS);
    (key.header.kind, key.header.depends_on) = (FrameKind::Key, None);
    for frame in [sound(start, 10, 20 * MS), key, frame(start, 12, 20 * MS)] {
        buffer.push(frame);
    }
    let now = start + (12 * 33 + 30) * MS;
    assert_eq!(show(&mut buffer, now), [(10, true), (11, true), (12, true)]);
}

#[test]
fn a_receiver_that_joins_late_waits_for_nothing_before_its_first_frame() {
    let start = Instant::now();
    for missing in [Missing::Skip, Missing::Wait] {
        let mut buffer = buffer(missing);
        for number in 5000..5003 {
            let mut sound = sound(start, number, 20 * MS);
            sound.header.lifetime = Duration::from_secs(24 * 3600);
            buffer.push(sound);
        }
        let now = start + (5002 * 33 + 30) * MS;
        assert_eq!(show(&mut buffer, now), [(5000, true), (5001, true), (5002, true)]);
        assert_eq!(buffer.stood(now), Duration::ZERO);
    }
}

#[test]
fn playback_stands_still_in_an_outage_and_goes_on_from_there() {
    let start = Instant::now();
    let mut buffer = buffer(Missing::Wait);
    for number in 0..10 {
        buffer.push(frame(start, number, 20 * MS));
    }
    let before = start + 400 * MS;
    assert_eq!(show(&mut buffer, before).len(), 10);
    assert_eq!(buffer.stood(before), Duration::ZERO);
    let back = start + Duration::from_secs(3);
    for number in 10..=40 {
        let mut frame = frame(start, number, 20 * MS);
        frame.arrived = back;
        buffer.push(frame);
    }
    assert_eq!(show(&mut buffer, back), [(10, true)]);
    // Frame 10 was due at 360 ms.
    assert_eq!(buffer.stood(back), 2640 * MS);
    assert_eq!(show(&mut buffer, back + 32 * MS), []);
    assert_eq!(show(&mut buffer, back + 33 * MS), [(11, true)]);
    assert_eq!(show(&mut buffer, back + 30 * 33 * MS).len(), 29);
    assert_eq!(buffer.stood(back + 30 * 33 * MS), 2640 * MS);
}

#[test]
fn playback_stands_still_once_in_an_outage_whose_frames_come_one_after_the_other() {
    let start = Instant::now();
    let mut buffer = buffer(Missing::Wait);
    let back = start + (300 * 33 + 2000) * MS;
    let mut shown: Vec<Instant> = Vec::new();
    let mut next = 0;
    for ms in 0..20_000 {
        let now = start + ms * MS;
        while next < 450 {
            let mut frame = frame(start, next, 20 * MS);
            frame.header.lifetime = Duration::from_secs(10);
            if next >= 300 {
                // Ten a frame's time until they have caught up.
                let sent = back + u32::try_from(next - 300).unwrap() * 3 * MS;
                frame.arrived = frame.arrived.max(sent);
            }
            if frame.arrived > now {
                break;
            }
            buffer.push(frame);
            next += 1;
        }
        shown.extend(std::iter::from_fn(|| buffer.pop(now)).map(|_| now));
    }
    assert_eq!(shown.len(), 450);
    let gaps = shown.windows(2).map(|pair| pair[1] - pair[0]);
    let long: Vec<_> = gaps.filter(|gap| *gap > 40 * MS).collect();
    assert_eq!(long.len(), 1, "{long:?}");
}

#[test]
fn a_path_that_becomes_longer_for_good_interrupts_playback_once() {
    let start = Instant::now();
    for missing in [Missing::Skip, Missing::Wait] {
        let mut buffer = buffer(missing);
        let (mut next, mut shown) = (0, Vec::new());
        for now in (0..30_000).map(|ms| start + ms * MS) {
            while next < 700 {
                let took = if next < 300 { 20 } else { 120 };
                let frame = frame(start, next, took * MS);
                if frame.arrived > now {
                    break;
                }
                buffer.push(frame);
                next += 1;
            }
            shown.extend(std::iter::from_fn(|| buffer.pop(now)).map(|due| (due, now)));
        }
        assert!(shown.len() > 690, "{}", shown.len());
        let gaps = shown.windows(2).map(|pair| pair[1].1 - pair[0].1);
        // A frame, and the shortest delay, which is behind the fastest of late.
        let long: Vec<_> = gaps.filter(|gap| *gap > 45 * MS).collect();
        assert_eq!(long.len(), 1, "{missing:?}: {long:?}");
        let (last, at) = &shown[shown.len() - 1];
        let behind = *at - (start + last.frame.header.captured);
        assert!(behind < 150 * MS, "{behind:?} where the path takes 120 ms");
    }
}

#[test]
fn frames_before_the_first_key_frame_are_passed_over_on_a_small_stack_too() {
    let run = || {
        let start = Instant::now();
        let mut buffer = buffer(Missing::Skip);
        for number in 1..2000 {
            buffer.push(frame(start, number, 20 * MS));
        }
        assert_eq!(buffer.pop(start + Duration::from_secs(600)), None);
    };
    std::thread::Builder::new().stack_size(128 << 10).spawn(run).unwrap().join().unwrap();
}

#[test]
fn frames_that_come_unevenly_hold_playback_back_by_no_more_than_the_latest_of_them() {
    let start = Instant::now();
    let mut buffer = buffer(Missing::Wait);
    let took = [20, 60, 25, 45, 20, 70, 30, 20, 65, 25].map(|ms| ms * MS);
    let mut shown = 0;
    for (number, took) in (0..3000).zip(took.into_iter().cycle()) {
        let frame = frame(start, number, took);
        let now = frame.arrived;
        buffer.push(frame);
        while let Some(due) = buffer.pop(now) {
            shown += 1;
            let behind = due.at.saturating_duration_since(start + due.frame.header.captured);
            assert!(behind <= 80 * MS, "{behind:?}");
        }
    }
    assert!(shown > 2990 && buffer.stood(start) < 60 * MS, "{:?}", buffer.stood(start));
}

#[test]
fn playback_stands_still_for_a_frame_that_will_come_and_goes_on_from_there() {
    let start = Instant::now();
    let mut buffer = buffer(Missing::Wait);
    for number in [0, 1, 3] {
        buffer.push(frame(start, number, 20 * MS));
    }
    let at = start + 200 * MS;
    assert_eq!(show(&mut buffer, at), [(0, true), (1, true)]);
    assert!(buffer.stood(at) > 50 * MS, "{:?}", buffer.stood(at));
    buffer.push(frame(start, 2, 20 * MS + 180 * MS));
    let later = start + Duration::from_secs(2);
    assert_eq!(show(&mut buffer, later).len(), 1, "frame 3 is due a frame later");
    assert_eq!(show(&mut buffer, later + Duration::from_secs(2)), [(3, true)]);
}

#[test]
fn a_frame_that_never_began_is_waited_for_until_its_deadline_has_long_passed() {
    let start = Instant::now();
    let mut buffer = buffer(Missing::Wait);
    for number in [0, 1, 3, 4, 6] {
        buffer.push(frame(start, number, 20 * MS));
    }
    let mut key = frame(start, 7, 20 * MS);
    (key.header.kind, key.header.depends_on) = (FrameKind::Key, None);
    buffer.push(key);
    // Frame 3 lives for 200 ms, and `longest` is a second.
    let before = start + (3 * 33 + 20 + 200 + 999) * MS;
    let gives_up = before + MS;
    assert_eq!(show(&mut buffer, before), [(0, true), (1, true)]);
    assert_eq!(buffer.next_at(), Some(gives_up));
    assert_eq!(show(&mut buffer, gives_up), [(3, false)]);
    // Playback is that far behind now, and the next gap costs no time.
    let stood = buffer.stood(gives_up);
    let rest = show(&mut buffer, gives_up + 4 * 33 * MS);
    assert_eq!(rest, [(4, false), (6, false), (7, true)]);
    assert_eq!(buffer.stood(gives_up + 4 * 33 * MS), stood);
}

#[test]
fn a_frame_of_a_reliable_sender_is_waited_for_however_late_it_comes() {
    let start = Instant::now();
    let hour = Duration::from_secs(3600);
    let mut buffer = buffer(Missing::Wait);
    let reliable = |number, took| {
        let mut frame = frame(start, number, took);
        frame.header.lifetime = 24 * hour;
        frame
    };
    for number in [0, 2] {
        buffer.push(reliable(number, 20 * MS));
    }
    assert_eq!(show(&mut buffer, start + hour), [(0, true)]);
    buffer.push(reliable(1, hour));
    assert_eq!(show(&mut buffer, start + hour + 100 * MS), [(1, true)]);
    assert_eq!(show(&mut buffer, start + hour + 200 * MS), [(2, true)]);
}

#[test]
fn a_frame_that_is_known_to_be_lost_is_not_waited_for() {
    let start = Instant::now();
    let mut buffer = buffer(Missing::Wait);
    for number in [0, 2] {
        buffer.push(frame(start, number, 20 * MS));
    }
    assert_eq!(show(&mut buffer, start + 300 * MS), [(0, true)]);
    buffer.on_lost(1);
    let mut shown = show(&mut buffer, start + 300 * MS);
    shown.extend(show(&mut buffer, start + 900 * MS));
    assert_eq!(shown, [(2, false)]);
}

#[test]
fn a_senders_clock_that_jumps_stops_nothing_for_longer_than_the_longest_delay() {
    let start = Instant::now();
    let mut buffer = buffer(Missing::Skip);
    for number in 0..600 {
        let mut frame = frame(start, number, 20 * MS);
        if number >= 300 {
            frame.header.captured += Duration::from_secs(3600);
        }
        buffer.push(frame);
    }
    assert!(buffer.delay() <= Duration::from_secs(1));
    let shown = show(&mut buffer, start + Duration::from_secs(40));
    assert!(shown.len() > 550, "{}", shown.len());
}

#[test]
fn a_senders_clock_that_jumps_costs_no_time_and_no_frames() {
    let start = Instant::now();
    for jump in [-3600, 3600] {
        for missing in [Missing::Skip, Missing::Wait] {
            let mut buffer = buffer(missing);
            let mut shown = Vec::new();
            for number in 0..900 {
                let mut frame = frame(start, number, 20 * MS);
                let hours = if number < 300 { 7200 } else { 7200 + jump };
                frame.header.captured += Duration::from_secs(u64::try_from(hours).unwrap());
                let now = frame.arrived + 12 * MS;
                buffer.push(frame);
                shown.extend(std::iter::from_fn(|| buffer.pop(now)).map(|due| due.is_whole));
            }
            let end = start + Duration::from_secs(40);
            shown.extend(std::iter::from_fn(|| buffer.pop(end)).map(|due| due.is_whole));
            assert_eq!(shown, vec![true; 900], "by {jump} s, {missing:?}");
            assert!(buffer.stood(end) < 50 * MS, "{:?}", buffer.stood(end));
            assert_eq!(buffer.clock_jumps(), 1);
        }
    }
}

#[test]
fn frames_that_wait_when_the_clock_goes_back_are_shown_at_their_time() {
    let start = Instant::now();
    let mut buffer = JitterBuffer::new(JitterBufferConfig {
        shortest: 500 * MS,
        ..JitterBufferConfig::default()
    });
    let mut times = Vec::new();
    for number in 0..60 {
        let mut frame = frame(start, number, 20 * MS);
        let hours = if number < 30 { 2 } else { 1 };
        frame.header.captured += Duration::from_secs(3600 * hours);
        let now = frame.arrived;
        buffer.push(frame);
        times.extend(std::iter::from_fn(|| buffer.pop(now)).map(|due| due.at));
    }
    let rest = start + Duration::from_secs(9);
    times.extend(std::iter::from_fn(|| buffer.pop(rest)).map(|due| due.at));
    assert_eq!(times.len(), 60);
    assert!(times.windows(2).all(|pair| pair[1] - pair[0] == 33 * MS), "{times:?}");
}

#[test]
fn a_gap_is_not_waited_for_when_more_has_come_behind_it_than_the_buffer_holds() {
    let start = Instant::now();
    let mut buffer = buffer(Missing::Wait);
    let (mut shown, mut longest) = (Vec::new(), Duration::ZERO);
    let mut last = start;
    for number in (0..6000).filter(|number| *number != 100) {
        let mut frame = frame(start, number, 20 * MS);
        frame.header.lifetime = Duration::from_secs(24 * 3600);
        if number % 30 == 0 {
            (frame.header.kind, frame.header.depends_on) = (FrameKind::Key, None);
        }
        let now = frame.arrived;
        buffer.push(frame);
        while let Some(due) = buffer.pop(now) {
            longest = longest.max(now - last);
            last = now;
            shown.push(due.is_whole);
        }
    }
    let full = u32::try_from(MOST_WAITING).unwrap() * 33 * MS;
    assert!(longest <= full + Duration::from_secs(1), "{longest:?}");
    assert!(shown.iter().all(|is_whole| *is_whole), "it goes on with a key frame");
    let waiting = buffer.waiting.len();
    assert_eq!(shown.len() + waiting + usize::try_from(buffer.overflow()).unwrap(), 5999);
    assert!(buffer.overflow() <= 1100, "{} frames were dropped", buffer.overflow());
}

#[test]
fn memory_is_bounded_when_nothing_is_shown() {
    let start = Instant::now();
    let mut buffer = buffer(Missing::Skip);
    for number in 0..10_000 {
        buffer.push(frame(start, number, 20 * MS));
    }
    assert!(buffer.waiting.len() <= MOST_WAITING);
    for number in 10_000..10_100 {
        let mut large = frame(start, number, 20 * MS);
        large.payload = vec![0; 1 << 20];
        buffer.push(large);
    }
    assert!(buffer.waiting.len() <= 64 && buffer.waiting.bytes() <= MOST_WAITING_BYTES);
    show(&mut buffer, start + Duration::from_secs(600));
    assert_eq!((buffer.waiting.len(), buffer.waiting.bytes()), (0, 0));
}

#[test]
fn a_viewer_that_took_no_frames_for_long_goes_on_with_the_current_ones() {
    let start = Instant::now();
    let mut buffer = buffer(Missing::Skip);
    let mut whole = |number: u64, arrived: Option<Instant>, at: Duration| {
        let mut frame = frame(start, number, 20 * MS);
        (frame.header.kind, frame.header.depends_on) = (FrameKind::Key, None);
        frame.arrived = arrived.unwrap_or(frame.arrived);
        let now = frame.arrived + at;
        buffer.push(frame);
        (show(&mut buffer, now).last().copied(), buffer.clock_jumps())
    };
    for number in 0..300 {
        whole(number, None, 10 * MS);
    }
    // What had come in a pause of a minute, and was not read, and then what comes now.
    let back = start + 2200 * 33 * MS;
    for number in 300..600 {
        whole(number, Some(back), 10 * MS);
    }
    for number in 2200..2300 {
        whole(number, None, 10 * MS);
    }
    let (shown, jumps) = whole(2300, None, 10 * MS);
    let (number, is_whole) = shown.unwrap();
    // No more than the longest delay behind.
    assert!(number > 2300 - 30 && is_whole, "{number}");
    assert_eq!(jumps, 1, "it looks like one");
}
