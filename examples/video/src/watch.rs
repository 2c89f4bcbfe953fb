//! `video play`: a client that plays what a sender has.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use tack_endpoint::{CloseReason, Endpoint, EndpointConfig, Event};
use tacklib::Config;

use crate::output::Output;
use crate::player::{PlayOptions, Player};
use crate::report::PlayerReport;

/// The longest wait: what is not told by an event is looked at so often.
const LONGEST_WAIT: Duration = Duration::from_millis(50);

/// What to play.
#[derive(Clone, Copy, Debug)]
pub struct WatchOptions<'a> {
    /// The sender.
    pub server: SocketAddr,
    /// The name that its certificate is for.
    pub name: &'a str,
    /// How.
    pub play: PlayOptions,
    /// Ends after that time, if the media last longer.
    pub longest: Option<Duration>,
}

/// Plays until the media end; what was played.
pub fn watch(
    options: WatchOptions<'_>,
    mut config: Config,
    output: Option<Output>,
) -> Result<PlayerReport> {
    let local: SocketAddr = if options.server.is_ipv4() {
        (Ipv4Addr::UNSPECIFIED, 0).into()
    } else {
        (Ipv6Addr::UNSPECIFIED, 0).into()
    };
    let mut endpoint = Endpoint::client(local, EndpointConfig::default())?;
    let begins = Instant::now();
    let handle = endpoint.connect(options.server, Some(options.name), &mut config)?;
    let mut player = Player::new(begins, options.play, output);
    let mut closed = None;
    while closed.is_none() {
        let now = Instant::now();
        let next = player.next_at().map(|at| at.saturating_duration_since(now));
        endpoint.poll(Some(next.unwrap_or(LONGEST_WAIT).min(LONGEST_WAIT)))?;
        while let Some(event) = endpoint.next_event() {
            if let Event::Closed(_, reason) = event {
                closed = Some(reason);
            }
        }
        let now = Instant::now();
        let Some(connection) = endpoint.connection_mut(handle) else { break };
        player.read(now, connection);
        player.show(now);
        while let Some(notice) = player.poll_notice() {
            log::log!(notice.level(), "{notice}");
        }
        let is_enough = options.longest.is_some_and(|longest| now > begins + longest);
        if player.is_over(now) || is_enough {
            // Fails if it is closed already.
            let _ = connection.close(true, 0, b"thank you");
        }
    }
    let report = player.finish(Instant::now())?;
    match closed {
        // Either end may be the first to say that it has all.
        None
        | Some(
            CloseReason::Local { application: true, code: 0, .. }
            | CloseReason::Peer { application: true, code: 0, .. },
        ) => Ok(report),
        Some(reason) if report.shown == 0 => bail!("{}: {reason}", options.server),
        Some(reason) => {
            log::warn!("the media end early: {reason}");
            Ok(report)
        }
    }
}
