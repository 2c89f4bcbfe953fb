//! Sessions of an endpoint.

use tack_tokio::Endpoint;
use tokio::task::JoinSet;

use super::Request;
use crate::Error;

/// So many connections may be about to ask for a session; others wait in the endpoint.
const MAX_HANDSHAKES: usize = 256;

/// Takes clients' requests for sessions from the connections of an endpoint.
///
/// Connections on which no session is asked for are closed. Dropping it closes those that have not asked yet, and
/// leaves the endpoint open if there are other handles of it.
#[derive(Debug)]
pub struct Server {
    endpoint: Endpoint,
    handshakes: JoinSet<Result<Request, Error>>,
}

impl Server {
    /// Takes an endpoint whose configuration of a server is for HTTP/3: see [the module](super).
    pub fn new(endpoint: Endpoint) -> Self {
        Self { endpoint, handshakes: JoinSet::new() }
    }

    /// The endpoint.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Waits for the next request; `None` once the endpoint is closed or has failed. Cancellation safe.
    pub async fn accept(&mut self) -> Option<Request> {
        loop {
            let has_room = self.handshakes.len() < MAX_HANDSHAKES;
            tokio::select! {
                connection = self.endpoint.accept(), if has_room => {
                    self.handshakes.spawn(Request::receive(connection?));
                }
                Some(finished) = self.handshakes.join_next() => match finished {
                    Ok(Ok(request)) => return Some(request),
                    Ok(Err(error)) => log::debug!("no session on a connection: {error}"),
                    Err(error) => log::warn!("the handshake of a session: {error}"),
                },
            }
        }
    }
}
