//! A server that ends by itself, when the client is done.

#![allow(clippy::unwrap_used, reason = "a test may fail anywhere")]
#![allow(missing_docs, reason = "nothing here is public")]

use std::fs;
use std::os::unix::fs::PermissionsExt;

use tack_interop::contract::Role;
use tack_interop::peers::{self, Places};
use tack_interop::verdict::Verdict;
use tack_interop::{cases, cell, run};

/// Plays both ends; the server ends a moment after the client has.
const ENDS_LATE: &str = r#"#!/bin/sh
if [ "$TACK_INTEROP_ROLE" = client ]; then
    "PROGRAM" "$@"
    code=$?
    touch "$TACK_INTEROP_RECEIVED/../done"
    exit $code
fi
exec 3<&0
"PROGRAM" "$@" <&3 &
while [ ! -e "$TACK_INTEROP_RECEIVED/../../client/done" ]; do
    sleep 0.01
done
sleep 0.03
exit 0
"#;

#[test]
fn a_server_that_ends_with_what_the_client_sent_last_fails_the_cell() {
    let directory = tempfile::tempdir().unwrap();
    let own = directory.path().join("ends-late");
    let script = ENDS_LATE.replace("PROGRAM", env!("CARGO_BIN_EXE_tack-interop"));
    fs::write(&own, script).unwrap();
    fs::set_permissions(&own, fs::Permissions::from_mode(0o755)).unwrap();
    let output = directory.path().to_owned();
    let places = Places { own, manifests: output.clone(), output };
    let cell = cell::Cell {
        peer: peers::select(&["quiche".to_owned()]).unwrap()[0],
        role: Role::Server,
        case: cases::by_name("handshake").unwrap(),
    };
    let outcome = run::run(&[cell], &places, 1, false, &|_| ()).unwrap();
    let Verdict::Fail { reason } = &outcome.reports[0].verdict else {
        panic!("{:?}", outcome.reports[0].verdict);
    };
    assert_eq!(reason, "the peer, the server, ended by itself with exit code 0");
}
