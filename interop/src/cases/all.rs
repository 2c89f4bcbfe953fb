//! The list of test cases.

use tack_emulator::relay::Change;

use super::{Case, Conditions, DEFAULT, HANDSHAKES, Kind, Path};

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

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
