//! The serving end: accepts connections, checks tokens, gives each request a worker.

mod client;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc;
use std::time::{Duration, Instant, SystemTime};

use tack_endpoint::{CloseReason, Endpoint, Event, Handle, Network, Waker};

use super::life::Life;
use super::mailbox::Notify;
use super::pumps::Pumps;
use super::rate_limit::RateLimits;
use super::request::{Action, ServerEvent};
use super::server_options::{Parts, ServerOptions};
use super::shared::{SharedCcParameters, SharedStrangers};
use super::strangers::{MAX_HELLO, MAX_OF_STRANGER};
use super::workers;
use crate::error::Error;
use crate::protocol::{Decoder, TransferError, WirePath};
use crate::quic::CloseCode;
use client::{Client, Greeting, HELLO_STREAM, close};

/// How long a client may take to say the token once the handshake is done.
const HELLO_TIMEOUT: Duration = Duration::from_secs(10);
/// How often to look after clients that are late.
const TICK: Duration = Duration::from_secs(1);
/// How long to wait for the CONNECTION_CLOSEs of all clients to leave.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);
/// How often to look whether workers have ended then.
const WORKERS_LOOK: Duration = Duration::from_millis(5);
/// How soon to look again for a worker that other connections, or the system, leave no room for.
const WORKERS_RETRY: Duration = Duration::from_millis(100);

/// A server that one thread drives: whoever calls [`run`](Self::run) or [`turn`](Self::turn), or the one that
/// [`start`](Self::start) starts; or one of several on a port ([`Workers`](super::Workers)). Each request has a worker
/// thread besides, for the disk.
pub struct Server {
    endpoint: Endpoint,
    parts: Arc<Parts>,
    clients: HashMap<Handle, Client>,
    strangers: SharedStrangers<Handle>,
    /// Connections whose workers have moved a queue.
    notices: mpsc::Receiver<Handle>,
    notice: mpsc::Sender<Handle>,
    /// What connections have observed, by the client's address: ports change with each.
    cc_parameters: Option<SharedCcParameters>,
    satisfied: u64,
    pub(super) first_session: Option<Vec<u8>>,
}

impl Server {
    /// Binds the socket.
    pub fn new(options: ServerOptions) -> Result<Self, Error> {
        let mut servers = workers::servers(options, 1)?;
        Ok(servers.pop().ok_or(tack_endpoint::Error::Workers(0))?)
    }

    /// A server on an endpoint, with what it shares with the others of the port.
    pub(super) fn of_port(
        endpoint: Endpoint,
        parts: &Arc<Parts>,
        strangers: SharedStrangers<Handle>,
        cc_parameters: Option<SharedCcParameters>,
    ) -> Self {
        let (notice, notices) = mpsc::channel();
        Self {
            endpoint,
            parts: Arc::clone(parts),
            clients: HashMap::new(),
            strangers,
            notices,
            notice,
            cc_parameters,
            satisfied: 0,
            first_session: None,
        }
    }

    /// The address it listens on.
    pub fn local_addr(&self) -> SocketAddr {
        self.endpoint.local_addr()
    }

    /// A TLS session for a client that is told of it in a way which keeps it as secret as the access token, if the server
    /// was to give one ([`ServerOptions::gives_session`]): its requests leave with the first packet
    /// ([`ConnectOptions::session`](crate::ConnectOptions::session)).
    pub fn first_session(&self) -> Option<&[u8]> {
        self.first_session.as_deref()
    }

    /// Ends [`run`](Self::run)'s waiting, from any thread.
    pub fn waker(&self) -> Waker {
        self.endpoint.waker()
    }

    /// Serves until `stop` says so, which is asked at least once a second; then closes all
    /// connections.
    pub fn run(&mut self, mut stop: impl FnMut() -> bool) -> Result<(), Error> {
        self.run_until(|_| stop())
    }

    /// Whether somebody is connected.
    pub fn has_clients(&self) -> bool {
        !self.clients.is_empty()
    }

    /// How many are connected.
    #[cfg(test)]
    pub(super) fn clients(&self) -> usize {
        self.clients.len()
    }

    /// How many clients have got everything that they wanted.
    pub fn satisfied(&self) -> u64 {
        self.satisfied
    }

    /// As [`run`](Self::run), for who stops depending on what the server does.
    pub fn run_until(&mut self, mut is_over: impl FnMut(&Self) -> bool) -> Result<(), Error> {
        while !is_over(self) {
            self.turn(TICK)?;
        }
        self.endpoint.shutdown(CloseCode::Done as u64, b"the server was stopped");
        let deadline = Instant::now() + CLOSE_TIMEOUT;
        while !self.clients.is_empty() && Instant::now() < deadline {
            self.turn(CLOSE_TIMEOUT)?;
        }
        // Who leaves the process when this returns leaves nothing behind that workers would have removed.
        while Arc::strong_count(&self.parts.service) > 1 && Instant::now() < deadline {
            std::thread::sleep(WORKERS_LOOK);
        }
        Ok(())
    }

    /// Serves once; waits up to `wait` if there is nothing to do.
    pub fn turn(&mut self, wait: Duration) -> Result<(), Error> {
        let now = Instant::now();
        let resumes_at = self.clients.values().filter_map(|client| client.resumes_at).min();
        let wait = resumes_at.map_or(wait, |at| wait.min(at.saturating_duration_since(now)));
        self.endpoint.poll(Some(wait))?;
        self.serve_active();
        Ok(self.endpoint.flush()?)
    }

    /// One of the connections, for measurements; `None` if there is none.
    pub fn any_connection(&self) -> Option<&tacklib::Connection> {
        self.endpoint.connection(*self.clients.keys().next()?)
    }

    fn serve_active(&mut self) {
        let now = Instant::now();
        let mut active: Vec<Handle> = self.notices.try_iter().collect();
        active.extend(self.strangers.released(now));
        let resumes = |client: &Client| client.resumes_at.is_some_and(|at| at <= now);
        active
            .extend(self.clients.iter().filter(|(_, c)| resumes(c)).map(|(handle, _)| *handle));
        while let Some(event) = self.endpoint.next_event() {
            match event {
                Event::Connected(handle) => {
                    self.admit(handle, now);
                    self.on_handshake(handle);
                    active.push(handle);
                }
                // The first one if there is early data.
                Event::Activity(handle) => {
                    self.admit(handle, now);
                    self.strangers.on_activity(handle, now);
                    active.push(handle);
                }
                Event::Closed(handle, reason) => {
                    log::debug!("{handle}: {reason}");
                    if let Some(is_whole) = self.is_satisfied(handle, &reason) {
                        self.satisfied += u64::from(is_whole);
                        if let Some(client) = self.clients.get(&handle) {
                            client.life.has_all.store(true, Ordering::Release);
                        }
                    }
                    self.strangers.remove(handle);
                    self.keep_cc_parameters(handle);
                    self.clients.remove(&handle);
                }
                _ => {}
            }
        }
        active.sort_unstable();
        active.dedup();
        for handle in active {
            self.drive(handle, now);
        }
        for handle in self.strangers.take_dismissed() {
            self.dismiss(handle, CloseCode::Busy, "too many connections");
        }
        for handle in self.strangers.late(HELLO_TIMEOUT, now) {
            self.dismiss(handle, CloseCode::Busy, "no access token in time");
        }
    }

    /// For a connection whose client has said the token, and has closed it because it has all that it wanted: whether
    /// that is all that there was.
    fn is_satisfied(&self, handle: Handle, reason: &CloseReason) -> Option<bool> {
        let CloseReason::Peer { application: true, code, .. } = reason else { return None };
        let is_whole = match *code {
            code if code == CloseCode::Satisfied as u64 => true,
            code if code == CloseCode::SatisfiedInPart as u64 => false,
            _ => return None,
        };
        let client = self.clients.get(&handle)?;
        client.hello.is_none().then_some(is_whole)
    }

    /// Takes a connection in, once.
    fn admit(&mut self, handle: Handle, now: Instant) {
        if self.clients.contains_key(&handle) {
            return;
        }
        let Some(conn) = self.endpoint.connection_mut(handle) else { return };
        let Some(address) = conn.path_stats().next().map(|path| path.peer_addr) else { return };
        let (shared, time) = (self.cc_parameters.as_ref(), SystemTime::now());
        if let Some(saved) = shared.and_then(|shared| shared.take(address.ip(), time)) {
            conn.set_cc_parameters(saved, time);
        }
        let (notice, waker) = (self.notice.clone(), self.endpoint.waker());
        let notify: Notify = Arc::new(move || {
            // A server that is gone needs no notice.
            if notice.send(handle).is_ok() {
                // Fails only if the endpoint is gone too.
                let _ = waker.wake();
            }
        });
        let client = Client {
            address,
            hello: Some(Decoder::with_limit(MAX_HELLO)),
            is_here: false,
            pumps: Pumps::new(RateLimits::new(self.parts.rate)),
            resumes_at: None,
            life: Life::new(Arc::clone(&notify)),
            notify,
            workers: Arc::new(()),
        };
        self.clients.insert(handle, client);
        if let Some(leaves) = self.strangers.admit(handle, Network::of(address.ip()), now) {
            self.dismiss(leaves, CloseCode::Busy, "too many connections");
        }
    }

    /// The client has completed the handshake: what it says is not the echo of an earlier connection.
    fn on_handshake(&mut self, handle: Handle) {
        let Some(client) = self.clients.get_mut(&handle) else { return };
        client.life.handshake.open();
        client.is_here = true;
        if client.hello.is_none() {
            self.strangers.remove(handle);
        }
    }

    /// The client has said the token, and hears so: from then on it sends as much as it may.
    ///
    /// If that came as early data, it may be an echo. Whoever sends that can send nothing that has not been recorded,
    /// and gives way as a stranger until the handshake is complete; who waited to say this until then would let a round
    /// trip pass.
    fn welcome(&mut self, handle: Handle) {
        self.endpoint.lift_receive_limit(handle);
        if let Some(conn) = self.endpoint.connection_mut(handle) {
            // Fails only if the client has gone.
            let _ = conn.stream_send(HELLO_STREAM, &[], true);
        }
    }

    /// Keeps what a connection has observed that is over, unless the client has moved.
    fn keep_cc_parameters(&mut self, handle: Handle) {
        let (Some(shared), Some(client)) = (&self.cc_parameters, self.clients.get(&handle))
        else {
            return;
        };
        let Some(conn) = self.endpoint.connection(handle) else { return };
        let address = client.address.ip();
        let is_same =
            conn.path_stats().any(|path| path.active && path.peer_addr.ip() == address);
        let now = SystemTime::now();
        if let Some(observed) = conn.cc_parameters(now).filter(|_| is_same) {
            shared.put(address, observed, now);
        }
    }

    fn drive(&mut self, handle: Handle, now: Instant) {
        let Some(client) = self.clients.get_mut(&handle) else { return };
        let Some(conn) = self.endpoint.connection_mut(handle) else { return };
        client.life.heard.store(conn.stats().recv, Ordering::Relaxed);
        if client.life.condemned.load(Ordering::Relaxed) {
            close(conn, CloseCode::Superseded, "silent while another transfer was waiting");
            return;
        }
        if client.life.ask.swap(false, Ordering::Relaxed) {
            // Fails only if the connection is over.
            let _ = conn.send_ack_eliciting();
        }
        let was_stranger = client.hello.is_some();
        if was_stranger {
            let network = Network::of(client.address.ip());
            let may_enter = if self.strangers.is_held(handle, network, now) {
                return;
            } else {
                client.greet(conn, self.parts.token.as_deref())
            };
            match may_enter {
                Greeting::Incomplete => {
                    if conn.stats().recv_bytes > MAX_OF_STRANGER {
                        self.dismiss(
                            handle,
                            CloseCode::Busy,
                            "too much before the access token",
                        );
                    }
                    return;
                }
                Greeting::Refused => {
                    self.strangers.on_failure(handle, network, now);
                    self.strangers.remove(handle);
                    (self.parts.service.report)(failed_login(client.address));
                    return;
                }
                Greeting::Welcome => self.strangers.on_success(network),
            }
        }
        let has_all_workers = client.accept_streams(conn, &self.parts.service);
        if let Err(error) = client.pumps.drive(conn, now) {
            close(conn, CloseCode::Protocol, &error.to_string());
            return;
        }
        client.resumes_at = client.pumps.limits.resumes_at(now);
        if !has_all_workers {
            let retry = now + WORKERS_RETRY;
            client.resumes_at = Some(client.resumes_at.map_or(retry, |at| at.min(retry)));
        }
        if was_stranger {
            if client.is_here {
                self.strangers.remove(handle);
            }
            self.welcome(handle);
        }
    }

    fn dismiss(&mut self, handle: Handle, code: CloseCode, reason: &str) {
        self.strangers.remove(handle);
        if let Some(conn) = self.endpoint.connection_mut(handle) {
            close(conn, code, reason);
        }
    }
}

fn failed_login(client: SocketAddr) -> ServerEvent {
    let (action, path) = (Action::LogIn, WirePath::root());
    ServerEvent { client, action, path, result: Err(TransferError::WrongToken) }
}

#[cfg(test)]
mod tests;
