//! The list of test cases.

use tack_emulator::relay::Change;

use super::{Case, Conditions, DEFAULT, HANDSHAKES, Kind, Path};

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

/// Where a third of the packets is lost or corrupted, never two in a row are: of two tries of
/// either end one gets through, and an end that waits for ten seconds has tries enough
/// (docs/interop.md).
const HARSH: Conditions = Conditions { longest_run: 1, ..DEFAULT };
/// With at most one in a row, this part of the packets that may be lost makes 30 % of all.
const HARSH_SHARE: f64 = 3.0 / 7.0;
/// And this 15 %.
const RETRY_LOSS_SHARE: f64 = 3.0 / 17.0;

/// So far away that a client has asked for everything before the handshake can be done. Chromium takes 14 ms from the first
/// packet of a connection to its first request, and a third of a millisecond for each that follows; on a busy machine
/// that is more than a round trip of [`DEFAULT`].
const FAR: Conditions = Conditions { delay_ms: 100, ..DEFAULT };

/// Every test case, in the order of the matrix.
pub static ALL: [Case; 42] = [
    Case {
        name: "handshake",
        about: "the handshake, without a Retry, and a file of 1 KiB",
        kind: Kind::Handshake,
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
        about: "1999 files of 32 bytes on one connection, more than the server allows at first",
        kind: Kind::Multiplexing,
        files: &[32; 1999],
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
        name: "retry-longrtt",
        about: "a Retry over 750 ms each way: the client repeats its ClientHello meanwhile",
        kind: Kind::RetryLongRtt,
        files: &[KIB],
        path: Path::Wire(Conditions { delay_ms: 750, ..DEFAULT }),
    },
    Case {
        name: "retry-resumption",
        about: "a Retry on each of two connections; the second resumes the session of the first",
        kind: Kind::RetryResumption,
        files: &[KIB, 256 * KIB],
        path: Path::Wire(DEFAULT),
    },
    Case {
        name: "retry-loss",
        about: "ten handshakes with Retry while 15 % of the packets are lost each way",
        kind: Kind::RetryLoss,
        files: &[KIB; HANDSHAKES],
        path: Path::Wire(Conditions { loss: RETRY_LOSS_SHARE, ..HARSH }),
    },
    Case {
        name: "helloretry",
        about: "the server refuses the client's key share with a HelloRetryRequest",
        kind: Kind::HelloRetry,
        files: &[KIB],
        path: Path::Wire(DEFAULT),
    },
    Case {
        name: "cid-empty",
        about: "the peer's connection ids are empty",
        kind: Kind::EmptyIds,
        files: &[256 * KIB],
        path: Path::Wire(DEFAULT),
    },
    Case {
        name: "cid-long",
        about: "the peer's connection ids have 20 bytes",
        kind: Kind::LongIds,
        files: &[256 * KIB],
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
        path: Path::Wire(FAR),
    },
    Case {
        name: "keyupdate",
        about: "the client updates the keys during a transfer of 3 MiB, or else the server",
        kind: Kind::KeyUpdate,
        files: &[3 * MIB],
        path: Path::Wire(DEFAULT),
    },
    Case {
        name: "keyupdate-ours",
        about: "our end updates the keys during a transfer of 3 MiB, and the peer follows",
        kind: Kind::KeyUpdateByUs,
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
        about: "our end marks its packets with ECT(0), and both ends report marks",
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
        name: "transferdisorder",
        about: "2 MiB while 5 % of the packets are lost, 5 % overtaken and 2 % doubled each way",
        kind: Kind::Disorder,
        files: &[2 * MIB],
        path: Path::Wire(Conditions { loss: 0.05, reorder: 0.05, duplicate: 0.02, ..DEFAULT }),
    },
    Case {
        name: "bothways",
        about: "3 MiB to the server and 3 MiB to the client at the same time",
        kind: Kind::BothWays,
        files: &[3 * MIB, 3 * MIB],
        path: Path::Wire(DEFAULT),
    },
    Case {
        name: "datagrams",
        about: "DATAGRAM frames of our end beside a transfer of 1 MiB; the peer returns them",
        kind: Kind::Datagrams,
        files: &[MIB],
        path: Path::Wire(DEFAULT),
    },
    Case {
        name: "pathmtu",
        about: "2 MiB from our end, which probes for the largest datagram of a path that carries \
                1372 bytes",
        kind: Kind::PathMtu,
        files: &[2 * MIB],
        path: Path::Wire(Conditions { largest_datagram: Some(1372), ..DEFAULT }),
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
        path: Path::Wire(Conditions { loss: HARSH_SHARE, ..HARSH }),
    },
    Case {
        name: "handshakecorruption",
        about: "ten handshakes while a bit is flipped in 30 % of the packets each way",
        kind: Kind::HandshakeCorruption,
        files: &[KIB; HANDSHAKES],
        path: Path::Wire(Conditions { corrupt: HARSH_SHARE, ..HARSH }),
    },
    Case {
        name: "longrtt",
        about: "a handshake over a way of 750 ms, each way: the client repeats its ClientHello",
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
        about: "IMMEDIATE_ACK is answered within a round trip: 2 MiB from our end, which probes \
                while nothing of the peer arrives for 0.25 s",
        kind: Kind::ImmediateAck,
        files: &[2 * MIB],
        path: Path::Wire(Conditions {
            // Our end has sent what it may and probes. Its packets arrive: a gap before the probe
            // would be a reason of its own for an acknowledgement at once.
            peer_muted_ms: &[(500, 250), (1000, 250), (1500, 250), (2000, 250)],
            // Half a round trip below the delays that our end asks for: an acknowledgement that
            // waits for one comes too late.
            delay_ms: 10,
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
        name: "timestamps",
        about: "no TIMESTAMP frames of a peer without TACK",
        kind: Kind::Timestamps,
        files: &[512 * KIB],
        path: Path::Wire(DEFAULT),
    },
    Case {
        name: "greased",
        about: "unknown transport parameters are ignored",
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
