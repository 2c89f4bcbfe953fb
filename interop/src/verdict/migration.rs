//! A server may refuse to follow its client: RFC 9000 section 9 lets one that has announced
//! `disable_active_migration` drop what comes from another address.

use super::{Evidence, Verdict};
use crate::cases::Kind;
use crate::contract::Role;

/// The transport parameter, RFC 9000 section 18.2.
const DISABLE_ACTIVE_MIGRATION: u64 = 0x0c;

/// The verdict on a server that said it would not follow, and did not; `None` for all others.
pub fn refused(kind: Kind, evidence: &Evidence) -> Option<Verdict> {
    let announced = evidence
        .seen
        .greetings
        .iter()
        .any(|greeting| greeting.server_parameters.contains(&DISABLE_ACTIVE_MIGRATION));
    let paths = || evidence.seen.connections.iter().flat_map(|connection| &connection.paths);
    let mut moved = paths().filter(|path| path.path > 0 && path.arrived > 0).peekable();
    if kind != Kind::Rebinding || !announced || moved.peek().is_none() {
        return None;
    }
    moved.all(|path| path.sent == 0).then(|| Verdict::Unsupported {
        by: evidence.side(Role::Server),
        reason:
            "its server announces disable_active_migration, and sends nothing to the client's \
                 new address"
                .to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::{PLAIN, good};
    use super::*;
    use crate::verdict::Side;
    use crate::wire::{Greeting, PathSeen};

    fn rebound(server_parameters: Vec<u64>, sent: u64) -> Evidence {
        let mut evidence = Evidence { ours: Role::Client, ..good(PLAIN) };
        evidence.seen.greetings = vec![Greeting { server_parameters, ..Greeting::default() }];
        let path = |path, sent| PathSeen { path, arrived: 9, sent, ..PathSeen::default() };
        evidence.seen.connections[0].paths = vec![path(0, 9), path(1, sent)];
        evidence
    }

    #[test]
    fn only_a_server_that_announced_it_may_stay_behind() {
        let verdict = refused(Kind::Rebinding, &rebound(vec![4, 0x0c], 0));
        assert!(matches!(verdict, Some(Verdict::Unsupported { by: Side::Peer, .. })));
        assert_eq!(refused(Kind::Rebinding, &rebound(vec![4], 0)), None, "not announced");
        assert_eq!(refused(Kind::Rebinding, &rebound(vec![0x0c], 1)), None, "it followed");
        assert_eq!(refused(Kind::Transfer, &rebound(vec![0x0c], 0)), None, "another case");
    }
}
