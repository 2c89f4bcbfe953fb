//! docs/quiche-api.md classifies all of quiche's interface, and holds for the release in use and for
//! what tacklib defines.

#![allow(clippy::unwrap_used)] // a test that cannot be set up has failed

mod quiche_source;

use std::collections::BTreeMap;

use quiche_source::*;
use tack_virtual as _; // what build.rs has the linker look for

/// How the table classifies an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Shadowed,
    Safe,
}

#[test]
fn every_item_of_quiches_interface_is_classified_and_none_is_gone() {
    let (table, quiche) = (table(), quiche_items());
    let unclassified: Vec<_> =
        quiche.iter().filter(|name| !table.contains_key(*name)).collect();
    assert!(unclassified.is_empty(), "docs/quiche-api.md lacks {unclassified:?}");
    let gone: Vec<_> = table.keys().filter(|name| !quiche.contains(*name)).collect();
    assert!(
        gone.is_empty(),
        "quiche has no {gone:?} any more: take it out of docs/quiche-api.md"
    );
}

#[test]
fn what_is_shadowed_is_what_tacklib_defines() {
    let tacklib = tacklib_items();
    for (name, kind) in table() {
        // A field is shadowed by the method that returns its struct.
        let definer = match name.split_once('.') {
            Some(("Stats", _)) => "stats",
            Some(("PathStats", _)) => "path_stats",
            _ => &name,
        };
        let is_defined = tacklib.contains(definer);
        match kind {
            Kind::Shadowed => assert!(is_defined, "tacklib does not define {name}"),
            Kind::Safe if name.contains("Stats.") => {}
            Kind::Safe => assert!(!is_defined, "tacklib defines {name}: it is shadowed"),
        }
    }
}

#[test]
fn the_parser_finds_what_is_certainly_there() {
    let quiche = quiche_items();
    let known =
        ["connect", "stream_send", "as_mut", "Config.log_keys", "Stats.recv", "PathStats.cwnd"];
    for name in known {
        assert!(quiche.contains(name), "{name}");
    }
    for private in ["new", "do_handshake", "update_tx_cap"] {
        assert!(!quiche.contains(private), "{private}");
    }
    assert!(quiche.len() > 150, "{}", quiche.len());
    assert!(tacklib_items().contains("stream_send"));
    assert!(!tacklib_items().contains("send_body"), "that is HTTP/3's");
}

/// The rows of the table.
fn table() -> BTreeMap<String, Kind> {
    let text = read(&manifest_dir().join("../docs/quiche-api.md"));
    let mut table = BTreeMap::new();
    for row in text.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<_> = row.split('|').map(str::trim).collect();
        let [_, name, kind, reason, _] = cells[..] else {
            // The kinds are explained in a table of two columns.
            assert_eq!(cells.len(), 4, "{row}");
            continue;
        };
        let kind = match kind {
            "shadowed" => Kind::Shadowed,
            "safe" => Kind::Safe,
            other => panic!("{name} is {other:?}"),
        };
        assert!(kind == Kind::Shadowed || !reason.is_empty(), "{name} has no reason");
        let before = table.insert(name.trim_matches('`').to_owned(), kind);
        assert!(before.is_none(), "{name} is there twice");
    }
    table
}

fn quiche_items() -> Items {
    let source = quiche_source();
    let lib = read(&source.join("lib.rs"));
    let mut items = functions(&lib);
    items.extend(methods(&lib));
    items.extend(of_config(&lib));
    items.extend(fields(&lib, "Stats"));
    items.extend(fields(&read(&source.join("path.rs")), "PathStats"));
    items
}

/// Methods of the configuration, as `Config.method`.
fn of_config(text: &str) -> Items {
    methods_of(text, "Config").into_iter().map(|name| format!("Config.{name}")).collect()
}

fn tacklib_items() -> Items {
    let mut items = Items::new();
    let mut folders = vec![manifest_dir().join("src")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            // The connection of HTTP/3 is another one.
            if path.file_stem().is_some_and(|stem| stem == "h3") {
                continue;
            }
            if path.is_dir() {
                folders.push(path);
            } else {
                let text = read(&path);
                items.extend(functions(&text));
                items.extend(methods(&text));
                items.extend(of_config(&text));
            }
        }
    }
    items
}
