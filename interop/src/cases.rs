//! The test cases: what is transferred, over which link. What counts as passed is in `verdict`.

mod all;
mod conditions;

use std::time::Duration;

use tack_link::compose::BoxedLink;
use tack_link::{LinkSpec, PathSpec};

pub use self::all::ALL;
pub use self::conditions::Conditions;
use crate::cli::OwnKind;
use crate::contract::{Method, Protocol, Role};
use crate::error::Error;

/// A test case.
#[derive(Debug)]
pub struct Case {
    /// As on the command line and in the environment of the peers.
    pub name: &'static str,
    /// What it shows.
    pub about: &'static str,
    /// What makes it more than a transfer.
    pub kind: Kind,
    /// Sizes of the files in bytes.
    files: &'static [usize],
    path: Path,
}

/// What a test case looks at besides the files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Nothing.
    Transfer,
    /// The server asks for a proof of address.
    Retry,
    /// HTTP/3 is spoken.
    Http3,
    /// The link loses packets.
    Loss,
    /// The link corrupts packets.
    Corruption,
    /// The way is long.
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
    /// How fast it is.
    Goodput,
    /// How fast it is beside another flow.
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
    /// The client changes the keys, or else the server.
    KeyUpdate,
    /// QUIC version 2.
    Version2,
    /// Packets are marked for ECN, and marks reported.
    Ecn,
    /// How often our end acknowledges when the peer asks for less: one transfer with TACK at our
    /// end, one without.
    AckFrequencyReceived,
    /// TACK at both ends: one transfer with it at our end, one without.
    Tack,
    /// The peer announces what nobody knows.
    Greased,
    /// Who asks for an acknowledgement at once gets it.
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
/// Fails on a name that is none.
pub fn select(names: &[String]) -> Result<Vec<&'static Case>, Error> {
    if let Some(name) = names.iter().find(|name| by_name(name).is_none()) {
        return Err(Error::UnknownTest(name.clone()));
    }
    let wanted = |case: &&Case| names.is_empty() || names.iter().any(|name| name == case.name);
    Ok(ALL.iter().filter(wanted).collect())
}

/// What the client asks for in a cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Which way the file goes.
    pub method: Method,
    /// Its name.
    pub name: String,
    /// Its size in bytes.
    pub size: usize,
}

impl Case {
    /// What the client asks for if our end has this role.
    pub fn requests(&self, ours: Role) -> Vec<Request> {
        let method = |at: usize| match (self.kind, ours) {
            // The data flows to whose acknowledgements count: the peer's, or ours.
            (Kind::AckFrequency | Kind::ImmediateAck, Role::Client)
            | (Kind::AckFrequencyReceived, Role::Server) => Method::Put,
            (Kind::NoAnnounce, _) if at % 2 == 1 => Method::Put,
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

    /// What has to be spoken, if it matters.
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

    /// Whether a measurement is part of it that other cells at the same time would disturb. The
    /// ten megabits a second of the default link leave a processor idle enough.
    pub const fn wants_quiet(&self) -> bool {
        matches!(self.kind, Kind::AckFrequency | Kind::ImmediateAck)
    }

    /// How many draws of losses are tried before the cell has failed. Where a third of the packets
    /// is lost, an end may wait in vain for as long as it waits at all (ten seconds, of most),
    /// whoever it talks to: that one of ten clients gives up tells nothing of the other end.
    pub const fn draws(&self) -> u64 {
        match self.kind {
            Kind::HandshakeLoss | Kind::HandshakeCorruption => 3,
            _ => 1,
        }
    }

    /// The round trip of the link, without any queue.
    pub const fn round_trip(&self) -> Duration {
        match &self.path {
            Path::Wire(conditions) => conditions.round_trip(),
            Path::Wifi => WIFI_RTT,
        }
    }

    /// What the programs are told that it is: they need not know what happens on the way.
    pub const fn told(&self) -> &'static str {
        match self.kind {
            Kind::HandshakeLoss | Kind::HandshakeCorruption | Kind::LongRtt => "handshake",
            Kind::Corruption
            | Kind::Blackhole
            | Kind::AmplificationLimit
            | Kind::Ipv6
            | Kind::Rebinding
            | Kind::Goodput
            | Kind::CrossTraffic => "transfer",
            _ => self.name,
        }
    }

    /// How many clients are started, one after the other; each makes its share of the requests.
    pub const fn clients(&self) -> usize {
        match self.kind {
            Kind::HandshakeLoss | Kind::HandshakeCorruption => HANDSHAKES,
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

    /// What the way is like; of a Wi-Fi link, what there is besides the link.
    pub const fn conditions(&self) -> &Conditions {
        match &self.path {
            Path::Wire(conditions) => conditions,
            Path::Wifi => &DEFAULT,
        }
    }

    /// The link between the ends, which loses the same packets each time; with another `draw` it
    /// loses others.
    pub fn link(&self, draw: u64) -> Result<BoxedLink, Error> {
        match &self.path {
            Path::Wire(conditions) => {
                Conditions { seed: conditions.seed + draw, ..*conditions }.link()
            }
            Path::Wifi => {
                let link = LinkSpec::resolve("n")
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
            assert!(case.link(0).is_ok());
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
            matches!(select(&["x".to_owned()]), Err(Error::UnknownTest(name)) if name == "x")
        );
    }

    #[test]
    fn what_programs_are_told_is_a_test_case_that_asks_nothing_more_of_them() {
        for case in ALL.iter().filter(|case| case.told() != case.name) {
            let told = by_name(case.told()).unwrap();
            assert_eq!(told.kind, Kind::Transfer, "{}", case.name);
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
