//! The statistics as a structure of GStreamer's.

use std::time::Duration;

use super::output::State;

/// What the property `stats` tells.
pub(super) fn structure(state: &State) -> gst::Structure {
    let counters = &state.counters;
    let mut builder = gst::Structure::builder("application/x-tack-source-stats")
        .field("frames-received", counters.received)
        .field("frames-handed-on", counters.handed_on)
        .field("frames-late", counters.late)
        .field("dropped-broken", counters.broken)
        .field("dropped-no-caps", counters.no_caps)
        .field("dropped-overflow", state.overflow)
        .field("frames-lost", counters.lost)
        .field("malformed", counters.malformed);
    if let Some(sender) = &state.sender {
        // What is not known is not told.
        let micros = |time: Option<Duration>| {
            time.map(|time| u64::try_from(time.as_micros()).unwrap_or(u64::MAX))
        };
        builder = builder
            .field("address", &sender.address)
            .field("tack", sender.is_tack)
            .field_if_some("smoothed-rtt", micros(sender.media.smoothed_rtt))
            .field_if_some("min-rtt", micros(sender.media.min_rtt))
            // Of the way here, where the media come.
            .field_if_some("queueing-delay", micros(sender.tack.queueing_delay));
        if sender.is_tack {
            builder = builder
                .field("tacks-sent", sender.tack.tacks_sent)
                .field("tacks-received", sender.tack.tacks_received);
        }
    }
    builder.build()
}
