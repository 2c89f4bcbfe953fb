//! The serving end: accepts connections, checks tokens, gives each request a worker.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant, SystemTime};

use subtle::ConstantTimeEq;
use tack_endpoint::{CloseReason, Endpoint, Event, Handle, Network, QuicLbConfig, Waker};

use super::life::{Claims, Life};
use super::mailbox::{Mailbox, Notify};
use super::pump::Pump;
use super::pumps::Pumps;
use super::rate_limit::RateLimits;
use super::request::{Action, ServerEvent, Service};
use super::shared::{SharedCcParameters, SharedStrangers};
use super::strangers::{MAX_HELLO, MAX_OF_STRANGER};
use super::workers;
use crate::cc_parameters::Store;
use crate::error::Error;
use crate::identity::Identity;
use crate::protocol::{Decoder, GroupCommit, Message, Root, TransferError, WirePath};
use crate::quic::{self, CloseCode, MAX_STREAMS};

/// How long a client may take to say the token once the handshake is done.
const HELLO_TIMEOUT: Duration = Duration::from_secs(10);
/// How often to look after clients that are late.
const TICK: Duration = Duration::from_secs(1);
/// How long to wait for the CONNECTION_CLOSEs of all clients to leave.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);
/// How often to look whether workers have ended then.
const WORKERS_LOOK: Duration = Duration::from_millis(5);
/// The stream that opens a connection.
const HELLO_STREAM: u64 = 0;
/// Workers of one connection, those included whose stream has ended.
const MAX_WORKERS: usize = 2 * MAX_STREAMS as usize;
/// The same before the handshake is complete: early data may be somebody's who has recorded it.
const MAX_EARLY_WORKERS: usize = 4;
/// Workers of all connections at which a connection gets none beyond [`LEAST_WORKERS`].
const MAX_WORKERS_OF_ALL: usize = 256;
/// Workers that a connection may have in any case: a listing waits until what it has found is fetched.
const LEAST_WORKERS: usize = 2;
/// How soon to look again for a worker that other connections, or the system, leave no room for.
const WORKERS_RETRY: Duration = Duration::from_millis(100);

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
    /// the handshake is complete: what a client has sent early, others who have recorded it can send again.
    pub early_data: bool,
    /// Whether there is a TLS session before anybody has connected ([`Server::first_session`]).
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
    token: Option<String>,
    rate: Option<u64>,
    service: Arc<Service>,
}

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

/// A server on a thread of its own; dropped, it stops.
pub struct RunningServer {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    waker: Waker,
    thread: Option<std::thread::JoinHandle<Result<(), Error>>>,
}

impl RunningServer {
    /// The address it listens on.
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Closes all connections. An error is the one that has ended the server before.
    pub fn stop(mut self) -> Result<(), Error> {
        self.end()
    }

    fn end(&mut self) -> Result<(), Error> {
        self.stop.store(true, Ordering::Relaxed);
        // Fails only if the server is gone.
        let _ = self.waker.wake();
        let ended = self.thread.take().map(std::thread::JoinHandle::join);
        // A thread that has panicked has said so.
        ended.and_then(Result::ok).unwrap_or(Ok(()))
    }
}

impl Drop for RunningServer {
    fn drop(&mut self) {
        // Whoever wants to know the error calls stop.
        let _ = self.end();
    }
}

struct Client {
    address: SocketAddr,
    /// Until the token was right.
    hello: Option<Decoder>,
    /// The handshake is complete. Until then it counts as a stranger, whatever token it has said.
    is_here: bool,
    pumps: Pumps,
    /// When its rate limit lets something move again, or a request may get a worker, if that holds it up.
    resumes_at: Option<Instant>,
    life: Arc<Life>,
    notify: Notify,
    /// One reference for each running worker, and this one.
    workers: Arc<()>,
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

    /// Serves on a thread of its own, until the value that this returns is stopped or dropped.
    pub fn start(mut self) -> RunningServer {
        let (stop, address, waker) =
            (Arc::new(AtomicBool::new(false)), self.local_addr(), self.waker());
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || self.run(|| stopped.load(Ordering::Relaxed)));
        RunningServer { address, stop, waker, thread: Some(thread) }
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

/// What came of a connection's opening message.
enum Greeting {
    /// It is not there yet.
    Incomplete,
    /// It was wrong; the connection is closed.
    Refused,
    /// The token was right.
    Welcome,
}

fn failed_login(client: SocketAddr) -> ServerEvent {
    let (action, path) = (Action::LogIn, WirePath::root());
    ServerEvent { client, action, path, result: Err(TransferError::WrongToken) }
}

impl Client {
    /// Reads the opening message. Nothing else is looked at before the token was right.
    fn greet(&mut self, conn: &mut tacklib::Connection, token: Option<&str>) -> Greeting {
        let mut buffer = [0; 1024];
        loop {
            let Some(decoder) = &mut self.hello else { return Greeting::Welcome };
            let Ok((length, _)) = conn.stream_recv(HELLO_STREAM, &mut buffer) else {
                return Greeting::Incomplete;
            };
            match decoder.push(&mut &buffer[..length]) {
                Ok(None) => {}
                Ok(Some(Message::Hello { token: given, rate, .. })) => {
                    let given = given.map(|secret| secret.0).unwrap_or_default();
                    if token.is_some_and(|token| !equal_in_constant_time(token, &given)) {
                        close(conn, CloseCode::WrongToken, "wrong access token");
                        return Greeting::Refused;
                    }
                    self.hello = None;
                    if let Some(rate) = rate {
                        self.pumps.limits.writing.lower_to(rate);
                    }
                }
                Ok(Some(_)) | Err(_) => {
                    close(conn, CloseCode::Protocol, "expected the access token first");
                    return Greeting::Refused;
                }
            }
        }
    }

    /// Gives each request a worker. Returns false if one waits for workers of other connections, or for the system:
    /// nothing tells this connection when to look again.
    fn accept_streams(
        &mut self,
        conn: &mut tacklib::Connection,
        service: &Arc<Service>,
    ) -> bool {
        let version = quic::version_of(conn.application_proto()).unwrap_or_default();
        self.life.version.store(version, Ordering::Relaxed);
        for stream in conn.readable() {
            if stream == HELLO_STREAM {
                // Nothing follows the opening message but its end.
                let _ = conn.stream_recv(stream, &mut [0; 64]);
                continue;
            }
            // Beyond the limit, requests wait in their streams.
            let limit = if self.is_here { MAX_WORKERS } else { MAX_EARLY_WORKERS };
            let running = Arc::strong_count(&self.workers) - 1;
            if self.pumps.contains(stream) || running >= limit {
                continue;
            }
            let of_all = Arc::strong_count(&service.workers) - 1;
            if running >= LEAST_WORKERS && of_all >= MAX_WORKERS_OF_ALL {
                return false;
            }
            if let Err(error) = self.start_worker(stream, service) {
                log::debug!("a request waits, because no thread can be started: {error}");
                return false;
            }
        }
        true
    }

    /// Starts the worker of a request.
    fn start_worker(&mut self, stream: u64, service: &Arc<Service>) -> std::io::Result<()> {
        let (service, life) = (Arc::clone(service), Arc::clone(&self.life));
        let (worker, client) = (Arc::clone(&self.workers), self.address);
        let worker = (worker, Arc::clone(&service.workers));
        // Only a thread that runs gets the mailbox: dropping it would give notice, and the next attempt would follow at
        // once.
        let (give, taken) = mpsc::sync_channel::<Mailbox>(1);
        std::thread::Builder::new().spawn(move || {
            let Ok(mailbox) = taken.recv() else { return };
            service.serve(&mailbox, &life, client);
            // Counted out before the mailbox closes, whose notice makes room for the next.
            drop(worker);
            drop(mailbox);
        })?;
        let (pump, mailbox) = Pump::new(stream, Arc::clone(&self.notify));
        self.pumps.insert(stream, pump);
        // The thread waits for it.
        let _ = give.send(mailbox.with_flag(&self.life.has_all));
        Ok(())
    }
}

/// However a connection ends, nobody waits for its handshake any more.
impl Drop for Client {
    fn drop(&mut self) {
        self.life.handshake.close();
    }
}

fn close(conn: &mut tacklib::Connection, code: CloseCode, reason: &str) {
    // Fails only if it is closed already.
    let _ = conn.close(true, code as u64, reason.as_bytes());
}

/// Compares digests of equal length, so that neither content nor length of the token shows in
/// the time it takes.
fn equal_in_constant_time(token: &str, given: &str) -> bool {
    let digest = |text: &str| blake3::hash(text.as_bytes());
    digest(token).as_bytes().ct_eq(digest(given).as_bytes()).into()
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;
    use std::thread;

    use tacklib::CcParameters;

    use super::*;
    use crate::server_address::ServerAddress;
    use crate::session::{ConnectOptions, Link, Trust};

    fn server(directory: &std::path::Path) -> Server {
        let identity = Identity::in_directory(&directory.join("identity")).unwrap();
        let listen = SocketAddr::from(([127, 0, 0, 1], 0));
        let root = Root::open(directory).unwrap();
        Server::new(ServerOptions::new(listen, root, identity, None)).unwrap()
    }

    // TACK-6.7-9
    #[test]
    fn a_server_that_ends_waits_for_what_its_workers_have_to_remove() {
        let directory = tempfile::tempdir().unwrap();
        let mut server = server(directory.path());
        let (working, ended) =
            (Arc::clone(&server.parts.service), Arc::new(AtomicBool::new(false)));
        let tell = Arc::clone(&ended);
        let worker = thread::spawn(move || {
            thread::sleep(Duration::from_millis(100));
            tell.store(true, Ordering::Relaxed);
            drop(working);
        });
        server.run_until(|_| true).unwrap();
        assert!(ended.load(Ordering::Relaxed));
        worker.join().unwrap();
    }

    #[test]
    fn a_connection_takes_what_its_address_has_left_and_gives_back_what_it_has_not_used() {
        let directory = tempfile::tempdir().unwrap();
        let mut server = server(directory.path());
        let address = IpAddr::from([127, 0, 0, 1]);
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
        let saved = CcParameters {
            saved_cwnd: 1_000_000,
            saved_rtt: Duration::from_millis(40),
            saved_at: now.as_secs(),
        };
        server.cc_parameters.as_ref().unwrap().put(address, saved, SystemTime::now());
        let target = ServerAddress::from(server.local_addr());
        let (leave, left) = mpsc::channel();
        let client = thread::spawn(move || {
            let options = ConnectOptions::new(Trust::Anything);
            let mut link = Link::connect(&target, options).unwrap();
            while left.try_recv() == Err(mpsc::TryRecvError::Empty) {
                link.turn(Duration::from_millis(10)).unwrap();
            }
            link.close(CloseCode::Done, "");
        });
        let end = Instant::now() + Duration::from_secs(8);
        while server.clients.is_empty() && Instant::now() < end {
            server.turn(Duration::from_millis(10)).unwrap();
        }
        let shared = server.cc_parameters.as_ref().unwrap();
        assert_eq!(shared.take(address, SystemTime::now()), None, "it is in use");
        leave.send(()).unwrap();
        let end = Instant::now() + Duration::from_secs(8);
        while !server.clients.is_empty() && Instant::now() < end {
            server.turn(Duration::from_millis(10)).unwrap();
        }
        client.join().unwrap();
        let shared = server.cc_parameters.as_ref().unwrap();
        assert_eq!(shared.take(address, SystemTime::now()), Some(saved));
    }

    /// A request whose worker stays, on a thread of its own; `answered` hears when it is served.
    fn lasting_request(link: &mut Link, answered: &mpsc::Sender<()>) -> mpsc::Sender<()> {
        let mailbox = link.open().unwrap().unwrap();
        let (answered, (end, ended)) = (answered.clone(), mpsc::channel());
        thread::spawn(move || {
            mailbox.send(Message::GetDigests { paths: Vec::new() }).unwrap();
            assert_eq!(mailbox.recv().unwrap(), Message::EndOfDigests);
            answered.send(()).unwrap();
            let _ = ended.recv();
        });
        end
    }

    #[test]
    fn where_others_have_all_workers_a_connection_has_two() {
        let directory = tempfile::tempdir().unwrap();
        let server = server(directory.path());
        let of_others = vec![Arc::clone(&server.parts.service.workers); MAX_WORKERS_OF_ALL];
        let target = ServerAddress::from(server.local_addr());
        let server = server.start();
        let mut link = Link::connect(&target, ConnectOptions::new(Trust::Anything)).unwrap();
        let (answered, answers) = mpsc::channel();
        let requests: Vec<_> = (0..3).map(|_| lasting_request(&mut link, &answered)).collect();
        let mut turn_until = |wanted, longest| {
            let (end, mut heard) = (Instant::now() + longest, 0);
            while heard < wanted && Instant::now() < end {
                link.turn(Duration::from_millis(10)).unwrap();
                heard += answers.try_iter().count();
            }
            heard
        };
        assert_eq!(turn_until(2, Duration::from_secs(8)), 2);
        assert_eq!(turn_until(1, 3 * WORKERS_RETRY), 0);
        drop(of_others);
        assert_eq!(turn_until(1, Duration::from_secs(8)), 1);
        drop(requests);
        server.stop().unwrap();
    }

    #[test]
    fn tokens_are_equal_only_if_they_are_the_same() {
        assert!(equal_in_constant_time("token", "token"));
        assert!(!equal_in_constant_time("token", "token2"));
        assert!(!equal_in_constant_time("token", ""));
    }
}
