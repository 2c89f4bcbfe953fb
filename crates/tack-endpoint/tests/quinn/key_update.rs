//! quinn changes the keys while data flows. quiche follows, and so must the layer, which opens and
//! seals the same packets.

use std::cell::Cell;
use std::sync::Once;
use std::time::Duration;

use quinn::{Connection, TransportConfig};
use tack_endpoint::EndpointConfig;

use crate::common::link::{Link, Shape};
use crate::common::{App, Certificate, pattern, run_alone};
use crate::peer;

const LEN: usize = 8 << 20;

/// Eight mebibytes take 1.7 s.
const SHAPE: Shape =
    Shape { one_way: Duration::from_millis(2), bytes_per_second: 5_000_000, buffer: 200_000 };

/// quinn refuses an update while the one before is younger than three probe timeouts, here some
/// 100 ms.
const BETWEEN_UPDATES: Duration = Duration::from_millis(250);

/// Updates that must have been followed.
const LEAST_UPDATES: u32 = 4;

fn update_keys(connection: Connection) {
    tokio::spawn(async move {
        while connection.close_reason().is_none() {
            tokio::time::sleep(BETWEEN_UPDATES).await;
            connection.force_key_update();
        }
    });
}

thread_local! {
    static FOLLOWED: Cell<u32> = const { Cell::new(0) };
}

/// quiche says in its log alone that it has followed an update. Our endpoint runs on the thread of
/// its test, so each test counts its own.
struct Log;

impl log::Log for Log {
    fn enabled(&self, metadata: &log::Metadata<'_>) -> bool {
        metadata.target() == "quiche"
    }

    fn log(&self, record: &log::Record<'_>) {
        if self.enabled(record.metadata())
            && record.args().to_string().ends_with("key update verified")
        {
            FOLLOWED.set(FOLLOWED.get() + 1);
        }
    }

    fn flush(&self) {}
}

fn count_updates() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        log::set_logger(&Log).unwrap();
        log::set_max_level(log::LevelFilter::Trace);
    });
}

#[test]
fn our_server_follows_the_key_updates_of_a_quinn_client() {
    count_updates();
    let (upload, download) = (pattern(LEN, 1), pattern(LEN, 2));
    let config = EndpointConfig::default();
    let mut server = App::server(&Certificate::new(), config, download.clone());
    let link = Link::new(server.local_addr(), SHAPE);
    let transport = TransportConfig::default();
    let client = peer::client(link.address(), transport, upload.clone(), update_keys);

    run_alone(&mut server, |server| !server.closed.is_empty());
    assert_eq!(blake3::hash(&client.join().unwrap().received), blake3::hash(&download));
    server.exchanges[&server.only()].assert_received(&upload);
    assert_eq!(server.endpoint.stats().connection_errors, 0);
    assert!(FOLLOWED.get() >= LEAST_UPDATES, "{} updates", FOLLOWED.get());
}

#[test]
fn our_client_follows_the_key_updates_of_a_quinn_server() {
    count_updates();
    let (upload, download) = (pattern(LEN, 1), pattern(LEN, 2));
    let transport = TransportConfig::default();
    let (address, server) = peer::server(transport, download.clone(), update_keys);
    let link = Link::new(address, SHAPE);

    let mut client = App::client();
    let handle = client.connect(link.address(), upload.clone());
    run_alone(&mut client, |client| {
        client.is_done(handle) || client.closed.contains_key(&handle)
    });
    client.exchanges[&handle].assert_received(&download);
    client.close(handle);
    run_alone(&mut client, |client| client.endpoint.is_idle());
    assert_eq!(blake3::hash(&server.join().unwrap().received), blake3::hash(&upload));
    assert_eq!(client.endpoint.stats().connection_errors, 0);
    assert!(FOLLOWED.get() >= LEAST_UPDATES, "{} updates", FOLLOWED.get());
}
