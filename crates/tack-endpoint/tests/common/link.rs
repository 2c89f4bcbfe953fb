//! A link with a delay and a rate between endpoints that run on threads of their own.

use std::collections::VecDeque;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::nonblocking;

/// What a link does to datagrams, the same in both directions.
#[derive(Clone, Copy)]
pub struct Shape {
    pub one_way: Duration,
    pub bytes_per_second: u64,
    /// What may wait for the rate; more is dropped.
    pub buffer: u64,
}

/// Carries datagrams between one client and a server until it is dropped.
pub struct Link {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Link {
    pub fn new(server: SocketAddr, shape: Shape) -> Self {
        let (front, back) = (nonblocking(), nonblocking());
        let address = front.local_addr().unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let (mut up, mut down) = (Way::new(shape), Way::new(shape));
            let mut client = None;
            while !told.load(Ordering::Relaxed) {
                client = up.take_in(&front).or(client);
                down.take_in(&back);
                up.deliver(&back, server);
                if let Some(client) = client {
                    down.deliver(&front, client);
                }
                std::thread::sleep(Duration::from_micros(200));
            }
        });
        Self { address, stop, thread: Some(thread) }
    }

    /// Where the client finds the server.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Way {
    shape: Shape,
    /// When the last byte will have left the buffer.
    busy_until: Instant,
    /// With the time of arrival.
    queue: VecDeque<(Instant, Vec<u8>)>,
}

impl Way {
    fn new(shape: Shape) -> Self {
        Self { shape, busy_until: Instant::now(), queue: VecDeque::new() }
    }

    /// Takes in what has arrived; returns where the last of it came from.
    fn take_in(&mut self, socket: &UdpSocket) -> Option<SocketAddr> {
        let mut buffer = [0; 65_536];
        let mut last = None;
        while let Ok((len, from)) = socket.recv_from(&mut buffer) {
            last = Some(from);
            let now = Instant::now();
            let begin = self.busy_until.max(now);
            if begin - now > self.time_of(self.shape.buffer) {
                continue;
            }
            self.busy_until = begin + self.time_of(len as u64);
            let arrival = self.busy_until + self.shape.one_way;
            self.queue.push_back((arrival, buffer[..len].to_vec()));
        }
        last
    }

    fn deliver(&mut self, socket: &UdpSocket, to: SocketAddr) {
        let now = Instant::now();
        while self.queue.front().is_some_and(|(arrival, _)| *arrival <= now)
            && let Some((_, datagram)) = self.queue.pop_front()
        {
            // A full socket buffer loses it, as a network would.
            let _ = socket.send_to(&datagram, to);
        }
    }

    fn time_of(&self, bytes: u64) -> Duration {
        Duration::from_nanos(bytes * 1_000_000_000 / self.shape.bytes_per_second)
    }
}
