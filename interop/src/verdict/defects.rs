//! Defects of peers that are known. Each counts only where the wire shows it, and changes nothing
//! about what our end has to do.

use std::time::Duration;

use super::{Evidence, Verdict, no_unannounced_frames};
use crate::contract::Role;
use crate::wire::{Close, ConnectionSeen};

struct Defect {
    peer: &'static str,
    /// The role of the peer.
    role: Role,
    what: &'static str,
    shows: fn(&Evidence) -> bool,
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
        what: "kwik falls silent in the middle of a file, with nothing lost and all that it sent \
               acknowledged",
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

fn refuses_reserved_frames(evidence: &Evidence) -> bool {
    const H3_FRAME_UNEXPECTED: u64 = 0x105;
    let close = Close { by_server: true, application: true, code: H3_FRAME_UNEXPECTED };
    let mut connections = evidence.seen.connections.iter();
    connections.any(|seen| seen.reserved_frame_first && seen.closes.contains(&close))
}

fn acknowledges_late(evidence: &Evidence) -> bool {
    // A busy machine takes tenths of it.
    const LATE_S: f64 = 0.9;
    let mut connections = evidence.seen.connections.iter();
    connections.any(|seen| seen.answered_seconds.is_some_and(|seconds| seconds > LATE_S))
}

/// A client repeats what nothing acknowledges, and few of its Initials only acknowledge.
fn ignores_initials(evidence: &Evidence) -> bool {
    const MANY: u64 = 6;
    let mut connections = evidence.seen.connections.iter();
    connections.any(|seen| seen.unanswered_initials >= MANY && seen.closes.is_empty())
}

/// Nothing was lost, neither end has closed the connection, and it is the server's turn. Of several
/// connections, one after the other, it is the last that made the transfer fail.
fn falls_silent(evidence: &Evidence) -> bool {
    evidence.lost + evidence.swallowed == 0
        && evidence.seen.connections.last().is_some_and(waits_for_nothing)
}

/// Or else what is missing would come behind the newest data that the client has acknowledged: by
/// then it counts as lost (RFC 9002 section 6.1.1).
fn never_repeats(evidence: &Evidence) -> bool {
    const GOOD: Duration = Duration::from_secs(5);
    let mut connections = evidence.seen.connections.iter();
    connections.any(|seen| {
        let last_data = seen.progress.last().map_or(Duration::ZERO, |new| new.at);
        let probes = seen.last_of_server > last_data + GOOD;
        let is_silent = seen.missing_at_client > 0 && waits_for_nothing(seen);
        seen.paths.len() > 1 && (probes || is_silent)
    })
}

/// Neither end has closed the connection, and the server's newest data is acknowledged.
fn waits_for_nothing(seen: &ConnectionSeen) -> bool {
    seen.closes.is_empty()
        && seen.data_of_server.is_some()
        && seen.acknowledged_to_server >= seen.data_of_server
}

fn changes_its_id(evidence: &Evidence) -> bool {
    let refused = |seen: &ConnectionSeen| seen.to_server.packets == 0;
    let mut connections = evidence.seen.connections.iter();
    connections.any(|seen| seen.server_ids.len() > 1 && refused(seen))
}

/// The verdict, or what is known of the peer if that is why the transfer failed.
pub fn explain(peer: &str, verdict: Verdict, evidence: &Evidence) -> Verdict {
    let is_ours = || no_unannounced_frames(evidence).is_err();
    if !matches!(verdict, Verdict::Fail { .. }) || is_ours() {
        return verdict;
    }
    let defect = KNOWN.iter().find(|defect| {
        defect.peer == peer && defect.role != evidence.ours && (defect.shows)(evidence)
    });
    defect.map_or(verdict, |defect| Verdict::Defect { reason: defect.what.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::super::tests::{TACK, good};
    use super::*;
    use tack_tap::Direction;

    use crate::wire::{PathSeen, Progress};

    fn failed() -> Verdict {
        Verdict::Fail { reason: "our end, the client, failed with exit code 1".to_owned() }
    }

    fn refused() -> Evidence {
        let mut evidence = Evidence { ours: Role::Client, ..good(TACK) };
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
        let mut evidence = Evidence { ours: Role::Client, ..good(TACK) };
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
        let mut evidence = Evidence { ours: Role::Client, ..good(TACK) };
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
    fn a_server_that_leaves_initials_unanswered_is_at_fault() {
        let mut evidence = Evidence { ours: Role::Client, lost: 30, ..good(TACK) };
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
        let mut evidence = Evidence { ours: Role::Client, ..good(TACK) };
        evidence.seen.connections = vec![ConnectionSeen {
            data_of_server: Some(7),
            acknowledged_to_server: Some(8),
            client: Some(TACK),
            server: Some(TACK),
            ..ConnectionSeen::default()
        }];
        let is_defect = |evidence: &Evidence| explain("kwik", failed(), evidence) != failed();
        assert!(is_defect(&evidence));
        assert!(!is_defect(&Evidence { lost: 1, ..evidence.clone() }), "it may wait to repeat");
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
        let mut evidence = Evidence { ours: Role::Client, ..good(TACK) };
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
        let mut evidence = Evidence { ours: Role::Client, lost: 3, ..good(TACK) };
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
