//! One transfer between our end and a peer, and what it left behind.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::slice;
use std::thread;
use std::time::Duration;

use tack_emulator::relay::Relay;

use super::Cell;
use super::cross_traffic::CrossTraffic;
use crate::cases::Request;
use crate::contract::{Method, Protocol, Role};
use crate::error::Error;
use crate::peers::Program;
use crate::process::{self, Identity, Process, Task};
use crate::verdict::{Ending, Evidence, Transferred};
use crate::wire::{Disorder, Observation, Recorder, observe};

/// How long a server may take until it listens: an interpreter has to start, maybe beside others.
const READY_PATIENCE: Duration = Duration::from_secs(60);
/// How long a server has for what the client sent last before it counts as running.
const LAST_WORDS: Duration = Duration::from_millis(100);
/// How long a client may take: on a link that loses a third, the time between probes soon grows.
const CLIENT_PATIENCE: Duration = Duration::from_secs(120);
/// And for each MiB: on a busy machine an end may get a fraction of a processor.
const PATIENCE_FOR_A_MIB: Duration = Duration::from_secs(5);

impl Cell {
    /// Runs both programs, and looks at what they received and what they sent.
    ///
    /// Fails only if this machine does.
    pub(super) fn transfer(
        &self,
        ours: &Program,
        peer: &Program,
        protocol: Protocol,
        directory: &Path,
        identity: &Identity,
    ) -> Result<Evidence, Error> {
        let stage = Stage::new(self, ours, peer, protocol, directory, identity)?;
        let mut evidence = stage.evidence();
        let mut server = stage.start_server()?;
        let address = match server.ready(READY_PATIENCE)? {
            Ok(address) => address,
            Err(ending) => return Ok(Evidence { server: ending, ..evidence }),
        };
        evidence.address = Some(address);
        let (relay, beside) = stage.start_relay(address)?;
        let at_clients = stage.run_clients(relay.address(), &mut evidence)?;
        // What the client sent last reaches the server only now, and may be what ends it.
        thread::sleep(self.case.round_trip() / 2 + LAST_WORDS);
        evidence.server = server.ending()?;
        drop(server);
        stage.note_wire(relay, beside, &at_clients, &mut evidence)?;
        stage.note_files(&at_clients, &mut evidence)?;
        Ok(evidence)
    }
}

/// What a transfer takes place with.
struct Stage<'a> {
    cell: &'a Cell,
    ours: &'a Program,
    peer: &'a Program,
    our_role: Role,
    protocol: Protocol,
    directory: &'a Path,
    /// The certificate that the server shows if the test case takes none of its own.
    identity: &'a Identity,
    long_chain: Option<Identity>,
    requests: Vec<Request>,
    /// Of what is requested, in the same order.
    digests: Vec<blake3::Hash>,
    files: PathBuf,
    at_server: PathBuf,
}

impl<'a> Stage<'a> {
    /// Makes the directory and the files.
    fn new(
        cell: &'a Cell,
        ours: &'a Program,
        peer: &'a Program,
        protocol: Protocol,
        directory: &'a Path,
        identity: &'a Identity,
    ) -> Result<Self, Error> {
        let our_role = cell.role.other();
        let requests = cell.case.requests(our_role);
        let files = directory.join("files");
        let digests = write_files(&files, &requests)?;
        let long_chain =
            cell.case.has_long_chain().then(|| Identity::create_long(directory)).transpose()?;
        Ok(Self {
            cell,
            ours,
            peer,
            our_role,
            protocol,
            directory,
            identity,
            long_chain,
            requests,
            digests,
            files,
            at_server: directory.join(Role::Server.name()),
        })
    }

    /// The evidence before the transfer.
    fn evidence(&self) -> Evidence {
        Evidence {
            ours: self.our_role,
            files: Vec::new(),
            client: Ending::Running,
            server: Ending::Running,
            seen: Observation::default(),
            address: None,
            conditions: *self.cell.case.conditions(),
            clients: self.cell.case.clients(),
            lost: 0,
            dropped: 0,
            swallowed: 0,
            corrupted_to_server: 0,
            corrupted_to_client: 0,
            rebindings: 0,
            cross_traffic: Vec::new(),
            disorder: Disorder::default(),
            late: 0,
            worst_lateness: Duration::ZERO,
            round_trip: self.cell.case.round_trip(),
            file_bytes: self.bytes(|_| true),
            fetched_bytes: self.bytes(|method| method == Method::Get),
        }
    }

    /// Bytes of the files that are requested by such a method.
    fn bytes(&self, is_counted: impl Fn(Method) -> bool) -> u64 {
        let counted = self.requests.iter().filter(|request| is_counted(request.method));
        counted.map(|request| request.size as u64).sum()
    }

    fn any_address(&self) -> SocketAddr {
        SocketAddr::new(self.cell.case.conditions().host(), 0)
    }

    fn start_server(&self) -> Result<Process, Error> {
        self.start(Role::Server, self.any_address(), &[], self.at_server.clone())
    }

    fn start(
        &self,
        role: Role,
        address: SocketAddr,
        requests: &[Request],
        directory: PathBuf,
    ) -> Result<Process, Error> {
        let program = if role == self.our_role { self.ours } else { self.peer };
        let task = Task {
            role,
            test_case: self.cell.case.told(self.our_role),
            protocol: self.protocol,
            address,
            requests: requests_in_environment(requests),
            files: &self.files,
            identity: self.long_chain.as_ref().unwrap_or(self.identity),
            directory,
        };
        Process::start(program, &task)
    }

    /// Starts the relay in front of the server, and the other flow where there is one.
    fn start_relay(
        &self,
        server: SocketAddr,
    ) -> Result<(Relay<Recorder>, Option<CrossTraffic<'_>>), Error> {
        let mut beside = None;
        let mut servers = vec![server];
        if self.cell.case.has_cross_traffic() {
            let mut traffic = CrossTraffic::new(self.ours, self.identity, self.directory)?;
            servers.extend(traffic.serve(self.any_address())?);
            beside = Some(traffic);
        }
        let setup = self.cell.case.conditions().setup(servers);
        let relay =
            Relay::start_with(setup, self.cell.case.link(self.our_role)?, Recorder::new())
                .map_err(Error::file(self.directory))?;
        if let (Some(traffic), Some(address)) = (&mut beside, relay.addresses().get(1)) {
            traffic.begin(*address)?;
        }
        Ok((relay, beside))
    }

    /// Runs the clients one after the other, until one fails. Returns their directories.
    fn run_clients(
        &self,
        relay: SocketAddr,
        evidence: &mut Evidence,
    ) -> Result<Vec<PathBuf>, Error> {
        let mut at_clients = Vec::new();
        let share = self.requests.len().div_ceil(evidence.clients);
        for requests in self.requests.chunks(share) {
            let name = match evidence.clients {
                1 => Role::Client.name().to_owned(),
                _ => format!("{}-{}", Role::Client.name(), at_clients.len() + 1),
            };
            let directory = self.directory.join(name);
            at_clients.push(directory.clone());
            let mut client = self.start(Role::Client, relay, requests, directory)?;
            let mib = evidence.file_bytes.div_ceil(1 << 20) as u32;
            evidence.client = client.wait(CLIENT_PATIENCE + mib * PATIENCE_FOR_A_MIB)?;
            if evidence.client != Ending::Exited(Some(0)) {
                break;
            }
        }
        Ok(at_clients)
    }

    /// Stops the relay and reads what it recorded.
    fn note_wire(
        &self,
        relay: Relay<Recorder>,
        beside: Option<CrossTraffic<'_>>,
        at_clients: &[PathBuf],
        evidence: &mut Evidence,
    ) -> Result<(), Error> {
        let report = relay.stop().map_err(Error::file(self.directory))?;
        evidence.note(&report);
        evidence.disorder = report.observer.disorder();
        let ours = match self.our_role {
            Role::Client => at_clients,
            Role::Server => slice::from_ref(&self.at_server),
        };
        let mut trace = String::new();
        let record = report.observer.into_record();
        evidence.seen = observe(&record, 0, &keys(ours), &mut trace);
        if let Some(traffic) = beside {
            evidence.cross_traffic = traffic.end(&record)?;
        }
        let path = self.directory.join("trace.txt");
        fs::write(&path, trace).map_err(Error::file(path))
    }

    /// Compares what was received with what was sent. What was sent can be made again, and what is
    /// equal to it shows nothing: only received files that differ are kept.
    fn note_files(&self, at_clients: &[PathBuf], evidence: &mut Evidence) -> Result<(), Error> {
        for (request, &sent) in self.requests.iter().zip(&self.digests) {
            let receivers = match request.method {
                Method::Get => at_clients,
                Method::Put => slice::from_ref(&self.at_server),
            };
            let (path, received) = received(receivers, &request.name);
            let name = request.name.clone();
            evidence.files.push(Transferred { name, sent, received });
            if let Some(path) = path.filter(|_| received == Some(sent)) {
                fs::remove_file(&path).map_err(Error::file(path))?;
            }
        }
        fs::remove_dir_all(&self.files).map_err(Error::file(&self.files))
    }
}

/// The requests of a client as the environment has them.
fn requests_in_environment(requests: &[Request]) -> String {
    let asked: Vec<_> = requests
        .iter()
        .map(|request| format!("{} {}", request.method.name(), request.name))
        .collect();
    asked.join(",")
}

/// All secrets. Without them nothing is opened, and the verdict says so.
fn keys(directories: &[PathBuf]) -> String {
    let logs = directories.iter().map(|directory| process::key_log(directory));
    logs.map(|log| fs::read_to_string(log).unwrap_or_default()).collect()
}

/// The file that one of these programs received under that name, and its digest.
fn received(directories: &[PathBuf], name: &str) -> (Option<PathBuf>, Option<blake3::Hash>) {
    let mut paths = directories.iter().map(|directory| process::received(directory).join(name));
    let path = paths.find(|path| path.exists());
    let bytes = path.as_ref().and_then(|path| fs::read(path).ok());
    (path, bytes.map(|bytes| blake3::hash(&bytes)))
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
