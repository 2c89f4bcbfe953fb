//! quinn reports the marks of our packets.

use quinn::TransportConfig;
use tack_endpoint::{Ecn, Endpoint};
use tacklib::EcnState;

use crate::common::{self, App, pattern, run_alone};
use crate::peer;

const LEN: usize = 4 << 20;

#[test]
fn the_counts_of_a_quinn_server_validate_the_path() {
    let (upload, download) = (pattern(LEN, 1), pattern(LEN, 2));
    let transport = TransportConfig::default();
    let (address, server) = peer::server(transport, download.clone(), peer::idle);
    let config = common::endpoint_config(|config| config.ecn = Ecn::Classic);
    let endpoint = Endpoint::client(common::LOCALHOST.into(), config).unwrap();
    let mut client = App::new(endpoint, None);
    let handle = client.connect(address, upload.clone());
    run_alone(&mut client, |client| {
        client.is_done(handle) || client.closed.contains_key(&handle)
    });
    client.exchanges[&handle].assert_received(&download);
    let stats = client.endpoint.connection(handle).unwrap().tack_stats();
    assert_eq!(stats.ecn, EcnState::Capable, "{stats:?}");
    assert!(stats.ecn_marked > 2000, "{stats:?}");
    client.close(handle);
    run_alone(&mut client, |client| client.endpoint.is_idle());
    assert_eq!(blake3::hash(&server.join().unwrap().received), blake3::hash(&upload));
}
