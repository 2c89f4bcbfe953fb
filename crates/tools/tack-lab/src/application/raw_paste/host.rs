//! The end that uploads a file.

use std::time::Duration;

use tack_link::Time;

use super::drain::DrainPolicy;
use super::{AFTER, BEFORE, DONE, END, ENTER, MORE, SUPPORTED, letter, violation};
use crate::application::{Application, ApplicationError, ByteStream, Inbox, Outbox};

/// The most that is read at once: more than a device has to say.
const BUFFER: usize = 4 << 10;

/// What is uploaded, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Upload {
    /// Length of the file, 1 at least.
    pub bytes: usize,
    /// Bytes of the file in one command.
    pub chunk: usize,
    /// The most bytes of one write.
    pub write: usize,
    /// When a write waits until it is acknowledged.
    pub drain: DrainPolicy,
    /// How often a writer looks whether its wait is over; zero: it is told.
    pub poll: Duration,
}

/// A host.
#[derive(Debug)]
pub struct Host {
    upload: Upload,
    state: State,
    /// Of the file.
    sent: usize,
    command: Vec<u8>,
    /// Of the command.
    pasted: usize,
    window: usize,
    credit: usize,
    drain: Drain,
    began: Option<Time>,
    ended: Option<Time>,
    writes: u32,
    inbox: Inbox,
    outbox: Outbox,
}

/// The wait for acknowledgements.
#[derive(Clone, Copy, Debug, Default)]
struct Drain {
    /// When the writer looks next, if it waits.
    waits_until: Option<Time>,
    bytes: usize,
    last: Time,
    count: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Connecting,
    Prompt,
    Entering,
    Pasting,
    /// The command has been ended.
    Confirming,
    Running,
    Finished,
}

impl Host {
    /// A host that begins as soon as there is a connection.
    pub fn new(upload: Upload) -> Self {
        let Upload { bytes, chunk, write, .. } = upload;
        let upload =
            Upload { bytes: bytes.max(1), chunk: chunk.max(1), write: write.max(1), ..upload };
        Self {
            upload,
            state: State::Connecting,
            sent: 0,
            command: Vec::new(),
            pasted: 0,
            window: 0,
            credit: 0,
            drain: Drain::default(),
            began: None,
            ended: None,
            writes: 0,
            inbox: Inbox::new(BUFFER),
            outbox: Outbox::default(),
        }
    }

    /// From the first write to the last prompt; `None` before that.
    pub fn took(&self) -> Option<Duration> {
        Some(self.ended?.since(self.began?))
    }

    /// How often it waited until all was acknowledged.
    pub const fn drains(&self) -> u32 {
        self.drain.count
    }

    /// How often it wrote.
    pub const fn writes(&self) -> u32 {
        self.writes
    }

    /// Hands bytes over, and waits for them where the policy says so, or `force` does.
    fn write(&mut self, bytes: &[u8], force: bool, now: Time) {
        self.began.get_or_insert(now);
        self.outbox.push(bytes);
        self.writes += 1;
        self.drain.bytes += bytes.len();
        if force || self.upload.drain.is_due(self.drain.bytes, self.drain.last, now) {
            self.drain.waits_until = Some(now);
            self.drain.count += 1;
        }
    }

    /// Whether the writer still waits.
    fn waits(
        &mut self,
        stream: &mut dyn ByteStream,
        now: Time,
    ) -> Result<bool, ApplicationError> {
        let Some(at) = self.drain.waits_until else { return Ok(false) };
        if at > now {
            return Ok(true);
        }
        if stream.is_drained().ok_or(ApplicationError::DrainUnknown)? {
            self.drain = Drain { waits_until: None, bytes: 0, last: now, ..self.drain };
            return Ok(false);
        }
        if !self.upload.poll.is_zero() {
            self.drain.waits_until = Some(next_tick(self.upload.poll, now));
        }
        Ok(true)
    }

    /// Takes the next step; false while it has to wait.
    fn step(&mut self, now: Time) -> Result<bool, ApplicationError> {
        match self.state {
            State::Connecting | State::Finished => return Ok(false),
            State::Prompt => {
                let end = self.upload.bytes.min(self.sent + self.upload.chunk);
                self.command = BEFORE.to_vec();
                self.command.extend((self.sent..end).map(letter));
                self.command.extend_from_slice(AFTER);
                (self.sent, self.pasted) = (end, 0);
                self.write(ENTER, false, now);
                self.state = State::Entering;
            }
            State::Entering => {
                let Some(answer) = self.inbox.take(SUPPORTED.len() + 2) else {
                    return Ok(false);
                };
                let (supported, window) = answer.split_at(SUPPORTED.len());
                if supported != SUPPORTED {
                    return Err(violation(format!("{answer:?} for a window")));
                }
                let window =
                    window.iter().rev().fold(0, |all, byte| all << 8 | usize::from(*byte));
                (self.window, self.credit) = (window, window);
                self.state = State::Pasting;
            }
            State::Pasting => return self.paste(now),
            State::Confirming => match self.inbox.take(1) {
                None => return Ok(false),
                // A window that was added behind the last byte.
                Some([MORE]) => {}
                Some([END]) => self.state = State::Running,
                Some(other) => return Err(violation(format!("{other:?} for a command"))),
            },
            State::Running => {
                let Some(answer) = self.inbox.take(DONE.len()) else { return Ok(false) };
                if answer != DONE {
                    return Err(violation(format!("a command failed: {answer:?}")));
                }
                self.state = if self.sent < self.upload.bytes {
                    State::Prompt
                } else {
                    self.ended = Some(now);
                    State::Finished
                };
            }
        }
        Ok(true)
    }

    fn paste(&mut self, now: Time) -> Result<bool, ApplicationError> {
        while let Some(answer) = self.inbox.take(1) {
            if answer != [MORE] {
                return Err(violation(format!("{answer:?} within a command")));
            }
            self.credit += self.window;
        }
        let left = self.command.len() - self.pasted;
        if left == 0 {
            let force = self.upload.drain != DrainPolicy::AtEnd;
            self.write(&[END], force, now);
            self.state = State::Confirming;
            return Ok(true);
        }
        let len = left.min(self.credit).min(self.upload.write);
        if len == 0 {
            return Ok(false);
        }
        let part = self.command[self.pasted..self.pasted + len].to_vec();
        self.pasted += len;
        self.credit -= len;
        self.write(&part, false, now);
        Ok(true)
    }
}

/// The next moment at which a clock of that interval ticks.
fn next_tick(interval: Duration, now: Time) -> Time {
    let interval = interval.as_nanos().max(1) as u64;
    Time::from_nanos((now.as_nanos() / interval + 1) * interval)
}

impl Application for Host {
    fn turn(&mut self, stream: &mut dyn ByteStream, now: Time) -> Result<(), ApplicationError> {
        if self.state == State::Connecting {
            if !stream.is_open() {
                return Ok(());
            }
            self.drain.last = now;
            self.state = State::Prompt;
        }
        self.inbox.fill(stream);
        while self.outbox.flush(stream) && !self.waits(stream, now)? && self.step(now)? {}
        Ok(())
    }

    fn next_event(&self) -> Option<Time> {
        self.drain.waits_until.filter(|_| !self.upload.poll.is_zero())
    }

    fn is_finished(&self) -> bool {
        self.state == State::Finished
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Device, Interpreter};
    use super::*;
    use crate::application::cable::{Cable, CableError};

    /// Bytes take no time worth naming; there and back 10 ms.
    const CABLE: Cable = Cable { bytes_per_second: 1e9, delay: Duration::from_millis(5) };
    const ROUND_TRIP: f64 = 0.01;
    const INTERPRETER: Interpreter =
        Interpreter { window: 8192, per_command: Duration::ZERO, per_byte: Duration::ZERO };
    const UPLOAD: Upload = Upload {
        bytes: 10_240,
        chunk: 10_240,
        write: 256,
        drain: DrainPolicy::EachWrite,
        poll: Duration::ZERO,
    };

    fn upload(upload: Upload, interpreter: Interpreter) -> (Host, Device) {
        let (mut host, mut device) = (Host::new(upload), Device::new(interpreter));
        CABLE.run(&mut host, &mut device, Duration::from_secs(60)).unwrap();
        assert_eq!(device.written(), upload.bytes);
        (host, device)
    }

    fn round_trips(host: &Host) -> f64 {
        host.took().unwrap().as_secs_f64() / ROUND_TRIP
    }

    #[test]
    fn a_drain_after_each_write_costs_a_round_trip_each() {
        let (host, _) = upload(UPLOAD, INTERPRETER);
        // To enter, 41 writes and the end: 10,254 bytes in pieces of 256.
        assert_eq!((host.writes(), host.drains()), (43, 43));
        assert!((round_trips(&host) - 43.0).abs() < 0.1, "{}", round_trips(&host));
    }

    #[test]
    fn a_threshold_drains_a_few_times() {
        let (host, _) = upload(Upload { drain: DrainPolicy::THRESHOLD, ..UPLOAD }, INTERPRETER);
        assert_eq!((host.writes(), host.drains()), (43, 6));
        // One to enter, five within the command, and its end.
        assert!((round_trips(&host) - 7.0).abs() < 0.1, "{}", round_trips(&host));
        let (at_end, _) = upload(Upload { drain: DrainPolicy::AtEnd, ..UPLOAD }, INTERPRETER);
        assert!((round_trips(&at_end) - 2.0).abs() < 0.1, "{}", round_trips(&at_end));
    }

    #[test]
    fn a_writer_that_polls_waits_for_a_tick() {
        let poll = Duration::from_millis(16);
        let (host, _) = upload(Upload { poll, ..UPLOAD }, INTERPRETER);
        let (told, _) = upload(UPLOAD, INTERPRETER);
        let per_drain = host.took().unwrap().as_secs_f64() / f64::from(host.drains());
        assert!((0.0155..0.0165).contains(&per_drain), "{per_drain}");
        assert!(host.took() > told.took());
    }

    #[test]
    fn small_windows_cost_a_round_trip_for_each_two() {
        let small = Interpreter { window: 128, ..INTERPRETER };
        let (host, _) = upload(Upload { drain: DrainPolicy::AtEnd, ..UPLOAD }, small);
        // 10,254 bytes: 256 in flight at a time.
        let expected = 10_254.0 / 256.0 + 1.0;
        assert!((round_trips(&host) - expected).abs() < 1.5, "{}", round_trips(&host));
    }

    #[test]
    fn each_command_takes_its_time_and_two_round_trips() {
        let slow = Interpreter {
            per_command: Duration::from_millis(20),
            per_byte: Duration::from_micros(10),
            ..INTERPRETER
        };
        let chunked = Upload { chunk: 2048, drain: DrainPolicy::AtEnd, ..UPLOAD };
        let (host, device) = upload(chunked, slow);
        assert_eq!(device.commands(), 5);
        let expected = 5.0 * (2.0 * ROUND_TRIP + 0.02) + 10_240.0 * 10e-6;
        let took = host.took().unwrap().as_secs_f64();
        assert!((took - expected).abs() < 1e-3, "{took} {expected}");
    }

    #[test]
    fn a_host_that_sends_more_than_its_window_is_refused() {
        let mut host = Host::new(UPLOAD);
        let mut device = Device::new(Interpreter { window: 100, ..INTERPRETER });
        host.credit = 0;
        host.window = 0;
        // As if the device had announced more.
        host.state = State::Pasting;
        host.command = vec![b'x'; 1000];
        host.credit = 1000;
        host.outbox.push(ENTER);
        let error = CABLE.run(&mut host, &mut device, Duration::from_secs(1)).unwrap_err();
        assert!(matches!(error, CableError::Application(_)), "{error}");
    }
}
