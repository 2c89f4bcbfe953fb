//! The test cases: what is transferred, over which link. What counts as passed is in `verdict`.

mod conditions;

use std::time::Duration;

use tack_emulator::relay::Change;
use tack_link::compose::BoxedLink;
use tack_link::{LinkSpec, PathSpec};

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

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;
const DEFAULT: Conditions = Conditions::DEFAULT;
/// Of handshakes where there are many.
const HANDSHAKES: usize = 10;
/// How often a figure is measured of which the median counts.
pub const MEASURED_TIMES: usize = 3;

const WIFI_RTT: Duration = Duration::from_millis(40);

/// Every test case, in the order of the matrix.
pub static ALL: [Case; 30] = [
    Case {
        name: "handshake",
        about: "the handshake, and a file of 1 KiB",
        kind: Kind::Transfer,
        files: &[KIB],
        path: Path::Wire(DEFAULT),
    },
    Case {
        name: "transfer",
        about: "three files at once, 3.5 MiB together",
        kind: Kind::Transfer,
        files: &[512 * KIB, MIB, 2 * MIB],
        path: Path::Wire(DEFAULT),
    },
    Case {
        name: "chacha20",
        about: "the client offers TLS_CHACHA20_POLY1305_SHA256 alone",
        kind: Kind::ChaCha20,
        files: &[256 * KIB],
        path: Path::Wire(DEFAULT),
    },
    Case {
        name: "multiplexing",
        about: "1000 files of 32 bytes on one connection",
        kind: Kind::Multiplexing,
        files: &[32; 1000],
        path: Path::Wire(DEFAULT),
    },
    Case {
        name: "retry",
        about: "a Retry, answered with its token",
        kind: Kind::Retry,
        files: &[KIB],
        path: Path::Wire(DEFAULT),
    },
    Case {
        name: "resumption",
        about: "a second connection resumes the session: no certificate is sent",
        kind: Kind::Resumption,
        files: &[KIB, 256 * KIB],
        path: Path::Wire(DEFAULT),
    },
    Case {
        name: "zerortt",
        about: "a second connection makes eight requests in 0-RTT packets",
        kind: Kind::ZeroRtt,
        files: &[KIB; 9],
        path: Path::Wire(DEFAULT),
    },
    Case {
        name: "keyupdate",
        about: "the keys change during a transfer of 3 MiB",
        kind: Kind::KeyUpdate,
        files: &[3 * MIB],
        path: Path::Wire(DEFAULT),
    },
    Case {
        name: "v2",
        about: "QUIC version 2 (RFC 9369)",
        kind: Kind::Version2,
        files: &[KIB],
        path: Path::Wire(DEFAULT),
    },
    Case {
        name: "ecn",
        about: "packets are marked with ECT, and the counts come back",
        kind: Kind::Ecn,
        files: &[256 * KIB],
        path: Path::Wire(DEFAULT),
    },
    Case {
        name: "http3",
        about: "three files at once over HTTP/3, 1.5 MiB together",
        kind: Kind::Http3,
        files: &[100 * KIB, 412 * KIB, MIB],
        path: Path::Wire(DEFAULT),
    },
    Case {
        name: "transferloss",
        about: "2 MiB while 2 % of the packets are lost each way",
        kind: Kind::Loss,
        files: &[2 * MIB],
        path: Path::Wire(Conditions { loss: 0.02, ..DEFAULT }),
    },
    Case {
        name: "transfercorruption",
        about: "2 MiB while a bit is flipped in 2 % of the packets each way",
        kind: Kind::Corruption,
        files: &[2 * MIB],
        path: Path::Wire(Conditions { corrupt: 0.02, ..DEFAULT }),
    },
    Case {
        name: "handshakeloss",
        about: "ten handshakes while 30 % of the packets are lost each way",
        kind: Kind::HandshakeLoss,
        files: &[KIB; HANDSHAKES],
        path: Path::Wire(Conditions { loss: 0.3, seed: 2, ..DEFAULT }),
    },
    Case {
        name: "handshakecorruption",
        about: "ten handshakes while a bit is flipped in 30 % of the packets each way",
        kind: Kind::HandshakeCorruption,
        files: &[KIB; HANDSHAKES],
        path: Path::Wire(Conditions { corrupt: 0.3, ..DEFAULT }),
    },
    Case {
        name: "longrtt",
        about: "a handshake over a way of 750 ms, each way",
        kind: Kind::LongRtt,
        files: &[KIB],
        path: Path::Wire(Conditions { delay_ms: 750, ..DEFAULT }),
    },
    Case {
        name: "blackhole",
        about: "3 MiB, while nothing arrives from 1 s to 3 s",
        kind: Kind::Blackhole,
        files: &[3 * MIB],
        path: Path::Wire(Conditions { deaf_ms: &[(1000, 2000)], ..DEFAULT }),
    },
    Case {
        name: "amplificationlimit",
        about: "a long certificate chain, and the client's second to seventh packet lost",
        kind: Kind::AmplificationLimit,
        files: &[5 * KIB],
        path: Path::Wire(Conditions { omitted_to_server: &[2, 3, 4, 5, 6, 7], ..DEFAULT }),
    },
    Case {
        name: "ipv6",
        about: "a transfer over IPv6",
        kind: Kind::Ipv6,
        files: &[512 * KIB, 512 * KIB],
        path: Path::Wire(Conditions { ipv6: true, ..DEFAULT }),
    },
    Case {
        name: "rebind-port",
        about: "4 MiB; the client's port changes after 1 s and 2 s",
        kind: Kind::Rebinding,
        files: &[4 * MIB],
        path: Path::Wire(Conditions { rebound_ms: &[1000, 2000], ..DEFAULT }),
    },
    Case {
        name: "rebind-addr",
        about: "4 MiB; the client's address changes after 1 s and 2 s",
        kind: Kind::Rebinding,
        files: &[4 * MIB],
        path: Path::Wire(Conditions {
            rebound_ms: &[1000, 2000],
            change: Change::Address,
            ..DEFAULT
        }),
    },
    Case {
        name: "connectionmigration",
        about: "the client moves to the address that the server prefers",
        kind: Kind::Migration,
        files: &[2 * MIB],
        path: Path::Wire(DEFAULT),
    },
    Case {
        name: "ackfrequency",
        about: "what our ACK_FREQUENCY does to the peer's ACKs: 48 MiB over Wi-Fi n at 40 ms, \
                with and without",
        kind: Kind::AckFrequency,
        files: &[48 * MIB],
        path: Path::Wifi,
    },
    Case {
        name: "ackfrequency-received",
        about: "what the peer's ACK_FREQUENCY does to our ACKs: 2 MiB, with and without",
        kind: Kind::AckFrequencyReceived,
        files: &[2 * MIB],
        path: Path::Wire(DEFAULT),
    },
    Case {
        name: "immediateack",
        about: "IMMEDIATE_ACK is answered within a round trip: 2 MiB from our end, whose probes \
                ask after blackholes of 0.12 s",
        kind: Kind::ImmediateAck,
        files: &[2 * MIB],
        path: Path::Wire(Conditions {
            // Our first probe comes right behind, the peer's may be first once in a while.
            deaf_ms: &[(500, 120), (1000, 120), (1500, 120), (2000, 120)],
            ..DEFAULT
        }),
    },
    Case {
        name: "tack",
        about: "TACKs, IACKs and TIMESTAMPs between TACK endpoints, 2 % lost: 2 MiB, with and without",
        kind: Kind::Tack,
        files: &[2 * MIB],
        path: Path::Wire(Conditions { loss: 0.02, ..DEFAULT }),
    },
    Case {
        name: "greased",
        about: "transport parameters that nobody knows are ignored",
        kind: Kind::Greased,
        files: &[KIB],
        path: Path::Wire(DEFAULT),
    },
    Case {
        name: "goodput",
        about: "Mbit/s of the data of 6 MiB, the median of three transfers",
        kind: Kind::Goodput,
        files: &[6 * MIB],
        path: Path::Wire(DEFAULT),
    },
    Case {
        name: "crosstraffic",
        about: "share of the link beside a CUBIC flow of plain quiche: 4 MiB, the median of three",
        kind: Kind::CrossTraffic,
        files: &[4 * MIB],
        path: Path::Wire(DEFAULT),
    },
    Case {
        name: "noannounce",
        about: "data both ways, and no extension frame to a peer that did not announce it",
        kind: Kind::NoAnnounce,
        files: &[256 * KIB, 256 * KIB],
        path: Path::Wire(DEFAULT),
    },
];

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
