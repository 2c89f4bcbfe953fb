//! A server of several threads on one port: an endpoint and its connections on each.

use std::net::SocketAddr;
use std::panic;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use ring::rand::{SecureRandom, SystemRandom};
use tack_endpoint::{Endpoint, Waker};

use super::first_session::first_session;
use super::server::Server;
use super::server_options::ServerOptions;
use super::shared::{SharedCcParameters, SharedStrangers, Wake};
use super::strangers::MAX_OF_STRANGER;
use crate::error::Error;
use crate::quic;

/// Clients of each thread that are in their handshake at once before the next ones have to show with a Retry that they
/// have their addresses. Honest ones are rarely so many; forged addresses cost as many handshakes in ten seconds.
const HALF_OPEN_WITHOUT_RETRY: usize = 16;

/// Bytes of BoringSSL's ticket keys.
const TICKET_KEY: usize = 48;

/// A running server of one or several threads.
pub struct Workers {
    servers: Vec<Server>,
}

impl Workers {
    /// Binds as many sockets to the port as there are to be threads.
    pub fn new(options: ServerOptions, count: usize) -> Result<Self, Error> {
        servers(options, count).map(|servers| Self { servers })
    }

    /// The address it listens on.
    pub fn local_addr(&self) -> Option<SocketAddr> {
        self.servers.first().map(Server::local_addr)
    }

    /// What ends the waiting of [`run`](Self::run), from any thread.
    pub fn wakers(&self) -> Vec<Waker> {
        self.servers.iter().map(Server::waker).collect()
    }

    /// Serves until `stop` is set and the wakers are used, or until one of the threads fails; then closes all
    /// connections.
    pub fn run(self, stop: &AtomicBool) -> Result<(), Error> {
        let (wakers, ended) = (self.wakers(), AtomicBool::new(false));
        let run = |mut server: Server| {
            let _end = EndOfOne { ended: &ended, wakers: &wakers };
            server.run(|| stop.load(Ordering::Relaxed) || ended.load(Ordering::Relaxed))
        };
        let run = &run;
        thread::scope(|scope| {
            let mut servers = self.servers.into_iter();
            let first = servers.next();
            let others: Vec<_> =
                servers.map(|server| scope.spawn(move || run(server))).collect();
            let first = first.map_or(Ok(()), run);
            others.into_iter().fold(first, |result, other| {
                result
                    .and(other.join().unwrap_or_else(|panicked| panic::resume_unwind(panicked)))
            })
        })
    }
}

/// Ends all threads when one has ended, in whatever way: half a server would look like a whole one.
struct EndOfOne<'a> {
    ended: &'a AtomicBool,
    wakers: &'a [Waker],
}

impl Drop for EndOfOne<'_> {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        for waker in self.wakers {
            // Fails only if that endpoint is gone.
            let _ = waker.wake();
        }
    }
}

/// A key for TLS session tickets that all servers of a port have: a client comes to another one each time.
fn random_key() -> Result<[u8; TICKET_KEY], Error> {
    let mut key = [0; TICKET_KEY];
    SystemRandom::new()
        .fill(&mut key)
        .map_err(|_| Error::Certificate("no random numbers from the system".to_owned()))?;
    Ok(key)
}

/// The servers of a port.
pub(super) fn servers(options: ServerOptions, count: usize) -> Result<Vec<Server>, Error> {
    let identity = &options.identity;
    let mut endpoint_config = quic::endpoint_config(options.qlog.as_deref())?;
    endpoint_config.reset_key = Some(identity.reset_key()?);
    endpoint_config.retry = options.retry;
    endpoint_config.half_open_without_retry = HALF_OPEN_WITHOUT_RETRY;
    endpoint_config.receive_limit = Some(MAX_OF_STRANGER);
    endpoint_config.quic_lb.clone_from(&options.quic_lb);
    // Of one server alone BoringSSL makes a key, and another one every other day.
    let is_shared = count > 1 || options.gives_session;
    let ticket_key = if is_shared { Some(random_key()?) } else { None };
    let config = || {
        let mut config =
            quic::server_config(options.profile, &identity.certificate, &identity.key)?;
        if let Some(rate) = options.rate {
            quic::limit_windows(&mut config, rate);
        }
        if options.early_data {
            config.enable_early_data();
        }
        if let Some(key) = &ticket_key {
            config.set_ticket_key(key)?;
        }
        Ok::<_, Error>(config)
    };
    let first_session = if options.gives_session {
        first_session(&mut config()?, options.profile)?
    } else {
        None
    };
    let configs = (0..count).map(|_| config()).collect::<Result<Vec<_>, _>>()?;
    let listen = options.listen;
    let cc_parameters =
        options.careful_resume.then(|| SharedCcParameters::new(options.cc_parameters.clone()));
    let parts = Arc::new(options.into_parts());
    let endpoints = Endpoint::workers(listen, configs, &endpoint_config)?;
    let strangers = SharedStrangers::for_servers(endpoints.len());
    if let Some(strangers) = strangers.first() {
        let wake = |endpoint: &Endpoint| -> Wake {
            let waker = endpoint.waker();
            // Fails only if that endpoint is gone, and the connection with it.
            Box::new(move || drop(waker.wake()))
        };
        strangers.set_wakes(endpoints.iter().map(wake).collect());
    }
    let server = |(endpoint, strangers)| {
        Server::of_port(endpoint, &parts, strangers, cc_parameters.clone())
    };
    let mut servers: Vec<_> = endpoints.into_iter().zip(strangers).map(server).collect();
    if let Some(server) = servers.first_mut() {
        server.first_session = first_session;
    }
    Ok(servers)
}
