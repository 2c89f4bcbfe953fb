//! What a command leaves out may be gone when it has connected again.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may panic")]

mod common;

use std::fs;
use std::os::unix::fs::symlink;
use std::process::{Command, Stdio};
use std::time::Duration;

use common::{Served, TACK, finish, noise, wait_until, write};

#[test]
fn what_is_left_out_is_not_missed() {
    for sends in [false, true] {
        let mut served = Served::new(&[]);
        let (mut source, mut dest) = (served.path("tree"), served.outside("tree"));
        let mut client = served.client(if sends { "send" } else { "get" });
        // Slow enough for the server to be ended in the middle.
        client.args(["--bwlimit", "2M", "--exclude", "*.log", "--exclude", "/cache"]);
        if sends {
            std::mem::swap(&mut source, &mut dest);
            client.arg("tree").arg(served.target(""));
        } else {
            client.arg("-r").arg(served.target("tree")).arg("tree");
        }
        write(&source.join("file"), &noise(4_000_000, 1));
        let left_out = ["a.log", "cache/file", ".x.tack-part", "link"];
        for name in &left_out[..3] {
            write(&source.join(name), b"left out");
        }
        symlink("nowhere", source.join("link")).unwrap();
        let child = client.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let part = dest.join(".file.tack-part");
        wait_until(|| part.metadata().is_ok_and(|part| part.len() > 300_000));
        served.child.kill().unwrap();
        served.child.wait().unwrap();
        for name in left_out {
            fs::remove_file(source.join(name)).unwrap();
        }
        fs::remove_dir(source.join("cache")).unwrap();
        // Long enough for a client to find nobody there.
        std::thread::sleep(Duration::from_secs(1));
        let mut program = Command::new(TACK);
        program.args(["serve", "--write", "--quiet", "--no-token"]);
        program.args(["--listen", &served.address, "--identity"]);
        program.arg(served.outside("identity")).arg(served.path(""));
        served.child = program.stdout(Stdio::null()).spawn().unwrap();
        let finished = finish(child).expect(0);
        assert!(finished.errors.contains("trying to connect again"), "{}", finished.errors);
    }
}
