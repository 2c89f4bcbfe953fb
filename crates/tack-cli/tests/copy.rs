//! `tack copy` through a program that stands in for ssh: it runs commands on this machine, in a home of
//! their own.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may panic")]

mod common;

use std::fs;
use std::net::UdpSocket;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use common::{
    Finished, TACK, assert_same_tree, finish, noise, run, signal, tree, wait_until, write,
};
use data_encoding::BASE64URL_NOPAD;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// Logs its arguments, answers `-G`, and runs what it is to run in the home of the other end.
const SSH: &str = r#"#!/bin/sh
echo "$@" >>"$STAND_IN/log"
for argument; do
    case $argument in
    -G) echo "hostname ${STAND_IN_HOST-127.0.0.1}"; exit 0 ;;
    esac
done
for command; do :; done
echo "Welcome to the stand-in"
cd "$STAND_IN/home" || exit 255
SSH_CONNECTION="127.0.0.1 1 ${STAND_IN_ADDRESS-127.0.0.1} 22"
export SSH_CONNECTION
PATH=$STAND_IN/bin:$PATH
eval "$command"
"#;

/// Both ends.
struct Ends {
    dir: tempfile::TempDir,
}

impl Ends {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let ends = Self { dir };
        for name in ["home", "here", "bin"] {
            fs::create_dir(ends.path(name)).unwrap();
        }
        ends.script("ssh", SSH);
        symlink(TACK, ends.path("bin/tack")).unwrap();
        ends
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// A path at the other end.
    fn there(&self, name: &str) -> PathBuf {
        self.path("home").join(name)
    }

    /// A path at this end.
    fn here(&self, name: &str) -> PathBuf {
        self.path("here").join(name)
    }

    fn script(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
        fs::set_permissions(self.path(name), fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(TACK);
        command.args(["copy", "--json"]).args(arguments).current_dir(self.path("here"));
        command.env("TACK_SSH", self.path("ssh")).env("STAND_IN", self.dir.path());
        command.env("XDG_STATE_HOME", self.path("state"));
        command
    }

    fn copy(&self, arguments: &[&str]) -> Finished {
        run(&mut self.command(arguments))
    }

    /// The arguments that ssh was run with.
    fn log(&self) -> String {
        fs::read_to_string(self.path("log")).unwrap_or_default()
    }
}

/// A tree with a few files.
fn make_tree(at: &Path) {
    write(&at.join("large"), &noise(300_000, 1));
    write(&at.join("deep/small"), b"small");
    write(&at.join("empty"), b"");
    fs::create_dir(at.join("hollow")).unwrap();
}

#[test]
fn a_file_is_sent_to_the_home_of_the_other_end_and_back() {
    let ends = Ends::new();
    let content = noise(200_000, 1);
    fs::write(ends.here("file"), &content).unwrap();
    ends.copy(&["file", "user@host:"]).expect(0);
    assert!(fs::read(ends.there("file")).unwrap() == content);
    ends.copy(&["file", "host:a/new/name"]).expect(0);
    assert!(fs::read(ends.there("a/new/name")).unwrap() == content);
    let absolute = format!("host:{}", ends.there("a").display());
    ends.copy(&["file", &absolute]).expect(0);
    assert!(fs::read(ends.there("a/file")).unwrap() == content);

    let back = ends.copy(&["host:file", "back"]).expect(0);
    assert_eq!((back.number("files"), back.summary["command"].as_str()), (1, Some("copy")));
    assert!(fs::read(ends.here("back")).unwrap() == content);
    fs::create_dir(ends.here("into")).unwrap();
    ends.copy(&["host:~/a/file", "into"]).expect(0);
    assert!(fs::read(ends.here("into/file")).unwrap() == content);
}

#[test]
fn a_mirror_never_empties_the_home_of_the_other_end_or_what_holds_it() {
    let ends = Ends::new();
    make_tree(&ends.here("home"));
    write(&ends.there("mine"), b"mine");
    symlink("home", ends.path("link")).unwrap();
    let before = tree(&ends.there(""));
    for (source, to) in [
        ("home/.", ""),
        ("home/.", "~"),
        ("home/.", "."),
        ("home/.", "../link"),
        ("home", ".."),
    ] {
        for options in [&["-r", "--delete"][..], &["-r", "--delete", "-n"]] {
            let to = format!("host:{to}");
            let arguments = [options, &[source, to.as_str()]].concat();
            let refused = ends.copy(&arguments).expect(2);
            assert!(refused.errors.contains("--delete would remove"), "{}", refused.errors);
            assert_eq!(tree(&ends.there("")), before, "{arguments:?}");
        }
    }
    // What has a directory of its own goes there.
    ends.copy(&["-r", "--delete", "home", "host:"]).expect(0);
    assert_same_tree(&ends.here("home"), &ends.there("home"));
    assert!(ends.there("mine").exists());
    ends.copy(&["-r", "home/.", "host:"]).expect(0);
}

#[test]
fn closed_directories_are_copied_as_they_are() {
    let ends = Ends::new();
    let set_mode = |path: &Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    let tree = ends.here("tree");
    make_tree(&tree);
    write(&tree.join("deep/private/file"), b"content");
    for (name, mode) in
        [("deep/private", 0o500), ("deep", 0o555), ("hollow", 0o500), ("", 0o555)]
    {
        set_mode(&tree.join(name), mode);
    }
    let compare = |copy: &Path| {
        let mut rsync = Command::new("rsync");
        let output = rsync.arg("-nrlptHi").arg(tree.join("")).arg(copy.join("")).output();
        let Ok(output) = output else { return common::skip("there is no rsync here") };
        assert_eq!(String::from_utf8(output.stdout).unwrap(), "", "{}", copy.display());
    };
    for _ in 0..2 {
        ends.copy(&["-r", "--preserve", "tree", "host:backup"]).expect(0);
        compare(&ends.there("backup/tree"));
        ends.copy(&["-r", "--preserve", "host:backup/tree", "copies"]).expect(0);
        compare(&ends.here("copies/tree"));
    }
    // Without it, too.
    ends.copy(&["-r", "tree", "host:plain"]).expect(0);
    for (name, mode) in [("", 0o555), ("deep", 0o555), ("deep/private", 0o500)] {
        let copy = ends.there("plain/tree").join(name);
        assert_eq!(copy.metadata().unwrap().mode() & 0o7777, mode, "{name}");
    }
    // An ordinary user could not remove them.
    for copy in
        [tree, ends.there("backup/tree"), ends.here("copies/tree"), ends.there("plain/tree")]
    {
        for name in ["", "deep", "deep/private", "hollow"] {
            set_mode(&copy.join(name), 0o755);
        }
    }
}

#[test]
fn directories_keep_their_names_in_both_directions_and_each_time() {
    let ends = Ends::new();
    make_tree(&ends.here("tree"));
    for _ in 0..2 {
        ends.copy(&["-r", "--preserve", "tree", "host:backup"]).expect(0);
        assert_same_tree(&ends.here("tree"), &ends.there("backup/tree"));
        ends.copy(&["-r", "--preserve", "host:backup/tree", "copies"]).expect(0);
        assert_same_tree(&ends.here("tree"), &ends.here("copies/tree"));
    }
    let again = ends.copy(&["-r", "tree", "host:backup"]).expect(0);
    assert_eq!(again.number("transferred_bytes"), 0);
    assert_eq!(fs::read_dir(ends.there("backup")).unwrap().count(), 1);
    ends.copy(&["-r", "host:backup/tree/.", "content"]).expect(0);
    assert_same_tree(&ends.here("tree"), &ends.here("content"));
}

#[test]
fn several_sources_go_into_one_directory() {
    let ends = Ends::new();
    make_tree(&ends.there("tree"));
    fs::write(ends.there("one"), "1").unwrap();
    write(&ends.there("elsewhere/two"), b"2");
    let got =
        ends.copy(&["-r", "host:one", "host:elsewhere/two", "host:tree", "got"]).expect(0);
    assert_eq!(got.number("files"), 5);
    assert_eq!(fs::read(ends.here("got/one")).unwrap(), b"1");
    assert_eq!(fs::read(ends.here("got/two")).unwrap(), b"2");
    assert_same_tree(&ends.there("tree"), &ends.here("got/tree"));
    ends.copy(&["-r", "got/one", "got/tree", "host:back/"]).expect(0);
    assert_same_tree(&ends.there("tree"), &ends.there("back/tree"));
    assert_eq!(fs::read(ends.there("back/one")).unwrap(), b"1");
}

#[test]
fn a_link_that_is_named_is_followed_and_no_other() {
    let ends = Ends::new();
    make_tree(&ends.there("tree"));
    symlink("tree/large", ends.there("link")).unwrap();
    symlink("/etc/passwd", ends.there("tree/deep/link")).unwrap();
    ends.copy(&["host:link", "."]).expect(0);
    assert!(fs::read(ends.here("link")).unwrap() == noise(300_000, 1));
    ends.copy(&["-r", "host:tree", "."]).expect(0);
    assert!(!ends.here("tree/deep/link").exists());
}

#[test]
fn ssh_gets_its_options_and_no_secret_is_among_them() {
    let ends = Ends::new();
    fs::write(ends.here("file"), "x").unwrap();
    ends.copy(&[
        "-P", "2222", "-i", "key", "-F", "config", "-J", "jump", "-o", "A=b", "file", "u@host:",
    ])
    .expect(0);
    let log = ends.log();
    let options = "-p 2222 -i key -F config -J jump -o A=b";
    for line in log.lines() {
        assert!(line.starts_with(options) && line.contains("-- u@host"), "{line}");
    }
    let (_, request) = log.split_once("tack serve-once ").unwrap();
    let request = request.lines().next().unwrap();
    let request = BASE64URL_NOPAD.decode(request.as_bytes()).unwrap();
    let request: serde_json::Value = serde_json::from_slice(&request).unwrap();
    let mut names: Vec<_> = request.as_object().unwrap().keys().map(String::as_str).collect();
    names.sort_unstable();
    // The other end makes token and certificate.
    assert_eq!(
        names,
        ["careful_resume", "names", "patience", "plain", "ports", "tack_copy", "wanted"],
        "{log}"
    );
    assert_eq!(log.matches("serve-once").count(), 1, "{log}");
}

#[test]
fn a_key_that_may_run_one_command_only_is_enough() {
    let ends = Ends::new();
    fs::write(ends.here("file"), "x").unwrap();
    let forced = SSH.replace("eval \"$command\"", "tack serve-once");
    assert_ne!(forced, SSH);
    ends.script("ssh", &forced);
    ends.copy(&["file", "host:"]).expect(0);
    assert_eq!(fs::read(ends.there("file")).unwrap(), b"x");
    ends.copy(&["host:file", "back"]).expect(0);
    assert_eq!(fs::read(ends.here("back")).unwrap(), b"x");
}

#[test]
fn more_paths_than_a_command_line_takes_are_fetched() {
    let ends = Ends::new();
    let mut arguments = Vec::new();
    for name in 0..600 {
        // The directories are in the request as well.
        let path = format!("{}/{name}", "directory".repeat(12));
        write(&ends.there(&path), path.as_bytes());
        arguments.push(format!("host:{path}"));
    }
    let mut arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    arguments.push(".");
    // The second time each file is asked for once more behind its listing.
    for _ in 0..2 {
        let fetched = ends.copy(&arguments).expect(0);
        assert_eq!(fetched.number("files"), 600);
    }
    assert!(ends.log().lines().any(|line| line.ends_with("tack serve-once")));
}

#[test]
fn the_address_that_ssh_came_to_is_tried_where_the_name_leads_nowhere() {
    let ends = Ends::new();
    fs::write(ends.here("file"), "x").unwrap();
    let mut command = ends.command(&["file", "host:"]);
    run(command.env("STAND_IN_HOST", "no host has blanks")).expect(0);
    assert_eq!(fs::read(ends.there("file")).unwrap(), b"x");
}

#[test]
fn what_makes_no_sense_is_refused_before_ssh_is_run() {
    let ends = Ends::new();
    make_tree(&ends.here("tree"));
    for (arguments, expected) in [
        (&["tree", "elsewhere"][..], "on this machine"),
        (&["a:x", "b:y"], "one machine and another"),
        (&["a:x", "b:y", "here"], "one machine at a time"),
        (&["tree", "host:"], "pass -r"),
        (&[":x", "here"], "names no host"),
        (&["-oProxyCommand=touch:x", "here", "there"], "on this machine"),
    ] {
        let finished = ends.copy(arguments).expect(2);
        let expected = expected.replace("one machine and another", "this machine and another");
        assert!(finished.errors.contains(&expected), "{arguments:?}: {}", finished.errors);
    }
    ends.copy(&["missing", "host:"]).expect(5);
    assert_eq!(ends.log(), "");
}

#[test]
fn what_is_wrong_at_the_other_end_is_told_with_what_to_do() {
    let ends = Ends::new();
    fs::write(ends.here("file"), "x").unwrap();
    fs::create_dir(ends.there("directory")).unwrap();
    for (arguments, code, expected) in [
        (&["host:missing", "here"][..], 6, "host: missing: No such file"),
        (&["host:directory", "here"], 2, "pass -r"),
        (&["--remote-tack", "no-such-tack", "file", "host:"], 3, "--remote-tack"),
        (&["--remote-tack", "true", "file", "host:"], 3, "without an answer"),
        (&["--remote-tack", "exit 2;", "file", "host:"], 3, "same version"),
        (&["--remote-tack", "exit 255;", "file", "host:"], 3, "could not log in"),
        (&["--ssh", "/no/such/ssh", "file", "host:"], 3, "install OpenSSH"),
        (&["file", "host:missing/../nowhere/x"], 6, ".. leads nowhere"),
        (&["file", "host:~bob/x"], 2, "host: ~bob/x: only ~ alone"),
        (&["file", "host:.x.tack-part"], 2, "keeps for unfinished transfers"),
        (&["host:~bob/x", "here"], 2, "./~bob/x"),
    ] {
        let finished = ends.copy(arguments).expect(code);
        assert!(finished.errors.contains(expected), "{arguments:?}: {}", finished.errors);
    }
    let answer = r#"{"tack_copy":99,"program":"tack 9","result":{"Err":{"text":"","exit":1}}}"#;
    ends.script("bin/newer", &format!("#!/bin/sh\necho '{answer}'\ncat >/dev/null\n"));
    let finished = ends.copy(&["--remote-tack", "newer", "file", "host:"]).expect(3);
    assert!(finished.errors.contains("same version"), "{}", finished.errors);
}

#[test]
fn authorities_are_not_read_where_a_fingerprint_tells() {
    let ends = Ends::new();
    fs::write(ends.here("file"), "x").unwrap();
    let authorities = ends.path("authorities");
    assert!(Command::new("mkfifo").arg(&authorities).status().unwrap().success());
    let (pipe, readers) = (authorities.clone(), Arc::new(Mutex::new(0)));
    let counted = Arc::clone(&readers);
    // Each waits until somebody opens it to read, who finds nothing in it. The thread ends with the test.
    std::thread::spawn(move || {
        while fs::OpenOptions::new().write(true).open(&pipe).is_ok() {
            *counted.lock().unwrap() += 1;
        }
    });
    let mut copy = ends.command(&["file", "host:"]);
    run(copy.env("SSL_CERT_FILE", &authorities)).expect(0);
    assert_eq!(*readers.lock().unwrap(), 0);
    assert!(ends.there("file").exists());
}

#[test]
fn the_other_end_tells_whether_it_has_anything_of_what_is_sent() {
    let ends = Ends::new();
    write(&ends.here("tree/file"), b"x");
    let answers = ends.path("answers");
    let command = format!("tee -a {}", answers.display());
    ends.script(
        "ssh",
        &SSH.replace("eval \"$command\"", &format!("eval \"$command\" | {command}")),
    );
    write(&ends.there("other"), b"");
    for has_nothing in [true, false] {
        let copied = ends.copy(&["-r", "tree", "host:"]).expect(0);
        assert_eq!(copied.number("equal"), u64::from(!has_nothing));
        let text = fs::read_to_string(&answers).unwrap();
        let last = text.lines().rfind(|line| line.contains("tack_copy")).unwrap();
        let answer: serde_json::Value = serde_json::from_str(last.trim()).unwrap();
        assert_eq!(answer["result"]["Ok"]["has_nothing"], has_nothing, "{last}");
    }
    assert_same_tree(&ends.here("tree"), &ends.there("tree"));
}

#[test]
fn a_firewall_that_drops_udp_is_named_with_the_address_and_the_way_round() {
    let ends = Ends::new();
    fs::write(ends.here("file"), "x").unwrap();
    // A port that is bound and never answers.
    let deaf = UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = deaf.local_addr().unwrap().port();
    let ready = format!(
        r#"{{"port":{port},"address":null,"fingerprint":"{}","token":"t","paths":[""],"is_directory":true,"has_nothing":true}}"#,
        "0".repeat(64)
    );
    let answer = format!(r#"{{"tack_copy":2,"program":"tack","result":{{"Ok":{ready}}}}}"#);
    ends.script("bin/deaf", &format!("#!/bin/sh\necho '{answer}'\ncat >/dev/null\n"));
    let finished = ends.copy(&["--remote-tack", "deaf", "file", "host:"]).expect(3);
    let place = format!("host:{port}");
    for expected in [place.as_str(), "over UDP", "firewall", "--udp-port"] {
        assert!(finished.errors.contains(expected), "{expected}: {}", finished.errors);
    }
}

#[test]
fn a_port_of_the_range_is_used_and_a_full_range_is_told() {
    let ends = Ends::new();
    fs::write(ends.here("file"), "x").unwrap();
    let taken = UdpSocket::bind("[::]:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let finished = ends.copy(&["--udp-port", &port, "file", "host:"]).expect(3);
    assert!(finished.errors.contains(&format!("no UDP port of {port}")), "{}", finished.errors);
    drop(taken);
    ends.copy(&["--udp-port", &port, "file", "host:"]).expect(0);
}

/// Processes whose environment has `text` in it.
fn processes_with(text: &str) -> usize {
    let commands = fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| fs::read(entry.ok()?.path().join("environ")).ok());
    commands.filter(|bytes| String::from_utf8_lossy(bytes).contains(text)).count()
}

/// A client in the middle of a transfer.
fn in_the_middle(ends: &Ends) -> Child {
    start_in_the_middle(ends, &[])
}

fn start_in_the_middle(ends: &Ends, arguments: &[&str]) -> Child {
    fs::write(ends.here("file"), noise(4_000_000, 1)).unwrap();
    let mut command = ends.command(arguments);
    command.args(["--bwlimit", "2M", "file", "host:"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let part = ends.there(".file.tack-part");
    wait_until(|| part.metadata().is_ok_and(|part| part.len() > 300_000));
    child
}

#[test]
fn nothing_remains_at_the_other_end_however_the_client_ends() {
    for by in [Signal::SIGKILL, Signal::SIGINT] {
        let ends = Ends::new();
        let mut child = in_the_middle(&ends);
        let mark = format!("STAND_IN={}", ends.dir.path().display());
        assert!(processes_with(&mark) >= 2);
        signal(&child, by);
        // A client that is interrupted ends in good order. Its output is not read: what the other end holds
        // open of it would be waited for, and so the other end.
        let code = if by == Signal::SIGINT { Some(8) } else { None };
        assert_eq!(child.wait().unwrap().code(), code);
        wait_until(|| processes_with(&mark) == 0);
        let finished = ends.copy(&["file", "host:"]).expect(0);
        assert!(finished.number("resumed_bytes") > 100_000, "{}", finished.summary);
        wait_until(|| processes_with(&mark) == 0);
    }
}

/// Ends the other end at once, and nothing that has started it.
fn kill_other_end(ends: &Ends) {
    let mark = format!("STAND_IN={}", ends.dir.path().display());
    for entry in fs::read_dir("/proc").unwrap() {
        let path = entry.unwrap().path();
        let text = |name: &str| {
            String::from_utf8_lossy(&fs::read(path.join(name)).unwrap_or_default()).into_owned()
        };
        if text("environ").contains(&mark) && text("cmdline").starts_with("tack\0serve-once") {
            let pid = path.file_name().unwrap().to_str().unwrap().parse().unwrap();
            kill(Pid::from_raw(pid), Signal::SIGKILL).unwrap();
        }
    }
}

#[test]
fn the_other_end_is_started_again_when_it_is_lost_without_asking_anything() {
    let ends = Ends::new();
    let child = in_the_middle(&ends);
    kill_other_end(&ends);
    let finished = finish(child).expect(0);
    assert!(finished.number("resumed_bytes") > 100_000, "{}", finished.summary);
    assert!(fs::read(ends.there("file")).unwrap() == noise(4_000_000, 1));
    assert!(ends.log().contains("BatchMode=yes"), "{}", ends.log());
    assert!(!ends.log().contains("-S none"), "{}", ends.log());
}

#[test]
fn an_ssh_that_lives_on_without_its_other_end_is_replaced() {
    let ends = Ends::new();
    // Its error output would be waited for.
    let ssh = SSH.replace("eval", "exec 2>/dev/null\neval");
    // As if the host had crashed, so that nothing ends the connection.
    let waits = "\nwhile [ -d \"$STAND_IN/home\" ] && ! [ -e \"$STAND_IN/gate\" ]; do sleep 0.05; done\n";
    ends.script("ssh", &format!("{ssh}{waits}"));
    let child = in_the_middle(&ends);
    kill_other_end(&ends);
    let finished = finish(child).expect(0);
    assert!(finished.number("resumed_bytes") > 100_000, "{}", finished.summary);
    assert!(fs::read(ends.there("file")).unwrap() == noise(4_000_000, 1));
    let log = ends.log();
    assert_eq!(log.matches("serve-once").count(), 2, "{log}");
    // Another one's connection may have died with that of the first.
    let second = log.lines().rfind(|line| line.contains("serve-once")).unwrap();
    assert!(second.contains("-S none"), "{log}");
    write(&ends.path("gate"), b"");
    let mark = format!("STAND_IN={}", ends.dir.path().display());
    wait_until(|| processes_with(&mark) == 0);
}

/// Passes datagrams on between a client and a server until it is dropped, which closes the port.
struct Relay {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Relay {
    fn new(port: u16, server: u16) -> Self {
        let front = Arc::new(UdpSocket::bind(("127.0.0.1", port)).unwrap());
        let back = Arc::new(UdpSocket::bind("127.0.0.1:0").unwrap());
        back.connect(("127.0.0.1", server)).unwrap();
        let client = Arc::new(Mutex::new(None));
        let stop = Arc::new(AtomicBool::new(false));
        let pass = |from: &Arc<UdpSocket>, to: &Arc<UdpSocket>, is_up: bool| {
            let (from, to) = (Arc::clone(from), Arc::clone(to));
            let (stop, client) = (Arc::clone(&stop), Arc::clone(&client));
            from.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
            std::thread::spawn(move || {
                let mut buffer = [0; 2048];
                while !stop.load(Ordering::Relaxed) {
                    let Ok((length, sender)) = from.recv_from(&mut buffer) else { continue };
                    // What does not arrive is sent again.
                    if is_up {
                        *client.lock().unwrap() = Some(sender);
                        let _ = to.send(&buffer[..length]);
                    } else if let Some(client) = *client.lock().unwrap() {
                        let _ = to.send_to(&buffer[..length], client);
                    }
                }
            })
        };
        let threads = vec![pass(&front, &back, true), pass(&back, &front, false)];
        Self { stop, threads }
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// A UDP port on which nothing listens.
fn free_port() -> u16 {
    UdpSocket::bind("[::]:0").unwrap().local_addr().unwrap().port()
}

#[test]
fn a_session_that_cannot_be_replaced_is_used_once_its_server_answers_again() {
    let ends = Ends::new();
    // The user is away and types no second password.
    let refuses = "case \"$*\" in *BatchMode*) exit 255 ;; esac\necho \"Welcome";
    ends.script("ssh", &SSH.replace("echo \"Welcome", refuses));
    let (outside, inside) = (free_port(), free_port());
    fs::remove_file(ends.path("bin/tack")).unwrap();
    let replace = format!("s/\"port\":{inside}/\"port\":{outside}/");
    let script = format!("#!/bin/sh\n'{TACK}' \"$@\" | sed -u '{replace}'\n");
    ends.script("bin/tack", &script);
    let relay = Relay::new(outside, inside);
    let child = start_in_the_middle(&ends, &["--udp-port", &inside.to_string()]);
    drop(relay);
    wait_until(|| ends.log().contains("BatchMode"));
    let _relay = Relay::new(outside, inside);
    let finished = finish(child).expect(0);
    assert!(finished.number("resumed_bytes") > 100_000, "{}", finished.summary);
    assert!(fs::read(ends.there("file")).unwrap() == noise(4_000_000, 1));
}

/// A client that has lost its other end; ssh brings no answer of another one, and does not end.
fn left_without_answer(ends: &Ends, arguments: &[&str]) -> Child {
    let hangs =
        "case \"$*\" in *BatchMode*) exec sleep 1000 2>/dev/null ;; esac\necho \"Welcome";
    ends.script("ssh", &SSH.replace("echo \"Welcome", hangs));
    let child = start_in_the_middle(ends, arguments);
    kill_other_end(ends);
    wait_until(|| ends.log().contains("BatchMode"));
    child
}

#[test]
fn an_ssh_that_brings_no_answer_is_waited_for_no_longer_than_it_makes_sense() {
    let ends = Ends::new();
    let child = left_without_answer(&ends, &["--retry", "2"]);
    let finished = finish(child).expect(3);
    assert!(finished.errors.contains("again to resume"), "{}", finished.errors);
    assert_eq!(ends.log().matches("BatchMode").count(), 1, "{}", ends.log());
    let mark = format!("STAND_IN={}", ends.dir.path().display());
    wait_until(|| processes_with(&mark) == 0);
}

#[test]
fn waiting_for_an_answer_over_ssh_can_be_interrupted() {
    for by in [Signal::SIGTERM, Signal::SIGINT] {
        let ends = Ends::new();
        let child = left_without_answer(&ends, &["--retry", "1000"]);
        let start = Instant::now();
        signal(&child, by);
        finish(child).expect(8);
        // Before the attempt is given up.
        assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
        let mark = format!("STAND_IN={}", ends.dir.path().display());
        wait_until(|| processes_with(&mark) == 0);
    }
}

#[test]
fn owners_are_copied_both_ways_on_request() {
    if !rustix::process::geteuid().is_root() {
        common::skip("only root may give files away");
        return;
    }
    let ends = Ends::new();
    make_tree(&ends.here("tree"));
    for (name, owner) in
        [("tree/large", 4001), ("tree/deep/small", 4002), ("tree/hollow", 4003)]
    {
        chown(ends.here(name), Some(owner), Some(owner + 50)).unwrap();
    }
    ends.copy(&["-r", "--preserve", "--owner", "tree", "host:"]).expect(0);
    ends.copy(&["-r", "--preserve", "--owner", "host:tree", "back/"]).expect(0);
    for name in ["tree/large", "tree/deep/small", "tree/hollow", "tree/empty"] {
        let owner =
            |path: PathBuf| path.metadata().map(|stat| (stat.uid(), stat.gid())).unwrap();
        let expected = owner(ends.here(name));
        assert_eq!(owner(ends.there(name)), expected, "{name}");
        assert_eq!(owner(ends.here("back").join(name)), expected, "{name}");
    }
}

/// Writes what an earlier connection would have observed between `local` and a remote endpoint of any port.
fn observe_earlier(state: &Path, local: &str) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let observed = format!("01{:016x}{:016x}{now:016x}", 1 << 20, 40_000);
    let text = format!("tack cc-parameters 1\n{local} 127.0.0.1:0 {observed}\n");
    write(&state.join("tack/cc-parameters"), text.as_bytes());
}

// TACK-6.7-9: what is used is taken out of the file, and what was not needed comes back.
#[test]
fn both_ends_use_what_earlier_copies_have_observed_whatever_the_port() {
    let ends = Ends::new();
    ends.script("ssh", &SSH.replace("eval", "export XDG_STATE_HOME=$STAND_IN/theirs\neval"));
    let states = ["state", "theirs"].map(|name| ends.path(name));
    observe_earlier(&states[0], "127.0.0.1");
    observe_earlier(&states[1], "0.0.0.0");
    let files = || {
        states.each_ref().map(|state| {
            let file = state.join("tack/cc-parameters");
            (file.metadata().unwrap().modified().unwrap(), fs::read_to_string(file).unwrap())
        })
    };
    let before = files();
    write(&ends.here("file"), b"content");
    ends.copy(&["--no-careful-resume", "file", "host:"]).expect(0);
    assert_eq!(files(), before);
    ends.copy(&["file", "host:again"]).expect(0);
    for (after, before) in files().into_iter().zip(before) {
        assert_eq!(after.1, before.1);
        assert_ne!(after.0, before.0, "it was not taken out");
    }
}

#[test]
fn the_command_does_not_wait_for_the_end_of_ssh() {
    let ends = Ends::new();
    let waits = "\nuntil [ -e \"$STAND_IN/gate\" ]; do sleep 0.01; done\necho gone >>\"$STAND_IN/log\"\n";
    ends.script("ssh", &format!("{SSH}{waits}"));
    write(&ends.here("file"), b"content");
    let mut copy = ends.command(&["file", "host:"]);
    assert!(copy.stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap().success());
    assert_eq!(fs::read(ends.there("file")).unwrap(), b"content");
    assert!(!ends.log().contains("gone"));
    // The other end has heard that nothing more is wanted, or this would never come.
    write(&ends.path("gate"), b"");
    wait_until(|| ends.log().contains("gone"));
}

#[test]
fn things_that_would_become_one_are_refused_before_anything_is_done() {
    let ends = Ends::new();
    write(&ends.there("1/d/only1"), b"1");
    write(&ends.there("2/d/only2"), b"2");
    write(&ends.here("out/d/mine"), b"mine");
    let refused = ends.copy(&["-r", "--delete", "host:1/d", "host:2/d", "out"]).expect(2);
    assert!(refused.errors.contains("d: two of what is transferred"), "{}", refused.errors);
    let beside = ends.copy(&["-r", "--delete", "host:1/.", "host:2/d", "out"]).expect(2);
    assert!(beside.errors.contains("beside something else"), "{}", beside.errors);
    assert_eq!(fs::read(ends.here("out/d/mine")).unwrap(), b"mine");
    assert!(!ends.here("out/d/only1").exists());
    write(&ends.here("1/x"), b"1");
    write(&ends.here("2/x"), b"2");
    ends.copy(&["1/x", "2/x", "host:"]).expect(2);
    assert!(!ends.there("x").exists());
    // Neither does the content of two directories go into one.
    ends.copy(&["-r", "host:1/.", "host:2/.", "out"]).expect(2);
    // Directories that are sent become one.
    write(&ends.here("1/d/a"), b"1");
    write(&ends.here("2/d/b"), b"2");
    ends.copy(&["-r", "--delete", "1/d", "2/d", "host:in/"]).expect(0);
    assert!(ends.there("in/d/a").exists() && ends.there("in/d/b").exists());
}

#[test]
fn standard_input_is_copied_under_the_name_that_it_is_given() {
    let ends = Ends::new();
    let copy = |dest: &str| {
        let mut command = ends.command(&["-", dest]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut input = child.stdin.take().unwrap();
        let feed = std::thread::spawn(move || {
            // Fails where the command has refused.
            let _ = std::io::Write::write_all(&mut input, b"from a pipe");
        });
        let finished = finish(child);
        feed.join().unwrap();
        finished
    };
    copy("host:piped").expect(0);
    assert_eq!(fs::read(ends.there("piped")).unwrap(), b"from a pipe");
    fs::create_dir(ends.there("directory")).unwrap();
    let refused = copy("host:directory").expect(2);
    assert!(refused.errors.contains("needs a name"), "{}", refused.errors);
}

#[test]
fn of_a_path_that_ends_with_a_dot_the_content_is_copied_in_both_directions() {
    let ends = Ends::new();
    write(&ends.here("tree/sub/file"), b"1");
    write(&ends.there("tree/sub/file"), b"1");
    ends.copy(&["-r", "tree/sub/.", "host:in"]).expect(0);
    ends.copy(&["-r", "host:tree/sub/.", "out"]).expect(0);
    assert!(ends.there("in/file").exists() && ends.here("out/file").exists());
}

#[test]
fn the_first_request_leaves_with_the_first_packet_unless_it_must_not() {
    let ends = Ends::new();
    write(&ends.there("file"), b"content");
    let early = |finished: &Finished| finished.summary["transport"]["early_data"].clone();
    for arguments in [["host:file", "fetched"], ["fetched", "host:sent"]] {
        let finished = ends.copy(&arguments).expect(0);
        assert_eq!(early(&finished), "accepted", "{arguments:?}");
    }
    assert_eq!(fs::read(ends.there("sent")).unwrap(), b"content");
    let late = ends.copy(&["--no-early-data", "host:file", "late"]).expect(0);
    assert!(early(&late).is_null());
    let plain = ends.copy(&["--profile", "off", "host:file", "plain"]).expect(0);
    assert_eq!(early(&plain), "accepted");
}

#[test]
fn of_two_files_that_would_become_one_the_first_is_sent_and_the_other_is_told() {
    let ends = Ends::new();
    write(&ends.here("1/one"), b"first");
    write(&ends.here("2/one"), b"second");
    write(&ends.here("2/two"), b"2");
    let finished = ends.copy(&["-r", "1/.", "2/.", "host:in/"]).expect(5);
    assert_eq!((finished.number("files"), finished.number("failed")), (2, 1));
    assert!(finished.errors.contains("another source has"), "{}", finished.errors);
    assert_eq!(fs::read(ends.there("in/one")).unwrap(), b"first");
    assert!(ends.there("in/two").exists());
}

#[test]
fn nothing_is_left_of_a_pipe_when_both_ends_are_ended() {
    use std::os::unix::process::CommandExt;
    let ends = Ends::new();
    let mut command = ends.command(&["-", "host:piped"]);
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
    let mut child = command.spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    std::io::Write::write_all(&mut input, &noise(500_000, 1)).unwrap();
    let part = ends.there(".piped.tack-part");
    wait_until(|| part.metadata().is_ok_and(|part| part.len() > 0));
    let group = Pid::from_raw(i32::try_from(child.id()).unwrap());
    nix::sys::signal::killpg(group, Signal::SIGINT).unwrap();
    child.wait().unwrap();
    drop(input);
    wait_until(|| !part.exists());
}

#[test]
fn an_other_end_that_leaves_something_out_is_told() {
    let ends = Ends::new();
    for name in ["one", "two"] {
        write(&ends.there(name), name.as_bytes());
    }
    fs::remove_file(ends.path("bin/tack")).unwrap();
    let script = format!("#!/bin/sh\n'{TACK}' \"$@\" | sed -u 's/,\"two\"//'\n");
    ends.script("bin/tack", &script);
    let finished = ends.copy(&["host:one", "host:two", "."]).expect(6);
    assert!(finished.errors.contains("1 of 2 things"), "{}", finished.errors);
    assert!(!ends.here("one").exists());
}

#[test]
fn a_signal_while_ssh_logs_in_ends_the_command_with_its_own_exit_code() {
    let ends = Ends::new();
    fs::write(ends.here("file"), "x").unwrap();
    let login = "case \"$*\" in *-G*) exit 1 ;; esac; sleep 0.3; touch \"$STAND_IN/started\"";
    ends.script("ssh", &format!("#!/bin/sh\n{login}\nexec sleep 100\n"));
    for sent in [Signal::SIGINT, Signal::SIGTERM] {
        let mut client = ends.command(&["file", "host:"]);
        let client = client.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        wait_until(|| ends.path("started").exists());
        fs::remove_file(ends.path("started")).unwrap();
        signal(&client, sent);
        let ended = finish(client).expect(8);
        assert!(ended.errors.contains("interrupted"), "{}", ended.errors);
        assert_eq!(ended.number("exit_code"), 8);
    }
}

#[test]
fn events_name_paths_as_they_were_typed_whatever_was_there_before() {
    let ends = Ends::new();
    write(&ends.here("a/f"), b"f");
    let told = |arguments: &[&str]| {
        let mut copy = ends.command(arguments);
        let output = copy.args(["-v"]).output().unwrap();
        let lines = String::from_utf8(output.stdout).unwrap();
        let lines = lines.lines().map(|line| serde_json::from_str(line).unwrap());
        let paths = lines
            .filter_map(|line: serde_json::Value| line["path"].as_str().map(str::to_owned));
        paths.collect::<Vec<_>>()
    };
    for _ in 0..2 {
        assert_eq!(told(&["-r", "a", "host:r1"]), ["r1/a/f"]);
        assert_eq!(told(&["a/f", "host:r2/new"]), ["r2/new"]);
        assert_eq!(told(&["-r", "a", "host:"]), ["a/f"]);
        assert_eq!(told(&["-r", "host:r1/a", "got"]), ["r1/a/f"]);
        assert_eq!(told(&["-r", "host:r1/./a/.", "content"]), ["r1/./a/f"]);
    }
    let refused = ends.copy(&["a/f", "host:/proc/x"]).expect(6);
    let expected = "/proc/x: the other side reports: host: ";
    assert!(refused.errors.contains(expected), "{}", refused.errors);
}
