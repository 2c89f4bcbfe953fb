//! Has a peer announce arbitrary transport parameters.

#![no_main]

#[path = "../checks/mod.rs"]
mod checks;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| checks::transport_parameters::check(input));
