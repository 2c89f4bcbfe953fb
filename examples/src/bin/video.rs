//! A live sender that adapts its bitrate to what the connection measures.
//!
//! It sends 30 frames a second, one of them a keyframe, each on a stream of its own. The path has
//! 12 Mbit/s and a round trip of 40 ms; for two seconds in the middle the rate falls to a third.
//! The example prints a line each second.

#![forbid(unsafe_code)]

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use anyhow::Result;
use quiche::{ConnectionId, RecvInfo, Shutdown};
use tack_examples::{Certificate, Link};
use tacklib::{Connection, Profile, TackConfig, TackStats};

const RUN: Duration = Duration::from_secs(6);
const FRAME: Duration = Duration::from_nanos(1_000_000_000 / 30);
const FRAMES_PER_KEYFRAME: u64 = 30;
/// Size of a keyframe in other frames.
const KEYFRAME_SIZE: u64 = 4;

const FULL_RATE: u64 = 12_000_000;
const LOW_RATE: u64 = FULL_RATE / 3;
const ONE_WAY: Duration = Duration::from_millis(20);
const BUFFER: Duration = Duration::from_millis(150);

fn main() -> Result<()> {
    let (mut sender, mut receiver) = connect()?;
    let start = Instant::now();
    let mut link = [(); 2].map(|()| Link::new(start, FULL_RATE, ONE_WAY, BUFFER));
    let mut camera = Camera::new(start);
    let mut screen = Screen::default();
    let mut next_line = start + Duration::from_secs(1);
    println!("  s  link  target  estimate  queue   loss  frames skipped  latency mean / worst");

    loop {
        let now = Instant::now();
        let elapsed = now - start;
        if now >= next_line {
            next_line += Duration::from_secs(1);
            print_line(elapsed, link[0].rate, &mut camera, &mut screen, [&sender, &receiver]);
            if elapsed >= RUN {
                return Ok(());
            }
        }

        let [forth, back] = &mut link;
        forth.rate = if (2..4).contains(&elapsed.as_secs()) { LOW_RATE } else { FULL_RATE };

        receive(&mut sender, back, now)?;
        receive(&mut receiver, forth, now)?;
        camera.run(&mut sender, now)?;
        screen.show(&mut receiver, &camera.captured, now)?;
        send(&mut sender, forth, now)?;
        send(&mut receiver, back, now)?;

        let next = [sender.timeout_instant(), receiver.timeout_instant()]
            .into_iter()
            .chain(link.iter().map(Link::next_arrival))
            .flatten()
            .fold(camera.next_frame.min(next_line), Instant::min);
        std::thread::sleep(next.saturating_duration_since(Instant::now()));
    }
}

/// Makes frames of the size that an encoder at `bitrate` would make, and sends them.
struct Camera {
    bitrate: Bitrate,
    next_frame: Instant,
    frames: u64,
    skipped: u64,
    /// The last frame, until all of it is written.
    writing: Option<Frame>,
    /// When the frame of each stream was taken. A real sender writes the time into the frame.
    captured: HashMap<u64, Instant>,
    next_stream: u64,
}

struct Frame {
    stream: u64,
    picture: Vec<u8>,
    written: usize,
}

impl Camera {
    fn new(now: Instant) -> Self {
        Self {
            bitrate: Bitrate(Bitrate::FIRST),
            next_frame: now,
            frames: 0,
            skipped: 0,
            writing: None,
            captured: HashMap::new(),
            next_stream: 2, // the client's first unidirectional one
        }
    }

    /// Takes a frame if one is due, and writes what the connection accepts.
    fn run(&mut self, connection: &mut Connection, now: Instant) -> Result<()> {
        if connection.is_established() && now >= self.next_frame {
            self.next_frame += FRAME;
            self.bitrate.adapt(&connection.tack_stats());
            self.take_frame(connection, now)?;
        }
        let Some(frame) = &mut self.writing else { return Ok(()) };
        match connection.stream_send(frame.stream, &frame.picture[frame.written..], true) {
            Ok(written) => frame.written += written,
            Err(quiche::Error::Done) => {}
            Err(error) => return Err(error.into()),
        }
        if frame.written == frame.picture.len() {
            self.writing = None;
        }
        Ok(())
    }

    fn take_frame(&mut self, connection: &mut Connection, now: Instant) -> Result<()> {
        // The send buffer is small (see `config`): a frame that is not all in it is late and would
        // delay those behind it. It is given up.
        if let Some(late) = self.writing.take() {
            self.skipped += 1;
            if late.written > 0 {
                connection.stream_shutdown(late.stream, Shutdown::Write, 0)?;
            } else {
                self.next_stream = late.stream; // not opened
            }
        }
        let keyframe = self.frames.is_multiple_of(FRAMES_PER_KEYFRAME);
        self.frames += 1;
        let parts_per_second = FRAMES_PER_KEYFRAME - 1 + KEYFRAME_SIZE;
        let part = self.bitrate.0 / 8 / parts_per_second;
        let size = if keyframe { KEYFRAME_SIZE * part } else { part };
        let picture = vec![0; size as usize];
        self.writing = Some(Frame { stream: self.next_stream, picture, written: 0 });
        self.captured.insert(self.next_stream, now);
        self.next_stream += 4;
        Ok(())
    }
}

/// The encoder's target, bits per second.
struct Bitrate(u64);

impl Bitrate {
    const FIRST: u64 = 4_000_000;
    const LOWEST: u64 = 1_000_000;
    const HIGHEST: u64 = 20_000_000;
    /// Part of the bandwidth that the video takes; the rest is for headers and for catching up.
    const SHARE: f64 = 0.85;
    /// A longer queue delays the frames behind it: the video takes less until it has drained.
    const QUEUE: Duration = Duration::from_millis(30);
    /// Growth from frame to frame: the bitrate doubles in a second.
    const STEP_UP: f64 = 1.023;

    /// Follows the bandwidth down at once and up step by step. The estimate is what the path has
    /// carried, so it rises with the bitrate; keyframes, which are larger, show early that there is
    /// room.
    fn adapt(&mut self, stats: &TackStats) {
        if stats.bandwidth == 0 {
            return; // nothing measured yet
        }
        let mut path = stats.bandwidth as f64 * 8.0 * (1.0 - stats.loss_rate) * Self::SHARE;
        if queue(stats) > Self::QUEUE {
            path *= Self::SHARE;
        }
        let next = path.min(self.0 as f64 * Self::STEP_UP);
        self.0 = (next as u64).clamp(Self::LOWEST, Self::HIGHEST);
    }
}

/// The queueing delay as the sender measures it: the smoothed round trip above the minimum.
/// `TackStats::queueing_delay` is the one-way figure, which the receiver measures.
fn queue(stats: &TackStats) -> Duration {
    stats
        .smoothed_rtt
        .zip(stats.min_rtt)
        .map_or(Duration::ZERO, |(now, min)| now.saturating_sub(min))
}

/// Counts the frames that arrive and how late they are.
#[derive(Default)]
struct Screen {
    latencies: Vec<Duration>,
}

impl Screen {
    fn show(
        &mut self,
        connection: &mut Connection,
        captured: &HashMap<u64, Instant>,
        now: Instant,
    ) -> Result<()> {
        let mut buffer = [0; 16_384];
        while let Some(stream) = connection.stream_readable_next() {
            loop {
                match connection.stream_recv(stream, &mut buffer) {
                    Ok((_, false)) => {}
                    Ok((_, true)) => {
                        self.latencies.extend(captured.get(&stream).map(|taken| now - *taken));
                        break;
                    }
                    // The sender gave the frame up.
                    Err(quiche::Error::Done | quiche::Error::StreamReset(_)) => break,
                    Err(error) => return Err(error.into()),
                }
            }
        }
        Ok(())
    }
}

fn print_line(
    elapsed: Duration,
    rate: u64,
    camera: &mut Camera,
    screen: &mut Screen,
    [sender, receiver]: [&Connection; 2],
) {
    let megabits = |bits: u64| bits as f64 / 1e6;
    let latencies = std::mem::take(&mut screen.latencies);
    let mean = latencies.iter().sum::<Duration>() / latencies.len().max(1) as u32;
    let worst = latencies.iter().max().copied().unwrap_or_default();
    let stats = sender.tack_stats();
    println!(
        "{:>3} {:>5.1} {:>7.1} {:>9.1} {:>3} ms {:>4.1} % {:>7} {:>7} {:>8} ms / {} ms",
        elapsed.as_secs(),
        megabits(rate),
        megabits(camera.bitrate.0),
        megabits(stats.bandwidth * 8),
        receiver.tack_stats().queueing_delay.unwrap_or_default().as_millis(),
        stats.loss_rate * 100.0,
        latencies.len(),
        std::mem::take(&mut camera.skipped),
        mean.as_millis(),
        worst.as_millis(),
    );
}

const SENDER: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 4001);
const RECEIVER: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 4002);

fn connect() -> Result<(Connection, Connection)> {
    let certificate = Certificate::new()?;
    let (mut client, mut server) = (config()?, config()?);
    server.load_cert_chain_from_pem_file(&certificate.chain()?)?;
    server.load_priv_key_from_pem_file(&certificate.key()?)?;
    let scid = ConnectionId::from_ref(b"the sender");
    let sender = tacklib::connect(Some("localhost"), &scid, SENDER, RECEIVER, &mut client)?;
    let scid = ConnectionId::from_ref(b"the receiver");
    let receiver = tacklib::accept(&scid, None, RECEIVER, SENDER, &mut server)?;
    Ok((sender, receiver))
}

fn config() -> Result<tacklib::Config> {
    let mut config = tacklib::Config::new(quiche::PROTOCOL_VERSION)?;
    config.set_application_protos(&[b"example"])?;
    config.verify_peer(false); // the certificate is self-signed
    config.set_max_idle_timeout(5_000);
    config.set_initial_max_data(10_000_000);
    config.set_initial_max_stream_data_uni(1_000_000);
    config.set_initial_max_streams_uni(100);
    // Frames that wait in a buffer are no longer live. With a small one, `stream_send` returns
    // `Done` as soon as the path does not keep up.
    let mut tack = TackConfig::new(Profile::Video);
    tack.send_buffer = 50_000;
    config.set_tack(tack);
    Ok(config)
}

fn receive(connection: &mut Connection, link: &mut Link, now: Instant) -> Result<()> {
    let (from, to) =
        if connection.is_server() { (SENDER, RECEIVER) } else { (RECEIVER, SENDER) };
    while let Some(mut datagram) = link.receive(now) {
        connection.recv(&mut datagram, RecvInfo { from, to })?;
    }
    if connection.timeout_instant().is_some_and(|at| at <= now) {
        connection.on_timeout();
    }
    Ok(())
}

fn send(connection: &mut Connection, link: &mut Link, now: Instant) -> Result<()> {
    let mut datagram = [0; 1350];
    loop {
        match connection.send(&mut datagram) {
            Ok((len, _)) => link.send(now, &datagram[..len]),
            Err(quiche::Error::Done) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
}
