//! One cell of the matrix: our end and a peer, with the relay between them.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use serde::Serialize;
use tack_emulator::relay::Relay;

use crate::cases::{Case, Request};
use crate::cli::OwnKind;
use crate::contract::{Method, Protocol, Role};
use crate::error::Error;
use crate::own;
use crate::peers::{Peer, Places, Program};
use crate::process::{self, Identity, Process, Task};
use crate::verdict::{Ending, Evidence, Side, Transferred, Verdict, judge_so_far};
use crate::wire::{Observation, Recorder, observe};

/// How long a server may take until it listens: an interpreter has to start.
const READY_PATIENCE: Duration = Duration::from_secs(10);
/// How long a client may take.
const CLIENT_PATIENCE: Duration = Duration::from_secs(60);
/// Of the link's random stream: a cell meets the same losses each time.
const SEED: u64 = 1;

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
                self.judged(places, &peer, protocol, &directory, identity, &mut wire)?
            }
        };
        let keep = keep || matches!(verdict, Verdict::Fail { .. });
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
        directory: &Path,
        identity: &Identity,
        wire: &mut Vec<(&'static str, Observation)>,
    ) -> Result<Verdict, Error> {
        let mut made = Vec::new();
        for ours in self.case.transfers() {
            let name = ours.name();
            let arguments = vec!["peer".into(), name.into()];
            let program = Program { file: places.own.clone(), arguments };
            let directory = directory.join(name);
            let evidence = self.transfer(&program, peer, protocol, &directory, identity)?;
            wire.push((name, evidence.seen.clone()));
            made.push(evidence);
            if let Some(verdict) = judge_so_far(self.case.kind, &made) {
                return Ok(verdict);
            }
        }
        let reason = "the transfers say nothing".to_owned();
        Ok(Verdict::Fail { reason })
    }

    /// What one of this project's own ends cannot do in this cell, if it is known beforehand.
    fn lacking(&self) -> Option<Verdict> {
        let test = self.case.name;
        let ours = own::lacks(OwnKind::Tack, test, self.role.other());
        let peer = || {
            let kind = OwnKind::from_str(self.peer.name, false).ok()?;
            own::lacks(kind, test, self.role)
        };
        ours.map(|reason| (Side::Ours, reason))
            .or_else(|| Some((Side::Peer, peer()?)))
            .map(|(by, reason)| Verdict::Unsupported { by, reason: reason.to_owned() })
    }

    fn transfer(
        &self,
        ours: &Program,
        peer: &Program,
        protocol: Protocol,
        directory: &Path,
        identity: &Identity,
    ) -> Result<Evidence, Error> {
        let our_role = self.role.other();
        let requests = self.case.requests(our_role);
        let files = directory.join("files");
        let digests = write_files(&files, &requests)?;
        let asked: Vec<_> = requests
            .iter()
            .map(|request| format!("{} {}", request.method.name(), request.name))
            .collect();
        let asked = asked.join(",");
        let task = |role: Role, address| Task {
            role,
            test_case: self.case.name,
            protocol,
            address,
            requests: &asked,
            files: &files,
            identity,
            directory: directory.join(role.name()),
        };
        let (client, server) = match our_role {
            Role::Client => (ours, peer),
            Role::Server => (peer, ours),
        };

        let any: SocketAddr = (Ipv4Addr::LOCALHOST, 0).into();
        let mut server = Process::start(server, &task(Role::Server, any))?;
        let mut evidence = Evidence {
            ours: our_role,
            files: Vec::new(),
            client: Ending::Running,
            server: Ending::Running,
            seen: Observation::default(),
            lost: 0,
            corrupted_to_server: 0,
            corrupted_to_client: 0,
            late: 0,
            round_trip: self.case.round_trip(),
            file_bytes: requests.iter().map(|request| request.size as u64).sum(),
        };
        let address = match server.ready(READY_PATIENCE)? {
            Ok(address) => address,
            Err(ending) => return Ok(Evidence { server: ending, ..evidence }),
        };
        let link = self.case.link(SEED)?;
        let relay = Relay::start_observed(address, link, Recorder::new())
            .map_err(Error::file(directory))?;
        let mut client = Process::start(client, &task(Role::Client, relay.address()))?;
        evidence.client = client.wait(CLIENT_PATIENCE)?;
        evidence.server = server.ending()?;
        drop((client, server));

        let report = relay.stop().map_err(Error::file(directory))?;
        evidence.late = report.deadline_misses;
        evidence.corrupted_to_server = report.reverse.corrupted;
        evidence.corrupted_to_client = report.forward.corrupted;
        evidence.lost = report.forward.losses.random + report.reverse.losses.random;
        let keys = process::key_log(&directory.join(our_role.name()));
        // Without keys nothing is opened, and the verdict says so.
        let keys = fs::read_to_string(keys).unwrap_or_default();
        let mut trace = String::new();
        evidence.seen = observe(&report.observer.into_record(), 0, &keys, &mut trace);
        let path = directory.join("trace.txt");
        fs::write(&path, trace).map_err(Error::file(path))?;

        let mut clear = vec![files.clone()];
        for (request, sent) in requests.iter().zip(digests) {
            let receiver = match request.method {
                Method::Get => Role::Client,
                Method::Put => Role::Server,
            };
            let received =
                process::received(&directory.join(receiver.name())).join(&request.name);
            let digest = fs::read(&received).ok().map(|bytes| blake3::hash(&bytes));
            let name = request.name.clone();
            evidence.files.push(Transferred { name, sent, received: digest });
            if digest == Some(sent) {
                clear.push(received);
            }
        }
        // What was sent can be made again, and what is equal to it shows nothing.
        for path in clear {
            let removed =
                if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
            removed.map_err(Error::file(path))?;
        }
        Ok(evidence)
    }
}

/// Makes the files, each with its own bytes that look random and are the same each time.
fn write_files(directory: &Path, requests: &[Request]) -> Result<Vec<blake3::Hash>, Error> {
    fs::create_dir_all(directory).map_err(Error::file(directory))?;
    let write = |request: &Request| {
        let mut bytes = vec![0; request.size];
        blake3::Hasher::new().update(request.name.as_bytes()).finalize_xof().fill(&mut bytes);
        let path = directory.join(&request.name);
        fs::write(&path, &bytes).map_err(Error::file(path))?;
        Ok(blake3::hash(&bytes))
    };
    requests.iter().map(write).collect()
}
