//! Sockets that fail.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test may fail anywhere"
)]
#![allow(clippy::disallowed_methods, reason = "a simulation begins at some time")]
#![allow(missing_docs, reason = "nothing here is public")]

mod common;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use common::network::{Network, Shape, simulate};
use common::{client_config, server_config};
use tack_tokio::{
    AsyncUdpSocket, Burst, ConnectionError, DatagramSocket, Endpoint, EndpointConfig, Error,
    ReceiveBuffers,
};
use tokio::time::{Instant, timeout};

const MS: Duration = Duration::from_millis(1);
const CLEAN: Shape = Shape { delay: Duration::from_millis(20), loss_percent: 0 };

/// In what way a socket fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// It cannot be waited for until there is something to read.
    Readable(io::ErrorKind),
    /// It takes nothing, and cannot be waited for until it does.
    Writable(io::ErrorKind),
    Receive,
}

/// A socket that fails always, and counts how often it was asked.
struct Faulty {
    fault: Fault,
    asked: Arc<AtomicU32>,
}

impl Faulty {
    fn fail<T>(&self, kind: io::ErrorKind) -> io::Result<T> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        Err(kind.into())
    }
}

impl DatagramSocket for Faulty {
    fn local_addr(&self) -> SocketAddr {
        ([10, 0, 0, 1], 1000).into()
    }

    fn max_segments(&self) -> usize {
        1
    }

    fn send(&mut self, _: &Burst<'_>) -> io::Result<()> {
        match self.fault {
            Fault::Writable(_) => Err(io::ErrorKind::WouldBlock.into()),
            _ => Ok(()),
        }
    }

    fn receive(&mut self, _: &mut ReceiveBuffers) -> io::Result<usize> {
        match self.fault {
            Fault::Receive => self.fail(io::ErrorKind::NotConnected),
            _ => Err(io::ErrorKind::WouldBlock.into()),
        }
    }
}

impl AsyncUdpSocket for Faulty {
    fn poll_readable(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.fault {
            Fault::Readable(kind) => Poll::Ready(self.fail(kind)),
            Fault::Writable(_) => Poll::Pending,
            Fault::Receive => Poll::Ready(Ok(())),
        }
    }

    fn poll_writable(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.fault {
            Fault::Writable(kind) => Poll::Ready(self.fail(kind)),
            _ => Poll::Ready(Ok(())),
        }
    }
}

/// Opens an endpoint on such a socket that tries to connect; returns what becomes of both in 15 s, and how often the
/// socket was asked.
async fn run(fault: Fault) -> (Option<ConnectionError>, ConnectionError, u32) {
    let asked = Arc::new(AtomicU32::new(0));
    let socket = Box::new(Faulty { fault, asked: Arc::clone(&asked) });
    let mut config = EndpointConfig::default();
    config.handshake_timeout = Duration::from_secs(14);
    let endpoint = Endpoint::with_socket(socket, Some(server_config()), config).unwrap();
    let server = ([10, 0, 0, 1], 4433).into();
    let connecting = endpoint.connect(server, Some("localhost"), &mut client_config()).unwrap();
    let start = Instant::now();
    let error = connecting.await.unwrap_err();
    let waited = start.elapsed();
    assert!((10_000 * MS..15_000 * MS).contains(&waited), "{fault:?}: {waited:?}");
    if let Some(failure) = endpoint.failure() {
        assert!(endpoint.accept().await.is_none());
        let again = endpoint.connect(server, Some("localhost"), &mut client_config());
        let Some(Error::Stopped(stopped)) = again.err() else { panic!("{fault:?}") };
        assert_eq!(stopped.to_string(), failure.to_string());
    }
    (endpoint.failure(), error, asked.load(Ordering::Relaxed))
}

#[test]
fn a_socket_that_cannot_be_waited_for_fails_and_does_not_keep_the_task_busy() {
    let kind = io::ErrorKind::NotConnected;
    for fault in [Fault::Readable(kind), Fault::Writable(kind)] {
        simulate(1, async {
            let (failure, error, asked) = run(fault).await;
            let Some(ConnectionError::EndpointFailed(why)) = failure else {
                panic!("{fault:?}: {failure:?}");
            };
            assert!(why.to_string().contains("waiting for network events failed"), "{why}");
            assert!(matches!(error, ConnectionError::EndpointFailed(_)), "{fault:?}: {error}");
            assert!((50..200).contains(&asked), "{fault:?}: {asked}");
        });
    }
}

#[test]
fn a_socket_that_was_interrupted_is_asked_again_for_ever() {
    for kind in [io::ErrorKind::Interrupted, io::ErrorKind::WouldBlock] {
        for fault in [Fault::Readable(kind), Fault::Writable(kind)] {
            simulate(1, async {
                let (failure, error, asked) = run(fault).await;
                assert!(failure.is_none(), "{fault:?}: {failure:?}");
                assert!(matches!(error, ConnectionError::Closed(_)), "{fault:?}: {error}");
                assert!((50..250).contains(&asked), "{fault:?}: {asked}");
            });
        }
    }
}

#[test]
fn a_server_learns_why_nothing_comes_in_any_more() {
    simulate(1, async {
        let asked = Arc::new(AtomicU32::new(0));
        let socket = Box::new(Faulty { fault: Fault::Receive, asked });
        let config = Some(server_config());
        let server = Endpoint::with_socket(socket, config, EndpointConfig::default()).unwrap();
        assert!(timeout(5000 * MS, server.accept()).await.is_err());
        assert!(server.failure().is_none(), "it may recover");
        assert!(timeout(15_000 * MS, server.accept()).await.unwrap().is_none());
        let Some(ConnectionError::EndpointFailed(why)) = server.failure() else { panic!() };
        assert!(why.to_string().contains("receiving from the UDP socket failed"), "{why}");
    });
}

#[test]
fn an_endpoint_that_was_closed_has_not_failed() {
    simulate(1, async {
        let network = Network::new(1, CLEAN);
        let (socket, config) = (network.socket(4433), Some(server_config()));
        let server = Endpoint::with_socket(socket, config, EndpointConfig::default()).unwrap();
        assert!(timeout(5000 * MS, server.accept()).await.is_err());
        server.close(0, b"");
        assert!(server.accept().await.is_none());
        server.wait_idle().await;
        assert!(server.failure().is_none());
    });
}
