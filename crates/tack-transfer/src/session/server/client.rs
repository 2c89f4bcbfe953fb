//! One connection of a server: what its client has said so far, and the workers of its requests, which have limits of their
//! own and of all connections.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc;
use std::time::Instant;

use subtle::ConstantTimeEq;

use crate::protocol::{Decoder, Message};
use crate::quic::{self, CloseCode, MAX_STREAMS};
use crate::session::life::Life;
use crate::session::mailbox::{Mailbox, Notify};
use crate::session::pump::Pump;
use crate::session::pumps::Pumps;
use crate::session::request::Service;

/// The stream that opens a connection.
pub(super) const HELLO_STREAM: u64 = 0;

/// Workers of one connection, those included whose stream has ended.
const MAX_WORKERS: usize = 2 * MAX_STREAMS as usize;

/// The same before the handshake is complete: somebody who has recorded early data may have sent it.
const MAX_EARLY_WORKERS: usize = 4;

/// Workers of all connections at which a connection gets none beyond [`LEAST_WORKERS`].
pub(super) const MAX_WORKERS_OF_ALL: usize = 256;

/// Workers that a connection may have in any case: a listing waits until what it has found is fetched.
const LEAST_WORKERS: usize = 2;

pub(super) struct Client {
    pub(super) address: SocketAddr,
    /// Until the token was right.
    pub(super) hello: Option<Decoder>,
    /// The handshake is complete. Until then it counts as a stranger, whatever token it has said.
    pub(super) is_here: bool,
    pub(super) pumps: Pumps,
    /// When its rate limit lets something move again, or a request may get a worker, if that holds it up.
    pub(super) resumes_at: Option<Instant>,
    pub(super) life: Arc<Life>,
    pub(super) notify: Notify,
    /// One reference for each running worker, and this one.
    pub(super) workers: Arc<()>,
}

/// What came of a connection's opening message.
pub(super) enum Greeting {
    /// It is not there yet.
    Incomplete,
    /// It was wrong; the connection is closed.
    Refused,
    /// The token was right.
    Welcome,
}

impl Client {
    /// Reads the opening message. Nothing else is looked at before the token was right.
    pub(super) fn greet(
        &mut self,
        conn: &mut tacklib::Connection,
        token: Option<&str>,
    ) -> Greeting {
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
    pub(super) fn accept_streams(
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

/// Nobody waits for its handshake any more, however a connection ends.
impl Drop for Client {
    fn drop(&mut self) {
        self.life.handshake.close();
    }
}

pub(super) fn close(conn: &mut tacklib::Connection, code: CloseCode, reason: &str) {
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
    use super::*;

    #[test]
    fn tokens_are_equal_only_if_they_are_the_same() {
        assert!(equal_in_constant_time("token", "token"));
        assert!(!equal_in_constant_time("token", "token2"));
        assert!(!equal_in_constant_time("token", ""));
    }
}
