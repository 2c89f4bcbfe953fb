//! A cable: a rate and a delay in each direction, and nothing else.
//!
//! What an application protocol reaches without a transport, which has a closed form: the measure of
//! the protocols themselves.

use std::collections::VecDeque;
use std::time::Duration;

use tack_link::Time;

use super::{Application, ApplicationError, ByteStream};

/// A cable between two ends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cable {
    /// Bytes per second in each direction.
    pub bytes_per_second: f64,
    /// From the last bit at one end to the last bit at the other.
    pub delay: Duration,
}

/// What is handed over at once: the other end sees it when the whole of it has arrived.
const TRANSFER: usize = 16 << 10;

/// Bytes that an end may have handed over and not on the wire: those of a host controller.
const QUEUE: usize = 1 << 20;

/// Rounds without progress of time after which a run is given up.
const PATIENCE: u32 = 100_000;

/// Why a run over a cable failed.
#[derive(Debug, thiserror::Error)]
pub enum CableError {
    /// One end gave up.
    #[error(transparent)]
    Application(#[from] ApplicationError),
    /// The client had not finished when time was up, or nothing more was going to happen.
    #[error("not finished after {:.3} s", at.as_secs_f64())]
    Unfinished {
        /// When it ended.
        at: Time,
    },
}

impl Cable {
    /// Runs a protocol until its client has finished; returns when that was.
    pub fn run(
        self,
        client: &mut dyn Application,
        server: &mut dyn Application,
        limit: Duration,
    ) -> Result<Time, CableError> {
        let mut ways = [Way::new(self), Way::new(self)];
        let mut now = Time::ZERO;
        let mut rounds = 0;
        loop {
            let [to_server, to_client] = &mut ways;
            let mut stream = End { outgoing: to_server, incoming: to_client, now };
            client.turn(&mut stream, now)?;
            let mut stream = End { outgoing: to_client, incoming: to_server, now };
            server.turn(&mut stream, now)?;
            if client.is_finished() {
                return Ok(now);
            }
            let own = [client.next_event(), server.next_event()];
            let events = ways.iter().filter_map(|way| way.next_event(now));
            match own.into_iter().flatten().chain(events).min() {
                Some(next) if next <= Time::from(limit) && rounds < PATIENCE => {
                    rounds = if next > now { 0 } else { rounds + 1 };
                    now = now.max(next);
                }
                _ => return Err(CableError::Unfinished { at: now }),
            }
        }
    }
}

/// One direction.
struct Way {
    cable: Cable,
    transfers: VecDeque<(Time, Vec<u8>)>,
    /// When what has been handed over is on the wire.
    free_at: Time,
    /// When the last byte arrives.
    last_arrival: Time,
    /// An end found no room.
    is_full: bool,
}

impl Way {
    const fn new(cable: Cable) -> Self {
        Self {
            cable,
            transfers: VecDeque::new(),
            free_at: Time::ZERO,
            last_arrival: Time::ZERO,
            is_full: false,
        }
    }

    fn transmission(&self, bytes: usize) -> Duration {
        Duration::from_secs_f64(bytes as f64 / self.cable.bytes_per_second)
    }

    fn send(&mut self, bytes: &[u8], now: Time) -> usize {
        let mut taken = 0;
        for transfer in bytes.chunks(TRANSFER) {
            let queued = self.free_at.since(now).as_secs_f64() * self.cable.bytes_per_second;
            if queued as usize + transfer.len() > QUEUE {
                self.is_full = true;
                break;
            }
            self.free_at = self.free_at.max(now) + self.transmission(transfer.len());
            self.last_arrival = self.free_at + self.cable.delay;
            self.transfers.push_back((self.last_arrival, transfer.to_vec()));
            taken += transfer.len();
        }
        taken
    }

    fn receive(&mut self, out: &mut [u8], now: Time) -> usize {
        let Some((at, bytes)) = self.transfers.front_mut() else { return 0 };
        if *at > now {
            return 0;
        }
        let count = bytes.len().min(out.len());
        out[..count].copy_from_slice(&bytes[..count]);
        bytes.drain(..count);
        if bytes.is_empty() {
            self.transfers.pop_front();
        }
        count
    }

    /// The next arrival, the moment at which the sender knows of the last one, or the one at which there is room
    /// again.
    fn next_event(&self, now: Time) -> Option<Time> {
        let arrivals = self.transfers.iter().map(|(at, _)| *at).find(|at| *at > now);
        let drained = self.last_arrival + self.cable.delay;
        let room = self.free_at - self.transmission(QUEUE - TRANSFER);
        let room = (self.is_full && room > now).then_some(room);
        arrivals.into_iter().chain((drained > now).then_some(drained)).chain(room).min()
    }
}

struct End<'a> {
    outgoing: &'a mut Way,
    incoming: &'a mut Way,
    now: Time,
}

impl ByteStream for End<'_> {
    fn is_open(&mut self) -> bool {
        true
    }

    fn read(&mut self, out: &mut [u8]) -> usize {
        self.incoming.receive(out, self.now)
    }

    fn write(&mut self, bytes: &[u8]) -> usize {
        self.outgoing.is_full = false;
        self.outgoing.send(bytes, self.now)
    }

    fn is_drained(&mut self) -> Option<bool> {
        Some(self.outgoing.last_arrival + self.outgoing.cable.delay <= self.now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Wants to be called at once, again and again.
    struct Restless;

    impl Application for Restless {
        fn turn(&mut self, _: &mut dyn ByteStream, _: Time) -> Result<(), ApplicationError> {
            Ok(())
        }
        fn next_event(&self) -> Option<Time> {
            Some(Time::ZERO)
        }
        fn is_finished(&self) -> bool {
            false
        }
    }

    #[test]
    fn an_application_that_never_lets_time_pass_is_given_up() {
        let cable = Cable { bytes_per_second: 1e6, delay: Duration::from_millis(1) };
        let run = cable.run(&mut Restless, &mut Restless, Duration::from_secs(1));
        assert!(matches!(run, Err(CableError::Unfinished { at: Time::ZERO })), "{run:?}");
    }
}
