//! A server of quiche's that rejects the transport parameters of a client says nothing (RFC 9000 section 7.4
//! has it close the connection with TRANSPORT_PARAMETER_ERROR).

use tack_proto::transport_parameters;

use crate::boringssl;
use crate::harness::*;

#[test]
fn a_client_whose_parameters_are_rejected_hears_nothing() {
    let mut ends = Ends::new(&mut config(), &mut config());
    let mut parameters = Vec::new();
    // ack_delay_exponent may be 20 at most (section 18.2).
    transport_parameters::set(&mut parameters, 0x0a, &[21]).unwrap();
    boringssl::set_transport_parameters(ends.client.as_mut(), &parameters);
    let mut rejected = false;
    for (datagram, _) in sent(&mut ends.client) {
        rejected |= ends.deliver_to_server(datagram).is_err();
    }
    assert!(rejected);
    assert_needed(sent(&mut ends.server).is_empty(), "rejected_parameters.rs");
}
