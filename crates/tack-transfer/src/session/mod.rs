//! Connections: streams joined to worker threads, the server, the client.
//!
//! One thread drives the socket and all connections of a client, and of a server unless that has several
//! ([`Workers`]). The disk is touched by
//! worker threads only, one for each stream; a worker and its stream exchange messages over two
//! short queues ([`Mailbox`]). When a worker is slow its queue fills, the stream is not read
//! any further, and QUIC's flow control holds the peer; nothing piles up in between.

mod batch;
mod client;
mod connecting;
mod content;
#[cfg(test)]
mod early_data_tests;
mod first_session;
mod handshake_gate;
mod life;
mod mailbox;
mod offered;
mod pump;
mod pumps;
mod race;
mod rate_limit;
mod removed;
mod request;
#[cfg(test)]
mod request_tests;
mod running_server;
mod server;
mod server_options;
mod shared;
mod silence;
mod strangers;
mod trust;
mod workers;

pub use batch::{
    Expected, Results, kept, receive_bundles, send_bundles, unchanged, uncommitted,
    with_attributes,
};
pub use client::{ConnectOptions, EarlyData, Link, Transport};
pub use content::{Outcome, Progress, receive_content, send_content};
pub use mailbox::{Mailbox, Notify};
pub use request::{Action, ServerEvent};
pub use running_server::RunningServer;
pub use server::Server;
pub use server_options::ServerOptions;
pub use trust::Trust;
pub use workers::Workers;
