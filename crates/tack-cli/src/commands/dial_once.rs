//! Connects for ssh, whose standard output is the socket that takes the connection.

use std::time::Duration;

use crate::cli::DialOnceArgs;
use crate::error::Error;
use crate::ssh::dial;

/// Connects, and hands over the connection.
pub fn dial_once(args: &DialOnceArgs) -> Result<(), Error> {
    let timeout = args.timeout.map(|seconds| Duration::from_secs(seconds.into()));
    let handed_over = dial(&args.host, args.port, timeout, args.keep_alive, std::io::stdout());
    handed_over.map_err(|error| {
        Error::Ssh(format!("connecting to {} port {}: {error}", args.host, args.port))
    })
}
