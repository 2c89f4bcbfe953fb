//! The command line of `tack-perf` and of the programs beside it.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Result, ensure};
use clap::{Args, Subcommand, ValueEnum};
use serde::Serialize;

use crate::protocol::{Order, Reply};

/// The most bytes that a client asks for or sends in one direction.
const MOST_BYTES: u64 = 1 << 40;

/// What a program can be told to do.
#[derive(Clone, Debug, Subcommand)]
pub enum Command {
    /// Serve clients, one connection at a time; the address is the first line on standard output.
    Server(ServerOptions),
    /// Measure against a server.
    Client {
        /// Address of the server.
        address: SocketAddr,
        /// What to measure.
        #[command(flatten)]
        options: ClientOptions,
    },
    /// Measure between two processes on the loopback interface: starts a server for it.
    Run {
        /// Profile of the server, if not the client's.
        #[arg(long)]
        server_profile: Option<ProfileName>,
        /// What to measure.
        #[command(flatten)]
        options: ClientOptions,
    },
}

/// Options of a server.
#[derive(Clone, Debug, Args)]
pub struct ServerOptions {
    /// Address to listen on; port 0 takes any.
    #[arg(long, default_value = "127.0.0.1:4433")]
    pub listen: SocketAddr,
    /// Exit after so many connections.
    #[arg(long)]
    pub connections: Option<u64>,
    /// Exit after so many seconds.
    #[arg(long, default_value_t = 3600)]
    pub time_limit: u64,
    /// Of the connections.
    #[command(flatten)]
    pub transport: TransportOptions,
}

/// Options of a client.
#[derive(Clone, Debug, Args, Serialize)]
pub struct ClientOptions {
    /// What to transfer.
    #[command(flatten)]
    #[serde(flatten)]
    pub work: Work,
    /// Of the connection.
    #[command(flatten)]
    #[serde(flatten)]
    pub transport: TransportOptions,
    /// Print one line of JSON instead of a table.
    #[arg(long)]
    #[serde(skip)]
    pub json: bool,
}

/// How the ends are set up.
#[derive(Clone, Debug, Args, Serialize)]
pub struct TransportOptions {
    /// Acknowledgement profile of tacklib; `off` is plain quiche [default: default]
    #[arg(long)]
    pub profile: Option<ProfileName>,
    /// Largest UDP payload, bytes.
    #[arg(long, default_value_t = 1452, value_parser = clap::value_parser!(u16).range(1200..=1472))]
    pub udp_payload: u16,
    /// Let tacklib find out how large datagrams the path takes, instead.
    #[arg(long)]
    pub discover_path_mtu: bool,
    /// Receive window of a stream, and send buffer where the library lets that be set, MiB; the
    /// connection's is twice that.
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=512))]
    pub window_mib: u32,
    /// Requested size of the socket's buffers, KiB.
    #[arg(long, default_value_t = 2048, value_parser = clap::value_parser!(u32).range(64..=65536))]
    pub socket_buffer_kib: u32,
    /// Send each datagram in a system call of its own: no generic segmentation offload.
    #[arg(long)]
    pub no_gso: bool,
    /// Go by when datagrams are read, not by when they came to the socket.
    #[arg(long)]
    pub no_arrival_times: bool,
}

impl TransportOptions {
    /// The receive window of a stream, bytes.
    pub fn stream_window(&self) -> u32 {
        self.window_mib << 20
    }

    /// The receive window of the connection, bytes.
    pub fn connection_window(&self) -> u32 {
        self.stream_window() * 2
    }

    /// The socket's buffers, bytes.
    pub fn socket_buffer(&self) -> usize {
        self.socket_buffer_kib as usize * 1024
    }
}

/// What a client transfers.
#[derive(Clone, Debug, Args, Serialize)]
pub struct Work {
    /// Direction of the data, or requests.
    #[arg(long, value_enum, default_value_t = Mode::Down)]
    pub mode: Mode,
    /// Bulk data in each direction that has any, MiB.
    #[arg(long, default_value_t = 64, conflicts_with = "seconds")]
    pub mib: u64,
    /// Send bulk data for so long instead, seconds.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=3600))]
    pub seconds: Option<u32>,
    /// Requests, one after the other.
    #[arg(long, default_value_t = 1000)]
    pub requests: u64,
    /// Bytes of a request.
    #[arg(long, default_value_t = 100)]
    pub request_bytes: u64,
    /// Bytes of a reply.
    #[arg(long, default_value_t = 10_000)]
    pub reply_bytes: u64,
    /// Give up after so many seconds.
    #[arg(long, default_value_t = 300)]
    pub time_limit: u64,
}

/// What is transferred.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Bulk data from the server.
    Down,
    /// Bulk data to the server.
    Up,
    /// Both at once, a stream each.
    Both,
    /// Requests, each on a stream of its own, one after the other.
    Requests,
}

impl Mode {
    /// The mode as the command line names it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Down => "down",
            Self::Up => "up",
            Self::Both => "both",
            Self::Requests => "requests",
        }
    }
}

/// A profile of tacklib.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum ProfileName {
    /// tacklib's default.
    Default,
    /// The paper's values.
    Video,
    /// Slow flows are acknowledged packet by packet.
    Quick,
    /// Plain quiche.
    Off,
}

impl ProfileName {
    /// The profile as the command line names it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Video => "video",
            Self::Quick => "quick",
            Self::Off => "off",
        }
    }
}

impl Work {
    /// Checks what the parser cannot.
    pub fn check(&self) -> Result<()> {
        ensure!((1..=MOST_BYTES >> 20).contains(&self.mib), "--mib is from 1 to 1048576");
        ensure!(
            (1..=100_000_000).contains(&self.requests),
            "--requests is from 1 to 100000000"
        );
        ensure!((1..=3600 * 24).contains(&self.time_limit), "--time-limit is from 1 to 86400");
        ensure!(self.request_bytes <= MOST_BYTES, "--request-bytes is at most 2^40");
        ensure!(self.reply_bytes <= MOST_BYTES, "--reply-bytes is at most 2^40");
        Ok(())
    }

    /// How long the work may take before it counts as stalled.
    pub fn patience(&self) -> Duration {
        Duration::from_secs(self.time_limit)
    }

    /// How long bulk data is sent, if not so many bytes.
    pub fn duration(&self) -> Option<Duration> {
        self.seconds.map(|seconds| Duration::from_secs(seconds.into()))
    }

    /// Bytes of bulk data in a direction, at most.
    pub fn bulk_bytes(&self) -> u64 {
        if self.seconds.is_some() { MOST_BYTES } else { self.mib << 20 }
    }

    /// The bulk streams: each an order, and the payload that follows it.
    pub fn bulk(&self) -> Vec<(Order, u64)> {
        let down = Order {
            time_limit: self.duration().unwrap_or_default(),
            ..Order::new(Reply::AtOnce, self.bulk_bytes())
        };
        // One byte tells the client that everything has arrived.
        let up = Order::new(Reply::AfterRequest, 1);
        match self.mode {
            Mode::Down => vec![(down, 0)],
            Mode::Up => vec![(up, self.bulk_bytes())],
            Mode::Both => vec![(down, 0), (up, self.bulk_bytes())],
            Mode::Requests => Vec::new(),
        }
    }
}
