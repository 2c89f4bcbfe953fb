//! Careful Resume (RFC 9959, TACK-6.7-1 to TACK-6.7-9): a connection begins with half of what an
//! earlier one could use of the same path, once the path looks the same, and gives it back where that
//! was too much.
//!
//! What is here follows the phases and says what may be in flight. The controller measures as ever;
//! where the sender retreats, it discards what it has measured (appendix "Implementation Notes for
//! using BBR").

use std::time::{Duration, Instant};

use super::bbr::{Feedback, Phase};
use super::path_model::{INITIAL_WINDOW_PACKETS, PathModel};
use super::{PathId, Sender, packet_trains};
use crate::bandwidth::Bandwidth;

/// How old saved parameters may be by default. RFC 9959 section 4.3.1 counts in hours on stable paths
/// and in minutes on others; this does not know which a path is.
pub const DEFAULT_LIFETIME: Duration = Duration::from_secs(3600);

/// max_jump by default, bytes: half of what 100 Mbit/s hold over a satellite's 600 ms.
pub const DEFAULT_MAX_JUMP: u64 = 4 << 20;

/// A window below so many initial windows is not worth a jump (RFC 9959 section 3.1).
const LEAST_INITIAL_WINDOWS: u64 = 4;

/// Jumps that an application may leave unused: what it says first is often little, and its data follows an answer.
const MOST_UNUSED_JUMPS: u8 = 3;

/// A round trip of no more than one of so many parts of saved_rtt is another path's (section 3.2).
const TOO_SHORT: u32 = 2;

/// And one of more than so many times saved_rtt as well (section 4.2.1).
const TOO_LONG: u32 = 10;

/// Beta: what of PipeSize is left as the bound of growth behind a retreat (section 3.5).
const BETA: f64 = 0.5;

/// Round trips that a path can have. Others are damage, or a lie.
const PLAUSIBLE_RTT: std::ops::RangeInclusive<Duration> =
    Duration::from_micros(50)..=Duration::from_secs(60);

/// The largest window that a path can have, bytes: 100 Gbit/s over 600 ms, about.
const PLAUSIBLE_CWND: u64 = 1 << 33;

/// The first byte of encoded parameters.
const ENCODING: u8 = 1;

/// CC parameters of a path, as an earlier connection observed them (RFC 9959 section 3.1).
///
/// They belong to one remote endpoint: the local interface and the peer's address. Whoever stores
/// them keeps one set for each, and lets one connection at a time use it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CcParameters {
    /// saved_cwnd: bytes that the path delivered in a round trip.
    pub saved_cwnd: u64,
    /// saved_rtt: the smallest round trip.
    pub saved_rtt: Duration,
    /// When they were observed, in seconds since the Unix epoch.
    pub saved_at: u64,
}

impl CcParameters {
    /// Length of the encoding, bytes.
    pub const ENCODED_LEN: usize = 25;

    /// Encodes the parameters: a version, then three integers, big endian; the round trip in
    /// microseconds.
    pub fn to_bytes(&self) -> [u8; Self::ENCODED_LEN] {
        let rtt = u64::try_from(self.saved_rtt.as_micros()).unwrap_or(u64::MAX);
        let mut bytes = [ENCODING; Self::ENCODED_LEN];
        for (field, value) in
            bytes[1..].chunks_exact_mut(8).zip([self.saved_cwnd, rtt, self.saved_at])
        {
            field.copy_from_slice(&value.to_be_bytes());
        }
        bytes
    }

    /// Decodes what [`Self::to_bytes`] has encoded.
    ///
    /// `None` for anything else, and for values that no path has.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (version, fields) = bytes.split_first()?;
        if *version != ENCODING || bytes.len() != Self::ENCODED_LEN {
            return None;
        }
        let mut values = fields
            .chunks_exact(8)
            .map(|field| field.iter().fold(0, |value, byte| value << 8 | u64::from(*byte)));
        let parameters = Self {
            saved_cwnd: values.next()?,
            saved_rtt: Duration::from_micros(values.next()?),
            saved_at: values.next()?,
        };
        parameters.is_plausible().then_some(parameters)
    }

    /// Whether a path can have these values.
    pub fn is_plausible(&self) -> bool {
        PLAUSIBLE_RTT.contains(&self.saved_rtt) && self.saved_cwnd <= PLAUSIBLE_CWND
    }

    /// Whether the parameters may be used at `now`, in seconds since the Unix epoch.
    ///
    /// They may if they are no older than `lifetime`, and not from the future.
    pub fn is_current(&self, now: u64, lifetime: Duration) -> bool {
        now.checked_sub(self.saved_at).is_some_and(|age| age <= lifetime.as_secs())
    }
}

/// The phases of RFC 9959 section 3.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum CarefulResumePhase {
    /// The controller does what it always does, and the path is observed.
    #[default]
    Normal,
    /// The initial window finds out whether the path is the one that was observed.
    Reconnaissance,
    /// Up to jump_cwnd is sent within a round trip.
    Unvalidated,
    /// All of that is on its way.
    Validating,
    /// It was too much: it drains.
    SafeRetreat,
}

impl CarefulResumePhase {
    /// Its name, as draft-ietf-tsvwg-careful-resume-qlog writes it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Normal => "normal",
            Self::Reconnaissance => "reconnaissance",
            Self::Unvalidated => "unvalidated",
            Self::Validating => "validating",
            Self::SafeRetreat => "safe_retreat",
        }
    }
}

/// Why the last phase was left.
///
/// The names are those of draft-ietf-tsvwg-careful-resume-qlog where it has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CarefulResumeTrigger {
    /// The initial window has arrived, and there is more to send.
    PathConfirmed,
    /// The round trip is not the one that was saved.
    RttNotValidated,
    /// The window is no larger than the one that the controller has found by itself.
    CwndTooSmall,
    /// The controller has left Startup, where alone it may jump.
    StartupOver,
    /// Data goes over another path.
    PathChanged,
    /// All that may be in flight is.
    LastUnvalidatedPacketSent,
    /// The first packet of the Unvalidated Phase was acknowledged.
    FirstUnvalidatedPacketAcknowledged,
    /// The Unvalidated Phase has lasted for a round trip.
    RttExceeded,
    /// The application had less to send than was allowed.
    RateLimited,
    /// All of the jump has arrived.
    LastUnvalidatedPacketAcknowledged,
    /// A packet was lost.
    PacketLoss,
    /// A packet was marked.
    EcnCe,
    /// The path has drained behind a retreat.
    ExitRecovery,
}

impl CarefulResumeTrigger {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::PathConfirmed => "path_confirmed",
            Self::RttNotValidated => "rtt_not_validated",
            Self::CwndTooSmall => "cwnd_too_small",
            Self::StartupOver => "startup_over",
            Self::PathChanged => "path_changed",
            Self::LastUnvalidatedPacketSent => "last_unvalidated_packet_sent",
            Self::FirstUnvalidatedPacketAcknowledged => "first_unvalidated_packet_acknowledged",
            Self::RttExceeded => "rtt_exceeded",
            Self::RateLimited => "rate_limited",
            Self::LastUnvalidatedPacketAcknowledged => "last_unvalidated_packet_acknowledged",
            Self::PacketLoss => "packet_loss",
            Self::EcnCe => "ECN_CE",
            Self::ExitRecovery => "exit_recovery",
        }
    }
}

/// What an acknowledgement says.
#[derive(Clone, Copy, Debug)]
pub(super) struct Acknowledged {
    /// The largest number that it acknowledges.
    pub largest: u64,
    /// Bytes that it adds.
    pub bytes: u64,
    /// Packets that it has shown to be lost.
    pub lost: u64,
    /// Packets taken for lost before that it has shown to have arrived.
    pub spurious: u64,
    /// Packets that it newly reports as CE.
    pub ce: u64,
    /// flight_size, bytes.
    pub in_flight: u64,
    /// The smallest round trip of the path.
    pub min_rtt: Option<Duration>,
}

/// What the controller has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// Forget what it has measured, believe in no more than that many bytes for each round trip, which was so long
    /// when the jump began, and drain.
    Retreat(u64, Duration),
    /// Measure again, and grow to no more than that many bytes.
    Return(u64),
}

/// Careful Resume on one path.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CarefulResume {
    phase: CarefulResumePhase,
    trigger: Option<CarefulResumeTrigger>,
    saved: Option<CcParameters>,
    /// What a loss has deleted before the jump, and how many lost packets have not turned out to have arrived.
    deleted: Option<(CcParameters, u64)>,
    max_jump: u64,
    /// Bytes sent and acknowledged in the Reconnaissance Phase, and the last packet of the initial
    /// window with all bytes up to it.
    sent: u64,
    acked: u64,
    initial: Option<(u64, u64)>,
    is_confirmed: bool,
    /// Jumps for which there was too little to send.
    unused: u8,
    /// CWND: jump_cwnd, then what validation or the retreat leaves.
    cwnd: u64,
    /// jump_cwnd over the current round trip, and that.
    rate: Bandwidth,
    round_trip: Duration,
    pipe_size: u64,
    /// What the controller allowed to be in flight before the jump.
    normal: u64,
    /// When the Unvalidated Phase ends.
    until: Option<Instant>,
    first_unvalidated: Option<u64>,
    last_unvalidated: u64,
}

impl CarefulResume {
    /// Begins with the Reconnaissance Phase if there are parameters that can be true (TACK-6.7-1).
    pub fn new(saved: Option<CcParameters>, max_jump: u64) -> Self {
        let saved = saved.filter(CcParameters::is_plausible);
        let phase = match saved {
            Some(_) => CarefulResumePhase::Reconnaissance,
            None => CarefulResumePhase::Normal,
        };
        Self { phase, saved, max_jump, ..Self::default() }
    }

    /// The same for a path on which less than the initial window was sent so far. True if it does.
    pub fn begin(&mut self, saved: CcParameters, max_jump: u64) -> bool {
        let is_fresh = (self.phase, self.trigger) == (CarefulResumePhase::Normal, None)
            && self.initial.is_none();
        if !is_fresh || !saved.is_plausible() {
            return false;
        }
        self.phase = CarefulResumePhase::Reconnaissance;
        (self.saved, self.max_jump) = (Some(saved), max_jump);
        true
    }

    /// The phase, and why it is not the one before.
    pub fn state(&self) -> (CarefulResumePhase, Option<CarefulResumeTrigger>) {
        (self.phase, self.trigger)
    }

    /// The parameters to go on with where this connection observes nothing better: none behind a
    /// retreat or where they were another path's (TACK-6.7-7).
    pub fn kept(&self) -> Option<CcParameters> {
        self.saved
    }

    /// A packet that elicits acknowledgements has left.
    pub fn on_sent(&mut self, packet_number: u64, bytes: u64, mss: u64) {
        match self.phase {
            CarefulResumePhase::Normal | CarefulResumePhase::Reconnaissance
                if self.initial.is_none() =>
            {
                self.sent += bytes;
                if self.sent >= INITIAL_WINDOW_PACKETS * mss {
                    self.initial = Some((packet_number, self.sent));
                }
            }
            CarefulResumePhase::Unvalidated => {
                self.first_unvalidated.get_or_insert(packet_number);
                self.last_unvalidated = packet_number;
            }
            _ => {}
        }
    }

    /// Whether the path is confirmed, and a jump allowed as soon as there is enough to send.
    pub fn may_jump(&self) -> bool {
        self.is_confirmed && self.phase == CarefulResumePhase::Reconnaissance
    }

    /// There is more to send than the controller allows, which has `normal` in flight at the most:
    /// jumps (TACK-6.7-3, TACK-6.7-4). True if it does.
    pub fn jump(
        &mut self,
        now: Instant,
        (in_flight, normal): (u64, u64),
        path: &PathModel,
        in_startup: bool,
    ) -> bool {
        let (Some(saved), Some(min_rtt)) = (self.saved, path.min_rtt) else { return false };
        if !in_startup {
            self.stop(CarefulResumeTrigger::StartupOver);
            return false;
        }
        if min_rtt <= saved.saved_rtt / TOO_SHORT || min_rtt > saved.saved_rtt * TOO_LONG {
            self.saved = None;
            self.stop(CarefulResumeTrigger::RttNotValidated);
            return false;
        }
        let jump = self.max_jump.min(saved.saved_cwnd / 2);
        let worthwhile = LEAST_INITIAL_WINDOWS * INITIAL_WINDOW_PACKETS * path.mss;
        if saved.saved_cwnd < worthwhile || jump <= normal {
            self.stop(CarefulResumeTrigger::CwndTooSmall);
            return false;
        }
        // A smoothed round trip is above the minimum where packets queue, and never below it.
        let current_rtt = path.smoothed_rtt.map_or(min_rtt, |rtt| rtt.max(min_rtt));
        let Some(rate) = Bandwidth::from_delta(jump, current_rtt) else { return false };
        (self.cwnd, self.rate, self.round_trip) = (jump, rate, current_rtt);
        (self.pipe_size, self.normal) = (in_flight, normal);
        self.until = Some(now + current_rtt);
        self.first_unvalidated = None;
        self.go(CarefulResumePhase::Unvalidated, CarefulResumeTrigger::PathConfirmed);
        true
    }

    /// Ends the Unvalidated Phase where all of the jump is in flight or a round trip has passed. True
    /// if it has ended.
    pub fn on_time(&mut self, now: Instant, in_flight: u64, mss: u64) -> bool {
        if self.phase != CarefulResumePhase::Unvalidated {
            return false;
        }
        if in_flight + mss > self.cwnd {
            self.validate(CarefulResumeTrigger::LastUnvalidatedPacketSent, in_flight, mss);
        } else if self.until.is_some_and(|until| now > until) {
            self.validate(CarefulResumeTrigger::RttExceeded, in_flight, mss);
        } else {
            return false;
        }
        true
    }

    /// An acknowledgement has arrived.
    pub fn on_acknowledged(&mut self, news: &Acknowledged, mss: u64) -> Option<Order> {
        let congestion = match (news.lost, news.ce) {
            (1.., _) => Some(CarefulResumeTrigger::PacketLoss),
            (_, 1..) => Some(CarefulResumeTrigger::EcnCe),
            _ => None,
        };
        match self.phase {
            CarefulResumePhase::Normal => {
                self.acked += news.bytes;
                self.follow_deleted(news);
                if self.initial.is_none() {
                    // Nothing may begin behind a loss.
                    self.trigger = self.trigger.or(congestion);
                }
                None
            }
            CarefulResumePhase::Reconnaissance => {
                self.acked += news.bytes;
                if let Some(congestion) = congestion {
                    let saved = self.saved.take().filter(|_| news.ce == 0);
                    self.deleted = saved.map(|saved| (saved, 0));
                    self.follow_deleted(news);
                    self.stop(congestion);
                } else if let Some((last, bytes)) = self.initial {
                    self.is_confirmed |= news.largest >= last && self.acked >= bytes;
                }
                None
            }
            CarefulResumePhase::Unvalidated | CarefulResumePhase::Validating => {
                self.pipe_size += news.bytes;
                if let Some(congestion) = congestion {
                    return Some(self.retreat(congestion, mss));
                }
                self.on_validated(news, mss)
            }
            CarefulResumePhase::SafeRetreat => {
                self.pipe_size += news.bytes;
                (news.largest >= self.last_unvalidated).then(|| {
                    self.stop(CarefulResumeTrigger::ExitRecovery);
                    Order::Return((self.pipe_size as f64 * BETA) as u64)
                })
            }
        }
    }

    /// Gives the parameters back to the next connection when no loss has contradicted them after all (TACK-6.7-2).
    fn follow_deleted(&mut self, news: &Acknowledged) {
        let Some((saved, lost)) = &mut self.deleted else { return };
        *lost = (*lost + news.lost).saturating_sub(news.spurious);
        if news.ce > 0 {
            self.deleted = None;
        } else if *lost == 0 {
            self.saved = Some(*saved);
            self.deleted = None;
        }
    }

    /// What has arrived validates the window that it was sent with (TACK-6.7-5).
    fn on_validated(&mut self, news: &Acknowledged, mss: u64) -> Option<Order> {
        if self.phase == CarefulResumePhase::Unvalidated {
            let is_short = |saved: CcParameters| {
                news.min_rtt.is_some_and(|rtt| rtt <= saved.saved_rtt / TOO_SHORT)
            };
            if self.saved.is_some_and(is_short) {
                return Some(self.retreat(CarefulResumeTrigger::PathChanged, mss));
            }
            if self.first_unvalidated.is_some_and(|first| news.largest >= first) {
                let trigger = CarefulResumeTrigger::FirstUnvalidatedPacketAcknowledged;
                self.validate(trigger, news.in_flight, mss);
            }
        } else {
            // As in slow start.
            self.cwnd += news.bytes;
        }
        if self.phase == CarefulResumePhase::Validating && news.largest >= self.last_unvalidated
        {
            self.stop(CarefulResumeTrigger::LastUnvalidatedPacketAcknowledged);
        }
        None
    }

    /// The Unvalidated Phase is over, with so much in flight.
    fn validate(&mut self, trigger: CarefulResumeTrigger, in_flight: u64, mss: u64) {
        self.cwnd = in_flight;
        let is_used = in_flight >= INITIAL_WINDOW_PACKETS * mss
            && in_flight > self.pipe_size.max(self.normal);
        if is_used {
            return self.go(CarefulResumePhase::Validating, trigger);
        }
        self.unused += 1;
        let phase = if self.unused < MOST_UNUSED_JUMPS {
            CarefulResumePhase::Reconnaissance
        } else {
            CarefulResumePhase::Normal
        };
        self.go(phase, CarefulResumeTrigger::RateLimited);
    }

    /// The jump was too far (TACK-6.7-6).
    fn retreat(&mut self, trigger: CarefulResumeTrigger, mss: u64) -> Order {
        self.saved = None;
        // RFC 9002 section 7.2: kMinimumWindow.
        self.cwnd = (self.pipe_size / 2).max(2 * mss);
        self.go(CarefulResumePhase::SafeRetreat, trigger);
        Order::Retreat(self.cwnd, self.round_trip)
    }

    /// Data goes over another path, or this one is taken up again: what was saved says nothing of it.
    pub fn on_path_change(&mut self) {
        (self.saved, self.deleted) = (None, None);
        if self.phase != CarefulResumePhase::Normal {
            self.stop(CarefulResumeTrigger::PathChanged);
        }
    }

    /// What may be in flight, where the controller allows `normal`.
    pub fn bound_inflight(&self, normal: u64) -> u64 {
        match self.phase {
            CarefulResumePhase::Unvalidated | CarefulResumePhase::Validating => {
                normal.max(self.cwnd)
            }
            CarefulResumePhase::SafeRetreat => normal.min(self.cwnd),
            CarefulResumePhase::Normal | CarefulResumePhase::Reconnaissance => normal,
        }
    }

    /// How fast to send, where the controller would send at `normal`.
    pub fn bound_rate(&self, normal: Bandwidth) -> Bandwidth {
        match self.phase {
            CarefulResumePhase::Unvalidated | CarefulResumePhase::Validating => {
                normal.max(self.rate)
            }
            _ => normal,
        }
    }

    fn stop(&mut self, trigger: CarefulResumeTrigger) {
        self.go(CarefulResumePhase::Normal, trigger);
    }

    fn go(&mut self, phase: CarefulResumePhase, trigger: CarefulResumeTrigger) {
        (self.phase, self.trigger) = (phase, Some(trigger));
    }
}

impl Sender {
    /// Offers what an earlier connection observed of the path that data goes over, if that is the first
    /// one and hardly anything was sent; true if it is going to be tried. See
    /// [`SenderConfig::saved`](super::SenderConfig::saved).
    pub fn set_cc_parameters(&mut self, saved: CcParameters) -> bool {
        self.path.id == PathId::default()
            && self.path.careful_resume.begin(saved, self.config.max_jump)
    }

    /// Where Careful Resume is on the path that data goes over, and why it is there (RFC 9959).
    pub fn careful_resume(&self) -> (CarefulResumePhase, Option<CarefulResumeTrigger>) {
        self.path.careful_resume.state()
    }

    /// The parameters to save of the path that data goes over, observed until `now`, in seconds since
    /// the Unix epoch (TACK-6.7-7); `None` where too little was delivered, or a jump has not been
    /// validated yet. Where this connection has not filled the path, those that it was given count as
    /// long as nothing contradicts them.
    pub fn cc_parameters(&self, now: u64) -> Option<CcParameters> {
        let (phase, _) = self.careful_resume();
        let kept = self.path.careful_resume.kept();
        match phase {
            CarefulResumePhase::Normal => {}
            CarefulResumePhase::Reconnaissance => return kept,
            _ => return None,
        }
        let Some(saved_rtt) = self.path.min_rtt.get() else { return kept };
        let saved_cwnd = self.path.bbr.bandwidth().bytes_in(saved_rtt);
        let observed = CcParameters { saved_cwnd, saved_rtt, saved_at: now };
        let is_filled = self.path.bbr.phase() != Phase::Startup;
        let is_worth = is_worth_saving(saved_cwnd, self.config.mss);
        let observed = Some(observed).filter(|new| is_worth && new.is_plausible());
        match kept {
            Some(kept) if !is_filled && kept.saved_cwnd > saved_cwnd => Some(kept),
            _ => observed,
        }
    }

    /// Begins the Unvalidated Phase if the path is the one that was observed; data waits that may not
    /// leave.
    pub(super) fn jumps(&mut self, now: Instant) -> bool {
        if !self.path.careful_resume.may_jump() {
            return false;
        }
        let path = self.limits.path;
        let in_startup = self.path.bbr.phase() == Phase::Startup;
        let flight = (self.sent.in_flight(), self.limits.inflight_cap);
        let jumps = self.path.careful_resume.jump(now, flight, &path, in_startup);
        if jumps {
            self.path.bbr.end_startup_trains();
            self.restart_pacer(now);
            self.recompute();
        }
        jumps
    }

    /// Ends the Unvalidated Phase when it is time.
    pub(super) fn end_jump_in_time(&mut self, now: Instant) {
        let in_flight = self.sent.in_flight();
        if self.path.careful_resume.on_time(now, in_flight, self.config.mss) {
            self.restart_pacer(now);
            self.recompute();
        }
    }

    /// Lets the controller go on where a retreat is over.
    pub(super) fn end_retreat(&mut self, order: Option<Order>) {
        if let Some(Order::Return(most)) = order {
            self.path.bbr.on_retreated(most);
        }
    }

    /// How fast to send.
    pub(super) fn wanted_rate(&self, path: &PathModel) -> Bandwidth {
        let own = self.path.bbr.pacing_rate(path);
        // TACK-6.8-2, TACK-6.8-5: the window stays the controller's.
        let is_clear = self.path.trains.is_clear(path.jitter);
        let of_train = self.without_more_queue(self.train_rate(), path);
        let normal = match (of_train, self.train_may_be_faster()) {
            (Some(of_train), true) if is_clear => of_train,
            (Some(of_train), true) => own.max(of_train),
            (Some(of_train), false) if is_clear => own.min(of_train),
            (None, _) if is_clear => {
                let behind_fall = self.without_more_queue(self.rate_behind_fall(), path);
                behind_fall.map_or(own, |rate| own.min(rate))
            }
            _ => own,
        };
        match self.path.bbr.phase() {
            Phase::Startup => self.path.careful_resume.bound_rate(normal),
            _ => normal,
        }
    }

    /// A rate of trains, which is the estimate's where something queues: faster trains would make the queue longer, and
    /// what leaves behind data that waits shows the rate of the path anyway (TACK-6.8-2).
    fn without_more_queue(
        &self,
        rate: Option<Bandwidth>,
        path: &PathModel,
    ) -> Option<Bandwidth> {
        let least = 2 * path.jitter + packet_trains::QUEUE;
        let round_trips = self.path.latest_rtt.zip(path.min_rtt);
        let queues = round_trips.is_some_and(|(latest, min)| latest > min + least);
        let most = self.path.trains.estimate().filter(|_| queues);
        rate.map(|rate| most.map_or(rate, |most| rate.min(most)))
    }

    /// The rate of trains, where it is all that shows a fall of the path: of an application that makes pauses, BWmax
    /// stays what it was, and a frame that goes on for longer than a train would leave at that (TACK-6.8-2).
    fn rate_behind_fall(&self) -> Option<Bandwidth> {
        let estimate = self.measured_by_trains(self.path.last_feedback)?;
        let is_steady = matches!(self.path.bbr.phase(), Phase::Startup | Phase::ProbeBw);
        let is_behind_fall = estimate < self.bandwidth().scaled(packet_trains::FALL);
        self.path.trains.rate().filter(|_| is_steady && is_behind_fall)
    }

    /// How much may be in flight.
    pub(super) fn window_within(&self, path: &PathModel) -> u64 {
        self.path.careful_resume.bound_inflight(self.path.bbr.inflight_cap(path))
    }

    /// Follows the phases of Careful Resume. A retreat comes before the controller takes in the rate
    /// that is tainted by it, a return behind that.
    pub(super) fn follow_careful_resume(
        &mut self,
        now: Instant,
        largest: u64,
        feedback: &Feedback,
        path: &PathModel,
    ) -> Option<Order> {
        let news = Acknowledged {
            largest,
            bytes: feedback.acked,
            lost: feedback.lost_packets,
            spurious: feedback.spurious,
            ce: feedback.ce,
            in_flight: self.sent.in_flight(),
            min_rtt: path.min_rtt,
        };
        let order = self.path.careful_resume.on_acknowledged(&news, self.config.mss);
        if let Some(Order::Retreat(most, round_trip)) = order {
            let most = (most, round_trip);
            self.path.bbr.on_safe_retreat(now, feedback.in_flight, most, path);
        }
        order
    }
}

/// Whether a window is worth keeping.
fn is_worth_saving(cwnd: u64, mss: u64) -> bool {
    cwnd >= LEAST_INITIAL_WINDOWS * INITIAL_WINDOW_PACKETS * mss
}

#[cfg(test)]
#[path = "careful_resume_tests.rs"]
mod tests;
