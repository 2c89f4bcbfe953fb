//! Two pipes, one for each direction.

use crate::pipe::{Pipe, PipeConfig};
use crate::random::child_seed;
use crate::{Arrival, Direction, Link, Losses, Packet, ParameterError, Time};

/// A wide-area link with both of its directions, which have nothing to do with each other.
///
/// Of two packets that arrive at the same time the one that goes forward is the first.
#[derive(Clone, Debug)]
pub struct Duplex {
    /// In the order of [`Direction::index`].
    pipes: [Pipe; 2],
}

impl Duplex {
    /// An empty link. The pipes draw from different random streams, also if they are equal.
    ///
    /// Fails as [`Pipe::new`] does; the field of the error begins with the direction.
    pub fn new(
        forward: &PipeConfig,
        reverse: &PipeConfig,
        seed: u64,
    ) -> Result<Self, ParameterError> {
        let pipe = |config, direction: Direction, name| {
            Pipe::new(config, child_seed(seed, direction.index() as u64))
                .map_err(|error| error.within(name))
        };
        Ok(Self {
            pipes: [
                pipe(forward, Direction::Forward, "forward")?,
                pipe(reverse, Direction::Reverse, "reverse")?,
            ],
        })
    }

    /// The pipe of one direction.
    pub const fn pipe(&self, direction: Direction) -> &Pipe {
        &self.pipes[direction.index()]
    }
}

impl Link for Duplex {
    fn send(&mut self, direction: Direction, packet: Packet, now: Time) {
        self.pipes[direction.index()].send(packet, now);
    }

    fn next_event(&self) -> Option<Time> {
        self.pipes.iter().filter_map(Pipe::next_event).min()
    }

    fn arrival(&mut self, now: Time) -> Option<Arrival> {
        // One event after the other, so that arrivals of both directions come in order of time.
        loop {
            let next = |direction| Some((self.pipe(direction).next_event()?, direction));
            let events = Direction::ALL.into_iter().filter_map(next);
            let (event, direction) = events.min_by_key(|(event, _)| *event)?; // first of equals
            if event > now {
                return None;
            }
            if let Some((at, packet)) = self.pipes[direction.index()].arrival(event) {
                return Some(Arrival { at, direction, packet });
            }
        }
    }

    fn losses(&self, direction: Direction) -> Losses {
        self.pipe(direction).losses()
    }

    fn corrupted(&self, direction: Direction) -> u64 {
        self.pipe(direction).corrupted()
    }

    fn marked(&self, direction: Direction) -> u64 {
        self.pipe(direction).marked()
    }
}
