//! The test cases: what is transferred, and over which link. `verdict` says what counts as passed.

mod all;
mod conditions;
mod described;
mod narrow;

use std::time::Duration;

use tack_link::compose::BoxedLink;
use tack_link::{LinkSpec, PathSpec};

pub use self::all::ALL;
pub use self::conditions::Conditions;
pub use self::described::{Described, DescribedLink, Files};
use crate::contract::{Method, Protocol, Role};
use crate::error::Error;
use crate::own_kind::OwnKind;

/// A test case.
#[derive(Debug)]
pub struct Case {
    /// The name on the command line.
    pub name: &'static str,
    /// One line for reports.
    pub about: &'static str,
    /// What is special about it.
    pub kind: Kind,
    /// Sizes of the files in bytes.
    files: &'static [usize],
    path: Path,
}

/// What a test case is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The handshake, without a Retry.
    Handshake,
    /// Nothing.
    Transfer,
    /// The server asks for a proof of address.
    Retry,
    /// It does so over a long path.
    RetryLongRtt,
    /// It does so before a second connection that resumes the session of the first.
    RetryResumption,
    /// It does so over a link that loses packets, with one client after the other.
    RetryLoss,
    /// The server refuses the client's key share.
    HelloRetry,
    /// The peer's connection ids are empty.
    EmptyIds,
    /// The peer's connection ids are as long as can be.
    LongIds,
    /// The link loses, reorders and duplicates packets.
    Disorder,
    /// Bulk data in both directions at the same time.
    BothWays,
    /// Whether the peer sends TIMESTAMP.
    Timestamps,
    /// Our end sends DATAGRAM frames, and the peer returns them.
    Datagrams,
    /// Our end looks for the largest datagram that the path carries.
    PathMtu,
    /// HTTP/3 is spoken.
    Http3,
    /// The link loses packets.
    Loss,
    /// The link corrupts packets.
    Corruption,
    /// The path is long.
    LongRtt,
    /// Nothing arrives for a while.
    Blackhole,
    /// The server's certificate is too long for what it may send at first.
    AmplificationLimit,
    /// Handshakes, one after the other, over a link that loses packets.
    HandshakeLoss,
    /// Handshakes, one after the other, over a link that corrupts packets.
    HandshakeCorruption,
    /// IPv6.
    Ipv6,
    /// The client gets other addresses.
    Rebinding,
    /// The client moves to the address that the server prefers.
    Migration,
    /// The goodput.
    Goodput,
    /// The share of the link beside another flow.
    CrossTraffic,
    /// How often the peer acknowledges: one transfer with TACK at our end, one without.
    AckFrequency,
    /// That no extension frame is sent to a peer that did not announce it, with data both ways.
    NoAnnounce,
    /// ChaCha20 is all that the client offers.
    ChaCha20,
    /// Many streams on one connection.
    Multiplexing,
    /// A second connection resumes the session of the first.
    Resumption,
    /// And asks in 0-RTT packets.
    ZeroRtt,
    /// The client updates the keys, or else the server.
    KeyUpdate,
    /// Our end updates the keys.
    KeyUpdateByUs,
    /// QUIC version 2.
    Version2,
    /// Packets are marked for ECN, and marks reported.
    Ecn,
    /// How often our end acknowledges when the peer asks for less: one transfer with TACK at our
    /// end, one without.
    AckFrequencyReceived,
    /// TACK at both ends: one transfer with it at our end, one without.
    Tack,
    /// The peer announces unknown transport parameters.
    Greased,
    /// An end that asks for an acknowledgement at once gets it.
    ImmediateAck,
}

#[derive(Clone, Copy, Debug)]
enum Path {
    /// A wire.
    Wire(Conditions),
    /// The Wi-Fi profile `n` and a round-trip time of 40 ms.
    Wifi,
}

const DEFAULT: Conditions = Conditions::DEFAULT;
/// Of handshakes where there are many.
const HANDSHAKES: usize = 10;
/// How often a figure is measured of which the median counts.
pub const MEASURED_TIMES: usize = 3;

const WIFI_PROFILE: &str = "n";
const WIFI_RTT: Duration = Duration::from_millis(40);

/// The test case of a name.
pub fn by_name(name: &str) -> Option<&'static Case> {
    ALL.iter().find(|case| case.name == name)
}

/// The names of all test cases.
pub fn names() -> Vec<&'static str> {
    ALL.iter().map(|case| case.name).collect()
}

/// The test cases of these names in their own order; all of them if there is no name.
///
/// Fails on an unknown name.
pub fn select(wanted: &[String]) -> Result<Vec<&'static Case>, Error> {
    if let Some(name) = wanted.iter().find(|name| by_name(name).is_none()) {
        return Err(Error::UnknownTest { name: name.clone(), known: names() });
    }
    let is_wanted =
        |case: &&Case| wanted.is_empty() || wanted.iter().any(|name| name == case.name);
    Ok(ALL.iter().filter(is_wanted).collect())
}

/// A request of the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Whether the file is fetched or sent.
    pub method: Method,
    /// Its name.
    pub name: String,
    /// Its size in bytes.
    pub size: usize,
}

impl Case {
    /// The requests of the client if our end has this role.
    pub fn requests(&self, ours: Role) -> Vec<Request> {
        let method = |at: usize| match (self.kind, ours) {
            // Our end sends where the peer's acknowledgements or our datagrams are looked at.
            (Kind::AckFrequency | Kind::ImmediateAck | Kind::PathMtu, Role::Client)
            | (Kind::AckFrequencyReceived, Role::Server) => Method::Put,
            (Kind::NoAnnounce | Kind::BothWays, _) if at % 2 == 1 => Method::Put,
            _ => Method::Get,
        };
        let files = self.files.iter().enumerate();
        files
            .map(|(at, &size)| Request {
                method: method(at),
                name: format!("file-{at}.bin"),
                size,
            })
            .collect()
    }

    /// The application protocol, if the test case takes a certain one.
    pub fn protocol(&self) -> Option<Protocol> {
        (self.kind == Kind::Http3).then_some(Protocol::H3)
    }

    /// The transfers that are made one after the other, as long as they go well.
    pub const fn transfers(&self) -> &'static [OwnKind] {
        match self.kind {
            Kind::AckFrequency => &[OwnKind::Tack, OwnKind::Quiche, OwnKind::TackUnasking],
            Kind::AckFrequencyReceived | Kind::Tack => &[OwnKind::Tack, OwnKind::Quiche],
            Kind::Goodput | Kind::CrossTraffic => &[OwnKind::Tack; MEASURED_TIMES],
            _ => &[OwnKind::Tack],
        }
    }

    /// Whether it runs without other cells beside it, which would disturb its figures. The ten
    /// megabits a second of the default link leave a processor idle enough.
    pub const fn wants_quiet(&self) -> bool {
        matches!(self.kind, Kind::AckFrequency | Kind::ImmediateAck)
    }

    /// The round trip of the link, without any queue.
    pub const fn round_trip(&self) -> Duration {
        match &self.path {
            Path::Wire(conditions) => conditions.round_trip(),
            Path::Wifi => WIFI_RTT,
        }
    }

    /// The test case in the environment of the programs, if our end has this role. They need not know what the link
    /// does, nor what our end does by itself.
    pub const fn told(&self, ours: Role) -> &'static str {
        match self.kind {
            Kind::HandshakeLoss | Kind::HandshakeCorruption | Kind::LongRtt => "handshake",
            Kind::RetryLoss | Kind::RetryLongRtt => "retry",
            Kind::BothWays => "noannounce",
            // Its files go to the server, which not every one keeps.
            Kind::PathMtu if matches!(ours, Role::Client) => "noannounce",
            Kind::Corruption
            | Kind::Blackhole
            | Kind::AmplificationLimit
            | Kind::Ipv6
            | Kind::Rebinding
            | Kind::Disorder
            | Kind::Timestamps
            | Kind::Ecn
            | Kind::PathMtu
            | Kind::KeyUpdateByUs
            | Kind::Goodput
            | Kind::CrossTraffic => "transfer",
            _ => self.name,
        }
    }

    /// How many clients are started, one after the other; each makes its share of the requests.
    pub const fn clients(&self) -> usize {
        match self.kind {
            Kind::HandshakeLoss | Kind::HandshakeCorruption | Kind::RetryLoss => HANDSHAKES,
            _ => 1,
        }
    }

    /// Whether another flow has a share of the link.
    pub fn has_cross_traffic(&self) -> bool {
        self.kind == Kind::CrossTraffic
    }

    /// Whether the server shows a long chain of certificates.
    pub fn has_long_chain(&self) -> bool {
        self.kind == Kind::AmplificationLimit
    }

    /// The link and what happens on it; for the Wi-Fi link, only what happens besides.
    pub const fn conditions(&self) -> &Conditions {
        match &self.path {
            Path::Wire(conditions) => conditions,
            Path::Wifi => &DEFAULT,
        }
    }

    /// The link between the ends, which loses the same packets each time, if our end has this role.
    pub fn link(&self, ours: Role) -> Result<BoxedLink, Error> {
        match &self.path {
            Path::Wire(conditions) => conditions.link(ours),
            Path::Wifi => {
                let link = LinkSpec::resolve(WIFI_PROFILE)
                    .and_then(|link| link.build(&PathSpec::with_rtt(WIFI_RTT), DEFAULT.seed));
                link.map_err(|error| Error::Link(error.to_string()))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_case_has_a_link_and_is_found_by_its_name() {
        for case in &ALL {
            assert_eq!(by_name(case.name).map(|found| found.kind), Some(case.kind));
            assert!(case.link(Role::Client).is_ok());
        }
    }

    #[test]
    fn cases_are_selected_in_their_own_order() {
        let names = ["retry".to_owned(), "handshake".to_owned()];
        let selected = select(&names).unwrap();
        assert_eq!(
            selected.iter().map(|case| case.name).collect::<Vec<_>>(),
            ["handshake", "retry"]
        );
        assert_eq!(select(&[]).unwrap().len(), ALL.len());
        assert!(
            matches!(select(&["x".to_owned()]), Err(Error::UnknownTest { name, .. }) if name == "x")
        );
    }

    #[test]
    fn programs_are_told_a_test_case_that_they_may_know_already() {
        for (case, ours) in
            ALL.iter().flat_map(|case| [Role::Client, Role::Server].map(|role| (case, role)))
        {
            let told = by_name(case.told(ours)).unwrap();
            let asks_nothing = matches!(
                told.kind,
                Kind::Handshake | Kind::Transfer | Kind::Retry | Kind::NoAnnounce
            );
            assert!(told.name == case.name || asks_nothing, "{}", case.name);
        }
    }

    #[test]
    fn a_server_that_is_sent_files_is_told_a_test_case_that_has_some() {
        let sends = |case: &Case| {
            case.requests(Role::Client).iter().any(|request| request.method == Method::Put)
        };
        for case in ALL.iter().filter(|case| sends(case)) {
            let told = by_name(case.told(Role::Client)).unwrap();
            assert!(sends(told), "{}", case.name);
        }
    }

    #[test]
    fn every_client_has_a_request() {
        for case in ALL.iter().filter(|case| case.clients() > 1) {
            assert_eq!(case.requests(Role::Client).len(), case.clients());
        }
    }

    #[test]
    fn where_acks_are_counted_our_end_sends() {
        let case = by_name("ackfrequency").unwrap();
        assert_eq!(case.requests(Role::Client)[0].method, Method::Put);
        assert_eq!(case.requests(Role::Server)[0].method, Method::Get);
    }
}
