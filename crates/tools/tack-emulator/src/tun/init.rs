//! The first process of a command's process namespace.
//!
//! It exists for one property: when it ends, the kernel ends every process in its namespace.
//! So nothing that a command started outlives the emulator, not even one that was killed.

use std::ffi::OsString;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// The exit code of a shell when a command cannot be run, and when it does not exist.
const CANNOT_RUN: u8 = 126;
const NOT_FOUND: u8 = 127;

/// Runs a command until it ends, or until standard input ends, which is a pipe from the
/// emulator; gives the exit code to end with.
///
/// This is the whole of the program that
/// [`CommandOptions::init`](super::CommandOptions::init) names. It says on standard error when
/// the command cannot be run.
pub fn init(command: &[OsString]) -> u8 {
    let Some((program, arguments)) = command.split_first() else {
        eprintln!("no command given");
        return CANNOT_RUN;
    };
    // The command is not in the foreground of a terminal, where reading would stop it.
    let child = Command::new(program).args(arguments).stdin(Stdio::null()).spawn();
    let outcome = child.and_then(|mut child| wait(&mut child));
    match outcome {
        Ok(status) => exit_code(status),
        Err(error) => {
            eprintln!("{}: {error}", program.display());
            if error.kind() == io::ErrorKind::NotFound { NOT_FOUND } else { CANNOT_RUN }
        }
    }
}

fn wait(child: &mut Child) -> io::Result<ExitStatus> {
    let exit = pidfd_open(Pid::from_child(child), PidfdFlags::empty())?;
    let emulator = io::stdin();
    let mut ready =
        [emulator.as_fd(), exit.as_fd()].map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
    rustix::io::retry_on_intr(|| poll(&mut ready, None))?;
    if ready[1].revents().is_empty() {
        child.kill()?;
    }
    child.wait()
}

/// As a shell gives it.
pub(super) fn exit_code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exit_code_is_passed_on() {
        assert_eq!(exit_code(ExitStatus::from_raw(3 << 8)), 3);
    }

    #[test]
    fn an_end_by_a_signal_gives_the_code_of_a_shell() {
        assert_eq!(exit_code(ExitStatus::from_raw(9)), 137);
    }
}
