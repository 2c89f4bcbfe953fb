//! Sessions of an endpoint.

use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr};

use tack_endpoint::{ByNetwork, Network};
use tack_tokio::{Connection, Endpoint};
use tokio::task::{AbortHandle, Id, JoinError, JoinSet};

use super::Request;
use crate::Error;

/// So many connections may be about to ask for a session.
const MAX_HANDSHAKES: usize = 256;

/// Takes clients' requests for sessions from the connections of an endpoint.
///
/// Connections on which no session is asked for are closed. Where 256 connections have not asked yet, the oldest of the
/// network with most of them is closed for the next one: an IPv4 address or the first 64 bits of an IPv6 address cannot
/// keep the clients of others out. Dropping it closes those that have not asked yet, and leaves the endpoint open if
/// there are other handles of it.
#[derive(Debug)]
pub struct Server {
    endpoint: Endpoint,
    handshakes: Handshakes,
}

impl Server {
    /// Takes an endpoint whose configuration of a server is for HTTP/3: see [the module](super).
    pub fn new(endpoint: Endpoint) -> Self {
        Self { endpoint, handshakes: Handshakes::default() }
    }

    /// The endpoint.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Waits for the next request; `None` once the endpoint is closed or has failed. Cancellation safe.
    pub async fn accept(&mut self) -> Option<Request> {
        loop {
            tokio::select! {
                // A request that is there does not give way any more.
                biased;
                Some(finished) = self.handshakes.next() => match finished {
                    Ok(Ok(request)) => return Some(request),
                    Ok(Err(error)) => log::debug!("no session on a connection: {error}"),
                    Err(error) if error.is_cancelled() => {
                        log::debug!("a connection without a request has given way to another");
                    }
                    Err(error) => log::warn!("the handshake of a session: {error}"),
                },
                connection = self.endpoint.accept() => self.handshakes.begin(connection?),
            }
        }
    }
}

/// Connections that are about to ask for a session.
#[derive(Debug, Default)]
struct Handshakes {
    tasks: JoinSet<Result<Request, Error>>,
    by_network: ByNetwork<Id>,
    /// Where each of them is in `by_network`, and what ends it.
    running: HashMap<Id, (Network, AbortHandle)>,
}

impl Handshakes {
    /// Waits for a request on this connection, too.
    fn begin(&mut self, connection: Connection) {
        // Without an address it has no path any more, and ends by itself. No client has the address that it counts for.
        let none = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
        let network =
            Network::of(connection.remote_address().map_or(none, |address| address.ip()));
        let task = self.tasks.spawn(Request::receive(connection));
        self.by_network.push(network, task.id());
        self.running.insert(task.id(), (network, task));
        if self.by_network.len() > MAX_HANDSHAKES {
            self.give_up_one();
        }
    }

    /// Ends the oldest handshake of the network that has most.
    fn give_up_one(&mut self) {
        let oldest = self.by_network.most().and_then(VecDeque::front).copied();
        if let Some(task) = oldest.and_then(|id| self.forget(id)) {
            task.abort();
        }
    }

    /// Waits for the next that has ended; `None` if there is none.
    async fn next(&mut self) -> Option<Result<Result<Request, Error>, JoinError>> {
        let ended = self.tasks.join_next_with_id().await?;
        let id = ended.as_ref().map_or_else(JoinError::id, |(id, _)| *id);
        self.forget(id);
        Some(ended.map(|(_, result)| result))
    }

    fn forget(&mut self, id: Id) -> Option<AbortHandle> {
        let (network, task) = self.running.remove(&id)?;
        self.by_network.remove(network, &id);
        Some(task)
    }
}
