//! One transfer over the emulated link.

use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use tack_emulator::relay::{Datagram, Observer, Relay};
use tack_link::compose::BoxedLink;
use tack_tap::{KeyLog, Tap};

use super::Source;
use super::report::Measurement;
use crate::error::Error;
use crate::identity::Identity;
use crate::quic::{self, CloseCode};
use crate::session::{
    ConnectOptions, Link, Mailbox, Outcome, Progress, Server, ServerOptions, Trust,
    receive_content,
};
use crate::target::Target;
use crate::token;
use crate::transfer::{Incoming, Message, Root, TransferError, WirePath};

const TURN: Duration = Duration::from_millis(100);

/// Fetches the file once, over the link: from its first end to its second.
pub(super) fn transfer(
    source: &Source,
    profile: tacklib::Profile,
    link: BoxedLink,
    scratch: &Path,
    update: &mut dyn FnMut(&Progress),
) -> Result<Measurement, Error> {
    let system = Error::local("the emulated link");
    let identity = Identity::in_directory(&scratch.join("identity"))?;
    let token = token::generate()?;
    let server = Server::new(ServerOptions {
        listen: (Ipv4Addr::LOCALHOST, 0).into(),
        config: quic::server_config(profile, &identity.certificate, &identity.key)?,
        reset_key: identity.reset_key()?,
        root: Root::open(&source.directory).map_err(Error::local(&source.directory))?,
        read_only: true,
        retry: true,
        links: true,
        token: Some(token.clone()),
        write_limit: None,
        rate: None,
        qlog: None,
        careful_resume: false,
        report: Box::new(|_| {}),
    })?;
    let key_log = KeyLog::new();
    let tap = Tapped(Tap::new(key_log.clone()));
    let relay = Relay::start_observed(server.local_addr(), link, tap).map_err(system)?;
    let running = Running::start(server);

    let target: Target = relay.address().to_string().parse().map_err(Error::Usage)?;
    let options = ConnectOptions {
        trust: Trust::Pinned(identity.fingerprint),
        token: Some(token),
        profile,
        key_log: Some(Box::new(key_log)),
        qlog: None,
        cc_parameters: None,
        rate: None,
        stop: None,
        ended: None,
    };
    let client = Client { source, dest: scratch.join("received"), options };
    let fetched = client.fetch(&target, update);
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

struct Client<'a> {
    source: &'a Source,
    dest: std::path::PathBuf,
    options: ConnectOptions,
}

impl Client<'_> {
    /// What arrived, and how long it took from the first packet to the last byte on disk.
    fn fetch(
        self,
        target: &Target,
        update: &mut dyn FnMut(&Progress),
    ) -> Result<(Outcome, Duration), Error> {
        let start = Instant::now();
        let mut link = Link::connect(target, self.options)?;
        let Some(mailbox) = link.open()? else {
            return Err(Error::NotTack(target.to_string()));
        };
        std::fs::create_dir_all(&self.dest).map_err(Error::local(&self.dest))?;
        let root = Arc::new(Root::open(&self.dest).map_err(Error::local(&self.dest))?);
        let progress = Arc::new(Progress::default());
        progress.expect(self.source.size);
        let (done, result) = mpsc::channel();
        let (name, size) = (self.source.name.clone(), self.source.size);
        let (notify, counted) = (link.notify(), Arc::clone(&progress));
        thread::spawn(move || {
            let fetched = fetch_file(&mailbox, &root, name, size, &counted);
            drop(mailbox);
            // Fails only if the transfer was given up.
            let _ = done.send(fetched.map(|outcome| (outcome, start.elapsed())));
            notify();
        });
        let outcome = loop {
            match result.try_recv() {
                Ok(outcome) => break outcome?,
                Err(mpsc::TryRecvError::Disconnected) => {
                    return Err(TransferError::Disconnected.into());
                }
                Err(mpsc::TryRecvError::Empty) => link.turn(TURN)?,
            }
            update(&progress);
        };
        link.close(CloseCode::Done, "done");
        // The next run is not to find an equal file.
        let received = self.dest.join(self.source.name.as_str());
        std::fs::remove_file(&received).map_err(Error::local(&received))?;
        Ok(outcome)
    }
}

fn fetch_file(
    mailbox: &Mailbox,
    root: &Arc<Root>,
    name: WirePath,
    size: u64,
    progress: &Progress,
) -> Result<Outcome, TransferError> {
    let incoming = Incoming::open(root, &name, size, None, &Arc::default())?;
    mailbox.send(Message::Get { path: name, resume: incoming.resume })?;
    receive_content(mailbox, incoming, None, progress)
}
