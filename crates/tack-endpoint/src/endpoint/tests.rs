//! The endpoint on sockets whose system calls fail.

#![allow(clippy::disallowed_methods, reason = "tests bound how long they may take")]
#![allow(clippy::large_stack_arrays, reason = "buffers of the largest datagram")]

use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use super::{Endpoint, PolledSocket};
use crate::send_queue::Burst;
use crate::socket::{DatagramSocket, ReceiveBuffers, UdpSocket};
use crate::{EndpointConfig, Error};

#[path = "../../tests/common/mod.rs"]
mod common;

use common::{App, Certificate, XorShift, pattern, run_until, server_config};

/// The largest error number of Linux.
const MAX_ERRNO: u64 = 133;

/// A socket of the system, some of whose calls fail before they reach it.
struct FailingSocket {
    socket: UdpSocket<mio::net::UdpSocket>,
    random: XorShift,
    receive_calls: u64,
    on_receive: Fault,
    send_calls: u64,
    on_send: Fault,
}

/// The error number of each call that is to fail, by how many calls of its kind came before it.
type Fault = fn(u64, &mut XorShift) -> Option<i32>;

fn never(_: u64, _: &mut XorShift) -> Option<i32> {
    None
}

impl DatagramSocket for FailingSocket {
    fn local_addr(&self) -> SocketAddr {
        self.socket.local_addr()
    }

    fn max_segments(&self) -> usize {
        self.socket.max_segments()
    }

    fn send(&mut self, burst: &Burst<'_>) -> io::Result<()> {
        let call = self.send_calls;
        self.send_calls += 1;
        match (self.on_send)(call, &mut self.random) {
            Some(code) => Err(io::Error::from_raw_os_error(code)),
            None => self.socket.send(burst),
        }
    }

    fn receive(&mut self, buffers: &mut ReceiveBuffers) -> io::Result<usize> {
        let call = self.receive_calls;
        self.receive_calls += 1;
        match (self.on_receive)(call, &mut self.random) {
            Some(code) => Err(io::Error::from_raw_os_error(code)),
            None => self.socket.receive(buffers),
        }
    }
}

impl PolledSocket for FailingSocket {
    fn source(&mut self) -> &mut mio::net::UdpSocket {
        self.socket.source()
    }
}

fn endpoint(
    seed: u64,
    on_receive: Fault,
    on_send: Fault,
    tack: Option<tacklib::Config>,
) -> Endpoint {
    let config = EndpointConfig::default();
    let socket = UdpSocket::bind(common::LOCALHOST.into(), &config, |socket| {
        Ok(mio::net::UdpSocket::from_std(socket))
    })
    .unwrap();
    let random = XorShift(seed);
    let socket =
        FailingSocket { socket, random, receive_calls: 0, on_receive, send_calls: 0, on_send };
    Endpoint::with_socket(Box::new(socket), tack, config).unwrap()
}

/// Exchanges `len` bytes in each direction between endpoints whose calls fail.
fn exchange(seed: u64, len: usize, on_receive: Fault, on_send: Fault) -> [App; 2] {
    let (upload, download) = (pattern(len, 1), pattern(len, 2));
    let tack = server_config(&Certificate::new());
    let server = endpoint(seed, on_receive, on_send, Some(tack));
    let mut server = App::new(server, Some(download.clone()));
    let mut client = App::new(endpoint(!seed, on_receive, on_send, None), None);
    let to = server.local_addr();
    let handle = client.connect(to, upload.clone());
    run_until(&mut server, &mut client, |_, client| client.is_done(handle));
    client.exchanges[&handle].assert_received(&download);
    server.exchanges[&server.only()].assert_received(&upload);
    client.close(handle);
    run_until(&mut server, &mut client, |server, client| {
        server.endpoint.is_idle() && client.endpoint.is_idle()
    });
    [server, client]
}

#[test]
fn no_error_of_one_receive_call_in_eleven_ends_an_exchange() {
    for seed in 1..=4 {
        // The first call fails, too: how many there are depends on how much arrives between two.
        let any = |call, random: &mut XorShift| {
            (call == 0 || random.below(11) == 0).then(|| 1 + (random.next() % MAX_ERRNO) as i32)
        };
        for app in exchange(seed, 1 << 18, any, never) {
            assert!(app.endpoint.stats().recv_calls_failed > 0);
        }
    }
}

#[test]
fn receive_calls_that_find_nothing_though_datagrams_wait_do_not_stop_an_exchange() {
    let mostly_empty =
        |_, random: &mut XorShift| (random.below(2) == 0).then_some(libc::EAGAIN);
    exchange(5, 1 << 18, mostly_empty, never);
}

#[test]
fn errors_of_send_calls_do_not_end_an_exchange() {
    for seed in 1..=4 {
        let failing = |_, random: &mut XorShift| {
            let codes = [
                libc::EAGAIN,
                libc::ENOBUFS,
                libc::ENOMEM,
                libc::EPERM,
                libc::EIO,
                libc::EMSGSIZE,
                libc::ENETDOWN,
                libc::EHOSTUNREACH,
            ];
            (random.below(30) == 0).then(|| codes[random.below(codes.len())])
        };
        exchange(seed, 1 << 18, never, failing);
    }
}

#[test]
fn a_socket_that_seems_full_is_tried_again_without_an_event() {
    let mostly_full = |_, random: &mut XorShift| (random.below(2) == 0).then_some(libc::EAGAIN);
    let apps = exchange(6, 1 << 18, never, mostly_full);
    assert!(apps.iter().all(|app| app.endpoint.stats().send_blocked > 0));
}

#[test]
fn receiving_that_fails_for_ten_seconds_is_an_error_that_says_so() {
    let mut endpoint = endpoint(1, |_, _| Some(libc::ENETDOWN), never, None);
    let start = Instant::now();
    let mut now = start;
    let error = loop {
        assert!(now - start < Duration::from_secs(60), "the failure is not reported");
        match endpoint.core.receive(now) {
            Ok(()) => now += Duration::from_millis(10),
            Err(error) => break error,
        }
    };
    let Error::Receive { source, calls, duration } = &error else { panic!("{error}") };
    assert_eq!(source.raw_os_error(), Some(libc::ENETDOWN));
    assert!(*calls >= 20, "{calls} calls");
    assert!((10..12).contains(&duration.as_secs()), "{duration:?}");
    let text = error.to_string();
    assert!(text.contains(&format!("failed {calls} times in a row for 10")), "{text}");
}

/// Without a limit the endpoint would call as fast as it can.
#[test]
fn receiving_that_fails_is_not_tried_more_than_a_hundred_times_in_a_second() {
    let mut endpoint = endpoint(1, |_, _| Some(libc::ENOMEM), never, None);
    let start = Instant::now();
    for turn in 0..100_000 {
        endpoint.core.receive(start + turn * Duration::from_micros(10)).unwrap();
    }
    let calls = endpoint.stats().recv_calls;
    assert!((10..100).contains(&calls), "{calls} calls");
}
