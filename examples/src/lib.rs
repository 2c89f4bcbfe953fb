//! Parts that the examples share: a test certificate and a path to send over.
//!
//! - `before` and `after`: one HTTP/3 application, with plain quiche and with tacklib
//! - `request_reply`: small messages over `tack-endpoint`, and how long they take
//! - `tokio_file`: a server and a client on tokio that move a file
//!
//! `video`, a live video sender and player, is a package of its own beside them.
//!
//! Run one with `cargo run --release -p tack-examples --bin after`.

#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod certificate;
mod link;
mod relay;

pub use certificate::Certificate;
pub use link::Link;
pub use relay::Relay;
