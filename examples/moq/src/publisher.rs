//! A track of frames at a steady rate.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result};
use bytes::{BufMut as _, BytesMut};
use moq_net::{Timestamp, origin, track};
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior};

use crate::backend::{Connected, Listener};
use crate::{BROADCAST, TRACK};

/// What a frame holds at least: when it was made, in microseconds since 1970.
const HEADER: usize = 8;

/// How long groups are kept for a subscriber that is behind.
pub const MAX_AGE: Duration = Duration::from_secs(30);

/// What the publisher makes.
#[derive(Clone, Copy, Debug, serde::Serialize, clap::Args)]
pub struct Source {
    /// Groups; each is a stream
    #[arg(long, default_value_t = 30)]
    pub groups: u64,
    /// Frames of a group
    #[arg(long, default_value_t = 25)]
    pub frames: u64,
    /// Frames for each second
    #[arg(long, default_value_t = 50.0)]
    pub fps: f64,
    /// Bytes of a frame; the first one of a group has four times as many
    #[arg(long, default_value_t = 8000)]
    pub frame_bytes: usize,
}

/// Microseconds since 1970, by the clock that all programs on one machine share.
pub fn clock_us() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_micros() as u64)
}

/// When a frame was made.
pub fn made_at(payload: &[u8]) -> Option<u64> {
    payload.first_chunk::<HEADER>().map(|bytes| u64::from_be_bytes(*bytes))
}

/// A place for broadcasts. Its driver runs in a task.
pub fn new_origin() -> origin::Producer {
    let (origin, driver) = origin::Producer::new(origin::Config::default());
    tokio::spawn(moq_net::time::run(driver));
    origin
}

/// A track of which all groups are made. Subscribers can take what is left as long as this is there.
pub struct Published {
    _broadcast: moq_net::broadcast::Producer,
    _track: track::Producer,
}

/// Publishes the track to an origin: from the first subscriber on, until all groups are made.
pub async fn publish(origin: origin::Producer, source: Source) -> Result<Published> {
    let broadcast = origin.create_broadcast(BROADCAST)?;
    let info = track::Info::default().with_max_age(MAX_AGE);
    let track = broadcast.create_track(TRACK, info)?;
    broadcast.announce(origin::Route::default())?;
    track.used().await.context("waiting for a subscriber")?;

    let interval = Duration::try_from_secs_f64(1.0 / source.fps).context("--fps")?;
    let mut ticks = tokio::time::interval(interval);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let start = Instant::now();
    for _ in 0..source.groups {
        let mut group = track.append_group()?;
        for n in 0..source.frames {
            ticks.tick().await;
            let len = if n == 0 { 4 * source.frame_bytes } else { source.frame_bytes };
            let mut frame = BytesMut::with_capacity(len.max(HEADER));
            frame.put_u64(clock_us());
            frame.resize(len.max(HEADER), n as u8);
            let timestamp = Timestamp::try_from(start.elapsed())?;
            group.write_frame(timestamp, frame.freeze())?;
        }
        group.finish()?;
    }
    track.finish()?;
    Ok(Published { _broadcast: broadcast, _track: track })
}

/// Publishes the track to all who connect, until all groups are made. Returns the sessions, in which some may be on
/// their way.
pub async fn serve(
    mut listener: Listener,
    source: Source,
) -> Result<(Published, Vec<Connected>)> {
    let origin = new_origin();
    let moq = moq_net::Server::new().with_publisher(&origin);
    let mut publishing = std::pin::pin!(publish(origin, source));
    let (mut accepting, mut sessions) = (JoinSet::new(), Vec::new());
    loop {
        tokio::select! {
            published = &mut publishing => return Ok((published?, sessions)),
            request = listener.next() => {
                let request = request.context("the endpoint is closed")?;
                let moq = moq.clone();
                accepting.spawn(async move { request.accept(&moq).await });
            }
            Some(accepted) = accepting.join_next() => match accepted? {
                Ok(connected) => sessions.push(connected),
                Err(error) => eprintln!("no session: {error:#}"),
            },
        }
    }
}
