//! The public items of a Rust source tree, and where quiche's is.

#![allow(dead_code)] // each test file uses its part
#![allow(clippy::unwrap_used)] // a test that cannot be set up has failed

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Names of functions and methods; fields as `Struct.field`.
pub type Items = BTreeSet<String>;

/// Public functions outside of all blocks.
pub fn functions(text: &str) -> Items {
    text.lines().filter_map(|line| public_function(line, "")).collect()
}

/// Public methods of `Connection`, and that of `AsMut`.
pub fn methods(text: &str) -> Items {
    methods_of(text, "Connection")
}

/// The same of another type.
pub fn methods_of(text: &str, name: &str) -> Items {
    let mut items = Items::new();
    let mut block = None;
    for line in text.lines() {
        match block {
            None => block = impl_block(line, name),
            Some(_) if line == "}" => block = None,
            Some(Block::Own) => items.extend(public_function(line, "    ")),
            Some(Block::AsMut) => {
                items.extend(line.strip_prefix("    fn ").map(identifier));
            }
        }
    }
    items
}

#[derive(Clone, Copy)]
enum Block {
    Own,
    AsMut,
}

/// Whether a line opens an `impl` block of a type.
fn impl_block(line: &str, name: &str) -> Option<Block> {
    let header = line.strip_prefix("impl")?.strip_suffix('{')?;
    let subject = header.rsplit(' ').find(|word| !word.is_empty())?;
    if identifier(subject) != name {
        return None;
    }
    if header.contains(" for ") {
        header.contains("AsMut").then_some(Block::AsMut)
    } else {
        Some(Block::Own)
    }
}

/// Names of the public fields of a struct.
pub fn fields(text: &str, name: &str) -> Items {
    let opening = format!("pub struct {name} {{");
    let body = text.lines().skip_while(|line| *line != opening).take_while(|line| *line != "}");
    body.filter_map(|line| line.strip_prefix("    pub "))
        .map(|field| format!("{name}.{}", identifier(field)))
        .collect()
}

/// The name of the public function that is declared at this depth.
fn public_function(line: &str, indent: &str) -> Option<String> {
    let mut declaration = line.strip_prefix(indent)?.strip_prefix("pub ")?;
    for qualifier in ["const ", "async ", "unsafe "] {
        declaration = declaration.strip_prefix(qualifier).unwrap_or(declaration);
    }
    declaration.strip_prefix("fn ").map(identifier)
}

fn identifier(text: &str) -> String {
    text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
}

/// Where Cargo keeps the source of the quiche release that it builds.
pub fn quiche_source() -> PathBuf {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let host = output(Command::new(&cargo).arg("-vV"));
    let host = host.lines().find_map(|line| line.strip_prefix("host: ")).unwrap();
    // For one platform, so that Cargo need not fetch the packages of others.
    let metadata = output(
        Command::new(&cargo)
            .args(["metadata", "--locked", "--format-version=1", "--filter-platform", host])
            .arg("--manifest-path")
            .arg(manifest_dir().join("Cargo.toml")),
    );
    let metadata: serde_json::Value = serde_json::from_str(&metadata).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    let quiche: Vec<_> =
        packages.iter().filter(|package| package["name"] == "quiche").collect();
    assert_eq!(quiche.len(), 1, "one release of quiche is in use");
    let manifest = Path::new(quiche[0]["manifest_path"].as_str().unwrap());
    manifest.with_file_name("src")
}

fn output(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

pub fn manifest_dir() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

pub fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
