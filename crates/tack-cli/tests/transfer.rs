//! Files and directories, fetched and sent by the real program.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may panic")]

mod common;

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use common::{Served, assert_same_tree, noise, run, tree, write};

fn fill(dir: &Path) {
    write(&dir.join("empty"), b"");
    write(&dir.join("one"), b"1");
    write(&dir.join("big"), &noise(9_000_001, 1));
    write(&dir.join("a/b/c/d/e/f/g/deep"), &noise(70_000, 2));
    write(&dir.join("Ünïcödé/日本 語/🙂"), "unicode".as_bytes());
    write(&dir.join("spaces in/a name "), b"");
    write(&dir.join("-dash"), b"-");
    write(&dir.join("n".repeat(255)), b"long name");
    fs::create_dir(dir.join("void")).unwrap();
    for n in 0..40 {
        write(&dir.join(format!("many/{n}")), &noise(n * 997, 3));
    }
}

#[test]
fn a_tree_is_fetched_completely_and_then_found_equal() {
    let served = Served::new(&[]);
    fill(&served.path(""));
    let dest = served.outside("dest");
    let first = served.get_tree("", &dest).expect(0);
    assert_same_tree(&served.path(""), &dest);
    assert_eq!(first.number("files"), 48);
    assert_eq!(first.number("equal"), 0);
    assert_eq!(first.number("bytes"), first.number("transferred_bytes"));

    let second = served.get_tree("", &dest).expect(0);
    assert_eq!(second.number("files"), 48);
    assert_eq!(second.number("equal"), 48);
    assert_eq!(second.number("transferred_bytes"), 0);
}

#[test]
fn a_tree_is_sent_completely_and_then_found_equal() {
    let served = Served::new(&[]);
    let source = served.outside("source");
    fill(&source);
    served.send(&source, "in/box").expect(0);
    assert_same_tree(&source, &served.path("in/box/source"));
    let second = served.send(&source, "in/box").expect(0);
    assert_eq!(second.number("equal"), 48);
    assert_eq!(second.number("transferred_bytes"), 0);
}

#[test]
fn one_stream_at_a_time_and_plain_quic_work_as_well() {
    let served = Served::new(&["--profile", "off"]);
    fill(&served.path(""));
    let dest = served.outside("dest");
    let mut client = served.client("get");
    client
        .args(["-r", "--parallel", "1", "--profile", "off"])
        .arg(served.target(""))
        .arg(&dest);
    run(&mut client).expect(0);
    assert_same_tree(&served.path(""), &dest);
}

#[test]
fn a_file_goes_where_the_command_line_says() {
    let served = Served::new(&[]);
    served.write("dir/file", b"content");
    fs::create_dir(served.outside("existing")).unwrap();
    for (dest, expected) in [
        ("existing", "existing/file"),
        ("renamed", "renamed"),
        ("new/", "new/file"),
        ("x/y/z", "x/y/z"),
    ] {
        served.get("dir/file", Path::new(dest)).expect(0);
        assert_eq!(fs::read(served.outside(expected)).unwrap(), b"content", "{dest}");
    }
    run(served.client("get").arg(served.target("dir/file"))).expect(0);
    assert_eq!(fs::read(served.outside("file")).unwrap(), b"content");

    let source = served.outside("file");
    fs::create_dir(served.path("box")).unwrap();
    for (path, expected) in [
        ("", "file"),
        ("box", "box/file"),
        ("name", "name"),
        ("new/", "new/file"),
        ("x/y", "x/y"),
    ] {
        served.send(&source, path).expect(0);
        assert_eq!(fs::read(served.path(expected)).unwrap(), b"content", "{path}");
    }
    let large = served.outside("large");
    let content = noise(300_000, 1);
    fs::write(&large, &content).unwrap();
    for (path, expected) in [("box", "box/large"), ("dir", "dir/large"), ("as", "as")] {
        for moved in [300_000, 0] {
            let sent = served.send(&large, path).expect(0);
            assert_eq!(sent.number("transferred_bytes"), moved);
            assert_eq!(
                sent.summary["digests"][0]["path"].as_str().unwrap_or(expected),
                expected
            );
            assert!(fs::read(served.path(expected)).unwrap() == content, "{path}");
        }
    }
}

#[test]
fn time_of_modification_and_executability_are_kept() {
    let served = Served::new(&[]);
    served.write("run.sh", b"#!/bin/sh");
    let permissions = fs::Permissions::from_mode(0o755);
    fs::set_permissions(served.path("run.sh"), permissions).unwrap();
    let dest = served.outside("run.sh");
    served.get("run.sh", &dest).expect(0);
    let (from, to) = (served.path("run.sh").metadata().unwrap(), dest.metadata().unwrap());
    assert_eq!(from.modified().unwrap(), to.modified().unwrap());
    assert_eq!(to.permissions().mode() & 0o111, from.permissions().mode() & 0o111);
}

#[test]
fn a_private_file_stays_private_in_both_directions() {
    let served = Served::new(&[]);
    let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
    for bits in [0o600, 0o700, 0o640] {
        served.write("file", b"private");
        fs::set_permissions(served.path("file"), fs::Permissions::from_mode(bits)).unwrap();
        served.get("file", Path::new("copy")).expect(0);
        assert_eq!(mode(&served.outside("copy")) & !bits, 0);
        served.send(Path::new("copy"), "back").expect(0);
        assert_eq!(mode(&served.path("back")) & !bits, 0);
    }
    // What the file it replaces did not allow is not allowed by the new one either.
    fs::set_permissions(served.path("file"), fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(served.outside("copy"), "longer than before").unwrap();
    fs::set_permissions(served.outside("copy"), fs::Permissions::from_mode(0o600)).unwrap();
    served.get("file", Path::new("copy")).expect(0);
    assert_eq!(mode(&served.outside("copy")), 0o600);
}

#[test]
fn an_existing_file_is_replaced_by_the_new_version() {
    let served = Served::new(&[]);
    let dest = served.outside("file");
    for version in [noise(500_000, 1), noise(500_000, 2), noise(10, 3)] {
        served.write("file", &version);
        served.get("file", &dest).expect(0);
        assert!(fs::read(&dest).unwrap() == version);
    }
}

#[test]
fn a_name_that_is_not_utf8_is_reported_and_the_others_are_sent() {
    let served = Served::new(&[]);
    let source = served.outside("source");
    write(&source.join("good"), b"good");
    write(&source.join(OsStr::from_bytes(b"bad\xff")), b"bad");
    symlink("good", source.join("link")).unwrap();
    let finished = served.send(&source, "").expect(5);
    assert!(finished.errors.contains("bad\u{fffd}"), "{}", finished.errors);
    assert!(finished.errors.contains("link: skipped"), "{}", finished.errors);
    assert_eq!(finished.number("failed"), 1);
    assert_eq!(finished.number("skipped"), 1);
    assert_eq!(tree(&served.path("source")).len(), 1);
    assert_eq!(fs::read(served.path("source/good")).unwrap(), b"good");

    served.write(OsStr::from_bytes(b"source/bad\xff").to_string_lossy().as_ref(), b"");
    fs::write(served.path("source").join(OsStr::from_bytes(b"bad\xfe")), "").unwrap();
    let finished = served.get_tree("source", Path::new("back")).expect(6);
    assert!(finished.errors.contains("not valid UTF-8"), "{}", finished.errors);
    assert_eq!(fs::read(served.outside("back/good")).unwrap(), b"good");
}

#[test]
fn a_name_that_is_kept_for_unfinished_transfers_is_not_passed_over_in_silence() {
    let served = Served::new(&[]);
    let source = served.outside("source");
    write(&source.join(".notes.tack-part"), b"a file of the user's");
    write(&source.join("good"), b"good");
    let finished = served.send(&source, "").expect(0);
    assert!(finished.errors.contains(".notes.tack-part: skipped"), "{}", finished.errors);
    assert_eq!((finished.number("failed"), finished.number("skipped")), (0, 1));
    assert_eq!(finished.number("files"), 1);
    served.send(&source.join(".notes.tack-part"), "").expect(5);
    // Named alone it is a failure; in a directory it is what an interrupted transfer has left, most likely.
    write(&served.path("box/.notes.tack-part"), b"unfinished");
    let finished = served.get_tree("box", Path::new("back")).expect(0);
    assert!(finished.errors.contains(".notes.tack-part: skipped"), "{}", finished.errors);
    assert_eq!(finished.number("skipped"), 1);
}

#[test]
fn missing_files_on_either_side_have_their_own_exit_codes() {
    let served = Served::new(&[]);
    let finished = served.get("none", Path::new("x")).expect(6);
    assert!(finished.errors.contains("no such file"), "{}", finished.errors);
    served.send(Path::new("none"), "").expect(5);
}

#[test]
fn several_clients_are_served_at_once() {
    let served = Served::new(&[]);
    served.write("file", &noise(3_000_000, 1));
    std::thread::scope(|scope| {
        for n in 0..4 {
            let served = &served;
            scope.spawn(move || {
                let dest = served.outside(&format!("copy{n}"));
                served.get("file", &dest).expect(0);
                served.send(&dest, "").expect(0);
                assert!(
                    fs::read(served.path(&format!("copy{n}"))).unwrap() == noise(3_000_000, 1)
                );
            });
        }
    });
}

#[test]
fn the_help_names_the_exit_codes_and_gives_examples() {
    let help = std::process::Command::new(common::TACK).arg("--help").output().unwrap();
    let text = String::from_utf8(help.stdout).unwrap();
    assert!(text.contains("Exit codes:") && text.contains("Examples:"), "{text}");
    let wrong = std::process::Command::new(common::TACK).arg("get").output().unwrap();
    assert_eq!(wrong.status.code(), Some(2));
}

#[test]
fn a_file_that_is_equal_gets_no_wider_than_that_of_the_other_end() {
    for large in [false, true] {
        let served = Served::new(&[]);
        let content = noise(if large { 300_000 } else { 3 }, 1);
        served.write("file", &content);
        let here = served.outside("file");
        write(&here, &content);
        for (path, mode) in [(served.path("file"), 0o600), (here.clone(), 0o644)] {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        }
        let same = served.get("file", &here).expect(0);
        assert_eq!(same.number("transferred_bytes"), 0);
        assert_eq!(here.metadata().unwrap().permissions().mode() & 0o777, 0o600, "{large}");
    }
}

#[test]
fn a_file_that_is_written_to_meanwhile_arrives_as_it_was_at_the_start() {
    let served = Served::new(&[]);
    for (size, sends) in [(3_000_000, true), (3_000_000, false), (50_000, true)] {
        let start = noise(size, 2);
        let (source, dest) = if sends {
            (served.outside("log"), served.path("got"))
        } else {
            (served.path("log"), served.outside("got"))
        };
        write(&source, &start);
        let stop = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                use std::io::Write;
                let mut log = fs::File::options().append(true).open(&source).unwrap();
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    log.write_all(b"one more line\n").unwrap();
                    std::thread::sleep(std::time::Duration::from_micros(200));
                }
            });
            let ended =
                if sends { served.send(&source, "got") } else { served.get("log", &dest) };
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
            ended.expect(0);
        });
        let got = fs::read(&dest).unwrap();
        assert!(got.starts_with(&start), "{size} {sends}");
        assert!(fs::read(&source).unwrap().starts_with(&got), "{size} {sends}");
        fs::remove_file(&dest).unwrap();
    }
}

#[test]
fn a_single_file_that_is_there_with_its_size_and_time_is_not_read() {
    let served = Served::new(&[]);
    let (content, other) = (vec![1; 100_000], vec![2; 100_000]);
    served.write("file", &content);
    let get = |options: &[&str]| {
        let mut get = served.client("get");
        run(get.args(options).arg(served.target("file")).arg(".")).expect(0)
    };
    assert_eq!(get(&[]).number("transferred_bytes"), 100_000);
    // Of the same size and time, which is all that is looked at.
    let here = served.outside("file");
    let modified = here.metadata().unwrap().modified().unwrap();
    fs::write(&here, &other).unwrap();
    fs::File::options().write(true).open(&here).unwrap().set_modified(modified).unwrap();
    let again = get(&[]);
    assert_eq!((again.number("transferred_bytes"), again.number("equal")), (0, 1));
    assert!(again.summary["digests"][0]["blake3"].is_null(), "{}", again.summary);
    assert_eq!(fs::read(&here).unwrap(), other);
    assert_ne!(get(&["--checksum"]).number("transferred_bytes"), 0);
    assert_eq!(fs::read(&here).unwrap(), content);
    let compared = get(&["--checksum"]);
    assert_eq!((compared.number("transferred_bytes"), compared.number("equal")), (0, 1));
    assert!(compared.summary["digests"][0]["blake3"].is_string());
}
