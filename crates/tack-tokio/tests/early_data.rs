//! Sessions that are resumed, and data before the handshake is complete (RFC 9001 section 4.6).

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

use common::network::{Network, Shape, simulate};
use common::{Certificate, certificate, client_config, server_config_with};
use tack_tokio::{Connecting, Connection, ConnectionError, Endpoint, EndpointConfig, Error};

const MS: Duration = Duration::from_millis(1);
const CLEAN: Shape = Shape { delay: Duration::from_millis(20), loss_percent: 0 };

fn server(network: &Network, port: u16, certificate: &Certificate, ticket_key: u8) -> Endpoint {
    let mut config = server_config_with(certificate);
    config.enable_early_data();
    config.set_ticket_key(&[ticket_key; 48]).unwrap();
    let mut endpoint = EndpointConfig::default();
    endpoint.retry = false;
    Endpoint::with_socket(network.socket(port), Some(config), endpoint).unwrap()
}

fn client(network: &Network) -> Endpoint {
    Endpoint::with_socket(network.socket(1000), None, EndpointConfig::default()).unwrap()
}

fn connect(client: &Endpoint, server: &Endpoint, session: Option<&[u8]>) -> Connecting {
    let (to, name) = (server.local_addr(), Some("localhost"));
    let mut config = client_config();
    config.enable_early_data();
    match session {
        Some(session) => client.connect_with_session(to, name, &mut config, session),
        None => client.connect(to, name, &mut config),
    }
    .unwrap()
}

/// Sends a request and reads the answer; returns whether the request was sent early, and answered before the handshake
/// was complete at the server.
async fn ask(client: Connection, server: &Endpoint) -> (bool, bool) {
    let ask = async {
        let is_early = client.is_in_early_data();
        let (mut send, mut receive) = client.open_bi().await.unwrap();
        send.write_all(b"request").await.unwrap();
        send.finish().unwrap();
        assert_eq!(receive.read_to_end(10).await.unwrap(), b"answer");
        client.handshake_completed().await.unwrap();
        assert!(!client.is_in_early_data());
        client.close(0, b"");
        is_early
    };
    let answer = async {
        let connection = server.accept().await.unwrap();
        let (mut send, mut receive) = connection.accept_bi().await.unwrap();
        assert_eq!(receive.read_to_end(10).await.unwrap(), b"request");
        let is_early = connection.is_in_early_data();
        send.write_all(b"answer").await.unwrap();
        send.finish().unwrap();
        connection.handshake_completed().await.unwrap();
        assert!(!connection.is_in_early_data());
        connection.closed().await;
        is_early
    };
    tokio::join!(ask, answer)
}

/// What a first connection leaves.
async fn session(client: &Endpoint, server: &Endpoint) -> Vec<u8> {
    let (connection, accepted) = tokio::join!(connect(client, server, None), server.accept());
    let connection = connection.unwrap();
    while connection.session().is_none() {
        tokio::time::sleep(MS).await;
    }
    drop(accepted);
    connection.session().unwrap()
}

#[test]
fn a_request_in_early_data_is_answered_before_the_handshake_is_complete() {
    simulate(1, async {
        let network = Network::new(1, CLEAN);
        let (client, server) = (client(&network), server(&network, 4433, &certificate(), 1));
        let session = session(&client, &server).await;
        let resumed = connect(&client, &server, Some(&session)).into_early_data().await;
        assert_eq!(ask(resumed.unwrap(), &server).await, (true, true));
    });
}

#[test]
fn without_a_session_a_connection_is_there_when_its_handshake_is_complete() {
    simulate(1, async {
        let network = Network::new(1, CLEAN);
        let (client, server) = (client(&network), server(&network, 4433, &certificate(), 1));
        let connection = connect(&client, &server, None).into_early_data().await.unwrap();
        assert_eq!(ask(connection, &server).await, (false, false));
    });
}

#[test]
fn a_session_that_the_server_does_not_take_costs_no_request() {
    simulate(1, async {
        let network = Network::new(1, CLEAN);
        let certificate = certificate();
        let client = client(&network);
        let session = session(&client, &server(&network, 4433, &certificate, 1)).await;
        let other = server(&network, 4434, &certificate, 2);
        let resumed = connect(&client, &other, Some(&session)).into_early_data().await;
        assert_eq!(ask(resumed.unwrap(), &other).await, (true, false));
    });
}

#[test]
fn a_session_is_resumed_without_early_data_by_those_who_wait_for_the_handshake() {
    simulate(1, async {
        let network = Network::new(1, CLEAN);
        let (client, server) = (client(&network), server(&network, 4433, &certificate(), 1));
        let session = session(&client, &server).await;
        let resumed = connect(&client, &server, Some(&session)).await.unwrap();
        assert_eq!(ask(resumed, &server).await, (false, false));
    });
}

#[test]
fn what_is_no_session_is_refused_and_leaves_nothing() {
    simulate(1, async {
        let network = Network::new(1, CLEAN);
        let (client, server) = (client(&network), server(&network, 4433, &certificate(), 1));
        let mut whole = session(&client, &server).await;
        whole.truncate(whole.len() - 1);
        for bytes in [&b""[..], b"no session", &whole] {
            let (to, mut config) = (server.local_addr(), client_config());
            let error =
                client.connect_with_session(to, Some("localhost"), &mut config, bytes).err();
            assert!(matches!(error, Some(Error::Session(_))), "{error:?}");
        }
        client.wait_idle().await;
        assert!(tokio::time::timeout(1000 * MS, server.accept()).await.is_err());
    });
}

#[test]
fn a_handshake_that_fails_is_told_to_those_who_wait_for_it() {
    simulate(1, async {
        let network = Network::new(1, CLEAN);
        let (client, server) = (client(&network), server(&network, 4433, &certificate(), 1));
        let session = session(&client, &server).await;
        network.cut();
        let resumed = connect(&client, &server, Some(&session)).into_early_data().await;
        let resumed = resumed.unwrap();
        assert!(resumed.is_in_early_data());
        let error = resumed.handshake_completed().await.unwrap_err();
        assert!(matches!(error, ConnectionError::Closed(_)), "{error}");
    });
}
