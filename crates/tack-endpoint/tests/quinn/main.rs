//! Our endpoint and quinn understand each other. quinn announces `min_ack_delay`.

#![allow(clippy::disallowed_methods, reason = "tests bound how long they may take")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail anywhere")]
#![allow(clippy::large_stack_arrays, reason = "buffers of the largest datagram")]
#![allow(missing_docs, reason = "nothing here is public")]

mod ack_frequency;
#[path = "../common/mod.rs"]
mod common;
mod ecn;
mod exchange;
mod key_update;
mod peer;
