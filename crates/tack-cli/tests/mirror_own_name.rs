//! A mirror without a destination, which goes into a directory of the source's name.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may panic")]

mod common;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use common::{Finished, Served, run, write};

/// Mirrors the served directory `home` in `here`, with the home `served.outside("base/home")`.
fn mirror(served: &Served, here: &Path, more: &[&str]) -> Finished {
    let mut client = served.client("get");
    client.args(["-r", "--delete"]).args(more).arg(served.target("home"));
    run(client.current_dir(here).env("HOME", served.outside("base/home")))
}

fn assert_refused(served: &Served, here: &Path) {
    for more in [&[][..], &["-n"]] {
        let refused = mirror(served, here, more).expect(2);
        assert!(refused.errors.contains("./home, which "), "{}", refused.errors);
        assert!(refused.errors.contains("name a directory"), "{}", refused.errors);
        assert_eq!(refused.number("exit_code"), 2);
        let kept = fs::read(served.outside("base/home/docs/mine")).unwrap();
        assert_eq!(kept, b"mine");
        assert!(!served.outside("base/home/theirs").exists());
    }
}

fn served() -> Served {
    let served = Served::new(&[]);
    served.write("home/theirs", b"theirs");
    write(&served.outside("base/home/docs/mine"), b"mine");
    served
}

#[test]
fn a_mirror_called_as_the_home_never_empties_it() {
    let served = served();
    assert_refused(&served, &served.outside("base"));
}

#[test]
fn a_link_of_the_sources_name_never_leads_a_mirror_to_the_home_or_the_current_directory() {
    let served = served();
    let here = served.outside("elsewhere");
    fs::create_dir(&here).unwrap();
    for to in [served.outside("base/home"), served.outside("base"), here.clone()] {
        symlink(to, here.join("home")).unwrap();
        write(&here.join("mine"), b"mine");
        assert_refused(&served, &here);
        assert!(here.join("mine").exists());
        fs::remove_file(here.join("home")).unwrap();
    }
}

#[test]
fn a_mirror_elsewhere_takes_the_sources_name_as_before() {
    let served = served();
    let here = served.outside("elsewhere");
    write(&here.join("home/gone"), b"gone");
    write(&here.join("mine"), b"mine");
    assert_eq!(mirror(&served, &here, &[]).expect(0).number("deleted"), 1);
    assert!(here.join("home/theirs").exists() && here.join("mine").exists());
}

#[test]
fn a_path_that_leads_out_of_a_missing_directory_is_refused_and_nothing_is_made() {
    let served = served();
    let (base, home) = (served.outside("base"), served.outside("base/home"));
    let here = home.join("here");
    write(&here.join("mine"), b"mine");
    let before = common::tree(&base);
    let below_home = home.join("x/..");
    for dest in ["x/..", "./x/../", "../x/..", "x/y/../..", below_home.to_str().unwrap()] {
        for options in [&["--delete"][..], &["--delete", "-n"], &[], &["-n"]] {
            let mut client = served.client("get");
            client.arg("-r").args(options).arg(served.target("home")).arg(dest);
            let refused = run(client.current_dir(&here).env("HOME", &home)).expect(2);
            assert!(refused.errors.contains(".. leads nowhere"), "{dest}: {}", refused.errors);
            assert_eq!(common::tree(&base), before, "{dest} {options:?}");
        }
        // Before ssh is started.
        let mut copy = std::process::Command::new(common::TACK);
        copy.args(["copy", "--json", "-r", "--delete", "host:home", dest]);
        run(copy.current_dir(&here).env("TACK_CONFIG", "")).expect(2);
        assert_eq!(common::tree(&base), before, "{dest}");
    }
}

#[test]
fn without_the_variable_home_the_home_is_that_of_the_user() {
    let served = served();
    let home = std::process::Command::new("sh")
        .args(["-c", "getent passwd $(id -u) | cut -d: -f6"])
        .output()
        .unwrap();
    let home = String::from_utf8(home.stdout).unwrap();
    for variable in [None, Some("")] {
        let mut client = served.client("get");
        client.args(["-r", "--delete", "-n", &served.target("home"), home.trim()]);
        client.env_remove("HOME").envs(variable.map(|home| ("HOME", home)));
        let refused = run(&mut client).expect(2);
        assert!(refused.errors.contains("is your home directory"), "{}", refused.errors);
    }
}
