//! Connection ids of the shortest and of the greatest length (RFC 9000 section 17.2).

use super::Evidence;

/// Every connection id of the peer has that length.
pub fn have_length(evidence: &Evidence, wanted: usize) -> Result<(), String> {
    let to_peer = evidence.to_peer();
    for connection in &evidence.seen.connections {
        let lengths = connection.id_lengths(to_peer);
        if !lengths.iter().eq([&wanted]) {
            let lengths: Vec<_> = lengths.iter().map(ToString::to_string).collect();
            return Err(format!(
                "the peer's connection ids have {} bytes instead of {wanted}",
                lengths.join(" and ")
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verdict::tests::{PLAIN, good};

    #[test]
    fn every_id_of_the_peer_has_the_length_and_ours_may_have_another() {
        let mut evidence = good(PLAIN); // our server, the peer's client
        evidence.seen.connections[0].server_id_lengths = [16].into();
        evidence.seen.connections[0].client_id_lengths = [0].into();
        assert_eq!(have_length(&evidence, 0), Ok(()));
        assert!(have_length(&evidence, 20).is_err());
        evidence.seen.connections[0].client_id_lengths = [8, 20].into();
        let failed = have_length(&evidence, 20).unwrap_err();
        assert_eq!(failed, "the peer's connection ids have 8 and 20 bytes instead of 20");
    }
}
