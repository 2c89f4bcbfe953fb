// What must hold of every input; for the fuzz targets, and for the test that replays their corpora.
#![allow(dead_code)] // each target uses its part
#![allow(clippy::unwrap_used)] // a connection that cannot be set up is a failure

#[path = "../../src/boringssl.rs"]
mod boringssl;

pub mod boundaries;
mod ends;
mod identity;
pub mod incoming;
mod input;
mod log;
mod peer;
pub mod transport_parameters;
