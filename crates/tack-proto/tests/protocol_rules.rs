//! docs/protocol.md and the sources name the same rules: each rule is followed by code or held
//! by a test that names it, and each name is that of a rule.

#![allow(clippy::unwrap_used)] // a source that cannot be read has failed the test

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// What implements the protocol, from the workspace's root.
const SOURCES: [&str; 5] = [
    "crates/tack-proto/src",
    "crates/tack-proto/tests",
    "crates/tack-packet/src",
    "tacklib/src",
    "tacklib/tests",
];

/// This file speaks of rules that are none.
const THIS: &str = "protocol_rules.rs";

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The ids in a text: TACK, a section, and a number, with hyphens between them.
fn ids(text: &str) -> impl Iterator<Item = &str> {
    text.match_indices("TACK-").filter_map(|(start, prefix)| {
        let rest = &text[start + prefix.len()..];
        let is_section = |c: char| c.is_ascii_digit() || c == '.';
        let section = rest.find(|c| !is_section(c)).filter(|len| *len > 0)?;
        let number = rest[section..].strip_prefix('-')?;
        let digits = number.find(|c: char| !c.is_ascii_digit()).unwrap_or(number.len());
        let end = start + prefix.len() + section + 1 + digits;
        (digits > 0).then(|| &text[start..end])
    })
}

/// Where each rule is defined: ids in bold print.
fn rules(protocol: &str) -> Vec<&str> {
    let bold = protocol.match_indices("**TACK-");
    bold.filter_map(|(at, _)| ids(&protocol[at..]).next()).collect()
}

fn rust_files(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            rust_files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs")
            && !path.ends_with(THIS)
        {
            found.push(path);
        }
    }
}

/// The rules that the sources name, with a file that does.
fn cited() -> BTreeMap<String, PathBuf> {
    let mut files = Vec::new();
    for directory in SOURCES {
        rust_files(&root().join(directory), &mut files);
    }
    let mut cited = BTreeMap::new();
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        for id in ids(&text) {
            cited.insert(id.to_owned(), file.clone());
        }
    }
    cited
}

#[test]
fn every_rule_is_named_by_code_or_a_test_and_every_name_is_a_rule() {
    let protocol = fs::read_to_string(root().join("docs/protocol.md")).unwrap();
    let rules: BTreeSet<_> = rules(&protocol).into_iter().collect();
    let cited = cited();
    let missing: Vec<_> = rules.iter().filter(|rule| !cited.contains_key(**rule)).collect();
    assert!(missing.is_empty(), "neither code nor a test names {missing:?}");
    let unknown: Vec<_> = cited.iter().filter(|(id, _)| !rules.contains(id.as_str())).collect();
    assert!(unknown.is_empty(), "docs/protocol.md has no such rules: {unknown:?}");
}

#[test]
fn no_two_rules_have_the_same_id_and_each_stands_in_its_section() {
    let protocol = fs::read_to_string(root().join("docs/protocol.md")).unwrap();
    let mut seen = BTreeSet::new();
    let mut section = String::new();
    for line in protocol.lines() {
        if let Some(heading) = line.strip_prefix("##") {
            let number = heading.trim_start_matches('#').trim_start();
            section = number.split(' ').next().unwrap().to_owned();
        }
        for rule in rules(line) {
            assert!(seen.insert(rule.to_owned()), "{rule} comes twice");
            let of = rule.strip_prefix("TACK-").and_then(|id| id.split('-').next());
            assert_eq!(of, Some(section.as_str()), "{rule} stands in another section");
        }
    }
    assert!(seen.len() > 100, "only {} rules found", seen.len());
}

#[test]
fn an_id_ends_with_its_number() {
    let text = "TACK-4.2-1, TACK-7-10: not TACK-based, TACK-4.2, TACK-, TACK-1-";
    assert_eq!(ids(text).collect::<Vec<_>>(), ["TACK-4.2-1", "TACK-7-10"]);
    assert_eq!(
        rules("**TACK-1-1** as TACK-1-2 and **TACK-1-3 Title.**"),
        ["TACK-1-1", "TACK-1-3"]
    );
}
