//! Another flow over the same link: plain quiche with CUBIC, which sends to its client without end.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use crate::contract::{Method, Protocol, Role};
use crate::error::Error;
use crate::own_kind::OwnKind;
use crate::peers::Program;
use crate::process::{self, Identity, Process, Task};
use crate::wire::{Event, Progress, observe};

/// More than the link carries while the transfer beside it lasts.
const BYTES: usize = 48 << 20;
const FILE: &str = "beside.bin";
/// How long it has the link to itself, to get up to its rate.
const HEAD_START: Duration = Duration::from_secs(2);
const PATIENCE: Duration = Duration::from_secs(10);

pub(super) struct CrossTraffic<'a> {
    program: Program,
    identity: &'a Identity,
    directory: PathBuf,
    /// Ended with this.
    programs: Vec<Process>,
}

impl<'a> CrossTraffic<'a> {
    /// Starts its server, as this very program.
    pub(super) fn new(
        own: &Program,
        identity: &'a Identity,
        directory: &Path,
    ) -> Result<Self, Error> {
        let directory = directory.join("beside");
        let files = directory.join("files");
        fs::create_dir_all(&files).map_err(Error::file(&files))?;
        let file = files.join(FILE);
        fs::write(&file, vec![0; BYTES]).map_err(Error::file(&file))?;
        let arguments = vec!["peer".into(), OwnKind::Quiche.name().into()];
        let program = Program { file: own.file.clone(), arguments };
        Ok(Self { program, identity, directory, programs: Vec::new() })
    }

    /// Where its server listens; `None` if it does not.
    pub(super) fn serve(&mut self, any: SocketAddr) -> Result<Option<SocketAddr>, Error> {
        self.start(Role::Server, any)?;
        let server = self.programs.last_mut();
        Ok(server.map(|server| server.ready(PATIENCE)).transpose()?.and_then(Result::ok))
    }

    /// Begins, and goes on when the link is full.
    pub(super) fn begin(&mut self, address: SocketAddr) -> Result<(), Error> {
        self.start(Role::Client, address)?;
        thread::sleep(HEAD_START);
        Ok(())
    }

    /// Ends it, and returns the new data that it sent.
    pub(super) fn end(self, record: &[Event]) -> Result<Vec<Progress>, Error> {
        drop(self.programs);
        let keys = process::key_log(&self.directory.join(Role::Server.name()));
        let keys = fs::read_to_string(keys).unwrap_or_default();
        let seen = observe(record, 1, &keys, &mut String::new());
        fs::remove_dir_all(&self.directory).map_err(Error::file(&self.directory))?;
        Ok(seen.connections.into_iter().flat_map(|connection| connection.progress).collect())
    }

    fn start(&mut self, role: Role, address: SocketAddr) -> Result<(), Error> {
        let process = Process::start(
            &self.program,
            &Task {
                role,
                test_case: "transfer",
                protocol: Protocol::Hq,
                address,
                requests: format!("{} {FILE}", Method::Get.name()),
                files: &self.directory.join("files"),
                identity: self.identity,
                directory: self.directory.join(role.name()),
            },
        )?;
        self.programs.push(process);
        Ok(())
    }
}
