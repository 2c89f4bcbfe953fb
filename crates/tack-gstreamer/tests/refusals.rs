//! What cannot work is an error that says why, soon.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may panic")]

mod common;

use common::{Pipeline, address_of};
use gst::prelude::*;

fn listening_sink() -> (Pipeline, String) {
    let sender = Pipeline::new(
        "videotestsrc is-live=true ! video/x-raw,width=16,height=16 ! tacksink name=sink mode=listener port=0",
    );
    sender.play();
    let address = address_of(&sender.element("sink"));
    (sender, address)
}

fn call(properties: &str) -> (gst::glib::Error, String) {
    let receiver = Pipeline::new(&format!("tacksrc {properties} ! fakesink"));
    // It may have failed already.
    let _ = receiver.0.set_state(gst::State::Playing);
    receiver.error()
}

#[test]
fn another_certificate_than_the_expected_one_is_an_error() {
    let (_sender, address) = listening_sink();
    let port = address.split(' ').next().unwrap();
    let (error, text) = call(&format!("{port} fingerprint={}", "00".repeat(32)));
    assert!(error.matches(gst::ResourceError::NotAuthorized), "{text}");
    assert!(text.contains("fingerprint is"), "{text}");
}

#[test]
fn a_certificate_that_no_authority_has_issued_is_an_error() {
    let (_sender, address) = listening_sink();
    let port = address.split(' ').next().unwrap();
    let (error, text) = call(port);
    assert!(error.matches(gst::ResourceError::NotAuthorized), "{text}");
    assert!(text.contains("not trusted"), "{text}");
}

#[test]
fn with_insecure_any_certificate_is_taken() {
    let (sender, address) = listening_sink();
    let port = address.split(' ').next().unwrap();
    let receiver = Pipeline::new(&format!("tacksrc {port} insecure=true ! appsink name=out"));
    receiver.play();
    assert!(receiver.sink().try_pull_sample(common::LONG).is_some());
    assert_eq!(sender.stat("sink", "peers-seen"), 1);
}

#[test]
fn two_elements_of_one_kind_refuse_each_other() {
    let (_sender, address) = listening_sink();
    let other = Pipeline::new(&format!("videotestsrc is-live=true ! tacksink {address}"));
    let _ = other.0.set_state(gst::State::Playing);
    let (error, text) = other.error();
    assert!(error.matches(gst::ResourceError::OpenWrite), "{text}");
    assert!(text.contains("ALPN"), "{text}");
}

#[test]
fn nobody_at_the_other_end_is_an_error() {
    // A port that was free a moment ago.
    let free = std::net::UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let (error, text) = call(&format!("port={free}"));
    assert!(error.matches(gst::ResourceError::OpenRead), "{text}");
    assert!(text.contains(&format!("127.0.0.1:{free}")), "{text}");
}

#[test]
fn an_address_that_is_taken_is_an_error_of_the_state_change() {
    let (_sender, address) = listening_sink();
    let port = address.split(' ').next().unwrap();
    let other = Pipeline::new(&format!("tacksrc mode=listener {port} ! fakesink"));
    assert!(other.0.set_state(gst::State::Playing).is_err());
    let (error, text) = other.error();
    assert!(error.matches(gst::ResourceError::OpenRead), "{text}");
    assert!(text.contains("another process"), "{text}");
}

#[test]
fn settings_that_cannot_be_used_are_named() {
    let (error, text) = call("fingerprint=123");
    assert!(error.matches(gst::ResourceError::Settings), "{text}");
    assert!(text.contains("`fingerprint`"), "{text}");
}

#[test]
fn a_state_change_while_a_caller_gets_no_answer_does_not_wait_for_one() {
    // It takes datagrams and answers none.
    let silent = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = silent.local_addr().unwrap().port();
    for element in ["tacksrc name=it ! fakesink", "videotestsrc ! tacksink name=it"] {
        let pipeline = Pipeline::new(element);
        pipeline.element("it").set_property("port", u32::from(port));
        pipeline.0.set_state(gst::State::Playing).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(300));
        let (stopped, is_stopped) = std::sync::mpsc::channel();
        let inner = pipeline.0.clone();
        std::thread::spawn(move || stopped.send(inner.set_state(gst::State::Null)));
        // The handshake alone would take ten seconds.
        let result = is_stopped.recv_timeout(std::time::Duration::from_secs(8));
        assert!(result.expect("no deadlock").is_ok(), "{element}");
    }
}

#[test]
fn a_caller_without_a_port_is_told_at_once() {
    let (error, text) = call("port=0 insecure=true");
    assert!(error.matches(gst::ResourceError::Settings), "{text}");
    assert!(text.contains("`port`"), "{text}");
}

/// The error of a sink that gets buffers with these caps.
fn error_of_caps(caps: Option<&gst::Caps>) -> (gst::glib::Error, String) {
    let sender = Pipeline::new(
        "appsrc name=in format=time ! tacksink mode=listener port=0 wait-for-connection=false",
    );
    sender.source().set_caps(caps);
    sender.play();
    sender.source().push_buffer(common::frame(0, true, 100)).unwrap();
    sender.error()
}

#[test]
fn a_stream_without_caps_is_an_error_that_says_so() {
    let (error, text) = error_of_caps(None);
    assert!(error.matches(gst::StreamError::Format) && text.contains("no caps"), "{text}");
}

#[test]
fn caps_that_are_too_long_are_an_error_that_says_so() {
    common::init();
    let long = "x".repeat(100_000);
    let caps = gst::Caps::builder("video/x-test").field("text", long).build();
    let (error, text) = error_of_caps(Some(&caps));
    assert!(error.matches(gst::StreamError::Format), "{text}");
    assert!(text.contains("longer than 64 KiB") && text.len() < 1000, "{text}");
}
