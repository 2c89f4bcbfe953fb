//! Clients that begin a connection and ask for no session.

use std::net::SocketAddr;
use std::time::Duration;

use tack_tokio::{Connection, Endpoint, EndpointConfig};
use tack_web_transport::http3::{self, HANDSHAKE_TIMEOUT, Server};

use super::common::{certificate, patiently};
use super::{http3_client_config, http3_server, request};

/// As many as a server lets be without a request.
const PLACES: usize = 256;

/// Less than mute clients are waited for.
const SOON: Duration = Duration::from_secs(5);

/// The endpoint of clients at an address of this machine.
fn endpoint(last_octet: u8) -> Endpoint {
    let address = SocketAddr::from(([127, 0, 0, last_octet], 0));
    Endpoint::client(address, EndpointConfig::default()).unwrap()
}

async fn connection(endpoint: &Endpoint, server: SocketAddr) -> Connection {
    let mut config = http3_client_config();
    endpoint.connect(server, Some("localhost"), &mut config).unwrap().await.unwrap()
}

#[tokio::test]
async fn mute_clients_of_one_network_keep_no_client_of_another_out() {
    assert!(SOON < HANDSHAKE_TIMEOUT);
    patiently(async {
        let mut server = Server::new(http3_server(&certificate()));
        let to = server.endpoint().local_addr();
        let serving = tokio::spawn(async move {
            for _ in 0..2 {
                let request = server.accept().await.unwrap();
                tokio::spawn(async move {
                    let session = request.accept().await.unwrap();
                    std::future::pending::<()>().await;
                    drop(session);
                });
            }
            server
        });
        let [few, many] = [2, 3].map(endpoint);
        // The oldest of all, of a network that has no other.
        let early = connection(&few, to).await;
        let mut mute = Vec::new();
        for _ in 0..PLACES {
            mute.push(connection(&many, to).await);
        }
        let late = connection(&few, to).await;
        for client in [late, early] {
            let session = tokio::time::timeout(SOON, http3::connect(client, request()));
            session.await.expect("a place for this client").unwrap();
        }
        // The two oldest have given way.
        for gone in &mute[..2] {
            let closed = tokio::time::timeout(SOON, gone.closed()).await;
            closed.expect("the oldest has given way");
        }
        drop(serving.await.unwrap());
    })
    .await;
}
