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

fn peer(peer: &PeerStats) -> gst::Structure {
    let micros = |time: Option<Duration>| {
        time.map_or(0, |time| u64::try_from(time.as_micros()).unwrap_or(u64::MAX))
    };
    let mut builder = gst::Structure::builder("peer")
        .field("address", &peer.address)
        .field("tack", peer.is_tack)
        .field("estimated-send-rate", peer.media.estimated_send_rate.saturating_mul(8))
        .field("estimated-bitrate", peer.rate)
        .field("smoothed-rtt", micros(peer.media.smoothed_rtt))
        .field("min-rtt", micros(peer.media.min_rtt))
        .field("queueing-delay", micros(peer.media.queueing_delay))
        .field("loss-rate", peer.media.loss_rate)
        .field("backlog", peer.media.backlog)
        .field("tacks-sent", peer.tack.tacks_sent)
        .field("tacks-received", peer.tack.tacks_received)
        .field("lost-packets", peer.tack.lost_packets);
    for (name, value) in counters(&peer.counters) {
        builder = builder.field(name, value);
    }
    builder.build()
}
