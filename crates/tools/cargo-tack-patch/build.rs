//! Puts the sources that the patch consists of into the program, so that it needs no checkout when it runs.

#![allow(clippy::expect_used, reason = "a build that lacks its sources fails")]
#![allow(clippy::unnecessary_debug_formatting, reason = "paths become string literals")]

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::{env, fs};

/// What takes quiche's place, and all of this workspace that it is built from.
const CRATES: [(&str, &str); 4] = [
    ("quiche", "crates/tack-quiche"),
    ("tacklib", "tacklib"),
    ("tack-proto", "crates/tack-proto"),
    ("tack-packet", "crates/tack-packet"),
];

fn main() {
    let here = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("Cargo sets it"));
    let workspace = here.ancestors().nth(3).expect("the workspace").to_owned();
    let mut embedded = String::from("pub const FILES: &[(&str, &str)] = &[\n");
    for (folder, origin) in CRATES {
        let origin = workspace.join(origin);
        rerun_if_changed(&origin.join("src"));
        let mut files = vec![origin.join("Cargo.toml")];
        files.extend(files_below(&origin.join("src")));
        for file in files {
            let name = Path::new(folder).join(file.strip_prefix(&origin).expect("below"));
            embed(&mut embedded, &name, &file);
        }
        embed(&mut embedded, &Path::new(folder).join("LICENSE"), &workspace.join("LICENSE"));
    }
    embedded.push_str("];\n");
    constant(&mut embedded, "WORKSPACE", &workspace.join("Cargo.toml"));
    quiche(&mut embedded, &workspace.join("Cargo.lock"));
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("Cargo sets it"));
    fs::write(out.join("embedded.rs"), embedded).expect("OUT_DIR can be written");
}

fn embed(out: &mut String, name: &Path, file: &Path) {
    rerun_if_changed(file);
    writeln!(out, "({:?}, include_str!({file:?})),", name.display().to_string())
        .expect("to a string");
}

fn constant(out: &mut String, name: &str, file: &Path) {
    rerun_if_changed(file);
    writeln!(out, "pub const {name}: &str = include_str!({file:?});").expect("to a string");
}

/// The release of quiche that this workspace is locked to.
fn quiche(out: &mut String, lock: &Path) {
    rerun_if_changed(lock);
    let text = fs::read_to_string(lock).expect("the workspace has a lock file");
    let lock: toml::Table = text.parse().expect("Cargo has written it");
    let packages = lock["package"].as_array().expect("packages");
    let quiche: Vec<_> =
        packages.iter().filter(|package| package["name"].as_str() == Some("quiche")).collect();
    let [quiche] = quiche[..] else { panic!("one release of quiche is in use") };
    for (name, key) in [("QUICHE_VERSION", "version"), ("QUICHE_CHECKSUM", "checksum")] {
        let value = quiche[key].as_str().expect(key);
        writeln!(out, "pub const {name}: &str = {value:?};").expect("to a string");
    }
}

fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder of the workspace") {
        let path = entry.expect("readable").path();
        if path.is_dir() {
            files.extend(files_below(&path));
        } else {
            files.push(path);
        }
    }
    files.sort();
    files
}

fn rerun_if_changed(path: &Path) {
    println!("cargo:rerun-if-changed={}", path.display());
}
