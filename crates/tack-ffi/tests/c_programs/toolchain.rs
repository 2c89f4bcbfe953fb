//! What the programs are compiled with.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::sync::OnceLock;

/// A program that takes longer, in seconds, hangs.
const PATIENCE: &str = "120";

/// Which library a program is linked with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Link {
    Shared,
    Static,
}

/// Where headers and libraries are, installed as a user would. A build without optimisation will do.
pub fn prefix() -> &'static Path {
    static PREFIX: OnceLock<PathBuf> = OnceLock::new();
    PREFIX.get_or_init(|| {
        let prefix = Path::new(env!("CARGO_TARGET_TMPDIR")).join("c-prefix");
        let mut install = Command::new(here().join("install"));
        output(install.arg(&prefix).env("TACKLIB_PROFILE", "dev"));
        prefix
    })
}

pub fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Compiles a program into a folder. What has the ending of C++ is C++.
pub fn compile(source: &Path, folder: &Path, link: Link, flags: &[&str]) -> PathBuf {
    let is_cpp = source.extension().unwrap() == "cpp";
    let (compiler, standard) = if is_cpp { ("c++", "-std=c++17") } else { ("cc", "-std=c11") };
    let program = folder.join(source.file_stem().unwrap());
    let mut command = Command::new(compiler);
    command.args([standard, "-g", "-o"]).arg(&program).arg(source).args(flags);
    command.args(pkg_config(link));
    if link == Link::Shared {
        command.arg(format!("-Wl,-rpath,{}", prefix().join("lib").display()));
    }
    output(&mut command);
    program
}

/// Flags for programs of the project: their code has no warnings.
pub const STRICT: [&str; 4] = ["-Wall", "-Wextra", "-Werror", "-pedantic"];

/// What tacklib.pc says.
fn pkg_config(link: Link) -> Vec<String> {
    assert!(has("pkg-config"), "pkg-config is missing; Debian: apt-get install pkg-config");
    let mut command = Command::new("pkg-config");
    command.args(["--cflags", "--libs"]).env("PKG_CONFIG_PATH", prefix().join("lib/pkgconfig"));
    if link == Link::Static {
        command.arg("--static");
    }
    let flags = output(command.arg("tacklib"));
    let flags = flags.split_whitespace().map(|flag| match (link, flag) {
        // The linker would take the shared library.
        (Link::Static, "-ltacklib") => "-l:libtacklib.a".to_owned(),
        _ => flag.to_owned(),
    });
    flags.collect()
}

/// Whether there is a program of this name.
pub fn has(program: &str) -> bool {
    let found = Command::new(program).arg("--version").stdout(Stdio::null()).status();
    found.is_ok_and(|status| status.success())
}

/// Whether the compiler finds a header.
pub fn has_header(name: &str) -> bool {
    let mut check = Command::new("cc");
    check.args(["-E", "-include", name, "-x", "c", "/dev/null"]);
    check.stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap().success()
}

/// A program that is ended if it hangs.
pub fn program(path: impl AsRef<Path>) -> Command {
    let mut command = Command::new("timeout");
    command.arg(PATIENCE).arg(path.as_ref()).env_remove("TACK_PROFILE");
    command
}

/// Runs a program, which has to succeed, and returns what it prints.
pub fn output(command: &mut Command) -> String {
    let output: Output =
        command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}\n{printed}{errors}", output.status);
    printed
}

/// A program that serves, which ends with the test.
pub struct Server {
    child: Child,
    printed: BufReader<ChildStdout>,
    /// The port that it says.
    pub port: String,
}

impl Server {
    /// Starts a program that prints the port that it has got.
    pub fn start(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut printed = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        printed.read_line(&mut line).unwrap();
        let port = line.trim_end().strip_prefix("listening on port ").map(str::to_owned);
        Self { child, printed, port: port.unwrap_or_else(|| panic!("{line:?}")) }
    }

    /// Waits for its end, which has to be a good one, and returns what it has printed since.
    pub fn finish(mut self) -> String {
        let mut rest = String::new();
        self.printed.read_to_string(&mut rest).unwrap();
        let status = self.child.wait().unwrap();
        assert!(status.success(), "{status}: {rest}");
        rest
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A certificate for "localhost" and its key, in a folder.
pub fn certificate(folder: &Path) -> (PathBuf, PathBuf) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let (certificate, key) = (folder.join("cert.crt"), folder.join("cert.key"));
    std::fs::write(&certificate, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    (certificate, key)
}
