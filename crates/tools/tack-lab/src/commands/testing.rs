//! Arguments for tests of commands.

use clap::{Args, Command, Error};

/// Reads the arguments of a command as they stand on its line.
pub fn parse<A: Args>(line: &str) -> Result<A, Error> {
    let command = A::augment_args(Command::new("tack-lab").no_binary_name(true));
    A::from_arg_matches(&command.try_get_matches_from(line.split_whitespace())?)
}
