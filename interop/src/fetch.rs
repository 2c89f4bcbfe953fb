//! Installs and builds peers, each from its own manifest and lock file.

mod command;
pub mod debian;
pub mod stamp;

use std::fs;
use std::io::{self, ErrorKind};
use std::path::Path;
use std::process::Command;

use self::command::run;
use crate::error::Error;
use crate::peers::{Peer, Places, Source};

/// Fetches a peer, unless it is there as its manifest has it now; the commands write their
/// progress to this process's standard error.
///
/// The inner result says why a peer could not be fetched; a file keeps the reason for `list` and
/// `run`. Fails if that cannot be written.
pub fn fetch(peer: &Peer, places: &Places) -> Result<Result<(), String>, Error> {
    if peer.program(places).is_ok() {
        return Ok(Ok(()));
    }
    let cache = places.cache(peer);
    fs::create_dir_all(&cache).map_err(Error::file(&cache))?;
    let failure = places.fetch_failure(peer);
    let manifest = places.manifest(peer);
    // An interrupted fetch leaves neither a peer to run nor the reason of an earlier failure.
    for path in [&failure, &stamp::path(&cache)] {
        remove(path).map_err(Error::file(path))?;
    }
    let fetched = debian::install_what_it_takes(&manifest).and_then(|()| match peer.source {
        Source::Debian => {
            run(version("python3")).and_then(|()| debian::unpack(&manifest, &cache))
        }
        _ => commands(peer, places).into_iter().try_for_each(run),
    });
    let remembered = match &fetched {
        Err(reason) => fs::write(&failure, reason),
        Ok(()) => stamp::leave(&manifest, &cache),
    };
    remembered.map_err(Error::file(cache))?;
    Ok(fetched)
}

fn remove(file: &Path) -> io::Result<()> {
    match fs::remove_file(file) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn commands(peer: &Peer, places: &Places) -> Vec<Command> {
    let (manifest, cache) = (places.manifest(peer), places.cache(peer));
    match peer.source {
        Source::Own | Source::Debian => vec![],
        Source::Installed(program) => vec![version(program), version("python3")],
        Source::Cargo => {
            let mut build = Command::new("cargo");
            build.args(["build", "--release", "--locked", "--manifest-path"]);
            build.arg(manifest.join("Cargo.toml")).arg("--target-dir").arg(cache);
            vec![build]
        }
        Source::Go => {
            let mut build = Command::new("go");
            build
                .args(["build", "-v", "-mod=readonly", "-ldflags=-s -w", "-o"])
                .arg(cache.join(peer.binary()))
                .arg(".");
            build.current_dir(manifest);
            vec![build]
        }
        Source::Python => {
            let mut environment = Command::new("python3");
            environment.args(["-m", "venv"]).arg(&cache);
            let mut install = Command::new(cache.join("bin/python"));
            install.args(["-m", "pip", "install", "--disable-pip-version-check", "-r"]);
            install.arg(manifest.join("requirements.txt"));
            vec![environment, install]
        }
        Source::Maven => {
            let mut build = Command::new("mvn");
            build.args(["--batch-mode", "--no-transfer-progress", "--strict-checksums"]);
            build.arg("--file").arg(manifest.join("pom.xml"));
            build.arg(format!("-Doutput={}", cache.display())).arg("package");
            let mut check = Command::new("sha256sum");
            check.args(["--check", "--strict"]).arg(manifest.join("lib.sha256"));
            check.current_dir(cache.join("lib"));
            vec![version("java"), build, check]
        }
    }
}

/// Fails where there is no such program. The adapters of Debian's programs are run by Python.
fn version(program: &str) -> Command {
    let mut command = Command::new(program);
    command.arg("--version");
    command
}
