//! Feeds arbitrary payloads to the frame decoder, and what it decodes back to the encoders.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tack_proto::frame::check_payload;

fuzz_target!(|payload: &[u8]| {
    // Refusing a payload is fine; contradicting itself panics.
    let _ = check_payload(payload);
});
