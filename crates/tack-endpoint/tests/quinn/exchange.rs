//! Data in both directions, at the speed of the loopback.

use quinn::TransportConfig;
use tack_endpoint::EndpointConfig;

use crate::common::{App, Certificate, pattern, run_alone};
use crate::peer;

const LEN: usize = 16 << 20;

#[test]
fn a_quinn_client_exchanges_16_mib_with_our_server() {
    let (upload, download) = (pattern(LEN, 1), pattern(LEN, 2));
    let config = EndpointConfig::default();
    let mut server = App::server(&Certificate::new(), config, download.clone());
    let address = server.local_addr();
    let client = peer::client(address, TransportConfig::default(), upload.clone(), peer::idle);

    run_alone(&mut server, |server| !server.closed.is_empty());
    assert_eq!(blake3::hash(&client.join().unwrap().received), blake3::hash(&download));
    server.exchanges[&server.only()].assert_received(&upload);
    assert_eq!(server.endpoint.stats().connection_errors, 0);
}

#[test]
fn our_client_exchanges_16_mib_with_a_quinn_server() {
    let (upload, download) = (pattern(LEN, 1), pattern(LEN, 2));
    let transport = TransportConfig::default();
    let (address, server) = peer::server(transport, download.clone(), peer::idle);

    let mut client = App::client();
    let handle = client.connect(address, upload.clone());
    run_alone(&mut client, |client| {
        client.is_done(handle) || client.closed.contains_key(&handle)
    });
    client.exchanges[&handle].assert_received(&download);
    client.close(handle);
    run_alone(&mut client, |client| client.endpoint.is_idle());
    assert_eq!(blake3::hash(&server.join().unwrap().received), blake3::hash(&upload));
}
