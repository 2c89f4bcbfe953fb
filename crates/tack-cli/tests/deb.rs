//! The Debian package, made of the program under test. Skips where Debian's tools are missing.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may panic")]

mod common;

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use common::TACK;

const PACKAGING: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/packaging");

fn is_installed(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success())
}

fn output_of(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output
}

fn text(path: &Path) -> String {
    fs::read_to_string(path).unwrap()
}

#[test]
fn the_package_has_the_program_its_pages_completions_and_a_service_that_is_not_started() {
    for program in ["dpkg-deb", "dpkg-shlibdeps", "strip"] {
        if !is_installed(program) {
            common::skip(format_args!(
                "{program} is not installed (Debian: dpkg-dev, binutils)"
            ));
            return;
        }
    }
    let dir = tempfile::tempdir().unwrap();
    let (out, root) = (dir.path().join("out"), dir.path().join("root"));
    let mut build = Command::new(format!("{PACKAGING}/build-deb"));
    let built = output_of(build.args(["--binary", TACK]).arg(&out));
    let package = String::from_utf8(built.stdout).unwrap();
    output_of(Command::new("dpkg-deb").args(["--raw-extract", package.trim()]).arg(&root));

    let version = output_of(Command::new(root.join("usr/bin/tack")).arg("--version"));
    let version = String::from_utf8(version.stdout).unwrap();
    let version = version.trim().strip_prefix("tack ").unwrap();
    let control = text(&root.join("DEBIAN/control"));
    assert!(control.contains(&format!("\nVersion: {version}\n")), "{control}");
    assert!(control.contains("\nDepends: libc6 "), "{control}");
    assert_eq!(text(&root.join("DEBIAN/conffiles")), "/etc/default/tack-serve\n");
    for name in ["tack", "tack-copy", "tack-get", "tack-send", "tack-ls", "tack-serve"] {
        assert!(root.join(format!("usr/share/man/man1/{name}.1.gz")).exists(), "{name}");
    }
    let completions = root.join("usr/share/bash-completion/completions/tack");
    assert!(text(&completions).contains("serve"));
    for script in ["postinst", "prerm"] {
        let path = root.join("DEBIAN").join(script);
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o755);
        assert!(!text(&path).contains("enable"), "the administrator says when it starts");
        output_of(Command::new("sh").arg("-n").arg(path));
    }
}

fn unit() -> String {
    text(&Path::new(PACKAGING).join("tack-serve.service"))
}

/// What `tack serve` is run with by the service, where these variables have other values than by default.
fn arguments_of_the_service(changed: &[(&str, &str)]) -> Vec<String> {
    let unit = unit();
    let values = |line: &str| -> Vec<(String, String)> {
        let all = match line.strip_prefix('"') {
            Some(quoted) => vec![quoted.trim_end_matches('"')],
            None => line.split_whitespace().collect(),
        };
        let pair = |one: &str| one.split_once('=').map(|(n, v)| (n.to_owned(), v.to_owned()));
        all.into_iter().filter_map(pair).collect()
    };
    let lines = unit.lines().filter_map(|line| line.strip_prefix("Environment="));
    let mut variables: Vec<_> = lines.flat_map(values).collect();
    for (name, value) in &mut variables {
        if let Some((_, other)) = changed.iter().find(|(changed, _)| changed == name) {
            (*other).clone_into(value);
        }
    }
    let mut line = unit
        .lines()
        .find_map(|line| line.strip_prefix("ExecStart=/usr/bin/tack "))
        .unwrap()
        .to_owned();
    for (name, value) in variables {
        line =
            line.replace(&format!("${{{name}}}"), &value).replace(&format!("${name}"), &value);
    }
    assert!(!line.contains('$'), "{line}");
    line.split_whitespace().map(str::to_owned).collect()
}

/// Runs it with `/var/lib/tack` in that directory. Its first line.
fn first_line_of_the_service(state: &Path, changed: &[(&str, &str)]) -> String {
    let state = state.to_str().unwrap();
    let arguments = arguments_of_the_service(changed);
    let inside = |argument: String| argument.replace("/var/lib/tack", state);
    let mut serve = Command::new(TACK);
    serve.args(arguments.into_iter().map(inside)).stdout(Stdio::piped());
    let mut child = serve.spawn().unwrap();
    let mut line = String::new();
    let output = child.stdout.take().unwrap();
    BufReader::new(output).read_line(&mut line).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    line
}

const LISTEN: (&str, &str) = ("TACK_OPTIONS", "--listen 127.0.0.1:0");

#[test]
fn the_service_runs_with_the_options_that_the_program_has() {
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path().join("state");
    fs::create_dir_all(state.join("files")).unwrap();
    let line = first_line_of_the_service(&state, &[LISTEN]);
    assert!(line.contains("read-only"), "{line}");
    let identity = state.join("identity/identity.pem");
    assert!(state.join("token").exists() && identity.exists());

    // A certificate of an authority, and everybody comes in.
    let pem = identity.to_str().unwrap();
    let certificate = format!("--cert {pem} --key {pem}");
    let changed = [("TACK_ACCESS", "--no-token"), ("TACK_CERTIFICATE", &*certificate), LISTEN];
    let line = first_line_of_the_service(&state, &changed);
    assert!(line.contains("read-only"), "{line}");
}

/// Versions of systemd below 252 fail to start a service that has one in another.
#[test]
fn no_directory_of_the_services_state_is_in_another() {
    let unit = unit();
    let line = unit.lines().find_map(|line| line.strip_prefix("StateDirectory=")).unwrap();
    let all: Vec<_> = line.split_whitespace().map(Path::new).collect();
    for one in &all {
        assert!(all.iter().all(|other| one == other || !one.starts_with(other)), "{line}");
    }
}

#[test]
fn the_service_is_confined() {
    if !is_installed("systemd-analyze") {
        common::skip("systemd-analyze is not installed (Debian: systemd)");
        return;
    }
    // Of 100, where 0 is a service that can do nothing.
    let mut analyze = Command::new("systemd-analyze");
    analyze.args(["security", "--offline=true", "--threshold=20", "--no-pager"]);
    output_of(analyze.arg(format!("{PACKAGING}/tack-serve.service")));
}
