//! Our end looks for the largest datagram that the path carries (RFC 9000 section 14.3).

use super::Evidence;

/// The size that every path of QUIC carries (RFC 9000 section 14).
const SMALLEST: usize = 1200;
/// By how much the size that is found may stay below the largest possible.
const LEFT_UNUSED: usize = 50;

/// Our end probed beyond what the path carries, lost no more than probes there, and used most of
/// what it does carry.
pub fn was_found(evidence: &Evidence) -> Result<String, String> {
    let Some(most) = evidence.conditions.largest_datagram else {
        return Err("the link carries datagrams of any size".to_owned());
    };
    let sizes: Vec<_> =
        evidence.seen.connections.iter().map(|seen| seen.sizes(evidence.to_peer())).collect();
    let largest_sent = sizes.iter().map(|sizes| sizes.largest_sent).max().unwrap_or(0);
    let largest_arrived = sizes.iter().map(|sizes| sizes.largest_arrived).max().unwrap_or(0);
    let note = format!(
        "datagrams of {largest_sent} bytes were sent and of {largest_arrived} arrived on a path \
         that carries {most}"
    );
    if largest_sent <= most {
        return Err(format!("our end did not probe beyond the path: {note}"));
    }
    if largest_arrived <= SMALLEST || largest_arrived + LEFT_UNUSED < most {
        return Err(format!("our end did not find the path's size: {note}"));
    }
    Ok(note)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cases::Conditions;
    use crate::verdict::tests::{PLAIN, good};
    use crate::wire::DatagramSizes;

    #[test]
    fn our_end_probes_beyond_the_path_and_finds_its_size() {
        let found = |largest_sent, largest_arrived| {
            let mut evidence = good(PLAIN);
            evidence.conditions =
                Conditions { largest_datagram: Some(1372), ..Conditions::DEFAULT };
            evidence.seen.connections[0].sizes_to_client =
                DatagramSizes { largest_sent, largest_arrived, lost: 1 };
            was_found(&evidence)
        };
        assert!(found(1472, 1372).is_ok());
        assert!(found(1472, 1322).is_ok());
        assert!(found(1472, 1321).unwrap_err().contains("did not find"));
        assert!(found(1372, 1372).unwrap_err().contains("did not probe"));
    }
}
