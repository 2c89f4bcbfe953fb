//! A subscriber that reads every group as it comes, and notes when each frame arrives.

use anyhow::{Context as _, Result};
use moq_net::{origin, track};
use tokio::task::JoinSet;

use crate::publisher::{MAX_AGE, clock_us, made_at};
use crate::{BROADCAST, TRACK};

/// A frame that has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Sequence number of its group.
    pub group: u64,
    /// Its place in the group.
    pub frame: u64,
    /// When it was made, microseconds.
    pub made_us: u64,
    /// From then until it was read, microseconds.
    pub latency_us: u64,
    /// Its length in bytes.
    pub len: usize,
}

/// What has come of the track.
#[derive(Clone, Debug, Default)]
pub struct Received {
    /// Groups in the order in which they came.
    pub groups: Vec<u64>,
    /// Frames by group and place.
    pub frames: Vec<Arrival>,
}

/// Subscribes to the track in an origin, and reads it to its end.
pub async fn subscribe(origin: origin::Consumer) -> Result<Received> {
    origin.routed(BROADCAST).await.context("waiting for the broadcast")?;
    let broadcast = origin.request_broadcast(BROADCAST).await.context("the broadcast")?;
    let wanted = track::Subscription::default()
        .with_max_age(MAX_AGE)
        .with_start(track::Position::group(0));
    let mut track = broadcast.track(TRACK)?.subscribe(wanted).await.context("subscribing")?;
    let mut received = Received::default();
    let mut readers = JoinSet::new();
    while let Some(group) = track.recv_group().await.context("the next group")? {
        received.groups.push(group.sequence);
        readers.spawn(read_group(group));
    }
    while let Some(frames) = readers.join_next().await {
        received.frames.extend(frames??);
    }
    received.frames.sort_unstable_by_key(|arrival| (arrival.group, arrival.frame));
    Ok(received)
}

async fn read_group(mut group: moq_net::group::Consumer) -> Result<Vec<Arrival>> {
    let mut arrivals = Vec::new();
    while let Some(frame) = group.read_frame().await.context("the next frame")? {
        let made_us = made_at(&frame.payload).context("a frame without its time")?;
        arrivals.push(Arrival {
            group: group.sequence,
            frame: arrivals.len() as u64,
            made_us,
            latency_us: clock_us().saturating_sub(made_us),
            len: frame.payload.len(),
        });
    }
    Ok(arrivals)
}
