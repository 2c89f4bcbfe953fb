//! What a server is told when it begins, and what of that all servers of a port share.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use tack_endpoint::QuicLbConfig;

use super::life::Claims;
use super::request::{ServerEvent, Service};
use crate::cc_parameters::Store;
use crate::identity::Identity;
use crate::protocol::{GroupCommit, Root};

/// What a server serves, and to whom.
#[non_exhaustive]
pub struct ServerOptions {
    /// Where to listen.
    pub listen: SocketAddr,
    /// Certificate and key.
    pub identity: Identity,
    /// Plain QUIC or TACK.
    pub profile: tacklib::Profile,
    /// The directory.
    pub root: Root,
    /// Whether clients may only read.
    pub read_only: bool,
    /// The access token; `None` lets everybody in.
    pub token: Option<String>,
    /// Whether a client has to show that it has its address before anything is kept of it, which takes a
    /// round trip (RFC 9000 section 8.1.2), while several others are in their handshake.
    pub retry: bool,
    /// Whether symbolic links are listed, and taken from clients; they are followed in no case.
    pub links: bool,
    /// Whether a server that runs as root lets clients give files to other users; owners are told in any case.
    pub owners: bool,
    /// Most bytes per second to write to each file.
    pub write_limit: Option<u64>,
    /// Most bytes per second of each connection in each direction, if there is a limit.
    pub rate: Option<u64>,
    /// Directory for the qlog files of connections; created if it does not exist.
    pub qlog: Option<PathBuf>,
    /// Whether the next connection of an address goes on where one before has left off.
    pub careful_resume: bool,
    /// The file that keeps what connections have observed; without one a server keeps it in memory.
    pub cc_parameters: Option<Store>,
    /// Whether requests may come with a client's first packet (0-RTT). Those that change something are served once
    /// the handshake is complete: others can record what a client has sent early, and send it again.
    pub early_data: bool,
    /// Whether there is a TLS session before anybody has connected
    /// ([`Server::first_session`](super::Server::first_session)).
    pub gives_session: bool,
    /// What a load balancer reads from connection ids, if there is one (draft-ietf-quic-load-balancers).
    pub quic_lb: Option<QuicLbConfig>,
    /// Called, by any thread, when a request is done.
    pub report: Box<dyn Fn(ServerEvent) + Send + Sync>,
}

impl ServerOptions {
    /// A server of `root` for reading alone, for clients with the `token`; `None` lets everybody in.
    pub fn new(
        listen: SocketAddr,
        root: Root,
        identity: Identity,
        token: Option<String>,
    ) -> Self {
        Self {
            listen,
            identity,
            profile: tacklib::Profile::Default,
            root,
            read_only: true,
            token,
            retry: true,
            links: true,
            owners: true,
            write_limit: None,
            rate: None,
            qlog: None,
            careful_resume: true,
            cc_parameters: None,
            early_data: true,
            gives_session: false,
            quic_lb: None,
            report: Box::new(|_| {}),
        }
    }

    /// What all servers of the port have.
    pub(super) fn into_parts(self) -> Parts {
        let service = Service {
            root: Arc::new(self.root),
            read_only: self.read_only,
            links: self.links,
            owners: self.owners,
            write_limit: self.write_limit,
            claims: Claims::default(),
            commit: GroupCommit::start(),
            workers: Arc::default(),
            report: self.report,
        };
        Parts { token: self.token, rate: self.rate, service: Arc::new(service) }
    }
}

/// What all servers of a port have from the options.
pub(super) struct Parts {
    pub(super) token: Option<String>,
    pub(super) rate: Option<u64>,
    pub(super) service: Arc<Service>,
}
