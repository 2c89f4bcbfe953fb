//! `tack copy` through OpenSSH, on the loopback interface. Skips where there is no sshd.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may panic")]

mod common;

use std::fs;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use common::{Finished, TACK, assert_same_tree, noise, run, write};

/// An sshd of this user, with keys of its own.
struct Sshd {
    dir: tempfile::TempDir,
    daemon: Child,
    port: u16,
    user: String,
}

fn program(name: &str) -> Option<PathBuf> {
    let known = ["/usr/sbin", "/usr/bin", "/usr/local/sbin", "/usr/local/bin", "/bin", "/sbin"];
    known.iter().map(|dir| Path::new(dir).join(name)).find(|path| path.exists())
}

fn output_of(command: &mut Command) -> Option<String> {
    let output = command.stderr(Stdio::null()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

impl Sshd {
    /// `None`, with the reason on standard error, if there can be none here.
    fn start() -> Option<Self> {
        let (Some(sshd), Some(keygen), Some(_)) =
            (program("sshd"), program("ssh-keygen"), program("ssh"))
        else {
            common::skip("OpenSSH's server and client are not installed");
            return None;
        };
        // sshd as root wants it for its privilege separation; Debian makes it when the service starts.
        // Others may not make it, nor need it.
        let _ = fs::create_dir_all("/run/sshd");
        let dir = tempfile::tempdir().unwrap();
        for name in ["host", "key"] {
            let made = Command::new(&keygen)
                .args(["-q", "-t", "ed25519", "-N", "", "-f"])
                .arg(dir.path().join(name))
                .status();
            assert!(made.unwrap().success());
        }
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut daemon = Command::new(sshd);
        daemon.args(["-D", "-e", "-f", "/dev/null", "-o", "ListenAddress=127.0.0.1", "-p"]);
        daemon.arg(port.to_string()).arg("-h").arg(dir.path().join("host"));
        for option in ["StrictModes=no", "PidFile=none", "UsePAM=no"] {
            daemon.args(["-o", option]);
        }
        let keys = dir.path().join("key.pub");
        daemon.arg("-o").arg(format!("AuthorizedKeysFile={}", keys.display()));
        let log = fs::File::create(dir.path().join("log")).unwrap();
        let daemon = daemon.stdout(Stdio::null()).stderr(log).spawn().unwrap();
        let user = output_of(Command::new("id").arg("-un")).unwrap();
        let mut started = Self { dir, daemon, port, user };
        if started.lets_in() {
            return Some(started);
        }
        let log = fs::read_to_string(started.dir.path().join("log")).unwrap_or_default();
        common::skip(format_args!("sshd lets this user not in: {log}"));
        None
    }

    fn lets_in(&mut self) -> bool {
        let deadline = Instant::now() + Duration::from_secs(10);
        let address = SocketAddr::from(([127, 0, 0, 1], self.port));
        while TcpStream::connect(address).is_err() {
            if Instant::now() > deadline || self.daemon.try_wait().unwrap().is_some() {
                return false;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let mut ssh = Command::new("ssh");
        ssh.args(self.options()).args(["-p", &self.port.to_string(), "-o", "BatchMode=yes"]);
        output_of(ssh.arg(self.login()).arg("echo in")).is_some_and(|text| text.ends_with("in"))
    }

    fn login(&self) -> String {
        format!("{}@127.0.0.1", self.user)
    }

    fn options(&self) -> Vec<String> {
        let path = |name: &str| self.dir.path().join(name).display().to_string();
        let mut options =
            vec!["-F".to_owned(), "/dev/null".to_owned(), "-i".to_owned(), path("key")];
        for option in ["StrictHostKeyChecking=no", "LogLevel=ERROR"] {
            options.extend(["-o".to_owned(), option.to_owned()]);
        }
        options.extend(["-o".to_owned(), format!("UserKnownHostsFile={}", path("known"))]);
        options
    }

    fn copy(&self, arguments: &[&str]) -> Finished {
        self.copy_with(&self.port.to_string(), &self.options(), arguments)
    }

    fn copy_with(&self, port: &str, options: &[String], arguments: &[&str]) -> Finished {
        let mut copy = Command::new(TACK);
        copy.args(["copy", "--json", "--remote-tack", TACK, "-P", port]);
        copy.args(options).args(arguments).current_dir(self.dir.path());
        run(&mut copy)
    }

    /// A file is copied; whether ssh says that it logs in over a connection of tack's.
    fn goes_over_a_connection_of_tack(&self, arguments: &[&str]) -> bool {
        let mut options = self.options();
        for option in &mut options {
            *option = option.replace("LogLevel=ERROR", "LogLevel=DEBUG1");
        }
        let there = format!("{}:{}", self.login(), self.dir.path().join("there").display());
        let arguments = [arguments, &["file", &there]].concat();
        let finished = self.copy_with(&self.port.to_string(), &options, &arguments).expect(0);
        assert!(finished.errors.contains("Local version string"), "{}", finished.errors);
        finished.errors.contains("Executing proxy dialer command: exec")
    }
}

impl Drop for Sshd {
    fn drop(&mut self) {
        let _ = self.daemon.kill();
        let _ = self.daemon.wait();
    }
}

#[test]
fn trees_are_copied_over_ssh_so_that_rsync_has_nothing_to_do() {
    let Some(sshd) = Sshd::start() else { return };
    let (source, there) = (sshd.dir.path().join("tree"), sshd.dir.path().join("there"));
    write(&source.join("large"), &noise(3_000_000, 1));
    write(&source.join("deep/er/small"), b"small");
    fs::create_dir(source.join("empty")).unwrap();
    symlink("deep/er/small", source.join("link")).unwrap();
    fs::hard_link(source.join("large"), source.join("same")).unwrap();
    let remote = format!("{}:{}", sshd.login(), there.display());
    sshd.copy(&["-r", "--preserve", "tree", &remote]).expect(0);
    assert_same_tree(&source, &there.join("tree"));
    sshd.copy(&["-r", "--preserve", &format!("{remote}/tree"), "back"]).expect(0);
    let copies = [there.join("tree"), sshd.dir.path().join("back/tree")];
    for copy in &copies {
        assert_same_tree(&source, copy);
    }

    let Some(rsync) = program("rsync") else {
        common::skip("rsync is not installed, which would compare the trees");
        return;
    };
    for copy in &copies {
        let mut compare = Command::new(&rsync);
        compare.arg("-nrlptHi").arg(source.join("")).arg(copy.join(""));
        assert_eq!(output_of(&mut compare), Some(String::new()), "{}", copy.display());
    }
}

#[test]
fn ssh_that_is_not_let_in_is_told() {
    let Some(sshd) = Sshd::start() else { return };
    fs::write(sshd.dir.path().join("file"), "x").unwrap();
    fs::write(sshd.dir.path().join("key.pub"), "").unwrap();
    let there = format!("{}:{}", sshd.login(), sshd.dir.path().join("there").display());
    let finished = sshd.copy(&["-o", "BatchMode=yes", "file", &there]).expect(3);
    assert!(finished.errors.contains("could not log in"), "{}", finished.errors);
}

#[test]
fn ssh_logs_in_over_a_connection_without_nagle_s_algorithm_unless_it_has_ways_of_its_own() {
    let Some(sshd) = Sshd::start() else { return };
    fs::write(sshd.dir.path().join("file"), "x").unwrap();
    assert!(sshd.goes_over_a_connection_of_tack(&[]));
    for own in ["AddressFamily=inet", "BindAddress=127.0.0.1", "ProxyUseFdpass=yes"] {
        assert!(!sshd.goes_over_a_connection_of_tack(&["-o", own]), "{own}");
    }
}

#[test]
fn a_port_on_which_no_ssh_server_listens_is_told() {
    let Some(sshd) = Sshd::start() else { return };
    fs::write(sshd.dir.path().join("file"), "x").unwrap();
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let there = format!("{}:there", sshd.login());
    let finished =
        sshd.copy_with(&closed.to_string(), &sshd.options(), &["file", &there]).expect(3);
    let told = format!("connecting to 127.0.0.1 port {closed}: Connection refused");
    assert!(finished.errors.contains(&told), "{}", finished.errors);
}
