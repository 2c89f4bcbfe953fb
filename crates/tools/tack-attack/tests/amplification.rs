//! What was not authenticated does not lift the limits of RFC 9000 section 8.1 and RFC 9002
//! section 7.2, and changes nothing else either.

#![allow(clippy::unwrap_used, clippy::expect_used)] // a test that cannot be set up has failed

use std::time::Duration;

use quiche::{ConnectionId, RecvInfo};
use tack_attack::{
    CID_LEN, Conduct, Injection, Network, PipeConfig, Setup, Side, Verdict, client_address,
    pipe, server_address,
};

const ONE_WAY: Duration = Duration::from_millis(10);

const INITIAL: u8 = 0xc0;
const ZERO_RTT: u8 = 0xd0;
const HANDSHAKE: u8 = 0xe0;

/// A long header without a packet that could be opened.
fn forged(first_byte: u8, dcid: &[u8]) -> Vec<u8> {
    let mut datagram = vec![first_byte, 0, 0, 0, 1, dcid.len() as u8];
    datagram.extend_from_slice(dcid);
    datagram.push(0);
    if first_byte == INITIAL {
        datagram.push(0); // no token
    }
    datagram.push(20); // Length
    datagram.resize(datagram.len() + 20, 0x33);
    datagram
}

fn fast_link(network: &mut Network) -> tack_attack::LinkIndex {
    let way = PipeConfig { rate_bps: None, ..pipe(1.0, ONE_WAY, u64::MAX) };
    network.link(&way, &way)
}

/// The most that a server sent for each byte that came from a client whose address it cannot
/// know: nobody there hears it.
fn most_amplified(first_byte: u8) -> f64 {
    let mut network = Network::new(53);
    let link = fast_link(&mut network);
    // More than may be sent at first.
    let server = Setup { certificates: 12, ..Setup::tack() };
    let connection = network.connect(link, Setup::tack(), server);
    let mut heard = 0;
    network.tap(connection, move |sighting, _| {
        heard += usize::from(sighting.sender == Side::Client);
        // The ClientHello gets through, which takes two datagrams, and nothing else.
        let passes = sighting.sender == Side::Client && heard <= 2;
        if passes { Verdict::Pass } else { Verdict::Drop }
    });
    network.run_for(2 * ONE_WAY);
    let mut most = 0.0_f64;
    for _ in 0..500 {
        let server = network.end(connection, Side::Server);
        let dcid = server.stack.quic().source_id().to_vec();
        most = most.max(server.sent.1 as f64 / server.received.1 as f64);
        let injection = Injection {
            after: Duration::ZERO,
            recipient: Side::Server,
            source: client_address(0),
            bytes: forged(first_byte, &dcid),
        };
        network.inject(connection, injection);
        network.run_for(Duration::from_millis(20));
    }
    let server = network.end(connection, Side::Server);
    println!(
        "{first_byte:#x}: {most:.3} bytes for each byte, {:?} sent, {:?} received",
        server.sent, server.received
    );
    most
}

#[test]
fn forged_headers_do_not_lift_the_limit_of_three_times() {
    for first_byte in [INITIAL, ZERO_RTT, HANDSHAKE] {
        let most = most_amplified(first_byte);
        assert!(most <= 3.0, "{most} bytes for each byte after {first_byte:#x}");
    }
}

/// With what the victim closes after a TACK of more bytes than it has sent.
fn after_a_lie(victim: Side, forge: bool) -> Option<u64> {
    let mut network = Network::new(59);
    let link = fast_link(&mut network);
    let (client, server, address) = match victim {
        Side::Client => (Setup::tack(), Setup::puppet(), server_address()),
        Side::Server => (Setup::puppet(), Setup::tack(), client_address(0)),
    };
    let connection = network.connect(link, client, server);
    network.run_for(ONE_WAY + ONE_WAY / 2);
    assert!(!network.end(connection, victim).stack.quic().is_established());
    if forge {
        let dcid = network.end(connection, victim).stack.quic().source_id().to_vec();
        let injection = Injection {
            after: Duration::ZERO,
            recipient: victim,
            source: address,
            bytes: forged(ZERO_RTT, &dcid),
        };
        network.inject(connection, injection);
    }
    network.handshake();
    network.end_mut(connection, victim).to_write = 100_000;
    network.run_for(Duration::from_millis(500));
    let now = network.instant();
    let puppet = network.end_mut(connection, victim.peer()).puppet();
    puppet.let_loose(Conduct::Silent);
    let mut report = puppet.report(now);
    report.sequence = 1000;
    report.received_bytes = 1 << 40;
    puppet.say(report.tack());
    network.run_for(Duration::from_millis(100));
    let code = network.end(connection, victim).closed_with();
    println!("{victim:?}, forged: {forge}, closed with {code:?}");
    code
}

#[test]
fn a_forged_early_data_header_changes_nothing() {
    const PROTOCOL_VIOLATION: u64 = 0x0a;
    for victim in [Side::Client, Side::Server] {
        assert_eq!(after_a_lie(victim, false), Some(PROTOCOL_VIOLATION));
        assert_eq!(after_a_lie(victim, true), Some(PROTOCOL_VIOLATION), "{victim:?}");
    }
}

/// Both ends can resume each other's sessions.
fn resumable(config: &mut quiche::Config) {
    config.enable_early_data();
    config.set_ticket_key(&[7; 48]).unwrap();
}

/// Everything that an end has to send now.
fn flight(connection: &mut tacklib::Connection) -> Vec<Vec<u8>> {
    let mut flight = Vec::new();
    let mut buffer = [0; 1500];
    while let Ok((len, _)) = connection.send(&mut buffer) {
        flight.push(buffer[..len].to_vec());
    }
    flight
}

/// Bytes that a server sends after a Retry, of early data's answer and all, before the handshake
/// is done.
fn half_rtt_bytes() -> usize {
    let setup = Setup { configure: Some(resumable), ..Setup::tack() };
    let mut network = Network::new(61);
    let link = fast_link(&mut network);
    let first = network.connect(link, setup, setup);
    network.handshake();
    network.run_for(Duration::from_millis(100));
    let session = network.end_mut(first, Side::Client).tack().session().unwrap().to_vec();

    let config = |side| tacklib::Config::from_quiche(setup.config(side));
    let (here, there) = (client_address(0), server_address());
    let id = |byte| ConnectionId::from_vec(vec![byte; CID_LEN]);
    let mut client =
        tacklib::connect(Some("localhost"), &id(0xc1), here, there, &mut config(Side::Client))
            .unwrap();
    client.set_session(&session).unwrap();
    let initial = &mut flight(&mut client)[0];
    let header = quiche::Header::from_slice(initial, CID_LEN).unwrap();
    let mut retry = vec![0; 1500];
    let version = quiche::PROTOCOL_VERSION;
    let len =
        quiche::retry(&header.scid, &header.dcid, &id(0x5e), b"token", version, &mut retry)
            .unwrap();
    client.recv(&mut retry[..len], RecvInfo { from: there, to: here }).unwrap();
    client.stream_send(0, b"?", true).unwrap();

    let mut server =
        tacklib::accept(&id(0x5e), Some(&header.dcid), there, here, &mut config(Side::Server))
            .unwrap();
    for mut datagram in flight(&mut client) {
        server.recv(&mut datagram, RecvInfo { from: here, to: there }).unwrap();
    }
    assert!(server.is_in_early_data() && !server.is_established());
    while server.stream_send(3, &[0; 8 << 10], false).is_ok_and(|taken| taken > 0) {}
    flight(&mut server).iter().map(Vec::len).sum()
}

#[test]
fn half_rtt_data_after_a_retry_keeps_to_the_initial_window() {
    /// RFC 9002 section 7.2.
    const INITIAL_WINDOW: usize = 14_720;
    /// ServerHello to Finished, without a certificate.
    const HANDSHAKE_FLIGHT: usize = 3 * 1350;
    let sent = half_rtt_bytes();
    println!("{sent} bytes before the handshake is done");
    assert!(sent <= INITIAL_WINDOW + HANDSHAKE_FLIGHT, "{sent} bytes");
}
