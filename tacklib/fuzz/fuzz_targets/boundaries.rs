//! Feeds the same payload to the layer's frame reader, to quiche, and to the layer around quiche.

#![no_main]

#[path = "../checks/mod.rs"]
mod checks;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| checks::boundaries::check(input));
