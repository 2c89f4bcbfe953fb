//! Replays the corpora of the fuzz targets without a fuzzer, and keeps their seeds in step with the
//! encoders.
//!
//! A directory also holds inputs that a fuzzer has found; their names begin with `found_`.

#![allow(clippy::unwrap_used)] // a test that cannot be set up has failed

#[path = "../fuzz/checks/mod.rs"]
mod checks;

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use tack_proto::frame::{
    AckFrequency, IackEvent, IackFields, Rate, TackFields, Timestamp, Timing, encode_ack,
    encode_iack, encode_immediate_ack, encode_tack,
};
use tack_proto::transport_parameters::{self as parameters, Announced};

type Seeds = BTreeMap<&'static str, Vec<u8>>;

/// Steps of the target `incoming`.
mod step {
    pub const SAY: u8 = 0;
    pub const RELEASE: u8 = 4;
    pub const REPLAY: u8 = 5;
    pub const WAIT: u8 = 6;
    pub const WRITE: u8 = 7;
    pub const READ: u8 = 9;
    pub const CALL: u8 = 10;
    pub const ANSWER: u8 = 11;
}

/// Flags of a packet there.
mod flag {
    pub const MARKED: u8 = 1;
    pub const SKIPS: u8 = 1 << 1;
    pub const LATE: u8 = 1 << 2;
    pub const HELD: u8 = 1 << 3;
    pub const UPDATES_KEY: u8 = 1 << 4;
    pub const FROM_ELSEWHERE: u8 = 1 << 5;
    pub const DAMAGED: u8 = 1 << 6;
}

/// The first byte there: which end is checked, and against what.
mod setup {
    pub const SERVER: u8 = 0;
    pub const CLIENT: u8 = 1;
    pub const PLAIN_PEER: u8 = 2;
    pub const VIDEO: u8 = 4;
}

const PING: &[u8] = &[0x01];

fn directory(target: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(target)
}

/// A packet with these frames. The numbers are those that the flags ask for.
fn say(flags: u8, numbers: &[u8], frames: &[u8]) -> Vec<u8> {
    [&[step::SAY, flags], numbers, &[frames.len() as u8], frames].concat()
}

fn marked(frames: &[u8]) -> Vec<u8> {
    say(flag::MARKED, &[], frames)
}

fn incoming(setup: u8, steps: &[&[u8]]) -> Vec<u8> {
    [&[setup], &steps.concat()[..]].concat()
}

/// A TACK of the first packets.
fn tack(sequence: u64, largest: u64) -> Vec<u8> {
    let fields = TackFields {
        sequence,
        ack_delay_us: 500,
        received_bytes: 2000,
        timing: Some(Timing { departure: 1000, hold_us: 100 }),
        rate: Some(Rate { delivery_rate: 1_000_000, loss_rate: 600 }),
        ecn: None,
        arrivals: None,
        grease: true,
    };
    let mut out = Vec::new();
    let bubbles = [(3, 0..1200), (3, 2400..3600)].into_iter();
    encode_tack(&mut out, &fields, [0..=largest].into_iter(), bubbles, 200).unwrap();
    out
}

fn iack(ranges: &[std::ops::RangeInclusive<u64>]) -> Vec<u8> {
    let fields = IackFields {
        event: IackEvent::Loss,
        received_bytes: 2000,
        ack_delay_us: 10,
        ecn: None,
        grease: false,
    };
    let mut out = Vec::new();
    encode_iack(&mut out, &fields, ranges.iter().cloned(), 200);
    out
}

fn ack(ranges: &[std::ops::RangeInclusive<u64>]) -> Vec<u8> {
    let mut out = Vec::new();
    encode_ack(&mut out, ranges.iter().cloned(), 40, None, 200);
    out
}

fn ack_frequency(ack_eliciting_threshold: u64, requested_max_ack_delay_us: u64) -> Vec<u8> {
    let mut out = Vec::new();
    let reordering_threshold = 3;
    AckFrequency {
        sequence: 9,
        ack_eliciting_threshold,
        requested_max_ack_delay_us,
        reordering_threshold,
    }
    .encode(&mut out);
    out
}

fn immediate_ack() -> Vec<u8> {
    let mut out = Vec::new();
    encode_immediate_ack(&mut out);
    out
}

fn timestamp() -> Vec<u8> {
    let mut out = Vec::new();
    Timestamp(5_000).encode(&mut out);
    out
}

/// STREAM with offset and length.
fn stream(id: u8, offset: u8, data: &[u8]) -> Vec<u8> {
    [&[0x0e, id, offset, data.len() as u8], data].concat()
}

#[allow(clippy::too_many_lines)] // a list
fn incoming_seeds() -> Seeds {
    use flag::*;
    use step::*;
    let write = |len: u8| [WRITE, 0, len];
    let wait = |exponent: u8| [WAIT, exponent];
    let challenge = [0x1a, 1, 2, 3, 4, 5, 6, 7, 8];
    let new_id = |sequence: u8, retire: u8, len: u8| {
        [&[0x18, sequence, retire, len], &vec![sequence; usize::from(len)][..], &[7; 16]]
            .concat()
    };
    BTreeMap::from([
        (
            "acknowledged_data",
            incoming(
                setup::SERVER,
                &[&write(200), &wait(15), &[ANSWER], &write(200), &wait(15), &[ANSWER]],
            ),
        ),
        (
            "tack_with_bubbles",
            incoming(setup::SERVER, &[&write(100), &wait(10), &marked(&tack(3, 4)), &wait(16)]),
        ),
        (
            "iack_with_a_hole",
            incoming(
                setup::SERVER,
                &[&write(100), &wait(10), &marked(&iack(&[4..=5, 0..=2])), &wait(14)],
            ),
        ),
        (
            "refused_ack_of_the_future",
            incoming(setup::SERVER, &[&write(10), &marked(&ack(&[0..=9_000]))]),
        ),
        (
            "streams_out_of_order",
            incoming(
                setup::SERVER,
                &[
                    &say(SKIPS, &[3], &stream(0, 60, &[7; 60])),
                    &say(LATE, &[2], &stream(0, 0, &[7; 60])),
                    &say(HELD, &[], &stream(2, 0, &[7; 30])),
                    &say(0, &[], &stream(2, 30, &[7; 30])),
                    &[RELEASE, 0, READ],
                    &wait(14),
                ],
            ),
        ),
        (
            "replayed_and_damaged",
            incoming(
                setup::SERVER,
                &[
                    &say(0, &[], &stream(0, 0, b"once")),
                    &[REPLAY, 0, REPLAY, 0x80],
                    &[SAY, DAMAGED, 4, 1, 0, 0, 0, 0, 9],
                    &[SAY, DAMAGED | MARKED, 4, 1, 0, 0, 0, 1, 90],
                ],
            ),
        ),
        (
            "key_updates",
            incoming(
                setup::SERVER,
                &[
                    &marked(PING),
                    &wait(16),
                    &[ANSWER],
                    &say(UPDATES_KEY | MARKED, &[], PING),
                    &wait(16),
                    &[ANSWER, CALL, 3],
                    &write(4),
                    &wait(16),
                    &[ANSWER],
                ],
            ),
        ),
        (
            "from_another_address",
            incoming(
                setup::SERVER,
                &[
                    &write(40),
                    &say(FROM_ELSEWHERE | MARKED, &[], &challenge),
                    &say(FROM_ELSEWHERE | MARKED, &[], PING),
                    &wait(20),
                    &[ANSWER],
                ],
            ),
        ),
        (
            "connection_ids",
            incoming(
                setup::CLIENT,
                &[
                    &marked(&new_id(1, 0, 8)),
                    &marked(&new_id(2, 1, 20)),
                    &write(4),
                    &marked(&[0x19, 0]),
                    &wait(18),
                ],
            ),
        ),
        (
            "limits_and_resets",
            incoming(
                setup::SERVER,
                &[
                    &write(100),
                    &marked(&[0x10, 0x80, 0, 1, 0, 0x11, 3, 0x80, 0, 1, 0, 0x13, 9]),
                    &marked(&[0x14, 9, 0x15, 3, 9, 0x16, 9]),
                    &marked(&[0x05, 3, 7]),
                    &say(0, &[], &stream(2, 0, b"cut")),
                    &marked(&[0x04, 2, 7, 3]),
                    &[READ],
                ],
            ),
        ),
        (
            "calls_of_the_application",
            incoming(
                setup::CLIENT | setup::VIDEO,
                &[
                    &write(8),
                    &[CALL, 0, CALL, 1, CALL, 2, CALL, 4, CALL, 5, CALL, 6, CALL, 7],
                    &wait(17),
                    &[ANSWER],
                ],
            ),
        ),
        (
            "plain_peer_with_ack_frequency",
            incoming(
                setup::SERVER | setup::PLAIN_PEER,
                &[
                    &say(0, &[], &ack_frequency(4, 20_000)),
                    &say(0, &[], &[&stream(0, 0, b"a")[..], &immediate_ack()].concat()),
                    &write(100),
                    &wait(16),
                    &say(0, &[], &ack(&[3..=4, 0..=1])),
                    &[ANSWER],
                ],
            ),
        ),
        (
            "bubbles_are_asked_for",
            incoming(
                setup::CLIENT | setup::VIDEO,
                &[
                    &marked(&[&ack_frequency(0, 0)[..], &timestamp()].concat()),
                    &say(MARKED, &[], &stream(3, 60, &[7; 60])),
                    &wait(18),
                    &say(MARKED, &[], &stream(3, 0, &[7; 60])),
                    &wait(18),
                ],
            ),
        ),
        (
            "reset_behind_its_end",
            incoming(
                setup::SERVER,
                &[
                    // 200,000 bytes of which four come.
                    &say(MARKED, &[], &[0x0f, 2, 0x80, 3, 0x0d, 0x3c, 4, 1, 1, 1, 1]),
                    &marked(&[0x04, 2, 7, 0x80, 3, 0x0d, 0x40]),
                    &[READ],
                    &marked(PING),
                    &say(0, &[], &stream(6, 0, &[7; 60])),
                    &[READ, ANSWER],
                    &wait(16),
                    &[ANSWER],
                ],
            ),
        ),
        (
            "silence",
            incoming(setup::SERVER, &[&write(255), &wait(23), &wait(23), &wait(23), &[ANSWER]]),
        ),
        (
            "closed_by_the_peer",
            incoming(setup::SERVER, &[&marked(&[0x1c, 1, 6, 0]), &wait(23)]),
        ),
    ])
}

fn boundary_seeds() -> Seeds {
    let server = |payload: &[&[u8]]| [&[0], &payload.concat()[..]].concat();
    let client = |payload: &[&[u8]]| [&[1], &payload.concat()[..]].concat();
    let reset_token: &[u8] = &[0x5a; 16];
    BTreeMap::from([
        ("ack", server(&[&ack(&[3..=3, 0..=1]), PING])),
        (
            "streams_in_a_row",
            server(&[&stream(0, 0, b"abc"), &stream(0, 3, b"def"), &[0x09, 2, b'x']]),
        ),
        (
            "limits",
            client(&[&[0x10, 0x44, 0], &[0x11, 2, 0x44, 0], &[0x12, 9, 0x13, 9, 0x14, 9]]),
        ),
        ("blocked", server(&[&[0x15, 2, 9, 0x16, 9, 0x17, 9], &[0, 0, 0]])),
        ("connection_ids", client(&[&[0x18, 1, 0, 2, 9, 9], reset_token, &[0x1e]])),
        ("token", client(&[&[0x07, 2, 1, 2], PING])),
        ("path", server(&[&[0x1a, 1, 2, 3, 4, 5, 6, 7, 8], &[0x1b, 1, 2, 3, 4, 5, 6, 7, 8]])),
        ("resets", server(&[&stream(0, 0, b"abc"), &[0x04, 0, 7, 3, 0x05, 1, 7]])),
        ("datagrams", server(&[&[0x31, 2, 1, 2, 0x30, 1, 2, 3]])),
        ("closed_by_the_peer", server(&[&[0x1d, 1, 2, b'n', b'o']])),
        ("crypto", client(&[&[0x06, 0, 2, 1, 2], PING])),
        ("extension_alone", server(&[&immediate_ack(), &[0; 3]])),
        (
            "extensions_between",
            server(&[PING, &ack_frequency(2, 9_000), &stream(0, 0, b"a"), &immediate_ack()]),
        ),
        ("timestamp", server(&[&timestamp(), PING])),
        ("refused_tack", server(&[&tack(1, 1)])),
        ("refused_iack", server(&[&iack(&[0..=1])])),
        ("refused_cut_short", server(&[&stream(0, 0, b"abc"), &[0x0a, 0, 9, 1]])),
        ("refused_long_type", server(&[&[0x40, 0x01, 0, 0]])),
        ("refused_unknown_type", server(&[PING, &[0x21, 0, 0]])),
        ("refused_beyond_the_end", server(&[&[0x0c, 0], &[0xff; 8], b"x"])),
        ("refused_stream_count", server(&[&[0x12], &[0xd0, 0, 0, 0, 0, 0, 0, 1]])),
    ])
}

fn parameter_seeds() -> Seeds {
    // Places in the target's list of ids.
    const ACK_DELAY_EXPONENT: u8 = 10;
    const MAX_ACK_DELAY: u8 = 11;
    const SOURCE_ID: u8 = 15;
    const TACK: u8 = 18;
    const MIN_ACK_DELAY: u8 = 19;
    const TIMESTAMP: u8 = 20;
    const END: u8 = 0xff;
    let server = |changes: &[&[u8]]| [&[0], &changes.concat()[..]].concat();
    let client = |changes: &[&[u8]]| [&[1], &changes.concat()[..]].concat();
    let mut twice = vec![END];
    Announced::all(1000, 1).encode(&mut twice);
    let mut unknown = Vec::new();
    parameters::set(&mut unknown, 0x1b, &[1, 2, 3]).unwrap();
    BTreeMap::from([
        ("unchanged", server(&[])),
        ("unchanged_server", client(&[])),
        ("unknown_parameter", server(&[&[END], &unknown])),
        ("other_versions", server(&[&[TACK, 3, 0x4a, 0x0a, 9]])),
        ("no_extension", client(&[&[TACK, 0, MIN_ACK_DELAY, 0, TIMESTAMP, 0]])),
        ("timestamp_of_one_way", server(&[&[TIMESTAMP, 1, 1]])),
        ("no_limits", server(&[&[4, 0, 5, 0, 6, 0, 7, 0, 8, 0, 9, 0]])),
        (
            "largest_delays",
            server(&[&[ACK_DELAY_EXPONENT, 1, 20, MAX_ACK_DELAY, 2, 0x7f, 0xff]]),
        ),
        ("refused_exponent", server(&[&[ACK_DELAY_EXPONENT, 1, 21]])),
        ("refused_min_ack_delay", client(&[&[MAX_ACK_DELAY, 1, 0]])),
        ("refused_version_list", server(&[&[TACK, 1, 0x40]])),
        ("refused_timestamp", client(&[&[TIMESTAMP, 1, 4]])),
        ("refused_source_id", client(&[&[SOURCE_ID, 0]])),
        ("refused_twice", server(&[&twice])),
        ("refused_cut_short", server(&[&[END, 0x04, 9]])),
    ])
}

/// Target, what it checks, and what it starts from.
type Target = (&'static str, fn(&[u8]), Seeds);

fn targets() -> [Target; 3] {
    [
        ("incoming", checks::incoming::check, incoming_seeds()),
        ("boundaries", checks::boundaries::check, boundary_seeds()),
        ("transport_parameters", checks::transport_parameters::check, parameter_seeds()),
    ]
}

fn replay(target: &str) {
    let (_, check, seeds) = targets().into_iter().find(|(name, ..)| *name == target).unwrap();
    let mut replayed = 0;
    for entry in fs::read_dir(directory(target)).unwrap() {
        let path = entry.unwrap().path();
        println!("{}", path.display());
        check(&fs::read(&path).unwrap());
        replayed += 1;
    }
    assert!(replayed >= seeds.len(), "only {replayed} inputs found");
}

#[test]
fn hostile_packets_of_the_corpus_change_what_they_may() {
    replay("incoming");
}

#[test]
fn the_layer_reads_the_payloads_of_the_corpus_as_quiche_does() {
    replay("boundaries");
}

#[test]
fn parameters_of_the_corpus_are_taken_or_refused_as_quiche_does() {
    replay("transport_parameters");
}

#[test]
fn seeds_on_disk_are_what_the_encoders_write() {
    for (target, _, seeds) in targets() {
        for (name, seed) in seeds {
            let on_disk = fs::read(directory(target).join(name)).unwrap_or_default();
            assert_eq!(
                on_disk, seed,
                "{target}/{name} is out of date; run `cargo test -p tacklib --test fuzz_corpora -- \
                 --ignored`"
            );
        }
    }
}

#[test]
#[ignore = "writes the seeds into the source tree"]
fn write_the_seeds() {
    for (target, _, seeds) in targets() {
        fs::create_dir_all(directory(target)).unwrap();
        for (name, seed) in seeds {
            fs::write(directory(target).join(name), seed).unwrap();
        }
    }
}
