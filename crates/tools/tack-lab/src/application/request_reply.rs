//! Requests in two parts, and a reply to each: the pattern that Nagle's algorithm and delayed ACKs make
//! slow together.
//!
//! The client writes a header and a body, the server answers when it has both, and the client waits for
//! a while before the next request.

use std::fmt;
use std::time::Duration;

use tack_link::Time;

use super::{Application, ApplicationError, ByteStream, Inbox, Outbox};

/// What is exchanged, and how often.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Requests {
    /// Bytes of a header.
    pub header: usize,
    /// Bytes of a body; 0 for requests in one part.
    pub body: usize,
    /// Bytes of a reply.
    pub reply: usize,
    /// Whether the server answers at all.
    pub replies: bool,
    /// Whether header and body are written in one call, as by `writev`.
    pub gathered: bool,
    /// How many requests.
    pub rounds: u32,
    /// How long the client waits behind a reply.
    pub pause: Duration,
}

impl Requests {
    /// Two parts of 512 bytes and a reply of 1448, six times, a second apart.
    pub const DEFAULT: Self = Self {
        header: 512,
        body: 512,
        reply: 1448,
        replies: true,
        gathered: false,
        rounds: 6,
        pause: Duration::from_secs(1),
    };
}

/// A request that has been answered, or, where there are no replies, written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Round {
    /// When its header was written.
    pub began: Time,
    /// From there to the last byte of the reply.
    pub took: Duration,
}

/// What the client did, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Since the client began.
    pub at: Duration,
    /// Since the step before.
    pub since_last: Duration,
    /// What it did.
    pub what: &'static str,
}

/// Seconds from the start and from the step before, and what was done.
impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (at, since) = (self.at.as_secs_f64(), self.since_last.as_secs_f64());
        write!(f, "{at:.6} {since:.6} client: {}", self.what)
    }
}

/// The most that is read at once.
const BUFFER: usize = 64 << 10;

/// The end that asks.
#[derive(Debug)]
pub struct Client {
    requests: Requests,
    state: State,
    outbox: Outbox,
    inbox: Inbox,
    rounds: Vec<Round>,
    began: Option<Time>,
    steps: Vec<Step>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The stream is not open.
    Connecting,
    Pausing {
        until: Time,
    },
    /// The header has been handed over; the body comes with the next turn, so that a stack can
    /// send the header before it, as it can between two calls of an application.
    Body {
        began: Time,
        due: Time,
    },
    Reading {
        began: Time,
        left: usize,
    },
    Finished,
}

impl Client {
    /// A client that begins as soon as the stream is open.
    pub fn new(requests: Requests) -> Self {
        Self {
            requests,
            state: State::Connecting,
            outbox: Outbox::default(),
            inbox: Inbox::new(BUFFER),
            rounds: Vec::new(),
            began: None,
            steps: Vec::new(),
        }
    }

    /// The requests that are over.
    pub fn rounds(&self) -> &[Round] {
        &self.rounds
    }

    /// What it did.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    fn note(&mut self, what: &'static str, now: Time) {
        let at = now.since(*self.began.get_or_insert(now));
        let last = self.steps.last().map_or(Duration::ZERO, |step| step.at);
        self.steps.push(Step { at, since_last: at.saturating_sub(last), what });
    }

    /// One step, if it can be made now.
    fn step(&mut self, stream: &mut dyn ByteStream, now: Time) -> bool {
        match self.state {
            State::Connecting if stream.is_open() => self.state = State::Pausing { until: now },
            State::Pausing { until } if until <= now => self.begin(stream, now),
            State::Body { began, due } if due <= now => {
                self.note("will write body", now);
                self.outbox.push(&vec![b'B'; self.requests.body]);
                self.outbox.flush(stream);
                self.note("wrote body", now);
                self.on_written(began, now);
            }
            State::Reading { began, left } => {
                let arrived = self.inbox.fill(stream).min(left);
                self.inbox.take(arrived);
                if arrived < left {
                    self.state = State::Reading { began, left: left - arrived };
                    return false;
                }
                self.note("got reply", now);
                self.on_round(began, now);
            }
            _ => return false,
        }
        true
    }

    fn begin(&mut self, stream: &mut dyn ByteStream, now: Time) {
        if self.rounds.len() >= self.requests.rounds as usize {
            self.state = State::Finished;
            return;
        }
        let Requests { header, body, gathered, .. } = self.requests;
        self.note(
            if gathered { "will write header and body" } else { "will write header" },
            now,
        );
        self.outbox.push(&vec![b'H'; header]);
        if gathered {
            self.outbox.push(&vec![b'B'; body]);
        }
        self.outbox.flush(stream);
        self.note(if gathered { "wrote header and body" } else { "wrote header" }, now);
        if gathered || body == 0 {
            self.on_written(now, now);
        } else {
            self.state = State::Body { began: now, due: now };
        }
    }

    fn on_written(&mut self, began: Time, now: Time) {
        if self.requests.replies {
            self.note("will read reply", now);
            self.state = State::Reading { began, left: self.requests.reply };
        } else {
            self.on_round(began, now);
        }
    }

    fn on_round(&mut self, began: Time, now: Time) {
        self.rounds.push(Round { began, took: now.since(began) });
        // Where nothing comes back the last request has its time to arrive, too.
        let is_last = self.rounds.len() >= self.requests.rounds as usize;
        self.state = if is_last && self.requests.replies {
            State::Finished
        } else {
            State::Pausing { until: now + self.requests.pause }
        };
    }
}

impl Application for Client {
    fn turn(&mut self, stream: &mut dyn ByteStream, now: Time) -> Result<(), ApplicationError> {
        if !self.outbox.flush(stream) {
            return Ok(());
        }
        while self.step(stream, now) {
            if matches!(self.state, State::Body { .. }) {
                break;
            }
        }
        Ok(())
    }

    fn next_event(&self) -> Option<Time> {
        match self.state {
            State::Pausing { until } => Some(until),
            State::Body { due, .. } => Some(due),
            State::Connecting | State::Reading { .. } | State::Finished => None,
        }
    }

    fn is_finished(&self) -> bool {
        self.state == State::Finished
    }
}

/// The end that answers.
#[derive(Debug)]
pub struct Server {
    requests: Requests,
    inbox: Inbox,
    outbox: Outbox,
    /// Of the request that is arriving.
    arrived: usize,
    answered: u32,
}

impl Server {
    /// A server that expects these requests.
    pub fn new(requests: Requests) -> Self {
        let (inbox, outbox) = (Inbox::new(BUFFER), Outbox::default());
        Self { requests, inbox, outbox, arrived: 0, answered: 0 }
    }

    /// Requests that have come whole.
    pub const fn requests(&self) -> u32 {
        self.answered
    }
}

impl Application for Server {
    fn turn(
        &mut self,
        stream: &mut dyn ByteStream,
        _now: Time,
    ) -> Result<(), ApplicationError> {
        let request = (self.requests.header + self.requests.body).max(1);
        loop {
            let arrived = self.inbox.fill(stream);
            self.inbox.take(arrived);
            self.arrived += arrived;
            while self.arrived >= request {
                self.arrived -= request;
                self.answered += 1;
                if self.requests.replies {
                    self.outbox.push(&vec![b'R'; self.requests.reply]);
                }
            }
            if arrived == 0 {
                break;
            }
        }
        self.outbox.flush(stream);
        Ok(())
    }

    fn next_event(&self) -> Option<Time> {
        None
    }

    fn is_finished(&self) -> bool {
        self.answered >= self.requests.rounds
    }
}

#[cfg(test)]
mod tests {
    use super::super::cable::Cable;
    use super::*;

    const CABLE: Cable = Cable { bytes_per_second: 1e6, delay: Duration::from_millis(5) };

    fn run(requests: Requests) -> (Client, Server) {
        let (mut client, mut server) = (Client::new(requests), Server::new(requests));
        CABLE.run(&mut client, &mut server, Duration::from_secs(60)).unwrap();
        (client, server)
    }

    #[test]
    fn a_reply_takes_a_round_trip_and_its_bytes() {
        let (client, server) = run(Requests::DEFAULT);
        assert_eq!((client.rounds().len(), server.requests()), (6, 6));
        for round in client.rounds() {
            // 2472 bytes at a byte a microsecond, and 10 ms.
            assert_eq!(round.took, Duration::from_micros(12_472));
        }
        let apart = client.rounds()[1].began.since(client.rounds()[0].began);
        assert_eq!(apart, Duration::from_micros(1_012_472));
    }

    #[test]
    fn the_log_names_each_call_and_the_time_before_it() {
        let (client, _) = run(Requests { rounds: 1, ..Requests::DEFAULT });
        let log: Vec<_> = client.steps().iter().map(ToString::to_string).collect();
        assert_eq!(log[0], "0.000000 0.000000 client: will write header");
        assert_eq!(log[4], "0.000000 0.000000 client: will read reply");
        assert_eq!(log[5], "0.012472 0.012472 client: got reply");
        let (gathered, _) = run(Requests { rounds: 1, gathered: true, ..Requests::DEFAULT });
        assert_eq!(gathered.steps()[1].what, "wrote header and body");
    }

    #[test]
    fn requests_without_replies_arrive_all_the_same() {
        let (client, server) = run(Requests { replies: false, ..Requests::DEFAULT });
        assert_eq!((client.rounds().len(), server.requests()), (6, 6));
        assert!(client.steps().iter().all(|step| !step.what.contains("reply")));
    }
}
