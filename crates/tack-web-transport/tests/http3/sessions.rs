//! Both ends of this crate.

use std::time::Duration;

use bytes::Bytes;
use tack_tokio::{Endpoint, EndpointConfig};
use tack_web_transport::Error;
use tack_web_transport::http3::{self, Server, Session, http::StatusCode};
use web_transport_trait::{
    Error as _, RecvStream as _, SendStream as _, Session as _, Stats as _,
};

use super::common::network::{Network, Shape, simulate};
use super::common::{certificate, patiently, pattern};
use super::{
    dial, http3_client_config, http3_server, http3_server_config, pair, request, requested,
};

/// Sends back what comes on each stream and in each DATAGRAM until the session ends.
pub async fn echo<S: web_transport_trait::Session>(session: S) -> S::Error {
    loop {
        tokio::select! {
            stream = session.accept_bi() => match stream {
                Ok((mut send, mut receive)) => {
                    let data = receive.read_all().await.unwrap();
                    send.set_priority(5);
                    send.write_chunk(data).await.unwrap();
                    send.finish().unwrap();
                    send.closed().await.unwrap();
                }
                Err(error) => break error,
            },
            stream = session.accept_uni() => match stream {
                Ok(mut receive) => {
                    let data = receive.read_all().await.unwrap();
                    let mut send = session.open_uni().await.unwrap();
                    send.write_chunk(data).await.unwrap();
                    send.finish().unwrap();
                    send.closed().await.unwrap();
                }
                Err(error) => break error,
            },
            datagram = session.recv_datagram() => match datagram {
                Ok(datagram) => session.send_datagram(datagram).unwrap(),
                Err(error) => break error,
            },
        }
    }
}

/// Sends data on streams and in a DATAGRAM to a peer that echoes, and closes the session.
pub async fn exercise<S: web_transport_trait::Session>(session: &S, len: usize) {
    let data = Bytes::from(pattern(len, 5));
    let (mut send, mut receive) = session.open_bi().await.unwrap();
    let write = async {
        send.write_all_buf(&mut data.clone()).await.unwrap();
        send.finish().unwrap();
    };
    let ((), answer) = tokio::join!(write, receive.read_all());
    assert!(answer.unwrap() == data);
    receive.closed().await.unwrap();

    let mut send = session.open_uni().await.unwrap();
    send.write_all(b"one way").await.unwrap();
    send.finish().unwrap();
    let mut back = session.accept_uni().await.unwrap();
    assert_eq!(back.read_all().await.unwrap(), b"one way"[..]);

    assert!(session.max_datagram_size() > 1000);
    session.send_datagram(Bytes::from_static(b"there and back")).unwrap();
    assert_eq!(session.recv_datagram().await.unwrap(), b"there and back"[..]);
    session.close(17, "that is all");
}

#[tokio::test]
async fn a_program_of_the_traits_runs_over_http3() {
    patiently(async {
        let mut server = Server::new(http3_server(&certificate()));
        let (connection, endpoint) = dial(server.endpoint().local_addr()).await;
        assert!(connection.is_tack());
        let offer = request().with_protocol("other").with_protocol("moq-test");
        let mut echoing = None;
        let answer = async |request: http3::Request| {
            assert_eq!(
                (request.url().path(), request.url().query()),
                ("/room", Some("token=7"))
            );
            assert_eq!(request.protocols(), ["other", "moq-test"]);
            let session = request.accept_with_protocol("moq-test").await.unwrap();
            assert_eq!(session.url().path(), "/room");
            echoing = Some(tokio::spawn(echo(session)));
        };
        let connecting = http3::connect(connection, offer);
        let client = requested(&mut server, connecting, answer).await.unwrap();
        assert_eq!(client.protocol(), Some("moq-test"));
        exercise(&client, 300_000).await;
        let told = echoing.unwrap().await.unwrap().session_error();
        assert_eq!(told, Some((17, "that is all".to_owned())));
        assert_eq!(client.closed().await.session_error().unwrap().0, 17);
        let stats = client.stats();
        assert!(stats.estimated_send_rate().unwrap() > 0);
        assert!(stats.bytes_sent().unwrap() > 300_000);
        assert!(stats.rtt().is_some());
        drop(stats);
        // The connection goes with the session.
        endpoint.wait_idle().await;
    })
    .await;
}

#[tokio::test]
async fn either_end_closes_with_code_and_reason() {
    patiently(async {
        for by_server in [false, true] {
            let (client, accepted, endpoint, _server) = pair().await;
            let (here, there) =
                if by_server { (&accepted, &client) } else { (&client, &accepted) };
            // Longer than the capsule takes.
            here.close(u32::MAX, &"why ".repeat(400));
            let reason = "why ".repeat(256);
            assert_eq!(there.closed().await.session_error(), Some((u32::MAX, reason)));
            let error = there.open_uni().await.unwrap_err();
            assert_eq!(error.session_error().unwrap().0, u32::MAX);
            assert_eq!(
                here.accept_bi().await.unwrap_err().session_error().unwrap().0,
                u32::MAX
            );
            endpoint.wait_idle().await;
        }
    })
    .await;
}

#[tokio::test]
async fn dropping_the_last_handle_closes_with_code_zero_and_a_stream_holds_the_session() {
    patiently(async {
        let (client, accepted, endpoint, _server) = pair().await;
        let mut send = client.open_uni().await.unwrap();
        drop(client);
        send.write_all(b"still here").await.unwrap();
        send.finish().unwrap();
        let mut receive = accepted.accept_uni().await.unwrap();
        assert_eq!(receive.read_all().await.unwrap(), b"still here"[..]);
        drop(send);
        assert_eq!(accepted.closed().await.session_error(), Some((0, String::new())));
        endpoint.wait_idle().await;
    })
    .await;
}

#[tokio::test]
async fn a_request_that_nobody_has_accepted_gets_no_empty_answer() {
    patiently(async {
        let (client, accepted, endpoint, _server) = pair().await;
        let (mut send, mut receive) = client.open_bi().await.unwrap();
        send.write_all(b"request").await.unwrap();
        send.finish().unwrap();
        // A stream that comes later: the request waits when it is there.
        let mut later = client.open_uni().await.unwrap();
        later.write_all(b"x").await.unwrap();
        drop(accepted.accept_uni().await.unwrap());
        drop(accepted);
        let answer = receive.read_all().await;
        assert!(answer.is_err(), "{answer:?}");
        drop((send, receive, later, client));
        endpoint.wait_idle().await;
    })
    .await;
}

#[tokio::test]
async fn a_close_wakes_what_waits_at_its_own_end() {
    patiently(async {
        let (client, accepted, _endpoint, _server) = pair().await;
        let (mut send, mut receive) = client.open_bi().await.unwrap();
        send.write_all(b"?").await.unwrap();
        let _open = accepted.accept_bi().await.unwrap();
        let (read, closed, datagram, stream, ()) = tokio::join!(
            receive.read_chunk(1),
            send.closed(),
            client.recv_datagram(),
            client.accept_uni(),
            async {
                tokio::task::yield_now().await;
                client.close(5, "");
            }
        );
        let errors = [
            read.unwrap_err(),
            closed.unwrap_err(),
            datagram.unwrap_err(),
            stream.err().unwrap(),
            send.write(b"late").await.unwrap_err(),
        ];
        for error in errors {
            assert_eq!(error.session_error(), Some((5, String::new())));
        }
    })
    .await;
}

#[tokio::test]
async fn codes_of_streams_reach_the_other_end() {
    patiently(async {
        let (client, accepted, _endpoint, _server) = pair().await;
        for code in [8, 30, u32::MAX] {
            let mut send = client.open_uni().await.unwrap();
            send.write_all(b"data").await.unwrap();
            let mut receive = accepted.accept_uni().await.unwrap();
            receive.stop(code);
            assert_eq!(send.closed().await.unwrap_err().stream_error(), Some(code));
            assert_eq!(send.write(b"more").await.unwrap_err().stream_error(), Some(code));

            let mut send = client.open_uni().await.unwrap();
            send.write_all(b"data").await.unwrap();
            let mut receive = accepted.accept_uni().await.unwrap();
            send.reset(code);
            send.closed().await.unwrap();
            assert_eq!(receive.closed().await.unwrap_err().stream_error(), Some(code));
        }
        // What is dropped is no whole stream.
        let mut send = client.open_uni().await.unwrap();
        send.write_all(b"part").await.unwrap();
        let mut receive = accepted.accept_uni().await.unwrap();
        drop(send);
        assert_eq!(receive.read_all().await.unwrap_err().stream_error(), Some(0));
    })
    .await;
}

#[tokio::test]
async fn a_refused_session_tells_its_status() {
    patiently(async {
        let mut server = Server::new(http3_server(&certificate()));
        for status in [StatusCode::NOT_FOUND, StatusCode::TOO_MANY_REQUESTS] {
            let (connection, endpoint) = dial(server.endpoint().local_addr()).await;
            let connecting = http3::connect(connection, request());
            let answer = async |request: http3::Request| request.reject(status).await.unwrap();
            let error = requested(&mut server, connecting, answer).await.unwrap_err();
            assert!(matches!(error, Error::Rejected(told) if told == status), "{error}");
            endpoint.wait_idle().await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_request_that_is_dropped_ends_the_client_and_a_protocol_must_be_offered() {
    patiently(async {
        let mut server = Server::new(http3_server(&certificate()));
        let (connection, _endpoint) = dial(server.endpoint().local_addr()).await;
        let connecting = http3::connect(connection, request().with_protocol("this"));
        let answer = async |request: http3::Request| {
            let error = request.accept_with_protocol("that").await.unwrap_err();
            assert!(matches!(error, Error::ProtocolNotOffered(_)), "{error}");
        };
        let error = requested(&mut server, connecting, answer).await.unwrap_err();
        assert!(matches!(error, Error::Connection(_)), "{error}");
    })
    .await;
}

#[tokio::test]
async fn a_connection_for_another_protocol_is_none_of_http3() {
    patiently(async {
        let pair = super::common::Pair::new().await;
        let error = http3::connect(pair.client, request()).await.unwrap_err();
        assert!(
            matches!(&error, Error::NotHttp3(name) if name == "tack-tokio-test"),
            "{error}"
        );
        let error = http3::Request::receive(pair.server).await.unwrap_err();
        assert!(matches!(error, Error::NotHttp3(_)), "{error}");
    })
    .await;
}

async fn simulated_pair(network: &Network) -> (Session, Session, Endpoint, Server) {
    let endpoint = EndpointConfig::default();
    let config = Some(http3_server_config(&certificate()));
    let server = Endpoint::with_socket(network.socket(4433), config, endpoint.clone()).unwrap();
    let client = Endpoint::with_socket(network.socket(1000), None, endpoint).unwrap();
    let mut config = http3_client_config();
    let connecting = client.connect(server.local_addr(), Some("localhost"), &mut config);
    let mut server = Server::new(server);
    let connect = async { http3::connect(connecting.unwrap().await.unwrap(), request()).await };
    let accept = async { server.accept().await.unwrap().accept().await };
    let (session, accepted) = tokio::join!(connect, accept);
    (session.unwrap(), accepted.unwrap(), client, server)
}

#[test]
fn a_session_lives_and_ends_on_a_network_that_loses_and_delays() {
    let lossy = Shape { delay: Duration::from_millis(20), loss_percent: 3 };
    for seed in 1..=5 {
        simulate(seed, async {
            let network = Network::new(seed, lossy);
            let (client, accepted, endpoint, _server) = simulated_pair(&network).await;
            let echo = tokio::spawn(async move {
                // A DATAGRAM may be lost here: streams alone.
                while let Ok((mut send, mut receive)) = accepted.accept_bi().await {
                    let data = receive.read_all().await.unwrap();
                    send.write_chunk(data).await.unwrap();
                    send.finish().unwrap();
                }
                accepted.closed().await
            });
            for n in 0..5 {
                let data = Bytes::from(pattern(50_000, n));
                let (mut send, mut receive) = client.open_bi().await.unwrap();
                let write = async {
                    send.write_all(&data).await.unwrap();
                    send.finish().unwrap();
                };
                assert!(tokio::join!(write, receive.read_all()).1.unwrap() == data);
            }
            // The capsule is repeated where it is lost.
            client.close(9, "enough");
            let told = echo.await.unwrap().session_error();
            assert_eq!(told, Some((9, "enough".to_owned())), "seed {seed}");
            endpoint.wait_idle().await;
        });
    }
}

#[test]
fn a_peer_that_never_sends_settings_is_given_up() {
    let clean = Shape { delay: Duration::from_millis(20), loss_percent: 0 };
    simulate(1, async {
        let network = Network::new(1, clean);
        let config = Some(http3_server_config(&certificate()));
        let endpoint = EndpointConfig::default();
        let server =
            Endpoint::with_socket(network.socket(4433), config, endpoint.clone()).unwrap();
        let client = Endpoint::with_socket(network.socket(1000), None, endpoint).unwrap();
        let mut config = http3_client_config();
        let connecting =
            client.connect(server.local_addr(), Some("localhost"), &mut config).unwrap();
        let (connection, silent) = tokio::join!(connecting, server.accept());
        let error = http3::connect(connection.unwrap(), request()).await.unwrap_err();
        assert!(matches!(error, Error::HandshakeTimeout), "{error}");
        // And the connection with it.
        silent.unwrap().closed().await;
    });
}
