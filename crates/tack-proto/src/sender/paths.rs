//! What the sender knows of each path, and the paths that it was on before.
//!
//! A new path says nothing of the old one (RFC 9000 section 9.4), so round
//! trips, controller and pacer belong to a path. One that is left and soon taken
//! up again, as by a telephone at the edge of a cell, goes on where it was.

use std::time::{Duration, Instant};

use super::ack_path::AckPathDelay;
use super::ack_spacing::AckSpacing;
use super::black_hole::BlackHole;
use super::careful_resume::CarefulResume;
use super::ecn_validation::EcnValidation;
use super::jitter::Jitter;
use super::light_load::LightLoad;
use super::packet_trains::PacketTrains;
use super::restart::Restart;
use super::sent_packets::FlightId;
use super::spread::Spread;
use super::{Bbr, Deviation, MinRtt, Pacer, PathModel, SenderConfig};
use crate::bandwidth::Bandwidth;
use crate::ecn::EcnState;

/// Paths that are known at a time, the current one included: a device has Wi-Fi,
/// a cellular network, a cable and a tunnel, and hardly more. Each takes about a
/// kilobyte, and whoever can move the peer's address chooses how many there are.
pub(super) const MAX_PATHS: usize = 4;

/// A path that was left is remembered for this long (TACK-5.7-2). RTTmin expires after ten
/// seconds, and after twenty it gives way to whatever is measured: after thirty
/// nothing that was learned of the path would be in force. Many NATs have given
/// the path another address by then, too.
const KEPT_FOR: Duration = Duration::from_secs(30);

/// A network path, by a number that the caller chooses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PathId(pub u32);

/// What is known of a path.
#[derive(Debug)]
pub(super) struct PathState {
    pub id: PathId,
    pub flight: FlightId,
    pub min_rtt: MinRtt,
    pub latest_rtt: Option<Duration>,
    pub smoothed_rtt: Option<Duration>,
    /// rttvar, RFC 9002 section 5.3, and when the first round trip had been measured.
    pub rtt_variation: Duration,
    pub sampled: Instant,
    /// Of round trips by the sender's own record: reports of times may lower it and must not raise it.
    pub rtt_jitter: Jitter,
    pub ack_path: AckPathDelay,
    pub ack_spacing: AckSpacing,
    pub light_load: LightLoad,
    /// How much later than alpha after the last one a TACK has come while data flowed.
    pub ack_late: Spread,
    /// When the last TACK came, or ACK of a stock peer, if data has been flowing since.
    pub last_tack: Option<Instant>,
    pub bbr: Bbr,
    pub pacer: Pacer,
    pub restart: Restart,
    pub careful_resume: CarefulResume,
    pub ecn: EcnValidation,
    pub trains: PacketTrains,
    pub black_hole: BlackHole,
    pub last_feedback: Instant,
    /// Too much was sent since: the path is waited for.
    pub stands_still: bool,
    /// When data began to go over it; a departure before is another path's.
    pub since: Instant,
    /// When the oldest packet left that was acknowledged since the last TACK.
    pub oldest_acked: Option<Instant>,
    /// The first packet that may have gone over it since then.
    pub first_packet: u64,
    /// The first TACK whose rate is that of this path alone.
    pub rate_from: Option<u64>,
    left: Instant,
}

/// Acknowledgements in a row that may be missing: on a path that loses a third of them, more than
/// these are once in two hundred times. Whoever holds them back on purpose gets no longer queue.
const MOST_ALPHAS_LATE: u32 = 4;

/// TACKs whose rate still spans packets of the path before: it is measured
/// since the last TACK but one (section VI-D of the paper, TACK-5.7-1).
const TACKS_IN_RATE: u64 = 2;

impl PathState {
    pub fn new(now: Instant, id: PathId, flight: FlightId, config: &SenderConfig) -> Self {
        Self {
            id,
            flight,
            min_rtt: MinRtt::new(config.bbr.probe_rtt_after),
            latest_rtt: None,
            smoothed_rtt: None,
            rtt_variation: Duration::ZERO,
            sampled: now,
            rtt_jitter: Jitter::default(),
            ack_path: AckPathDelay::default(),
            ack_spacing: AckSpacing::default(),
            light_load: LightLoad::default(),
            ack_late: Spread::default(),
            last_tack: None,
            bbr: Bbr::new(config.bbr, config.ecn, now, config.random),
            pacer: Pacer::new(now, Bandwidth::ZERO)
                .catching_up(config.bbr.deviations.has(Deviation::CatchUp)),
            restart: Restart::default(),
            careful_resume: CarefulResume::default(),
            ecn: EcnValidation::new(config.ecn),
            trains: PacketTrains::default(),
            black_hole: BlackHole::default(),
            last_feedback: now,
            stands_still: false,
            since: now,
            oldest_acked: None,
            first_packet: 0,
            rate_from: None,
            left: now,
        }
    }

    /// Data goes over the path from now on, beginning with `first_packet`.
    pub fn enter(&mut self, now: Instant, first_packet: u64, path: &PathModel) {
        self.since = now;
        self.first_packet = first_packet;
        self.rate_from = None;
        // That another path was silent says nothing of this one.
        self.last_feedback = now;
        self.last_tack = None;
        self.stands_still = false;
        // TACK-6.7-8
        self.careful_resume.on_path_change();
        self.bbr.on_resumed(now, path);
        self.ecn.enter();
        self.light_load = LightLoad::default();
    }

    /// A round trip by the sender's own record, and what the receiver says to have held the acknowledgement for.
    pub fn sample_jitter(&mut self, round_trip: Duration, hold: Duration) {
        let min_rtt = self.min_rtt.get().unwrap_or(round_trip);
        self.rtt_jitter.on_sample(round_trip, hold, min_rtt);
    }

    /// How much longer than RTTmin data usually takes because the path jitters.
    pub fn jitter(&self) -> Duration {
        let known = self.min_rtt.get().zip(self.smoothed_rtt);
        known.map_or(Duration::ZERO, |(min, smoothed)| self.rtt_jitter.above(min, smoothed))
    }

    /// How much later than `alpha` after the last one an acknowledgement may come (TACK-6.2-10). On a
    /// short path, where there is one for a round trip or less, one may always be missing: else
    /// nothing would be left in flight.
    pub fn ack_late(&self, alpha: Duration, is_short: bool) -> Duration {
        let least = if is_short { alpha } else { Duration::ZERO };
        self.ack_late.most().clamp(least, alpha * MOST_ALPHAS_LATE)
    }

    /// Whether the rate in this TACK is that of this path alone: the first TACK
    /// that acknowledges a packet of it still spans what came over the one before.
    pub fn owns_rate(&mut self, sequence: u64, largest: u64) -> bool {
        if self.rate_from.is_none() && largest >= self.first_packet {
            self.rate_from = Some(sequence.saturating_add(TACKS_IN_RATE));
        }
        self.rate_from.is_some_and(|from| sequence >= from)
    }
}

/// Paths that were left.
#[derive(Debug, Default)]
pub(super) struct LeftPaths {
    /// By when they were left, the oldest first.
    paths: Vec<PathState>,
    flights: u32,
}

impl LeftPaths {
    /// Keeps a path that data does not go over any more; the ones that are forgotten for it.
    pub fn keep(&mut self, now: Instant, mut path: PathState) -> Vec<FlightId> {
        path.left = now;
        self.paths.push(path);
        let mut forgotten = Vec::new();
        let most = MAX_PATHS - 1;
        while self.paths.first().is_some_and(|path| {
            self.paths.len() > most || now.saturating_duration_since(path.left) > KEPT_FOR
        }) {
            forgotten.push(self.paths.remove(0).flight);
        }
        forgotten
    }

    /// Takes a path out that is to be used again, if it is still known.
    pub fn take(&mut self, now: Instant, id: PathId) -> Option<PathState> {
        let at = self.paths.iter().position(|path| path.id == id)?;
        let path = self.paths.remove(at);
        (now.saturating_duration_since(path.left) <= KEPT_FOR).then_some(path)
    }

    /// What is known of ECN on a path.
    pub fn ecn_state(&self, id: PathId) -> Option<EcnState> {
        self.paths.iter().find(|path| path.id == id).map(|path| path.ecn.state())
    }

    /// What is in flight on a path is counted under this id.
    pub fn flight(&self, id: PathId) -> Option<FlightId> {
        self.paths.iter().find(|path| path.id == id).map(|path| path.flight)
    }

    /// An id that was not given before.
    pub fn new_flight(&mut self) -> FlightId {
        self.flights += 1;
        FlightId(self.flights)
    }
}
