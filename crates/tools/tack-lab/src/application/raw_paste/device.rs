//! The end that runs the commands.

use std::time::Duration;

use tack_link::Time;

use super::{AFTER, BEFORE, DONE, END, ENTER, MORE, SUPPORTED, letter, violation};
use crate::application::{Application, ApplicationError, ByteStream, Inbox, Outbox};

/// The most that is read at once.
const BUFFER: usize = 64 << 10;

/// The longest command that a device holds, bytes.
const LONGEST_COMMAND: usize = 1 << 20;

/// What a device is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interpreter {
    /// Bytes that a host may send before the first `\x01`, and for each; two of them are granted at first.
    pub window: u16,
    /// What a command takes to run.
    pub per_command: Duration,
    /// What each byte of a chunk adds to that.
    pub per_byte: Duration,
}

/// A device.
#[derive(Debug)]
pub struct Device {
    interpreter: Interpreter,
    state: State,
    /// What the host may still send of the command.
    credit: usize,
    /// Received since the last window was added.
    unanswered: usize,
    command: Vec<u8>,
    written: usize,
    commands: u32,
    inbox: Inbox,
    outbox: Outbox,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Prompt,
    Pasting,
    Running { until: Time },
}

impl Device {
    /// A device with an empty file.
    pub fn new(interpreter: Interpreter) -> Self {
        let window = interpreter.window.max(1);
        Self {
            interpreter: Interpreter { window, ..interpreter },
            state: State::Prompt,
            credit: 0,
            unanswered: 0,
            command: Vec::new(),
            written: 0,
            commands: 0,
            inbox: Inbox::new(BUFFER),
            outbox: Outbox::default(),
        }
    }

    /// Bytes of the file.
    pub const fn written(&self) -> usize {
        self.written
    }

    /// Commands that were run.
    pub const fn commands(&self) -> u32 {
        self.commands
    }

    /// Does what the next bytes ask for; false if more of them are needed, or time.
    fn step(&mut self, now: Time) -> Result<bool, ApplicationError> {
        match self.state {
            State::Prompt => {
                let Some(asked) = self.inbox.take(ENTER.len()) else { return Ok(false) };
                if asked != ENTER {
                    return Err(violation(format!("{asked:?} at the prompt")));
                }
                self.outbox.push(SUPPORTED);
                self.outbox.push(&self.interpreter.window.to_le_bytes());
                self.outbox.push(&[MORE]);
                self.credit = 2 * usize::from(self.interpreter.window);
                self.unanswered = 0;
                self.state = State::Pasting;
            }
            State::Pasting => return self.paste(now),
            State::Running { until } if until <= now => {
                self.outbox.push(DONE);
                self.state = State::Prompt;
            }
            State::Running { .. } => return Ok(false),
        }
        Ok(true)
    }

    fn paste(&mut self, now: Time) -> Result<bool, ApplicationError> {
        let arrived = self.inbox.bytes();
        let end = arrived.iter().position(|byte| *byte == END);
        let len = end.unwrap_or(arrived.len());
        if len > self.credit || self.command.len() + len > LONGEST_COMMAND {
            let credit = self.credit;
            return Err(violation(format!("{len} bytes, of which {credit} were allowed")));
        }
        let Some(part) = self.inbox.take(len) else { return Ok(false) };
        self.command.extend_from_slice(part);
        self.credit -= len;
        self.unanswered += len;
        if end.is_some() {
            self.inbox.take(1);
            self.outbox.push(&[END]);
            self.run(now)?;
            return Ok(true);
        }
        let window = usize::from(self.interpreter.window);
        while self.unanswered >= window {
            self.unanswered -= window;
            self.credit += window;
            self.outbox.push(&[MORE]);
        }
        Ok(false)
    }

    fn run(&mut self, now: Time) -> Result<(), ApplicationError> {
        let command = std::mem::take(&mut self.command);
        let chunk = command.strip_prefix(BEFORE).and_then(|rest| rest.strip_suffix(AFTER));
        let Some(chunk) = chunk else {
            return Err(violation("a command that does not write".to_owned()));
        };
        if !chunk.iter().zip(self.written..).all(|(byte, at)| *byte == letter(at)) {
            let at = self.written;
            return Err(violation(format!("other bytes than the file's, from {at} on")));
        }
        self.written += chunk.len();
        self.commands += 1;
        let Interpreter { per_command, per_byte, .. } = self.interpreter;
        let bytes = u32::try_from(chunk.len()).unwrap_or(u32::MAX);
        self.state = State::Running { until: now + per_command + per_byte * bytes };
        Ok(())
    }
}

impl Application for Device {
    fn turn(&mut self, stream: &mut dyn ByteStream, now: Time) -> Result<(), ApplicationError> {
        loop {
            let arrived = self.inbox.fill(stream);
            while self.step(now)? {}
            if arrived == 0 {
                break;
            }
        }
        self.outbox.flush(stream);
        Ok(())
    }

    fn next_event(&self) -> Option<Time> {
        match self.state {
            State::Running { until } => Some(until),
            State::Prompt | State::Pasting => None,
        }
    }

    fn is_finished(&self) -> bool {
        self.state == State::Prompt && self.commands > 0
    }
}
