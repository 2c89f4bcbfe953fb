//! What one station sends to one other: queue, retransmissions, block-ACK agreement.

use std::collections::VecDeque;
use std::time::Duration;

use rand::RngExt;
use rand_pcg::Pcg64Mcg;

use super::Statistics;
use super::ampdu::{Limits, Psdu};
use super::parameters::RETRY_LIMIT;
use super::reordering::ReorderingBuffer;
use super::timing::BLOCK_ACK_WINDOW;
use crate::{Losses, Packet, Time};

/// What a transmission consists of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Frame {
    /// The first that many MPDUs in flight.
    Data { mpdus: usize },
    /// A block-ACK request.
    Request,
}

/// How a flow is set up.
#[derive(Clone, Debug)]
pub(super) struct FlowConfig {
    /// The sending station.
    pub from: usize,
    /// The receiving station.
    pub to: usize,
    /// What goes into one transmission.
    pub limits: Limits,
    /// Size of the drop-tail queue, in bytes of IP packets. What has been sent once has left it.
    pub queue_bytes: u64,
    /// Probability that an MPDU is damaged.
    pub mpdu_error_rate: f64,
    /// Packets of this size stand ready at all times; `None`: only what is queued is sent.
    pub saturated_with: Option<u32>,
}

/// A queue of one station towards another, with what is on the way and the receiver's buffer.
#[derive(Clone, Debug)]
pub(super) struct Flow {
    config: FlowConfig,
    queue: VecDeque<Queued>,
    queued_bytes: u64,
    /// Sent and not acknowledged, in sequence.
    in_flight: VecDeque<Mpdu>,
    next_sequence: u64,
    /// A block-ACK request has to go before more data.
    request: bool,
    request_failures: u32,
    receiver: ReorderingBuffer,
    errors: Pcg64Mcg,
    statistics: Statistics,
    losses: Losses,
}

#[derive(Clone, Debug)]
struct Queued {
    /// Its place among all packets queued at the station.
    order: u64,
    packet: Packet,
}

#[derive(Clone, Debug)]
struct Mpdu {
    sequence: u64,
    transmissions: u32,
    packet: Packet,
}

impl Flow {
    pub fn new(config: FlowConfig, errors: Pcg64Mcg) -> Self {
        Self {
            config,
            queue: VecDeque::new(),
            queued_bytes: 0,
            in_flight: VecDeque::new(),
            next_sequence: 0,
            request: false,
            request_failures: 0,
            receiver: ReorderingBuffer::default(),
            errors,
            statistics: Statistics::default(),
            losses: Losses::default(),
        }
    }

    pub const fn from(&self) -> usize {
        self.config.from
    }

    pub const fn to(&self) -> usize {
        self.config.to
    }

    pub const fn statistics(&self) -> Statistics {
        self.statistics
    }

    pub const fn losses(&self) -> Losses {
        self.losses
    }

    /// Queues a packet, unless the queue has no room for it.
    pub fn queue(&mut self, packet: Packet, order: u64) {
        let bytes = self.queued_bytes + u64::from(packet.size);
        if bytes > self.config.queue_bytes {
            self.losses.queue += 1;
            return;
        }
        self.queued_bytes = bytes;
        self.queue.push_back(Queued { order, packet });
    }

    /// Fills the queue of a saturated flow with what could be sent next.
    pub fn saturate(&mut self, order: u64, now: Time) {
        let Some(size) = self.config.saturated_with else { return };
        while self.queue.len() < BLOCK_ACK_WINDOW as usize {
            self.queued_bytes += u64::from(size);
            let packet = Packet::new(size, 0, now, Vec::new());
            self.queue.push_back(Queued { order, packet });
        }
    }

    /// Whether there is something to send.
    pub fn pending(&self) -> bool {
        self.request || !self.in_flight.is_empty() || !self.queue.is_empty()
    }

    /// What decides which flow of a station goes first, smallest value first: what was begun is
    /// ended, then the packet that has waited longest. `None`: nothing to send.
    pub fn turn(&self) -> Option<u64> {
        if self.request || !self.in_flight.is_empty() {
            return Some(0);
        }
        self.queue.front().map(|queued| queued.order)
    }

    /// What goes on the air, and for how long.
    pub fn transmit(&mut self) -> (Frame, Duration) {
        let (frame, duration) = if self.request {
            self.statistics.requests += 1;
            (Frame::Request, self.config.limits.timing.block_ack_request)
        } else {
            self.transmit_data()
        };
        self.statistics.airtime_ns += duration.as_nanos() as u64;
        (frame, duration)
    }

    /// Retransmissions first, then as much from the queue as the limits allow.
    fn transmit_data(&mut self) -> (Frame, Duration) {
        let limits = &self.config.limits;
        let mut psdu = Psdu::default();
        let old = self.in_flight.iter_mut();
        for mpdu in old.take_while(|mpdu| psdu.push(mpdu.packet.size, limits)) {
            mpdu.transmissions += 1;
        }
        let all_old = psdu.mpdus() as usize == self.in_flight.len();
        while all_old && self.within_window() {
            let next = self.queue.front();
            if !next.is_some_and(|queued| psdu.push(queued.packet.size, limits)) {
                break;
            }
            let Some(queued) = self.queue.pop_front() else { break };
            self.queued_bytes -= u64::from(queued.packet.size);
            let sequence = self.next_sequence;
            self.next_sequence += 1;
            self.in_flight.push_back(Mpdu {
                sequence,
                transmissions: 1,
                packet: queued.packet,
            });
        }
        self.statistics.attempts += 1;
        self.statistics.mpdus += u64::from(psdu.mpdus());
        (Frame::Data { mpdus: psdu.mpdus() as usize }, psdu.duration(&limits.timing))
    }

    /// Whether the receiver's window holds another MPDU.
    fn within_window(&self) -> bool {
        let oldest = self.in_flight.front().map_or(self.next_sequence, |mpdu| mpdu.sequence);
        self.next_sequence < oldest + u64::from(BLOCK_ACK_WINDOW)
    }

    /// The frame was alone on the air. Returns how long its response is, or `None` if the
    /// receiver could not make out anything that it would answer.
    pub fn receive(&mut self, frame: Frame, delivered: &mut Vec<Packet>) -> Option<Duration> {
        match frame {
            Frame::Request => {
                self.receive_request(delivered);
                Some(self.config.limits.timing.block_ack)
            }
            Frame::Data { mpdus } => self.receive_data(mpdus, delivered),
        }
    }

    fn receive_request(&mut self, delivered: &mut Vec<Packet>) {
        let start = self.in_flight.front().map_or(self.next_sequence, |mpdu| mpdu.sequence);
        self.receiver.advance(start, delivered);
        self.request = false;
        self.request_failures = 0;
        self.give_up();
    }

    fn receive_data(&mut self, mpdus: usize, delivered: &mut Vec<Packet>) -> Option<Duration> {
        let mut missing = VecDeque::new();
        for mpdu in self.in_flight.drain(..mpdus) {
            let rate = self.config.mpdu_error_rate;
            if rate > 0.0 && self.errors.random_bool(rate) {
                missing.push_back(mpdu);
            } else if self.config.limits.ampdu_bytes.is_some() {
                self.receiver.receive(mpdu.sequence, mpdu.packet, delivered);
            } else {
                delivered.push(mpdu.packet);
            }
        }
        let nothing_came = missing.len() == mpdus;
        if !missing.is_empty() {
            missing.append(&mut self.in_flight);
            self.in_flight = missing;
        }
        if nothing_came {
            self.unanswered(Frame::Data { mpdus });
            return None;
        }
        self.give_up();
        let timing = &self.config.limits.timing;
        Some(if mpdus == 1 { timing.ack } else { timing.block_ack })
    }

    /// The frame met others on the air.
    pub fn collide(&mut self, frame: Frame) {
        if frame != Frame::Request {
            self.statistics.collisions += 1;
        }
        self.unanswered(frame);
    }

    fn unanswered(&mut self, frame: Frame) {
        match frame {
            Frame::Request => {
                self.statistics.request_failures += 1;
                self.request_failures += 1;
                if self.request_failures > RETRY_LIMIT {
                    // Nobody can tell what has come: all of it is given up. A request goes on
                    // being sent, for the receiver must not wait for what never comes.
                    self.request_failures = 0;
                    self.losses.retries += self.in_flight.len() as u64;
                    self.in_flight.clear();
                }
            }
            Frame::Data { mpdus } => {
                self.statistics.failures += 1;
                if mpdus > 1 {
                    self.request = true;
                } else {
                    self.give_up();
                }
            }
        }
    }

    /// Drops what has been sent too often, and lets the receiver know.
    fn give_up(&mut self) {
        let before = self.in_flight.len();
        self.in_flight.retain(|mpdu| mpdu.transmissions <= RETRY_LIMIT);
        let dropped = before - self.in_flight.len();
        self.losses.retries += dropped as u64;
        self.request |= dropped > 0 && self.config.limits.ampdu_bytes.is_some();
    }
}
