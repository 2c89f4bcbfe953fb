//! All cells of a run, several at a time.

use std::collections::VecDeque;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, SystemTime};

use crate::cases;
use crate::cell::{Cell, CellReport};
use crate::cli::RunArgs;
use crate::contract::Role;
use crate::error::Error;
use crate::peers::{self, Places};
use crate::process::Identity;

/// How long the directory of a run is kept, and with it what is left of cells that failed.
const KEPT: Duration = Duration::from_secs(14 * 24 * 60 * 60);

/// The reports of a run.
#[derive(Debug)]
pub struct Outcome {
    /// Of the cells that ran to their end, in the order of the matrix.
    pub reports: Vec<CellReport>,
    /// Why the others did not, if there are any.
    pub error: Option<Error>,
}

/// The cells that the command line asks for, in the order of the matrix.
///
/// Fails on unknown names, and if there is no cell.
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
    if cells.is_empty() {
        return Err(Error::NoCells);
    }
    Ok(cells)
}

/// Runs cells, and calls `done` with each report. If this machine fails in one of them, no other
/// one begins.
///
/// Fails if none can begin.
pub fn run(
    cells: &[Cell],
    places: &Places,
    jobs: usize,
    keep: bool,
    done: &(dyn Fn(&CellReport) + Sync),
) -> Result<Outcome, Error> {
    if jobs == 0 {
        return Err(Error::NoJobs);
    }
    remove_old(&places.output)?;
    let directory = new_directory(&places.output)?;
    let identity = Identity::create(&directory)?;
    let run = |cell: &Cell| {
        let report = cell.run(places, &directory, &identity, keep)?;
        done(&report);
        Ok(report)
    };
    let (alone, together): (Vec<_>, Vec<_>) =
        cells.iter().enumerate().partition(|(_, cell)| cell.case.wants_quiet());
    let (mut reports, mut error) = in_parallel(together, jobs, &run);
    if error.is_none() {
        let (more, failed) = in_parallel(alone, 1, &run);
        reports.extend(more);
        error = failed;
    }
    reports.sort_by_key(|(at, _)| *at);
    let reports: Vec<_> = reports.into_iter().map(|(_, report)| report).collect();
    let is_kept = error.is_some() || reports.iter().any(|report| report.kept.is_some());
    if !is_kept {
        error = fs::remove_dir_all(&directory).map_err(Error::file(directory)).err();
    }
    Ok(Outcome { reports, error })
}

type Numbered<T> = Vec<(usize, T)>;

/// Runs cells until all are done or one fails. Returns the reports that there are, and the first
/// error.
fn in_parallel<T: Sync, R: Send>(
    cells: Numbered<&T>,
    jobs: usize,
    run: &(dyn Fn(&T) -> Result<R, Error> + Sync),
) -> (Numbered<R>, Option<Error>) {
    let workers = jobs.min(cells.len());
    let waiting = Mutex::new(VecDeque::from(cells));
    // Each step with the queue is one: a panic elsewhere leaves it intact.
    let queue = || waiting.lock().unwrap_or_else(PoisonError::into_inner);
    let work = || {
        let mut reports = Vec::new();
        loop {
            let Some((at, cell)) = queue().pop_front() else { return (reports, None) };
            match run(cell) {
                Ok(report) => reports.push((at, report)),
                Err(error) => {
                    queue().clear();
                    return (reports, Some(error));
                }
            }
        }
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        let (mut reports, mut first) = (Vec::new(), None);
        for worker in workers {
            match worker.join() {
                Ok((done, error)) => {
                    reports.extend(done);
                    first = first.or(error);
                }
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        (reports, first)
    })
}

/// Removes the directories of runs that began long ago.
fn remove_old(output: &Path) -> Result<(), Error> {
    let Ok(entries) = fs::read_dir(output) else { return Ok(()) };
    for entry in entries {
        let entry = entry.map_err(Error::file(output))?;
        let is_run = entry.file_name().to_str().is_some_and(|name| {
            name.strip_prefix(RUN).is_some_and(|number| number.parse::<u64>().is_ok())
        });
        // Another run may remove its own meanwhile.
        let Ok(changed) = entry.metadata().and_then(|data| data.modified()) else { continue };
        let age = SystemTime::now().duration_since(changed).unwrap_or_default();
        if is_run && age > KEPT {
            fs::remove_dir_all(entry.path()).map_err(Error::file(entry.path()))?;
        }
    }
    Ok(())
}

/// The names of the directories of runs, before their number.
const RUN: &str = "run-";

/// Makes the first `run-N` that does not exist yet.
fn new_directory(output: &Path) -> Result<PathBuf, Error> {
    fs::create_dir_all(output).map_err(Error::file(output))?;
    let mut number = 1_u64;
    loop {
        let path = output.join(format!("{RUN}{number}"));
        match fs::create_dir(&path) {
            Ok(()) => return Ok(path),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => number += 1,
            Err(error) => return Err(Error::file(path)(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

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
    fn peers_without_the_role_are_no_cell_and_a_wrong_command_line() {
        let error = cells(&parsed(&["--peers", "caddy", "--role", "client"])).unwrap_err();
        assert!(error.to_string().contains("no cell"), "{error}");
        assert_eq!(error.exit_code(), 2);
    }

    #[test]
    fn an_error_of_this_machine_keeps_what_is_done_and_begins_nothing_more() {
        let numbers: Vec<_> = (0..100).collect();
        let numbered = || numbers.iter().enumerate().collect();
        let run = |number: &u32| match number {
            3 => Err(Error::Link("of the fourth".to_owned())),
            _ => Ok(*number),
        };
        let (done, error) = in_parallel(numbered(), 1, &run);
        assert_eq!(done, [(0, 0), (1, 1), (2, 2)]);
        assert!(error.unwrap().to_string().contains("of the fourth"));

        // The other worker waits in its first cell for the error.
        let has_failed = AtomicBool::new(false);
        let (done, error) = in_parallel(numbered(), 2, &|number| {
            if *number == 1 {
                has_failed.store(true, Ordering::Release);
                return Err(Error::Link("of the second".to_owned()));
            }
            while !has_failed.load(Ordering::Acquire) {
                thread::yield_now();
            }
            thread::sleep(Duration::from_millis(50));
            Ok(*number)
        });
        assert!(done.len() < 3 && done.contains(&(0, 0)), "{done:?}");
        assert!(error.is_some());
    }

    #[test]
    fn directories_of_runs_go_after_a_fortnight_and_nothing_else_does() {
        let output = tempfile::tempdir().unwrap();
        let old = SystemTime::now() - KEPT - Duration::from_secs(60);
        for (name, is_old) in
            [("run-1", true), ("run-2", false), ("peers", true), ("run-x", true)]
        {
            let path = output.path().join(name);
            fs::create_dir(&path).unwrap();
            fs::write(path.join("trace.txt"), "").unwrap();
            if is_old {
                fs::File::open(path).unwrap().set_modified(old).unwrap();
            }
        }
        remove_old(output.path()).unwrap();
        let left = |name| output.path().join(name).exists();
        assert!(!left("run-1") && left("run-2") && left("peers") && left("run-x"));
        remove_old(&output.path().join("none")).unwrap();
    }

    #[test]
    fn each_run_has_a_directory_of_its_own() {
        let output = tempfile::tempdir().unwrap();
        let first = new_directory(output.path()).unwrap();
        let second = new_directory(output.path()).unwrap();
        assert!(first.ends_with("run-1") && second.ends_with("run-2"));
    }
}
