//! Replays the fuzzing corpus without a fuzzer, and keeps its seeds in step with the encoders.

use std::{collections::BTreeMap, fs, iter, path::PathBuf};

use tack_proto::{
    frame::{
        AckFrequency, EcnCounts, IackEvent, IackFields, Rate, TackFields, Timestamp, Timing,
        check_payload, encode_ack, encode_iack, encode_immediate_ack, encode_tack,
    },
    varint,
};

fn directory() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus/frames")
}

/// What a fuzzer starts from: each frame as it is written, and payloads that must be refused.
#[allow(clippy::too_many_lines)] // a list
fn seeds() -> BTreeMap<&'static str, Vec<u8>> {
    let written = |write: &dyn Fn(&mut Vec<u8>)| {
        let mut out = Vec::new();
        write(&mut out);
        out
    };
    let ranges = || [95..=100, 60..=90, 0..=20].into_iter();
    let many_ranges = || (0..400_u64).rev().map(|n| n * 3..=n * 3 + 1);
    let bubbles = || [(0, 1200..2400), (0, 6000..7200), (4, 0..70_000)].into_iter();
    let ecn = EcnCounts { ect0: 1000, ect1: 0, ce: 3 };
    let fields = TackFields {
        sequence: 77,
        ack_delay_us: 240,
        received_bytes: 1_000_000,
        timing: Some(Timing { departure: 123_456, hold_us: 9000 }),
        rate: Some(Rate { delivery_rate: 2_500_000, loss_rate: 655 }),
        ecn: Some(ecn),
        arrivals: None,
        grease: false,
    };
    let greased = TackFields { grease: true, ecn: None, ..fields };
    let iack = IackFields {
        event: IackEvent::Loss,
        received_bytes: 1_000_000,
        ack_delay_us: 80,
        ecn: None,
        grease: true,
    };
    let bare = TackFields { sequence: 1, ..TackFields::default() };

    let ack = written(&|out| {
        encode_ack(out, ranges(), 40, None, 100);
    });
    let tack = written(&|out| {
        encode_tack(out, &fields, ranges(), bubbles(), 200);
    });
    let rfc_9000: &[&[u8]] = &[
        &[0x01],                         // PING
        &[0x04, 4, 9, 50],               // RESET_STREAM
        &[0x05, 4, 9],                   // STOP_SENDING
        &[0x06, 0, 2, 1, 2],             // CRYPTO
        &[0x07, 2, 1, 2],                // NEW_TOKEN
        &[0x0f, 4, 8, 2, 1, 2],          // STREAM
        &[0x10, 50, 0x11, 4, 50],        // MAX_DATA, MAX_STREAM_DATA
        &[0x12, 9, 0x13, 9],             // MAX_STREAMS
        &[0x14, 50, 0x15, 4, 50],        // DATA_BLOCKED, STREAM_DATA_BLOCKED
        &[0x16, 9, 0x17, 9],             // STREAMS_BLOCKED
        &[0x18, 2, 1, 1, 0xcc],          // NEW_CONNECTION_ID and
        &[0x5a; 16],                     //   its reset token
        &[0x19, 0],                      // RETIRE_CONNECTION_ID
        &[0x1a, 1, 2, 3, 4, 5, 6, 7, 8], // PATH_CHALLENGE
        &[0x1b, 1, 2, 3, 4, 5, 6, 7, 8], // PATH_RESPONSE
        &[0x1c, 1, 6, 0, 0x1d, 1, 0],    // CONNECTION_CLOSE of both kinds
        &[0x1e, 0x31, 2, 1, 2],          // HANDSHAKE_DONE, DATAGRAM
        &[0, 0, 0, 0x08, 4, 1, 2],       // PADDING, STREAM to the end
    ];

    BTreeMap::from([
        ("ack", ack.clone()),
        (
            "ack_ecn",
            written(&|out| {
                encode_ack(out, ranges(), 40, Some(ecn), 100);
            }),
        ),
        (
            "ack_frequency",
            written(&|out| {
                let ack_frequency = AckFrequency {
                    sequence: 5,
                    ack_eliciting_threshold: 1,
                    requested_max_ack_delay_us: 20_000,
                    reordering_threshold: 0,
                };
                ack_frequency.encode(out);
                encode_immediate_ack(out);
            }),
        ),
        (
            "iack",
            written(&|out| {
                encode_iack(out, &iack, ranges(), 100);
            }),
        ),
        ("rfc_9000", rfc_9000.concat()),
        ("tack", tack.clone()),
        (
            "tack_bare",
            written(&|out| {
                encode_tack(out, &bare, iter::once(0..=0), iter::empty(), 100);
            }),
        ),
        (
            "tack_full_packet",
            written(&|out| {
                encode_tack(out, &fields, many_ranges(), bubbles(), 600);
            }),
        ),
        (
            "tack_greased",
            written(&|out| {
                encode_tack(out, &greased, ranges(), iter::empty(), 200);
            }),
        ),
        ("iack_of_an_unknown_event", vec![0x6a, 0xc1, 63, 0, 5, 0, 0, 0, 0]),
        ("timestamp", written(&|out| Timestamp(5_000_000).encode(out))),
        ("refused_ack_below_zero", vec![0x02, 5, 0, 0, 6]),
        ("refused_count_that_lies", [&[0x02, 5, 0][..], &[0xff; 8], &[0; 20]].concat()),
        ("refused_cut_short", tack[..tack.len() - 1].to_vec()),
        ("refused_long_type", vec![0x40, 0x01]),
        (
            "refused_stream_beyond_its_end",
            written(&|out| {
                out.extend([0x0c, 4]);
                varint::put(out, varint::MAX);
                out.push(1);
            }),
        ),
        ("refused_too_many_blocks", vec![0x6a, 0xc0, 1, 4, 0, 0, 1, 5, 17]),
        ("refused_unknown_frame", [&ack[..], &[0x21]].concat()),
    ])
}

#[test]
fn every_input_of_the_corpus_upholds_the_codec() {
    let mut replayed = 0;
    for entry in fs::read_dir(directory()).unwrap() {
        let path = entry.unwrap().path();
        let payload = fs::read(&path).unwrap();
        println!("{}", path.display());
        let _ = check_payload(&payload);
        replayed += 1;
    }
    assert!(replayed >= seeds().len(), "only {replayed} inputs found");
}

#[test]
fn seeds_are_refused_when_their_name_says_so() {
    for (name, payload) in seeds() {
        let result = check_payload(&payload);
        assert_eq!(result.is_err(), name.starts_with("refused"), "{name}: {result:?}");
    }
}

#[test]
fn seeds_on_disk_are_what_the_encoders_write() {
    for (name, payload) in seeds() {
        let on_disk = fs::read(directory().join(name)).unwrap_or_default();
        assert_eq!(
            on_disk, payload,
            "{name}: the wire format changed; if that is meant, raise the protocol version and \
             run `cargo test -p tack-proto --test corpus -- --ignored`"
        );
    }
}

#[test]
#[ignore = "writes the seeds into the source tree"]
fn write_the_seeds() {
    fs::create_dir_all(directory()).unwrap();
    for (name, payload) in seeds() {
        fs::write(directory().join(name), payload).unwrap();
    }
}
