//! Several endpoints on one port: who gets a datagram, and what they have in common.

#![cfg(target_os = "linux")]
#![allow(clippy::disallowed_methods, reason = "tests bound how long they may take")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail anywhere")]
#![allow(clippy::large_stack_arrays, reason = "buffers of the largest datagram")]
#![allow(missing_docs, reason = "nothing here is public")]

mod common;

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use common::{
    App, Certificate, Direction, LOCALHOST, PATIENCE, Relay, client_config, endpoint_config,
    pattern, server_config,
};
use tack_endpoint::{
    CloseReason, Endpoint, EndpointConfig, EndpointStats, Error, MAX_WORKERS, QuicLbConfig,
};

const LEN: usize = 300_000;
const STEP: Duration = Duration::from_millis(1);

fn workers(config: &EndpointConfig, reply: &[u8]) -> [App; 2] {
    let certificate = Certificate::new();
    let configs = vec![server_config(&certificate), server_config(&certificate)];
    let endpoints = Endpoint::workers(LOCALHOST.into(), configs, config).unwrap();
    let apps: Vec<App> = endpoints
        .into_iter()
        .map(|endpoint| App::new(endpoint, Some(reply.to_vec())))
        .collect();
    assert!(apps.iter().all(|app| app.local_addr() == apps[0].local_addr()));
    apps.try_into().unwrap_or_else(|_| panic!("two"))
}

/// A socket whose datagrams the kernel gives to this worker.
fn socket_for(workers: &mut [App; 2], wanted: usize) -> UdpSocket {
    let mut others = Vec::new();
    for _ in 0..64 {
        let socket = UdpSocket::bind(SocketAddr::from(LOCALHOST)).unwrap();
        let before = [0, 1].map(|worker| workers[worker].endpoint.stats().datagrams_in);
        socket.send_to(&[0], workers[0].local_addr()).unwrap();
        let start = Instant::now();
        let got = loop {
            assert!(start.elapsed() < PATIENCE, "the test hangs");
            for worker in workers.iter_mut() {
                worker.turn(STEP);
            }
            let now = [0, 1].map(|worker| workers[worker].endpoint.stats().datagrams_in);
            if let Some(worker) = (0..2).find(|worker| now[*worker] > before[*worker]) {
                break worker;
            }
        };
        if got == wanted {
            return socket;
        }
        // Kept, so that the next one has another port.
        others.push(socket);
    }
    panic!("the kernel gives worker {wanted} nothing");
}

/// A client at an address whose datagrams the kernel gives to this worker.
fn client_of(workers: &mut [App; 2], worker: usize) -> App {
    let socket = socket_for(workers, worker);
    let address = socket.local_addr().unwrap();
    drop(socket);
    App::new(Endpoint::client(address, EndpointConfig::default()).unwrap(), None)
}

/// Runs every worker on a thread of its own while `run` runs; what they have counted.
fn threaded<T>(workers: [App; 2], run: impl FnOnce() -> T) -> ([EndpointStats; 2], T) {
    let stop = Arc::new(AtomicBool::new(false));
    let threads = workers.map(|mut worker| {
        let stop = Arc::clone(&stop);
        thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                worker.turn(Duration::from_millis(5));
            }
            worker.endpoint.stats()
        })
    });
    let result = run();
    stop.store(true, Ordering::Relaxed);
    (threads.map(|thread| thread.join().unwrap()), result)
}

fn exchange_with_a_change_of_port(config: &EndpointConfig) {
    let (upload, download) = (pattern(LEN, 1), pattern(LEN, 2));
    let mut workers = workers(config, &download);
    let server = workers[0].local_addr();
    let mut clients: Vec<App> =
        [0, 1, 0, 1, 0, 1].map(|worker| client_of(&mut workers, worker)).into();
    let mut relay = Relay::new(server);
    relay.rebind_to(socket_for(&mut workers, 0));
    let mut other_port = Some(socket_for(&mut workers, 1));
    let mut moved = App::client();

    let (stats, ()) = threaded(workers, || {
        let mut handles: Vec<_> =
            clients.iter_mut().map(|client| client.connect(server, upload.clone())).collect();
        handles.push(moved.connect(relay.address(), upload.clone()));
        clients.push(moved);
        let (start, mut to_server) = (Instant::now(), 0);
        while clients.iter().zip(&handles).any(|(client, handle)| !client.is_done(*handle)) {
            assert!(start.elapsed() < PATIENCE, "the test hangs");
            for client in &mut clients {
                client.turn(Duration::ZERO);
            }
            relay.turn(|direction, datagram, _| {
                to_server += if direction == Direction::ToServer { datagram.len() } else { 0 };
                true
            });
            if to_server > LEN / 2
                && let Some(socket) = other_port.take()
            {
                relay.rebind_to(socket);
            }
        }
        for (client, handle) in clients.iter().zip(&handles) {
            client.exchanges[handle].assert_received(&download);
        }
    });
    assert_eq!((stats[0].accepted, stats[1].accepted), (4, 3), "{stats:?}");
    // How much of the upload is left when the port changes is a matter of timing.
    assert!(stats[1].forwarded_out > 10, "{stats:?}");
    assert!(stats[0].forwarded_in > 10 && stats[0].forwarded_in <= stats[1].forwarded_out);
    assert_eq!((stats[0].forwarded_out, stats[1].forwarded_in), (0, 0), "{stats:?}");
    assert_eq!(stats[0].resets_sent + stats[1].resets_sent, 0);
}

#[test]
fn connections_of_both_workers_complete_though_a_client_comes_to_the_other_ones_socket() {
    exchange_with_a_change_of_port(&EndpointConfig::default());
}

#[test]
fn a_client_stays_with_its_worker_where_a_load_balancer_reads_encrypted_ids() {
    exchange_with_a_change_of_port(&endpoint_config(|config| {
        config.quic_lb = Some(QuicLbConfig {
            config_id: 3,
            server_id: vec![0x0a, 0x01],
            nonce_len: 8,
            key: Some([0x42; 16]),
            first_octet_encodes_cid_length: true,
        });
    }));
}

#[test]
fn a_client_stays_with_its_worker_where_a_load_balancer_reads_plain_ids() {
    exchange_with_a_change_of_port(&endpoint_config(|config| {
        config.quic_lb = Some(QuicLbConfig {
            config_id: 0,
            server_id: vec![0x0a],
            nonce_len: 12,
            key: None,
            first_octet_encodes_cid_length: false,
        });
    }));
}

#[test]
fn the_limit_of_connections_is_that_of_all_workers_together() {
    let mut workers = workers(&endpoint_config(|config| config.max_connections = 2), b"x");
    let server = workers[0].local_addr();
    let mut clients = [0, 1, 0].map(|worker| client_of(&mut workers, worker));
    let mut handles = Vec::new();
    let start = Instant::now();
    let run = |workers: &mut [App; 2],
               clients: &mut [App; 3],
               done: &dyn Fn(&[App; 2], &[App; 3]) -> bool| {
        while !done(workers, clients) {
            assert!(start.elapsed() < PATIENCE, "the test hangs");
            for worker in workers.iter_mut() {
                worker.turn(STEP);
            }
            for client in clients.iter_mut() {
                client.turn(Duration::ZERO);
            }
        }
    };
    for index in [0, 1] {
        handles.push(clients[index].connect(server, vec![1]));
        run(&mut workers, &mut clients, &|_, clients| clients[index].connected.len() == 1);
    }
    let third = clients[2].connect(server, vec![1]);
    run(&mut workers, &mut clients, &|workers, _| {
        workers[0].endpoint.stats().dropped.not_accepting > 0
    });
    assert!(clients[2].connected.is_empty());
    // The other worker makes room for it.
    clients[1].close(handles[1]);
    run(&mut workers, &mut clients, &|_, clients| clients[2].connected == [third]);
}

#[test]
fn a_flood_for_another_worker_fills_half_of_its_inbox_and_ends_nothing() {
    let (upload, download) = (pattern(LEN, 1), pattern(LEN, 2));
    let mut workers = workers(&EndpointConfig::default(), &download);
    let server = workers[0].local_addr();
    let mut relay = Relay::new(server);
    relay.rebind_to(socket_for(&mut workers, 1));
    let flooder = socket_for(&mut workers, 0);
    let mut client = App::client();
    let handle = client.connect(relay.address(), upload);
    let mut id = None;
    let start = Instant::now();
    while !client.is_done(handle) {
        assert!(start.elapsed() < PATIENCE, "the test hangs");
        client.turn(STEP);
        let seen = id.is_some();
        relay.turn(|direction, datagram, _| {
            if direction == Direction::ToServer && datagram[0] & 0x80 == 0 {
                id.get_or_insert_with(|| datagram[1..9].to_vec());
            }
            true
        });
        if let (Some(id), false) = (&id, seen) {
            // The other worker does nothing meanwhile.
            let garbage = [&[0x40], &id[..], &[9; 1191]].concat();
            for _ in 0..2000 {
                flooder.send_to(&garbage, server).unwrap();
                workers[0].turn(Duration::ZERO);
            }
        }
        for worker in &mut workers {
            worker.turn(STEP);
        }
    }
    client.exchanges[&handle].assert_received(&download);
    let stats = workers[0].endpoint.stats();
    assert!(stats.dropped.forwarding_full > 1000, "{stats:?}");
    assert!(stats.forwarded_out * 1200 < 1 << 20, "{stats:?}");
    assert_eq!(workers[1].endpoint.stats().forwarded_in, stats.forwarded_out);
    assert_eq!(workers[1].endpoint.stats().accepted, 1);
}

#[test]
fn a_reset_comes_from_the_worker_that_had_the_connection() {
    let mut workers =
        workers(&endpoint_config(|config| config.reset_key = Some([5; 32])), b"x");
    let server = workers[0].local_addr();
    let mut relay = Relay::new(server);
    relay.rebind_to(socket_for(&mut workers, 0));
    let mut client = App::client();
    let mut config = client_config();
    // Goes on sending after the server has gone.
    config.set_max_idle_timeout(60_000);
    let handle = client.connect_with(relay.address(), pattern(LEN, 1), &mut config);
    let start = Instant::now();
    while client.connected.is_empty() {
        assert!(start.elapsed() < PATIENCE, "the test hangs");
        client.turn(STEP);
        relay.turn(|_, _, _| true);
        for worker in &mut workers {
            worker.turn(STEP);
        }
    }
    // Another server of two workers with the same key, as after a restart; ids of the one before may pass for
    // those of either worker.
    drop(workers);
    let certificate = Certificate::new();
    let configs = vec![server_config(&certificate), server_config(&certificate)];
    let config = endpoint_config(|config| config.reset_key = Some([5; 32]));
    let mut again = Endpoint::workers(server, configs, &config).unwrap();
    while !client.closed.contains_key(&handle) {
        assert!(start.elapsed() < PATIENCE, "the test hangs");
        client.turn(STEP);
        relay.turn(|_, _, _| true);
        for worker in &mut again {
            worker.poll(Some(STEP)).unwrap();
        }
    }
    assert_eq!(client.closed[&handle], CloseReason::Reset);
}

#[test]
fn a_port_that_workers_share_is_not_to_be_had_by_another_server() {
    let workers = workers(&EndpointConfig::default(), b"x");
    let server = workers[0].local_addr();
    let certificate = Certificate::new();
    let alone =
        Endpoint::server(server, server_config(&certificate), EndpointConfig::default());
    assert!(matches!(alone.err(), Some(Error::Bind { .. })));
    let configs = vec![server_config(&certificate), server_config(&certificate)];
    let others = Endpoint::workers(server, configs, &EndpointConfig::default());
    assert!(matches!(others.err(), Some(Error::Bind { .. })));
}

#[test]
fn as_many_workers_as_there_can_be_are_made_and_no_more() {
    let certificate = Certificate::new();
    for count in [0, MAX_WORKERS + 1] {
        let configs = (0..count).map(|_| server_config(&certificate)).collect();
        let made = Endpoint::workers(LOCALHOST.into(), configs, &EndpointConfig::default());
        assert!(matches!(made.err(), Some(Error::Workers(refused)) if refused == count));
    }
    let configs = vec![server_config(&certificate)];
    assert_eq!(
        Endpoint::workers(LOCALHOST.into(), configs, &EndpointConfig::default()).unwrap().len(),
        1
    );
}
