//! Runs the commands that install and build peers.

use std::io::{self, ErrorKind};
use std::path::Path;
use std::process::{Command, Stdio};

/// Runs a command; its output goes to standard error. Fails with what the user can do.
pub(super) fn run(mut command: Command) -> Result<(), String> {
    let program = Path::new(command.get_program());
    let program = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
    eprintln!("+ {command:?}");
    // `fetch` prints its own result on standard output.
    let status = command.stdin(Stdio::null()).stdout(io::stderr()).status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!(
            "`{program}` failed ({status}); `tack-interop fetch` shows its messages"
        )),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            Err(format!("`{program}` was not found: install it and fetch again"))
        }
        Err(error) => Err(format!("`{program}` could not be started: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_compiler_is_named() {
        let missing = run(Command::new("no-such-compiler")).unwrap_err();
        assert_eq!(missing, "`no-such-compiler` was not found: install it and fetch again");
        assert!(run(Command::new("false")).unwrap_err().contains("`false` failed"));
        assert_eq!(run(Command::new("true")), Ok(()));
    }
}
