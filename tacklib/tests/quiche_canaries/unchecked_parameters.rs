//! Two errors in transport parameters that quiche accepts (RFC 9000 sections 18.2 and 7.3).

use tack_proto::transport_parameters::set;

use crate::boringssl;
use crate::harness::*;

#[test]
fn disable_active_migration_with_a_value_is_accepted() {
    let mut ends = Ends::new(&mut config(), &mut config());
    let mut parameters = Vec::new();
    set(&mut parameters, 0x0f, &ends.client.source_id()).unwrap();
    set(&mut parameters, 0x0c, &[1]).unwrap();
    boringssl::set_transport_parameters(ends.client.as_mut(), &parameters);
    ends.exchange();
    assert_needed(ends.server.is_established(), "unchecked_parameters.rs");
}

#[test]
fn retry_source_connection_id_without_a_retry_is_accepted() {
    let mut ends = Ends::new(&mut config(), &mut config());
    let mut parameters = Vec::new();
    set(&mut parameters, 0x00, &ends.client.destination_id()).unwrap();
    set(&mut parameters, 0x0f, &ends.server.source_id()).unwrap();
    set(&mut parameters, 0x10, &[7; 8]).unwrap();
    assert!(boringssl::set_transport_parameters_later(ends.server.as_mut(), parameters));
    ends.exchange();
    assert_needed(ends.client.is_established(), "unchecked_parameters.rs");
}
