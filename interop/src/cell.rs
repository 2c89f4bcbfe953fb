//! One cell of the matrix: our end and a peer, with the relay between them.

mod cross_traffic;
mod transfer;

use std::fs;
use std::path::Path;
use std::time::Instant;

use clap::ValueEnum;
use serde::Serialize;

use crate::cases::{Case, Kind};
use crate::cli::OwnKind;
use crate::contract::{Protocol, Role};
use crate::error::Error;
use crate::own;
use crate::peers::{Peer, Places, Program};
use crate::process::Identity;
use crate::verdict::{Evidence, Side, Verdict, defects, judge_so_far};
use crate::wire::Observation;

/// What is to be run.
#[derive(Clone, Copy, Debug)]
pub struct Cell {
    /// The other end.
    pub peer: &'static Peer,
    /// What it plays.
    pub role: Role,
    /// The test case.
    pub case: &'static Case,
}

/// What came of it.
#[derive(Clone, Debug, Serialize)]
pub struct CellReport {
    /// The peer's name.
    pub peer: &'static str,
    /// What the peer played.
    pub role: Role,
    /// The name of the test case.
    pub test: &'static str,
    /// What came of it.
    #[serde(flatten)]
    pub verdict: Verdict,
    /// How long it took.
    pub seconds: f64,
    /// What was on the wire, by the name of our end: with TACK, or `quiche` without.
    pub wire: Vec<(&'static str, Observation)>,
    /// Where logs and traces were kept.
    pub kept: Option<String>,
}

impl Cell {
    /// What the directory of a cell is called.
    pub fn name(&self) -> String {
        format!("{}-{}-{}", self.peer.name, self.role, self.case.name)
    }

    /// What is spoken: what the test case is about, or else what the peer likes best. `None` if
    /// the peer does not speak it.
    fn protocol(&self) -> Option<Protocol> {
        let spoken = self.peer.protocols;
        match self.case.protocol() {
            Some(protocol) => spoken.contains(&protocol).then_some(protocol),
            None => spoken.first().copied(),
        }
    }

    /// Runs the cell in `run`, the directory of the whole run. What it wrote is kept if it failed,
    /// or if `keep` says so.
    ///
    /// Fails only if this machine does; whatever the ends do is a verdict.
    pub fn run(
        &self,
        places: &Places,
        run: &Path,
        identity: &Identity,
        keep: bool,
    ) -> Result<CellReport, Error> {
        let start = Instant::now();
        let directory = run.join(self.name());
        let mut wire = Vec::new();
        let verdict = match (self.peer.program(places), self.protocol()) {
            (Err(reason), _) => Verdict::Unavailable { reason },
            _ if let Some(lacking) = self.lacking() => lacking,
            (Ok(_), None) => {
                let reason = "its program does not speak what the test case needs".to_owned();
                Verdict::Unsupported { by: Side::Peer, reason }
            }
            (Ok(peer), Some(protocol)) => {
                let judged =
                    |draw| self.judged(places, &peer, protocol, draw, &directory, identity);
                let mut attempt = judged(0)?;
                if self.case.wants_quiet() && attempt.was_disturbed() {
                    attempt = judged(0)?.after(attempt);
                }
                for draw in 1..self.case.draws() {
                    if !attempt.gave_up() {
                        break;
                    }
                    attempt = judged(draw)?.after(attempt);
                }
                wire = attempt.wire;
                attempt.verdict
            }
        };
        let keep = keep || matches!(verdict, Verdict::Fail { .. } | Verdict::Defect { .. });
        if !keep && directory.exists() {
            fs::remove_dir_all(&directory).map_err(Error::file(&directory))?;
        }
        Ok(CellReport {
            peer: self.peer.name,
            role: self.role,
            test: self.case.name,
            verdict,
            seconds: start.elapsed().as_secs_f64(),
            wire,
            kept: directory.exists().then(|| directory.display().to_string()),
        })
    }

    fn judged(
        &self,
        places: &Places,
        peer: &Program,
        protocol: Protocol,
        draw: u64,
        directory: &Path,
        identity: &Identity,
    ) -> Result<Attempt, Error> {
        let (mut made, mut wire) = (Vec::new(), Vec::new());
        let transfers = self.case.transfers();
        for (at, ours) in transfers.iter().enumerate() {
            let name = ours.name();
            let arguments = vec!["peer".into(), name.into()];
            let program = Program { file: places.own.clone(), arguments };
            let is_again = transfers[..at].contains(ours);
            let place = if is_again { format!("{name}-{}", at + 1) } else { name.to_owned() };
            let directory = directory.join(place);
            let evidence =
                self.transfer(&program, peer, protocol, draw, &directory, identity)?;
            wire.push((name, evidence.seen.clone()));
            made.push(evidence.clone());
            if let Some(verdict) = judge_so_far(self.case.kind, &made) {
                let verdict = defects::explain(self.peer.name, verdict, &evidence);
                return Ok(Attempt::new(verdict, wire, &made));
            }
        }
        let reason = "the transfers say nothing".to_owned();
        Ok(Attempt::new(Verdict::Fail { reason }, wire, &made))
    }

    /// What one of this project's own ends cannot do in this cell, if it is known beforehand.
    fn lacking(&self) -> Option<Verdict> {
        let test = self.case.name;
        let peer = OwnKind::from_str(self.peer.name, false).ok();
        let ours = own::lacks(OwnKind::Tack, test, self.role.other());
        let peers = || own::lacks(peer?, test, self.role);
        let (by, reason) = match ours {
            Some(reason) => (Side::Ours, reason),
            None if self.case.kind == Kind::KeyUpdate && peer.is_some() => {
                (Side::Ours, "quiche follows key updates and begins none")
            }
            None => (Side::Peer, peers()?),
        };
        Some(Verdict::Unsupported { by, reason: reason.to_owned() })
    }
}

/// What came of the transfers of a cell.
struct Attempt {
    verdict: Verdict,
    wire: Vec<(&'static str, Observation)>,
    /// Datagrams that the relay delivered late, because the machine was busy.
    late: u64,
    /// What was wrong at most: see [`Evidence::gave_up`].
    waited_in_vain: bool,
}

impl Attempt {
    fn new(
        verdict: Verdict,
        wire: Vec<(&'static str, Observation)>,
        made: &[Evidence],
    ) -> Self {
        Self {
            verdict,
            wire,
            late: made.iter().map(|evidence| evidence.late).sum(),
            waited_in_vain: made.last().is_some_and(Evidence::gave_up),
        }
    }

    /// Whether it failed because somebody waited in vain, and for nothing else.
    fn gave_up(&self) -> bool {
        self.waited_in_vain && matches!(self.verdict, Verdict::Fail { .. })
    }

    /// Whether it failed while the machine was busy with other things.
    fn was_disturbed(&self) -> bool {
        self.late > 0 && matches!(self.verdict, Verdict::Fail { .. })
    }

    /// A later attempt, which does not hide the one before.
    fn after(self, first: Self) -> Self {
        let verdict = match (self.verdict, first.verdict) {
            (Verdict::Pass { note }, Verdict::Fail { reason }) => {
                let note = note.map(|note| format!("{note}; ")).unwrap_or_default();
                Verdict::Pass {
                    note: Some(format!("{note}at another attempt, the first: {reason}")),
                }
            }
            (Verdict::Fail { reason }, Verdict::Fail { reason: before }) => {
                Verdict::Fail { reason: format!("{before}; and again: {reason}") }
            }
            (verdict, _) => verdict,
        };
        Self { verdict, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attempt(verdict: Verdict, late: u64) -> Attempt {
        Attempt { verdict, wire: Vec::new(), late, waited_in_vain: late > 1 }
    }

    fn failed(reason: &str) -> Verdict {
        Verdict::Fail { reason: reason.to_owned() }
    }

    #[test]
    fn only_a_failure_on_a_busy_machine_was_disturbed() {
        assert!(attempt(failed("slow"), 1).was_disturbed());
        assert!(!attempt(failed("slow"), 0).was_disturbed());
        assert!(!attempt(Verdict::Pass { note: None }, 1).was_disturbed());
    }

    #[test]
    fn a_failure_is_a_giving_up_only_if_nothing_else_was_wrong() {
        assert!(attempt(failed("a file is missing"), 2).gave_up());
        assert!(!attempt(failed("a file is another"), 0).gave_up());
        assert!(!attempt(Verdict::Defect { reason: String::new() }, 2).gave_up());
    }

    #[test]
    fn another_attempt_tells_of_the_first() {
        let passed = attempt(Verdict::Pass { note: Some("fast".into()) }, 0);
        let verdict = passed.after(attempt(failed("slow"), 1)).verdict;
        let note = "fast; at another attempt, the first: slow".to_owned();
        assert_eq!(verdict, Verdict::Pass { note: Some(note) });
        let verdict = attempt(failed("slower"), 0).after(attempt(failed("slow"), 1)).verdict;
        assert_eq!(verdict, failed("slow; and again: slower"));
    }
}
