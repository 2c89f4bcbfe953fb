//! Key updates (RFC 9001 section 6), by the keys that opened the packets. Each cell checks that
//! every packet opens.

use super::{Evidence, Side, Verdict};
use crate::contract::Role;
use crate::wire::Signals;

/// The client updates its keys, or else the server, and the other end follows.
pub fn judge(evidence: &Evidence) -> Verdict {
    match (evidence.ours, sides(evidence)) {
        (_, (true, true)) => Verdict::Pass { note: None },
        (_, (true, false)) => failed("the peer sent nothing with new keys"),
        (_, (false, true)) => failed("our end sent nothing with new keys"),
        (Role::Client, (false, false)) => {
            let reason = "our client leaves it to the server here, and that updated no keys";
            Verdict::Unsupported { by: Side::Peer, reason: reason.to_owned() }
        }
        (Role::Server, (false, false)) => failed("the client did not update its keys"),
    }
}

/// Our end updates its keys, and the peer follows: the packets of both ends are first under the old
/// keys and then under the new ones.
pub fn judge_ours(evidence: &Evidence) -> Verdict {
    let (ours, peers) = (evidence.our_signals(), evidence.peers_signals());
    match sides(evidence) {
        (false, false) => return failed("our end did not update its keys"),
        (false, true) => return failed("the peer updated its keys and our end did not follow"),
        (true, false) => return failed("the peer did not follow with new keys"),
        (true, true) => {}
    }
    let to_peer = evidence.seen.counters(evidence.to_peer());
    let with_old_keys =
        |packets: u64, signals: &Signals| packets > signals.packets_with_new_keys;
    if !with_old_keys(to_peer.packets, ours) || !with_old_keys(evidence.peers().packets, peers)
    {
        return failed("one of the key phases was not seen from both ends");
    }
    let (Some(began), Some(followed)) = (ours.new_keys_seconds, peers.new_keys_seconds) else {
        return failed("the time of the update was not seen");
    };
    // The relay is at the door of either end: our packet has the whole way to the peer before it.
    if followed - began < evidence.round_trip.as_secs_f64() / 2.0 {
        // quinn does so by itself behind 10 to 1,000 packets, as many as chance will have it.
        let reason =
            "the peer updates its keys by itself, and did so before our update reached it"
                .to_owned();
        return Verdict::Unsupported { by: Side::Peer, reason };
    }
    let note = format!(
        "our end updated its keys {} times, the peer followed after {:.0} ms; {} and {} packets \
         under new keys",
        ours.key_updates,
        1e3 * (followed - began),
        ours.packets_with_new_keys,
        peers.packets_with_new_keys
    );
    Verdict::Pass { note: Some(note) }
}

/// Whether our end and the peer sent packets under new keys.
fn sides(evidence: &Evidence) -> (bool, bool) {
    let used = |signals: &Signals| signals.packets_with_new_keys > 0;
    (used(evidence.our_signals()), used(evidence.peers_signals()))
}

fn failed(reason: &str) -> Verdict {
    Verdict::Fail { reason: reason.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{PLAIN, good, reason};
    use super::*;

    #[test]
    fn both_ends_have_to_use_new_keys_whichever_begins() {
        let judged = |ours, client, server| {
            let mut evidence = Evidence { ours, ..good(PLAIN) };
            evidence.seen.asked_of_server.packets_with_new_keys = client;
            evidence.seen.asked_of_client.packets_with_new_keys = server;
            judge(&evidence)
        };
        assert_eq!(judged(Role::Server, 1, 1), Verdict::Pass { note: None });
        assert_eq!(judged(Role::Client, 1, 1), Verdict::Pass { note: None });
        assert!(reason(judged(Role::Server, 1, 0)).contains("our end"));
        assert!(reason(judged(Role::Client, 0, 1)).contains("our end"));
        assert!(reason(judged(Role::Server, 0, 0)).contains("the client"));
        let neither = judged(Role::Client, 0, 0);
        assert!(matches!(neither, Verdict::Unsupported { by: Side::Peer, .. }), "{neither:?}");
    }

    #[test]
    fn our_end_has_to_begin_and_both_phases_have_to_be_seen_of_both() {
        let judged = |ours: (u64, f64), peers: (u64, f64)| {
            let mut evidence = good(PLAIN);
            let signals = |(packets_with_new_keys, at): (u64, f64)| Signals {
                key_updates: packets_with_new_keys.min(1),
                packets_with_new_keys,
                new_keys_seconds: (packets_with_new_keys > 0).then_some(at),
                ..Signals::default()
            };
            evidence.seen.asked_of_client = signals(ours);
            evidence.seen.asked_of_server = signals(peers);
            judge_ours(&evidence)
        };
        // Our server sends 1000 packets, and the client 500.
        let passed = judged((900, 0.5), (450, 0.53));
        let Verdict::Pass { note: Some(note) } = passed else { panic!("{passed:?}") };
        assert!(note.contains("1 times, the peer followed after 30 ms"), "{note}");
        for coincidence in [0.4, 0.505, 0.519] {
            let other = judged((900, 0.5), (450, coincidence));
            let is_by_itself = matches!(other, Verdict::Unsupported { by: Side::Peer, .. });
            assert!(is_by_itself, "{coincidence}: {other:?}");
        }
        assert!(reason(judged((1000, 0.5), (450, 0.6))).contains("phases"));
        assert!(reason(judged((900, 0.5), (500, 0.6))).contains("phases"));
        assert!(reason(judged((0, 0.0), (0, 0.0))).contains("our end did not update"));
        assert!(reason(judged((900, 0.5), (0, 0.0))).contains("did not follow"));
        assert!(reason(judged((0, 0.0), (9, 0.1))).contains("our end did not follow"));
    }
}
