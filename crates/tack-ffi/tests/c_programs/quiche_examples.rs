//! quiche's own examples in C, unmodified, with tacklib in the place of quiche.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::skip;
use crate::toolchain::{Link, certificate, compile, has_header, here, output, program};

#[path = "../../../../tacklib/tests/quiche_source/mod.rs"]
#[allow(clippy::duplicate_mod, reason = "each test file has it")]
mod quiche_source;

/// Until when a server must have its socket.
const PATIENCE: Duration = Duration::from_secs(30);

/// What the examples are compiled with beside quiche.
const HEADERS: [(&str, &str); 2] = [("ev.h", "libev-dev"), ("uthash.h", "uthash-dev")];

/// The header of a name that quiche's examples ask for, if it is not there.
fn missing_header() -> Option<(&'static str, &'static str)> {
    HEADERS.into_iter().find(|(header, _)| !has_header(header))
}

/// Compiles an example. Its `#include <quiche.h>` finds the names of this library.
fn example(name: &str, folder: &Path) -> PathBuf {
    let source = quiche_source::quiche_source().join("../examples").join(name);
    std::fs::write(folder.join("quiche.h"), "#include <quiche_compat.h>\n").unwrap();
    let include = format!("-I{}", folder.display());
    // POSIX beside C11: they were written for the compiler's own dialect.
    compile(&source, folder, Link::Shared, &["-std=gnu11", &include, "-lev"])
}

struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts an example that serves. It says nothing when it is ready.
fn serve(path: &Path, folder: &Path, port: u16) -> Server {
    let mut command = Command::new(path);
    command.args(["127.0.0.1", &port.to_string()]).current_dir(folder);
    let server = Server(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    let start = Instant::now();
    while !has_socket(port) {
        assert!(start.elapsed() < PATIENCE, "{} opens no port {port}", path.display());
        std::thread::sleep(Duration::from_millis(20));
    }
    server
}

fn has_socket(port: u16) -> bool {
    let sockets = std::fs::read_to_string("/proc/net/udp").unwrap();
    sockets.contains(&format!(" 0100007F:{port:04X} "))
}

/// A port that is free now.
fn free_port() -> u16 {
    std::net::UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Has a client and a server of quiche's talk, and returns what the client prints, and its log.
fn transfer(client: &str, server: &str, profile: &str) -> Option<(String, String)> {
    if let Some((header, package)) = missing_header() {
        skip(format_args!("quiche's examples need {header} (Debian: {package})"));
        return None;
    }
    let folder = tempfile::tempdir().unwrap();
    certificate(folder.path());
    let port = free_port();
    let server = example(server, folder.path());
    let _server = serve(&server, folder.path(), port);
    let client = example(client, folder.path());
    // The clients end by a timer of libev, which stands still for good if it is set when the connection's time is
    // up: so they may be ended, and must not keep what they print until then.
    let mut command = Command::new("timeout");
    command.args(["10", "stdbuf", "-o0"]).arg(client).args(["127.0.0.1", &port.to_string()]);
    let output = command.env("TACK_PROFILE", profile).output().unwrap();
    let log = String::from_utf8_lossy(&output.stderr).into_owned();
    Some((String::from_utf8_lossy(&output.stdout).into_owned(), log))
}

/// The last lines of a log, as far as they can be read.
fn end_of(log: &str) -> String {
    let lines: Vec<String> =
        log.lines().rev().take(20).map(|line| line.chars().take(100).collect()).collect();
    lines.into_iter().rev().collect::<Vec<_>>().join("\n")
}

#[test]
fn quiches_example_gets_its_answer() {
    for profile in ["default", "off"] {
        let Some((printed, log)) = transfer("client.c", "server.c", profile) else { return };
        assert!(printed.contains("byez"), "{printed}{}", end_of(&log));
        // The layer puts another controller of quiche's in the place of CUBIC, which is inert. Its log shows it.
        assert_eq!(log.contains("gcongestion"), profile == "default", "{}", end_of(&log));
    }
}

#[test]
fn quiches_example_of_http3_gets_its_answer() {
    let Some((printed, log)) = transfer("http3-client.c", "http3-server.c", "default") else {
        return;
    };
    assert!(
        printed.contains("byez") && log.contains("gcongestion"),
        "{printed}{}",
        end_of(&log)
    );
}

/// The functions that quiche's header declares.
fn prototypes() -> String {
    let path = quiche_source::quiche_source().join("../include/quiche.h");
    let header = std::fs::read_to_string(path).unwrap();
    let code = header.lines().map(|line| line.split("//").next().unwrap_or_default());
    let code: Vec<&str> = code.filter(|line| !line.starts_with('#')).collect();
    let mut prototypes = String::new();
    for statement in code.join("\n").split_inclusive(';') {
        let statement = statement.trim_start_matches(|c: char| c.is_whitespace() || c == '}');
        // What is left of structs and enums has braces or no parentheses.
        let is_function = statement.contains("quiche_") && statement.contains('(');
        let is_alike = !EXCEPTIONS.iter().any(|name| statement.contains(&format!("{name}(")));
        if is_function && !statement.contains(['{', '}']) && is_alike {
            prototypes += statement;
            prototypes.push('\n');
        }
    }
    prototypes
}

/// What README.md says is impossible, and a function that takes headers which it cannot change as `const` here.
const EXCEPTIONS: [&str; 3] = [
    "quiche_conn_new_with_tls",
    "quiche_conn_new_with_tls_and_client_dcid",
    "quiche_h3_send_additional_headers",
];

#[test]
fn functions_have_quiches_signatures() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("signatures.c");
    let prototypes = prototypes();
    assert!(prototypes.matches(';').count() > 165, "{prototypes}");
    // Each function is declared a second time, as quiche does; a compiler takes no other signature.
    let main = "int main(void) { return quiche_version() == 0; }\n";
    std::fs::write(&source, format!("#include <quiche_compat.h>\n{prototypes}{main}")).unwrap();
    compile(&source, folder.path(), Link::Shared, &["-Wall", "-Werror"]);
}

#[test]
fn a_program_with_quiches_names_compiles_as_cpp() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("names.cpp");
    let text = "#include <quiche_compat.h>\n\
        int main() {\n\
        quiche_config *config = quiche_config_new(QUICHE_PROTOCOL_VERSION);\n\
        quiche_config_set_cc_algorithm(config, QUICHE_CC_CUBIC);\n\
        enum quiche_path_event_type type = quiche_path_event_type(nullptr);\n\
        quiche_config_free(config);\n\
        return QUICHE_ERR_DONE == -1 && type != QUICHE_PATH_EVENT_NEW ? 0 : 1;\n\
        }\n";
    std::fs::write(&source, text).unwrap();
    assert!(here().join("include/quiche_compat.h").exists());
    let flags = crate::toolchain::STRICT;
    output(&mut program(compile(&source, folder.path(), Link::Shared, &flags)));
}
