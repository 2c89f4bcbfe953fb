//! What the libraries show to the programs that load them or are linked with them.

use std::collections::BTreeSet;
use std::process::Command;

use crate::skip;
use crate::toolchain::{has, output, prefix};

#[test]
fn the_shared_library_exports_the_functions_of_the_header_and_nothing_else() {
    if !has("nm") {
        return skip("there is no nm on this machine");
    }
    let library = prefix().join("lib/libtacklib.so");
    let symbols = output(Command::new("nm").args(["-D", "--defined-only"]).arg(library));
    let exported: BTreeSet<&str> =
        symbols.lines().filter_map(|line| line.split_whitespace().last()).collect();
    let header = header();
    let mut expected: BTreeSet<String> =
        functions(&header).map(|name| format!("{name}@@TACKLIB_0")).collect();
    // The version itself is a symbol, too.
    expected.insert("TACKLIB_0".into());
    assert_eq!(exported, expected.iter().map(String::as_str).collect());
}

#[test]
fn the_static_library_exports_the_functions_of_the_header_and_nothing_else() {
    if !has("nm") {
        return skip("there is no nm on this machine");
    }
    let library = prefix().join("lib/libtacklib.a");
    let symbols = output(Command::new("nm").args(["-g", "--defined-only"]).arg(library));
    let exported: BTreeSet<&str> = symbols
        .lines()
        .filter(|line| line.split_whitespace().count() == 3)
        .filter_map(|line| line.split_whitespace().last())
        // Only renamed by some versions of objcopy.
        .filter(|name| !name.starts_with("tacklib_internal_"))
        .collect();
    assert_eq!(exported, functions(&header()).collect());
}

/// The installed header.
fn header() -> String {
    let header = std::fs::read_to_string(prefix().join("include/tacklib.h")).unwrap();
    assert!(functions(&header).count() > 190, "{header}");
    header
}

/// Functions that a header declares.
fn functions(header: &str) -> impl Iterator<Item = &str> {
    let code = header.lines().filter(|line| !line.trim_start().starts_with(['/', '#']));
    code.filter_map(|line| {
        let before = line.split_once('(')?.0;
        let name = before.rsplit([' ', '*']).next()?;
        (name.starts_with("tack_") && !line.starts_with(' ')).then_some(name)
    })
}

#[test]
fn programs_ask_for_the_library_by_its_major_version() {
    if !has("objdump") {
        return skip("there is no objdump on this machine");
    }
    let library = prefix().join("lib/libtacklib.so");
    let headers = output(Command::new("objdump").arg("-p").arg(library));
    let soname = headers.lines().find_map(|line| line.trim().strip_prefix("SONAME"));
    let major = env!("CARGO_PKG_VERSION_MAJOR");
    assert_eq!(soname.map(str::trim), Some(&format!("libtacklib.so.{major}")[..]));
    assert!(prefix().join(format!("lib/libtacklib.so.{major}")).exists());
    let version = Command::new("pkg-config")
        .args(["--modversion", "tacklib"])
        .env("PKG_CONFIG_PATH", prefix().join("lib/pkgconfig"))
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&version.stdout).trim(), env!("CARGO_PKG_VERSION"));
}
