//! The rules of the verdicts. Each is a function of what was received, what was on the wire, and
//! how the programs ended.

mod ack_frequency;
mod both_ways;
mod conditions;
mod connection_ids;
mod connections;
mod datagrams;
pub mod defects;
mod ecn;
mod extensions;
mod features;
mod http3;
mod key_update;
mod measurements;
mod migration;
mod path_mtu;
mod retry;
mod timestamps;

use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use serde::Serialize;
use tack_emulator::relay::RelayReport;
use tack_tap::{Direction, TapCounters};

use crate::cases::{Conditions, Kind, MEASURED_TIMES};
use crate::contract::Role;
use crate::wire::{Announced, Disorder, Observation, Progress, Signals};

/// The result of a cell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "verdict", rename_all = "lowercase")]
pub enum Verdict {
    /// Everything is as it should be.
    Pass {
        /// Measurements, if there are any.
        note: Option<String>,
    },
    /// Everything is as it should be, and this was measured.
    Measured {
        /// The figure in short.
        figure: String,
        /// The figure with its unit.
        note: String,
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
    /// Something is not as it should be, and the wire shows a defect of the peer that is known.
    Defect {
        /// Which.
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
    /// It said that it does not know the test case, and exited with the code for that.
    Unsupported,
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
    /// Where the server listened.
    pub address: Option<SocketAddr>,
    /// The conditions of the link.
    pub conditions: Conditions,
    /// How many clients there were to be, one after the other.
    pub clients: usize,
    /// Packets that the link lost at random.
    pub lost: u64,
    /// Packets that a full queue of the link dropped.
    pub dropped: u64,
    /// Packets that the link lost because it was told to.
    pub swallowed: u64,
    /// Datagrams that the link delivered to the server with a bit flipped.
    pub corrupted_to_server: u64,
    /// Datagrams that the link delivered to the client with a bit flipped.
    pub corrupted_to_client: u64,
    /// The new data of another flow over the same link.
    pub cross_traffic: Vec<Progress>,
    /// What the link did to the order of datagrams.
    pub disorder: Disorder,
    /// How often clients got another address.
    pub rebindings: u64,
    /// Datagrams that the relay delivered late, because the machine was busy.
    pub late: u64,
    /// By how much the latest of them was late.
    pub worst_lateness: Duration,
    /// Bytes of all files.
    pub file_bytes: u64,
    /// Bytes of the files that the client fetches.
    pub fetched_bytes: u64,
    /// Of the link, without any queue.
    pub round_trip: Duration,
}

impl Evidence {
    /// Takes what the relay has counted.
    pub const fn note<O>(&mut self, report: &RelayReport<O>) {
        let (forward, reverse) = (&report.forward, &report.reverse);
        self.late = report.deadline_misses;
        self.worst_lateness = report.worst_lateness;
        self.lost = forward.losses.random + reverse.losses.random;
        self.dropped = forward.losses.queue + reverse.losses.queue;
        self.swallowed = forward.losses.prescribed + reverse.losses.prescribed;
        self.corrupted_to_client = forward.corrupted;
        self.corrupted_to_server = reverse.corrupted;
        self.rebindings = report.rebindings;
    }

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

    /// What the peer asked of our end.
    const fn peers_signals(&self) -> &Signals {
        match self.ours {
            Role::Client => &self.seen.asked_of_client,
            Role::Server => &self.seen.asked_of_server,
        }
    }

    /// What our end asked of the peer.
    const fn our_signals(&self) -> &Signals {
        self.seen.asked(self.to_peer())
    }

    /// The ids of the peer's transport parameters.
    fn peers_parameters(&self) -> impl Iterator<Item = u64> {
        let greetings = self.seen.greetings.iter();
        greetings.flat_map(|greeting| match self.ours {
            Role::Client => greeting.server_parameters.iter().copied(),
            Role::Server => greeting.client_parameters.iter().copied(),
        })
    }

    /// Bits per second of the files' bytes.
    fn goodput(&self) -> f64 {
        self.file_bytes as f64 * 8.0 / self.seen.data_seconds.max(1e-9)
    }

    /// How many for each packet of ours with data.
    fn for_each_data_packet(&self, count: u64) -> f64 {
        self.for_each_data_packet_of(count as f64)
    }

    fn for_each_data_packet_of(&self, count: f64) -> f64 {
        count / self.seen.counters(self.to_peer()).data_packets.max(1) as f64
    }
}

/// The verdict on the transfers of a test case that were made so far, of which there is one at
/// least; `None` if all is well and the next one is to be made, if there is one.
pub fn judge_so_far(kind: Kind, made: &[Evidence]) -> Option<Verdict> {
    let verdict = judge(kind, made.last()?);
    if !matches!(verdict, Verdict::Pass { .. }) {
        return Some(verdict);
    }
    match kind {
        Kind::AckFrequency => ack_frequency::judge_so_far(made),
        Kind::Tack => extensions::judge_tack_so_far(made),
        Kind::Goodput | Kind::CrossTraffic => {
            measurements::judge_so_far(kind, made, MEASURED_TIMES)
        }
        Kind::AckFrequencyReceived => extensions::judge_asked_so_far(made),
        _ => Some(verdict),
    }
}

/// The verdict on one transfer.
pub fn judge(kind: Kind, evidence: &Evidence) -> Verdict {
    if let Some(unsupported) = unsupported(evidence) {
        return unsupported;
    }
    if let Err(reason) = no_unannounced_frames(evidence) {
        return Verdict::Fail { reason };
    }
    if let Some(refused) = migration::refused(kind, evidence) {
        return refused;
    }
    let went_well = ended_well(evidence)
        .and_then(|()| files_arrived(evidence))
        .and_then(|()| wire_was_read(evidence))
        .and_then(|()| connections::as_expected(kind, evidence));
    if let Err(reason) = went_well {
        return Verdict::Fail { reason };
    }
    if let Some(verdict) = of_a_feature(kind, evidence) {
        return verdict;
    }
    match has_the_feature(kind, evidence).and_then(|()| conditions::were_met(kind, evidence)) {
        Ok(note) => Verdict::Pass { note },
        Err(reason) => Verdict::Fail { reason },
    }
}

/// The verdict on a transfer that went well, where the test case is about what an end may lack.
fn of_a_feature(kind: Kind, evidence: &Evidence) -> Option<Verdict> {
    match kind {
        Kind::KeyUpdate => Some(key_update::judge(evidence)),
        Kind::KeyUpdateByUs => Some(key_update::judge_ours(evidence)),
        Kind::Greased => Some(extensions::judge_greased(evidence)),
        Kind::ImmediateAck => Some(extensions::judge_immediate_ack(evidence)),
        Kind::Timestamps => Some(timestamps::judge(evidence)),
        Kind::Datagrams => Some(datagrams::judge(evidence)),
        Kind::Ecn => Some(ecn::judge(evidence)),
        _ => None,
    }
}

/// Whether the handshakes and packets were those that the test case is about.
fn has_the_feature(kind: Kind, evidence: &Evidence) -> Result<(), String> {
    let seen = &evidence.seen;
    match kind {
        Kind::Retry | Kind::RetryLongRtt | Kind::RetryLoss => retry::were_answered(seen),
        Kind::RetryResumption => {
            retry::were_answered(seen).and_then(|()| features::resumed(seen))
        }
        Kind::HelloRetry => features::hello_was_retried(seen),
        Kind::EmptyIds => connection_ids::have_length(evidence, 0),
        Kind::LongIds => connection_ids::have_length(evidence, 20),
        Kind::Http3 => http3::was_spoken(seen),
        Kind::ChaCha20 => features::only_chacha20(seen),
        Kind::Multiplexing => features::stream_limit_had_to_rise(evidence),
        Kind::Resumption => features::resumed(seen),
        Kind::ZeroRtt => features::asked_early(seen, evidence.files.len()),
        _ => Ok(()),
    }
}

const fn opposite(direction: Direction) -> Direction {
    match direction {
        Direction::ToServer => Direction::ToClient,
        Direction::ToClient => Direction::ToServer,
    }
}

/// An end that does not know the test case says so before it sends anything.
fn unsupported(evidence: &Evidence) -> Option<Verdict> {
    if !evidence.seen.connections.is_empty() {
        return None;
    }
    let ends = [(Role::Server, evidence.server), (Role::Client, evidence.client)];
    let (role, _) = ends.into_iter().find(|(_, end)| *end == Ending::Unsupported)?;
    let reason = format!("its {role} does not know the test case");
    Some(Verdict::Unsupported { by: evidence.side(role), reason })
}

/// An extension frame is sent only to an end that announced it: draft-ietf-quic-ack-frequency
/// section 3, and docs/protocol.md. The peer has to be read for that, unless nothing was sent.
fn no_unannounced_frames(evidence: &Evidence) -> Result<(), String> {
    let early: u64 =
        evidence.seen.greetings.iter().map(|greeting| greeting.early.extension_frames).sum();
    if early > 0 && evidence.ours == Role::Client {
        return Err(format!("our end sent {early} extension frames in 0-RTT packets"));
    }
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
    let refused = || "does not know the test case, but made a connection".to_owned();
    match evidence.server {
        Ending::Running => {}
        Ending::TimedOut => return say(Role::Server, "did not get ready in time".to_owned()),
        Ending::Unsupported => return say(Role::Server, refused()),
        // A server runs until the runner ends it.
        Ending::Exited(Some(0)) => {
            return say(Role::Server, "ended by itself with exit code 0".to_owned());
        }
        Ending::Exited(code) => return say(Role::Server, exited(code)),
    }
    match evidence.client {
        Ending::Exited(Some(0)) => Ok(()),
        Ending::Unsupported => say(Role::Client, refused()),
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
        // an end answers a packet with a corrupted connection id with one.
        let unopened = evidence.seen.counters(direction).undecryptable;
        let unopened = unopened + evidence.seen.strays(direction);
        if unopened > evidence.corrupted_from(direction) {
            return Err(format!("{unopened} packets of the {sender} could not be opened"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
