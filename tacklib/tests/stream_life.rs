//! Streams of every kind, opened, written, ended, reset and stopped at random over a link that loses packets: each of
//! them comes to its end, at both ends, and as many follow as were wanted.

#![allow(clippy::unwrap_used, clippy::expect_used)] // a test may fail anywhere

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::time::{Duration, Instant};

use common::*;
use quiche::{Error, Shutdown};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use tacklib::{Config, Connection, Profile};

/// Streams that each end opens that go both ways, and as many that go one way.
const STREAMS: u64 = 24;

/// Of these the peer lets so many be open at once.
const OPEN_AT_ONCE: u64 = 4;

const STREAM_WINDOW: u64 = 20_000;
const CONNECTION_WINDOW: u64 = 50_000;

/// The longest stream, bytes.
const LONGEST: usize = 60_000;

/// An end that is silent for so long has forgotten something. The applications pause for a third of a second at most, but
/// at 25 % loss seven probes in a row are lost in one of some thousand runs, or what acknowledges them, between plain
/// ends as well, and quiche's probe timer doubles each time.
const IDLE_TIMEOUT: Duration = Duration::from_secs(120);

/// Error codes of streams that are reset, and of those that are stopped.
const RESET: u64 = 7;
const STOPPED: u64 = 8;

/// How often an application tries again what it is not called for.
const ASKS_EVERY: Duration = Duration::from_millis(20);

/// What an application calls, and what it must not expect.
trait Streams: End {
    /// It is plain quiche, which loses ends that are written alone, takes streams that were reset for whole, and gives
    /// back none that it has stopped: its application does without.
    const IS_STOCK: bool;

    fn next_readable(&mut self) -> Option<u64>;
    fn next_writable(&mut self) -> Option<u64>;
    fn try_write(&mut self, id: u64, data: &[u8], fin: bool) -> quiche::Result<usize>;
    fn shut(&mut self, id: u64, direction: Shutdown, code: u64) -> quiche::Result<()>;
    fn send_datagram(&mut self, data: &[u8]);
    fn take_datagram(&mut self) -> bool;
}

macro_rules! streams {
    ($name:ty, $is_stock:expr) => {
        impl Streams for $name {
            const IS_STOCK: bool = $is_stock;

            fn next_readable(&mut self) -> Option<u64> {
                self.stream_readable_next()
            }

            fn next_writable(&mut self) -> Option<u64> {
                self.stream_writable_next()
            }

            fn try_write(&mut self, id: u64, data: &[u8], fin: bool) -> quiche::Result<usize> {
                self.stream_send(id, data, fin)
            }

            fn shut(&mut self, id: u64, direction: Shutdown, code: u64) -> quiche::Result<()> {
                self.stream_shutdown(id, direction, code)
            }

            fn send_datagram(&mut self, data: &[u8]) {
                // A full queue drops it.
                let _ = self.dgram_send(data);
            }

            fn take_datagram(&mut self) -> bool {
                self.dgram_recv(&mut [0; 2000]).is_ok()
            }
        }
    };
}
streams!(Connection, false);
streams!(quiche::Connection, true);

/// How a stream ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    WithData,
    Alone,
    AloneLater,
    Reset,
}

/// What this end writes to a stream.
#[derive(Debug)]
struct Outgoing {
    written: usize,
    left: usize,
    ending: Ending,
    /// Nothing is written before.
    not_before: Option<Instant>,
    /// It was refused, and the connection has not called since.
    waits: bool,
}

/// What becomes of what the peer writes.
#[derive(Debug, Default)]
struct Incoming {
    received: usize,
    /// This end stops it when it has so much.
    stops_at: Option<usize>,
    is_over: bool,
    not_before: Option<Instant>,
}

/// What one end does.
struct Application {
    is_server: bool,
    random: Pcg64Mcg,
    /// Streams that it has opened, those that go both ways first.
    opened: [u64; 2],
    outgoing: BTreeMap<u64, Outgoing>,
    incoming: BTreeMap<u64, Incoming>,
    /// Streams of which there may be something to read.
    readable: BTreeSet<u64>,
    /// Lengths of the streams that were ended.
    lengths: BTreeMap<u64, usize>,
    datagrams: u32,
    asks_at: Instant,
}

impl Application {
    fn new(is_server: bool, seed: u64) -> Self {
        Self {
            is_server,
            random: Pcg64Mcg::seed_from_u64(seed),
            opened: [0; 2],
            outgoing: BTreeMap::new(),
            incoming: BTreeMap::new(),
            readable: BTreeSet::new(),
            lengths: BTreeMap::new(),
            datagrams: 0,
            asks_at: Instant::now(),
        }
    }

    fn run<E: Streams>(&mut self, end: &mut E) {
        self.open(end);
        self.read_all(end);
        self.write_all(end);
        while end.take_datagram() {}
        if self.is_one_in(10) && self.datagrams < 200 {
            self.datagrams += 1;
            end.send_datagram(&[3; 500]);
        }
    }

    fn is_one_in(&mut self, count: u32) -> bool {
        self.random.random_range(0..count) == 0
    }

    fn later(&mut self, most_ms: u64) -> Instant {
        Instant::now() + Duration::from_millis(self.random.random_range(1..most_ms))
    }

    fn begin_outgoing<E: Streams>(&mut self, id: u64) {
        let ending = match self.random.random_range(0..10) {
            _ if E::IS_STOCK => Ending::WithData,
            0 => Ending::Reset,
            1..=3 => Ending::Alone,
            4..=6 => Ending::AloneLater,
            _ => Ending::WithData,
        };
        let left = match self.random.random_range(0..4) {
            0 => self.random.random_range(0..100),
            1 => self.random.random_range(0..5000),
            _ => self.random.random_range(0..LONGEST),
        };
        let outgoing = Outgoing { written: 0, left, ending, not_before: None, waits: false };
        self.outgoing.insert(id, outgoing);
    }

    /// Opens what the peer lets be opened.
    fn open<E: Streams>(&mut self, end: &mut E) {
        for (way, bit) in [0, 2].into_iter().enumerate() {
            while self.opened[way] < STREAMS {
                let left = match bit {
                    0 => end.quic().peer_streams_left_bidi(),
                    _ => end.quic().peer_streams_left_uni(),
                };
                if left == 0 {
                    break;
                }
                let id = 4 * self.opened[way] + bit + u64::from(self.is_server);
                self.opened[way] += 1;
                self.begin_outgoing::<E>(id);
                if bit == 0 {
                    self.incoming.insert(id, Incoming::default());
                }
                // The connection knows it from its first byte on, or from its end.
                self.write(end, id);
            }
        }
    }

    fn write_all<E: Streams>(&mut self, end: &mut E) {
        while let Some(id) = end.next_writable() {
            if let Some(outgoing) = self.outgoing.get_mut(&id) {
                outgoing.waits = false;
            }
        }
        if E::IS_STOCK && self.asks_at <= Instant::now() {
            // quiche (0.30) does not tell of each stream that was stopped: it has to be asked.
            self.asks_at = Instant::now() + ASKS_EVERY;
            self.outgoing.values_mut().for_each(|outgoing| outgoing.waits = false);
        }
        let ready: Vec<u64> =
            self.outgoing.iter().filter(|(_, it)| !it.waits).map(|(id, _)| *id).collect();
        for id in ready {
            self.write(end, id);
        }
    }

    /// Writes until the connection takes no more, or the application pauses.
    fn write<E: Streams>(&mut self, end: &mut E, id: u64) {
        loop {
            let Some(Outgoing { left, ending, not_before, .. }) = self.outgoing.get(&id) else {
                return;
            };
            if not_before.is_some_and(|at| at > Instant::now()) {
                return;
            }
            let (left, ending) = (*left, *ending);
            let len = left.min(self.random.random_range(1..8000));
            let fin = match ending {
                Ending::WithData => len == left,
                Ending::Alone | Ending::AloneLater => left == 0,
                Ending::Reset => false,
            };
            if ending == Ending::Reset && len == left && self.resets(end, id) {
                return;
            }
            match end.try_write(id, &vec![id as u8; len], fin) {
                Ok(sent) if fin && sent == len => {
                    let ended = self.outgoing.remove(&id);
                    self.lengths.insert(id, ended.map_or(0, |it| it.written) + sent);
                    return;
                }
                Ok(sent) => self.on_written(id, len, sent),
                Err(Error::Done) if E::IS_STOCK && end.quic().stream_closed(id) => {
                    // quiche (0.30) forgets streams that were stopped.
                    self.outgoing.remove(&id);
                }
                Err(Error::Done) => self.wait(id),
                Err(Error::StreamStopped(STOPPED)) => {
                    self.outgoing.remove(&id);
                }
                Err(error) => panic!("writing stream {id}: {error:?}"),
            }
            if self.outgoing.get(&id).is_none_or(|outgoing| outgoing.waits) {
                return;
            }
        }
    }

    fn on_written(&mut self, id: u64, len: usize, sent: usize) {
        let pauses = self.is_one_in(20).then(|| self.later(50));
        let ends_later = self.later(300);
        let Some(outgoing) = self.outgoing.get_mut(&id) else { return };
        outgoing.left -= sent;
        outgoing.written += sent;
        outgoing.waits = sent < len;
        outgoing.not_before = match outgoing {
            Outgoing { left: 0, ending: Ending::AloneLater, .. } => Some(ends_later),
            _ => pauses,
        };
    }

    fn wait(&mut self, id: u64) {
        if let Some(outgoing) = self.outgoing.get_mut(&id) {
            outgoing.waits = true;
        }
    }

    /// Resets a stream, which has to be known for that.
    fn resets<E: Streams>(&mut self, end: &mut E, id: u64) -> bool {
        let is_known = end.try_write(id, &[id as u8], false) == Ok(1);
        if is_known {
            end.shut(id, Shutdown::Write, RESET).unwrap();
            self.outgoing.remove(&id);
        }
        is_known
    }

    fn read_all<E: Streams>(&mut self, end: &mut E) {
        while let Some(id) = end.next_readable() {
            self.readable.insert(id);
            if self.incoming.contains_key(&id) {
                continue;
            }
            let stops = !E::IS_STOCK && self.is_one_in(10);
            let stops_at = stops.then(|| self.random.random_range(0..20_000));
            self.incoming.insert(id, Incoming { stops_at, ..Incoming::default() });
            if id & 2 == 0 {
                self.begin_outgoing::<E>(id);
            }
        }
        for id in std::mem::take(&mut self.readable) {
            if self.may_read_more(end, id) {
                self.readable.insert(id);
            }
        }
    }

    /// Reads a stream; whether there may be more.
    fn may_read_more<E: Streams>(&mut self, end: &mut E, id: u64) -> bool {
        let mut buffer = vec![0; 4096];
        loop {
            let pause = self.is_one_in(20).then(|| self.later(100));
            let Some(incoming) = self.incoming.get_mut(&id) else { return false };
            if incoming.is_over {
                return false;
            }
            if incoming.not_before.is_some_and(|at| at > Instant::now()) {
                return true;
            }
            match end.read(id, &mut buffer) {
                Ok((len, fin)) => {
                    incoming.received += len;
                    incoming.is_over = fin;
                    assert!(buffer[..len].iter().all(|byte| *byte == id as u8), "stream {id}");
                }
                Err(Error::Done) => return false,
                Err(Error::StreamReset(RESET | STOPPED)) => incoming.is_over = true,
                Err(error) => panic!("reading stream {id}: {error:?}"),
            }
            if !incoming.is_over && incoming.stops_at.is_some_and(|at| incoming.received >= at)
            {
                end.shut(id, Shutdown::Read, STOPPED).unwrap();
                incoming.is_over = true;
            }
            incoming.not_before = pause;
        }
    }

    /// Whether all streams are open that either end wanted, and all have ended.
    fn is_done(&self) -> bool {
        // Its own that go both ways, and all of the peer.
        let of_both = 3 * STREAMS;
        self.opened == [STREAMS; 2]
            && self.outgoing.is_empty()
            && self.incoming.len() as u64 == of_both
            && self.incoming.values().all(|it| it.is_over)
    }

    fn state<E: Streams>(&self, end: &E) -> String {
        let waits_for: Vec<_> = self.incoming.iter().filter(|(_, it)| !it.is_over).collect();
        format!(
            "opened {:?}, has seen {}, writes {:?}, waits for {waits_for:?}, {:?} {:?} {:?}",
            self.opened,
            self.incoming.len(),
            self.outgoing,
            end.quic().local_error(),
            end.quic().peer_error(),
            end.quic().stats(),
        )
    }
}

/// Runs two applications until all of their streams have ended.
fn live<C: Streams, S: Streams>(client: C, server: S, seed: u64) {
    let mut random = Pcg64Mcg::seed_from_u64(seed);
    let loss = [0, 2, 10, 25][random.random_range(0..4)];
    let mut pair = Pair::new(client, server)
        .with_delay(Duration::from_millis(random.random_range(0..60)))
        .with_rate(random.random_range(2..50))
        .with_buffer(random.random_range(5000..200_000));
    pair.handshake();
    pair.tamper_up(lossy(loss, seed + 1));
    pair.tamper_down(lossy(loss, seed + 2));
    let mut of_client = Application::new(false, seed + 3);
    let mut of_server = Application::new(true, seed + 4);
    let give_up = Instant::now() + Duration::from_secs(600);
    loop {
        of_client.run(&mut pair.client);
        of_server.run(&mut pair.server);
        if of_client.is_done() && of_server.is_done() {
            break;
        }
        let is_over = pair.client.quic().is_closed() || pair.server.quic().is_closed();
        assert!(
            !is_over && Instant::now() < give_up,
            "seed {seed}, {loss} % lost\nclient: {}\nserver: {}",
            of_client.state(&pair.client),
            of_server.state(&pair.server),
        );
        if !pair.step() {
            pair.wait();
        }
    }
    for (sender, receiver) in [(&of_client, &of_server), (&of_server, &of_client)] {
        for (id, len) in &sender.lengths {
            let incoming = &receiver.incoming[id];
            let is_whole = incoming.received == *len || incoming.stops_at.is_some();
            assert!(is_whole, "seed {seed}, stream {id}: {} of {len}", incoming.received);
        }
    }
}

fn limit(config: &mut quiche::Config) {
    config.set_max_idle_timeout(IDLE_TIMEOUT.as_millis() as u64);
    config.set_initial_max_data(CONNECTION_WINDOW);
    config.set_max_connection_window(CONNECTION_WINDOW);
    config.set_initial_max_stream_data_bidi_local(STREAM_WINDOW);
    config.set_initial_max_stream_data_bidi_remote(STREAM_WINDOW);
    config.set_initial_max_stream_data_uni(STREAM_WINDOW);
    config.set_max_stream_window(STREAM_WINDOW);
    config.set_initial_max_streams_bidi(OPEN_AT_ONCE);
    config.set_initial_max_streams_uni(OPEN_AT_ONCE);
    config.enable_dgram(true, 10, 10);
}

fn tack(seed: u64) -> Config {
    let profiles = [Profile::Default, Profile::Video, Profile::Quick];
    let mut config = profile_config(profiles[(seed % 3) as usize]);
    limit(&mut config);
    config
}

fn stock() -> quiche::Config {
    let mut config = stock_config();
    limit(&mut config);
    config
}

/// `TACK_STREAM_LIFE_SEEDS` has another number of them tried, and `TACK_STREAM_LIFE_FROM` others.
fn seeds() -> Range<u64> {
    let number = |name, default| {
        std::env::var(name).map_or(default, |number| number.parse().expect("a number"))
    };
    let from = number("TACK_STREAM_LIFE_FROM", 1);
    from..from + number("TACK_STREAM_LIFE_SEEDS", 40)
}

#[test]
fn all_streams_of_two_ends_with_tack_come_to_their_end() {
    for seed in seeds() {
        live(tack_client(&mut tack(seed)), tack_server(&mut tack(seed)), seed);
    }
}

#[test]
fn all_streams_of_a_client_with_tack_at_a_stock_server_come_to_their_end() {
    for seed in seeds() {
        live(tack_client(&mut tack(seed)), stock_server(&mut stock()), seed);
    }
}

#[test]
fn all_streams_of_a_stock_client_at_a_server_with_tack_come_to_their_end() {
    for seed in seeds() {
        live(stock_client(&mut stock()), tack_server(&mut tack(seed)), seed);
    }
}
