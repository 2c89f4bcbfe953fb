//! `tack man`

use std::fs;

use clap::CommandFactory;

use crate::cli::{Cli, ManArgs};
use crate::error::Error;

/// Writes `tack.1` and a page for each command that users call.
pub fn man(args: &ManArgs) -> Result<(), Error> {
    let directory = &args.dir;
    fs::create_dir_all(directory)
        .and_then(|()| clap_mangen::generate_to(Cli::command(), directory))
        .map_err(Error::local(directory))
}
