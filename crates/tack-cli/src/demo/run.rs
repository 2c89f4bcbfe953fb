//! One transfer over the emulated link.

use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tack_emulator::relay::{Datagram, Observer, Relay};
use tack_link::compose::BoxedLink;
use tack_tap::{KeyLog, Tap};
use tack_transfer::{
    Client, ConnectOptions, Event, Get, Identity, Outcome, Profile, Progress, Root, Server,
    ServerAddress, ServerOptions, TransferError, TransferOptions, Trust, token,
};

use super::Source;
use super::report::Measurement;
use crate::error::Error;

const TURN: Duration = Duration::from_millis(100);

/// Fetches the file once, over the link: from its first end to its second.
pub(super) fn transfer(
    source: &Source,
    profile: Profile,
    link: BoxedLink,
    scratch: &Path,
    update: &mut dyn FnMut(&Progress),
) -> Result<Measurement, Error> {
    let system = Error::local("the emulated link");
    let identity = Identity::in_directory(&scratch.join("identity"))?;
    let token = token::generate()?;
    let fingerprint = identity.fingerprint;
    let root = Root::open(&source.directory).map_err(Error::local(&source.directory))?;
    let listen = (Ipv4Addr::LOCALHOST, 0).into();
    let mut options = ServerOptions::new(listen, root, identity, Some(token.clone()));
    options.profile = profile;
    options.careful_resume = false;
    let server = Server::new(options)?;
    let key_log = KeyLog::new();
    let tap = Tapped(Tap::new(key_log.clone()));
    let relay = Relay::start_observed(server.local_addr(), link, tap).map_err(system)?;
    let running = Running::start(server);

    let relayed = ServerAddress::from(relay.address());
    let mut options = ConnectOptions::new(Trust::Pinned(fingerprint)).with_token(token);
    options.profile = profile;
    options.key_log = Some(Box::new(key_log));
    let fetched = fetch(source, &scratch.join("received"), &relayed, options, update);
    let min_rtt = running.stop();
    let (outcome, elapsed) = fetched?;

    let report = relay.stop().map_err(Error::local("the emulated link"))?;
    let data = report.observer.0.counters(tack_tap::Direction::ToClient);
    let acks = report.observer.0.counters(tack_tap::Direction::ToServer);
    let seconds = elapsed.as_secs_f64();
    Ok(Measurement {
        seconds,
        goodput_mbps: outcome.moved as f64 * 8.0 / 1e6 / seconds.max(1e-9),
        data_packets: data.data_packets,
        ack_packets: acks.ack_packets,
        ack_bytes: acks.bytes,
        retransmitted_bytes: data.retransmitted_stream_bytes,
        min_rtt_ms: min_rtt.map(|rtt| rtt.as_secs_f64() * 1e3),
        dropped_datagrams: report.forward.losses.total(),
        deadline_misses: report.deadline_misses,
        digest_ok: outcome.digest == Some(source.digest) && outcome.size == source.size,
    })
}

/// A tap on the relay.
struct Tapped(Tap);

impl Observer for Tapped {
    fn datagram(&mut self, datagram: &Datagram<'_>) {
        let direction = match datagram.direction {
            tack_link::Direction::Forward => tack_tap::Direction::ToClient,
            tack_link::Direction::Reverse => tack_tap::Direction::ToServer,
        };
        self.0.datagram(direction, datagram.bytes);
    }
}

/// The server on its thread.
struct Running {
    stop: Arc<AtomicBool>,
    thread: thread::JoinHandle<Option<Duration>>,
}

impl Running {
    fn start(mut server: Server) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            let mut min_rtt = None;
            while !stopped.load(Ordering::Relaxed) && server.turn(TURN).is_ok() {
                min_rtt = server.any_connection().and_then(sender_min_rtt).or(min_rtt);
            }
            min_rtt
        });
        Self { stop, thread }
    }

    /// Ends the server; the smallest round-trip time that its connection has measured.
    fn stop(self) -> Option<Duration> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().ok().flatten()
    }
}

/// The smallest round-trip time that the sender believes in: the layer's estimate, or quiche's
/// own where the layer is off.
fn sender_min_rtt(connection: &tacklib::Connection) -> Option<Duration> {
    let plain = || connection.path_stats().next().and_then(|path| path.min_rtt);
    connection.tack_stats().min_rtt.or_else(plain)
}

/// What arrived, and how long it took from the first packet to the last byte on disk.
fn fetch(
    source: &Source,
    dest: &Path,
    server: &ServerAddress,
    options: ConnectOptions,
    update: &mut dyn FnMut(&Progress),
) -> Result<(Outcome, Duration), Error> {
    let start = Instant::now();
    let mut client = Client::connect(server, options)?;
    std::fs::create_dir_all(dest).map_err(Error::local(dest))?;
    let mut fetched = None;
    let wanted = vec![Get::new(source.name.clone(), dest)];
    client.get(wanted, &TransferOptions::default(), &mut |event| match event {
        Event::Progress(progress) => update(progress),
        Event::File { outcome, .. } => fetched = Some((*outcome, start.elapsed())),
        _ => {}
    })?;
    client.close();
    // The next run is not to find an equal file.
    let received = dest.join(source.name.as_str());
    std::fs::remove_file(&received).map_err(Error::local(&received))?;
    fetched.ok_or(Error::Transfer(TransferError::Disconnected))
}
