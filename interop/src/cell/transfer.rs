//! One transfer between our end and a peer, and what it left behind.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::slice;
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
use crate::wire::{Observation, Recorder, observe};

/// How long a server may take until it listens: an interpreter has to start.
const READY_PATIENCE: Duration = Duration::from_secs(30);
/// How long a client may take: on a link that loses a third, probes soon come seldom.
const CLIENT_PATIENCE: Duration = Duration::from_secs(120);

impl Cell {
    /// Runs both programs, and looks at what they received and what they sent.
    ///
    /// Fails only if this machine does.
    pub(super) fn transfer(
        &self,
        ours: &Program,
        peer: &Program,
        protocol: Protocol,
        draw: u64,
        directory: &Path,
        identity: &Identity,
    ) -> Result<Evidence, Error> {
        let our_role = self.role.other();
        let requests = self.case.requests(our_role);
        let files = directory.join("files");
        let digests = write_files(&files, &requests)?;
        let long = self.case.has_long_chain().then(|| Identity::create_long(directory));
        let long = long.transpose()?;
        let task = |role: Role, address, requests: &[Request], directory| Task {
            role,
            test_case: self.case.told(),
            protocol,
            address,
            requests: asked(requests),
            files: &files,
            identity: long.as_ref().unwrap_or(identity),
            directory,
        };
        let (client, server) = match our_role {
            Role::Client => (ours, peer),
            Role::Server => (peer, ours),
        };

        let conditions = self.case.conditions();
        let any = SocketAddr::new(conditions.host(), 0);
        let at_server = directory.join(Role::Server.name());
        let mut server =
            Process::start(server, &task(Role::Server, any, &[], at_server.clone()))?;
        let mut evidence = Evidence {
            ours: our_role,
            files: Vec::new(),
            client: Ending::Running,
            server: Ending::Running,
            seen: Observation::default(),
            address: None,
            conditions: *conditions,
            clients: self.case.clients(),
            lost: 0,
            swallowed: 0,
            corrupted_to_server: 0,
            corrupted_to_client: 0,
            rebindings: 0,
            cross_traffic: Vec::new(),
            late: 0,
            round_trip: self.case.round_trip(),
            file_bytes: requests.iter().map(|request| request.size as u64).sum(),
        };
        let address = match server.ready(READY_PATIENCE)? {
            Ok(address) => address,
            Err(ending) => return Ok(Evidence { server: ending, ..evidence }),
        };
        evidence.address = Some(address);
        let mut beside = None;
        let mut servers = vec![address];
        if self.case.has_cross_traffic() {
            let mut traffic = CrossTraffic::new(ours, identity, directory)?;
            servers.extend(traffic.serve(any)?);
            beside = Some(traffic);
        }
        let setup = conditions.setup(servers);
        let relay = Relay::start_with(setup, self.case.link(draw)?, Recorder::new())
            .map_err(Error::file(directory))?;
        if let (Some(traffic), Some(address)) = (&mut beside, relay.addresses().get(1)) {
            traffic.begin(*address)?;
        }
        let mut at_clients = Vec::new();
        for requests in requests.chunks(requests.len().div_ceil(evidence.clients)) {
            let name = match evidence.clients {
                1 => Role::Client.name().to_owned(),
                _ => format!("{}-{}", Role::Client.name(), at_clients.len() + 1),
            };
            let task = task(Role::Client, relay.address(), requests, directory.join(name));
            at_clients.push(task.directory.clone());
            evidence.client = Process::start(client, &task)?.wait(CLIENT_PATIENCE)?;
            if evidence.client != Ending::Exited(Some(0)) {
                break;
            }
        }
        evidence.server = server.ending()?;
        drop(server);

        let report = relay.stop().map_err(Error::file(directory))?;
        evidence.note(&report);
        let ours = match our_role {
            Role::Client => &at_clients[..],
            Role::Server => slice::from_ref(&at_server),
        };
        let mut trace = String::new();
        let record = report.observer.into_record();
        evidence.seen = observe(&record, 0, &keys(ours), &mut trace);
        if let Some(traffic) = beside {
            evidence.cross_traffic = traffic.end(&record)?;
        }
        let path = directory.join("trace.txt");
        fs::write(&path, trace).map_err(Error::file(path))?;

        let mut clear = vec![files.clone()];
        for (request, sent) in requests.iter().zip(digests) {
            let receivers = match request.method {
                Method::Get => &at_clients[..],
                Method::Put => slice::from_ref(&at_server),
            };
            let (path, digest) = received(receivers, &request.name);
            let name = request.name.clone();
            evidence.files.push(Transferred { name, sent, received: digest });
            clear.extend(path.filter(|_| digest == Some(sent)));
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

/// As the environment has it.
fn asked(requests: &[Request]) -> String {
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
