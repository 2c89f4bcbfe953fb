//! The links of the experiments.

use std::time::Duration;

use tack_link::wlan::{Parameters, Profile, closed_form};
use tack_link::{LinkSpec, SpecError};

/// A Wi-Fi cell of two stations.
pub(super) fn wlan(profile: Profile) -> Result<LinkSpec, SpecError> {
    LinkSpec::resolve(profile.name())
}

/// A Wi-Fi cell with others in it, each of which sends to the access point.
pub(super) fn room(profile: Profile, others: u32, mbps: f64) -> Result<LinkSpec, SpecError> {
    let toml = format!(
        "[[hop]]\nkind = \"wlan\"\nprofile = \"{profile}\"\nbackground = {others}\n\
         background_mbps = {mbps:?}\n"
    );
    LinkSpec::from_toml(&toml, "room")
}

/// A pipe with a queue in bandwidth-delay products of the path behind it.
pub(super) fn pipe(rate_mbps: f64, buffer_bdp: f64) -> Result<LinkSpec, SpecError> {
    let toml = format!(
        "[[hop]]\nkind = \"pipe\"\nrate_mbps = {rate_mbps:?}\nbuffer_bdp = {buffer_bdp:?}\n"
    );
    LinkSpec::from_toml(&toml, "pipe")
}

/// A pipe with DualPI2, whose buffer is far above what that lets wait; behind it a router that clears the
/// ECN field, if it `bleaches`.
pub(super) fn dualpi2(rate_mbps: f64, bleaches: bool) -> Result<LinkSpec, SpecError> {
    let toml = format!(
        "[[hop]]\nkind = \"pipe\"\nrate_mbps = {rate_mbps:?}\nqueue = \"dualpi2\"\n\
         buffer_ms = 250.0\nbleach_ecn = {bleaches}\n"
    );
    LinkSpec::from_toml(&toml, "DualPI2")
}

/// A server behind a wide-area network, and a client in a Wi-Fi cell (Figure 17): data meets the
/// delay and the losses of the WAN first.
pub(super) fn wan_and_wlan(
    profile: Profile,
    wan_mbps: f64,
    wan_rtt: Duration,
    loss: f64,
) -> Result<LinkSpec, SpecError> {
    let delay_ms = wan_rtt.as_secs_f64() * 1e3 / 2.0;
    let toml = format!(
        "[[hop]]\nkind = \"pipe\"\nrate_mbps = {wan_mbps:?}\ndelay_ms = {delay_ms:?}\n\
         loss = {loss:?}\n[[hop]]\nkind = \"wlan\"\nprofile = \"{profile}\"\n"
    );
    LinkSpec::from_toml(&toml, "WAN and WLAN")
}

/// The UDP baseline of a profile, by the closed form: Mbit/s of payload.
pub(super) fn udp_baseline(profile: Profile) -> f64 {
    closed_form(&Parameters::from(profile))
}

/// The name with the standard in front.
pub(super) fn standard(profile: Profile) -> String {
    format!("802.11{profile}")
}
