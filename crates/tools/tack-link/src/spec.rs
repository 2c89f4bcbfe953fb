//! Links as people describe them: by a name, or in a small TOML file.
//!
//! ```toml
//! name = "satellite to a flat"      # default: the name of the file
//! default_rtt_ms = 0.0              # round-trip time of the path behind, unless a tool is told
//!
//! [[hop]]
//! kind = "pipe"
//! rate_mbps = 20.0                  # of IP packets; without it, unlimited
//! delay_ms = 270.0                  # one way; default 0
//! jitter_ms = 7.0                   # delay that varies as on Wi-Fi: 0, or a mean of 1 to 91 ms
//! queue = "drop-tail"               # or "codel", "fq-codel", "dualpi2"; they need a rate
//! bleach_ecn = false                # true: what leaves has no ECN field any more
//! buffer_bdp = 1.0                  # or buffer_bytes, or buffer_ms; default 1 BDP, 64 KiB at least
//! loss = 0.01                       # probability, as duplicate and corrupt
//! duplicate = 0.001
//! corrupt = 0.0001
//! gilbert_elliott = { p = 0.001, r = 0.2, loss_good = 0.0, loss_bad = 1.0 }
//! reorder = { probability = 0.01, delay_ms = 5.0 }
//! pauses = [[2.0, 150.0], [5.0, 80.0]] # [second, ms]: it stands still; of a WLAN too
//! [hop.reverse]                     # what is different in reverse; or [hop.forward]
//! rate_trace = { steps = [[0, 2.0], [60, 0.0], [61, 2.0]], repeat_s = 90 } # [second, Mbit/s]
//! delay_trace = { steps = [[0, 270.0], [30, 280.0]] }                      # [second, ms]
//! jitter_trace = { steps = [[0, 1.0], [1, 12.0], [3, 1.0]] }               # [second, ms]
//!
//! [[hop]]
//! kind = "wlan"
//! profile = "n"                     # b, g, n, ac
//! uplink = false                    # true: the station sends forward, not the access point
//! hops = 1                          # 2: from station to station through the access point
//! background = 3                    # other stations that send to the access point,
//! background_mbps = 5.0             # and what each of them sends; default: all it can
//! buffer_packets = 400              # or buffer_bytes, per station; default 1 BDP, 512 KiB at least
//! ampdu_bytes = 21700               # n and ac, as aggregate_acks
//! aggregate_acks = true
//! mpdu_error_rate = 0.0
//! cw_min = 15
//! cw_max = 1023
//! # preamble = "short"              # b
//! ```
//!
//! Packets go forward through the hops in this order, and back in reverse. What a direction does
//! not say itself, the hop says for both.

mod error;
mod pipe;
mod table;
#[cfg(test)]
mod tests;
mod wlan;

use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use self::error::SpecError;
pub use self::pipe::MIN_DEFAULT_PIPE_BUFFER;
use self::pipe::{PipeHop, millis, pauses};
use self::table::{HopTable, LinkTable, PipeTable, WlanTable};
pub use self::wlan::MIN_DEFAULT_WLAN_BUFFER;
use self::wlan::WlanHop;
use crate::compose::{BoxedLink, Chain, Duplex, Paused, Pauses, PerFlow};
use crate::parameter::{number, probability};
use crate::pipe::{MAX_DELAY, PipeConfig, Schedule};
use crate::random::child_seed;
use crate::wlan::Profile;
use crate::{Direction, ParameterError, Time};

/// Round-trip time of the path behind a link that is described by a name alone.
const NAMED_DEFAULT_RTT: Duration = Duration::from_millis(40);
const PIPE_PREFIX: &str = "pipe:";

/// Labels of the random streams of a link: they are part of what a seed means.
const HOPS: u64 = 0;
const PATHS: u64 = 1;

/// The description of a link; it makes sense, and [`build`](LinkSpec::build) makes links of it.
///
/// Serialised it is what was given, so that a result can show the link that it was measured on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "LinkTable", into = "LinkTable")]
pub struct LinkSpec {
    table: LinkTable,
    hops: Vec<Hop>,
}

#[derive(Clone, Debug, PartialEq)]
struct Hop {
    kind: HopKind,
    pauses: Pauses,
}

#[derive(Clone, Debug, PartialEq)]
enum HopKind {
    Pipe(Box<PipeHop>),
    Wlan(WlanHop),
}

/// The path behind a link: a propagation delay of half the round-trip time each way, and losses.
///
/// Forward packets cross the link first and may be lost after it, reverse packets before it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PathSpec {
    /// Round-trip time, two minutes at most.
    pub rtt: Duration,
    /// Probability that a forward packet is lost.
    pub loss_forward: f64,
    /// Probability that a reverse packet is lost.
    pub loss_reverse: f64,
}

impl LinkSpec {
    /// The link of a name: that of a Wi-Fi profile (`b`, `g`, `n` or `ac`), `pipe:RATE` with a
    /// rate in Mbit/s for a pipe of that rate without a delay, `pipe:DOWN/UP` for one whose
    /// forward rate is DOWN and whose reverse rate is UP, or the path of a TOML file.
    pub fn resolve(name: &str) -> Result<Self, SpecError> {
        if let Ok(profile) = name.parse::<Profile>() {
            return Self::named(name, HopTable::Wlan(WlanTable::new(profile)));
        }
        if let Some(rates) = name.strip_prefix(PIPE_PREFIX) {
            let (down, up) = match rates.split_once('/') {
                Some((down, up)) => (down, Some(up)),
                None => (rates, None),
            };
            let pipe = |rate| {
                Ok(PipeTable { rate_mbps: Some(parse_rate(name, rate)?), ..Default::default() })
            };
            let reverse = up.map(pipe).transpose()?.map(Box::new);
            let table = PipeTable { reverse, ..pipe(down)? };
            return Self::named(name, HopTable::Pipe(Box::new(table)));
        }
        Self::read(name)
    }

    /// The link that a TOML text describes; `origin` says in errors where it comes from.
    pub fn from_toml(text: &str, origin: &str) -> Result<Self, SpecError> {
        let table = table::parse(text).map_err(|error| SpecError::Syntax {
            origin: origin.to_owned(),
            message: error.to_string(),
        })?;
        Self::new(table, origin)
    }

    /// What the link is called.
    pub fn name(&self) -> &str {
        self.table.name.as_deref().unwrap_or("unnamed link")
    }

    /// The round-trip time of the path behind the link, for tools that were not told one: 40 ms
    /// with a link that is described by a name alone; else what the file says, or zero.
    pub fn default_rtt(&self) -> Duration {
        self.table.default_rtt_ms.map_or(Duration::ZERO, millis)
    }

    /// The propagation delays of the link itself, there and back; the smallest, where they
    /// change.
    pub fn own_rtt(&self) -> Duration {
        self.hops.iter().map(Hop::rtt).sum()
    }

    /// What the forward direction can carry at most in the first `span` after the start: bits of
    /// IP packets per second. Infinite if no hop has a rate.
    ///
    /// For a WLAN that is what a single sender gets that has the medium to itself. Pauses are
    /// not taken off.
    pub fn capacity_bps(&self, span: Duration) -> f64 {
        self.direction_capacity_bps(Direction::Forward, span)
    }

    /// As [`capacity_bps`](Self::capacity_bps), for either direction.
    ///
    /// Both directions of a WLAN share one medium: each can carry that much only while the other
    /// one carries nothing.
    pub fn direction_capacity_bps(&self, direction: Direction, span: Duration) -> f64 {
        let capacities = self.hops.iter().map(|hop| hop.capacity_bps(direction, span));
        capacities.fold(f64::INFINITY, f64::min)
    }

    /// What a direction can carry at a moment, in bits of IP packets per second: the rate of the slowest hop.
    /// Infinite if no hop has a rate.
    pub fn direction_rate_bps(&self, direction: Direction, now: Time) -> f64 {
        let rates = self.hops.iter().map(|hop| hop.rate_bps(direction, now));
        rates.fold(f64::INFINITY, f64::min)
    }

    /// The propagation delay of a direction at a moment, without that of the path behind the link.
    pub fn direction_delay(&self, direction: Direction, now: Time) -> Duration {
        self.hops.iter().map(|hop| hop.delay(direction, now)).sum()
    }

    /// Whether a hop is a medium that even a packet which meets no other waits for: a WLAN.
    pub fn has_medium(&self) -> bool {
        self.hops.iter().any(|hop| matches!(hop.kind, HopKind::Wlan(_)))
    }

    /// Size in bytes of the queue in front of the slowest hop of the forward direction; `path`
    /// is what lies behind the link. Beyond all measure if no hop has a rate.
    ///
    /// Fails as [`build`](Self::build) does.
    pub fn buffer_bytes(&self, path: &PathSpec) -> Result<u64, SpecError> {
        path.check()?;
        let rtt = self.own_rtt() + path.rtt;
        let capacity = |hop: &Hop| hop.capacity_bps(Direction::Forward, Duration::ZERO);
        let hops = self.hops.iter().enumerate();
        let slowest =
            hops.min_by(|(_, one), (_, other)| capacity(one).total_cmp(&capacity(other)));
        let Some((at, hop)) = slowest else { return Ok(u64::MAX) };
        hop.buffer_bytes(rtt).map_err(|error| self.hop_error(at, error))
    }

    /// A link of this description with that path behind it; `seed` decides everything that is
    /// left to chance.
    ///
    /// Fails if the path makes no sense, or has no round-trip time where a buffer is given as a
    /// multiple of the bandwidth-delay product.
    pub fn build(&self, path: &PathSpec, seed: u64) -> Result<BoxedLink, SpecError> {
        self.build_shared(std::slice::from_ref(path), seed)
    }

    /// A link of this description that several flows share, each with its own path behind it.
    /// Buffers that depend on the round-trip time are made for the longest.
    ///
    /// Fails as [`build`](Self::build) does.
    pub fn build_shared(&self, flows: &[PathSpec], seed: u64) -> Result<BoxedLink, SpecError> {
        flows.iter().try_for_each(PathSpec::check)?;
        let path_rtt = flows.iter().map(|path| path.rtt).max().unwrap_or_default();
        let rtt = self.own_rtt() + path_rtt;

        let hop_seed = |at| child_seed(child_seed(seed, HOPS), at as u64);
        let hops = self.hops.iter().enumerate().map(|(at, hop)| {
            hop.build(rtt, hop_seed(at)).map_err(|error| self.hop_error(at, error))
        });
        let hops = hops.collect::<Result<Vec<_>, _>>()?;

        let path_seed = |flow| child_seed(child_seed(seed, PATHS), flow);
        let paths = (0..).zip(flows).map(|(flow, path)| path.build(path_seed(flow)));
        let paths = paths.collect::<Result<Vec<_>, _>>()?;
        Ok(Box::new(PerFlow::new(Box::new(Chain::new(hops)), paths)))
    }

    fn named(name: &str, hop: HopTable) -> Result<Self, SpecError> {
        let table = LinkTable {
            name: Some(name.to_owned()),
            default_rtt_ms: Some(NAMED_DEFAULT_RTT.as_secs_f64() * 1e3),
            hop: vec![hop],
        };
        Self::new(table, name)
    }

    fn read(path: &str) -> Result<Self, SpecError> {
        let file = Path::new(path);
        let text = fs::read_to_string(file).map_err(|source| {
            if source.kind() == io::ErrorKind::NotFound && !looks_like_a_file(path) {
                return SpecError::Unknown(path.to_owned());
            }
            SpecError::Unreadable { file: file.to_owned(), source }
        })?;
        let mut spec = Self::from_toml(&text, path)?;
        let stem = || file.file_stem().map(|stem| stem.to_string_lossy().into_owned());
        spec.table.name = spec.table.name.or_else(stem);
        Ok(spec)
    }

    fn new(table: LinkTable, origin: &str) -> Result<Self, SpecError> {
        let wrong = |source| SpecError::Link { origin: origin.to_owned(), source };
        if let Some(rtt) = table.default_rtt_ms {
            let most = 2.0 * MAX_DELAY.as_secs_f64() * 1e3;
            number("default_rtt_ms", rtt, 0.0..=most, "ms").map_err(wrong)?;
        }
        if table.hop.is_empty() {
            let allowed = "one [[hop]] or more";
            return Err(wrong(ParameterError::new("hop", "an empty list", allowed)));
        }
        let hops = table.hop.iter().enumerate().map(|(at, hop)| {
            let hop_error =
                |source| SpecError::Hop { origin: origin.to_owned(), hop: at + 1, source };
            Hop::new(hop).map_err(hop_error)
        });
        Ok(Self { hops: hops.collect::<Result<_, _>>()?, table })
    }

    fn hop_error(&self, at: usize, source: ParameterError) -> SpecError {
        SpecError::Hop { origin: self.name().to_owned(), hop: at + 1, source }
    }
}

fn parse_rate(name: &str, rate: &str) -> Result<f64, SpecError> {
    rate.parse().map_err(|_| {
        let allowed = "a number of Mbit/s, as in pipe:100, or two, as in pipe:100/10";
        let source = ParameterError::new("RATE", format!("`{rate}`"), allowed);
        SpecError::Link { origin: name.to_owned(), source }
    })
}

/// Whether somebody who wrote this meant a file rather than a profile.
fn looks_like_a_file(name: &str) -> bool {
    name.contains(['/', '\\', '.'])
}

impl TryFrom<LinkTable> for LinkSpec {
    type Error = SpecError;

    fn try_from(table: LinkTable) -> Result<Self, SpecError> {
        let origin = table.name.clone().unwrap_or_else(|| "link".to_owned());
        Self::new(table, &origin)
    }
}

impl From<LinkSpec> for LinkTable {
    fn from(spec: LinkSpec) -> Self {
        spec.table
    }
}

impl Hop {
    fn new(table: &HopTable) -> Result<Self, ParameterError> {
        let (kind, given) = match table {
            HopTable::Pipe(table) => {
                (HopKind::Pipe(Box::new(PipeHop::new(table)?)), &table.pauses)
            }
            HopTable::Wlan(table) => (HopKind::Wlan(WlanHop::new(table)?), &table.pauses),
        };
        Ok(Self { kind, pauses: pauses(given)? })
    }

    fn rtt(&self) -> Duration {
        match &self.kind {
            HopKind::Pipe(pipe) => pipe.rtt(),
            HopKind::Wlan(_) => Duration::ZERO,
        }
    }

    fn capacity_bps(&self, direction: Direction, span: Duration) -> f64 {
        match &self.kind {
            HopKind::Pipe(pipe) => pipe.capacity_bps(direction, span).unwrap_or(f64::INFINITY),
            HopKind::Wlan(wlan) => wlan.capacity_bps(),
        }
    }

    fn rate_bps(&self, direction: Direction, now: Time) -> f64 {
        match &self.kind {
            HopKind::Pipe(pipe) => pipe.rate_bps(direction, now).unwrap_or(f64::INFINITY),
            HopKind::Wlan(wlan) => wlan.capacity_bps(),
        }
    }

    fn delay(&self, direction: Direction, now: Time) -> Duration {
        match &self.kind {
            HopKind::Pipe(pipe) => pipe.delay(direction, now),
            HopKind::Wlan(_) => Duration::ZERO,
        }
    }

    fn buffer_bytes(&self, rtt: Duration) -> Result<u64, ParameterError> {
        match &self.kind {
            HopKind::Pipe(pipe) => pipe.buffer_bytes(Direction::Forward, rtt),
            HopKind::Wlan(wlan) => Ok(wlan.buffer_bytes(rtt)),
        }
    }

    fn build(&self, rtt: Duration, seed: u64) -> Result<BoxedLink, ParameterError> {
        let link = match &self.kind {
            HopKind::Pipe(pipe) => pipe.build(rtt, seed),
            HopKind::Wlan(wlan) => wlan.build(rtt, seed),
        }?;
        if self.pauses.is_empty() {
            return Ok(link);
        }
        Ok(Box::new(Paused::new(link, self.pauses.clone())))
    }
}

impl PathSpec {
    /// A path that loses nothing.
    pub const fn with_rtt(rtt: Duration) -> Self {
        Self { rtt, loss_forward: 0.0, loss_reverse: 0.0 }
    }

    fn check(&self) -> Result<(), SpecError> {
        if self.rtt > 2 * MAX_DELAY {
            let allowed = format!("up to {:?}", 2 * MAX_DELAY);
            let error = ParameterError::new("rtt", format!("{:?}", self.rtt), allowed);
            return Err(SpecError::Path(error));
        }
        probability("loss_forward", self.loss_forward).map_err(SpecError::Path)?;
        probability("loss_reverse", self.loss_reverse).map_err(SpecError::Path)?;
        Ok(())
    }

    /// The propagation delay of a direction.
    pub fn delay(&self, direction: Direction) -> Duration {
        let forward = self.rtt / 2;
        match direction {
            Direction::Forward => forward,
            Direction::Reverse => self.rtt.saturating_sub(forward),
        }
    }

    fn build(&self, seed: u64) -> Result<Duplex, SpecError> {
        let pipe = |delay, loss| PipeConfig {
            delay: Schedule::constant(delay),
            loss,
            ..PipeConfig::default()
        };
        let forward = pipe(self.delay(Direction::Forward), self.loss_forward);
        let reverse = pipe(self.delay(Direction::Reverse), self.loss_reverse);
        Duplex::new(&forward, &reverse, seed).map_err(SpecError::Path)
    }
}
