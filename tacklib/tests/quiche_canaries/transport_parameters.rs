//! quiche encodes its transport parameters from a list that cannot be extended, and a server's twice more while
//! it reads the first Initial: what is set before is lost.

use tack_proto::transport_parameters;

use crate::boringssl;
use crate::harness::*;

const UNKNOWN: u64 = 0x1337;

#[test]
fn what_a_server_sets_before_the_first_initial_is_lost() {
    let mut client = config();
    client.enable_track_unknown_transport_parameters(1000);
    let mut ends = Ends::new(&mut client, &mut config());
    let mut parameters = Vec::new();
    transport_parameters::set(&mut parameters, UNKNOWN, b"here").unwrap();
    boringssl::set_transport_parameters(ends.server.as_mut(), &parameters);
    ends.exchange();
    let found = ends.client.peer_transport_params().is_some_and(|peer| {
        let mut unknown = peer.unknown_params.iter().flat_map(|unknown| &unknown.parameters);
        unknown.any(|parameter| parameter.id == UNKNOWN)
    });
    assert_needed(ends.client.is_established() && !found, "transport_parameters.rs");
}
