//! The statistics as a structure of GStreamer's.

use std::time::Duration;

use super::session::Counters;
use super::shared::{PeerStats, State};

/// What the property `stats` tells.
pub(super) fn structure(state: &State) -> gst::Structure {
    let peers: Vec<_> = state.peers.iter().map(peer).collect();
    let totals = state.totals();
    let connected = u32::try_from(state.peers.len()).unwrap_or(u32::MAX);
    let mut builder = gst::Structure::builder("application/x-tack-sink-stats")
        .field("buffers", state.buffers)
        .field("dropped-no-peer", state.no_peer)
        .field("dropped-overflow", state.overflow)
        .field("key-frame-requests", state.key_frame_requests)
        .field("peers-seen", state.peers_seen)
        .field("peers-connected", connected);
    for (name, value) in counters(&totals) {
        builder = builder.field(name, value);
    }
    builder.field("peers", gst::Array::new(peers)).build()
}

fn counters(counters: &Counters) -> [(&'static str, u64); 8] {
    [
        ("frames", counters.frames),
        ("frames-taken", counters.taken),
        ("dropped-late", counters.late),
        ("dropped-expired", counters.expired),
        ("dropped-dependency", counters.dependency),
        ("dropped-backlog", counters.backlog),
        ("dropped-refused", counters.refused),
        ("dropped-no-key-frame", counters.no_key_frame),
    ]
}

/// What is not known is not told: with `profile=off`, or before the first round trip, hardly anything is.
fn peer(peer: &PeerStats) -> gst::Structure {
    let micros = |time: Option<Duration>| {
        time.map(|time| u64::try_from(time.as_micros()).unwrap_or(u64::MAX))
    };
    let is_measured = peer.media.smoothed_rtt.is_some();
    let measured = |value: u64| is_measured.then_some(value);
    let send_rate = Some(peer.media.estimated_send_rate.saturating_mul(8));
    let mut builder = gst::Structure::builder("peer")
        .field("address", &peer.address)
        .field("tack", peer.is_tack)
        .field_if_some("estimated-send-rate", send_rate.filter(|rate| *rate > 0))
        .field("estimated-bitrate", peer.rate)
        .field_if_some("smoothed-rtt", micros(peer.media.smoothed_rtt))
        .field_if_some("min-rtt", micros(peer.media.min_rtt))
        .field_if_some("queueing-delay", micros(peer.media.queueing_delay))
        .field_if_some("loss-rate", is_measured.then_some(peer.media.loss_rate))
        .field("backlog", peer.media.backlog)
        .field_if_some("lost-packets", measured(peer.tack.lost_packets));
    if peer.is_tack {
        builder = builder
            .field("tacks-sent", peer.tack.tacks_sent)
            .field("tacks-received", peer.tack.tacks_received);
    }
    for (name, value) in counters(&peer.counters) {
        builder = builder.field(name, value);
    }
    builder.build()
}
