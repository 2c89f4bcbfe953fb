//! Paths that are too narrow, pipelines that stand still, clocks that jump: frames are dropped and explained, never
//! more.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may panic")]

#[path = "../../tack-ffi/tests/skip/mod.rs"]
mod skip;

mod common;

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use common::nat::Nat;
use common::{
    FRAME, Pipeline, frame, is_delta, is_discont, live_pair, number_of, pair, samples,
};
use gst::prelude::*;
use skip::skip;
use tack_examples::Relay;

/// Counts the requests for key frames that the sink sends upstream.
fn count_requests(sender: &Pipeline) -> Arc<AtomicU64> {
    let requests = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&requests);
    let pad = sender.source().static_pad("src").unwrap();
    pad.add_probe(gst::PadProbeType::EVENT_UPSTREAM, move |_, info| {
        if info
            .event()
            .is_some_and(|event| gst_video::UpstreamForceKeyUnitEvent::parse(event).is_ok())
        {
            count.fetch_add(1, Ordering::Relaxed);
        }
        gst::PadProbeReturn::Ok
    });
    requests
}

/// Sends frames in real time until `requests` or a group ask for a key frame; how many there were.
fn send(sender: &Pipeline, frames: u64, len: usize, requests: &AtomicU64) -> u64 {
    let (mut answered, mut keys) = (requests.load(Ordering::Relaxed), 0);
    for number in 0..frames {
        let asked = requests.load(Ordering::Relaxed);
        let is_key = number == 0 || asked > answered;
        if is_key {
            answered = asked;
            keys += 1;
        }
        sender.source().push_buffer(frame(number, is_key, len)).unwrap();
        std::thread::sleep(Duration::from_millis(FRAME.mseconds()));
    }
    keys
}

/// Each frame that is no key frame follows the one before it: a decoder can show them all.
fn assert_decodable(samples: &[gst::Sample]) {
    let mut last = None;
    for sample in samples {
        let buffer = sample.buffer().unwrap();
        let number = number_of(buffer);
        if is_delta(buffer) {
            assert_eq!(last, Some(number - 1), "frame {number} without what it needs");
        }
        if last.is_some_and(|last| last + 1 != number) {
            assert!(
                is_discont(buffer),
                "frame {number} comes behind a gap and does not say so"
            );
        }
        last = Some(number);
    }
}

#[test]
fn on_a_path_that_is_too_narrow_frames_are_dropped_and_each_is_explained() {
    let sender = Pipeline::new(&format!(
        "appsrc name=in format=time is-live=true caps={} ! \
         tacksink name=sink mode=listener port=0 sync=false deadline=150",
        common::CAPS
    ));
    sender.play();
    let sink = sender.element("sink");
    let port: u32 = sink.property("current-port");
    let server = format!("127.0.0.1:{port}").parse().unwrap();
    // 1 Mbit/s for frames of 2.4.
    let relay = Relay::start(server, 1_000_000, Duration::from_millis(40)).unwrap();
    let fingerprint: String = sink.property("current-fingerprint");
    let receiver = Pipeline::new(&format!(
        "tacksrc name=src port={} fingerprint={fingerprint} ! appsink name=out sync=false",
        relay.address().port()
    ));
    receiver.play();
    sender.wait_until("the receiver is there", |sender| sender.stat("sink", "peers-seen") == 1);
    let requests = count_requests(&sender);
    let keys = send(&sender, 150, 10_000, &requests);
    sender.source().end_of_stream().unwrap();
    let samples = samples(&receiver.sink());
    sender.wait_for_eos();
    receiver.wait_for_eos();
    assert_decodable(&samples);
    assert!(keys > 1 && !samples.is_empty());
    let stat = |field: &str| sender.stat("sink", field);
    let dropped: u64 = ["late", "expired", "dependency", "backlog", "refused", "no-key-frame"]
        .iter()
        .map(|cause| stat(&format!("dropped-{cause}")))
        .sum();
    assert_eq!(stat("buffers"), 150);
    assert_eq!(stat("frames-taken") + dropped, 150);
    assert!(dropped > 0);
    // One that was reset at its deadline may have come all the same.
    let missing = 150 - samples.len() as u64;
    let not_shown: u64 = ["dropped-broken", "dropped-no-caps", "frames-late"]
        .iter()
        .map(|cause| receiver.stat("src", cause))
        .sum();
    assert!(missing <= dropped + not_shown, "{missing} of {dropped} and {not_shown}");
    let rate: u32 = sink.property("estimated-bitrate");
    assert!(rate < 1_500_000, "{rate}");
    let kbit: u32 = sink.property("estimated-bitrate-kbit");
    assert_eq!(kbit, rate / 1000);
}

#[test]
fn a_receiver_that_comes_later_begins_with_a_key_frame_that_the_sink_has_asked_for() {
    let (sender, receiver) = live_pair("deadline=20000 sync=false", "sync=false");
    sender.play();
    let requests = count_requests(&sender);
    for number in 0..10 {
        sender.source().push_buffer(frame(number, number == 0, 1000)).unwrap();
    }
    sender.wait_until("frames without a receiver are dropped", |sender| {
        sender.stat("sink", "dropped-no-peer") == 10
    });
    receiver.play();
    common::wait_until("a key frame is asked for", || requests.load(Ordering::Relaxed) > 0);
    for number in 10..20 {
        sender.source().push_buffer(frame(number, number == 15, 1000)).unwrap();
    }
    sender.source().end_of_stream().unwrap();
    let numbers: Vec<_> = samples(&receiver.sink())
        .iter()
        .map(|sample| number_of(sample.buffer().unwrap()))
        .collect();
    assert_eq!(numbers, [15, 16, 17, 18, 19]);
    sender.wait_for_eos();
    sender.wait_until("what was dropped is counted", |sender| {
        sender.stat("sink", "dropped-no-key-frame") == 5
    });
}

#[test]
fn a_request_for_a_key_frame_travels_from_the_decoder_to_the_encoder() {
    let (sender, receiver) = live_pair("deadline=20000 sync=false", "sync=false");
    receiver.play();
    sender.play();
    sender.wait_until("the receiver is there", |sender| sender.stat("sink", "peers-seen") == 1);
    sender.source().push_buffer(frame(0, true, 1000)).unwrap();
    assert!(receiver.sink().try_pull_sample(common::LONG).is_some());
    let requests = count_requests(&sender);
    // The one for the new receiver may still be on its way.
    std::thread::sleep(Duration::from_millis(600));
    let before = requests.load(Ordering::Relaxed);
    let pad = receiver.sink().static_pad("sink").unwrap();
    assert!(pad.push_event(gst_video::UpstreamForceKeyUnitEvent::builder().build()));
    common::wait_until("it has come", || requests.load(Ordering::Relaxed) > before);
}

#[test]
fn a_pipeline_that_takes_nothing_goes_on_at_a_key_frame() {
    let (sender, receiver) = live_pair("deadline=20000 sync=false", "sync=false max-buffers=1");
    receiver.play();
    sender.play();
    sender.wait_until("the receiver is there", |sender| sender.stat("sink", "peers-seen") == 1);
    // The appsink holds one and takes no more.
    for number in 0..900 {
        sender.source().push_buffer(frame(number, number == 0, 2000)).unwrap();
        std::thread::sleep(Duration::from_millis(2));
    }
    receiver.wait_until("frames are dropped", |receiver| {
        receiver.stat("src", "dropped-overflow") >= 600
    });
    let first = receiver.sink().try_pull_sample(common::LONG).unwrap();
    assert_eq!(number_of(first.buffer().unwrap()), 0);
    for number in 900..910 {
        sender.source().push_buffer(frame(number, number == 905, 2000)).unwrap();
    }
    sender.source().end_of_stream().unwrap();
    let samples = samples(&receiver.sink());
    let mut all = vec![first];
    all.extend(samples);
    // What was with the appsink and its pad is from before.
    let from_key: Vec<_> = all
        .iter()
        .map(|sample| number_of(sample.buffer().unwrap()))
        .skip_while(|number| *number < 300)
        .collect();
    assert_eq!(from_key, [905, 906, 907, 908, 909]);
    assert_decodable(&all);
}

#[test]
fn a_receiver_that_was_paused_shows_nothing_old() {
    let (sender, receiver) = live_pair("deadline=20000 sync=false", "sync=false");
    receiver.play();
    sender.play();
    sender.wait_until("the receiver is there", |sender| sender.stat("sink", "peers-seen") == 1);
    sender.source().push_buffer(frame(0, true, 1000)).unwrap();
    let first = receiver.sink().try_pull_sample(common::LONG).unwrap();
    receiver.0.set_state(gst::State::Paused).unwrap();
    for number in 1..20 {
        sender.source().push_buffer(frame(number, false, 1000)).unwrap();
    }
    receiver
        .wait_until("they have come", |receiver| receiver.stat("src", "frames-received") == 20);
    receiver.play();
    receiver.wait_until("they are dropped", |receiver| {
        receiver.stat("src", "dropped-overflow") >= 18
    });
    for number in 20..25 {
        sender.source().push_buffer(frame(number, number == 20, 1000)).unwrap();
    }
    sender.source().end_of_stream().unwrap();
    let rest = samples(&receiver.sink());
    let last: Vec<_> = rest.iter().rev().take(5).rev().collect();
    assert_eq!(number_of(last[0].buffer().unwrap()), 20);
    let pts = |sample: &gst::Sample| sample.buffer().unwrap().pts().unwrap();
    let times: Vec<_> = rest.iter().map(|s| (number_of(s.buffer().unwrap()), pts(s))).collect();
    assert!(pts(last[0]) > pts(&first), "{} {times:?}", pts(&first));
}

#[test]
fn a_receiver_that_is_held_before_it_plays_is_not_behind_afterwards() {
    let (sender, receiver) = live_pair("deadline=20000 sync=false", "sync=false");
    receiver.0.set_state(gst::State::Paused).unwrap();
    sender.play();
    sender.wait_until("the receiver is there", |sender| sender.stat("sink", "peers-seen") == 1);
    let push = |number: u64, is_key: bool| {
        sender.source().push_buffer(frame(number, is_key, 1000)).unwrap();
        std::thread::sleep(Duration::from_millis(FRAME.mseconds()));
    };
    (0..90).for_each(|number| push(number, number == 0));
    receiver
        .wait_until("they have come", |receiver| receiver.stat("src", "frames-received") == 90);
    receiver.play();
    (90..95).for_each(|number| push(number, number == 90));
    let first = receiver.sink().try_pull_sample(common::LONG).unwrap();
    let first = first.buffer().unwrap();
    assert_eq!(number_of(first), 90);
    let now = receiver.0.current_running_time().unwrap();
    let ahead = first.pts().unwrap().saturating_sub(now);
    assert!(ahead < gst::ClockTime::from_mseconds(500), "{ahead}");
}

#[test]
fn a_sender_that_was_paused_for_a_moment_goes_on_sending() {
    let (sender, receiver) = live_pair("deadline=300 sync=false", "sync=false");
    receiver.play();
    sender.play();
    sender.wait_until("the receiver is there", |sender| sender.stat("sink", "peers-seen") == 1);
    let push = |number: u64| {
        sender.source().push_buffer(frame(number, number == 0, 1000)).unwrap();
        std::thread::sleep(Duration::from_millis(FRAME.mseconds()));
    };
    (0..15).for_each(push);
    sender.0.set_state(gst::State::Paused).unwrap();
    std::thread::sleep(Duration::from_millis(500));
    sender.play();
    (15..45).for_each(push);
    sender.wait_until("all are counted", |sender| sender.stat("sink", "buffers") == 45);
    assert_eq!(sender.stat("sink", "dropped-late"), 0);
}

#[test]
fn a_sender_that_is_paused_while_it_waits_for_a_receiver_loses_nothing() {
    let (sender, receiver) = pair("deadline=20000 sync=false async=false", "sync=false");
    sender.play();
    (0..10).for_each(|number| {
        sender.source().push_buffer(frame(number, number == 0, 1000)).unwrap();
    });
    for _ in 0..2 {
        // The first buffer has come to the sink, which waits.
        std::thread::sleep(Duration::from_millis(200));
        sender.0.set_state(gst::State::Paused).unwrap();
        std::thread::sleep(Duration::from_millis(200));
        sender.play();
    }
    sender.source().end_of_stream().unwrap();
    receiver.play();
    let samples = samples(&receiver.sink());
    let numbers: Vec<_> =
        samples.iter().map(|sample| number_of(sample.buffer().unwrap())).collect();
    assert_eq!(numbers, (0..10).collect::<Vec<_>>());
    sender.wait_for_eos();
}

#[test]
fn a_sender_that_is_stopped_or_flushed_in_a_pause_while_it_waits_for_a_receiver_goes_on() {
    let (sender, receiver) = pair("deadline=20000 sync=false async=false", "sync=false");
    for _ in 0..3 {
        sender.play();
        sender.source().push_buffer(frame(0, true, 1000)).unwrap();
        std::thread::sleep(Duration::from_millis(200));
        sender.0.set_state(gst::State::Paused).unwrap();
        std::thread::sleep(Duration::from_millis(100));
        assert!(sender.source().send_event(gst::event::FlushStart::new()));
        assert!(sender.source().send_event(gst::event::FlushStop::new(true)));
        sender.source().push_buffer(frame(1, true, 1000)).unwrap();
        // It is prerolled.
        std::thread::sleep(Duration::from_millis(500));
        sender.play();
        std::thread::sleep(Duration::from_millis(100));
        sender.0.set_state(gst::State::Paused).unwrap();
        sender.0.set_state(gst::State::Ready).unwrap();
    }
    sender.play();
    let sink = sender.element("sink");
    for property in ["port", "fingerprint"] {
        let current = sink.property_value(&format!("current-{property}"));
        receiver.element("src").set_property_from_value(property, &current);
    }
    receiver.play();
    sender.source().push_buffer(frame(2, true, 1000)).unwrap();
    let sample = receiver.sink().try_pull_sample(common::LONG).unwrap();
    assert_eq!(number_of(sample.buffer().unwrap()), 2);
}

#[test]
fn a_sender_that_is_paused_at_its_end_ends_when_the_receiver_has_all() {
    let (sender, receiver) = pair("deadline=20000 sync=false", "sync=false");
    let server = sender.element("sink").property::<u32>("current-port");
    let server = (Ipv4Addr::LOCALHOST, u16::try_from(server).unwrap()).into();
    let relay = Relay::start(server, 10_000_000, Duration::from_secs(1)).unwrap();
    receiver.element("src").set_property("port", u32::from(relay.address().port()));
    receiver.play();
    sender.play();
    (0..10).for_each(|number| {
        sender.source().push_buffer(frame(number, number == 0, 1000)).unwrap();
    });
    sender.source().end_of_stream().unwrap();
    sender.wait_until("all are counted", |sender| sender.stat("sink", "buffers") == 10);
    std::thread::sleep(Duration::from_millis(100));
    sender.0.set_state(gst::State::Paused).unwrap();
    sender.play();
    sender.wait_for_eos();
    // A receiver that has the end goes.
    let stats = sender.element("sink").property::<gst::Structure>("stats");
    assert_eq!(stats.get::<u32>("peers-connected"), Ok(0));
    assert_eq!(samples(&receiver.sink()).len(), 10);
}

#[test]
fn times_that_jump_and_a_flush_keep_nothing_from_coming() {
    let (sender, receiver) = pair("deadline=20000 sync=false", "sync=false");
    receiver.play();
    sender.play();
    let hour = gst::ClockTime::from_seconds(3600);
    let push = |number: u64, at: gst::ClockTime| {
        let mut buffer = frame(number, number.is_multiple_of(10), 1000);
        buffer.get_mut().unwrap().set_pts(at + number * FRAME);
        sender.source().push_buffer(buffer).unwrap();
    };
    (0..10).for_each(|number| push(number, gst::ClockTime::ZERO));
    (10..20).for_each(|number| push(number, hour));
    (20..30).for_each(|number| push(number, gst::ClockTime::ZERO));
    sender.wait_until("all are sent", |sender| sender.stat("sink", "frames-taken") == 30);
    assert!(sender.source().send_event(gst::event::FlushStart::new()));
    assert!(sender.source().send_event(gst::event::FlushStop::new(true)));
    (30..40).for_each(|number| push(number, gst::ClockTime::ZERO));
    sender.source().end_of_stream().unwrap();
    let samples = samples(&receiver.sink());
    let numbers: Vec<_> =
        samples.iter().map(|sample| number_of(sample.buffer().unwrap())).collect();
    assert_eq!(numbers, (0..40).collect::<Vec<_>>());
    for pair in samples.windows(2) {
        let [first, second] =
            [&pair[0], &pair[1]].map(|one| one.buffer().unwrap().pts().unwrap());
        assert!(second.saturating_sub(first) < gst::ClockTime::from_seconds(30));
    }
}

#[test]
fn a_sender_that_is_stopped_is_an_end() {
    let (sender, receiver) = pair("deadline=20000 sync=false", "sync=false");
    receiver.play();
    sender.play();
    sender.source().push_buffer(frame(0, true, 1000)).unwrap();
    assert!(receiver.sink().try_pull_sample(common::LONG).is_some());
    drop(sender);
    receiver.wait_for_eos();
}

#[test]
fn a_receiver_whose_port_changes_again_and_again_while_it_has_nothing_to_say_goes_on() {
    let sender = Pipeline::new(&format!(
        "appsrc name=in format=time is-live=true caps={} ! tacksink name=sink mode=listener port=0 sync=false",
        common::CAPS
    ));
    sender.play();
    let sink = sender.element("sink");
    let port = u16::try_from(sink.property::<u32>("current-port")).unwrap();
    let nat = Nat::before(([127, 0, 0, 1], port).into());
    let receiver = Pipeline::new(&format!(
        "tacksrc name=src port={} fingerprint={} ! appsink name=out sync=false",
        nat.address().port(),
        sink.property::<String>("current-fingerprint")
    ));
    receiver.play();
    let comes = |number: u64| {
        sender.source().push_buffer(frame(number, true, 1000)).unwrap();
        receiver.sink().try_pull_sample(gst::ClockTime::from_mseconds(500)).is_some()
    };
    assert!((0..100).any(comes), "the receiver is there");
    for change in 1..=3 {
        // All is acknowledged.
        std::thread::sleep(Duration::from_millis(300));
        nat.forget();
        std::thread::sleep(Duration::from_millis(100));
        // Half a minute: more than the connection survives without a word.
        assert!((100 * change..100 * change + 60).any(comes), "change {change}");
    }
}

/// The address of the sink's only receiver, as its statistics tell it.
fn receiver_address(sender: &Pipeline) -> Option<String> {
    let stats = sender.element("sink").property::<gst::Structure>("stats");
    let peers = stats.get::<gst::Array>("peers").unwrap();
    let peer = peers.first()?.get::<gst::Structure>().unwrap();
    Some(peer.get("address").unwrap())
}

#[test]
fn the_statistics_tell_the_address_that_a_receiver_has_moved_to() {
    let (sender, receiver) = live_pair("deadline=20000 sync=false", "sync=false");
    let port = u16::try_from(sender.element("sink").property::<u32>("current-port")).unwrap();
    let nat = Nat::before(([127, 0, 0, 1], port).into());
    receiver.element("src").set_property("port", u32::from(nat.address().port()));
    receiver.play();
    sender.play();
    sender.wait_until("the receiver is there", |sender| receiver_address(sender).is_some());
    let before = receiver_address(&sender);
    nat.forget();
    sender.wait_until("it is at its new address", |sender| {
        let now = receiver_address(sender);
        now.is_some() && now != before
    });
    assert_eq!(sender.stat("sink", "peers-seen"), 1);
}

#[test]
fn what_is_not_measured_is_missing_in_the_statistics() {
    let (sender, receiver) = pair("deadline=20000 sync=false profile=off", "sync=false");
    receiver.play();
    sender.play();
    sender.source().push_buffer(frame(0, true, 1000)).unwrap();
    assert!(receiver.sink().try_pull_sample(common::LONG).is_some());
    sender
        .wait_until("the frame is counted", |sender| sender.stat("sink", "frames-taken") == 1);
    let stats = sender.element("sink").property::<gst::Structure>("stats");
    let peers = stats.get::<gst::Array>("peers").unwrap();
    let peer = peers.first().unwrap().get::<gst::Structure>().unwrap();
    assert!(peer.has_field("backlog"));
    for unknown in ["estimated-send-rate", "smoothed-rtt", "loss-rate", "tacks-received"] {
        assert!(!peer.has_field(unknown), "{unknown} in {peer}");
    }
}

#[test]
fn the_statistics_can_be_read_when_all_is_over() {
    let (sender, receiver) = pair("deadline=20000 sync=false", "sync=false");
    receiver.play();
    sender.play();
    sender.source().push_buffer(frame(0, true, 1000)).unwrap();
    sender.source().end_of_stream().unwrap();
    assert_eq!(samples(&receiver.sink()).len(), 1);
    sender.wait_for_eos();
    for pipeline in [&sender, &receiver] {
        pipeline.0.set_state(gst::State::Null).unwrap();
    }
    assert_eq!(sender.stat("sink", "frames-taken"), 1);
    assert_eq!(receiver.stat("src", "frames-handed-on"), 1);
}

#[test]
fn a_way_that_is_longer_than_the_deadline_is_a_warning() {
    let (sender, receiver) = live_pair("deadline=50 sync=false", "sync=false");
    let server = sender.element("sink").property::<u32>("current-port");
    let server = (Ipv4Addr::LOCALHOST, u16::try_from(server).unwrap()).into();
    let relay = Relay::start(server, 10_000_000, Duration::from_millis(200)).unwrap();
    receiver.element("src").set_property("port", u32::from(relay.address().port()));
    receiver.play();
    sender.play();
    let types = [gst::MessageType::Warning];
    let warning = sender.0.bus().unwrap().timed_pop_filtered(common::LONG, &types).unwrap();
    let gst::MessageView::Warning(warning) = warning.view() else { panic!("{warning:?}") };
    assert!(warning.error().to_string().contains("deadline"), "{warning:?}");
}

#[test]
fn the_source_is_live_and_tells_its_latency() {
    let (sender, receiver) = pair("deadline=20000", "sync=false");
    receiver.element("src").set_property("latency", 120_u32);
    receiver.play();
    sender.play();
    sender.source().push_buffer(frame(0, true, 1000)).unwrap();
    assert!(receiver.sink().try_pull_sample(common::LONG).is_some());
    let mut query = gst::query::Latency::new();
    assert!(receiver.element("src").query(&mut query));
    let (is_live, least, _) = query.result();
    assert_eq!((is_live, least), (true, gst::ClockTime::from_mseconds(120)));
}

#[test]
fn elements_can_be_started_again() {
    let (sender, receiver) = pair("deadline=20000 sync=false", "sync=false");
    for _ in 0..3 {
        sender.0.set_state(gst::State::Paused).unwrap();
        let sink = sender.element("sink");
        let src = receiver.element("src");
        for property in ["port", "fingerprint"] {
            let current = sink.property_value(&format!("current-{property}"));
            src.set_property_from_value(property, &current);
        }
        receiver.play();
        sender.play();
        (0..5).for_each(|number| {
            sender.source().push_buffer(frame(number, number == 0, 1000)).unwrap();
        });
        sender.source().end_of_stream().unwrap();
        assert_eq!(samples(&receiver.sink()).len(), 5);
        sender.wait_for_eos();
        sender.0.set_state(gst::State::Ready).unwrap();
        // An appsink forgets that it was at the end in NULL only.
        receiver.0.set_state(gst::State::Null).unwrap();
        let port: u32 = sink.property("current-port");
        assert_eq!(port, 0);
    }
}

#[test]
fn the_bitrate_can_be_bound_to_an_encoder() {
    let (sender, receiver) = pair("deadline=20000 sync=false max-bitrate=700000", "sync=false");
    let Ok(encoder) = gst::ElementFactory::make("x264enc").build() else {
        skip("x264enc is not installed (gstreamer1.0-plugins-ugly)");
        return;
    };
    let sink = sender.element("sink");
    let _binding = sink.bind_property("estimated-bitrate-kbit", &encoder, "bitrate").build();
    let before: u32 = encoder.property("bitrate");
    assert!(before > 700);
    receiver.play();
    sender.play();
    sender.source().push_buffer(frame(0, true, 1000)).unwrap();
    common::wait_until("the encoder is told", || encoder.property::<u32>("bitrate") <= 700);
}

#[test]
fn buffers_that_are_too_long_are_one_warning_and_the_rest_goes_on_to_the_end() {
    let (sender, receiver) = pair("deadline=20000 sync=false", "sync=false");
    receiver.play();
    sender.play();
    let push = |number: u64, len: usize| {
        sender.source().push_buffer(frame(number, true, len)).unwrap();
    };
    (0..3).for_each(|number| push(number, 17 << 20));
    (3..5).for_each(|number| push(number, 1000));
    sender.source().end_of_stream().unwrap();
    let come: Vec<_> = samples(&receiver.sink())
        .iter()
        .map(|sample| number_of(sample.buffer().unwrap()))
        .collect();
    assert_eq!(come, [3, 4]);
    sender.wait_until("they are counted", |one| one.stat("sink", "dropped-refused") == 3);
    let bus = sender.0.bus().unwrap();
    let warnings: Vec<_> =
        std::iter::from_fn(|| bus.pop_filtered(&[gst::MessageType::Warning])).collect();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
}
