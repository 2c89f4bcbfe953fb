//! Where the controller differs from draft-ietf-ccwg-bbr-06, each difference with a name.
//!
//! All of them are in force. The feature `lab` lets a comparison go without some of them, which shows
//! what each is worth: `tack-lab run ablation`. Without that feature nothing is looked up.

use std::time::Duration;

macro_rules! deviations {
    ($($(#[$doc:meta])+ $name:ident,)+) => {
        /// A difference, by what is there; each says what is done without it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Deviation {
            $($(#[$doc])+ $name,)+
        }

        impl Deviation {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$name),+];
        }
    };
}

deviations! {
    /// The receiver measures the delivery rate (TACK-6.1-1). Without: the sender's own samples alone.
    ReceiverRate,
    /// max_bw remembers 40 units of time (TACK-6.1-3). Without: this cycle and the last
    /// (BBR.MaxBwFilterLen).
    BandwidthMemory,
    /// A cycle without congestion lasts 32 units (TACK-6.2-6). Without: Cruise lasts 2 to 3 s, or 63
    /// round trips, always (PickProbeWait).
    ShortCycle,
    /// Startup asks by packet trains whether the path carries four times as much (TACK-6.2-14). Without: it doubles the
    /// rate each round trip.
    StartupTrains,
    /// A path that stands still is waited for, and what queued in front of it drains (TACK-6.2-7).
    /// Without: a silence is nothing special.
    Outages,
    /// On a path that is shorter than alpha Startup doubles what waits for its TACK as well, and one
    /// TACK may always be missing (TACK-6.2-1, TACK-6.2-10). Without: neither.
    ShortPaths,
    /// Flows count short paths as up to twice as long (TACK-6.1-5). Without: as they are.
    EvenRtt,
    /// A path that has become slower is followed at once (TACK-6.1-4). Without: when max_bw forgets.
    BandwidthDrop,
    /// Probes behind one that found more go higher (TACK-6.2-13). Without: each has a gain of 1.25.
    Acceleration,
    /// The first probe of a series lasts 70 ms, or 55, at most (TACK-6.2-13). Without: a round trip.
    FirstProbe,
    /// Where others queue nothing, probes behind one that lost too much have a gain of 1.05 (TACK-6.2-18). Without: 1.25.
    GentleProbes,
    /// Jitter counts as part of RTTmin (TACK-6.2-12). Without: it does not.
    Jitter,
    /// Losses count where packets queue, beyond what the path loses by itself (TACK-6.5-1). Without: all
    /// losses do, beyond 2 % for probes and Startup.
    OwnLosses,
    /// What a path loses of less than it carries is sent in addition (TACK-6.2-16). Without: max_bw alone is the rate.
    PathLosses,
    /// A probe that lost too much leaves 0.7 of the flight (TACK-6.5-2). Without: all of it
    /// (HandleInflightTooHigh).
    Decrease,
    /// A probe that lost too much in a queue that others keep leaves 0.85 of the rate (TACK-6.5-9). Without:
    /// all of it.
    Share,
    /// Bursts that overflow a buffer become shorter (TACK-6.4-3), and have ten packets at most in Startup (TACK-6.4-5).
    /// Without: they last a millisecond.
    ShortBursts,
    /// The Up behind one that went too high ends before it loses anything (TACK-6.5-4), as in the draft.
    /// Without: each ends by its losses or by the clock.
    Precaution,
    /// Models and states are given back what spurious losses have cost (TACK-6.5-7), as in the draft,
    /// but by whole episodes; Startup by the round trip that ended it. Without: nothing is.
    Undo,
    /// A process that ran late catches up 20 ms (TACK-6.4-1). Without: a millisecond.
    CatchUp,
    /// How late this end sends is not taken for a queue (TACK-6.2-11). Without: it is.
    OwnLateness,
    /// How late TACKs come is allowed for in flight (TACK-6.2-10). Without: it is not.
    LateTacks,
    /// What acknowledgements run ahead by, beyond the wait for a TACK, is allowed for in flight: the
    /// draft's extra_acked, within bounds (TACK-6.2-4). Without: it is not.
    ExtraAcked,
}

/// The deviations that are in force: all, unless the lab says otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deviations {
    off: u32,
}

impl Deviations {
    /// All of them.
    pub const ALL: Self = Self { off: 0 };

    /// The same without that one.
    #[cfg(feature = "lab")]
    #[must_use]
    pub const fn without(self, deviation: Deviation) -> Self {
        Self { off: self.off | 1 << deviation as u32 }
    }

    /// Whether that one is in force; always, without the feature `lab`.
    #[inline]
    pub(super) const fn has(self, deviation: Deviation) -> bool {
        !cfg!(feature = "lab") || self.off & 1 << deviation as u32 == 0
    }

    /// The time that a deviation allows for; nothing without it.
    #[inline]
    pub(super) fn allow(self, deviation: Deviation, time: Duration) -> Duration {
        if self.has(deviation) { time } else { Duration::ZERO }
    }
}
