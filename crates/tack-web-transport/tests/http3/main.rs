//! Sessions over HTTP/3: with both ends of this crate, with web-transport-quinn at one end, and with a peer
//! that writes its bytes by hand.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test may fail anywhere"
)]
#![allow(clippy::disallowed_methods, reason = "a simulation begins at some time")]
#![allow(missing_docs, reason = "nothing here is public")]

#[path = "../../../tack-tokio/tests/common/mod.rs"]
mod common;

mod by_hand;
mod by_hand_server;
mod mute_clients;
mod polled;
mod quinn_peer;
mod sessions;

use common::{Certificate, client_config, localhost, server_config_with};
use tack_tokio::{Connection, Endpoint, EndpointConfig, tacklib};
use tack_web_transport::http3::{self, ConnectRequest, Request, Server, Session};

/// The URL of all sessions here; nothing looks at its port.
const URL: &str = "https://localhost:4433/room?token=7";

fn request() -> ConnectRequest {
    ConnectRequest::new(http3::Url::parse(URL).unwrap())
}

fn http3_client_config() -> tacklib::Config {
    let mut config = client_config();
    config.set_application_protos(&[http3::ALPN]).unwrap();
    config
}

fn http3_server_config(certificate: &Certificate) -> tacklib::Config {
    let mut config = server_config_with(certificate);
    config.set_application_protos(&[http3::ALPN]).unwrap();
    config
}

fn http3_server(certificate: &Certificate) -> Endpoint {
    let config = http3_server_config(certificate);
    Endpoint::server(localhost(), config, EndpointConfig::default()).unwrap()
}

/// A connection of a client to a server, and the endpoint, which has to stay.
async fn dial(server: std::net::SocketAddr) -> (Connection, Endpoint) {
    dial_with(server, &mut http3_client_config()).await
}

/// The same with that configuration.
async fn dial_with(
    server: std::net::SocketAddr,
    config: &mut tacklib::Config,
) -> (Connection, Endpoint) {
    let endpoint = Endpoint::client(localhost(), EndpointConfig::default()).unwrap();
    let connecting = endpoint.connect(server, Some("localhost"), config).unwrap();
    (connecting.await.unwrap(), endpoint)
}

/// Both ends of a session, and the endpoints.
async fn pair() -> (Session, Session, Endpoint, Server) {
    let mut server = Server::new(http3_server(&common::certificate()));
    let (connection, endpoint) = dial(server.endpoint().local_addr()).await;
    let accept = async { server.accept().await.unwrap().accept().await };
    let (client, accepted) = tokio::join!(http3::connect(connection, request()), accept);
    (client.unwrap(), accepted.unwrap(), endpoint, server)
}

/// A server's request, and what the client does meanwhile.
async fn requested<T>(
    server: &mut Server,
    client: impl Future<Output = T>,
    answer: impl AsyncFnOnce(Request),
) -> T {
    let serve = async {
        let request = server.accept().await.unwrap();
        answer(request).await;
    };
    tokio::join!(client, serve).0
}
