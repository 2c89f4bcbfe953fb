//! What counts as passed. Every rule is a function of what was received, what was on the wire,
//! and how the programs ended.

mod http3;

use std::fmt;

use serde::Serialize;
use tack_tap::{Direction, TapCounters};

use crate::cases::Kind;
use crate::contract::{Role, UNSUPPORTED};
use crate::wire::{Announced, Observation};

/// The part of the ACK packets that ACK_FREQUENCY has to save.
const SAVED_ACKS: f64 = 0.8;
/// The part of the goodput that has to stay; two runs in real time are never quite equal.
const KEPT_GOODPUT: f64 = 0.9;

/// What came of a cell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "verdict", rename_all = "lowercase")]
pub enum Verdict {
    /// Everything is as it should be.
    Pass {
        /// What was measured, where something was.
        note: Option<String>,
    },
    /// Something is not.
    Fail {
        /// What, by the evidence.
        reason: String,
    },
    /// An end lacks what the test case is about.
    Unsupported {
        /// Which.
        by: Side,
        /// What it lacks.
        reason: String,
    },
    /// The peer could not be started.
    Unavailable {
        /// Why.
        reason: String,
    },
}

/// An end, from this project's point of view.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Side {
    /// This project's.
    Ours,
    /// The other one.
    Peer,
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ours => "our end",
            Self::Peer => "the peer",
        })
    }
}

/// How a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// It did not, and was ended when everything else was over.
    Running,
    /// It took too long.
    TimedOut,
    /// With this code; `None` after a signal.
    Exited(Option<i32>),
}

/// A file that was to be transferred.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transferred {
    /// Its name.
    pub name: String,
    /// Its digest.
    pub sent: blake3::Hash,
    /// The digest of what was received under its name.
    pub received: Option<blake3::Hash>,
}

/// What one transfer left behind.
#[derive(Clone, Debug)]
pub struct Evidence {
    /// What our end was.
    pub ours: Role,
    /// All files of the test case.
    pub files: Vec<Transferred>,
    /// How the client ended.
    pub client: Ending,
    /// How the server ended.
    pub server: Ending,
    /// What was on the wire.
    pub seen: Observation,
    /// Packets that the link lost at random.
    pub lost: u64,
    /// Datagrams that the link delivered to the server with a bit flipped.
    pub corrupted_to_server: u64,
    /// Datagrams that the link delivered to the client with a bit flipped.
    pub corrupted_to_client: u64,
    /// Datagrams that the relay delivered late, because the machine was busy.
    pub late: u64,
    /// Bytes of all files.
    pub file_bytes: u64,
}

impl Evidence {
    const fn side(&self, role: Role) -> Side {
        if matches!(
            (role, self.ours),
            (Role::Client, Role::Client) | (Role::Server, Role::Server)
        ) {
            Side::Ours
        } else {
            Side::Peer
        }
    }

    /// Datagrams that were corrupted on their way to the sender of what goes in that direction.
    const fn corrupted_from(&self, direction: Direction) -> u64 {
        match direction {
            Direction::ToServer => self.corrupted_to_client,
            Direction::ToClient => self.corrupted_to_server,
        }
    }

    /// The direction of what our end sends.
    const fn to_peer(&self) -> Direction {
        match self.ours {
            Role::Client => Direction::ToServer,
            Role::Server => Direction::ToClient,
        }
    }

    /// What the peer sent.
    const fn peers(&self) -> &TapCounters {
        match self.ours {
            Role::Client => &self.seen.to_client,
            Role::Server => &self.seen.to_server,
        }
    }

    /// Bits per second of the files' bytes.
    fn goodput(&self) -> f64 {
        self.file_bytes as f64 * 8.0 / self.seen.data_seconds.max(1e-9)
    }

    /// How many for each packet of ours with data.
    fn for_each_data_packet(&self, count: u64) -> f64 {
        let data = self.seen.counters(self.to_peer()).data_packets;
        count as f64 / data.max(1) as f64
    }
}

/// The verdict on a transfer.
pub fn judge(kind: Kind, evidence: &Evidence) -> Verdict {
    if let Some(unsupported) = unsupported(evidence) {
        return unsupported;
    }
    let checked = no_unannounced_frames(evidence)
        .and_then(|()| ended_well(evidence))
        .and_then(|()| files_arrived(evidence))
        .and_then(|()| wire_was_read(evidence))
        .and_then(|()| match kind {
            Kind::Retry => retried(&evidence.seen),
            Kind::Http3 => http3::was_spoken(&evidence.seen),
            Kind::Loss if evidence.lost == 0 => Err("the link lost nothing".to_owned()),
            _ => Ok(()),
        });
    match checked {
        Ok(()) => Verdict::Pass { note: None },
        Err(reason) => Verdict::Fail { reason },
    }
}

/// The verdict on the first of two transfers, with TACK at our end: `None` if the second has to be
/// made for the rest.
pub fn judge_asking(with: &Evidence) -> Option<Verdict> {
    let verdict = judge(Kind::AckFrequency, with);
    if !matches!(verdict, Verdict::Pass { .. }) {
        return Some(verdict);
    }
    let announced = with.seen.receiver(with.to_peer()).unwrap_or_default();
    let reason = "it announces no min_ack_delay".to_owned();
    (!announced.tack && announced.min_ack_delay_us.is_none())
        .then_some(Verdict::Unsupported { by: Side::Peer, reason })
}

/// The verdict on a transfer with TACK at our end that [`judge_asking`] had nothing to say of, and
/// one without.
pub fn judge_ack_frequency(with: &Evidence, without: &Evidence) -> Verdict {
    let verdict = judge(Kind::AckFrequency, without);
    if !matches!(verdict, Verdict::Pass { .. }) {
        return verdict;
    }
    let announced = with.seen.receiver(with.to_peer()).unwrap_or_default();
    if announced.tack {
        let tacks = with.peers().tacks;
        let note = saved_acks(with, without).to_string();
        return if tacks == 0 {
            Verdict::Fail { reason: format!("it announced TACK and sent none; {note}") }
        } else {
            Verdict::Pass { note: Some(note) }
        };
    }
    let sent = with.seen.counters(with.to_peer()).ack_frequency;
    let savings = saved_acks(with, without);
    if sent == 0 {
        Verdict::Fail { reason: "our end sent no ACK_FREQUENCY".to_owned() }
    } else if savings.saved < SAVED_ACKS {
        Verdict::Fail { reason: format!("too many ACK packets: {savings}") }
    } else if savings.goodput_with < KEPT_GOODPUT * savings.goodput_without {
        Verdict::Fail { reason: format!("slower than without: {savings}") }
    } else {
        Verdict::Pass { note: Some(savings.to_string()) }
    }
}

struct Savings {
    saved: f64,
    acks_with: f64,
    acks_without: f64,
    packets_with: f64,
    packets_without: f64,
    goodput_with: f64,
    goodput_without: f64,
    late: u64,
}

impl fmt::Display for Savings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:.0} instead of {:.0} ACK packets for 1000 data packets ({:+.1} %), {:.0} instead \
             of {:.0} with those for window updates, {:.1} instead of {:.1} Mbit/s",
            1000.0 * self.acks_with,
            1000.0 * self.acks_without,
            -100.0 * self.saved,
            1000.0 * self.packets_with,
            1000.0 * self.packets_without,
            self.goodput_with / 1e6,
            self.goodput_without / 1e6
        )?;
        if self.late > 0 {
            write!(f, "; the machine was busy: {} datagrams were delivered late", self.late)?;
        }
        Ok(())
    }
}

fn saved_acks(with: &Evidence, without: &Evidence) -> Savings {
    let acks =
        |evidence: &Evidence| evidence.for_each_data_packet(evidence.peers().ack_packets);
    let packets = |evidence: &Evidence| evidence.for_each_data_packet(evidence.peers().packets);
    let (acks_with, acks_without) = (acks(with), acks(without));
    Savings {
        saved: 1.0 - acks_with / acks_without.max(1e-9),
        acks_with,
        acks_without,
        packets_with: packets(with),
        packets_without: packets(without),
        goodput_with: with.goodput(),
        goodput_without: without.goodput(),
        late: with.late + without.late,
    }
}

fn unsupported(evidence: &Evidence) -> Option<Verdict> {
    let ends = [(Role::Server, evidence.server), (Role::Client, evidence.client)];
    let (role, _) =
        ends.into_iter().find(|(_, end)| *end == Ending::Exited(Some(UNSUPPORTED.into())))?;
    let reason = format!("its {role} does not know the test case");
    Some(Verdict::Unsupported { by: evidence.side(role), reason })
}

/// An extension frame is sent only to who announced it: draft-ietf-quic-ack-frequency section 3,
/// and docs/protocol.md. The peer has to be read for that, unless nothing was sent.
fn no_unannounced_frames(evidence: &Evidence) -> Result<(), String> {
    let to_peer = evidence.to_peer();
    evidence.seen.connections.iter().try_for_each(|connection| {
        announced_all(connection.counters(to_peer), connection.receiver(to_peer))
    })
}

fn announced_all(sent: &TapCounters, announced: Option<Announced>) -> Result<(), String> {
    let Announced { tack, min_ack_delay_us, timestamp } = announced.unwrap_or_default();
    let frequency = min_ack_delay_us.is_some();
    for (name, count, allowed) in [
        ("TACK", sent.tacks, tack),
        ("IACK", sent.iacks, tack),
        ("TIMESTAMP", sent.timestamps, tack || timestamp),
        ("ACK_FREQUENCY", sent.ack_frequency, frequency),
        ("IMMEDIATE_ACK", sent.immediate_acks, frequency),
        ("unreadable", sent.malformed, false),
    ] {
        if count > 0 && !allowed {
            let what = match announced {
                Some(_) => "which did not announce them",
                None => "whose transport parameters could not be read",
            };
            return Err(format!("our end sent {count} {name} frames to the peer, {what}"));
        }
    }
    Ok(())
}

fn ended_well(evidence: &Evidence) -> Result<(), String> {
    let say = |role, what: String| Err(format!("{}, the {role}, {what}", evidence.side(role)));
    match evidence.server {
        Ending::Running | Ending::Exited(Some(0)) => {}
        Ending::TimedOut => return say(Role::Server, "did not get ready in time".to_owned()),
        Ending::Exited(code) => return say(Role::Server, exited(code)),
    }
    match evidence.client {
        Ending::Exited(Some(0)) => Ok(()),
        Ending::Running | Ending::TimedOut => {
            say(Role::Client, "was not done in time".to_owned())
        }
        Ending::Exited(code) => say(Role::Client, exited(code)),
    }
}

fn exited(code: Option<i32>) -> String {
    code.map_or_else(
        || "was ended by a signal".to_owned(),
        |code| format!("failed with exit code {code}"),
    )
}

fn files_arrived(evidence: &Evidence) -> Result<(), String> {
    for Transferred { name, sent, received } in &evidence.files {
        match received {
            None => return Err(format!("{name} was not received")),
            Some(received) if received != sent => {
                return Err(format!("{name} was received with another digest"));
            }
            Some(_) => {}
        }
    }
    Ok(())
}

/// Without packets that could be opened, everything else that is said of them is worth nothing.
fn wire_was_read(evidence: &Evidence) -> Result<(), String> {
    if evidence.seen.connections.is_empty() {
        return Err("no connection was seen".to_owned());
    }
    for (sender, receiver, direction) in
        [("client", "server", Direction::ToServer), ("server", "client", Direction::ToClient)]
    {
        for connection in &evidence.seen.connections {
            if connection.counters(direction).packets == 0 {
                return Err(format!("no 1-RTT packet of the {sender} could be opened"));
            }
            if connection.receiver(direction).is_none() {
                return Err(format!("the {receiver}'s transport parameters could not be read"));
            }
        }
        // Stateless resets look like packets that do not open. There are none in a good run, but
        // who gets a packet with a corrupted connection id may well answer with one.
        let unopened = evidence.seen.counters(direction).undecryptable;
        let unopened = unopened + evidence.seen.strays(direction);
        if unopened > evidence.corrupted_from(direction) {
            return Err(format!("{unopened} packets of the {sender} could not be opened"));
        }
    }
    Ok(())
}

fn retried(seen: &Observation) -> Result<(), String> {
    if seen.retries == 0 {
        return Err("the server sent no Retry".to_owned());
    }
    if seen.initials_with_token == 0 {
        return Err("the client sent no Initial with a token".to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests;
