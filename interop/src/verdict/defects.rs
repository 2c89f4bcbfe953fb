//! Defects of peers that are known. Each counts only where the wire shows it, and changes nothing
//! about what our end has to do.

use super::{Evidence, Verdict, no_unannounced_frames};
use crate::contract::Role;
use crate::wire::Close;

struct Defect {
    peer: &'static str,
    /// What the peer plays.
    role: Role,
    what: &'static str,
    shows: fn(&Evidence) -> bool,
}

/// `docs/interop.md` lists them too.
const KNOWN: [Defect; 1] = [Defect {
    peer: "kwik",
    role: Role::Server,
    what: "flupke closes with H3_FRAME_UNEXPECTED if a request begins with a reserved frame, \
           which it has to ignore (RFC 9114 section 9)",
    shows: refuses_reserved_frames,
}];

fn refuses_reserved_frames(evidence: &Evidence) -> bool {
    const H3_FRAME_UNEXPECTED: u64 = 0x105;
    let close = Close { by_server: true, application: true, code: H3_FRAME_UNEXPECTED };
    let mut connections = evidence.seen.connections.iter();
    connections.any(|seen| seen.reserved_frame_first && seen.closes.contains(&close))
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
    use crate::wire::ConnectionSeen;

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
    fn no_defect_excuses_a_frame_that_was_not_announced() {
        let mut evidence = refused();
        evidence.seen.connections[0].server = None;
        evidence.seen.connections[0].to_server.tacks = 1;
        assert_eq!(explain("kwik", failed(), &evidence), failed());
    }
}
