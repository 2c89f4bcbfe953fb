//! quiche does not count the zeros behind an Initial packet against three times what has come from an
//! address that is not proven (RFC 9000 section 8.1).

use std::time::Duration;

use crate::harness::*;

#[test]
fn a_server_that_probes_sends_more_than_three_times_what_it_got() {
    let mut fast = config();
    fast.set_initial_rtt(Duration::from_millis(1));
    let mut ends = Ends::new(&mut config(), &mut fast);
    let mut received = 0;
    for (datagram, _) in sent(&mut ends.client) {
        received += datagram.len();
        ends.deliver_to_server(datagram).unwrap();
    }
    let mut count = 0;
    for _ in 0..8 {
        let datagrams = sent(&mut ends.server);
        count += datagrams.iter().map(|(datagram, _)| datagram.len()).sum::<usize>();
        if count > 3 * received {
            break;
        }
        expire(&mut ends.server);
    }
    assert_needed(count > 3 * received, "anti_amplification.rs");
}
