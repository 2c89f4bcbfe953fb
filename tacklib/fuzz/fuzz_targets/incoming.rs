//! Feeds packets with arbitrary frames, sealed with valid keys, to a connection.

#![no_main]

#[path = "../checks/mod.rs"]
mod checks;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| checks::incoming::check_with_costs(input));
