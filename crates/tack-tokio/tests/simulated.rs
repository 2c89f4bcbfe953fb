//! Endpoints on a network in memory that loses and delays, in virtual time.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test may fail anywhere"
)]
#![allow(clippy::disallowed_methods, reason = "a simulation begins at some time")]
#![allow(missing_docs, reason = "nothing here is public")]

mod common;

use std::net::SocketAddr;
use std::time::Duration;

use common::network::{Network, Shape, simulate};
use common::{Pair, STREAM_WINDOW, client_config, pattern, server_config};
use tack_tokio::{
    CloseReason, ConnectionError, Endpoint, EndpointConfig, RecvStream, WriteError,
};
use tacklib::Profile;
use tokio::io::AsyncReadExt;
use tokio::time::Instant;

const MS: Duration = Duration::from_millis(1);

const LOSSY: Shape = Shape { delay: Duration::from_millis(20), loss_percent: 3 };
const CLEAN: Shape = Shape { delay: Duration::from_millis(20), loss_percent: 0 };

async fn pair(network: &Network) -> Pair {
    let (server, client) = endpoints(network);
    Pair::connect(client, server, client_config()).await
}

/// A server, and the endpoint of a client.
fn endpoints(network: &Network) -> (Endpoint, Endpoint) {
    endpoints_with(network, EndpointConfig::default(), server_config())
}

fn endpoints_with(
    network: &Network,
    endpoint: EndpointConfig,
    server: tacklib::Config,
) -> (Endpoint, Endpoint) {
    let socket = network.socket(4433);
    let server = Endpoint::with_socket(socket, Some(server), endpoint.clone()).unwrap();
    (server, Endpoint::with_socket(network.socket(1000), None, endpoint).unwrap())
}

#[test]
fn data_arrives_whole_over_a_network_that_loses_and_delays() {
    for seed in 1..=5 {
        simulate(seed, async {
            let network = Network::new(seed, LOSSY);
            let pair = pair(&network).await;
            let start = Instant::now();
            let (there, back) = (pattern(700_000, 1), pattern(500_000, 2));
            let serve = async {
                let (mut send, mut receive) = pair.server.accept_bi().await.unwrap();
                let write = async {
                    send.write_all(&back).await.unwrap();
                    send.finish().unwrap();
                    assert_eq!(send.stopped().await.unwrap(), None);
                };
                tokio::join!(receive.read_to_end(usize::MAX), write).0.unwrap()
            };
            let ask = async {
                let (mut send, mut receive) = pair.client.open_bi().await.unwrap();
                let write = async {
                    send.write_all(&there).await.unwrap();
                    send.finish().unwrap();
                    assert_eq!(send.stopped().await.unwrap(), None);
                };
                tokio::join!(receive.read_to_end(usize::MAX), write).0.unwrap()
            };
            let (received_there, received_back) = tokio::join!(serve, ask);
            assert!(received_there == there && received_back == back);
            assert!(pair.client.stats().unwrap().lost > 0, "nothing was lost");
            assert!(start.elapsed() >= 40 * MS, "virtual time stands still");
        });
    }
}

#[test]
fn the_same_seed_takes_the_same_time() {
    let run = || {
        simulate(7, async {
            let network = Network::new(7, LOSSY);
            let pair = pair(&network).await;
            let mut send = pair.client.open_uni().await.unwrap();
            let write = async {
                send.write_all(&pattern(300_000, 1)).await.unwrap();
                send.finish().unwrap();
            };
            let read = async {
                let mut receive = pair.server.accept_uni().await.unwrap();
                receive.read_to_end(usize::MAX).await.unwrap().len()
            };
            let start = Instant::now();
            assert_eq!(tokio::join!(write, read).1, 300_000);
            start.elapsed()
        })
    };
    assert_eq!(run(), run());
}

#[test]
fn a_peer_that_vanishes_times_out_after_the_idle_timeout() {
    simulate(1, async {
        let network = Network::new(1, CLEAN);
        let pair = pair(&network).await;
        let (send, mut receive) = pair.client.open_bi().await.unwrap();
        network.cut();
        let start = Instant::now();
        let (closed, read) = tokio::join!(pair.client.closed(), receive.read_chunk(1));
        let waited = start.elapsed();
        assert!(
            matches!(closed, ConnectionError::Closed(CloseReason::IdleTimeout)),
            "{closed}"
        );
        assert!(read.unwrap_err().to_string().contains("idle timeout"));
        assert!((19_000 * MS..21_000 * MS).contains(&waited), "{waited:?}");
        drop((send, receive));
        drop(pair.client);
        drop(pair.server);
        pair.client_endpoint.wait_idle().await;
        pair.server_endpoint.wait_idle().await;
    });
}

#[test]
fn a_server_that_does_not_answer_is_told_after_the_handshake_timeout() {
    simulate(1, async {
        let network = Network::new(1, CLEAN);
        network.cut();
        let socket = network.socket(1000);
        let client = Endpoint::with_socket(socket, None, EndpointConfig::default()).unwrap();
        let to = ([10, 0, 0, 1], 4433).into();
        let start = Instant::now();
        let connecting = client.connect(to, Some("localhost"), &mut client_config()).unwrap();
        let error = connecting.await.err().unwrap();
        let ConnectionError::Closed(CloseReason::HandshakeFailed(why)) = &error else {
            panic!("{error}");
        };
        assert!(why.contains("did not answer in time"), "{why}");
        let waited = start.elapsed();
        assert!((9_900 * MS..10_100 * MS).contains(&waited), "{waited:?}");
        client.wait_idle().await;
    });
}

#[test]
fn a_future_of_connect_that_is_dropped_leaves_nothing() {
    simulate(1, async {
        let network = Network::new(1, CLEAN);
        let (server, client) = endpoints(&network);
        let to = server.local_addr();
        for wait in [0, 1, 30, 50, 70] {
            let connecting =
                client.connect(to, Some("localhost"), &mut client_config()).unwrap();
            assert!(tokio::time::timeout(wait * MS, connecting).await.is_err(), "{wait} ms");
        }
        client.wait_idle().await;
    });
}

/// The core forgets connections that are over, and lets others in.
#[test]
fn connections_that_nobody_accepts_are_bounded_though_they_end() {
    simulate(1, async {
        let network = Network::new(1, CLEAN);
        let mut endpoint = EndpointConfig::default();
        endpoint.max_connections = 3;
        let (server, client) = endpoints_with(&network, endpoint, server_config());
        for _ in 0..10 {
            let mut config = client_config();
            let connecting =
                client.connect(server.local_addr(), Some("localhost"), &mut config);
            let mut send = connecting.unwrap().await.unwrap().open_uni().await.unwrap();
            send.write_all(b"hello").await.unwrap();
            send.finish().unwrap();
            // A connection that waits delivers; the others are closed.
            let _ = send.stopped().await;
            drop(send);
            client.wait_idle().await;
            tokio::time::sleep(2000 * MS).await;
        }
        let mut accepted = 0;
        while let Ok(connection) = tokio::time::timeout(MS, server.accept()).await {
            let connection = connection.unwrap();
            let mut receive = connection.accept_uni().await.unwrap();
            assert_eq!(receive.read_to_end(10).await.unwrap(), b"hello");
            accepted += 1;
        }
        assert_eq!(accepted, 3);
    });
}

#[test]
fn a_reader_that_does_not_read_bounds_what_is_written_and_what_is_kept() {
    simulate(1, async {
        let network = Network::new(1, CLEAN);
        let pair = pair(&network).await;
        let mut send = pair.client.open_uni().await.unwrap();
        let data = pattern(2 * STREAM_WINDOW as usize, 4);
        let mut rest = &data[..];
        send.write_all(&rest[..1000]).await.unwrap();
        rest = &rest[1000..];
        let mut receive = pair.server.accept_uni().await.unwrap();

        let write_until_blocked = async |send: &mut tack_tokio::SendStream,
                                         rest: &mut &[u8]| {
            while let Ok(written) = tokio::time::timeout(2000 * MS, send.write(rest)).await {
                *rest = &rest[written.unwrap()..];
            }
            send.written()
        };
        let first = write_until_blocked(&mut send, &mut rest).await;
        assert_eq!(first, STREAM_WINDOW, "all that the reader's window lets in, and no more");
        let second = write_until_blocked(&mut send, &mut rest).await;
        assert_eq!(second, first, "time alone gives no credit");

        let mut received = Vec::new();
        while received.len() < 200_000 {
            received.extend_from_slice(&receive.read_chunk(10_000).await.unwrap().unwrap());
        }
        let third = write_until_blocked(&mut send, &mut rest).await;
        assert!(third > first && third <= STREAM_WINDOW + received.len() as u64, "{third}");
        let write = async {
            send.write_all(rest).await.unwrap();
            send.finish().unwrap();
        };
        let ((), tail) = tokio::join!(write, receive.read_to_end(usize::MAX));
        received.extend(tail.unwrap());
        assert!(received == data);
    });
}

/// A pair of connections on which a client may write so many bytes ahead.
async fn pair_with_send_buffer(network: &Network, bytes: usize) -> Pair {
    let mut config = client_config();
    let mut tack = *config.tack();
    tack.send_buffer = bytes;
    config.set_tack(tack);
    let mut server = server_config();
    // Flow control is not what they wait for.
    server.set_initial_max_data(64 << 20);
    server.set_initial_max_stream_data_uni(64 << 20);
    let (server, client) = endpoints_with(network, EndpointConfig::default(), server);
    Pair::connect(client, server, config).await
}

#[test]
fn a_stream_that_takes_all_the_room_does_not_keep_others_from_writing() {
    simulate(1, async {
        let network = Network::new(1, CLEAN);
        let pair = pair_with_send_buffer(&network, 64 << 10).await;
        let (mut long, mut short) =
            (pair.client.open_uni().await.unwrap(), pair.client.open_uni().await.unwrap());
        let server = pair.server.clone();
        tokio::spawn(async move {
            while let Ok(mut receive) = server.accept_uni().await {
                tokio::spawn(async move {
                    while let Ok(Some(_)) = receive.read_chunk(1 << 20).await {}
                });
            }
        });
        let long = tokio::spawn(async move { long.write_all(&vec![1; 5_000_000]).await });
        let short = tokio::spawn(async move { short.write_all(&vec![2; 500_000]).await });
        short.await.unwrap().unwrap();
        assert!(!long.is_finished(), "all of the other was written before");
    });
}

#[test]
fn a_priority_that_is_set_before_anything_of_the_stream_has_come_holds_when_it_is_written_to() {
    simulate(1, async {
        let network = Network::new(1, CLEAN);
        let pair = pair(&network).await;
        let (mut quiet, quiet_answer) = pair.client.open_bi().await.unwrap();
        let (mut loud, loud_answer) = pair.client.open_bi().await.unwrap();
        loud.write_all(b"!").await.unwrap();
        let (mut quiet_back, _quiet_question) = pair.server.accept_bi().await.unwrap();
        let (mut loud_back, _loud_question) = pair.server.accept_bi().await.unwrap();
        assert_eq!(quiet_back.id(), quiet.id());
        quiet_back.set_priority(200, false).unwrap();
        quiet_back.set_priority(0, false).unwrap();
        quiet.write_all(b"?").await.unwrap();
        tokio::time::sleep(100 * MS).await;

        // More than leaves in a round trip, and the driver does not run in between.
        let data = pattern(60_000, 5);
        for back in [&mut loud_back, &mut quiet_back] {
            assert_eq!(back.write(&data).await.unwrap(), data.len());
        }
        let read = async |mut answer: RecvStream| {
            answer.read_exact(&mut vec![0; data.len()]).await.unwrap();
            Instant::now()
        };
        let (urgent, other) = tokio::join!(read(quiet_answer), read(loud_answer));
        assert!(other > urgent + 10 * MS, "{:?}", other.checked_duration_since(urgent));
    });
}

#[test]
fn writers_wait_for_the_send_buffer() {
    const BUFFER: usize = 64 << 10;
    simulate(1, async {
        let network = Network::new(1, CLEAN);
        let pair = pair_with_send_buffer(&network, BUFFER).await;
        let mut send = pair.client.open_uni().await.unwrap();
        // Before the driver runs, only the buffer takes something.
        let data = vec![7; 4 * BUFFER];
        assert_eq!(send.write(&data).await.unwrap(), BUFFER);
        let read = async {
            let mut receive = pair.server.accept_uni().await.unwrap();
            receive.read_to_end(usize::MAX).await.unwrap().len()
        };
        let write = async {
            send.write_all(&data[BUFFER..]).await.unwrap();
            send.finish().unwrap();
        };
        assert_eq!(tokio::join!(read, write).0, data.len());
    });
}

#[test]
fn a_stream_whose_deadline_passes_expires_for_its_writer() {
    simulate(1, async {
        let network = Network::new(1, CLEAN);
        let pair = pair(&network).await;
        let mut send = pair.client.open_uni().await.unwrap();
        send.set_deadline(Some(Instant::now() + 500 * MS)).unwrap();
        network.cut();
        // More than the reader's window: it waits, and then it is too late.
        let data = vec![0; 2 * STREAM_WINDOW as usize];
        let start = Instant::now();
        let error = send.write_all(&data).await.unwrap_err();
        assert!(matches!(error, WriteError::Expired), "{error}");
        let waited = start.elapsed();
        assert!((500 * MS..520 * MS).contains(&waited), "{waited:?}");
        assert!(matches!(send.stopped().await, Err(WriteError::Expired)));
    });
}

#[test]
fn a_close_is_told_to_the_peer_before_the_endpoint_is_idle() {
    for seed in 1..=5 {
        simulate(seed, async {
            let network = Network::new(seed, LOSSY);
            let pair = pair(&network).await;
            pair.client.close(3, b"bye");
            let server = tokio::spawn({
                let server = pair.server.clone();
                async move { server.closed().await }
            });
            pair.client_endpoint.wait_idle().await;
            drop(pair.client_endpoint);
            let reason = server.await.unwrap();
            // The one packet may be lost: then the server finds out by itself.
            let ConnectionError::Closed(reason) = reason else { panic!("{reason}") };
            let told =
                CloseReason::Peer { application: true, code: 3, reason: b"bye".to_vec() };
            assert!(reason == told || reason == CloseReason::IdleTimeout, "{reason}");
        });
    }
}

#[test]
fn finished_streams_are_delivered_before_a_close_that_waits_for_them() {
    for seed in 1..=10 {
        simulate(seed, async {
            let network = Network::new(seed, LOSSY);
            let pair = pair(&network).await;
            let data = pattern(100_000 + 1000 * seed as usize, seed);
            let send = async {
                let mut send = pair.client.open_uni().await.unwrap();
                send.write_all(&data).await.unwrap();
                send.finish().unwrap();
                assert_eq!(send.stopped().await.unwrap(), None);
                pair.client.close(0, b"");
            };
            let receive = async {
                let mut receive = pair.server.accept_uni().await.unwrap();
                receive.read_to_end(usize::MAX).await
            };
            let ((), received) = tokio::join!(send, receive);
            assert!(received.unwrap() == data, "seed {seed}");
        });
    }
}

/// A pair on this network, whose server shares its key of stateless resets with another one, and the address of that.
async fn pair_with_twin(network: &Network) -> (Pair, Endpoint) {
    let mut endpoint = EndpointConfig::default();
    endpoint.reset_key = Some([7; 32]);
    let twin = network.socket(4434);
    let twin = Endpoint::with_socket(twin, Some(server_config()), endpoint.clone()).unwrap();
    let server = network.socket(4433);
    let server = Endpoint::with_socket(server, Some(server_config()), endpoint).unwrap();
    let client = network.socket(1000);
    let client = Endpoint::with_socket(client, None, EndpointConfig::default()).unwrap();
    (Pair::connect(client, server, client_config()).await, twin)
}

/// The stateless reset that ends a client's connection (RFC 9000 section 10.3).
async fn reset_of(network: &Network, client: SocketAddr, twin: &Endpoint) -> Vec<u8> {
    let stranger = SocketAddr::from(([10, 0, 0, 2], 2000));
    network.hold(stranger);
    // A packet of the client, which the twin knows nothing of.
    network.forge(stranger, twin.local_addr(), network.last_sent(client));
    tokio::time::sleep(100 * MS).await;
    network.held(stranger).remove(0).1
}

#[test]
fn a_stream_that_was_acknowledged_right_before_the_end_of_its_connection_is_delivered() {
    simulate(1, async {
        let network = Network::new(1, CLEAN);
        let (pair, twin) = pair_with_twin(&network).await;
        let (client, server) =
            (pair.client_endpoint.local_addr(), pair.server_endpoint.local_addr());
        let mut waited_for = pair.client.open_uni().await.unwrap();
        let mut asked_later = pair.client.open_uni().await.unwrap();
        let mut two_way = pair.client.open_bi().await.unwrap();
        let mut late = pair.client.open_uni().await.unwrap();
        let mut unfinished = pair.client.open_uni().await.unwrap();
        // Nothing is on its way any more.
        tokio::time::sleep(1000 * MS).await;
        network.hold(client);
        for send in [&mut waited_for, &mut asked_later, &mut two_way.0] {
            send.write_all(b"hello").await.unwrap();
            send.finish().unwrap();
        }
        unfinished.write_all(b"hello").await.unwrap();
        let (mut answer, mut question) = pair.server.accept_bi().await.unwrap();
        assert_eq!(question.read_to_end(10).await.unwrap(), b"hello");
        answer.finish().unwrap();
        let stopped = tokio::spawn(async move { waited_for.stopped().await });
        tokio::time::sleep(200 * MS).await;
        // This one will never be acknowledged.
        network.hold(server);
        late.write_all(b"hello").await.unwrap();
        late.finish().unwrap();
        tokio::time::sleep(10 * MS).await;
        assert!(!stopped.is_finished(), "the acknowledgement is held up");

        let reset = reset_of(&network, client, &twin).await;
        network.forge(server, client, reset);
        network.release(client);
        let reason = pair.client.closed().await;
        assert!(matches!(reason, ConnectionError::Closed(CloseReason::Reset)), "{reason}");
        assert_eq!(stopped.await.unwrap().unwrap(), None);
        assert_eq!(asked_later.stopped().await.unwrap(), None);
        // That the peer has all of it is known only once the other half was read.
        assert!(two_way.1.read_to_end(10).await.unwrap().is_empty());
        assert_eq!(two_way.0.stopped().await.unwrap(), None);
        for send in [&mut late, &mut unfinished] {
            assert!(matches!(send.stopped().await, Err(WriteError::ConnectionLost(_))));
        }
    });
}

#[test]
fn a_stream_is_not_delivered_because_all_was_acknowledged_before_it_was_finished() {
    simulate(1, async {
        let network = Network::new(1, CLEAN);
        let pair = pair(&network).await;
        let mut send = pair.client.open_uni().await.unwrap();
        send.write_all(b"hello").await.unwrap();
        assert!(tokio::time::timeout(1000 * MS, send.stopped()).await.is_err());
        send.write_all(b" world").await.unwrap();
        send.finish().unwrap();
        assert!(tokio::time::timeout(30 * MS, send.stopped()).await.is_err());
        let mut receive = pair.server.accept_uni().await.unwrap();
        assert_eq!(receive.read_to_end(20).await.unwrap(), b"hello world");
        assert_eq!(send.stopped().await.unwrap(), None);
    });
}

#[test]
fn a_connection_that_is_over_before_it_is_waited_for_gives_what_has_come() {
    simulate(1, async {
        let network = Network::new(1, CLEAN);
        let (server, client) = endpoints(&network);
        let to = server.local_addr();
        let data = pattern(100_000, 3);
        let connecting = client.connect(to, Some("localhost"), &mut client_config()).unwrap();
        let greeting = data.clone();
        let serve = tokio::spawn(async move {
            let connection = server.accept().await.unwrap();
            let mut send = connection.open_uni().await.unwrap();
            send.write_all(&greeting).await.unwrap();
            send.finish().unwrap();
            assert_eq!(send.stopped().await.unwrap(), None);
            connection.close(7, b"all told");
            server.wait_idle().await;
        });
        tokio::time::sleep(1000 * MS).await;
        let connection = connecting.await.unwrap();
        let mut receive = connection.accept_uni().await.unwrap();
        assert!(receive.read_to_end(usize::MAX).await.unwrap() == data);
        let reason = connection.closed().await;
        assert!(matches!(&reason, ConnectionError::Closed(CloseReason::Peer { code: 7, .. })));
        connection.handshake_completed().await.unwrap();
        serve.await.unwrap();
    });
}

#[test]
fn a_stop_that_the_driver_has_not_looked_at_is_told_to_one_who_finishes_the_stream() {
    for profile in [Profile::Default, Profile::Off] {
        simulate(1, async {
            let network = Network::new(1, CLEAN);
            let endpoint = EndpointConfig::default();
            let (mut config, mut server) = (client_config(), server_config());
            config.set_profile(profile);
            server.set_profile(profile);
            let (server, client) = endpoints_with(&network, endpoint, server);
            let pair = Pair::connect(client, server, config).await;
            let client = pair.client_endpoint.local_addr();
            let mut send = pair.client.open_uni().await.unwrap();
            send.write_all(b"data").await.unwrap();
            let mut receive = pair.server.accept_uni().await.unwrap();
            tokio::time::sleep(1000 * MS).await;
            network.hold(client);
            receive.stop(9).unwrap();
            tokio::time::sleep(200 * MS).await;
            // While the socket takes nothing, the core does not turn the connection.
            network.fill(client, true);
            pair.client.send_datagram(b"?").unwrap();
            tokio::time::sleep(2 * MS).await;
            network.release(client);
            tokio::time::sleep(2 * MS).await;
            send.finish().unwrap();
            network.fill(client, false);
            let stopped = tokio::time::timeout(2000 * MS, send.stopped()).await;
            assert_eq!(stopped.expect("it hangs").unwrap(), Some(9), "{profile:?}");
        });
    }
}

#[test]
fn tasks_wait_for_a_stop_while_another_writes() {
    simulate(1, async {
        let network = Network::new(1, CLEAN);
        let pair = pair(&network).await;
        let mut send = pair.client.open_uni().await.unwrap();
        let waiting = [tokio::spawn(send.stopped()), tokio::spawn(send.stopped())];
        let dropped = send.stopped();
        let never_polled = send.stopped();
        let data = vec![0; 2 * STREAM_WINDOW as usize];
        let write = tokio::spawn(async move {
            let written = send.write_all(&data).await;
            (send, written)
        });
        tokio::time::sleep(200 * MS).await;
        assert!(tokio::time::timeout(MS, dropped).await.is_err());
        assert!(waiting.iter().all(|task| !task.is_finished()) && !write.is_finished());
        pair.server.accept_uni().await.unwrap().stop(9).unwrap();
        let (send, written) = write.await.unwrap();
        assert!(matches!(written, Err(WriteError::Stopped(9))), "{written:?}");
        for task in waiting {
            assert_eq!(task.await.unwrap().unwrap(), Some(9));
        }
        drop(send);
        assert_eq!(never_polled.await.unwrap(), Some(9));
    });
}

#[test]
fn the_end_of_a_stream_is_told_to_all_who_wait_for_it_though_its_handle_is_dropped() {
    simulate(1, async {
        let network = Network::new(1, CLEAN);
        let pair = pair(&network).await;
        let server = pair.server.clone();
        tokio::spawn(async move {
            while let Ok(mut receive) = server.accept_uni().await {
                assert_eq!(receive.read_to_end(10).await.unwrap(), b"data");
            }
        });
        let mut delivered = pair.client.open_uni().await.unwrap();
        delivered.write_all(b"data").await.unwrap();
        let waiting = [tokio::spawn(delivered.stopped()), tokio::spawn(delivered.stopped())];
        let later = delivered.stopped();
        tokio::time::sleep(200 * MS).await;
        drop(delivered);
        for task in waiting {
            assert_eq!(task.await.unwrap().unwrap(), None);
        }
        assert_eq!(later.await.unwrap(), None);

        let mut given_up = pair.client.open_uni().await.unwrap();
        let waiting = [tokio::spawn(given_up.stopped()), tokio::spawn(given_up.stopped())];
        tokio::time::sleep(200 * MS).await;
        given_up.reset(1).unwrap();
        for task in waiting {
            let stopped = tokio::time::timeout(MS, task).await.unwrap().unwrap();
            assert!(matches!(stopped, Err(WriteError::ClosedStream)), "{stopped:?}");
        }
    });
}

#[test]
fn a_server_receives_more_than_its_limit_once_that_is_lifted() {
    const LEN: usize = 1_000_000;
    simulate(1, async {
        let network = Network::new(1, CLEAN);
        let mut endpoint = EndpointConfig::default();
        endpoint.receive_limit = Some(10_000);
        let (server, client) = endpoints_with(&network, endpoint, server_config());
        let pair = Pair::connect(client, server, client_config()).await;
        let data = pattern(LEN, 6);
        let mut send = pair.client.open_uni().await.unwrap();
        let write = async {
            send.write_all(&data).await.unwrap();
            send.finish().unwrap();
            assert_eq!(send.stopped().await.unwrap(), None);
        };
        let read = async {
            let mut receive = pair.server.accept_uni().await.unwrap();
            let mut received = vec![0; 1000];
            receive.read_exact(&mut received).await.unwrap();
            tokio::time::sleep(500 * MS).await;
            assert!(pair.server.stats().unwrap().recv_bytes < 12_000);
            pair.server.lift_receive_limit();
            received.extend(receive.read_to_end(LEN).await.unwrap());
            received
        };
        let both = async { tokio::join!(write, read).1 };
        let received = tokio::time::timeout(15_000 * MS, both).await.expect("it hangs");
        assert!(received == data);
    });
}
