//! An end with keys that says what a test wants.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use crate::Side;
use crate::keys::{Opener, Sealer, Secrets};
use crate::liar::{self, Report};
use crate::setup::CID_LEN;

/// How a puppet acknowledges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conduct {
    /// Honest TACKs, at this interval.
    Honest(Duration),
    /// Nothing is ever acknowledged.
    Silent,
}

/// An end that is a genuine connection until [let loose](Self::let_loose); after that, each of
/// its packets is made by hand.
pub struct Puppet {
    connection: Box<tacklib::Connection>,
    side: Side,
    secrets: Secrets,
    incoming: Opener,
    outgoing: Opener,
    loose: Option<Loose>,
    received: Received,
    next_number: u64,
}

/// What a puppet is without its strings.
#[derive(Debug)]
struct Loose {
    sealer: Sealer,
    conduct: Conduct,
    from: SocketAddr,
    to: SocketAddr,
    outbox: VecDeque<Vec<u8>>,
    next_tack: Option<Instant>,
    sequence: u64,
    /// Time and received bytes of the last two TACKs.
    marks: VecDeque<(Instant, u64)>,
}

/// What has arrived.
#[derive(Debug, Default)]
struct Received {
    /// Ascending, with gaps between them.
    ranges: Vec<(u64, u64)>,
    largest_at: Option<Instant>,
    bytes: u64,
    stream_bytes: u64,
    pending: bool,
    timing: Option<(u64, Instant)>,
}

impl Puppet {
    pub(crate) fn new(connection: tacklib::Connection, side: Side, secrets: Secrets) -> Self {
        Self {
            connection: Box::new(connection),
            side,
            incoming: Opener::new(secrets.clone(), side.peer(), CID_LEN),
            outgoing: Opener::new(secrets.clone(), side, CID_LEN),
            secrets,
            loose: None,
            received: Received::default(),
            next_number: 0,
        }
    }

    /// The connection that made the handshake; it is not heard any more once the puppet is
    /// let loose.
    pub fn connection(&self) -> &tacklib::Connection {
        &self.connection
    }

    pub(crate) fn connection_mut(&mut self) -> &mut tacklib::Connection {
        &mut self.connection
    }

    /// Bytes of STREAM frames that arrived, repeated ones included.
    pub fn stream_bytes(&self) -> u64 {
        self.received.stream_bytes
    }

    /// Takes over from the genuine connection, which must be established and must have sent a
    /// 1-RTT packet.
    pub fn let_loose(&mut self, conduct: Conduct) {
        let path = self.connection.path_stats().find(|path| path.active).unwrap();
        let unused = Opener::new(self.secrets.clone(), self.side, CID_LEN);
        let outgoing = std::mem::replace(&mut self.outgoing, unused);
        let dcid = self.connection.destination_id().to_vec();
        self.loose = Some(Loose {
            sealer: Sealer::new(outgoing, dcid),
            conduct,
            from: path.local_addr,
            to: path.peer_addr,
            outbox: VecDeque::new(),
            next_tack: None,
            sequence: self.connection.tack_stats().tacks_sent,
            marks: VecDeque::new(),
        });
    }

    /// Changes how it acknowledges.
    pub fn set_conduct(&mut self, conduct: Conduct) {
        self.loose.as_mut().expect("not let loose yet").conduct = conduct;
    }

    /// Sends a packet with these frames.
    pub fn say(&mut self, frames: Vec<u8>) {
        self.loose.as_mut().expect("not let loose yet").outbox.push_back(frames);
    }

    /// A packet with these frames, for a test that delivers it itself.
    pub fn datagram(&mut self, frames: &[u8]) -> Vec<u8> {
        let loose = self.loose.as_ref().expect("not let loose yet");
        let datagram = loose.sealer.seal(self.next_number, self.connection.is_tack(), frames);
        self.next_number += 1;
        datagram
    }

    /// Leaves packet numbers out.
    pub fn skip(&mut self, numbers: u64) {
        self.next_number += numbers;
    }

    /// What an honest TACK would say now.
    pub fn report(&self, now: Instant) -> Report {
        let Received { ranges, largest_at, bytes, .. } = &self.received;
        let newest = ranges.iter().rev().take(64);
        Report {
            ranges: newest.map(|&(first, last)| RangeInclusive::new(first, last)).collect(),
            ack_delay_us: largest_at.map_or(0, |at| (now - at).as_micros() as u64),
            received_bytes: *bytes,
            ..Report::default()
        }
    }

    pub(crate) fn receive(
        &mut self,
        datagram: &mut [u8],
        info: quiche::RecvInfo,
        now: Instant,
    ) {
        if let Some(packet) = self.incoming.open(datagram) {
            let contents = liar::contents(&packet.payload);
            self.received.note(packet.number, datagram.len() as u64, contents, now);
        }
        if let Some(loose) = &mut self.loose {
            if let Conduct::Honest(interval) = loose.conduct
                && self.received.pending
            {
                loose.next_tack.get_or_insert(now + interval);
            }
        } else {
            // What it refuses shows in its state.
            let _ = self.connection.recv(datagram, info);
        }
    }

    pub(crate) fn transmit(&mut self, out: &mut [u8]) -> Option<(usize, quiche::SendInfo)> {
        let Some(loose) = &mut self.loose else {
            let (len, info) = self.connection.send(out).ok()?;
            if let Some(packet) = self.outgoing.open(&out[..len]) {
                self.next_number = packet.number + 1;
            }
            return Some((len, info));
        };
        let frames = loose.outbox.pop_front()?;
        let (from, to) = (loose.from, loose.to);
        let datagram = self.datagram(&frames);
        out[..datagram.len()].copy_from_slice(&datagram);
        let at = Instant::now();
        Some((datagram.len(), quiche::SendInfo { from, to, at }))
    }

    pub(crate) fn timeout_instant(&self) -> Option<Instant> {
        match &self.loose {
            Some(loose) => loose.next_tack,
            None => self.connection.timeout_instant(),
        }
    }

    pub(crate) fn on_timeout(&mut self, now: Instant) {
        let Some(loose) = &self.loose else { return self.connection.on_timeout() };
        if loose.next_tack.is_some_and(|at| at <= now) {
            let tack = self.next_tack(now);
            self.say(tack);
        }
    }

    /// The honest TACK that is due.
    fn next_tack(&mut self, now: Instant) -> Vec<u8> {
        let mut report = self.report(now);
        let micros = |since: Instant| (now - since).as_micros() as u64;
        report.timing = self.received.timing.take().map(|(stamp, at)| (stamp, micros(at)));
        self.received.pending = false;
        let loose = self.loose.as_mut().expect("not let loose yet");
        loose.next_tack = None;
        report.sequence = loose.sequence;
        loose.sequence += 1;
        loose.marks.push_back((now, report.received_bytes));
        if loose.marks.len() > 2
            && let Some((since, bytes)) = loose.marks.pop_front()
        {
            let rate = (report.received_bytes - bytes) * 1_000_000 / micros(since).max(1);
            report.rate = Some((rate, 0));
        }
        report.tack()
    }
}

impl Received {
    fn note(&mut self, number: u64, len: u64, contents: liar::Contents, now: Instant) {
        let at = self.ranges.partition_point(|&(_, last)| last < number);
        if self.ranges.get(at).is_some_and(|&(first, _)| first <= number) {
            return;
        }
        self.ranges.insert(at, (number, number));
        if at + 1 < self.ranges.len() && self.ranges[at + 1].0 == number + 1 {
            self.ranges[at].1 = self.ranges.remove(at + 1).1;
        }
        if at > 0 && self.ranges[at - 1].1 + 1 == number {
            self.ranges[at - 1].1 = self.ranges.remove(at).1;
        }
        if self.ranges.last().is_some_and(|&(_, last)| last == number) {
            self.largest_at = Some(now);
        }
        self.stream_bytes += contents.stream_bytes;
        if contents.ack_eliciting {
            self.bytes += len;
            self.pending = true;
        }
        if let Some(stamp) = contents.timestamp {
            self.timing = Some((stamp, now));
        }
    }
}
