//! ACK_FREQUENCY, the part of TACK that a peer has who knows nothing of TACK: quinn obeys ours, and
//! we obey quinn's.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use quinn::{AckFrequencyConfig, ConnectionStats, TransportConfig};
use tack_endpoint::EndpointConfig;
use tacklib::{Profile, TackStats};

use crate::common::link::{Link, Shape};
use crate::common::{App, Certificate, client_config, pattern, run_alone, server_config};
use crate::peer;

const LEN: usize = 4 << 20;

/// 5 ms, a quarter of the round trip, are 17 packets at this rate.
const SHAPE: Shape =
    Shape { one_way: Duration::from_millis(10), bytes_per_second: 5_000_000, buffer: 100_000 };

/// What quinn asks us for: an acknowledgement of more packets than these.
const PACKETS_WITHOUT_ACK: u32 = 20;

/// Transfers that share the processors would bunch each other's packets.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What was seen of a transfer at both ends.
#[derive(Debug)]
struct Seen {
    ours: TackStats,
    quinn: ConnectionStats,
}

/// Our server sends to a quinn client.
fn our_server_sends(profile: Profile) -> Seen {
    let download = pattern(LEN, 2);
    let mut config = server_config(&Certificate::new());
    config.set_profile(profile);
    let mut server = App::server_with(config, EndpointConfig::default(), download.clone());
    let link = Link::new(server.local_addr(), SHAPE);
    let client = peer::client(
        link.address(),
        TransportConfig::default(),
        b"please".to_vec(),
        peer::idle,
    );

    let mut ours = TackStats::default();
    run_alone(&mut server, |server| {
        let connection =
            server.exchanges.keys().find_map(|one| server.endpoint.connection(*one));
        ours = connection.map_or(ours, tacklib::Connection::tack_stats);
        !server.closed.is_empty()
    });
    let outcome = client.join().unwrap();
    assert_eq!(blake3::hash(&outcome.received), blake3::hash(&download));
    assert_eq!(server.endpoint.stats().connection_errors, 0);
    Seen { ours, quinn: outcome.stats }
}

/// Our client exchanges `upload` for `download` with a quinn server.
fn our_client_exchanges(
    profile: Profile,
    transport: TransportConfig,
    upload: &[u8],
    download: &[u8],
) -> Seen {
    let (address, server) = peer::server(transport, download.to_vec(), peer::idle);
    let link = Link::new(address, SHAPE);
    let mut config = client_config();
    config.set_profile(profile);
    let mut client = App::client();
    let handle = client.connect_with(link.address(), upload.to_vec(), &mut config);
    run_alone(&mut client, |client| {
        client.is_done(handle) || client.closed.contains_key(&handle)
    });
    client.exchanges[&handle].assert_received(download);
    let ours = client.endpoint.connection(handle).unwrap().tack_stats();
    client.close(handle);
    run_alone(&mut client, |client| client.endpoint.is_idle());
    let outcome = server.join().unwrap();
    assert_eq!(blake3::hash(&outcome.received), blake3::hash(upload));
    Seen { ours, quinn: outcome.stats }
}

/// A loaded machine hands over packets in bunches, and who gets a bunch acknowledges it once: the
/// comparison is with a run on the same machine.
fn assert_rarer(asked: (u64, u64), plain: (u64, u64)) {
    let per_ack = |(packets, acks): (u64, u64)| packets as f64 / acks as f64;
    let (asked, plain) = (per_ack(asked), per_ack(plain));
    assert!(
        asked >= 5.0 && asked >= 1.3 * plain,
        "{asked:.1} packets for an acknowledgement, and {plain:.1} where nobody asked for it"
    );
}

fn assert_quinn_obeyed(asked: &Seen, plain: &Seen) {
    assert!(asked.ours.frequency_updates_sent >= 1, "{asked:?}");
    // The last one may still have been on its way.
    assert!(asked.quinn.frame_rx.ack_frequency >= 1, "{asked:?}");
    assert_eq!(plain.quinn.frame_rx.ack_frequency, 0);
    let counts = |stats: &ConnectionStats| (stats.udp_rx.datagrams, stats.frame_tx.acks);
    assert_rarer(counts(&asked.quinn), counts(&plain.quinn));
    // What quinn sent is what we received.
    let (sent, received) = (asked.quinn.frame_tx.acks, asked.ours.acks_received);
    assert!(received * 10 >= sent * 9, "{received} of {sent} acknowledgements received");
}

#[test]
fn a_quinn_client_acknowledges_as_rarely_as_our_server_asks() {
    let _alone = alone();
    let plain = our_server_sends(Profile::Off);
    let asked = our_server_sends(Profile::Default);
    assert_quinn_obeyed(&asked, &plain);
}

#[test]
fn a_quinn_server_acknowledges_as_rarely_as_our_client_asks() {
    let _alone = alone();
    let (data, reply) = (pattern(LEN, 1), b"thanks");
    let upload =
        |profile| our_client_exchanges(profile, TransportConfig::default(), &data, reply);
    let plain = upload(Profile::Off);
    let asked = upload(Profile::Default);
    assert_quinn_obeyed(&asked, &plain);
}

#[test]
fn our_client_acknowledges_as_rarely_as_a_quinn_server_asks() {
    let _alone = alone();
    let download = |transport| {
        our_client_exchanges(Profile::Default, transport, b"please", &pattern(LEN, 2)).quinn
    };
    let mut frequency = AckFrequencyConfig::default();
    frequency.ack_eliciting_threshold(PACKETS_WITHOUT_ACK.into());
    let mut asking = TransportConfig::default();
    asking.ack_frequency_config(Some(frequency));

    let (plain, asked) = (download(TransportConfig::default()), download(asking));
    assert!(asked.frame_tx.ack_frequency >= 1);
    assert_eq!(plain.frame_tx.ack_frequency, 0);
    let counts = |stats: &ConnectionStats| (stats.udp_tx.datagrams, stats.frame_rx.acks);
    assert_rarer(counts(&asked), counts(&plain));
}
