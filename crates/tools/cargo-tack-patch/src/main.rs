//! The command `cargo tack-patch`.

#![forbid(unsafe_code)]

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use cargo_tack_patch::{Check, Patch, Tool};
use clap::{Args, Parser};

/// How Cargo calls it.
#[derive(Parser)]
#[command(name = "cargo", bin_name = "cargo", version)]
enum Cargo {
    /// Give all programs of a workspace that use quiche TACK
    ///
    /// Without an option it copies quiche and what takes its place into a folder, and writes
    /// [patch.crates-io] into the workspace's Cargo.toml. The environment variable TACK_PROFILE chooses what
    /// the programs do then: default, video, or off, which is quiche as it comes.
    TackPatch(Options),
}

#[derive(Args)]
#[command(version)]
struct Options {
    /// Take the patch out of Cargo.toml, and delete the copies
    #[arg(long)]
    remove: bool,
    /// Say whether the patch is in force; the exit code is 1 if it is not
    #[arg(long, conflicts_with = "remove")]
    check: bool,
    /// Where the copies are put [default: .tack-patch in the workspace]
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["remove", "check"])]
    dir: Option<PathBuf>,
    /// The Cargo.toml of the workspace, or of a package in it [default: that of the current folder]
    #[arg(long, value_name = "FILE")]
    manifest_path: Option<PathBuf>,
}

fn main() -> ExitCode {
    let Cargo::TackPatch(options) = Cargo::parse();
    match run(options) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn run(options: Options) -> Result<ExitCode> {
    let tool = Tool {
        cargo: std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo")),
        cargo_home: cargo_home()?,
        manifest: options.manifest_path,
        folder: options.dir,
        patch: Patch::embedded(),
    };
    let version = tool.patch.quiche_version;
    if options.check {
        return Ok(match tool.check()? {
            Check::InForce { folder } => {
                println!("in force: quiche {version} is {}", folder.join("quiche").display());
                ExitCode::SUCCESS
            }
            Check::NotInForce { reason } => {
                println!("not in force: {reason}");
                ExitCode::FAILURE
            }
        });
    }
    if options.remove {
        match tool.remove()? {
            Some(folder) => println!(
                "removed: quiche {version} is that of crates.io again, and {} is gone",
                folder.display()
            ),
            None => println!("nothing to remove: quiche is not patched"),
        }
        return Ok(ExitCode::SUCCESS);
    }
    let applied = tool.apply()?;
    if applied.was_in_force {
        println!("already in force: the copies in {} are up to date", applied.folder.display());
    } else {
        println!(
            "quiche {version} is {} now, by {}",
            applied.folder.join("quiche").display(),
            applied.manifest.display()
        );
        println!("build as usual; `TACK_PROFILE=off` turns TACK off when a program runs");
    }
    Ok(ExitCode::SUCCESS)
}

/// Cargo's home folder.
fn cargo_home() -> Result<PathBuf> {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    home.or_else(|| std::env::home_dir().map(|home| home.join(".cargo")))
        .context("neither CARGO_HOME nor a home folder is known: set CARGO_HOME")
}
