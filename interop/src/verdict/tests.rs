use super::*;
use crate::wire::{ConnectionSeen, EarlyData, Greeting};

pub const PLAIN: Announced =
    Announced { tack: false, min_ack_delay_us: None, timestamp: false };
pub const FREQUENCY: Announced = Announced { min_ack_delay_us: Some(1000), ..PLAIN };
pub const TACK: Announced = Announced { tack: true, ..FREQUENCY };

/// A transfer from our server to a peer, in which everything went well.
pub fn good(peer: Announced) -> Evidence {
    let digest = blake3::hash(b"file");
    let sent = TapCounters { packets: 1000, data_packets: 1000, ..TapCounters::default() };
    let acks = TapCounters { packets: 500, ack_packets: 500, ..TapCounters::default() };
    let connection = ConnectionSeen {
        to_client: sent,
        to_server: acks,
        client: Some(peer),
        server: Some(TACK),
        ..ConnectionSeen::default()
    };
    Evidence {
        ours: Role::Server,
        files: vec![Transferred { name: "a".into(), sent: digest, received: Some(digest) }],
        client: Ending::Exited(Some(0)),
        server: Ending::Running,
        seen: Observation {
            to_client: sent,
            to_server: acks,
            client: Some(peer),
            server: Some(TACK),
            data_seconds: 1.0,
            connections: vec![connection],
            ..Observation::default()
        },
        address: "127.0.0.1:443".parse().ok(),
        conditions: Conditions::DEFAULT,
        clients: 1,
        lost: 0,
        dropped: 0,
        swallowed: 0,
        rebindings: 0,
        cross_traffic: vec![],
        corrupted_to_server: 0,
        corrupted_to_client: 0,
        late: 0,
        worst_lateness: Duration::ZERO,
        disorder: Disorder::default(),
        file_bytes: 1_000_000,
        fetched_bytes: 1_000_000,
        round_trip: Duration::from_millis(40),
    }
}

pub fn reason(verdict: Verdict) -> String {
    let Verdict::Fail { reason } = verdict else { panic!("{verdict:?}") };
    reason
}

#[test]
fn a_transfer_passes_if_everything_arrived_and_was_read() {
    assert_eq!(judge(Kind::Transfer, &good(PLAIN)), Verdict::Pass { note: None });
}

#[test]
fn a_missing_or_changed_file_fails_whatever_the_programs_say() {
    let mut evidence = good(PLAIN);
    evidence.files[0].received = Some(blake3::hash(b"life"));
    assert_eq!(reason(judge(Kind::Transfer, &evidence)), "a was received with another digest");
    evidence.files[0].received = None;
    assert_eq!(reason(judge(Kind::Transfer, &evidence)), "a was not received");
}

#[test]
fn a_program_that_fails_is_named_by_its_side() {
    let mut evidence = good(PLAIN);
    evidence.client = Ending::Exited(Some(3));
    let failed = reason(judge(Kind::Transfer, &evidence));
    assert_eq!(failed, "the peer, the client, failed with exit code 3");
    evidence.client = Ending::TimedOut;
    let failed = reason(judge(Kind::Transfer, &evidence));
    assert_eq!(failed, "the peer, the client, was not done in time");
    evidence.server = Ending::Exited(None);
    let failed = reason(judge(Kind::Transfer, &evidence));
    assert_eq!(failed, "our end, the server, was ended by a signal");
}

#[test]
fn a_server_that_ends_by_itself_fails_and_is_named_whatever_its_exit_code() {
    let mut evidence = good(PLAIN);
    evidence.server = Ending::Exited(Some(0));
    let ended = "our end, the server, ended by itself with exit code 0";
    assert_eq!(reason(judge(Kind::Transfer, &evidence)), ended);
    evidence.client = Ending::Exited(Some(1));
    assert_eq!(reason(judge(Kind::Transfer, &evidence)), ended, "the client had no choice");
}

#[test]
fn an_end_that_says_so_before_any_connection_does_not_know_the_test_case() {
    let mut evidence = good(PLAIN);
    evidence.seen.connections.clear();
    evidence.client = Ending::Unsupported;
    let verdict = judge(Kind::Transfer, &evidence);
    assert!(matches!(verdict, Verdict::Unsupported { by: Side::Peer, .. }), "{verdict:?}");
    evidence.server = Ending::Unsupported;
    let verdict = judge(Kind::Transfer, &evidence);
    assert!(matches!(verdict, Verdict::Unsupported { by: Side::Ours, .. }), "{verdict:?}");
}

#[test]
fn exit_code_127_alone_or_after_a_connection_is_a_failure() {
    let mut evidence = good(PLAIN);
    evidence.client = Ending::Unsupported;
    let failed = reason(judge(Kind::Transfer, &evidence));
    assert!(failed.contains("the peer, the client, does not know the test case, but"));
    evidence.seen.connections.clear();
    evidence.client = Ending::Exited(Some(127));
    let failed = reason(judge(Kind::Transfer, &evidence));
    assert_eq!(failed, "the peer, the client, failed with exit code 127");
}

#[test]
fn each_extension_frame_needs_its_announcement() {
    type Count = fn(&mut TapCounters) -> &mut u64;
    let frames: [(Count, Announced); 5] = [
        (|sent| &mut sent.tacks, TACK),
        (|sent| &mut sent.iacks, TACK),
        (|sent| &mut sent.timestamps, TACK),
        (|sent| &mut sent.ack_frequency, FREQUENCY),
        (|sent| &mut sent.immediate_acks, FREQUENCY),
    ];
    for (count, needed) in frames {
        for peer in [PLAIN, FREQUENCY, TACK] {
            let mut evidence = good(peer);
            *count(&mut evidence.seen.connections[0].to_client) = 1;
            let passed = matches!(judge(Kind::Transfer, &evidence), Verdict::Pass { .. });
            assert_eq!(passed, peer == needed || peer == TACK, "{evidence:?}");
        }
    }
}

#[test]
fn timestamps_alone_may_be_announced_too() {
    let mut evidence = good(Announced { timestamp: true, ..PLAIN });
    evidence.seen.connections[0].to_client.timestamps = 1;
    assert_eq!(judge(Kind::Transfer, &evidence), Verdict::Pass { note: None });
}

#[test]
fn what_the_peer_sends_of_its_own_is_not_our_fault() {
    let mut evidence = good(PLAIN);
    evidence.seen.to_server.ack_frequency = 1;
    assert_eq!(judge(Kind::NoAnnounce, &evidence), Verdict::Pass { note: None });
}

#[test]
fn a_wire_that_was_not_read_is_no_evidence() {
    let mut unopened = good(PLAIN);
    unopened.seen.to_server.undecryptable = 2;
    let failed = reason(judge(Kind::Transfer, &unopened));
    assert_eq!(failed, "2 packets of the client could not be opened");
    let mut silent = good(PLAIN);
    silent.seen.connections[0].client = None;
    let failed = reason(judge(Kind::Transfer, &silent));
    assert_eq!(failed, "the client's transport parameters could not be read");
    let mut empty = good(PLAIN);
    empty.seen.connections[0].to_client = TapCounters::default();
    let failed = reason(judge(Kind::Transfer, &empty));
    assert_eq!(failed, "no 1-RTT packet of the server could be opened");
}

#[test]
fn every_kind_of_retry_takes_a_retry_and_a_token() {
    for kind in [Kind::Retry, Kind::RetryLongRtt, Kind::RetryLoss, Kind::RetryResumption] {
        let mut evidence = good(PLAIN);
        if kind == Kind::RetryResumption {
            evidence.seen.connections.push(evidence.seen.connections[0].clone());
        }
        assert_eq!(reason(judge(kind, &evidence)), "the server sent no Retry");
        evidence.seen.connections[0].retries = 1;
        assert!(reason(judge(kind, &evidence)).contains("token"), "{kind:?}");
    }
    let mut evidence = good(PLAIN);
    (evidence.seen.connections[0].retries, evidence.seen.connections[0].initials_with_token) =
        (1, 1);
    assert_eq!(judge(Kind::Retry, &evidence), Verdict::Pass { note: None });
}

#[test]
fn extension_frames_do_not_belong_into_our_0_rtt_packets() {
    let mut evidence = Evidence { ours: Role::Client, ..good(TACK) };
    evidence.seen.client = Some(TACK);
    let early = EarlyData { extension_frames: 1, ..EarlyData::default() };
    evidence.seen.greetings = vec![Greeting { early, ..Greeting::default() }];
    assert!(reason(judge(Kind::Transfer, &evidence)).contains("0-RTT"));
    evidence.ours = Role::Server;
    assert_eq!(judge(Kind::Transfer, &evidence), Verdict::Pass { note: None });
}

#[test]
fn a_second_connection_fails_where_one_is_wanted() {
    for kind in [
        Kind::Handshake,
        Kind::Transfer,
        Kind::Multiplexing,
        Kind::Http3,
        Kind::Loss,
        Kind::Corruption,
        Kind::Blackhole,
        Kind::Ipv6,
        Kind::KeyUpdate,
        Kind::Rebinding,
        Kind::Ecn,
        Kind::Goodput,
    ] {
        let mut evidence = good(PLAIN);
        evidence.seen.connections.push(evidence.seen.connections[0].clone());
        let failed = reason(judge(kind, &evidence));
        assert_eq!(failed, "connections made: 2 instead of 1", "{kind:?}");
    }
}

#[test]
fn one_connection_fails_where_two_are_wanted() {
    for kind in [Kind::Resumption, Kind::ZeroRtt, Kind::RetryResumption] {
        let failed = reason(judge(kind, &good(PLAIN)));
        assert_eq!(failed, "connections made: 1 instead of 2", "{kind:?}");
    }
}

#[test]
fn every_client_makes_a_connection() {
    let mut evidence = good(PLAIN);
    (evidence.lost, evidence.clients) = (1, 2);
    let few = reason(judge(Kind::HandshakeLoss, &evidence));
    assert_eq!(few, "connections made: 1 instead of 2");
    evidence.seen.connections.push(evidence.seen.connections[0].clone());
    let passed = judge(Kind::HandshakeLoss, &evidence);
    assert!(matches!(passed, Verdict::Pass { .. }), "{passed:?}");
}

#[test]
fn a_retry_fails_a_handshake_and_no_transfer() {
    let mut evidence = good(PLAIN);
    assert_eq!(judge(Kind::Handshake, &evidence), Verdict::Pass { note: None });
    evidence.seen.connections[0].retries = 1;
    for kind in [Kind::Handshake, Kind::Ecn] {
        assert_eq!(reason(judge(kind, &evidence)), "our end, the server, sent a Retry");
    }
    assert_eq!(judge(Kind::Transfer, &evidence), Verdict::Pass { note: None });
}

#[test]
fn a_server_with_a_high_stream_limit_fails_multiplexing() {
    let mut evidence = Evidence { ours: Role::Client, ..good(TACK) };
    for (limit, passes) in [(None, true), (Some(1000), true), (Some(10_000), false)] {
        evidence.seen.greetings =
            vec![Greeting { server_initial_max_streams_bidi: limit, ..Greeting::default() }];
        match judge(Kind::Multiplexing, &evidence) {
            Verdict::Pass { .. } => assert!(passes, "{limit:?}"),
            verdict => {
                assert!(!passes, "{verdict:?}");
                let expected = "the peer, the server, lets the client open 10000 streams at first, more than 1000";
                assert_eq!(reason(verdict), expected);
            }
        }
    }
}

#[test]
fn a_client_that_never_repeats_its_hello_fails_longrtt() {
    let mut evidence = good(PLAIN);
    evidence.round_trip = Duration::from_millis(1500);
    evidence.seen.connections[0].handshake_seconds = Some(1.51);
    evidence.seen.connections[0].client_hellos = 1;
    let once = reason(judge(Kind::LongRtt, &evidence));
    assert_eq!(once, "the peer, the client, sent its ClientHello once");
    evidence.seen.connections[0].client_hellos = 2;
    let Verdict::Pass { note: Some(note) } = judge(Kind::LongRtt, &evidence) else {
        panic!("{evidence:?}");
    };
    assert!(note.ends_with(", 2 ClientHellos"), "{note}");
}
