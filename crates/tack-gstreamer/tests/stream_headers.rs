//! Formats that have their headers once, at the beginning: a receiver that comes later can read them all the same.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may panic")]

#[path = "../../tack-ffi/tests/skip/mod.rs"]
mod skip;

mod common;

use common::{LONG, Pipeline, address_of, frame, live_pair, samples};
use gst::prelude::*;
use skip::skip;

/// Buffers that have come before the receiver calls.
const BEFORE: u64 = 20;

fn header(bytes: &'static [u8]) -> gst::Buffer {
    let mut header = gst::Buffer::from_slice(bytes);
    header.get_mut().unwrap().set_flags(gst::BufferFlags::HEADER);
    header
}

/// Caps with these headers.
fn caps_with(headers: &[&'static [u8]]) -> gst::Caps {
    let headers = headers.iter().map(|bytes| header(bytes).to_send_value());
    let field = gst::Array::from_values(headers);
    gst::Caps::builder("video/x-matroska").field("streamheader", field).build()
}

fn data_of(sample: &gst::Sample) -> Vec<u8> {
    sample.buffer().unwrap().map_readable().unwrap()[..8.min(sample.buffer().unwrap().size())]
        .to_vec()
}

fn number(number: u64) -> Vec<u8> {
    number.to_be_bytes().to_vec()
}

#[test]
fn a_receiver_that_comes_later_gets_the_headers_first_and_new_ones_with_new_caps() {
    let (sender, receiver) = live_pair("deadline=20000 sync=false", "sync=false");
    sender.play();
    let source = sender.source();
    source.set_caps(Some(&caps_with(&[b"one", b"two"])));
    for buffer in [header(b"one"), header(b"two"), frame(0, true, 100)] {
        source.push_buffer(buffer).unwrap();
    }
    sender.wait_until("nobody gets them", |one| one.stat("sink", "dropped-no-peer") == 3);
    receiver.play();
    sender.wait_until("the receiver is there", |one| one.stat("sink", "peers-seen") == 1);
    for buffer in [frame(1, false, 100), frame(2, true, 100), frame(3, false, 100)] {
        source.push_buffer(buffer).unwrap();
    }
    source.set_caps(Some(&caps_with(&[b"three"])));
    for buffer in
        [header(b"three"), frame(4, true, 100), header(b"three"), frame(5, false, 100)]
    {
        source.push_buffer(buffer).unwrap();
    }
    source.end_of_stream().unwrap();
    let come: Vec<_> = samples(&receiver.sink()).iter().map(data_of).collect();
    let three = b"three".to_vec();
    // The last one is the sender's own.
    let expected = [
        b"one".to_vec(),
        b"two".to_vec(),
        number(2),
        number(3),
        three.clone(),
        number(4),
        three,
    ];
    assert_eq!(come[..7], expected);
    assert_eq!(come[7..], [number(5)]);
}

#[test]
fn a_receiver_that_is_there_from_the_beginning_gets_the_headers_once() {
    let (sender, receiver) = live_pair("deadline=20000 sync=false", "sync=false");
    receiver.play();
    sender.play();
    sender.wait_until("the receiver is there", |one| one.stat("sink", "peers-seen") == 1);
    let source = sender.source();
    source.set_caps(Some(&caps_with(&[b"one", b"two"])));
    for buffer in [header(b"one"), header(b"two"), frame(0, true, 100)] {
        source.push_buffer(buffer).unwrap();
    }
    source.end_of_stream().unwrap();
    let come: Vec<_> = samples(&receiver.sink()).iter().map(data_of).collect();
    assert_eq!(come, [b"one".to_vec(), b"two".to_vec(), number(0)]);
}

#[test]
fn a_buffer_that_an_event_calls_a_key_unit_is_one() {
    let (sender, receiver) = live_pair("deadline=20000 sync=false", "sync=false");
    sender.play();
    let source = sender.source();
    source.push_buffer(frame(0, true, 100)).unwrap();
    sender.wait_until("nobody gets it", |one| one.stat("sink", "dropped-no-peer") == 1);
    receiver.play();
    sender.wait_until("the receiver is there", |one| one.stat("sink", "peers-seen") == 1);
    source.push_buffer(frame(1, false, 100)).unwrap();
    sender.wait_until("it is of no use", |one| one.stat("sink", "dropped-no-key-frame") == 1);
    let event = gst_video::DownstreamForceKeyUnitEvent::builder().build();
    assert!(source.static_pad("src").unwrap().push_event(event));
    for buffer in [frame(2, false, 100), frame(3, false, 100)] {
        source.push_buffer(buffer).unwrap();
    }
    source.end_of_stream().unwrap();
    let come: Vec<_> = samples(&receiver.sink()).iter().map(data_of).collect();
    assert_eq!(come, [number(2), number(3)]);
}

/// Whether all elements of a description can be made; tells of one that cannot.
fn has_elements(description: &str) -> bool {
    common::init();
    let missing = description
        .split('!')
        .filter_map(|element| element.split_whitespace().next())
        .find(|name| !name.contains('/') && gst::ElementFactory::find(name).is_none());
    if let Some(name) = missing {
        skip(format_args!("{name} is not installed"));
    }
    missing.is_none()
}

/// Plays live media to a receiver that comes later, twice, and to one that was there: each decodes some.
fn assert_decodes(source: &str, decoder: &str) {
    let sender = format!("{source} ! tacksink name=sink mode=listener port=0 sync=false");
    if !has_elements(&sender) || !has_elements(decoder) {
        return;
    }
    let sender = Pipeline::new(&sender);
    sender.play();
    let address = address_of(&sender.element("sink"));
    let receiver = || {
        let receiver =
            format!("tacksrc name=src {address} ! {decoder} ! appsink name=out sync=false");
        let receiver = Pipeline::new(&receiver);
        receiver.play();
        receiver
    };
    sender.wait_until("buffers have gone by", |one| {
        one.stat("sink", "dropped-no-peer") >= BEFORE
    });
    let first = receiver();
    for one in [&first, &receiver(), &first] {
        for number in 0..10 {
            let sample = one.sink().try_pull_sample(LONG);
            assert!(sample.is_some(), "{source}: picture or sound {number} does not come");
        }
    }
}

const PICTURES: &str =
    "videotestsrc is-live=true ! video/x-raw,width=160,height=120,framerate=30/1";
const H264: &str = "x264enc tune=zerolatency speed-preset=ultrafast key-int-max=300";
const SOUND: &str =
    "audiotestsrc is-live=true samplesperbuffer=960 ! audio/x-raw,rate=48000,channels=2";

#[test]
fn matroska_decodes_at_a_receiver_that_comes_later() {
    let source = format!("{PICTURES} ! {H264} ! matroskamux streamable=true");
    assert_decodes(&source, "matroskademux ! h264parse ! avdec_h264");
}

#[test]
fn webm_decodes_at_a_receiver_that_comes_later() {
    let vp8 = "vp8enc deadline=1 keyframe-max-dist=300";
    assert_decodes(
        &format!("{PICTURES} ! {vp8} ! webmmux streamable=true"),
        "matroskademux ! vp8dec",
    );
}

#[test]
fn flv_decodes_at_a_receiver_that_comes_later() {
    let source = format!("{PICTURES} ! {H264} ! flvmux streamable=true");
    assert_decodes(&source, "flvdemux ! h264parse ! avdec_h264");
}

#[test]
fn ogg_decodes_at_a_receiver_that_comes_later() {
    let source = format!("{PICTURES} ! theoraenc keyframe-force=300 ! oggmux");
    assert_decodes(&source, "oggdemux ! theoradec");
}

#[test]
fn sound_in_ogg_and_matroska_decodes_at_a_receiver_that_comes_later() {
    assert_decodes(&format!("{SOUND} ! opusenc ! oggmux"), "oggdemux ! opusdec");
    let source = format!("{SOUND} ! opusenc ! matroskamux streamable=true");
    assert_decodes(&source, "matroskademux ! opusdec");
}

#[test]
fn codecs_with_headers_of_their_own_decode_at_a_receiver_that_comes_later() {
    assert_decodes(&format!("{PICTURES} ! theoraenc keyframe-force=300"), "theoradec");
    assert_decodes(&format!("{SOUND} ! audioconvert ! vorbisenc"), "vorbisdec");
    assert_decodes(&format!("{SOUND} ! audioconvert ! flacenc"), "flacparse ! flacdec");
    assert_decodes(&format!("{SOUND} ! opusenc"), "opusdec");
}

#[test]
fn headers_that_are_no_part_of_the_stream_do_not_keep_it_from_being_decoded() {
    let vp8 = "vp8enc deadline=1 keyframe-max-dist=300";
    assert_decodes(&format!("{PICTURES} ! {vp8}"), "vp8dec");
    let source = format!("{PICTURES} ! {H264} ! mpegtsmux alignment=7");
    assert_decodes(&source, "tsdemux ! h264parse ! avdec_h264");
}
