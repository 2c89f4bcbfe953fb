//! The headers are what the sources say, and have all that quiche's have.

#![allow(clippy::unwrap_used)] // a test that cannot be set up has failed

use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

#[path = "../../../tacklib/tests/quiche_source/mod.rs"]
mod quiche_source;

/// What quiche's header has, and this library cannot: README.md says why.
const IMPOSSIBLE: [&str; 2] =
    ["quiche_conn_new_with_tls", "quiche_conn_new_with_tls_and_client_dcid"];

const INCLUDE_GUARD: &str = "QUICHE_H";
const HEADER: &str = "include/tacklib.h";
const COMPAT: &str = "include/quiche_compat.h";

#[test]
fn the_headers_are_up_to_date() {
    for (path, expected) in headers() {
        let found = fs::read_to_string(here().join(path)).unwrap_or_default();
        assert!(
            found == expected,
            "{path} is not what the sources say; `cargo test -p tack-ffi --test header -- --ignored` writes it"
        );
    }
}

#[test]
#[ignore = "writes the headers"]
fn write_the_headers() {
    for (path, expected) in headers() {
        fs::write(here().join(path), expected).unwrap();
    }
}

#[test]
fn the_header_has_all_functions_constants_and_fields_of_quiche() {
    let quiches = quiches_header();
    let header = fs::read_to_string(here().join(HEADER)).unwrap();
    let ours = words(&header);
    let missing: Vec<_> = names(&quiches)
        .into_iter()
        .filter(|name| !ours.contains(&renamed(name)[..]) && !IMPOSSIBLE.contains(&&name[..]))
        .collect();
    assert!(missing.is_empty(), "{HEADER} lacks {missing:?}");
    // Fields have no prefix; those of quiche's structs come behind a `;` in lines of their own.
    let fields = quiches.lines().filter(|line| line.starts_with("    ") && line.ends_with(';'));
    let missing: Vec<_> = fields
        .filter_map(|line| line.trim_end_matches(';').rsplit([' ', '*']).next())
        .filter(|field| {
            field.bytes().all(|b| b.is_ascii_lowercase() || b"_0123456789".contains(&b))
        })
        .filter(|field| !ours.contains(field))
        .collect();
    assert!(missing.is_empty(), "{HEADER} lacks the fields {missing:?}");
}

#[test]
fn all_functions_of_the_header_have_a_comment() {
    let header = fs::read_to_string(here().join(HEADER)).unwrap();
    let mut before = "";
    let mut functions = BTreeSet::new();
    for line in header.lines() {
        let is_first = line.contains(" tack_") || line.contains("*tack_");
        if is_first && line.contains('(') && !line.starts_with([' ', '/', '#']) {
            assert!(before.starts_with("//"), "{line}");
            assert!(functions.insert(line), "{line} is there twice");
        }
        before = line;
    }
    assert!(functions.len() > 190, "{} functions are found", functions.len());
}

#[test]
fn unsafe_blocks_are_in_two_files() {
    let mut files = Vec::new();
    sources(&here().join("src"), &mut files);
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        let name = file.file_name().unwrap().to_str().unwrap();
        if !["pointer.rs", "address.rs"].contains(&name) {
            let has_any = text.contains("unsafe {")
                || text.contains("unsafe fn")
                || text.contains("unsafe impl");
            assert!(!has_any, "{}", file.display());
        }
    }
}

fn headers() -> [(&'static str, String); 2] {
    [(HEADER, header()), (COMPAT, compat())]
}

/// The header that the sources make.
fn header() -> String {
    let mut header = Vec::new();
    cbindgen::Builder::new()
        .with_config(cbindgen::Config::from_file(here().join("cbindgen.toml")).unwrap())
        .with_src(here().join("src/lib.rs"))
        .generate()
        .unwrap()
        .write(&mut header);
    // The types of src/pointer.rs end in a star, which C sets beside the name.
    String::from_utf8(header).unwrap().replace(" * ", " *")
}

/// Names of quiche's, for a program that is compiled without a change.
fn compat() -> String {
    let mut text = String::from(
        "// quiche's names for tacklib.h: a program that was written for quiche.h is compiled with this file in its\n\
         // place. Made by tests/header.rs of tack-ffi from quiche's header.\n\n\
         #ifndef TACKLIB_QUICHE_COMPAT_H\n#define TACKLIB_QUICHE_COMPAT_H\n\n#include \"tacklib.h\"\n\n",
    );
    for name in names(&quiches_header()) {
        if !IMPOSSIBLE.contains(&&name[..]) {
            writeln!(text, "#define {name} {}", renamed(&name)).unwrap();
        }
    }
    text + "\n#endif\n"
}

fn renamed(name: &str) -> String {
    name.replacen("quiche_", "tack_", 1).replacen("QUICHE_", "TACK_", 1)
}

/// Names that begin with quiche's prefix.
fn names(header: &str) -> BTreeSet<String> {
    let code: String = header
        .lines()
        .map(|line| line.split("//").next().unwrap_or(""))
        .collect::<Vec<_>>()
        .join("\n");
    words(&code)
        .into_iter()
        .filter(|word| word.starts_with("quiche_") || word.starts_with("QUICHE_"))
        .filter(|word| *word != INCLUDE_GUARD)
        .map(str::to_owned)
        .collect()
}

fn words(text: &str) -> BTreeSet<&str> {
    text.split(|c: char| !c.is_alphanumeric() && c != '_').collect()
}

fn quiches_header() -> String {
    let source = quiche_source::quiche_source();
    fs::read_to_string(source.join("../include/quiche.h")).unwrap()
}

fn here() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn sources(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, files);
        } else {
            files.push(path);
        }
    }
}
