//! quiche neither passes on a frame of an unknown type nor lets an application send one: so the layer opens
//! and seals its packets.

use crate::harness::*;
use crate::missing_hooks::has_only;

#[test]
fn a_frame_of_an_unknown_type_closes_the_connection() {
    let mut ends = Ends::established();
    // Type 0x3f, four bytes.
    let result = ends.inject(&[0x3f, 0, 0, 0]);
    assert_needed(
        result.is_err() && ends.server.local_error().is_some(),
        "packet_rewriting.rs",
    );
}

#[test]
fn no_function_takes_a_frame() {
    assert_needed(has_only(&["frame", "extension"], &[]), "packet_rewriting.rs");
}
