//! Pipelines in this process, over the loopback interface.

#![allow(dead_code, reason = "each test file uses a part")]

pub mod nat;

use std::sync::Once;
use std::time::Duration;

use gst::prelude::*;

/// Longer than anything takes, on a busy machine too.
pub const LONG: gst::ClockTime = gst::ClockTime::from_seconds(60);

/// Between two frames.
pub const FRAME: gst::ClockTime = gst::ClockTime::from_mseconds(33);

/// Initialises GStreamer and registers the elements.
pub fn init() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        gst::init().unwrap();
        gsttack::plugin_register_static().unwrap();
    });
}

/// A pipeline that is brought to a stop when it is dropped, by a test that fails, too.
pub struct Pipeline(pub gst::Pipeline);

impl Drop for Pipeline {
    fn drop(&mut self) {
        let _ = self.0.set_state(gst::State::Null);
    }
}

impl Pipeline {
    /// A pipeline as of gst-launch-1.0.
    pub fn new(description: &str) -> Self {
        init();
        let element = gst::parse::launch(description).unwrap();
        Self(element.downcast().unwrap())
    }

    pub fn play(&self) {
        self.0.set_state(gst::State::Playing).unwrap();
    }

    pub fn element(&self, name: &str) -> gst::Element {
        self.0.by_name(name).unwrap()
    }

    pub fn source(&self) -> gst_app::AppSrc {
        self.element("in").downcast().unwrap()
    }

    pub fn sink(&self) -> gst_app::AppSink {
        self.element("out").downcast().unwrap()
    }

    /// The text of the first error on the bus, and which it is.
    pub fn error(&self) -> (gst::glib::Error, String) {
        let types = [gst::MessageType::Error];
        let message = self.0.bus().unwrap().timed_pop_filtered(LONG, &types).expect("an error");
        let gst::MessageView::Error(error) = message.view() else { panic!("{message:?}") };
        (error.error(), format!("{} {}", error.error(), error.debug().unwrap_or_default()))
    }

    /// Waits for the end of the stream; an error fails the test.
    pub fn wait_for_eos(&self) {
        let types = [gst::MessageType::Error, gst::MessageType::Eos];
        let message = self.0.bus().unwrap().timed_pop_filtered(LONG, &types).expect("an end");
        assert_eq!(message.type_(), gst::MessageType::Eos, "{message:?}");
    }

    /// A number of the property `stats`.
    pub fn stat(&self, element: &str, field: &str) -> u64 {
        let stats: Option<gst::Structure> = self.element(element).property("stats");
        stats.map_or(0, |stats| stats.get(field).unwrap())
    }

    /// Waits until it is so.
    pub fn wait_until(&self, what: &str, is: impl Fn(&Self) -> bool) {
        wait_until(what, || is(self));
    }
}

/// Waits until it is so.
pub fn wait_until(what: &str, is: impl Fn() -> bool) {
    for _ in 0..LONG.mseconds() / 10 {
        if is() {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("never: {what}");
}

/// A listening element's port and fingerprint, as properties of a caller.
pub fn address_of(listener: &gst::Element) -> String {
    let port: u32 = listener.property("current-port");
    let fingerprint: String = listener.property("current-fingerprint");
    format!("port={port} fingerprint={fingerprint}")
}

/// A sender that listens, and a receiver that calls it. Neither plays yet.
pub fn pair(sender: &str, receiver: &str) -> (Pipeline, Pipeline) {
    pair_from("", sender, receiver)
}

/// The same with a source that is live: the sink does not wait for the receiver.
pub fn live_pair(sender: &str, receiver: &str) -> (Pipeline, Pipeline) {
    pair_from("is-live=true", sender, receiver)
}

fn pair_from(source: &str, sender: &str, receiver: &str) -> (Pipeline, Pipeline) {
    let sender = Pipeline::new(&format!(
        "appsrc name=in format=time caps={CAPS} {source} ! tacksink name=sink mode=listener port=0 {sender}"
    ));
    sender.0.set_state(gst::State::Paused).unwrap();
    let address = address_of(&sender.element("sink"));
    let receiver =
        Pipeline::new(&format!("tacksrc name=src {address} ! appsink name=out {receiver}"));
    (sender, receiver)
}

/// Caps of frames that nothing decodes.
pub const CAPS: &str = "video/x-test,width=320,height=240";

/// A frame of that number: its number in its first bytes, and so many more.
pub fn frame(number: u64, is_key: bool, len: usize) -> gst::Buffer {
    let mut data = number.to_be_bytes().to_vec();
    data.resize(len.max(8), 0xab);
    let mut buffer = gst::Buffer::from_mut_slice(data);
    let writable = buffer.get_mut().unwrap();
    writable.set_pts(number * FRAME);
    writable.set_duration(FRAME);
    if !is_key {
        writable.set_flags(gst::BufferFlags::DELTA_UNIT);
    }
    buffer
}

/// The number of a frame.
pub fn number_of(buffer: &gst::BufferRef) -> u64 {
    let map = buffer.map_readable().unwrap();
    u64::from_be_bytes(map[..8].try_into().unwrap())
}

pub fn is_delta(buffer: &gst::BufferRef) -> bool {
    buffer.flags().contains(gst::BufferFlags::DELTA_UNIT)
}

pub fn is_discont(buffer: &gst::BufferRef) -> bool {
    buffer.flags().contains(gst::BufferFlags::DISCONT)
}

/// All samples until the end.
pub fn samples(sink: &gst_app::AppSink) -> Vec<gst::Sample> {
    let samples: Vec<_> = std::iter::from_fn(|| sink.try_pull_sample(LONG)).collect();
    assert!(sink.is_eos(), "no end within {LONG}");
    samples
}
