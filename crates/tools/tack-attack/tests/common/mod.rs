//! A server whose client is a puppet, and what a packet costs it.

#![allow(dead_code)] // each test uses some of it
#![allow(clippy::unwrap_used, clippy::expect_used)] // a test that cannot be set up has failed

use std::time::Duration;

use quiche::RecvInfo;
use rustix::time::{ClockId, clock_gettime};
use tack_attack::{
    ConnectionIndex, Kind, Network, PipeConfig, Setup, Side, client_address, pipe,
    server_address,
};
use tacklib::Profile;

/// What this thread has cost so far.
pub fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}

pub fn median(mut costs: Vec<Duration>) -> Duration {
    costs.sort_unstable();
    costs[costs.len() / 2]
}

/// A server, and a puppet as its client, on a fast link of this round trip.
pub fn connect(
    network: &mut Network,
    mbps: f64,
    rtt: Duration,
    window: u64,
) -> ConnectionIndex {
    let way = PipeConfig { buffer_bytes: u64::MAX, ..pipe(mbps, rtt / 2, 0) };
    let link = network.link(&way, &way);
    let setup = |kind| Setup {
        window,
        configure: Some(|config| config.set_initial_max_streams_uni(100_000)),
        ..Setup::new(kind)
    };
    let server = setup(Kind::Tack(Profile::Default));
    let connection = network.connect(link, setup(Kind::Puppet(Profile::Default)), server);
    network.handshake();
    connection
}

/// Gives the server a datagram and takes what it answers: the CPU time of both.
pub fn cost_of(
    network: &mut Network,
    connection: ConnectionIndex,
    datagram: Vec<u8>,
) -> Duration {
    try_cost_of(network, connection, datagram).unwrap()
}

/// The same, if the server takes the datagram.
pub fn try_cost_of(
    network: &mut Network,
    connection: ConnectionIndex,
    mut datagram: Vec<u8>,
) -> quiche::Result<Duration> {
    let server = network.end_mut(connection, Side::Server).tack();
    let info = RecvInfo { from: client_address(0), to: server_address() };
    let mut buffer = [0; 1500];
    let start = cpu_time();
    server.recv(&mut datagram, info)?;
    while server.send(&mut buffer).is_ok() {}
    Ok(cpu_time().saturating_sub(start))
}
