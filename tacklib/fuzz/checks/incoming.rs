//! Packets with valid keys and arbitrary frames, in any order and at any time.
//!
//! An input is a setup and a list of steps: the peer's packets, replays, damage, the passage of time, and
//! calls of the application. The packets of the peer that is left to itself at the end acknowledge all
//! that arrives: a connection that did not close must deliver a stream then.

use std::time::{Duration, Instant};

use quiche::{RecvInfo, SendInfo, Shutdown};
use rustix::time::{ClockId, clock_gettime};
use tacklib::{Connection, TackStats};

use super::ends::{
    Clock, End, Log, Side, exchange, expire, other_address, plain_end, sent_until_dead_end,
    tack_end,
};
use super::input::Input;
use super::peer::{Header, Peer};

/// More steps than this are not taken.
const STEPS: usize = 200;

/// Packets that are held back, and packets that can be replayed.
const KEPT: usize = 16;

/// What the last transfer carries, bytes.
const TRANSFER: usize = 30_000;

/// How long it may take at most, and how long an honest peer waits with acknowledgements.
const PATIENCE: Duration = Duration::from_secs(1800);
const ACK_INTERVAL: Duration = Duration::from_millis(10);

/// What one packet may cost the connection that gets it, CPU time of the thread.
const MOST_COST: Duration = Duration::from_millis(1);

/// What it may cost besides for each full packet that is not in flight any more: a peer may acknowledge all
/// packets at once, and each only once.
const COST_OF_SETTLED: Duration = Duration::from_micros(4);

/// A full packet until the path MTU is known (RFC 9000 section 14), bytes.
const FULL_PACKET: u64 = 1200;

/// Turns without progress of time after which a timer spins.
const SPINS: usize = 20;

/// What can be seen of a connection.
#[derive(Debug, PartialEq)]
struct Snapshot {
    stats: TackStats,
    deadline: Option<Instant>,
    counts: [usize; 4],
    readable: Vec<u64>,
    writable: Vec<u64>,
    datagrams: usize,
    local_error: Option<u64>,
    is_closed: bool,
    is_draining: bool,
}

struct Scene {
    clock: Clock,
    connection: Connection,
    side: Side,
    peer: Peer,
    held: Vec<Vec<u8>>,
    delivered: Vec<Vec<u8>>,
    /// CPU time that each packet took, less [`COST_OF_SETTLED`] for what it settled.
    costs: Vec<Duration>,
    /// A path has lost its connection id: quiche cannot send.
    is_dead_end: bool,
}

/// Panics if the connection does what it must not.
pub fn check(input: &[u8]) {
    run(input);
}

/// As [`check`], and panics if a packet costs too much each of three times.
pub fn check_with_costs(input: &[u8]) {
    let mut least = run(input);
    for _ in 0..2 {
        if least.iter().all(|cost| *cost <= MOST_COST) {
            return;
        }
        for (least, cost) in least.iter_mut().zip(run(input)) {
            *least = (*least).min(cost);
        }
    }
    let most = least.iter().max();
    assert!(most.is_none_or(|cost| *cost <= MOST_COST), "a packet costs {most:?}");
}

/// What this thread has cost so far. Virtual time leaves this clock alone.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}

/// Takes the steps of an input; what each packet cost.
fn run(input: &[u8]) -> Vec<Duration> {
    let mut input = Input::new(input);
    let mut scene = Scene::new(input.byte());
    for _ in 0..STEPS {
        let Some(step) = input.next() else { break };
        scene.step(step, &mut input);
        scene.transmit();
    }
    scene.conclude();
    scene.costs
}

impl Scene {
    fn new(setup: u8) -> Self {
        let side = if setup & 1 == 0 { Side::Server } else { Side::Client };
        let is_video = setup & 4 != 0;
        let mut clock = Clock::start();
        let keys = Log::default();
        let mut connection = tack_end(side, is_video, &keys);
        let mut other: Box<dyn End> = if setup & 2 == 0 {
            Box::new(tack_end(side.peer(), is_video, &Log::default()))
        } else {
            Box::new(plain_end(side.peer(), &Log::default()))
        };
        let seen = if side.is_server() {
            exchange(&mut clock, &mut *other, &mut connection)
        } else {
            exchange(&mut clock, &mut connection, &mut *other)
        };
        assert!(connection.is_established());
        assert_eq!(connection.is_tack(), setup & 2 == 0);
        let peer = Peer::new(side.peer(), &mut *other, &keys, &seen);
        Self {
            clock,
            connection,
            side,
            peer,
            held: Vec::new(),
            delivered: Vec::new(),
            costs: Vec::new(),
            is_dead_end: false,
        }
    }

    fn step(&mut self, step: u8, input: &mut Input<'_>) {
        match step % 12 {
            0..=3 => self.say(input),
            4 => self.release(input.byte()),
            5 => self.replay(input.byte()),
            6 => self.pass_time(Duration::from_micros(1 << (input.byte() % 24))),
            7 | 8 => self.write(input.byte(), usize::from(input.byte()) * 64),
            9 => self.read(),
            10 => self.call(input.byte()),
            _ => {
                let datagram = self.peer.answer(self.connection.is_tack());
                self.deliver(&datagram, false);
            }
        }
    }

    /// A packet of the peer's.
    fn say(&mut self, input: &mut Input<'_>) {
        const MARKED: u8 = 1;
        const SKIPS: u8 = 1 << 1;
        const LATE: u8 = 1 << 2;
        const HELD: u8 = 1 << 3;
        const UPDATES_KEY: u8 = 1 << 4;
        const FROM_ELSEWHERE: u8 = 1 << 5;
        const DAMAGED: u8 = 1 << 6;

        let flags = input.byte();
        let mut number = self.peer.next;
        if flags & SKIPS != 0 {
            number += u64::from(input.byte());
        }
        if flags & LATE != 0 {
            number = number.saturating_sub(u64::from(input.byte()));
        }
        let header = Header {
            number,
            marked: flags & MARKED != 0,
            updates_key: flags & UPDATES_KEY != 0,
        };
        let mut datagram = self.peer.seal(header, input.bytes());
        if flags & DAMAGED != 0 {
            let bit = usize::from(input.number()) % (datagram.len() * 8);
            datagram[bit / 8] ^= 1 << (bit % 8);
            self.deliver_refused(&datagram, false);
        } else if flags & HELD != 0 && self.held.len() < KEPT {
            self.held.push(datagram);
        } else {
            self.deliver(&datagram, flags & FROM_ELSEWHERE != 0);
        }
    }

    fn release(&mut self, which: u8) {
        if !self.held.is_empty() {
            let datagram = self.held.swap_remove(usize::from(which) % self.held.len());
            self.deliver(&datagram, false);
        }
    }

    /// A packet comes again.
    fn replay(&mut self, which: u8) {
        if !self.delivered.is_empty() {
            let datagram = self.delivered[usize::from(which) % self.delivered.len()].clone();
            self.deliver_refused(&datagram, which & 0x80 != 0);
        }
    }

    fn deliver(&mut self, datagram: &[u8], from_elsewhere: bool) {
        let before = self.connection.stats().recv;
        self.receive(datagram, from_elsewhere);
        if self.connection.stats().recv == before {
            return;
        }
        if self.delivered.len() == KEPT {
            self.delivered.remove(0);
        }
        self.delivered.push(datagram.to_vec());
    }

    /// Gives the connection a datagram. What it refuses shows in its state.
    fn receive(&mut self, datagram: &[u8], from_elsewhere: bool) {
        let from = if from_elsewhere { other_address() } else { self.peer.address };
        let info = RecvInfo { from, to: self.side.address() };
        let mut datagram = datagram.to_vec();
        let in_flight = self.connection.tack_stats().bytes_in_flight;
        let start = cpu_time();
        let _ = self.connection.recv(&mut datagram, info);
        let cost = cpu_time().saturating_sub(start);
        let settled = in_flight.saturating_sub(self.connection.tack_stats().bytes_in_flight);
        let of_settled = COST_OF_SETTLED * (settled / FULL_PACKET) as u32;
        self.costs.push(cost.saturating_sub(of_settled));
    }

    /// A refused packet changes a counter and nothing else.
    fn deliver_refused(&mut self, datagram: &[u8], from_elsewhere: bool) {
        self.transmit();
        let before = self.snapshot();
        self.receive(datagram, from_elsewhere);
        assert_eq!(self.snapshot(), before);
        let answer = self.sent();
        // Whatever comes from an unproven address lets more leave for it (RFC 9000 section 8.1).
        let is_proven = !from_elsewhere && self.peer.address == self.side.peer().address();
        assert!(answer.is_empty() || !is_proven, "a refused packet was answered");
        for (datagram, info) in answer {
            self.peer.receive(&datagram, info.to);
        }
    }

    fn snapshot(&self) -> Snapshot {
        let connection = &self.connection;
        let stats = connection.stats();
        let mut tack_stats = connection.tack_stats();
        tack_stats.packets_refused = 0;
        // It tells of work: what a connection that has closed opens, it opens again.
        tack_stats.packets_opened = 0;
        Snapshot {
            stats: tack_stats,
            deadline: connection.timeout_instant(),
            counts: [stats.recv, stats.sent, stats.lost, stats.retrans],
            readable: connection.readable().collect(),
            writable: connection.writable().collect(),
            datagrams: connection.dgram_recv_queue_len(),
            local_error: connection.local_error().map(|error| error.error_code),
            is_closed: connection.is_closed(),
            is_draining: connection.is_draining(),
        }
    }

    fn pass_time(&mut self, time: Duration) {
        let end = Instant::now() + time;
        let mut spins = 0;
        while let Some(at) = self.connection.timeout_instant().filter(|at| *at <= end) {
            spins = if at > Instant::now() { 0 } else { spins + 1 };
            assert!(spins < SPINS, "a timer stays expired");
            self.clock.advance_to(at);
            expire(&mut self.connection);
            self.transmit();
        }
        self.clock.advance_to(end);
    }

    /// Takes what the connection sends.
    fn transmit(&mut self) {
        for (datagram, info) in self.sent() {
            self.peer.receive(&datagram, info.to);
        }
    }

    fn sent(&mut self) -> Vec<(Vec<u8>, SendInfo)> {
        let (datagrams, reaches_dead_end) = sent_until_dead_end(&mut self.connection);
        self.is_dead_end = reaches_dead_end || self.is_dead_end && datagrams.is_empty();
        datagrams
    }

    /// One of the streams that each side may write to.
    fn stream(&self, which: u8) -> u64 {
        let own = u64::from(self.side.is_server());
        [own, 2 + own, 4 + own, 1 - own][usize::from(which % 4)]
    }

    fn write(&mut self, which: u8, len: usize) {
        let stream_id = self.stream(which);
        let fin = which & 0x80 != 0;
        let _ = self.connection.stream_send(stream_id, &vec![0xda; len], fin);
    }

    fn read(&mut self) {
        let mut buffer = [0; 4096];
        let readable: Vec<u64> = self.connection.readable().collect();
        for stream_id in readable {
            while self
                .connection
                .stream_recv(stream_id, &mut buffer)
                .is_ok_and(|(len, _)| len > 0)
            {}
        }
        while self.connection.dgram_recv(&mut buffer).is_ok() {}
    }

    /// What else an application may call.
    fn call(&mut self, which: u8) {
        let stream_id = self.stream(which >> 4);
        let connection = &mut self.connection;
        let _ = match which % 8 {
            0 => connection.stream_shutdown(stream_id, Shutdown::Write, 7),
            1 => connection.stream_shutdown(stream_id, Shutdown::Read, 7),
            2 => connection.dgram_send(&[0xda; 100]),
            3 => connection.initiate_key_update(),
            4 => connection.send_ack_eliciting(),
            5 => connection.stream_send(stream_id, b"", true).map(drop),
            6 => connection.dgram_send(&[0xda; 1100]),
            _ => connection.stream_priority(stream_id, 3, true),
        };
    }

    fn conclude(&mut self) {
        if !self.is_over() {
            self.transfer();
        }
    }

    /// Whether the connection has closed, which it must have told a transport error for.
    fn is_over(&self) -> bool {
        if let Some(error) = self.connection.local_error() {
            assert!(!error.is_app, "{error:?}");
            assert_ne!(error.error_code, 0, "no error");
            return true;
        }
        if self.connection.peer_error().is_some() {
            return true;
        }
        assert!(!self.connection.is_closed(), "closed for no reason");
        false
    }

    /// Sends a stream to a peer that is honest from now on. It may still find out about a lie.
    fn transfer(&mut self) {
        let stream_id = if self.side.is_server() { 203 } else { 202 };
        self.peer.follow(stream_id);
        let data = vec![0xf1; TRANSFER];
        let mut written = 0;
        let give_up = Instant::now() + PATIENCE;
        while !self.peer.has_all() {
            if written < TRANSFER {
                match self.connection.stream_send(stream_id, &data[written..], true) {
                    Ok(taken) => written += taken,
                    Err(quiche::Error::Done) => {}
                    Err(error) => panic!("stream_send: {error:?}"),
                }
            }
            self.transmit();
            let due = self.peer.owes_since.map(|since| since + ACK_INTERVAL);
            let next = [self.connection.timeout_instant(), due].into_iter().flatten().min();
            let Some(next) = next.filter(|next| *next <= give_up) else {
                let stats = self.connection.tack_stats();
                assert!(self.is_dead_end, "stalled: {stats:?}");
                return;
            };
            self.pass_time(next.saturating_duration_since(Instant::now()));
            if due.is_some_and(|at| at <= Instant::now()) {
                let datagram = self.peer.answer(self.connection.is_tack());
                self.deliver(&datagram, false);
            }
            self.read();
            if self.is_over() {
                return;
            }
        }
    }
}
