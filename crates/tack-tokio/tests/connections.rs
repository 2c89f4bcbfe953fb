//! Connections and endpoints over the loopback interface.

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

use common::{ALPN, Pair, client_config, localhost, patiently, pattern, server_config};
use tack_tokio::{
    CloseReason, ConnectionError, Endpoint, EndpointConfig, Error, SendDatagramError,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_connections_share_two_sockets() {
    patiently(async {
        let endpoint = EndpointConfig::default();
        let server = Endpoint::server(localhost(), server_config(), endpoint.clone()).unwrap();
        let client = Endpoint::client(localhost(), endpoint).unwrap();
        let to = server.local_addr();
        let accepting = server.clone();
        tokio::spawn(async move {
            while let Some(connection) = accepting.accept().await {
                tokio::spawn(async move {
                    let (mut send, mut receive) = connection.accept_bi().await.unwrap();
                    let data = receive.read_to_end(usize::MAX).await.unwrap();
                    send.write_all(&data).await.unwrap();
                    send.finish().unwrap();
                    connection.closed().await;
                });
            }
        });
        let tasks: Vec<_> = (0..100)
            .map(|n| {
                let client = client.clone();
                tokio::spawn(async move {
                    let mut config = client_config();
                    let connecting = client.connect(to, Some("localhost"), &mut config);
                    let connection = connecting.unwrap().await.unwrap();
                    let (mut send, mut receive) = connection.open_bi().await.unwrap();
                    let data = pattern(50_000, n);
                    send.write_all(&data).await.unwrap();
                    send.finish().unwrap();
                    assert!(receive.read_to_end(usize::MAX).await.unwrap() == data);
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        client.wait_idle().await;
        assert_eq!(server.stats().accepted, 100);
        server.close(0, b"");
        server.wait_idle().await;
        assert!(server.accept().await.is_none());
    })
    .await;
}

#[tokio::test]
async fn datagrams_arrive_and_those_that_cannot_be_sent_say_why() {
    patiently(async {
        let pair = Pair::new().await;
        let max = pair.client.max_datagram_size().unwrap();
        pair.client.send_datagram(&vec![1; max]).unwrap();
        assert_eq!(pair.server.read_datagram().await.unwrap().len(), max);
        let error = pair.client.send_datagram(&vec![1; 5000]).unwrap_err();
        assert!(matches!(error, SendDatagramError::TooLarge { len: 5000, max: _ }), "{error}");

        // Nothing leaves before the driver runs, and this test does not let it.
        let mut queued = 0;
        let error = loop {
            match pair.client.send_datagram(b"again") {
                Ok(()) => queued += 1,
                Err(error) => break error,
            }
        };
        assert!(matches!(error, SendDatagramError::Blocked), "{error}");
        assert_eq!(queued, 64);
        let send = pair.client.send_datagram_wait(b"last");
        let receive = async {
            for _ in 0..64 {
                assert_eq!(pair.server.read_datagram().await.unwrap(), b"again"[..]);
            }
            pair.server.read_datagram().await.unwrap()
        };
        let (sent, last) = tokio::join!(send, receive);
        sent.unwrap();
        assert_eq!(last, b"last"[..]);
    })
    .await;
}

#[tokio::test]
async fn datagrams_need_both_ends() {
    patiently(async {
        let mut client = client_config();
        client.enable_dgram(false, 0, 0);
        let pair = Pair::with(client, server_config()).await;
        assert_eq!(pair.server.max_datagram_size(), None);
        let error = pair.server.send_datagram(b"?").unwrap_err();
        assert!(matches!(error, SendDatagramError::Unsupported), "{error}");
    })
    .await;
}

#[tokio::test]
async fn a_connection_tells_of_its_peer() {
    patiently(async {
        let pair = Pair::new().await;
        let (client, server) = (&pair.client, &pair.server);
        assert_eq!(client.remote_address().unwrap(), pair.server_endpoint.local_addr());
        assert_eq!(server.remote_address().unwrap(), pair.client_endpoint.local_addr());
        assert_eq!(client.application_protocol(), ALPN);
        assert_eq!(server.server_name().as_deref(), Some("localhost"));
        assert_eq!(client.peer_certificate_chain(), [client.peer_certificate().unwrap()]);
        assert_eq!(server.peer_certificate(), None);
        let mut send = client.open_uni().await.unwrap();
        send.write_all(&vec![0; 100_000]).await.unwrap();
        send.finish().unwrap();
        let mut receive = server.accept_uni().await.unwrap();
        receive.read_to_end(usize::MAX).await.unwrap();
        assert_eq!(send.stopped().await.unwrap(), None);
        assert!(client.stats().unwrap().sent_bytes > 100_000);
        assert!(client.tack_stats().bandwidth > 0);
        assert!(client.media_stats().estimated_send_rate > 0);
        assert!(client.path_stats().iter().any(|path| path.active));
    })
    .await;
}

#[tokio::test]
async fn dropping_the_last_handle_closes_with_code_zero_and_a_stream_is_a_handle() {
    patiently(async {
        let pair = Pair::new().await;
        let mut send = pair.client.open_uni().await.unwrap();
        drop(pair.client);
        send.write_all(b"still here").await.unwrap();
        let mut receive = pair.server.accept_uni().await.unwrap();
        assert_eq!(receive.read_chunk(100).await.unwrap().unwrap(), b"still here"[..]);
        assert!(pair.server.close_reason().is_none());
        drop(send);
        let ConnectionError::Closed(reason) = pair.server.closed().await else { panic!() };
        assert_eq!(reason, CloseReason::Peer { application: true, code: 0, reason: vec![] });
    })
    .await;
}

#[tokio::test]
async fn a_close_ends_all_that_waits_at_both_ends() {
    patiently(async {
        let pair = Pair::new().await;
        let (mut send, mut receive) = pair.client.open_bi().await.unwrap();
        send.write_all(b"hello").await.unwrap();
        let (_answer, mut question) = pair.server.accept_bi().await.unwrap();
        question.read_chunk(5).await.unwrap();
        let mut back = pair.server.open_uni().await.unwrap();
        let much = vec![0; 10_000_000];
        let here = async {
            let (read, stopped, accepted, datagram, closed) = tokio::join!(
                receive.read_chunk(1),
                send.stopped(),
                pair.client.accept_bi(),
                pair.client.read_datagram(),
                pair.client.closed()
            );
            let read = read.unwrap_err().to_string();
            let stopped = stopped.unwrap_err().to_string();
            let accepted = accepted.err().unwrap().to_string();
            let datagram = datagram.unwrap_err().to_string();
            [read, stopped, accepted, datagram, closed.to_string()]
        };
        let there = async {
            let (read, written, accepted) = tokio::join!(
                question.read_chunk(1),
                back.write_all(&much),
                pair.server.accept_uni()
            );
            let read = read.unwrap_err().to_string();
            let written = written.unwrap_err().to_string();
            [read, written, accepted.err().unwrap().to_string()]
        };
        let close = async {
            tokio::time::sleep(Duration::from_millis(20)).await;
            pair.client.close(9, b"enough");
        };
        let (here, there, ()) = tokio::join!(here, there, close);
        for local in here {
            assert!(local.contains("closed by this side with application code 0x9"), "{local}");
        }
        for remote in there {
            assert!(
                remote.contains("closed by the peer with application code 0x9"),
                "{remote}"
            );
        }
    })
    .await;
}

#[tokio::test]
async fn an_endpoint_accepts_and_connects_at_once() {
    patiently(async {
        let both = || Endpoint::server(localhost(), server_config(), EndpointConfig::default());
        let (a, b) = (both().unwrap(), both().unwrap());
        let there = Pair::connect(a.clone(), b.clone(), client_config()).await;
        let back = Pair::connect(b, a, client_config()).await;
        for pair in [there, back] {
            pair.client.send_datagram(b"x").unwrap();
            assert_eq!(pair.server.read_datagram().await.unwrap(), b"x"[..]);
        }
    })
    .await;
}

#[tokio::test]
async fn an_endpoint_whose_handles_are_dropped_goes_on_for_its_connections() {
    patiently(async {
        let Pair { client_endpoint, server_endpoint, client, server } = Pair::new().await;
        let address = server_endpoint.local_addr();
        drop((client_endpoint, server_endpoint));
        let mut send = client.open_uni().await.unwrap();
        send.write_all(b"data").await.unwrap();
        send.finish().unwrap();
        let mut receive = server.accept_uni().await.unwrap();
        assert_eq!(receive.read_to_end(10).await.unwrap(), b"data");
        drop((client, send));
        drop((server, receive));
        // The socket is free when the task has ended.
        while std::net::UdpSocket::bind(address).is_err() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn the_socket_is_closed_when_the_last_connection_is_over_though_handles_of_it_are_left() {
    patiently(async {
        let Pair { client_endpoint, server_endpoint, client, server } = Pair::new().await;
        let address = server_endpoint.local_addr();
        drop((client_endpoint, server_endpoint));
        let mut send = client.open_uni().await.unwrap();
        send.write_all(b"data").await.unwrap();
        send.finish().unwrap();
        let mut receive = server.accept_uni().await.unwrap();
        assert_eq!(send.stopped().await.unwrap(), None);
        client.close(0, b"");
        while std::net::UdpSocket::bind(address).is_err() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        // What had come can be read all the same.
        assert_eq!(receive.read_to_end(10).await.unwrap(), b"data");
        assert!(matches!(server.close_reason(), Some(ConnectionError::Closed(_))));
        server.close(0, b"");
        assert!(server.open_uni().await.is_err());
    })
    .await;
}

#[test]
fn without_a_runtime_an_endpoint_says_what_it_needs() {
    let opened = Endpoint::client(localhost(), EndpointConfig::default());
    assert!(matches!(opened.err(), Some(Error::NoRuntime)));
}

#[test]
fn connections_whose_runtime_has_ended_fail_and_do_not_hang() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let pair = runtime.block_on(Pair::new());
    drop(runtime);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(patiently(async {
        assert!(matches!(pair.client.closed().await, ConnectionError::EndpointStopped));
        assert!(pair.client.open_uni().await.is_err());
        assert!(pair.server_endpoint.accept().await.is_none());
        pair.server_endpoint.close(0, b"");
        assert!(std::net::UdpSocket::bind(pair.server_endpoint.local_addr()).is_ok());
        let connected =
            pair.client_endpoint.connect(localhost(), Some("localhost"), &mut client_config());
        assert!(matches!(connected.err(), Some(Error::Stopped(_))));
        pair.client_endpoint.wait_idle().await;
    }));
}

#[tokio::test]
async fn a_certificate_that_nobody_vouches_for_is_refused() {
    patiently(async {
        let server =
            Endpoint::server(localhost(), server_config(), EndpointConfig::default()).unwrap();
        let client = Endpoint::client(localhost(), EndpointConfig::default()).unwrap();
        let mut config = client_config();
        config.verify_peer(true);
        let connecting = client.connect(server.local_addr(), Some("localhost"), &mut config);
        let error = connecting.unwrap().await.unwrap_err();
        let ConnectionError::Closed(CloseReason::HandshakeFailed(why)) = &error else {
            panic!("{error}");
        };
        assert!(why.contains("CA certificate"), "{why}");
    })
    .await;
}
