//! Futures that are dropped at any moment lose nothing.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test may fail anywhere"
)]
#![allow(clippy::disallowed_methods, reason = "a simulation begins at some time")]
#![allow(missing_docs, reason = "nothing here is public")]

mod common;

use std::time::Duration;

use bytes::Bytes;
use common::network::{Network, Shape, simulate};
use common::{Pair, XorShift, client_config, pattern, server_config};
use tack_tokio::{Endpoint, EndpointConfig, RecvStream, SendStream};
use tokio::io::AsyncWriteExt;

const LOSSY: Shape = Shape { delay: Duration::from_millis(5), loss_percent: 2 };

async fn pair(network: &Network) -> Pair {
    let endpoint = EndpointConfig::default();
    let server = Some(server_config());
    let server = Endpoint::with_socket(network.socket(4433), server, endpoint.clone()).unwrap();
    let client = Endpoint::with_socket(network.socket(1000), None, endpoint).unwrap();
    Pair::connect(client, server, client_config()).await
}

/// Drops futures after a random time.
struct Impatience {
    random: XorShift,
    dropped: u32,
}

impl Impatience {
    fn new(seed: u64) -> Self {
        Self { random: XorShift(seed.wrapping_mul(0x2545_f491_4f6c_dd1d) | 1), dropped: 0 }
    }

    /// What the future gives, unless it is dropped before.
    async fn wait<T>(&mut self, future: impl Future<Output = T>) -> Option<T> {
        let patience = Duration::from_millis(self.random.below(4) as u64);
        let result = tokio::time::timeout(patience, future).await.ok();
        self.dropped += u32::from(result.is_none());
        result
    }
}

const LEN: usize = 400_000;

/// Writes in one of the ways that lose nothing.
async fn write(seed: u64, mut send: SendStream, data: Vec<u8>) -> u32 {
    let mut impatience = Impatience::new(seed);
    let mut rest = Bytes::from(data.clone());
    while !rest.is_empty() {
        match impatience.random.below(3) {
            0 => {
                if let Some(written) = impatience.wait(send.write(&rest)).await {
                    let _ = rest.split_to(written.unwrap());
                }
            }
            1 => {
                if let Some(written) = impatience.wait(send.write_all_buf(&mut rest)).await {
                    written.unwrap();
                }
            }
            _ => {
                // What was taken is known, and the rest can be written later.
                let part = rest.slice(..rest.len().min(50_000));
                if let Some(written) = impatience.wait(send.write_chunk(part)).await {
                    written.unwrap();
                }
                rest = Bytes::copy_from_slice(&data[send.written() as usize..]);
            }
        }
    }
    send.finish().unwrap();
    loop {
        if let Some(stopped) = impatience.wait(send.stopped()).await {
            assert_eq!(stopped.unwrap(), None);
            return impatience.dropped;
        }
    }
}

/// Reads in all ways.
async fn read(seed: u64, mut receive: RecvStream) -> (Vec<u8>, u32) {
    let mut impatience = Impatience::new(!seed);
    let mut received = Vec::new();
    let mut buffer = vec![0; 3000];
    loop {
        match impatience.random.below(3) {
            0 => match impatience.wait(receive.read(&mut buffer)).await {
                Some(Ok(Some(len))) => received.extend_from_slice(&buffer[..len]),
                Some(end) => break assert_eq!(end.unwrap(), None),
                None => {}
            },
            1 => match impatience.wait(receive.read_chunk(5000)).await {
                Some(Ok(Some(chunk))) => received.extend_from_slice(&chunk),
                Some(end) => break assert_eq!(end.unwrap(), None),
                None => {}
            },
            _ => {
                if let Some(rest) = impatience.wait(receive.read_to_end(usize::MAX)).await {
                    break received.extend(rest.unwrap());
                }
            }
        }
    }
    (received, impatience.dropped)
}

#[test]
fn reads_and_writes_that_are_dropped_lose_and_repeat_nothing() {
    for seed in 1..=10 {
        simulate(seed, async {
            let network = Network::new(seed, LOSSY);
            let pair = pair(&network).await;
            let data = pattern(LEN, seed);
            let send = pair.client.open_uni().await.unwrap();
            let (written, received) = tokio::join!(write(seed, send, data.clone()), async {
                read(seed, pair.server.accept_uni().await.unwrap()).await
            });
            assert!(received.0 == data);
            assert!(written > 3 && received.1 > 3, "{written} and {} were dropped", received.1);
        });
    }
}

#[test]
fn streams_and_datagrams_are_neither_lost_nor_taken_twice_by_futures_that_are_dropped() {
    for seed in 1..=5 {
        simulate(seed, async {
            let clean = Shape { loss_percent: 0, ..LOSSY };
            let network = Network::new(seed, clean);
            let pair = pair(&network).await;
            let count = 60;
            let open = async {
                let mut impatience = Impatience::new(seed);
                let mut opened = 0;
                while opened < count {
                    if let Some(send) = impatience.wait(pair.client.open_uni()).await {
                        let mut send = send.unwrap();
                        assert_eq!(send.id().index(), opened);
                        send.write_all(&opened.to_be_bytes()).await.unwrap();
                        opened += 1;
                    }
                }
                while impatience.wait(pair.client.send_datagram_wait(b"end")).await.is_none() {}
            };
            let accept = async {
                let mut impatience = Impatience::new(!seed);
                let mut accepted = 0;
                while accepted < count {
                    if let Some(receive) = impatience.wait(pair.server.accept_uni()).await {
                        let mut receive = receive.unwrap();
                        let value = receive.read_to_end(8).await.unwrap();
                        assert_eq!(value, u64::to_be_bytes(accepted));
                        accepted += 1;
                    }
                }
                loop {
                    if let Some(end) = impatience.wait(pair.server.read_datagram()).await {
                        break assert_eq!(end.unwrap(), b"end"[..]);
                    }
                }
                impatience.dropped
            };
            let ((), dropped) = tokio::join!(open, accept);
            assert!(dropped > 0, "no future was dropped");
        });
    }
}

#[test]
fn connections_are_not_lost_by_an_accept_that_is_dropped() {
    simulate(1, async {
        let network = Network::new(1, LOSSY);
        let endpoint = EndpointConfig::default();
        let server = Some(server_config());
        let server =
            Endpoint::with_socket(network.socket(4433), server, endpoint.clone()).unwrap();
        let client = Endpoint::with_socket(network.socket(1000), None, endpoint).unwrap();
        let connect = async {
            let mut connections = Vec::new();
            for _ in 0..10 {
                let mut config = client_config();
                let to = server.local_addr();
                let connecting = client.connect(to, Some("localhost"), &mut config).unwrap();
                connections.push(connecting.await.unwrap());
            }
            connections
        };
        let accept = async {
            let mut impatience = Impatience::new(1);
            let mut connections = Vec::new();
            while connections.len() < 10 {
                if let Some(connection) = impatience.wait(server.accept()).await {
                    connections.push(connection.unwrap());
                }
            }
            assert!(impatience.dropped > 10);
            connections
        };
        let (clients, servers) = tokio::join!(connect, accept);
        for connection in clients.iter().chain(&servers) {
            assert!(connection.close_reason().is_none());
        }
    });
}
