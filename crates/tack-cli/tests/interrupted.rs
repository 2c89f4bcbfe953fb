//! Kills, full disks, rivals and vanished servers.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may panic")]

mod common;

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::UdpSocket;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

use common::{Served, TACK, finish, noise, run, signal, tree, wait_until, write};
use nix::sys::signal::Signal;
use nix::unistd::Pid;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use tack_endpoint::{CloseReason, Endpoint, EndpointConfig, Event};
use tack_transfer::quic::{self, Verify};

const SIZE: usize = 6_000_000;
/// Slow enough to be killed in the middle.
const RATE: &str = "4M";
const SEED: u64 = 20_260_401;

/// Kills `client` after a random time, ten times; `check` looks at what is there each time.
fn kill_ten_times(mut client: impl FnMut() -> Command, mut check: impl FnMut()) {
    let mut random = Pcg64Mcg::seed_from_u64(SEED);
    let mut killed = 0;
    for _ in 0..10 {
        let mut child = client().stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let pause = Duration::from_millis(random.random_range(20..270));
        std::thread::sleep(pause);
        killed += u32::from(child.try_wait().unwrap().is_none());
        child.kill().unwrap();
        child.wait().unwrap();
        check();
    }
    assert!(killed > 3, "most clients should have been killed before their end (seed {SEED})");
}

#[test]
fn a_fetch_that_is_killed_again_and_again_resumes_and_ends_right() {
    let served = Served::new(&[]);
    let content = noise(SIZE, SEED);
    served.write("file", &content);
    let dest = served.outside("dest");
    let mut longest = 0;
    let command = || {
        let mut client = served.client("get");
        client.args(["--write-limit", RATE]).arg(served.target("file")).arg("dest");
        client
    };
    kill_ten_times(command, || {
        if dest.exists() {
            assert!(fs::read(&dest).unwrap() == content, "seed {SEED}");
        } else if let Ok(part) = fs::read(served.outside(".dest.tack-part")) {
            assert!(content.starts_with(&part), "seed {SEED}");
            assert!(part.len() >= longest, "a resumed part does not shrink (seed {SEED})");
            longest = part.len();
        }
    });
    // On a busy machine none of these may have lived long enough to leave something to resume.
    let mut child = command().stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let part = served.outside(".dest.tack-part");
    wait_until(|| dest.exists() || part.metadata().is_ok_and(|part| part.len() > 1_000_000));
    child.kill().unwrap();
    child.wait().unwrap();
    let finished = run(&mut command()).expect(0);
    assert!(fs::read(&dest).unwrap() == content, "seed {SEED}");
    assert!(finished.number("resumed_bytes") > 0 || finished.number("equal") == 1);
    assert!(!served.outside(".dest.tack-part").exists());
}

/// What there is below a directory: content of files, times of everything.
fn with_times(dir: &Path) -> Vec<(PathBuf, Option<Vec<u8>>, SystemTime)> {
    let entries = tree(dir).into_iter();
    let timed = entries.map(|(path, content)| {
        let modified = dir.join(&path).metadata().unwrap().modified().unwrap();
        (path, content, modified)
    });
    timed.collect()
}

#[test]
fn a_sender_of_a_tree_that_was_killed_changes_nothing_behind_the_next_run() {
    const FILES: u32 = 100;
    let served = Served::new(&[]);
    let source = served.outside("tree");
    let mut random = Pcg64Mcg::seed_from_u64(SEED + 9);
    let path = |number: u32| source.join(format!("d{}/f{number}", number % 10));
    for number in 0..FILES {
        write(&path(number), &noise(5000, u64::from(number)));
    }
    let command = || {
        let mut client = served.client("send");
        client.args(["--preserve", "--delete"]).arg("tree").arg(served.target(""));
        client
    };
    for round in 0..10 {
        for _ in 0..60 {
            let size = [0, 100, 20_000, 300_000][random.random_range(0..4)];
            write(&path(random.random_range(0..FILES)), &noise(size, random.random()));
        }
        let mut child = command().stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(random.random_range(20..200)));
        child.kill().unwrap();
        child.wait().unwrap();
        for _ in 0..30 {
            // It may be gone already.
            let _ = fs::remove_file(path(random.random_range(0..FILES)));
        }
        run(&mut command()).expect(0);
        let (left, mut right) = (with_times(&source), with_times(&served.path("tree")));
        // What has come of a large file is kept, for whoever sends it again.
        right.retain(|(path, ..)| !path.to_string_lossy().ends_with(".tack-part"));
        let names = |tree: &[(PathBuf, Option<Vec<u8>>, SystemTime)]| {
            tree.iter().map(|(path, _, modified)| (path.clone(), *modified)).collect::<Vec<_>>()
        };
        assert_eq!(names(&left), names(&right), "round {round}");
        assert!(left == right, "round {round}");
    }
}

#[test]
fn a_sender_that_stood_still_while_another_one_finished_the_directory_goes_on() {
    let served = Served::new(&[]);
    let content = noise(SIZE, SEED + 2);
    write(&served.outside("first/big"), &content);
    write(&served.outside("second/small"), b"small");
    let mut slow = served.client("send");
    slow.args(["--bwlimit", RATE]).arg("first/").arg(served.target("tree/"));
    let slow = slow.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let part = served.path("tree/first/.big.tack-part");
    wait_until(|| part.metadata().is_ok_and(|part| part.len() > 1_000_000));
    signal(&slow, Signal::SIGSTOP);
    let mut other = served.client("send");
    other.arg("--preserve").arg("second/").arg(served.target("tree/first/"));
    run(&mut other).expect(0);
    signal(&slow, Signal::SIGCONT);
    let finished = finish(slow).expect(0);
    assert!(finished.number("resumed_bytes") > 0, "{}", finished.errors);
    assert!(fs::read(served.path("tree/first/big")).unwrap() == content);
}

#[test]
fn a_sender_that_is_killed_again_and_again_resumes_and_ends_right() {
    let served = Served::new(&["--write-limit", RATE]);
    let content = noise(SIZE, SEED + 1);
    fs::write(served.outside("file"), &content).unwrap();
    let dest = served.path("file");
    // The server believes in a dead client for some seconds, so fewer rounds than for fetching.
    let mut random = Pcg64Mcg::seed_from_u64(SEED + 1);
    for _ in 0..3 {
        let mut client = served.client("send");
        client.arg("file").arg(served.target(""));
        let mut child = client.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(random.random_range(100..500)));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!dest.exists() || fs::read(&dest).unwrap() == content, "seed {SEED}");
    }
    // On a busy machine none of these may have lived long enough to leave something to resume.
    let mut client = served.client("send");
    client.arg("file").arg(served.target(""));
    let mut child = client.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let part = served.path(".file.tack-part");
    wait_until(|| dest.exists() || part.metadata().is_ok_and(|part| part.len() > 1_000_000));
    child.kill().unwrap();
    child.wait().unwrap();
    let finished = served.send(Path::new("file"), "").expect(0);
    assert!(fs::read(&dest).unwrap() == content, "seed {SEED}");
    assert!(finished.number("resumed_bytes") > 0 || finished.number("equal") == 1);
    // The server may yet open, and remove, an empty part for a request of a dead client that
    // had been waiting for its turn.
    wait_until(|| fs::read_dir(served.path("")).unwrap().count() == 1);
}

/// Connects to the server, calls `act`, and returns how the server then closes the connection.
fn close_reason_after(served: &mut Served, act: impl FnOnce(&mut Served)) -> CloseReason {
    let mut config = quic::client_config(tacklib::Profile::Off, Verify::Later).unwrap();
    let local = "127.0.0.1:0".parse().unwrap();
    let mut endpoint = Endpoint::client(local, EndpointConfig::default()).unwrap();
    endpoint.connect(served.address.parse().unwrap(), None, &mut config).unwrap();
    let mut act = Some(act);
    let deadline = Instant::now() + Duration::from_secs(60);
    while Instant::now() < deadline {
        endpoint.poll(Some(Duration::from_millis(50))).unwrap();
        while let Some(event) = endpoint.next_event() {
            match event {
                Event::Connected(_) => act.take().unwrap()(served),
                Event::Closed(_, reason) => return reason,
                _ => {}
            }
        }
    }
    panic!("the server did not close the connection");
}

#[test]
fn a_server_that_gets_a_signal_closes_its_connections_and_ends() {
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let mut served = Served::new(&[]);
        let reason = close_reason_after(&mut served, |served| {
            let server = Pid::from_raw(i32::try_from(served.child.id()).unwrap());
            nix::sys::signal::kill(server, signal).unwrap();
        });
        // The client's handshake is done before the server's, which may not use a code of the
        // application until then (RFC 9000 section 10.2.3).
        assert!(matches!(reason, CloseReason::Peer { .. }), "{reason}");
        assert!(served.child.wait().unwrap().success());
    }
}

#[test]
fn a_client_that_gets_a_signal_tells_the_server_and_can_be_resumed() {
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let mut program = Command::new(TACK);
        program.stderr(Stdio::piped());
        let mut served = Served::with_program(program, &["--write", "--write-limit", RATE]);
        fs::write(served.outside("file"), noise(SIZE, 1)).unwrap();
        let child = spawn(served.client("send").arg("file").arg(served.target("")));
        let part = served.path(".file.tack-part");
        wait_until(|| part.metadata().is_ok_and(|part| part.len() > 100_000));
        let client = Pid::from_raw(i32::try_from(child.id()).unwrap());
        nix::sys::signal::kill(client, signal).unwrap();
        let interrupted = finish(child).expect(8);
        assert!(interrupted.errors.contains("to resume"), "{}", interrupted.errors);
        assert!(!served.path("file").exists());
        // The server hears of it long before its idle timeout of 30 s.
        let start = Instant::now();
        let log = BufReader::new(served.child.stderr.take().unwrap());
        let line = log.lines().map(Result::unwrap).find(|line| line.contains("send file"));
        assert!(line.unwrap().contains("connection ended"));
        assert!(start.elapsed() < Duration::from_secs(20), "it waited for its idle timeout");
        let finished = served.send(Path::new("file"), "").expect(0);
        assert!(finished.number("resumed_bytes") > 100_000, "{}", finished.summary);
    }
}

#[test]
fn a_file_that_changed_since_the_interruption_is_fetched_from_the_start() {
    let served = Served::new(&[]);
    served.write("file", &noise(SIZE, 1));
    let mut client = served.client("get");
    client.args(["--write-limit", RATE]).arg(served.target("file")).arg("dest");
    let mut child = client.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let part = served.outside(".dest.tack-part");
    wait_until(|| part.metadata().is_ok_and(|part| part.len() > 100_000));
    child.kill().unwrap();
    child.wait().unwrap();

    let changed = noise(SIZE, 2);
    served.write("file", &changed);
    let finished = served.get("file", Path::new("dest")).expect(0);
    assert_eq!(finished.number("resumed_bytes"), 0);
    assert!(fs::read(served.outside("dest")).unwrap() == changed);
}

#[test]
fn a_second_transfer_into_the_same_name_is_told_so_and_does_no_harm() {
    let served = Served::new(&["--write-limit", RATE]);
    let (first, second) = (noise(SIZE, 1), noise(SIZE, 2));
    fs::write(served.outside("first"), &first).unwrap();
    fs::write(served.outside("second"), &second).unwrap();

    // Sending: the server holds the name.
    let part = served.path(".name.tack-part");
    let slow = spawn(served.client("send").arg("first").arg(served.target("name")));
    wait_until(|| part.metadata().is_ok_and(|part| part.len() > 100_000));
    let refused = served.send(Path::new("second"), "name").expect(6);
    assert!(refused.errors.contains("another transfer"), "{}", refused.errors);
    finish(slow).expect(0);
    assert!(fs::read(served.path("name")).unwrap() == first);

    // Fetching: this machine holds it.
    let part = served.outside(".copy.tack-part");
    let mut client = served.client("get");
    client.args(["--write-limit", RATE]).arg(served.target("name")).arg("copy");
    let slow = spawn(&mut client);
    wait_until(|| part.metadata().is_ok_and(|part| part.len() > 100_000));
    let refused = served.get("name", Path::new("copy")).expect(5);
    assert!(refused.errors.contains("another transfer"), "{}", refused.errors);
    finish(slow).expect(0);
    assert!(fs::read(served.outside("copy")).unwrap() == first);
}

#[test]
fn a_server_that_comes_back_is_resumed_from_by_the_next_command() {
    let served = Served::new(&[]);
    let content = noise(SIZE, 1);
    served.write("file", &content);
    let mut client = served.client("get");
    client.args(["--retry", "0", "--write-limit", RATE]).arg(served.target("file")).arg("dest");
    let child = spawn(&mut client);
    let part = served.outside(".dest.tack-part");
    wait_until(|| part.metadata().is_ok_and(|part| part.len() > 100_000));

    let mut served = served;
    served.child.kill().unwrap();
    served.child.wait().unwrap();
    // The same certificate on the same port: a stateless reset tells the client at once.
    let listen = served.address.clone();
    let mut program = Command::new(TACK);
    program.args(["serve", "--json", "--quiet", "--listen", &listen, "--identity"]);
    program.arg(served.outside("identity")).arg("--no-token").arg(served.path(""));
    served.child = program.stdout(Stdio::null()).spawn().unwrap();
    let lost = finish(child).expect(3);
    assert!(lost.errors.contains("resume"), "{}", lost.errors);

    let finished = served.get("file", Path::new("dest")).expect(0);
    assert!(finished.number("resumed_bytes") > 100_000, "{}", finished.summary);
    assert!(fs::read(served.outside("dest")).unwrap() == content);
}

/// A shell that cannot write files larger than 1 MiB and hears of it by an error.
fn limited() -> Command {
    let mut shell = Command::new("sh");
    // ulimit -f counts blocks of 512 bytes in some shells, of 1024 in others.
    let script = format!("trap '' XFSZ; ulimit -f 1024; exec {TACK} \"$@\"");
    shell.args(["-c", &script, "sh"]);
    shell
}

#[test]
fn a_client_that_cannot_write_says_so_and_resumes_later() {
    let served = Served::new(&[]);
    let content = noise(SIZE, 1);
    served.write("file", &content);
    let mut client = limited();
    client.args(["get", "--json", "--fingerprint", &served.fingerprint]);
    client.env("TACK_TOKEN", served.token.as_ref().unwrap());
    client.arg(served.target("file")).arg(served.outside("dest"));
    let failed = run(&mut client).expect(5);
    assert!(failed.errors.contains("make room"), "{}", failed.errors);
    assert!(!served.outside("dest").exists());

    let finished = served.get("file", Path::new("dest")).expect(0);
    assert!(finished.number("resumed_bytes") > 100_000, "{}", finished.summary);
    assert!(fs::read(served.outside("dest")).unwrap() == content);
}

#[test]
fn a_server_that_cannot_write_says_so_and_goes_on_serving() {
    let served = Served::with_program(limited(), &["--write"]);
    let source = served.outside("source");
    write(&source.join("big"), &noise(SIZE, 1));
    for n in 0..5 {
        write(&source.join(format!("small{n}")), &noise(100_000, n));
    }
    let failed = served.send(&source, "").expect(6);
    assert!(failed.errors.contains("make room"), "{}", failed.errors);
    assert!(!served.path("source/big").exists());
    let part = served.path("source/.big.tack-part");
    assert!(part.metadata().unwrap().len() > 100_000, "what arrived is kept");

    // On the same server: what the failed transfer held of its connection is free again.
    fs::remove_file(source.join("big")).unwrap();
    let finished = served.send(&source, "").expect(0);
    assert_eq!(finished.number("files"), 5);
}

#[test]
fn a_full_file_system_is_survived() {
    let script =
        format!("mount -t tmpfs -o size=2m none \"$1/served\" && shift && exec {TACK} \"$@\"");
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("served")).unwrap();
    let mut probe = Command::new("unshare");
    probe
        .args(["-rm", "sh", "-c", "mount -t tmpfs none \"$0\""])
        .arg(dir.path().join("served"));
    if !probe.stderr(Stdio::null()).status().is_ok_and(|status| status.success()) {
        common::skip("this system does not let us mount; the tests above cover the rest");
        return;
    }
    let mut program = Command::new("unshare");
    program.args(["-rm", "sh", "-c", &script, "sh"]).arg(dir.path());
    let served = Served::in_dir(dir, program, "127.0.0.1:0", &["--write"]);
    fs::write(served.outside("big"), noise(SIZE, 1)).unwrap();
    fs::write(served.outside("small"), noise(1000, 2)).unwrap();
    let failed = served.send(Path::new("big"), "").expect(6);
    assert!(failed.errors.contains("make room"), "{}", failed.errors);
    assert!(failed.errors.contains("No space left"), "{}", failed.errors);
    // Nothing of it is listed, and the server is well.
    let finished = served.get_tree("", Path::new("all")).expect(0);
    assert_eq!(finished.number("files"), 0);
}

fn spawn(command: &mut Command) -> std::process::Child {
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Nobody, whom permissions hold back where root runs the tests.
const NOBODY: u32 = 65534;

/// Makes `command` run as somebody whom permissions hold back.
fn without_privileges(command: &mut Command) {
    if rustix::process::geteuid().is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
}

/// Gives `path` these permissions, and to the user of [`without_privileges`].
fn give_away(path: &Path, mode: u32) {
    fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
    if rustix::process::geteuid().is_root() {
        chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
    }
}

/// A server and a client without privileges, and a directory beside the served one.
fn unprivileged() -> Served {
    let dir = tempfile::tempdir().unwrap();
    for name in ["served", "here"] {
        fs::create_dir(dir.path().join(name)).unwrap();
        give_away(&dir.path().join(name), 0o755);
    }
    give_away(dir.path(), 0o755);
    let mut program = Command::new(TACK);
    without_privileges(&mut program);
    Served::in_dir(dir, program, "127.0.0.1:0", &["--write"])
}

/// Transfers `content` where a transfer of it was killed when the part had its final permissions, and no final name
/// yet. Returns how many bytes were resumed.
fn end_what_was_killed(sends: bool, content: &[u8], part: &[u8], mode: u32) -> u64 {
    let served = unprivileged();
    let (mut from, mut to) = (served.path("file"), served.outside("here/file"));
    if sends {
        std::mem::swap(&mut from, &mut to);
    }
    write(&from, content);
    give_away(&from, 0o444);
    let left = to.with_file_name(".file.tack-part");
    write(&left, part);
    give_away(&left, mode);
    let mut client = served.client(if sends { "send" } else { "get" });
    without_privileges(&mut client);
    if sends {
        client.arg(&from).arg(served.target(""));
    } else {
        client.arg(served.target("file")).arg(&to);
    }
    let finished = run(&mut client).expect(0);
    assert!(fs::read(&to).unwrap() == content, "{sends}, {mode:o}");
    assert_eq!(to.metadata().unwrap().permissions().mode() & 0o777, 0o444);
    assert!(!left.exists(), "{sends}, {mode:o}");
    finished.number("resumed_bytes")
}

#[test]
fn a_closed_part_that_is_held_or_has_another_name_stays_as_it_is() {
    let served = unprivileged();
    served.write("file", b"content");
    give_away(&served.path("file"), 0o444);
    let part = served.outside("here/.file.tack-part");
    write(&part, b"cont");
    give_away(&part, 0o444);
    let get = || {
        let mut client = served.client("get");
        without_privileges(&mut client);
        run(client.arg(served.target("file")).arg("here/")).expect(5)
    };
    let held = fs::File::open(&part).unwrap();
    held.lock().unwrap();
    let busy = get();
    assert!(busy.errors.contains("is running"), "{}", busy.errors);
    held.unlock().unwrap();
    fs::hard_link(&part, served.outside("here/other")).unwrap();
    get();
    assert_eq!(part.metadata().unwrap().permissions().mode() & 0o777, 0o444);
    assert_eq!(fs::read(&part).unwrap(), b"cont");
}

#[test]
fn a_part_that_its_own_permissions_close_is_resumed() {
    let content = noise(400_000, SEED + 11);
    for sends in [false, true] {
        for mode in [0o444, 0o200, 0o000] {
            for length in [250_000, content.len()] {
                let resumed = end_what_was_killed(sends, &content, &content[..length], mode);
                assert_eq!(resumed, length as u64, "{sends}, {mode:o}");
            }
            end_what_was_killed(sends, b"small", b"small", mode);
        }
    }
}

#[test]
fn a_signal_while_connecting_ends_a_command_with_its_own_exit_code_and_a_summary() {
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    silent.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let target = format!("{}/file", silent.local_addr().unwrap());
    let dir = tempfile::tempdir().unwrap();
    for (arguments, sent, has_summary) in [
        (&["get", "--json", "--insecure"][..], Signal::SIGINT, true),
        (&["get", "--json", "--insecure"], Signal::SIGTERM, true),
        (&["ls", "--insecure"], Signal::SIGINT, false),
    ] {
        let mut client = Command::new(TACK);
        client.args(arguments).arg(&target).current_dir(dir.path()).env("TACK_CONFIG", "");
        client.env("XDG_STATE_HOME", dir.path()).env("XDG_DATA_HOME", dir.path());
        let client = client.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        silent.recv(&mut [0; 2000]).unwrap();
        signal(&client, sent);
        let ended = finish(client).expect(8);
        assert!(ended.errors.contains("interrupted"), "{}", ended.errors);
        assert!(!has_summary || ended.number("exit_code") == 8, "{}", ended.summary);
        silent.set_nonblocking(true).unwrap();
        while silent.recv(&mut [0; 2000]).is_ok() {}
        silent.set_nonblocking(false).unwrap();
    }
}
