//! A program that names all of quiche's interface compiles against quiche, and unchanged against tack-quiche.

#![allow(clippy::unwrap_used)] // a test that cannot be set up has failed
#![allow(missing_docs, unused_qualifications)] // of the program
#![allow(clippy::too_many_lines, clippy::type_complexity)] // it is a list of signatures

#[path = "../../../tacklib/tests/quiche_source/mod.rs"]
mod quiche_source;

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Instant;

use quiche_source::*;

/// The program as it was written.
mod before {
    use ::quiche;

    include!("surface/program.rs");
}

/// The program with `quiche = { package = "tack-quiche", … }`.
mod after {
    use tack_quiche as quiche;

    include!("surface/program.rs");
}

const PROGRAM: &str = include_str!("surface/program.rs");

/// What is behind quiche's feature `internal`, for quiche's own tests and experiments.
const INTERNAL: [&str; 3] =
    ["BbrRttJumpDetector", "set_custom_bbr_params", "set_custom_bbr_settings_in_handshake"];

/// A client without a peer.
macro_rules! client {
    ($quiche:ident) => {{
        let mut config = $quiche::Config::new($quiche::PROTOCOL_VERSION).unwrap();
        config.set_application_protos(&[b"test"]).unwrap();
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 1));
        let scid = $quiche::ConnectionId::from_ref(&[7; 16]);
        $quiche::connect(None, &scid, address, address, &mut config).unwrap()
    }};
}

#[test]
#[allow(clippy::disallowed_methods)] // a release time is compared with a clock's reading
fn the_program_compiles_and_runs_against_both() {
    let now = Instant::now();
    before::functions();
    after::functions();
    before::configuration();
    after::configuration();
    before::methods();
    after::methods();
    before::in_handshake();
    after::in_handshake();
    before::http3();
    after::http3();
    assert!(before::types() > 0 && after::types() > 0);
    let (mut plain, mut tack) = (client!(quiche), client!(tack_quiche));
    // The id that both were given.
    assert_eq!(before::iterators(&mut plain, now), 16);
    assert_eq!(after::iterators(&mut tack, now), 16);
}

#[test]
fn the_program_names_all_that_quiche_has() {
    let words: BTreeSet<&str> =
        PROGRAM.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
    let source = quiche_source();
    let (lib, http3) = (read(&source.join("lib.rs")), read(&source.join("h3/mod.rs")));
    let http3 = http3.split("pub mod testing").next().unwrap();
    let mut items = functions(&lib);
    for (text, name) in
        [(&lib[..], "Connection"), (&lib, "Config"), (http3, "Connection"), (http3, "Config")]
    {
        let methods = methods_of(text, name);
        assert!(methods.len() > 5, "{name} has methods");
        items.extend(methods);
    }
    let types = exported_types(&lib);
    assert!(types.contains("PathEvent") && types.contains("RecvInfo"), "{types:?}");
    items.extend(types);
    let missing: Vec<_> = items
        .iter()
        .filter(|item| !words.contains(&item[..]) && !INTERNAL.contains(&&item[..]))
        .collect();
    assert!(missing.is_empty(), "surface/program.rs lacks {missing:?}");
}

/// Types and constants that a crate's root exports.
fn exported_types(lib: &str) -> Items {
    let mut items = Items::new();
    for line in lib.lines() {
        let Some(exported) = line.strip_prefix("pub ") else { continue };
        let mut words =
            exported.split([' ', ';', ':', '<', '(']).filter(|word| !word.is_empty());
        match words.next() {
            Some("use") => items.extend(words.next_back().map(str::to_owned)),
            Some("struct" | "enum" | "type" | "trait" | "const") => {
                items.extend(words.next().map(str::to_owned));
            }
            _ => {}
        }
    }
    items
}
