//! All cells of a run, several at a time.

use std::collections::VecDeque;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::thread;

use crate::cases;
use crate::cell::{Cell, CellReport};
use crate::cli::RunArgs;
use crate::contract::Role;
use crate::error::Error;
use crate::peers::{self, Places};
use crate::process::Identity;

/// The cells that the command line asks for, in the order of the matrix.
///
/// Fails on unknown names.
pub fn cells(args: &RunArgs) -> Result<Vec<Cell>, Error> {
    let peers = peers::select(&args.peers)?;
    let cases = cases::select(&args.tests)?;
    let mut cells = Vec::new();
    for peer in peers {
        let roles = [Role::Server, Role::Client].into_iter();
        for role in roles.filter(|role| args.role.includes(*role) && peer.roles.contains(role))
        {
            cells.extend(cases.iter().map(|case| Cell { peer, role, case }));
        }
    }
    Ok(cells)
}

/// Runs cells, and calls `done` with each report.
///
/// Fails if this machine does.
pub fn run(
    cells: &[Cell],
    places: &Places,
    jobs: usize,
    keep: bool,
    done: &(dyn Fn(&CellReport) + Sync),
) -> Result<Vec<CellReport>, Error> {
    if jobs == 0 {
        return Err(Error::NoJobs);
    }
    let directory = new_directory(&places.output)?;
    let identity = Identity::create(&directory)?;
    let run = |cell: &Cell| {
        let report = cell.run(places, &directory, &identity, keep)?;
        done(&report);
        Ok(report)
    };
    let (alone, together): (Vec<_>, Vec<_>) =
        cells.iter().enumerate().partition(|(_, cell)| cell.case.wants_quiet());
    let mut reports = in_parallel(together, jobs, &run)?;
    reports.extend(in_parallel(alone, 1, &run)?);
    reports.sort_by_key(|(at, _)| *at);
    let reports: Vec<_> = reports.into_iter().map(|(_, report)| report).collect();
    if reports.iter().all(|report| report.kept.is_none()) {
        fs::remove_dir_all(&directory).map_err(Error::file(directory))?;
    }
    Ok(reports)
}

type Numbered<T> = Vec<(usize, T)>;

fn in_parallel(
    cells: Numbered<&Cell>,
    jobs: usize,
    run: &(dyn Fn(&Cell) -> Result<CellReport, Error> + Sync),
) -> Result<Numbered<CellReport>, Error> {
    let workers = jobs.min(cells.len());
    let waiting = Mutex::new(VecDeque::from(cells));
    let work = || {
        let mut reports = Vec::new();
        loop {
            // Taking a cell is one step: a panic elsewhere leaves the queue intact.
            let next = waiting.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
            let Some((at, cell)) = next else { return Ok(reports) };
            reports.push((at, run(cell)?));
        }
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        let mut reports = Vec::new();
        for worker in workers {
            match worker.join() {
                Ok(done) => reports.extend(done?),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        Ok(reports)
    })
}

/// Makes the first `run-N` that does not exist yet.
fn new_directory(output: &Path) -> Result<PathBuf, Error> {
    fs::create_dir_all(output).map_err(Error::file(output))?;
    let mut number = 1_u64;
    loop {
        let path = output.join(format!("run-{number}"));
        match fs::create_dir(&path) {
            Ok(()) => return Ok(path),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => number += 1,
            Err(error) => return Err(Error::file(path)(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::{Cli, Command};

    fn parsed(args: &[&str]) -> RunArgs {
        let all = ["tack-interop", "run"].iter().chain(args);
        let Command::Run(args) = Cli::parse_from(all).command else { panic!("not a run") };
        args
    }

    #[test]
    fn cells_are_peers_by_roles_by_tests() {
        let args = parsed(&["--peers", "quinn,tack", "--tests", "retry,handshake"]);
        let names: Vec<_> = cells(&args).unwrap().iter().map(Cell::name).collect();
        assert_eq!(
            names[..3],
            ["tack-server-handshake", "tack-server-retry", "tack-client-handshake"]
        );
        assert_eq!(names.len(), 2 * 2 * 2);
        let args = parsed(&["--peers", "quinn", "--role", "client"]);
        let roles = cells(&args).unwrap();
        assert!(roles.iter().all(|cell| cell.role == Role::Client));
    }

    #[test]
    fn each_run_has_a_directory_of_its_own() {
        let output = tempfile::tempdir().unwrap();
        let first = new_directory(output.path()).unwrap();
        let second = new_directory(output.path()).unwrap();
        assert!(first.ends_with("run-1") && second.ends_with("run-2"));
    }
}
