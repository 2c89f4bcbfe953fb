//! A receiver that acknowledges little or nothing keeps the sender from sending, and never makes
//! it send more.

use std::time::Duration;

use tack_attack::keys::Opener;
use tack_attack::{
    CID_LEN, Conduct, ConnectionIndex, Network, PipeConfig, Setup, Side, Verdict, liar, pipe,
};

const ONE_WAY: Duration = Duration::from_millis(20);
const MBPS: f64 = 10.0;

/// Bytes that the path holds.
const BDP: u64 = 50_000;

/// A download of a puppet's, and how it acknowledged at first.
fn download(network: &mut Network) -> ConnectionIndex {
    let up = PipeConfig { rate_bps: None, ..pipe(1.0, ONE_WAY, u64::MAX) };
    let link = network.link(&pipe(MBPS, ONE_WAY, BDP), &up);
    let connection = network.connect(link, Setup::puppet(), Setup::tack());
    network.handshake();
    network.end_mut(connection, Side::Server).to_write = u64::MAX;
    network.run_for(Duration::from_millis(200));
    let conduct = Conduct::Honest(Duration::from_millis(10));
    network.end_mut(connection, Side::Client).puppet().let_loose(conduct);
    network.run_for(Duration::from_secs(1));
    connection
}

/// The most in flight towards a receiver that has gone silent, but for what it says each
/// millisecond.
fn silent(says: Option<fn(u64) -> Vec<u8>>) -> u64 {
    let mut network = Network::new(23);
    let connection = download(&mut network);
    network.end_mut(connection, Side::Client).puppet().set_conduct(Conduct::Silent);
    let server = network.end_mut(connection, Side::Server);
    server.most_in_flight = 0;
    for number in 0..4_000 {
        network.run_for(Duration::from_millis(1));
        if let Some(frames) = says {
            network.end_mut(connection, Side::Client).puppet().say(frames(number));
        }
    }
    let most = network.end(connection, Side::Server).most_in_flight;
    println!("{most} bytes in flight at most");
    most
}

/// Startup's window at most, and two probes for each of the few timers that expire.
const MOST_IN_FLIGHT: u64 = 4 * BDP;

#[test]
fn a_peer_that_never_acknowledges_holds_no_more_than_the_cap_in_flight() {
    let most = silent(None);
    assert!(most <= MOST_IN_FLIGHT, "{most} bytes in flight");
}

#[test]
fn a_peer_that_asks_and_never_acknowledges_holds_no_more_than_the_cap_in_flight() {
    for frames in [|_| liar::ping(), |number| liar::max_data((64 << 20) + number)] {
        let most = silent(Some(frames));
        assert!(most <= MOST_IN_FLIGHT, "{most} bytes in flight");
    }
}

/// Bytes that a sender without data spends on each byte of a peer that asks and never
/// acknowledges, and leaves out every other packet number so that answers grow.
fn answered(pause: Duration, datagrams: u64) -> f64 {
    let mut network = Network::new(29);
    let way = PipeConfig { rate_bps: None, ..pipe(1.0, ONE_WAY, u64::MAX) };
    let link = network.link(&way, &way);
    let connection = network.connect(link, Setup::puppet(), Setup::tack());
    network.handshake();
    network.end_mut(connection, Side::Server).to_write = 20_000;
    network.run_for(Duration::from_millis(500));
    network.end_mut(connection, Side::Client).puppet().let_loose(Conduct::Silent);
    let server = network.end(connection, Side::Server);
    let (sent, received) = (server.sent.1, server.received.1);
    for _ in 0..datagrams {
        let puppet = network.end_mut(connection, Side::Client).puppet();
        puppet.skip(1);
        puppet.say(liar::ping());
        network.run_for(pause);
    }
    let server = network.end(connection, Side::Server);
    let (sent, received) = (server.sent.1 - sent, server.received.1 - received);
    println!("a PING each {pause:?}: {received} bytes received, {sent} sent");
    sent as f64 / received as f64
}

#[test]
fn a_peer_that_asks_and_never_acknowledges_is_sent_three_times_what_it_sends_at_most() {
    // More often than a TACK is due, as often, and less often.
    let answered = [(1, 5_000), (10, 2_000), (30, 1_000)]
        .map(|(millis, datagrams)| answered(Duration::from_millis(millis), datagrams));
    for answered in answered {
        assert!(answered <= 3.0, "{answered} bytes for each byte");
    }
}

/// Runs whose mean counts: how two flows share a link differs from run to run.
const SEEDS: std::ops::Range<u64> = 31..79;

/// What a rival of the first connection's receiver gets, in Mbit/s, if the latter drops this share of its
/// acknowledgements: the mean over the seeds.
fn share_of_rival(hidden: f64) -> f64 {
    let rival = SEEDS.map(|seed| shares(seed, hidden).1).sum::<f64>() / SEEDS.count() as f64;
    println!("{hidden} hidden: the rival {rival:.3} Mbit/s of {MBPS}");
    rival
}

/// What both get in one run.
fn shares(seed: u64, hidden: f64) -> (f64, f64) {
    let mut network = Network::new(seed);
    let way = pipe(MBPS, ONE_WAY, BDP);
    let link = network.link(&way, &way);
    let [liar, rival] = [(); 2].map(|()| network.connect(link, Setup::tack(), Setup::tack()));
    network.handshake();
    for connection in [liar, rival] {
        network.end_mut(connection, Side::Server).to_write = u64::MAX;
    }
    let secrets = network.end(liar, Side::Client).secrets.clone();
    let mut opener = Opener::new(secrets, Side::Client, CID_LEN);
    let mut owed = 0.0;
    network.tap(liar, move |sighting, _| {
        if sighting.sender != Side::Client {
            return Verdict::Pass;
        }
        let Some(packet) = opener.open(sighting.bytes) else { return Verdict::Pass };
        if !liar::contents(&packet.payload).acknowledges {
            return Verdict::Pass;
        }
        owed += hidden;
        if owed < 1.0 {
            return Verdict::Pass;
        }
        owed -= 1.0;
        match liar::without_acks(&packet.payload) {
            Some(rest) => Verdict::Replace(opener.reseal(&packet, &rest)),
            None => Verdict::Drop,
        }
    });
    network.run_for(Duration::from_secs(3));
    let read = |network: &Network, connection| network.end(connection, Side::Client).read;
    let before = [liar, rival].map(|connection| read(&network, connection));
    // In the first seconds the flow that has begun first has more.
    let span = Duration::from_secs(12);
    network.run_for(span);
    let mbps = |connection, before| {
        (read(&network, connection) - before) as f64 * 8.0 / span.as_secs_f64() / 1e6
    };
    (mbps(liar, before[0]), mbps(rival, before[1]))
}

#[test]
fn a_receiver_that_hides_acknowledgements_takes_nothing_from_its_rival() {
    let undisturbed = share_of_rival(0.0);
    for hidden in [0.5, 0.8] {
        let rival = share_of_rival(hidden);
        assert!(rival >= 0.9 * undisturbed, "{rival} instead of {undisturbed} Mbit/s");
    }
}
