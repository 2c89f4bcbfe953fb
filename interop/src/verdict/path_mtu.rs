//! Our end looks for the largest datagram that the path carries (RFC 9000 section 14.3).

use super::Evidence;
use crate::wire::DatagramSizes;

/// The size that every path of QUIC carries (RFC 9000 section 14).
const SMALLEST: usize = 1200;
/// By how much the size that is found may stay below the largest possible.
const LEFT_UNUSED: usize = 50;

/// The last datagrams with new data, by which an end shows the size that it has settled on.
const SHOWN: usize = 100;

/// Our end probed beyond what the path carries, lost no more than probes there, and used most of
/// what it does carry for its data.
pub fn was_found(evidence: &Evidence) -> Result<String, String> {
    let Some(most) = evidence.conditions.largest_datagram else {
        return Err("the link carries datagrams of any size".to_owned());
    };
    let sizes = || evidence.seen.connections.iter().map(|seen| seen.sizes(evidence.to_peer()));
    let largest = |of: fn(&DatagramSizes) -> usize| sizes().map(of).max().unwrap_or(0);
    let largest_sent = largest(|sizes| sizes.largest_sent);
    let largest_arrived = largest(|sizes| sizes.largest_arrived);
    let largest_with_data = largest(|sizes| sizes.largest_with_data);
    let settled = settled_on(sizes().flat_map(|sizes| sizes.arrived_with_new_data.iter()));
    let note = format!(
        "datagrams of {largest_sent} bytes were sent and of {largest_arrived} arrived on a path \
         that carries {most}; in the end most of those with data had {settled} at least"
    );
    if largest_sent <= most {
        return Err(format!("our end did not probe beyond the path: {note}"));
    }
    if largest_with_data > most {
        return Err(format!(
            "our end sent data in a datagram of {largest_with_data} bytes, not in probes alone: \
             {note}"
        ));
    }
    if largest_arrived <= SMALLEST || largest_arrived + LEFT_UNUSED < most {
        return Err(format!("our end did not find the path's size: {note}"));
    }
    if settled + LEFT_UNUSED < most {
        return Err(format!("our end did not use the path's size: {note}"));
    }
    Ok(note)
}

/// The median of the last sizes: a file ends in a shorter one, and so does a flow-control window.
fn settled_on<'a>(sizes: impl Iterator<Item = &'a usize>) -> usize {
    let sizes: Vec<_> = sizes.copied().collect();
    let mut last = sizes[sizes.len().saturating_sub(SHOWN)..].to_vec();
    last.sort_unstable();
    let middle = last.len().saturating_sub(1) / 2;
    last.get(middle).copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cases::Conditions;
    use crate::verdict::tests::{PLAIN, good};

    fn found(sizes: DatagramSizes) -> Result<String, String> {
        let mut evidence = good(PLAIN);
        evidence.conditions =
            Conditions { largest_datagram: Some(1372), ..Conditions::DEFAULT };
        evidence.seen.connections[0].sizes_to_client = sizes;
        was_found(&evidence)
    }

    /// Data at 1200 bytes at first and at this size in the end.
    fn with(largest_sent: usize, largest_arrived: usize, in_the_end: usize) -> DatagramSizes {
        let mut arrived_with_new_data = vec![1200; 500];
        arrived_with_new_data.extend(vec![in_the_end; 99]);
        arrived_with_new_data.push(300);
        DatagramSizes {
            largest_sent,
            largest_arrived,
            largest_with_data: in_the_end,
            lost: 1,
            arrived_with_new_data,
        }
    }

    #[test]
    fn our_end_probes_beyond_the_path_and_finds_its_size() {
        assert!(found(with(1472, 1372, 1372)).is_ok());
        assert!(found(with(1472, 1322, 1322)).is_ok());
        assert!(found(with(1472, 1321, 1321)).unwrap_err().contains("did not find"));
        assert!(found(with(1372, 1372, 1372)).unwrap_err().contains("did not probe"));
    }

    #[test]
    fn a_size_that_only_a_probe_had_is_not_used() {
        assert!(found(with(1472, 1372, 1200)).unwrap_err().contains("did not use"));
        assert!(found(with(1472, 1372, 1321)).unwrap_err().contains("did not use"));
        let none = DatagramSizes { arrived_with_new_data: vec![], ..with(1472, 1372, 1372) };
        assert!(found(none).unwrap_err().contains("did not use"));
    }

    #[test]
    fn data_in_a_datagram_beyond_the_path_is_no_probe() {
        let lost = DatagramSizes { largest_with_data: 1373, ..with(1472, 1372, 1372) };
        assert!(found(lost).unwrap_err().contains("not in probes alone"));
    }
}
