//! What a WLAN is like.

use serde::{Deserialize, Serialize};

use super::{Preamble, Profile, Timing};
use crate::ParameterError;
use crate::parameter::probability;

/// Retransmissions of a frame before it is given up, behind its first transmission. 7 is the default of
/// dot11ShortRetryLimit (802.11 annex C), by which the standard counts transmissions: here a frame
/// goes on the air once more, which matters only among many stations.
pub const RETRY_LIMIT: u32 = 7;

/// Largest contention window that EDCA can announce: ECWmax = 15.
const LARGEST_WINDOW: u32 = 32_767;

/// What may be set about a profile. What is `None` is as in [`Parameters::new`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// Preamble, of 802.11b only; default short.
    pub preamble: Option<Preamble>,
    /// Smallest contention window, in slots. Default 15; 31 for b, and for g too, where it is
    /// that of the reference cells (the standard has 15 for a cell without 802.11b stations).
    pub cw_min: Option<u32>,
    /// Largest contention window, in slots; default 1023.
    pub cw_max: Option<u32>,
    /// Longest A-MPDU in bytes, of n and ac only; default 21,700 for n (14 MPDUs with packets of
    /// 1500 bytes), 54,200 for ac (35 of them). A single MPDU may be longer.
    pub ampdu_bytes: Option<u32>,
    /// Whether packets in reverse direction are aggregated too, of n and ac only; default true.
    pub aggregate_acks: Option<bool>,
    /// Probability that an MPDU which met no collision is damaged nevertheless; default 0.
    pub mpdu_error_rate: Option<f64>,
}

/// A profile with all that may be set about it; it makes sense.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameters {
    profile: Profile,
    preamble: Preamble,
    cw_min: u32,
    cw_max: u32,
    ampdu_bytes: Option<u32>,
    aggregate_acks: bool,
    mpdu_error_rate: f64,
}

impl Parameters {
    /// The profile, with what the options set instead of its defaults.
    ///
    /// Fails if an option is out of its range, or of no meaning for the profile.
    pub fn new(profile: Profile, options: &Options) -> Result<Self, ParameterError> {
        let cw_min = window("cw_min", options.cw_min.unwrap_or(default_cw_min(profile)))?;
        let cw_max = window("cw_max", options.cw_max.unwrap_or(1023.max(cw_min)))?;
        if cw_max < cw_min {
            let allowed = format!("{cw_min} (cw_min) or more");
            return Err(ParameterError::new("cw_max", cw_max, allowed));
        }
        if options.preamble.is_some() && profile != Profile::B {
            return Err(ParameterError::new("preamble", "set", "with profile b only"));
        }
        Ok(Self {
            profile,
            preamble: options.preamble.unwrap_or(Preamble::Short),
            cw_min,
            cw_max,
            ampdu_bytes: ampdu_bytes(profile, options.ampdu_bytes)?,
            aggregate_acks: aggregate_acks(profile, options.aggregate_acks)?,
            mpdu_error_rate: probability(
                "mpdu_error_rate",
                options.mpdu_error_rate.unwrap_or(0.0),
            )?,
        })
    }

    /// Which of the four.
    pub const fn profile(&self) -> Profile {
        self.profile
    }

    /// Preamble; of meaning for 802.11b only.
    pub const fn preamble(&self) -> Preamble {
        self.preamble
    }

    /// Smallest contention window, in slots.
    pub const fn cw_min(&self) -> u32 {
        self.cw_min
    }

    /// Largest contention window, in slots.
    pub const fn cw_max(&self) -> u32 {
        self.cw_max
    }

    /// Longest A-MPDU in bytes; `None` where there are none.
    pub const fn ampdu_bytes(&self) -> Option<u32> {
        self.ampdu_bytes
    }

    /// Whether packets in reverse direction are aggregated.
    pub const fn aggregate_acks(&self) -> bool {
        self.aggregate_acks
    }

    /// Probability that an MPDU which met no collision is damaged nevertheless.
    pub const fn mpdu_error_rate(&self) -> f64 {
        self.mpdu_error_rate
    }

    /// How long everything takes.
    pub const fn timing(&self) -> Timing {
        Timing::of(self.profile, self.preamble)
    }
}

impl From<Profile> for Parameters {
    /// The profile with its defaults.
    fn from(profile: Profile) -> Self {
        Self {
            profile,
            preamble: Preamble::Short,
            cw_min: default_cw_min(profile),
            cw_max: 1023,
            ampdu_bytes: default_ampdu_bytes(profile),
            aggregate_acks: profile.aggregates(),
            mpdu_error_rate: 0.0,
        }
    }
}

const fn default_cw_min(profile: Profile) -> u32 {
    match profile {
        Profile::B | Profile::G => 31,
        Profile::N | Profile::Ac => 15,
    }
}

const fn default_ampdu_bytes(profile: Profile) -> Option<u32> {
    match profile {
        Profile::B | Profile::G => None,
        Profile::N => Some(21_700),
        Profile::Ac => Some(54_200),
    }
}

/// 802.11-2016, 9.4.2.56.3 and 9.4.2.158.2: maximum A-MPDU length exponents.
const fn largest_ampdu_bytes(profile: Profile) -> u32 {
    if matches!(profile, Profile::Ac) { 1_048_575 } else { 65_535 }
}

fn ampdu_bytes(profile: Profile, bytes: Option<u32>) -> Result<Option<u32>, ParameterError> {
    let Some(bytes) = bytes else { return Ok(default_ampdu_bytes(profile)) };
    let largest = largest_ampdu_bytes(profile);
    if !profile.aggregates() {
        Err(ParameterError::new("ampdu_bytes", bytes, "with profiles n and ac only"))
    } else if (1..=largest).contains(&bytes) {
        Ok(Some(bytes))
    } else {
        let allowed = format!("1 to {largest} with profile {profile}");
        Err(ParameterError::new("ampdu_bytes", bytes, allowed))
    }
}

fn aggregate_acks(profile: Profile, wanted: Option<bool>) -> Result<bool, ParameterError> {
    if wanted == Some(true) && !profile.aggregates() {
        let allowed = "true with profiles n and ac only";
        return Err(ParameterError::new("aggregate_acks", true, allowed));
    }
    Ok(wanted.unwrap_or(profile.aggregates()))
}

/// A contention window is one less than a power of two: the standard announces its exponent.
fn window(field: &str, slots: u32) -> Result<u32, ParameterError> {
    if slots <= LARGEST_WINDOW && (slots + 1).is_power_of_two() {
        return Ok(slots);
    }
    let allowed =
        format!("one less than a power of two (15, 31, ...), at most {LARGEST_WINDOW}");
    Err(ParameterError::new(field, slots, allowed))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(profile: Profile, options: &Options) -> String {
        Parameters::new(profile, options).unwrap_err().to_string()
    }

    #[test]
    fn no_options_are_the_defaults() {
        for profile in Profile::ALL {
            let parameters = Parameters::new(profile, &Options::default());
            assert_eq!(parameters, Ok(Parameters::from(profile)));
        }
    }

    #[test]
    fn a_window_that_is_no_power_of_two_is_refused() {
        let options = Options { cw_min: Some(16), ..Options::default() };
        assert!(refused(Profile::G, &options).starts_with("cw_min is 16; allowed: one less"));
    }

    #[test]
    fn a_largest_window_below_the_smallest_is_refused() {
        let options = Options { cw_min: Some(31), cw_max: Some(15), ..Options::default() };
        let error = refused(Profile::N, &options);
        assert_eq!(error, "cw_max is 15; allowed: 31 (cw_min) or more");
    }

    #[test]
    fn options_of_other_profiles_are_refused() {
        let long = Options { preamble: Some(Preamble::Long), ..Options::default() };
        assert!(refused(Profile::G, &long).contains("profile b only"));
        let ampdu = Options { ampdu_bytes: Some(9000), ..Options::default() };
        assert!(refused(Profile::B, &ampdu).contains("n and ac only"));
        let aggregate = Options { aggregate_acks: Some(true), ..Options::default() };
        assert!(refused(Profile::G, &aggregate).contains("n and ac only"));
    }

    #[test]
    fn an_ampdu_beyond_the_standard_is_refused() {
        let options = Options { ampdu_bytes: Some(65_536), ..Options::default() };
        let error = refused(Profile::N, &options);
        assert_eq!(error, "ampdu_bytes is 65536; allowed: 1 to 65535 with profile n");
        assert!(Parameters::new(Profile::Ac, &options).is_ok());
    }

    #[test]
    fn an_error_rate_that_is_no_probability_is_refused() {
        let options = Options { mpdu_error_rate: Some(1.5), ..Options::default() };
        assert!(refused(Profile::N, &options).starts_with("mpdu_error_rate is 1.5"));
    }
}
