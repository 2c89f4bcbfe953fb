//! A NAT that forgets.

use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Passes datagrams between a client and a server, until it is dropped.
pub struct Nat {
    address: SocketAddr,
    forgets: Arc<AtomicBool>,
    stops: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Nat {
    pub fn before(server: SocketAddr) -> Self {
        let inside = socket();
        let address = inside.local_addr().unwrap();
        let (forgets, stops) = (Arc::<AtomicBool>::default(), Arc::<AtomicBool>::default());
        let thread = std::thread::spawn({
            let (forgets, stops) = (Arc::clone(&forgets), Arc::clone(&stops));
            move || pass(&inside, server, &forgets, &stops)
        });
        Self { address, forgets, stops, thread: Some(thread) }
    }

    /// Where the client sends to.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What comes for the port that the server knows goes nowhere from now on; what the client sends has another one.
    pub fn forget(&self) {
        self.forgets.store(true, Ordering::SeqCst);
    }
}

impl Drop for Nat {
    fn drop(&mut self) {
        self.stops.store(true, Ordering::SeqCst);
        self.thread.take().unwrap().join().unwrap();
    }
}

fn socket() -> UdpSocket {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
    socket
}

fn pass(inside: &UdpSocket, server: SocketAddr, forgets: &AtomicBool, stops: &AtomicBool) {
    let (mut outside, mut client) = (socket(), None);
    let mut buffer = [0; 2000];
    while !stops.load(Ordering::SeqCst) {
        if forgets.swap(false, Ordering::SeqCst) {
            outside = socket();
        }
        if let Some((len, from)) = received(inside.recv_from(&mut buffer)) {
            client = Some(from);
            outside.send_to(&buffer[..len], server).unwrap();
        }
        if let (Some((len, _)), Some(client)) =
            (received(outside.recv_from(&mut buffer)), client)
        {
            inside.send_to(&buffer[..len], client).unwrap();
        }
    }
}

fn received(result: std::io::Result<(usize, SocketAddr)>) -> Option<(usize, SocketAddr)> {
    match result {
        Ok(received) => Some(received),
        Err(error) => {
            let kinds =
                [ErrorKind::WouldBlock, ErrorKind::TimedOut, ErrorKind::ConnectionRefused];
            assert!(kinds.contains(&error.kind()), "{error}");
            None
        }
    }
}
