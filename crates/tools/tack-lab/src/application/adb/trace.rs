//! What passes between host and device, as the note writes it down.

use std::fmt;
use std::time::Duration;

use tack_link::Time;

use super::packet::{Command, Packet};

/// The most lines that are kept.
const LINES: usize = 24;

/// The first packets of a host.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    began: Option<Time>,
    lines: Vec<TraceLine>,
}

/// A packet, or that the host waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceLine {
    /// Since the first line.
    pub at: Duration,
    /// The host's available send bytes behind it; `None` without delayed ACK.
    pub available: Option<i64>,
    /// What happened.
    pub event: TraceEvent,
}

/// What a line is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TraceEvent {
    /// The host sent it.
    Sent(String),
    /// The host got it.
    Received(String),
    /// The host has data that it may not send.
    Waits,
}

impl Trace {
    /// The lines.
    pub fn lines(&self) -> &[TraceLine] {
        &self.lines
    }

    pub(super) fn sent(&mut self, packet: &Packet, available: Option<i64>, now: Time) {
        self.push(TraceEvent::Sent(describe(packet, available)), available, now);
    }

    pub(super) fn received(&mut self, packet: &Packet, available: Option<i64>, now: Time) {
        self.push(TraceEvent::Received(describe(packet, available)), available, now);
    }

    pub(super) fn waits(&mut self, available: Option<i64>, now: Time) {
        if self.lines.last().is_some_and(|line| line.event != TraceEvent::Waits) {
            self.push(TraceEvent::Waits, available, now);
        }
    }

    fn push(&mut self, event: TraceEvent, available: Option<i64>, now: Time) {
        let began = *self.began.get_or_insert(now);
        if self.lines.len() < LINES {
            self.lines.push(TraceLine { at: now.since(began), available, event });
        }
    }
}

fn describe(packet: &Packet, available: Option<i64>) -> String {
    let name = packet.command.name();
    let acknowledged = packet.acknowledged().ok().flatten();
    match (packet.command, acknowledged) {
        (Command::Open, _) if packet.arg1 > 0 => format!("{name}(arg1={})", size(packet.arg1)),
        (Command::Write, _) if available.is_some() => {
            format!("{name}(payload size={})", size(packet.payload.len() as u32))
        }
        (Command::Okay, Some(bytes)) => format!("{name}(<{}>)", size(bytes)),
        _ => name.to_owned(),
    }
}

/// A number of bytes, in the largest unit that it is a multiple of.
fn size(bytes: u32) -> String {
    match bytes {
        bytes if bytes > 0 && bytes.is_multiple_of(1 << 20) => format!("{}MiB", bytes >> 20),
        bytes if bytes > 0 && bytes.is_multiple_of(1 << 10) => format!("{}KiB", bytes >> 10),
        bytes => bytes.to_string(),
    }
}

impl fmt::Display for TraceLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let host = match self.available {
            Some(available) => format!("Host(ASB={available})"),
            None => "Host".to_owned(),
        };
        match &self.event {
            TraceEvent::Sent(what) => write!(f, "{host:<20}> {what:<26}> Device"),
            TraceEvent::Received(what) => write!(f, "{host:<20}< {what:<26}< Device"),
            TraceEvent::Waits => f.write_str("Nothing is sent before an A_OKAY."),
        }
    }
}
