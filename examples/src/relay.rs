//! A path over loopback: a thread that forwards datagrams with a delay and at a rate.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::Link;

/// Time between two looks at the sockets.
const NAP: Duration = Duration::from_micros(200);

/// Longest time that a datagram waits for the rate.
const BUFFER: Duration = Duration::from_millis(50);

/// The network between one client and a server.
///
/// Over the bare loopback, datagrams arrive by the hundred and are acknowledged as many at once,
/// which does not happen on a network.
pub struct Relay {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<io::Result<()>>>,
}

impl Relay {
    /// Starts a relay to `server`, each way with `rate` in bits per second and half of `rtt`.
    pub fn start(server: SocketAddr, rate: u64, rtt: Duration) -> io::Result<Self> {
        let [front, back] = [bind()?, bind()?];
        back.connect(server)?;
        let address = front.local_addr()?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let now = Instant::now();
        let mut ways = [(); 2].map(|()| Link::new(now, rate, rtt / 2, BUFFER));
        let thread = std::thread::spawn(move || {
            let mut client = None;
            while !stopped.load(Ordering::Relaxed) {
                pass(&front, &back, &mut client, &mut ways)?;
                std::thread::sleep(NAP);
            }
            Ok(())
        });
        Ok(Self { address, stop, thread: Some(thread) })
    }

    /// Where the client finds the server.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // Its outcome no longer matters.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

fn bind() -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

/// Reads what either side has sent, and forwards what is due.
fn pass(
    front: &UdpSocket,
    back: &UdpSocket,
    client: &mut Option<SocketAddr>,
    [up, down]: &mut [Link; 2],
) -> io::Result<()> {
    let mut buffer = [0; 2048];
    while let Some((len, from)) = unless_blocked(front.recv_from(&mut buffer))? {
        *client = Some(from);
        up.send(Instant::now(), &buffer[..len]);
    }
    while let Some(len) = unless_blocked(back.recv(&mut buffer))? {
        down.send(Instant::now(), &buffer[..len]);
    }
    let now = Instant::now();
    while let Some(datagram) = up.receive(now) {
        unless_blocked(back.send(&datagram))?;
    }
    if let Some(client) = client {
        while let Some(datagram) = down.receive(now) {
            unless_blocked(front.send_to(&datagram, *client))?;
        }
    }
    Ok(())
}

/// A socket that is not ready or whose peer is gone loses the datagram, as a network does.
fn unless_blocked<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) => match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::ConnectionRefused => Ok(None),
            _ => Err(error),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_datagram_and_its_answer_take_the_round_trip() {
        let server = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let client = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        for socket in [&server, &client] {
            socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        }
        let rtt = Duration::from_millis(30);
        let relay = Relay::start(server.local_addr().unwrap(), 1_000_000, rtt).unwrap();
        let start = Instant::now();
        client.send_to(b"hello", relay.address()).unwrap();
        let mut buffer = [0; 16];
        let (len, from) = server.recv_from(&mut buffer).unwrap();
        server.send_to(&buffer[..len], from).unwrap();
        assert_eq!(client.recv(&mut buffer).unwrap(), 5);
        assert!(start.elapsed() >= rtt, "{:?}", start.elapsed());
        assert_eq!(&buffer[..5], b"hello");
    }
}
