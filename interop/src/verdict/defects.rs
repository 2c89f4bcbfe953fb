//! Defects of peers that are known. Each counts only where the wire shows it, and changes nothing
//! about what our end has to do.

use std::time::Duration;

use super::{Ending, Evidence, Verdict, no_unannounced_frames};
use crate::contract::Role;
use crate::wire::{Close, ConnectionSeen, new_stream_bytes};
use tack_tap::Direction;

/// The exit code of a Rust program that panics.
const PANICKED: i32 = 101;

struct Defect {
    peer: &'static str,
    /// The role of the peer.
    role: Role,
    what: &'static str,
    /// Whether the evidence shows it, given the last connection: those before it went well, or
    /// there would be none after them.
    shows: fn(&Evidence, &ConnectionSeen) -> bool,
}

/// `docs/interop.md` lists them too.
const KNOWN: [Defect; 6] = [
    Defect {
        peer: "kwik",
        role: Role::Server,
        what: "flupke closes with H3_FRAME_UNEXPECTED if a request begins with a reserved frame, \
               which it has to ignore (RFC 9114 section 9)",
        shows: refuses_reserved_frames,
    },
    Defect {
        peer: "kwik",
        role: Role::Server,
        what: "kwik acknowledges no part of a ClientHello until it has all of it (RFC 9000 section \
               13.2.1: at once), so the client takes what it waits for the round trip, and \
               repeats at intervals of that",
        shows: acknowledges_late,
    },
    Defect {
        peer: "kwik",
        role: Role::Server,
        what: "kwik falls silent in the middle of a file, with nothing of it lost and all that it \
               sent acknowledged",
        shows: falls_silent,
    },
    Defect {
        peer: "quinn",
        role: Role::Server,
        what: "quinn repeats Handshake packets alone once its ServerHello was lost four times, and \
               answers no Initial of the client any more (RFC 9000 section 13.2.1: it acknowledges \
               them at once)",
        shows: ignores_initials,
    },
    Defect {
        peer: "quiche",
        role: Role::Server,
        what: "quiche never repeats what was lost last on a path that was left: it probes without \
               it for good, or falls silent once the rest is acknowledged",
        shows: never_repeats,
    },
    Defect {
        peer: "msquic",
        role: Role::Server,
        what: "msquic acknowledges the first part of a ClientHello by the connection id that the \
               client made up, and goes on with another: the client has to refuse (RFC 9000 \
               sections 7.2 and 7.3)",
        shows: changes_its_id,
    },
];

fn refuses_reserved_frames(_: &Evidence, seen: &ConnectionSeen) -> bool {
    const H3_FRAME_UNEXPECTED: u64 = 0x105;
    let close = Close { by_server: true, application: true, code: H3_FRAME_UNEXPECTED };
    seen.reserved_frame_first && seen.closes.contains(&close)
}

/// The client has come no further than the handshake: once the server's data flows, each end has
/// measured the round trip anew.
fn acknowledges_late(_: &Evidence, seen: &ConnectionSeen) -> bool {
    // A busy machine takes tenths of it.
    const LATE_S: f64 = 0.9;
    let has_data = seen
        .progress
        .iter()
        .any(|new| new.direction == Direction::ToClient && new.new_bytes > 0);
    let is_in_handshake = seen.handshake_seconds.is_none();
    seen.answered_seconds.is_some_and(|seconds| seconds > LATE_S)
        && (is_in_handshake || !has_data)
}

/// A client repeats what nothing acknowledges, and few of its Initials only acknowledge.
fn ignores_initials(_: &Evidence, seen: &ConnectionSeen) -> bool {
    const MANY: u64 = 6;
    seen.unanswered_initials >= MANY && seen.closes.is_empty()
}

/// All that the server sent has arrived, neither end has closed the connection, and it is the server's turn: it has the
/// requests, and the client lacks a part of the answers. Our windows are larger than the files, so that it waits for no
/// credit either.
fn falls_silent(evidence: &Evidence, seen: &ConnectionSeen) -> bool {
    let spoilt =
        evidence.swallowed + evidence.corrupted_to_server + evidence.corrupted_to_client;
    let has_requests = seen.to_server.stream_bytes > 0 && seen.missing_at_server == 0;
    let owes = new_stream_bytes(&evidence.seen.to_client) < evidence.fetched_bytes;
    spoilt == 0
        && seen.sizes_to_client.lost == 0
        && has_requests
        && owes
        && waits_for_nothing(seen)
}

/// Or else what is missing would come behind the newest data that the client has acknowledged: by
/// then it counts as lost (RFC 9002 section 6.1.1).
fn never_repeats(_: &Evidence, seen: &ConnectionSeen) -> bool {
    const GOOD: Duration = Duration::from_secs(5);
    let last_data = seen.progress.last().map_or(Duration::ZERO, |new| new.at);
    let probes = seen.last_of_server > last_data + GOOD;
    let is_silent = seen.missing_at_client > 0 && waits_for_nothing(seen);
    seen.paths.len() > 1 && (probes || is_silent)
}

/// Neither end has closed the connection, and the server's newest data is acknowledged.
fn waits_for_nothing(seen: &ConnectionSeen) -> bool {
    seen.closes.is_empty()
        && seen.data_of_server.is_some()
        && seen.acknowledged_to_server >= seen.data_of_server
}

fn changes_its_id(_: &Evidence, seen: &ConnectionSeen) -> bool {
    let has_refused = seen.to_server.packets == 0;
    seen.server_ids.len() > 1 && has_refused
}

/// A defect makes a client stall or give up, with the server still there. It makes no end crash,
/// and changes nothing of what arrived.
fn may_explain(evidence: &Evidence) -> bool {
    let ours = match evidence.ours {
        Role::Client => evidence.client,
        Role::Server => evidence.server,
    };
    let has_crashed = matches!(ours, Ending::Exited(None | Some(PANICKED)));
    evidence.client != Ending::Exited(Some(0))
        && evidence.server == Ending::Running
        && !has_crashed
        && no_unannounced_frames(evidence).is_ok()
}

/// The verdict, or what is known of the peer if that is why the transfer failed.
pub fn explain(peer: &str, verdict: Verdict, evidence: &Evidence) -> Verdict {
    let Some(last) = evidence.seen.connections.last() else { return verdict };
    if !matches!(verdict, Verdict::Fail { .. }) || !may_explain(evidence) {
        return verdict;
    }
    let defect = KNOWN.iter().find(|defect| {
        defect.peer == peer && defect.role != evidence.ours && (defect.shows)(evidence, last)
    });
    defect.map_or(verdict, |defect| Verdict::Defect { reason: defect.what.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::super::tests::{TACK, good};
    use super::*;
    use tack_tap::TapCounters;

    use crate::wire::{PathSeen, Progress};

    fn failed() -> Verdict {
        Verdict::Fail { reason: "our end, the client, failed with exit code 1".to_owned() }
    }

    /// Our client, which gave up.
    fn gave_up() -> Evidence {
        Evidence { ours: Role::Client, client: Ending::Exited(Some(1)), ..good(TACK) }
    }

    fn refused() -> Evidence {
        let mut evidence = gave_up();
        evidence.seen.connections = vec![ConnectionSeen {
            closes: vec![Close { by_server: true, application: true, code: 0x105 }],
            reserved_frame_first: true,
            client: Some(TACK),
            server: Some(TACK),
            ..ConnectionSeen::default()
        }];
        evidence
    }

    #[test]
    fn a_known_defect_explains_what_the_wire_shows_and_nothing_else() {
        let explained = |verdict, evidence: &Evidence| explain("kwik", verdict, evidence);
        assert!(matches!(explained(failed(), &refused()), Verdict::Defect { .. }));
        assert_eq!(explain("caddy", failed(), &refused()), failed(), "not known of that peer");
        let pass = Verdict::Pass { note: None };
        assert_eq!(explained(pass.clone(), &refused()), pass);

        let mut unprovoked = refused();
        unprovoked.seen.connections[0].reserved_frame_first = false;
        assert_eq!(explained(failed(), &unprovoked), failed());
        let mut other = refused();
        other.seen.connections[0].closes[0].code = 0x106;
        assert_eq!(explained(failed(), &other), failed());
    }

    #[test]
    fn a_server_that_calls_itself_by_two_ids_is_refused() {
        let mut evidence = gave_up();
        evidence.seen.connections = vec![ConnectionSeen {
            server_ids: [vec![1], vec![2]].into(),
            client: Some(TACK),
            ..ConnectionSeen::default()
        }];
        let is_defect = |evidence: &Evidence| explain("msquic", failed(), evidence) != failed();
        assert!(is_defect(&evidence));
        let mut accepted = evidence.clone();
        accepted.seen.connections[0].to_server.packets = 1;
        assert!(!is_defect(&accepted));
        evidence.seen.connections[0].server_ids.remove(&vec![2]);
        assert!(!is_defect(&evidence));
    }

    #[test]
    fn a_server_that_answers_an_initial_late_made_the_client_slow() {
        let mut evidence = gave_up();
        evidence.seen.connections = vec![ConnectionSeen {
            answered_seconds: Some(1.02),
            client: Some(TACK),
            server: Some(TACK),
            ..ConnectionSeen::default()
        }];
        assert!(matches!(explain("kwik", failed(), &evidence), Verdict::Defect { .. }));
        evidence.seen.connections[0].answered_seconds = Some(0.03);
        assert_eq!(explain("kwik", failed(), &evidence), failed());
    }

    #[test]
    fn a_late_answer_on_a_connection_that_went_on_explains_nothing() {
        let sent =
            Progress { at: Duration::ZERO, direction: Direction::ToClient, new_bytes: 9 };
        let late = ConnectionSeen {
            answered_seconds: Some(1.02),
            client: Some(TACK),
            server: Some(TACK),
            ..ConnectionSeen::default()
        };
        let with = |connections: &[ConnectionSeen]| {
            let mut evidence = gave_up();
            evidence.seen.connections = connections.to_vec();
            explain("kwik", failed(), &evidence) != failed()
        };
        assert!(with(std::slice::from_ref(&late)));
        let answered = ConnectionSeen { handshake_seconds: Some(1.1), ..late.clone() };
        assert!(with(std::slice::from_ref(&answered)), "no data came");
        let went_on = ConnectionSeen { progress: vec![sent], ..answered };
        assert!(!with(std::slice::from_ref(&went_on)), "data came");
        let quick = ConnectionSeen { answered_seconds: Some(0.03), ..late.clone() };
        assert!(!with(&[late, quick]), "the connection before it was late");
    }

    #[test]
    fn a_client_that_ended_well_or_crashed_and_a_server_that_is_gone_have_no_excuse() {
        let mut evidence = gave_up();
        evidence.seen.connections = vec![ConnectionSeen {
            answered_seconds: Some(1.02),
            client: Some(TACK),
            server: Some(TACK),
            ..ConnectionSeen::default()
        }];
        let other = Verdict::Fail { reason: "a was received with another digest".to_owned() };
        let explained = |client, server| {
            let evidence = Evidence { client, server, ..evidence.clone() };
            explain("kwik", other.clone(), &evidence) != other
        };
        assert!(explained(Ending::TimedOut, Ending::Running));
        assert!(explained(Ending::Exited(Some(1)), Ending::Running));
        assert!(!explained(Ending::Exited(Some(0)), Ending::Running), "it ended well");
        assert!(!explained(Ending::Exited(Some(101)), Ending::Running), "it panicked");
        assert!(!explained(Ending::Exited(None), Ending::Running), "a signal ended it");
        assert!(!explained(Ending::TimedOut, Ending::Exited(Some(1))), "no server is left");
    }

    #[test]
    fn a_server_that_leaves_initials_unanswered_is_at_fault() {
        let mut evidence = Evidence { lost: 30, ..gave_up() };
        evidence.seen.connections = vec![ConnectionSeen {
            unanswered_initials: 6,
            client: Some(TACK),
            ..ConnectionSeen::default()
        }];
        let is_defect = |evidence: &Evidence| explain("quinn", failed(), evidence) != failed();
        assert!(is_defect(&evidence));
        assert!(explain("quic-go", failed(), &evidence) == failed(), "not known of that peer");
        evidence.seen.connections[0].unanswered_initials = 5;
        assert!(!is_defect(&evidence));
    }

    #[test]
    fn a_server_that_has_it_all_acknowledged_and_says_no_more_is_at_fault() {
        let mut evidence = gave_up();
        evidence.seen.connections = vec![ConnectionSeen {
            data_of_server: Some(7),
            acknowledged_to_server: Some(8),
            to_server: TapCounters { stream_bytes: 20, ..TapCounters::default() },
            client: Some(TACK),
            server: Some(TACK),
            ..ConnectionSeen::default()
        }];
        let is_defect = |evidence: &Evidence| explain("kwik", failed(), evidence) != failed();
        assert!(is_defect(&evidence));
        let with = |change: fn(&mut ConnectionSeen)| {
            let mut evidence = evidence.clone();
            change(&mut evidence.seen.connections[0]);
            is_defect(&evidence)
        };
        assert!(with(|seen| seen.sizes_to_server.lost = 1), "the client has repeated it");
        assert!(!with(|seen| seen.missing_at_server = 1), "it lacks a part of the requests");
        assert!(!with(|seen| seen.sizes_to_client.lost = 1), "it may wait to repeat");
        assert!(
            !is_defect(&Evidence { swallowed: 1, ..evidence.clone() }),
            "the path was gone"
        );
        let mut unasked = evidence.clone();
        unasked.seen.connections[0].to_server = TapCounters::default();
        assert!(!is_defect(&unasked), "it has no request");
        let mut complete = evidence.clone();
        complete.seen.to_client.stream_bytes = complete.file_bytes;
        assert!(!is_defect(&complete), "it owes nothing");
        let mut waiting = evidence.clone();
        waiting.seen.connections[0].acknowledged_to_server = Some(6);
        assert!(!is_defect(&waiting), "our end may not have acknowledged it");
        let mut went_on = evidence.clone();
        went_on.seen.connections.push(waiting.seen.connections[0].clone());
        assert!(!is_defect(&went_on), "there was another connection after it");
        evidence.seen.connections[0].closes =
            vec![Close { by_server: false, application: true, code: 0 }];
        assert!(!is_defect(&evidence), "our end had enough");
    }

    #[test]
    fn a_server_that_probes_without_the_missing_data_after_a_change_of_path_is_at_fault() {
        let second = Duration::from_secs(1);
        let sent = |at, new_bytes| Progress { at, direction: Direction::ToClient, new_bytes };
        let mut evidence = gave_up();
        evidence.seen.connections = vec![ConnectionSeen {
            progress: vec![sent(second, 1000), sent(2 * second, 0)],
            last_of_server: 20 * second,
            paths: vec![PathSeen::default(); 2],
            client: Some(TACK),
            server: Some(TACK),
            ..ConnectionSeen::default()
        }];
        let is_defect = |evidence: &Evidence| explain("quiche", failed(), evidence) != failed();
        assert!(is_defect(&evidence));
        let mut goes_on = evidence.clone();
        goes_on.seen.connections[0].progress.push(sent(18 * second, 0));
        assert!(!is_defect(&goes_on));
        evidence.seen.connections[0].paths.pop();
        assert!(!is_defect(&evidence), "one path alone");
    }

    #[test]
    fn a_server_that_falls_silent_without_the_missing_data_after_a_change_of_path_is_at_fault()
    {
        let mut evidence = Evidence { lost: 3, ..gave_up() };
        evidence.seen.connections = vec![ConnectionSeen {
            data_of_server: Some(7),
            acknowledged_to_server: Some(7),
            missing_at_client: 1000,
            paths: vec![PathSeen::default(); 2],
            client: Some(TACK),
            server: Some(TACK),
            ..ConnectionSeen::default()
        }];
        let is_defect = |evidence: &Evidence| explain("quiche", failed(), evidence) != failed();
        assert!(is_defect(&evidence));
        let with = |change: fn(&mut ConnectionSeen)| {
            let mut evidence = evidence.clone();
            change(&mut evidence.seen.connections[0]);
            evidence
        };
        assert!(!is_defect(&with(|seen| seen.missing_at_client = 0)), "it has sent all");
        assert!(!is_defect(&with(|seen| seen.acknowledged_to_server = Some(6))), "it may wait");
        assert!(!is_defect(&with(|seen| seen.paths.truncate(1))), "one path alone");
    }

    #[test]
    fn no_defect_excuses_a_frame_that_was_not_announced() {
        let mut evidence = refused();
        evidence.seen.connections[0].server = None;
        evidence.seen.connections[0].to_server.tacks = 1;
        assert_eq!(explain("kwik", failed(), &evidence), failed());
    }
}
