//! docs/bbr-draft-tests.md has a row for each case of the draft's appendix, and the tests that it
//! names exist.

#![allow(clippy::unwrap_used)] // a document that cannot be read has failed the test

use std::fs;
use std::path::PathBuf;

const TABLE: &str = "docs/bbr-draft-tests.md";

/// Cases of the appendix, A.1 to this.
const CASES: usize = 22;

fn read(path: &str) -> String {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    fs::read_to_string(root.join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The rows of the table: a case, and the cell that names its tests.
fn rows(table: &str) -> Vec<(&str, &str)> {
    let rows = table.lines().filter(|line| line.starts_with("| A."));
    rows.map(|row| {
        let cells: Vec<_> = row.trim_matches('|').split('|').map(str::trim).collect();
        assert_eq!(cells.len(), 4, "case, what it tests, tests, and what differs: {row}");
        (cells[0], cells[2])
    })
    .collect()
}

/// The tests in a cell, each a file and a function: `file.rs` is followed by those of that file.
fn tests(cell: &str) -> Vec<(&str, &str)> {
    let mut file = None;
    let mut tests = Vec::new();
    for name in cell.split('`').skip(1).step_by(2) {
        if name.contains('.') {
            file = Some(name);
        } else {
            tests.push((file.unwrap_or_else(|| panic!("{name} has no file")), name));
        }
    }
    tests
}

/// The path of the file that a table calls so, as its list of files has it.
fn path<'a>(table: &'a str, file: &str) -> &'a str {
    let start = format!("- `{file}`: `");
    let found = table.lines().find_map(|line| line.strip_prefix(start.as_str()));
    let path = found.and_then(|rest| rest.split('`').next());
    path.unwrap_or_else(|| panic!("{TABLE} does not say where {file} is"))
}

/// Whether a source has a test of that name.
fn has_test(source: &str, name: &str) -> bool {
    let function = format!("fn {name}()");
    let lines: Vec<_> = source.lines().map(str::trim).collect();
    lines.iter().enumerate().any(|(at, line)| {
        let attributes = lines[..at].iter().rev().take_while(|line| line.starts_with("#["));
        line.starts_with(&function) && attributes.into_iter().any(|line| *line == "#[test]")
    })
}

#[test]
fn each_case_has_one_row_in_order() {
    let table = read(TABLE);
    let found: Vec<_> = rows(&table).iter().map(|(case, _)| (*case).to_owned()).collect();
    let expected: Vec<_> = (1..=CASES).map(|case| format!("A.{case}")).collect();
    assert_eq!(found, expected);
}

#[test]
fn each_test_that_the_table_names_exists_and_each_case_has_one() {
    let table = read(TABLE);
    for (case, cell) in rows(&table) {
        let tests = tests(cell);
        assert!(!tests.is_empty(), "{case} names no test");
        for (file, name) in tests {
            let source = read(path(&table, file));
            assert!(has_test(&source, name), "{case}: {file} has no test {name}");
        }
    }
}

#[test]
fn a_name_counts_only_with_a_file_and_a_function_only_with_its_attribute() {
    let row = "| A.1 | a thing | `a.rs` `one`, `two`; `b.rs` `three` | none |";
    let [(case, cell)] = rows(row)[..] else { panic!("one row") };
    assert_eq!(case, "A.1");
    assert_eq!(tests(cell), [("a.rs", "one"), ("a.rs", "two"), ("b.rs", "three")]);
    assert!(has_test("#[test]\n#[cfg(debug_assertions)]\nfn one() {\n}", "one"));
    assert!(!has_test("#[test]\nfn one_more() {\n}\nfn one() {\n}", "one"));
}
