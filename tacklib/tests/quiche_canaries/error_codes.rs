//! quiche cannot write some of what an application may say when it closes or resets.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::harness::*;

#[test]
fn a_close_whose_reason_does_not_fit_a_packet_is_never_sent() {
    let mut ends = Ends::established();
    sent(&mut ends.client);
    ends.client.close(true, 7, &[b'x'; 5000]).unwrap();
    assert_needed(sent(&mut ends.client).is_empty(), "error_codes.rs");
}

#[test]
fn an_error_code_beyond_a_varint_ends_in_a_panic() {
    let mut ends = Ends::established();
    ends.client.close(true, u64::MAX, b"").unwrap();
    let panics = catch_unwind(AssertUnwindSafe(|| ends.client.send(&mut [0; 1500]))).is_err();
    assert_needed(panics, "error_codes.rs");
}
