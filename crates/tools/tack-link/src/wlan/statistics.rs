//! What is counted on the medium.

use std::ops::{Add, Sub};

use serde::Serialize;

/// What became of the transmissions of a station, or of those in one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Statistics {
    /// Transmissions that carried data: PPDUs, not MPDUs.
    pub attempts: u64,
    /// Those of them that no response came to.
    pub failures: u64,
    /// Those of them that failed because someone else was on the air.
    pub collisions: u64,
    /// MPDUs in them, every retransmission counted.
    pub mpdus: u64,
    /// Block-ACK requests sent.
    pub requests: u64,
    /// Block-ACK requests that no response came to; all of them were collisions.
    pub request_failures: u64,
    /// How long PPDUs with data and requests were on the air, in nanoseconds, without the
    /// responses to them.
    pub airtime_ns: u64,
}

impl Statistics {
    /// Failed transmissions of data, of all of them; 0 if there were none.
    pub fn failure_rate(&self) -> f64 {
        ratio(self.failures, self.attempts)
    }

    /// How often a station that went on the air, with data or a request, was not alone there.
    pub fn collision_rate(&self) -> f64 {
        ratio(self.collisions + self.request_failures, self.attempts + self.requests)
    }

    /// MPDUs in a transmission of data, on average; 0 if there were none.
    pub fn ampdu_mean(&self) -> f64 {
        ratio(self.mpdus, self.attempts)
    }
}

fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

impl Add for Statistics {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            attempts: self.attempts + other.attempts,
            failures: self.failures + other.failures,
            collisions: self.collisions + other.collisions,
            mpdus: self.mpdus + other.mpdus,
            requests: self.requests + other.requests,
            request_failures: self.request_failures + other.request_failures,
            airtime_ns: self.airtime_ns + other.airtime_ns,
        }
    }
}

impl Sub for Statistics {
    type Output = Self;

    /// What was counted since `earlier`, an earlier state of the same statistics.
    fn sub(self, earlier: Self) -> Self {
        Self {
            attempts: self.attempts - earlier.attempts,
            failures: self.failures - earlier.failures,
            collisions: self.collisions - earlier.collisions,
            mpdus: self.mpdus - earlier.mpdus,
            requests: self.requests - earlier.requests,
            request_failures: self.request_failures - earlier.request_failures,
            airtime_ns: self.airtime_ns - earlier.airtime_ns,
        }
    }
}

impl std::iter::Sum for Statistics {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), Add::add)
    }
}
