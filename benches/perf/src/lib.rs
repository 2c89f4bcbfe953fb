//! What `tack-perf` and the programs under `benches/rivals` share: the command line, the
//! application protocol, the two processes of a run, and the report.
//!
//! A program implements [`Stack`] for its QUIC library and hands its command to [`execute`]. All of
//! them speak the same application protocol, so that any client works with any server.

#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod cpu_time;
mod execute;
mod latency;
mod options;
mod protocol;
mod report;
mod table;
mod versions;

pub use cpu_time::process_cpu_time;
pub use execute::{Stack, announce, execute};
pub use latency::{Latency, LatencyHistogram};
pub use options::{
    ClientOptions, Command, Mode, ProfileName, ServerOptions, TransportOptions, Work,
};
pub use protocol::{ALPN, ORDER_LEN, Order, PAYLOAD, Reply};
pub use report::{Bytes, EndReport, Outcome, Report, Rtt};
pub use versions::locked_version;
