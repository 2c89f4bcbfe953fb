//! A packet with a TACK and an IACK says the same to the layer and to quiche (TACK-3-3).

#![allow(clippy::unwrap_used, clippy::expect_used)] // a test that cannot be set up has failed

use std::time::Duration;

use tack_attack::liar::Report;
use tack_attack::{
    Conduct, ConnectionIndex, Injection, Kind, Network, Setup, Side, client_address, pipe,
};
use tacklib::Profile;

const ONE_WAY: Duration = Duration::from_millis(10);

/// A server that sends without end to a puppet, which has fallen silent with at least ten packets to report.
fn with_much_to_report() -> (Network, ConnectionIndex, Report) {
    let mut network = Network::new(89);
    let way = pipe(100.0, ONE_WAY, 1 << 20);
    let link = network.link(&way, &way);
    let puppet = Setup::new(Kind::Puppet(Profile::Default));
    let connection = network.connect(link, puppet, Setup::tack());
    network.handshake();
    network.run_for(4 * ONE_WAY);
    let puppet = network.end_mut(connection, Side::Client).puppet();
    puppet.let_loose(Conduct::Honest(Duration::from_millis(5)));
    network.end_mut(connection, Side::Server).to_write = u64::MAX;
    network.run_for(Duration::from_millis(200));
    network.end_mut(connection, Side::Client).puppet().set_conduct(Conduct::Silent);
    network.run_for(3 * ONE_WAY);
    let now = network.instant();
    let report = network.end_mut(connection, Side::Client).puppet().report(now);
    let newest = report.ranges[0].clone();
    assert!(newest.end() - newest.start() >= 10, "{newest:?}");
    (network, connection, report)
}

fn send(network: &mut Network, connection: ConnectionIndex, frames: &[u8], after: Duration) {
    let bytes = network.end_mut(connection, Side::Client).puppet().datagram(frames);
    let source = client_address(0);
    network.inject(connection, Injection { after, recipient: Side::Server, source, bytes });
}

#[test]
fn what_an_iack_behind_a_tack_acknowledges_is_not_sent_again() {
    let (mut network, connection, report) = with_much_to_report();
    let (first, last) = (*report.ranges[0].start(), *report.ranges[0].end());
    let mut tack = report.clone();
    tack.sequence = 1000;
    tack.ranges[0] = first..=last - 5;
    let mut iack = report.clone();
    iack.ranges = vec![last - 4..=last];
    send(&mut network, connection, &[tack.tack(), iack.iack()].concat(), Duration::ZERO);
    let whole = Report { sequence: 1001, ..report };
    send(&mut network, connection, &whole.tack(), Duration::from_millis(5));
    network.run_for(Duration::from_millis(50));
    // The server has sent all that it may: it waits for more, and would probe.
    let now = network.instant();
    let rest = network.end_mut(connection, Side::Client).puppet().report(now);
    send(&mut network, connection, &Report { sequence: 1002, ..rest }.tack(), Duration::ZERO);
    // What is acknowledged behind them shows quiche what it takes for lost.
    let puppet = network.end_mut(connection, Side::Client).puppet();
    puppet.set_conduct(Conduct::Honest(Duration::from_millis(5)));
    network.run_for(Duration::from_secs(2));
    let server = &network.end(connection, Side::Server).stack;
    let stats = server.quic().stats();
    let (packets, probes) = (
        server.stats().lost_packets,
        server.quic().path_stats().map(|path| path.total_pto_count).sum::<usize>(),
    );
    assert_eq!((stats.lost, stats.retrans, packets, probes), (0, 0, 0, 0));
}

#[test]
fn two_tacks_in_one_packet_say_the_same_to_the_layer_and_to_quiche() {
    let (mut network, connection, report) = with_much_to_report();
    let (first, last) = (*report.ranges[0].start(), *report.ranges[0].end());
    // The first shows that TACKs got lost before it: were the second left to a long one by that, quiche would have
    // heard of it all the same.
    let mut ahead = report.clone();
    ahead.sequence = 1001;
    ahead.ranges[0] = first..=last - 10;
    let mut behind = report.clone();
    behind.ranges = vec![last - 4..=last];
    behind.sequence |= 1; // not a long one
    send(&mut network, connection, &[ahead.tack(), behind.tack()].concat(), Duration::ZERO);
    network.run_for(ONE_WAY + Duration::from_millis(1));
    let server = &network.end(connection, Side::Server).stack;
    assert!(server.quic().stats().lost > 0);
    assert_eq!(server.stats().lost_packets, server.quic().stats().lost as u64);
}

#[test]
fn what_comes_behind_four_acknowledgements_in_one_packet_acknowledges_nothing() {
    let (mut network, connection, report) = with_much_to_report();
    let (first, last) = (*report.ranges[0].start(), *report.ranges[0].end());
    let mut tack = report.clone();
    tack.ranges[0] = first..=last - 10;
    let mut behind = report.clone();
    behind.ranges = vec![last - 4..=last];
    let frames = [tack.tack(), tack.tack(), tack.tack(), tack.tack(), behind.tack()].concat();
    send(&mut network, connection, &frames, Duration::ZERO);
    network.run_for(ONE_WAY + Duration::from_millis(1));
    // TACK-3-3: the last one would show a loss.
    let server = &network.end(connection, Side::Server).stack;
    assert_eq!((server.stats().lost_packets, server.quic().stats().lost), (0, 0));
}
