//! A flushing seek behind the end of the stream, as a player's that begins again: the sink goes on.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may panic")]

mod common;

use common::{Pipeline, address_of, frame, number_of, samples};
use gst::prelude::*;

/// A sender whose source can be sought in.
fn seekable_sender(properties: &str) -> Pipeline {
    let sender = Pipeline::new(&format!(
        "appsrc name=in format=time stream-type=seekable caps={} ! \
         tacksink name=sink deadline=20000 sync=false {properties}",
        common::CAPS
    ));
    let callbacks = gst_app::AppSrcCallbacks::builder().seek_data(|_, _| true).build();
    sender.source().set_callbacks(callbacks);
    sender
}

fn receiver(properties: &str) -> Pipeline {
    Pipeline::new(&format!("tacksrc name=src {properties} ! appsink name=out sync=false"))
}

/// Sends these frames and the end, and checks that they all come.
fn play(sender: &Pipeline, receiver: &Pipeline, numbers: std::ops::Range<u64>) {
    for number in numbers.clone() {
        sender.source().push_buffer(frame(number, number == numbers.start, 1000)).unwrap();
    }
    sender.source().end_of_stream().unwrap();
    let come: Vec<_> = samples(&receiver.sink())
        .iter()
        .map(|sample| number_of(sample.buffer().unwrap()))
        .collect();
    assert_eq!(come, numbers.collect::<Vec<_>>());
    sender.wait_for_eos();
}

fn seek_to_the_beginning(sender: &Pipeline) {
    sender.0.seek_simple(gst::SeekFlags::FLUSH, gst::ClockTime::ZERO).unwrap();
}

#[test]
fn a_new_receiver_gets_all_that_comes_behind_the_flush() {
    let sender = seekable_sender("mode=listener port=0");
    sender.0.set_state(gst::State::Paused).unwrap();
    let address = address_of(&sender.element("sink"));
    for round in 0..3 {
        let receiver = receiver(&address);
        if round > 0 {
            seek_to_the_beginning(&sender);
        }
        receiver.play();
        sender.play();
        play(&sender, &receiver, 0..10);
    }
    assert_eq!(sender.stat("sink", "peers-seen"), 3);
    assert_eq!(sender.stat("sink", "dropped-no-peer"), 0);
}

#[test]
fn a_sink_that_calls_connects_again() {
    let first = receiver("mode=listener port=0");
    first.play();
    let port: u32 = first.element("src").property("current-port");
    let sender = seekable_sender(&format!("port={port} insecure=true"));
    sender.play();
    play(&sender, &first, 0..10);
    drop(first);
    let second = receiver(&format!("mode=listener port={port}"));
    second.play();
    seek_to_the_beginning(&sender);
    play(&sender, &second, 0..10);
    assert_eq!(sender.stat("sink", "frames"), 20);
}

#[test]
fn a_sink_that_connects_again_without_an_answer_posts_an_error() {
    let first = receiver("mode=listener port=0");
    first.play();
    let port: u32 = first.element("src").property("current-port");
    let sender = seekable_sender(&format!("port={port} insecure=true"));
    sender.play();
    play(&sender, &first, 0..10);
    drop(first);
    seek_to_the_beginning(&sender);
    sender.source().push_buffer(frame(0, true, 1000)).unwrap();
    let (error, text) = sender.error();
    assert!(error.matches(gst::ResourceError::OpenWrite), "{text}");
}
