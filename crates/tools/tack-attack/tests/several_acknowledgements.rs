//! A packet with a TACK and an IACK says the same to the layer and to quiche (TACK-3-3).

#![allow(clippy::unwrap_used, clippy::expect_used)] // a test that cannot be set up has failed

use std::time::Duration;

use tack_attack::liar::Report;
use tack_attack::{Conduct, Injection, Kind, Network, Setup, Side, client_address, pipe};
use tacklib::Profile;

const ONE_WAY: Duration = Duration::from_millis(10);

#[test]
fn what_an_iack_behind_a_tack_acknowledges_is_not_sent_again() {
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
    let puppet = network.end_mut(connection, Side::Client).puppet();
    let report = puppet.report(now);
    let newest = report.ranges[0].clone();
    let (first, last) = (*newest.start(), *newest.end());
    assert!(last - first >= 10, "{newest:?}");
    let mut tack = report.clone();
    tack.sequence = 1000;
    tack.ranges[0] = first..=last - 5;
    let mut iack = report.clone();
    iack.ranges = vec![last - 4..=last];
    let both = puppet.datagram(&[tack.tack(), iack.iack()].concat());
    let whole = Report { sequence: 1001, ..report };
    let next = puppet.datagram(&whole.tack());
    for (after, bytes) in [(Duration::ZERO, both), (Duration::from_millis(5), next)] {
        let source = client_address(0);
        network.inject(connection, Injection { after, recipient: Side::Server, source, bytes });
    }
    network.run_for(Duration::from_millis(50));
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
