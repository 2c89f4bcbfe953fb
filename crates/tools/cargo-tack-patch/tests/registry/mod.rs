//! A registry of three small crates, a program that depends on them, and a patch for it.

#![allow(clippy::unwrap_used)] // a test that cannot be set up has failed

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use cargo_tack_patch::{Patch, Tool};
use ring::digest::{SHA256, digest};
use tempfile::TempDir;

/// What crates.io would say of the crate file of quiche 0.30.0.
pub const CHECKSUM: &str = "52b35a721a2a56797347929745fa783fc99e680d9484b80324ce40106b75493a";

const QUICHE: &str = r#"
[package]
name = "quiche"
version = "0.30.0"
edition = "2021"

[lib]
name = "quiche"
crate-type = ["lib", "staticlib"]
"#;

/// A crate that calls quiche, as tokio-quiche does.
const DEPENDENT: &str = r#"
[package]
name = "dependent"
version = "1.0.0"
edition = "2021"

[dependencies]
quiche = "0.30"
"#;

const PROGRAM: &str = r#"[package]
name = "program"
version = "0.1.0"
edition = "2021"

[dependencies]
dependent = "1"
quiche = "0.30" # its own calls
"#;

/// In the place of tack-quiche and tacklib.
const FILES: &[(&str, &str)] = &[
    (
        "quiche/Cargo.toml",
        "[package]\nname = \"tack-quiche\"\nversion.workspace = true\nedition.workspace = true\n\
         [dependencies]\nquiche.workspace = true\ntacklib.workspace = true\n\
         [dev-dependencies]\nnowhere.workspace = true\n",
    ),
    (
        "quiche/src/lib.rs",
        "pub use quiche::*;\npub fn transport() -> String { tacklib::transport() }",
    ),
    (
        "tacklib/Cargo.toml",
        "[package]\nname = \"tacklib\"\nversion.workspace = true\nedition.workspace = true\n\
         [dependencies]\nquiche.workspace = true\n[lints]\nworkspace = true\n",
    ),
    (
        "tacklib/src/lib.rs",
        "pub fn transport() -> String { format!(\"TACK over {}\", quiche::transport()) }",
    ),
];

const WORKSPACE: &str = r#"
[workspace]
members = ["tacklib", "crates/*"]

[workspace.package]
version = "0.1.0"
edition = "2024"

[workspace.dependencies]
nowhere = "1"
quiche = { version = "=0.30.0" }
tacklib = { path = "tacklib" }

[workspace.lints.rust]
missing_docs = "deny"
"#;

/// What the copies are made of.
pub const PATCH: Patch<'static> = Patch {
    files: FILES,
    workspace: WORKSPACE,
    quiche_version: "0.30.0",
    quiche_checksum: CHECKSUM,
};

/// A folder with the registry and the program.
pub struct World {
    folder: TempDir,
}

impl World {
    /// With this manifest of the program.
    pub fn with_program(manifest: &str) -> Self {
        let world = Self { folder: tempfile::tempdir().unwrap() };
        let quiche = "pub const VERSION: u32 = 1; pub fn transport() -> String { \"plain quiche\".into() }";
        world.vendor("quiche", QUICHE, quiche, CHECKSUM);
        let dependent = "pub fn transport() -> String { quiche::transport() }";
        world.vendor("dependent", DEPENDENT, dependent, &"0".repeat(64));
        world.write("program/Cargo.toml", manifest);
        let main = "fn main() { print!(\"{}\", quiche::transport()); }";
        let both = main
            .replace("\"{}\"", "\"{}, {}\"")
            .replace("());", "(), dependent::transport());");
        world.write(
            "program/src/main.rs",
            if manifest.contains("dependent") { &both } else { main },
        );
        // No other registry is asked.
        let config = "[source.crates-io]\nreplace-with = \"small\"\n\
                      [source.small]\ndirectory = \"../vendor\"\n[net]\noffline = true\n";
        world.write("program/.cargo/config.toml", config);
        world
    }

    /// With a program that uses quiche itself and through a dependency.
    pub fn new() -> Self {
        Self::with_program(PROGRAM)
    }

    /// With the same program as the member of a workspace.
    pub fn in_workspace() -> Self {
        let world = Self::new();
        let main = world.read("program/src/main.rs");
        fs::remove_dir_all(world.path("program/src")).unwrap();
        world.write(
            "program/Cargo.toml",
            "[workspace]\nmembers = [\"app\"]\nresolver = \"2\"\n",
        );
        world.write("program/app/Cargo.toml", PROGRAM);
        world.write("program/app/src/main.rs", &main);
        world
    }

    /// Publishes a newer release of quiche.
    pub fn publish_newer_quiche(&self) {
        let manifest = QUICHE.replace("0.30.0", "0.30.1");
        self.vendor("quiche-0.30.1", &manifest, "", &"1".repeat(64));
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    pub fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// All files of the program by name, but for what a build writes.
    pub fn program(&self) -> Vec<(PathBuf, Vec<u8>)> {
        let mut files = Vec::new();
        let mut folders = vec![self.path("program")];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else {
                    let content = fs::read(&path).unwrap();
                    files.push((path, content));
                }
            }
        }
        files.sort();
        files
    }

    /// The tool, for the program.
    pub fn tool(&self) -> Tool<'static> {
        Tool {
            cargo: cargo(),
            cargo_home: self.path("home"),
            manifest: Some(self.path("program/Cargo.toml")),
            folder: None,
            patch: PATCH,
        }
    }

    /// What the program prints.
    pub fn run(&self) -> String {
        let output = self.cargo(&["run", "--quiet"]);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{errors}");
        assert!(!errors.contains("warning"), "{errors}");
        String::from_utf8(output.stdout).unwrap()
    }

    pub fn cargo(&self, arguments: &[&str]) -> Output {
        Command::new(cargo())
            .args(arguments)
            .current_dir(self.path("program"))
            .env("CARGO_TARGET_DIR", self.path("target"))
            .output()
            .unwrap()
    }

    /// Puts a package into the registry.
    fn vendor(&self, name: &str, manifest: &str, library: &str, checksum: &str) {
        let mut files = String::new();
        for (file, text) in [("Cargo.toml", manifest), ("src/lib.rs", library)] {
            self.write(&format!("vendor/{name}/{file}"), text);
            let digest = digest(&SHA256, text.as_bytes());
            write!(files, "{}\"{file}\":\"", if files.is_empty() { "" } else { "," }).unwrap();
            digest.as_ref().iter().for_each(|byte| write!(files, "{byte:02x}").unwrap());
            files.push('"');
        }
        let list = format!("{{\"files\":{{{files}}},\"package\":\"{checksum}\"}}");
        self.write(&format!("vendor/{name}/.cargo-checksum.json"), &list);
    }
}

fn cargo() -> std::ffi::OsString {
    std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

/// Whether there is nothing at a path.
pub fn is_gone(path: &Path) -> bool {
    !path.exists()
}
