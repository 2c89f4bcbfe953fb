//! Packets of one connection on their way to the socket: held until their release time, then
//! sent in bursts.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tacklib::EcnCodepoint;

use crate::stats::EndpointStats;

/// Where bursts go: the socket, or a test.
pub(crate) trait Sink {
    /// How many datagrams one burst may have at present.
    fn max_segments(&self) -> usize;
    fn send(&mut self, burst: &Burst<'_>) -> Result<(), SendError>;
}

/// Datagrams that leave in one system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Burst<'a> {
    /// The datagrams, one behind the other.
    pub contents: &'a [u8],
    /// Size of each datagram but the last, which may be shorter; bytes.
    pub segment: usize,
    /// How many datagrams there are.
    pub count: usize,
    /// The local address; a socket of all addresses sends from this one.
    pub from: SocketAddr,
    /// The peer's address.
    pub to: SocketAddr,
    /// What to mark each datagram with: one IP header becomes that of all.
    pub ecn: EcnCodepoint,
}

/// What a failed send means for the datagrams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SendError {
    /// The socket's buffer is full (EAGAIN); the socket becomes writable when it is not.
    Full,
    /// The device's queue is full (ENOBUFS); nothing reports when it is not.
    NoBuffers,
    /// Larger than the path or the interface takes (EMSGSIZE).
    TooLarge,
    /// The system refuses segmentation offload (EIO, EINVAL).
    Offload,
    /// The answer to an earlier datagram, whose port is closed (ECONNREFUSED); this burst did not leave.
    Refused,
    /// Anything else; QUIC treats it as a loss.
    Failed,
}

/// How a flush ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flush {
    /// Everything that was due has been sent.
    Complete,
    /// The rest waits for the socket to become writable.
    Full,
    /// The rest waits for a moment.
    NoBuffers,
}

/// Packets are taken from the connection this long before their release time. Earlier, their
/// acknowledgements would be stale when they leave; later, each would cost a wake-up.
const LOOKAHEAD: Duration = Duration::from_millis(1);

/// Packets that come due within this time of the first leave together with the last of them: late
/// by this much at most, and never early.
const GRANULARITY: Duration = Duration::from_micros(250);

/// Datagrams that one connection may queue, and so send in one turn: two bursts of as many packets of
/// 1,450 bytes as one burst takes.
const MAX_QUEUED: usize = 90;

/// No UDP datagram is larger.
const MAX_DATAGRAM: usize = 65_535;

const BUFFER: usize = MAX_QUEUED * 1500 + MAX_DATAGRAM;

/// Payload of the largest IP packet, behind IPv6 and UDP headers: a burst is one packet until the
/// system splits it.
const MAX_BURST_BYTES: usize = 65_535 - 48;

/// The queue. Datagrams lie one after the other in one buffer, so a burst is a slice of it.
#[derive(Default)]
pub(crate) struct SendQueue {
    /// Taken from the pool while there are datagrams to hold.
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    waiting: VecDeque<Waiting>,
    /// How many of the first are sent one by one, since the system refused the burst.
    singly: usize,
}

#[derive(Debug)]
struct Waiting {
    len: usize,
    meta: Meta,
}

/// Addresses, ECN codepoint and release time of a queued datagram.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Meta {
    pub(crate) from: SocketAddr,
    pub(crate) to: SocketAddr,
    pub(crate) ecn: EcnCodepoint,
    /// Release time.
    pub(crate) at: Instant,
}

/// Buffers that no queue needs at present. Without pacing one serves all connections.
#[derive(Default)]
pub(crate) struct BufferPool(Vec<Vec<u8>>);

const MAX_SPARE_BUFFERS: usize = 16;

impl SendQueue {
    /// Room for the next datagram, if there is any.
    pub(crate) fn room(&mut self, pool: &mut BufferPool) -> Option<&mut [u8]> {
        if self.waiting.len() >= MAX_QUEUED {
            return None;
        }
        if self.buffer.is_empty() {
            self.buffer = pool.0.pop().unwrap_or_else(|| vec![0; BUFFER]);
        }
        if self.buffer.len() - self.end < MAX_DATAGRAM {
            self.buffer.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        self.buffer.get_mut(self.end..).filter(|room| room.len() >= MAX_DATAGRAM)
    }

    /// Queues the datagram of `len` bytes that was written to [`room`](Self::room).
    pub(crate) fn commit(&mut self, len: usize, meta: Meta) {
        self.end += len;
        self.waiting.push_back(Waiting { len, meta });
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Whether the queue holds packets for the whole lookahead.
    pub(crate) fn is_ahead(&self, now: Instant) -> bool {
        self.waiting.back().is_some_and(|last| last.meta.at > now + LOOKAHEAD)
    }

    /// When to flush again, for what is not due yet.
    pub(crate) fn next_release(&self) -> Option<Instant> {
        let end = self.waiting.front()?.meta.at + GRANULARITY;
        let releases = self.waiting.iter().map(|waiting| waiting.meta.at);
        releases.take_while(|at| *at <= end).max()
    }

    /// Lets everything leave at once.
    pub(crate) fn release_all(&mut self, now: Instant) {
        for waiting in &mut self.waiting {
            waiting.meta.at = waiting.meta.at.min(now);
        }
    }

    /// Drops everything.
    pub(crate) fn clear(&mut self) {
        let bytes = self.waiting.iter().map(|waiting| waiting.len).sum();
        self.consume(self.waiting.len(), bytes);
    }

    /// Sends what is due.
    pub(crate) fn flush(
        &mut self,
        now: Instant,
        sink: &mut (impl Sink + ?Sized),
        stats: &mut EndpointStats,
    ) -> Flush {
        loop {
            let max_segments = if self.singly > 0 { 1 } else { sink.max_segments() };
            let Some(burst) = self.burst(now, max_segments) else { return Flush::Complete };
            let (count, bytes) = (burst.count, burst.contents.len());
            stats.send_calls += 1;
            match sink.send(&burst) {
                Ok(()) => {
                    stats.datagrams_out += count as u64;
                    stats.bytes_out += bytes as u64;
                    stats.gso_segments_max = stats.gso_segments_max.max(count);
                }
                Err(SendError::Full) => {
                    stats.send_blocked += 1;
                    return Flush::Full;
                }
                Err(SendError::NoBuffers) => {
                    stats.send_blocked += 1;
                    return Flush::NoBuffers;
                }
                Err(SendError::TooLarge | SendError::Offload) if count > 1 => {
                    self.singly = count;
                    continue;
                }
                // The answer to another one: this one leaves now.
                Err(SendError::Refused) => {
                    stats.refusals += 1;
                    continue;
                }
                Err(SendError::TooLarge) => stats.dropped.too_large += 1,
                Err(_) => stats.dropped.send_failed += count as u64,
            }
            self.consume(count, bytes);
        }
    }

    /// Gives the buffer back once nothing is queued.
    pub(crate) fn release_buffer(&mut self, pool: &mut BufferPool) {
        if !self.waiting.is_empty() || self.buffer.is_empty() {
            return;
        }
        (self.start, self.end) = (0, 0);
        let buffer = std::mem::take(&mut self.buffer);
        if pool.0.len() < MAX_SPARE_BUFFERS {
            pool.0.push(buffer);
        }
    }

    /// The longest burst that is due: same addresses, same ECN codepoint, same size, the last may be shorter.
    ///
    /// A shorter one joins two equal ones only: a lone datagram that is larger than the next may be a
    /// path MTU probe, and must not take others with it when it is lost.
    fn burst(&self, now: Instant, max_segments: usize) -> Option<Burst<'_>> {
        let first = self.waiting.front().filter(|first| first.meta.at <= now)?;
        let (segment, meta) = (first.len, first.meta);
        let (mut count, mut len) = (1, segment);
        for next in self.waiting.iter().take(max_segments).skip(1) {
            let is_last = next.len < segment;
            let joins = next.meta.at <= now
                && (next.meta.from, next.meta.to) == (meta.from, meta.to)
                && next.meta.ecn == meta.ecn
                && len + next.len <= MAX_BURST_BYTES
                && (next.len == segment || (is_last && count > 1));
            if !joins {
                break;
            }
            count += 1;
            len += next.len;
            if is_last {
                break;
            }
        }
        let contents = &self.buffer[self.start..self.start + len];
        let Meta { from, to, ecn, .. } = meta;
        Some(Burst { contents, segment, count, from, to, ecn })
    }

    fn consume(&mut self, count: usize, bytes: usize) {
        self.waiting.drain(..count);
        self.start += bytes;
        self.singly = self.singly.saturating_sub(count);
    }
}

#[cfg(test)]
#[path = "send_queue_tests.rs"]
mod tests;
