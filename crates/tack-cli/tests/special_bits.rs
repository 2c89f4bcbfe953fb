//! What runs as its owner or its group at the destination does not, if the source's does not.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may panic")]

mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use common::{Served, run, write};

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
}

fn mode(path: &Path) -> u32 {
    path.metadata().unwrap().permissions().mode() & 0o7777
}

#[test]
fn a_file_of_the_same_size_and_time_loses_what_the_source_does_not_have() {
    let served = Served::new(&[]);
    for (sends, name) in [(true, "sent"), (false, "got")] {
        let (here, there) = (served.outside(name), served.path(name));
        let (source, dest) = if sends { (&here, &there) } else { (&there, &here) };
        for name in ["tree/file", "alone"] {
            write(&source.join(name), b"content");
            set_mode(&source.join(name), 0o755);
        }
        let transfer = |what: &str, arguments: &[&str]| {
            let mut client = served.client(if sends { "send" } else { "get" });
            client.arg("--preserve").args(arguments);
            if sends {
                client.arg(here.join(what)).arg(served.target(&format!("{name}/")));
            } else {
                client
                    .arg("-r")
                    .arg(served.target(&format!("{name}/{what}")))
                    .arg(here.join(what));
            }
            run(&mut client).expect(0)
        };
        for (what, file) in [("tree", "tree/file"), ("alone", "alone")] {
            transfer(what, &[]);
            set_mode(&dest.join(file), 0o6755);
            let planned = transfer(what, &["-n"]);
            let changes = planned.summary["plan"]["changes"].as_array().unwrap();
            assert_eq!(changes.len(), 1, "{} {}", planned.summary, planned.errors);
            assert_eq!(changes[0]["change"], "attributes");
            assert_eq!(mode(&dest.join(file)), 0o6755);
            transfer(what, &[]);
            assert_eq!(mode(&dest.join(file)), 0o755, "{name} {file}");
            assert!(transfer(what, &["-n"]).summary["plan"]["changes"][0].is_null());
        }
    }
}
