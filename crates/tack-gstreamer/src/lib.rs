//! GStreamer elements that send and receive live media over QUIC with TACK.
//!
//! `tacksink` sends what its pad receives, buffer by buffer, as frames with deadlines; `tacksrc` gives it to a
//! pipeline at the other end. Either can be the one that connects. The crate's README has the properties.
//!
//! Each element has a thread with a UDP endpoint and state machines that take the time as an argument; the
//! threads of the pipeline and this one share a queue with a bound, and neither waits for the other for long.
//!
//! # Modules
//!
//! | Module | Concept |
//! |---|---|
//! | `sink`, `source` | the elements: an element, its thread, and a session with one peer in each |
//! | `settings` | the properties that both have |
//! | `link` | an endpoint that has connected, or waits for who connects |
//! | `transport`, `trust` | the QUIC configuration; which certificates are good |
//! | `payload`, `messages` | what is in a frame; what the two ends tell each other beside the frames |
//! | `error` | what can go wrong, and which of GStreamer's errors that is |
//! | `log_bridge` | what the libraries log, in GStreamer's log |
//! | `plugin` | what GStreamer looks for in a plugin |

#![forbid(unsafe_code)]

use std::sync::LazyLock;

mod error;
mod link;
mod log_bridge;
mod messages;
mod payload;
mod plugin;
mod settings;
mod sink;
mod source;
mod transport;
mod trust;

pub use plugin::plugin_register_static;
pub use settings::{Mode, Profile};
pub use sink::TackSink;
pub use source::TackSrc;

/// The category of the log lines of both elements.
pub(crate) static CAT: LazyLock<gst::DebugCategory> = LazyLock::new(|| {
    gst::DebugCategory::new(
        "tack",
        gst::DebugColorFlags::empty(),
        Some("Live media over QUIC with TACK"),
    )
});
