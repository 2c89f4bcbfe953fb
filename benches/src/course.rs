//! A transfer over a path with a bottleneck and a delay, in virtual time: the same packets at the
//! same times in every run, whatever the machine.

mod application;
mod bottleneck;
mod end;
mod requests;

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use quiche::{ConnectionId, RecvInfo};
use tack_virtual::Virtual;
use tacklib::Profile;

pub use self::application::Transport;
use self::application::{Application, Bulk};
use self::bottleneck::Bottleneck;
use self::end::{End, Mail};
use self::requests::{Client, Server};
use crate::pair::{STREAM, config};

/// Longest step of the clock: bounds what a timer that nobody told of can cost.
const LONGEST_STEP: Duration = Duration::from_millis(10);

/// A run that takes longer, in virtual time, has stalled.
const PATIENCE: Duration = Duration::from_secs(600);

/// More are allowed as streams end.
const STREAMS: u64 = 100;

/// The server's first unidirectional stream.
const SERVER_STREAM: u64 = 3;

/// What runs, and over which path.
#[derive(Clone, Copy, Debug)]
pub struct Course {
    /// Of the client; [`Profile::Off`] is plain quiche.
    pub client: Profile,
    /// Of the server.
    pub server: Profile,
    /// Which end sends the data.
    pub sender: Side,
    /// How the data is carried.
    pub transport: Transport,
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

/// An end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The end that connects.
    Client,
    /// The end that accepts.
    Server,
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
    client: End,
    server: End,
    bottleneck: Bottleneck,
    /// What the receiver has sent, with its times of arrival.
    way_back: VecDeque<(Instant, Vec<u8>)>,
    mail: Mail,
    /// Whether what the client does now belongs to a counted transfer.
    counts: bool,
    finish: Finish,
}

impl Course {
    /// Enters virtual time and connects; `seed` decides what the ends draw.
    pub fn connect(&self, seed: u64) -> Result<Runner> {
        ensure!(self.batch > 0 && self.rate > 0, "a batch and a rate are at least 1");
        let sends = (self.transport, self.sender);
        ensure!(sends != (Transport::Http3, Side::Server), "over HTTP/3 the client sends");
        ensure!(sends != (Transport::Requests, Side::Client), "the server replies");
        // The certificate is dated by the real clock.
        let mut configs = [config(self.client)?, config(self.server)?];
        for config in &mut configs {
            // What an HTTP/3 connection needs of streams; idle ones change nothing else.
            config.set_initial_max_streams_uni(3);
            config.set_initial_max_streams_bidi(STREAMS);
            config.set_initial_max_stream_data_bidi_local(1 << 26);
            config.set_initial_max_stream_data_bidi_remote(1 << 26);
        }
        let [client_config, server_config] = &mut configs;
        let time = Virtual::enter(seed);
        let (client, server) = addresses();
        let scid = ConnectionId::from_ref(&[0xc1; 8]);
        let connection =
            tacklib::connect(Some("localhost"), &scid, client, server, client_config)?;
        let to_client = RecvInfo { from: server, to: client };
        let client_end = End::new(connection, self.application(Side::Client), to_client);
        let scid = ConnectionId::from_ref(&[0x5e; 8]);
        let connection = tacklib::accept(&scid, None, server, client, server_config)?;
        let to_server = RecvInfo { from: client, to: server };
        let server_end = End::new(connection, self.application(Side::Server), to_server);
        let start = Instant::now();
        let mut runner = Runner {
            time,
            start,
            course: *self,
            client: client_end,
            server: server_end,
            bottleneck: Bottleneck::new(start),
            way_back: VecDeque::new(),
            mail: Mail::default(),
            counts: false,
            finish: Finish::default(),
        };
        runner.handshake()?;
        Ok(runner)
    }

    fn application(&self, side: Side) -> Application {
        match (self.transport, side) {
            (Transport::Requests, Side::Client) => Application::Client(Client::new()),
            (Transport::Requests, Side::Server) => Application::Server(Server::new()),
            (Transport::Stream | Transport::Http3, _) => {
                let stream = match self.sender {
                    Side::Client => STREAM,
                    Side::Server => SERVER_STREAM,
                };
                Application::Bulk(Box::new(Bulk::on_stream(stream)))
            }
        }
    }
}

impl Runner {
    /// Sends `bytes` from one end to the other, which reads them, and ends the stream.
    ///
    /// It has a name of its own so that a profiler can be told to count from its call to its
    /// return; what it does is all in functions of other names. So has what the client does in
    /// it: `counted_client`.
    #[inline(never)]
    pub fn counted_transfer(&mut self, bytes: usize) -> Result<Finish> {
        self.counts = true;
        let finish = self.transfer(bytes, true);
        self.counts = false;
        finish
    }

    /// The same without the name that is counted, and without the end of the stream: what may
    /// precede a counted transfer, so that the start-up is not in it.
    pub fn warm_up(&mut self, bytes: usize) -> Result<Finish> {
        self.transfer(bytes, false)
    }

    fn transfer(&mut self, bytes: usize, last: bool) -> Result<Finish> {
        self.finish = Finish::default();
        let begin = Instant::now();
        let before = self.receiver().application.read();
        // A reply begins with its request.
        let is_asked_for = self.course.transport == Transport::Requests;
        let beginner = if is_asked_for { &mut self.client } else { self.sender() };
        beginner.application.supply(bytes, last);
        let ends = last && !is_asked_for;
        loop {
            self.step()?;
            let application = &self.receiver().application;
            let read = application.read() - before;
            if application.is_finished() || !ends && read >= bytes {
                ensure!(read == bytes, "{read} of {bytes} bytes arrived");
                break;
            }
            self.advance()?;
        }
        Ok(Finish { elapsed: begin.elapsed(), ..self.finish })
    }

    fn handshake(&mut self) -> Result<()> {
        let ends = |runner: &Self| {
            [&runner.client, &runner.server].map(|end| end.connection.is_established())
        };
        while ends(self) != [true, true] {
            self.step()?;
            self.advance()?;
        }
        let asked = |profile| profile != Profile::Off;
        let tack = asked(self.course.client) && asked(self.course.server);
        let is_tack = self.server.connection.is_tack();
        ensure!(is_tack == tack, "TACK was not negotiated as asked");
        if self.course.transport == Transport::Http3 {
            for end in [&mut self.client, &mut self.server] {
                let bulk = Bulk::on_http3(&mut end.connection)?;
                end.application = Application::Bulk(Box::new(bulk));
            }
        }
        Ok(())
    }

    const fn sender(&mut self) -> &mut End {
        match self.course.sender {
            Side::Client => &mut self.client,
            Side::Server => &mut self.server,
        }
    }

    const fn receiver(&mut self) -> &mut End {
        match self.course.sender {
            Side::Client => &mut self.server,
            Side::Server => &mut self.client,
        }
    }

    /// Everything that is due now, at both ends: the receiver first.
    fn step(&mut self) -> Result<()> {
        let now = Instant::now();
        if self.bottleneck.read(self.course.batch, now, &mut self.mail.incoming) {
            self.finish.batches += 1;
        }
        let receiver_is_client = self.course.sender == Side::Server;
        self.turn(now, receiver_is_client)?;
        for (_, datagram) in self.mail.outgoing.drain(..) {
            self.finish.ack_packets += 1;
            self.way_back.push_back((now + self.course.delay, datagram));
        }
        while self.way_back.front().is_some_and(|(at, _)| *at <= now) {
            self.mail.incoming.extend(self.way_back.pop_front().map(|(_, datagram)| datagram));
        }
        self.turn(now, !receiver_is_client)?;
        for (at, datagram) in self.mail.outgoing.drain(..) {
            self.finish.data_packets += 1;
            if let Err(refused) = self.bottleneck.enter(at, datagram, &self.course) {
                self.finish.dropped += 1;
                self.mail.spare.push(refused);
            }
        }
        Ok(())
    }

    fn turn(&mut self, now: Instant, of_client: bool) -> Result<()> {
        match (of_client, self.counts) {
            (true, true) => self.client.counted_client(now, &mut self.mail),
            (true, false) => self.client.turn(now, &mut self.mail),
            (false, _) => self.server.turn(now, &mut self.mail),
        }
    }

    /// Sets the clock to when something is due next.
    fn advance(&mut self) -> Result<()> {
        let now = Instant::now();
        let next = [
            self.client.connection.timeout_instant(),
            self.server.connection.timeout_instant(),
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

fn addresses() -> (SocketAddr, SocketAddr) {
    (SocketAddr::from(([127, 0, 0, 1], 4001)), SocketAddr::from(([127, 0, 0, 1], 4002)))
}
