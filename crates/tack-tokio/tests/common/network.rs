//! A network in memory, in virtual time: endpoints on sockets that tokio's paused clock drives.

use std::cell::Cell;
use std::collections::{BTreeMap, HashMap};
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tack_tokio::{AsyncUdpSocket, Burst, DatagramSocket, ReceiveBuffers};
use tack_virtual::Virtual;
use tacklib::EcnCodepoint;
use tokio::time::{Instant, Sleep};

use super::XorShift;

/// Runs a test in virtual time: tokio's clock is paused and goes on when all tasks wait, and the clock that
/// quiche reads follows it. Both are of this thread alone.
pub fn simulate<T>(seed: u64, test: impl Future<Output = T>) -> T {
    thread_local!(static CLOCK: Cell<Option<Virtual>> = const { Cell::new(None) });
    println!("seed {seed}");
    CLOCK.set(Some(Virtual::enter(seed)));
    let start = std::time::Instant::now();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .on_thread_unpark(move || {
            let clock = CLOCK.take();
            if let Some(clock) = &clock {
                clock.set(Instant::now().into_std().saturating_duration_since(start));
            }
            CLOCK.set(clock);
        })
        .build()
        .unwrap();
    let result = runtime.block_on(test);
    // Its tasks read the clock once more.
    drop(runtime);
    CLOCK.set(None);
    result
}

/// What the network does to datagrams.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub delay: Duration,
    /// Of a hundred datagrams so many are lost.
    pub loss_percent: usize,
}

/// A network that loses and delays datagrams.
#[derive(Clone)]
pub struct Network(Arc<Mutex<State>>);

struct State {
    shape: Shape,
    random: XorShift,
    is_cut: bool,
    ports: HashMap<SocketAddr, Port>,
    sequence: u64,
}

#[derive(Default)]
struct Port {
    /// In the order of their arrival.
    arriving: BTreeMap<(Instant, u64), (SocketAddr, Vec<u8>)>,
    waker: Option<Waker>,
    /// Takes nothing to send, and says so.
    is_full: bool,
    /// What was to arrive waits here, once it is held up.
    held: Option<Vec<(SocketAddr, Vec<u8>)>>,
    last_sent: Vec<u8>,
}

impl Network {
    pub fn new(seed: u64, shape: Shape) -> Self {
        let random = XorShift(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let ports = HashMap::new();
        let state = State { shape, random, is_cut: false, ports, sequence: 0 };
        Self(Arc::new(Mutex::new(state)))
    }

    /// A socket with an address of its own.
    pub fn socket(&self, port: u16) -> Box<dyn AsyncUdpSocket> {
        let local = SocketAddr::from(([10, 0, 0, 1], port));
        self.0.lock().unwrap().ports.insert(local, Port::default());
        let sleep = Box::pin(tokio::time::sleep(Duration::ZERO));
        Box::new(Socket { network: self.clone(), local, sleep })
    }

    /// Holds up what is sent to an address, until [`release`](Self::release).
    pub fn hold(&self, to: SocketAddr) {
        self.0.lock().unwrap().ports.entry(to).or_default().held = Some(Vec::new());
    }

    /// Has all that was held up arrive at once.
    pub fn release(&self, to: SocketAddr) {
        let mut state = self.0.lock().unwrap();
        for (from, datagram) in state.ports.entry(to).or_default().held.take().unwrap() {
            state.arrive(from, to, datagram, Duration::ZERO);
        }
    }

    /// Has the socket of an address take nothing to send until it is told otherwise, as one whose buffer is full.
    pub fn fill(&self, from: SocketAddr, is_full: bool) {
        let mut state = self.0.lock().unwrap();
        let port = state.ports.entry(from).or_default();
        port.is_full = is_full;
        if let Some(waker) = port.waker.take() {
            waker.wake();
        }
    }

    /// What is held up.
    pub fn held(&self, to: SocketAddr) -> Vec<(SocketAddr, Vec<u8>)> {
        self.0.lock().unwrap().ports.entry(to).or_default().held.clone().unwrap()
    }

    /// Sends a datagram that may name any address as its source.
    pub fn forge(&self, from: SocketAddr, to: SocketAddr, datagram: Vec<u8>) {
        self.0.lock().unwrap().arrive(from, to, datagram, Duration::ZERO);
    }

    /// The last datagram that was sent from an address.
    pub fn last_sent(&self, from: SocketAddr) -> Vec<u8> {
        self.0.lock().unwrap().ports.entry(from).or_default().last_sent.clone()
    }

    /// Loses everything from now on.
    pub fn cut(&self) {
        self.0.lock().unwrap().is_cut = true;
    }
}

impl State {
    fn arrive(&mut self, from: SocketAddr, to: SocketAddr, datagram: Vec<u8>, delay: Duration) {
        self.sequence += 1;
        let key = (Instant::now() + delay, self.sequence);
        let Some(port) = self.ports.get_mut(&to) else { return };
        if let Some(held) = &mut port.held {
            held.push((from, datagram));
            return;
        }
        port.arriving.insert(key, (from, datagram));
        if let Some(waker) = port.waker.take() {
            waker.wake();
        }
    }
}

struct Socket {
    network: Network,
    local: SocketAddr,
    /// Until the next arrival.
    sleep: Pin<Box<Sleep>>,
}

impl DatagramSocket for Socket {
    fn local_addr(&self) -> SocketAddr {
        self.local
    }

    fn max_segments(&self) -> usize {
        1
    }

    fn send(&mut self, burst: &Burst<'_>) -> io::Result<()> {
        let mut state = self.network.0.lock().unwrap();
        if state.ports.entry(self.local).or_default().is_full {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let is_lost = state.random.below(100) < state.shape.loss_percent || state.is_cut;
        let datagram = burst.contents.to_vec();
        state.ports.entry(self.local).or_default().last_sent.clone_from(&datagram);
        if !is_lost {
            let delay = state.shape.delay;
            state.arrive(self.local, burst.to, datagram, delay);
        }
        Ok(())
    }

    fn receive(&mut self, buffers: &mut ReceiveBuffers) -> io::Result<usize> {
        let mut state = self.network.0.lock().unwrap();
        let port = state.ports.get_mut(&self.local).unwrap();
        let mut count = 0;
        while count < buffers.len()
            && let Some(first) = port.arriving.first_entry()
            && first.key().0 <= Instant::now()
        {
            let (from, datagram) = first.remove();
            assert!(buffers.put(count, &datagram, (from, self.local), EcnCodepoint::NotEct));
            count += 1;
        }
        if count == 0 { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(count) }
    }
}

impl AsyncUdpSocket for Socket {
    fn poll_readable(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let next = {
            let mut state = self.network.0.lock().unwrap();
            let port = state.ports.get_mut(&self.local).unwrap();
            port.waker = Some(cx.waker().clone());
            port.arriving.first_key_value().map(|((at, _), _)| *at)
        };
        let Some(next) = next else { return Poll::Pending };
        if next <= Instant::now() {
            return Poll::Ready(Ok(()));
        }
        self.sleep.as_mut().reset(next);
        self.sleep.as_mut().poll(cx).map(Ok)
    }

    fn poll_writable(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut state = self.network.0.lock().unwrap();
        let port = state.ports.get_mut(&self.local).unwrap();
        if port.is_full {
            port.waker = Some(cx.waker().clone());
            return Poll::Pending;
        }
        Poll::Ready(Ok(()))
    }
}
