//! One cell of the matrix: our end and a peer, with the relay between them.

mod cross_traffic;
mod transfer;

use std::fs;
use std::net::{IpAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::ValueEnum;
use serde::Serialize;

use crate::cases::Case;
use crate::contract::{Protocol, Role};
use crate::error::Error;
use crate::own;
use crate::own_kind::OwnKind;
use crate::peers::{Peer, Places, Program};
use crate::process::Identity;
use crate::verdict::{Side, Verdict, defects, judge_so_far};
use crate::wire::Observation;

/// A peer, its role, and a test case.
#[derive(Clone, Copy, Debug)]
pub struct Cell {
    /// The other end.
    pub peer: &'static Peer,
    /// Its role.
    pub role: Role,
    /// The test case.
    pub case: &'static Case,
}

/// The transfers of a cell, each with the name of our end's variant.
pub type Wire = Vec<(&'static str, Observation)>;

/// The report on a cell.
#[derive(Clone, Debug, Serialize)]
pub struct CellReport {
    /// The peer's name.
    pub peer: &'static str,
    /// The role of the peer.
    pub role: Role,
    /// The name of the test case.
    pub test: &'static str,
    /// The verdict.
    #[serde(flatten)]
    pub verdict: Verdict,
    /// How long it took.
    pub seconds: f64,
    /// What was on the wire in each transfer, with the name of our end's variant.
    pub wire: Wire,
    /// Where logs and traces were kept.
    pub kept: Option<String>,
}

impl Cell {
    /// The name of the cell's directory.
    pub fn name(&self) -> String {
        format!("{}-{}-{}", self.peer.name, self.role, self.case.name)
    }

    /// The application protocol: the one that the test case takes, or else the peer's first. `None`
    /// if the peer does not speak it.
    fn protocol(&self) -> Option<Protocol> {
        let spoken = self.peer.protocols;
        match self.case.protocol() {
            Some(protocol) => spoken.contains(&protocol).then_some(protocol),
            None => spoken.first().copied(),
        }
    }

    /// Runs the cell in `run`, the directory of the whole run. Its files are kept if it failed,
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
            _ if let Err(reason) = can_be_bound(self.case.conditions().host()) => {
                Verdict::Unavailable { reason }
            }
            (Ok(_), None) => {
                let reason = "its program does not speak what the test case needs".to_owned();
                Verdict::Unsupported { by: Side::Peer, reason }
            }
            (Ok(peer), Some(protocol)) => {
                let (verdict, seen) =
                    self.judged(places, &peer, protocol, &directory, identity)?;
                wire = seen;
                verdict
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

    /// Makes the transfers of the test case, each once, until one of them decides.
    fn judged(
        &self,
        places: &Places,
        peer: &Program,
        protocol: Protocol,
        directory: &Path,
        identity: &Identity,
    ) -> Result<(Verdict, Wire), Error> {
        let (mut made, mut wire) = (Vec::new(), Vec::new());
        let transfers = self.case.transfers();
        for (at, ours) in transfers.iter().enumerate() {
            let name = ours.name();
            let arguments = ["peer", name, "--ours", self.case.name];
            let arguments = arguments.map(PathBuf::from).to_vec();
            let program = Program { file: places.own.clone(), arguments };
            let is_again = transfers[..at].contains(ours);
            let place = if is_again { format!("{name}-{}", at + 1) } else { name.to_owned() };
            let directory = directory.join(place);
            let evidence = self.transfer(&program, peer, protocol, &directory, identity)?;
            wire.push((name, evidence.seen.clone()));
            made.push(evidence.clone());
            if let Some(verdict) = judge_so_far(self.case.kind, &made) {
                return Ok((defects::explain(self.peer.name, verdict, &evidence), wire));
            }
        }
        Ok((Verdict::Fail { reason: "the transfers do not decide".to_owned() }, wire))
    }

    /// What one of this project's own ends cannot do in this cell, if it is known beforehand.
    fn lacking(&self) -> Option<Verdict> {
        let case = self.case.kind;
        let peer = OwnKind::from_str(self.peer.name, false).ok();
        let (by, reason) = match own::lacks(OwnKind::Tack, case, self.role.other()) {
            Some(reason) => (Side::Ours, reason),
            None => (Side::Peer, own::lacks_as_peer(peer?, case, self.role)?),
        };
        Some(Verdict::Unsupported { by, reason: reason.to_owned() })
    }
}

/// Fails with the reason if this machine lacks the address: there may be no IPv6.
fn can_be_bound(host: IpAddr) -> Result<(), String> {
    let bound = UdpSocket::bind((host, 0));
    bound.map(|_| ()).map_err(|error| format!("this machine has no address {host}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_this_machine_lacks_is_named() {
        assert_eq!(can_be_bound([127, 0, 0, 1].into()), Ok(()));
        let documentation = can_be_bound([192, 0, 2, 1].into()).unwrap_err();
        assert!(documentation.starts_with("this machine has no address 192.0.2.1"));
    }
}
