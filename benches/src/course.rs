//! A transfer over a path with a bottleneck and a delay, in virtual time: the same packets at the
//! same times in every run, whatever the machine.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use quiche::{ConnectionId, RecvInfo};
use tack_virtual::Virtual;
use tacklib::{Connection, Profile};

use crate::pair::{DATAGRAM, STREAM, config};

/// A batch is read this long after its first datagram has come, however few have.
const LONGEST_BATCH: Duration = Duration::from_millis(2);

/// Longest step of the clock: bounds what a timer that nobody told of can cost.
const LONGEST_STEP: Duration = Duration::from_millis(10);

/// A run that takes longer, in virtual time, has stalled.
const PATIENCE: Duration = Duration::from_secs(120);

/// What runs, and over which path.
#[derive(Clone, Copy, Debug)]
pub struct Course {
    /// Of both connections; [`Profile::Off`] is plain quiche.
    pub profile: Profile,
    /// Datagrams that the receiver reads before it may answer: what one A-MPDU brings, or one
    /// call of `recvmmsg`.
    pub batch: usize,
    /// The bottleneck, bits per second.
    pub rate: u64,
    /// One way of the path.
    pub delay: Duration,
    /// What waits in front of the bottleneck at most, bytes.
    pub queue: u64,
}

/// What came of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Finish {
    /// Virtual time.
    pub elapsed: Duration,
    /// Datagrams of the end that sent the data.
    pub data_packets: u64,
    /// Those that did not fit in front of the bottleneck.
    pub dropped: u64,
    /// How often the receiver has read.
    pub batches: u64,
    /// Datagrams of the receiver: acknowledgements, some with window updates.
    pub ack_packets: u64,
}

/// Two connections that have done their handshake, at the ends of a path.
pub struct Runner {
    time: Virtual,
    start: Instant,
    course: Course,
    sender: Connection,
    receiver: Connection,
    bottleneck: Bottleneck,
    /// What the receiver has sent, with its times of arrival.
    way_back: VecDeque<(Instant, Vec<u8>)>,
    /// Buffers to use again.
    spare: Vec<Vec<u8>>,
    data: Vec<u8>,
    buffer: Vec<u8>,
    finish: Finish,
}

/// The way of the data.
struct Bottleneck {
    /// Times of arrival and datagrams.
    way: VecDeque<(Instant, Vec<u8>)>,
    /// When it has nothing left to send.
    idle_at: Instant,
}

impl Course {
    /// Enters virtual time and connects; `seed` decides what the ends draw.
    pub fn connect(&self, seed: u64) -> Result<Runner> {
        ensure!(self.batch > 0 && self.rate > 0, "a batch and a rate are at least 1");
        // The certificate is dated by the real clock.
        let mut config = config(self.profile)?;
        let time = Virtual::enter(seed);
        let (client, server) = addresses();
        let scid = ConnectionId::from_ref(&[0xc1; 8]);
        let sender = tacklib::connect(Some("localhost"), &scid, client, server, &mut config)?;
        let scid = ConnectionId::from_ref(&[0x5e; 8]);
        let receiver = tacklib::accept(&scid, None, server, client, &mut config)?;
        let start = Instant::now();
        let mut runner = Runner {
            time,
            start,
            course: *self,
            sender,
            receiver,
            bottleneck: Bottleneck { way: VecDeque::new(), idle_at: start },
            way_back: VecDeque::new(),
            spare: Vec::new(),
            data: vec![0xa5; 1 << 16],
            buffer: vec![0; 1 << 16],
            finish: Finish::default(),
        };
        while !(runner.sender.is_established() && runner.receiver.is_established()) {
            runner.step()?;
            runner.advance()?;
        }
        let tack = self.profile != Profile::Off;
        ensure!(runner.receiver.is_tack() == tack, "TACK was not negotiated as asked");
        Ok(runner)
    }
}

impl Runner {
    /// Sends `bytes` from one end to the other, which reads them.
    ///
    /// It has a name of its own so that a profiler can be told to count from its call to its
    /// return; what it does is all in functions of other names.
    #[inline(never)]
    pub fn counted_transfer(&mut self, bytes: usize) -> Result<Finish> {
        self.transfer(bytes)
    }

    fn transfer(&mut self, bytes: usize) -> Result<Finish> {
        self.finish = Finish::default();
        let begin = Instant::now();
        let (mut written, mut read) = (0, 0);
        loop {
            written += self.write(bytes - written)?;
            self.step()?;
            let (len, finished) = self.read()?;
            read += len;
            if finished {
                break;
            }
            self.advance()?;
        }
        ensure!(read == bytes, "{read} of {bytes} bytes arrived");
        Ok(Finish { elapsed: begin.elapsed(), ..self.finish })
    }

    /// Everything that is due now: timers, arrivals, departures.
    fn step(&mut self) -> Result<()> {
        let now = Instant::now();
        let (client, server) = addresses();
        for end in [&mut self.sender, &mut self.receiver] {
            if end.timeout_instant().is_some_and(|at| at <= now) {
                end.on_timeout();
            }
        }
        if self.bottleneck.next_batch(self.course.batch).is_some_and(|at| at <= now) {
            self.finish.batches += 1;
            let arrived = self.bottleneck.arrived(self.course.batch, now);
            for (_, mut datagram) in self.bottleneck.way.drain(..arrived) {
                let info = RecvInfo { from: client, to: server };
                self.receiver.recv(&mut datagram, info).context("receiving data")?;
                self.spare.push(datagram);
            }
        }
        while self.way_back.front().is_some_and(|(at, _)| *at <= now) {
            let Some((_, mut datagram)) = self.way_back.pop_front() else { break };
            let info = RecvInfo { from: server, to: client };
            self.sender.recv(&mut datagram, info).context("receiving acknowledgements")?;
            self.spare.push(datagram);
        }
        self.send_acknowledgements(now)?;
        self.send_data(now)
    }

    fn send_data(&mut self, now: Instant) -> Result<()> {
        loop {
            let mut datagram = self.spare.pop().unwrap_or_default();
            datagram.resize(DATAGRAM, 0);
            match self.sender.send(&mut datagram) {
                Ok((len, info)) => {
                    self.finish.data_packets += 1;
                    datagram.truncate(len);
                    // Plain quiche leaves the waiting to the caller.
                    let enters = info.at.max(now);
                    if let Err(refused) = self.bottleneck.enter(enters, datagram, &self.course)
                    {
                        self.finish.dropped += 1;
                        self.spare.push(refused);
                    }
                }
                Err(error) => {
                    self.spare.push(datagram);
                    return done(error).context("sending data");
                }
            }
        }
    }

    fn send_acknowledgements(&mut self, now: Instant) -> Result<()> {
        loop {
            let mut datagram = self.spare.pop().unwrap_or_default();
            datagram.resize(DATAGRAM, 0);
            match self.receiver.send(&mut datagram) {
                Ok((len, _)) => {
                    self.finish.ack_packets += 1;
                    datagram.truncate(len);
                    self.way_back.push_back((now + self.course.delay, datagram));
                }
                Err(error) => {
                    self.spare.push(datagram);
                    return done(error).context("sending acknowledgements");
                }
            }
        }
    }

    /// Writes up to `rest` bytes, the last of the stream; how many were taken.
    fn write(&mut self, rest: usize) -> Result<usize> {
        let mut written = 0;
        while written < rest {
            let len = (rest - written).min(self.data.len());
            let fin = written + len == rest;
            match self.sender.stream_send(STREAM, &self.data[..len], fin) {
                Ok(taken) => {
                    written += taken;
                    if taken < len {
                        break;
                    }
                }
                Err(error) => {
                    done(error).context("writing")?;
                    break;
                }
            }
        }
        Ok(written)
    }

    /// Reads what has arrived; how many bytes, and whether the stream is over.
    fn read(&mut self) -> Result<(usize, bool)> {
        let mut total = 0;
        loop {
            match self.receiver.stream_recv(STREAM, &mut self.buffer) {
                Ok((len, fin)) => {
                    total += len;
                    if fin {
                        return Ok((total, true));
                    }
                }
                // The stream is yet to be opened.
                Err(quiche::Error::InvalidStreamState(_)) => return Ok((total, false)),
                Err(error) => {
                    done(error).context("reading")?;
                    return Ok((total, false));
                }
            }
        }
    }

    /// Sets the clock to when something is due next.
    fn advance(&mut self) -> Result<()> {
        let now = Instant::now();
        let next = [
            self.sender.timeout_instant(),
            self.receiver.timeout_instant(),
            self.bottleneck.next_batch(self.course.batch),
            self.way_back.front().map(|(at, _)| *at),
        ];
        let next = next.into_iter().flatten().min().unwrap_or(now + LONGEST_STEP);
        // A timer that stays due must not stop the clock.
        let next = next.clamp(now + Duration::from_nanos(1), now + LONGEST_STEP);
        let since_start = next.duration_since(self.start);
        ensure!(since_start < PATIENCE, "stalled: {:?}", self.finish);
        self.time.set(since_start);
        Ok(())
    }
}

impl Bottleneck {
    /// Takes a datagram at `at`, or gives it back where there is no room for it.
    fn enter(
        &mut self,
        at: Instant,
        datagram: Vec<u8>,
        course: &Course,
    ) -> Result<(), Vec<u8>> {
        let begin = self.idle_at.max(at);
        let waiting =
            begin.duration_since(at).as_nanos() * u128::from(course.rate) / 8_000_000_000;
        if waiting > u128::from(course.queue) {
            return Err(datagram);
        }
        let nanos = datagram.len() as u64 * 8_000_000_000 / course.rate;
        self.idle_at = begin + Duration::from_nanos(nanos);
        self.way.push_back((self.idle_at + course.delay, datagram));
        Ok(())
    }

    /// When the receiver reads next: when a batch is there, or the first has waited for long.
    fn next_batch(&self, batch: usize) -> Option<Instant> {
        let first = self.way.front()?.0 + LONGEST_BATCH;
        let last = self.way.get(batch - 1).map(|(at, _)| *at);
        Some(last.map_or(first, |last| last.min(first)))
    }

    /// How many datagrams of a batch are there at `now`.
    fn arrived(&self, batch: usize, now: Instant) -> usize {
        self.way.iter().take(batch).take_while(|(at, _)| *at <= now).count()
    }
}

fn addresses() -> (SocketAddr, SocketAddr) {
    (SocketAddr::from(([127, 0, 0, 1], 4001)), SocketAddr::from(([127, 0, 0, 1], 4002)))
}

/// That there is nothing to do is no error.
fn done(error: quiche::Error) -> quiche::Result<()> {
    match error {
        quiche::Error::Done => Ok(()),
        error => Err(error),
    }
}
