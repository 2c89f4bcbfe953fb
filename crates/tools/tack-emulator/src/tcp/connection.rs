//! A TCP connection over a link, for whoever wants to use it.

use std::fs;
use std::io::{self, ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::{Deserialize, Serialize};
use socket2::Socket;
use tack_link::Link;

use super::{Congestion, WINDOW_LIMITS, connect, listen, sender_socket};
use crate::error::Error;
use crate::tun::promptness::{Rank, ask_for_promptness};
use crate::tun::{Emulator, End, PunctualitySummary};

/// The options of a socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SocketOptions {
    /// `TCP_NODELAY`: Nagle's algorithm is off.
    pub no_delay: bool,
    /// `TCP_QUICKACK`, set again before each read, for the kernel takes it back.
    pub quick_ack: bool,
}

/// What to connect.
pub struct ConnectionOptions {
    /// The link under the connection.
    pub link: Box<dyn Link + Send>,
    /// The congestion controller of both ends.
    pub congestion: Congestion,
    /// The end at [`End::A`], which connects.
    pub client: SocketOptions,
    /// The end at [`End::B`].
    pub server: SocketOptions,
}

/// What came of a connection.
#[derive(Clone, Debug)]
pub struct ConnectionReport<C, S> {
    /// What the client's work returned.
    pub client: C,
    /// What the server's work returned.
    pub server: S,
    /// How often the delayed-ACK timer of each end sent an acknowledgement: client and server.
    pub delayed_acks: [u64; 2],
    /// Whether the emulator kept up.
    pub punctuality: PunctualitySummary,
}

/// One end of a connection; reads and writes do not block.
pub struct TcpEnd {
    socket: Socket,
    addresses: [SocketAddr; 2],
    options: SocketOptions,
    reads: u32,
    reads_with_quick_ack: u32,
}

/// Opens a connection and lets each end work on a thread of its own, in its namespace. The
/// connection is over when both have returned.
pub fn run_connection<C: Send, S: Send>(
    options: ConnectionOptions,
    client: impl FnOnce(TcpEnd) -> C + Send,
    server: impl FnOnce(TcpEnd) -> S + Send,
) -> Result<ConnectionReport<C, S>, Error> {
    let emulator = Emulator::start(options.link, ())?;
    emulator.set_sysctl("net/ipv4/tcp_rmem", WINDOW_LIMITS)?;
    emulator.set_sysctl("net/ipv4/tcp_wmem", WINDOW_LIMITS)?;
    let listener = emulator.run_at(End::B, || listen().map_err(Error::tcp("listen")))?;
    let socket = emulator.run_at(End::A, || sender_socket(options.congestion))?;
    // Before the handshake: what the kernel decides by then follows the options, too.
    set_options(&socket, options.client).map_err(Error::tcp("set the client's options"))?;
    connect(&socket, &listener).map_err(Error::tcp("connect"))?;
    let (accepted, _) = listener.accept().map_err(Error::tcp("accept"))?;
    set_options(&accepted, options.server).map_err(Error::tcp("set the server's options"))?;
    let of_client = TcpEnd::new(socket, options.client).map_err(Error::tcp("prepare"))?;
    let of_server = TcpEnd::new(accepted, options.server).map_err(Error::tcp("prepare"))?;

    let (client, server) = thread::scope(|scope| {
        let emulator = &emulator;
        let served = scope.spawn(move || {
            emulator.run_at(End::B, || {
                ask_for_promptness(Rank::End);
                Ok(server(of_server))
            })
        });
        let client = emulator.run_at(End::A, || {
            ask_for_promptness(Rank::End);
            Ok(client(of_client))
        });
        let server = served.join().unwrap_or_else(|cause| std::panic::resume_unwind(cause));
        (client, server)
    });
    let delayed =
        |end| emulator.run_at(end, || delayed_acks().map_err(Error::tcp("count ACKs")));
    let delayed_acks = [delayed(End::A)?, delayed(End::B)?];
    let record = emulator.stop()?;
    Ok(ConnectionReport {
        client: client?,
        server: server?,
        delayed_acks,
        punctuality: record.punctuality.summary(),
    })
}

fn set_options(socket: &Socket, options: SocketOptions) -> io::Result<()> {
    socket.set_tcp_nodelay(options.no_delay)?;
    if options.quick_ack { socket.set_tcp_quickack(true) } else { Ok(()) }
}

impl TcpEnd {
    fn new(socket: Socket, options: SocketOptions) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        let address = |address: socket2::SockAddr| {
            address.as_socket().ok_or_else(|| io::Error::from(ErrorKind::AddrNotAvailable))
        };
        let addresses = [address(socket.local_addr()?)?, address(socket.peer_addr()?)?];
        Ok(Self { socket, addresses, options, reads: 0, reads_with_quick_ack: 0 })
    }

    /// Reads what has come; 0 at the end of the stream. Fails with [`ErrorKind::WouldBlock`] if there
    /// is nothing.
    pub fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.options.quick_ack {
            self.socket.set_tcp_quickack(true)?;
        }
        let quick_ack = self.socket.tcp_quickack()?;
        let count = (&self.socket).read(out)?;
        self.reads += 1;
        self.reads_with_quick_ack += u32::from(quick_ack);
        Ok(count)
    }

    /// Writes what fits. Fails with [`ErrorKind::WouldBlock`] if that is nothing.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        (&self.socket).write(bytes)
    }

    /// Waits until something has come, there is room to write if `for_room`, or time is up.
    pub fn wait(&self, for_room: bool, timeout: Duration) -> io::Result<()> {
        let room = if for_room { PollFlags::OUT } else { PollFlags::empty() };
        let mut fds = [PollFd::new(&self.socket, PollFlags::IN | room)];
        let timeout = Timespec::try_from(timeout).map_err(io::Error::other)?;
        match poll(&mut fds, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Bytes that were written and are not acknowledged, as the kernel lists them. Only for the thread
    /// that this end was given to.
    pub fn unacknowledged(&self) -> io::Result<u64> {
        let table = fs::read_to_string("/proc/thread-self/net/tcp")?;
        send_queue(&table, self.addresses.map(|address| address.port()))
            .ok_or_else(|| io::Error::other("/proc/net/tcp does not list the connection"))
    }

    /// How often it has read, and how often with `TCP_QUICKACK` in force.
    pub const fn reads(&self) -> (u32, u32) {
        (self.reads, self.reads_with_quick_ack)
    }
}

/// The send queue of the connection between two ports in a table of the form of /proc/net/tcp.
fn send_queue(table: &str, ports: [u16; 2]) -> Option<u64> {
    let port = |address: &str| {
        address.split_once(':').and_then(|(_, port)| u16::from_str_radix(port, 16).ok())
    };
    table.lines().skip(1).find_map(|line| {
        let mut fields = line.split_whitespace().skip(1);
        let found = [port(fields.next()?)?, port(fields.next()?)?];
        let queues = fields.nth(1)?;
        let (sending, _) = queues.split_once(':')?;
        (found == ports).then(|| u64::from_str_radix(sending, 16).ok())?
    })
}

/// How often the delayed-ACK timer has fired in the namespace of this thread.
fn delayed_acks() -> io::Result<u64> {
    let table = fs::read_to_string("/proc/thread-self/net/netstat")?;
    counter(&table, "DelayedACKs")
        .ok_or_else(|| io::Error::other("/proc/net/netstat has no DelayedACKs"))
}

/// A counter of TCP in a table of the form of /proc/net/netstat: a line of names, a line of values.
fn counter(table: &str, name: &str) -> Option<u64> {
    let mut lines = table.lines().filter_map(|line| line.strip_prefix("TcpExt:"));
    let (names, values) = (lines.next()?, lines.next()?);
    let at = names.split_whitespace().position(|found| found == name)?;
    values.split_whitespace().nth(at)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_stands_below_its_name() {
        let table = "TcpExt: A DelayedACKs B\nTcpExt: 1 42 3\nIpExt: DelayedACKs\nIpExt: 7\n";
        assert_eq!(counter(table, "DelayedACKs"), Some(42));
        assert_eq!(counter(table, "Delayed"), None);
        assert_eq!(counter("", "A"), None);
    }

    #[test]
    fn a_send_queue_is_that_of_the_connection() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr\n   \
             0: 010012C6:1F90 00000000:0000 0A 00000005:00000000 00:00000000\n   \
             1: 010012C6:1F90 020012C6:C350 01 0000002A:00000000 00:00000000\n";
        assert_eq!(send_queue(table, [8080, 50_000]), Some(42));
        assert_eq!(send_queue(table, [50_000, 8080]), None);
    }
}
