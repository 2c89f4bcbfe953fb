//! The project's own programs: the tests in C, and the examples.

use std::path::Path;
use std::process::Command;

use crate::skip;
use crate::toolchain::{
    Link, STRICT, Server, certificate, compile, has, here, output, program,
};

/// The tests that are written in C.
const TESTS: [&str; 4] = ["interface.c", "paths.c", "http3.c", "frames.c"];

/// Runs the tests that are written in C, by a command in front.
fn run_tests_in_c(link: Link, front: &[&str]) {
    for name in TESTS {
        run_test_in_c(name, link, front);
    }
}

fn run_test_in_c(name: &str, link: Link, front: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    let (certificate, key) = certificate(folder.path());
    let source = here().join("tests/c_programs/c").join(name);
    let tests = compile(&source, folder.path(), link, &STRICT);
    let mut command = match front {
        [] => program(tests),
        [first, rest @ ..] => {
            let mut command = program(first);
            command.args(rest).arg(tests);
            command
        }
    };
    let printed = output(command.arg(certificate).arg(key).arg(folder.path()));
    assert!(printed.contains("all is well"), "{printed}");
}

#[test]
fn a_program_in_c_gets_data_and_errors_of_the_shared_library() {
    run_tests_in_c(Link::Shared, &[]);
}

#[test]
fn a_program_in_c_gets_data_and_errors_of_the_static_library() {
    run_tests_in_c(Link::Static, &[]);
}

#[test]
fn memory_is_neither_lost_nor_used_wrongly() {
    if !has("valgrind") {
        return skip("there is no valgrind on this machine");
    }
    let valgrind = [
        "valgrind",
        "--quiet",
        "--error-exitcode=9",
        "--leak-check=full",
        "--errors-for-leak-kinds=definite,indirect",
        // memcheck loses track of what is initialised in AES code of packets that the layer seals. No code of
        // the project's there is unsafe.
        "--undef-value-errors=no",
    ];
    run_tests_in_c(Link::Shared, &valgrind);
}

/// A file of so many bytes that no part of is like another.
fn file(path: &Path, len: usize) -> Vec<u8> {
    let data: Vec<u8> = (0u32..)
        .flat_map(|word| word.wrapping_mul(0x9e37_79b9).to_be_bytes())
        .take(len)
        .collect();
    std::fs::write(path, &data).unwrap();
    data
}

fn example(name: &str, folder: &Path) -> Command {
    let source = here().join("examples").join(name);
    program(compile(&source, folder, Link::Shared, &STRICT))
}

#[test]
fn the_example_in_c_moves_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let (certificate, key) = certificate(folder);
    let (source, copy) = (folder.join("source"), folder.join("copy"));
    let data = file(&source, 3_000_001);
    for (profile, is_tack) in [("default", "TACK: yes\n"), ("off", "TACK: no\n")] {
        let mut server = example("file_server.c", folder);
        server.args(["127.0.0.1", "0"]).args([&certificate, &key, &source]);
        let server = Server::start(server.env("TACK_PROFILE", profile));
        let mut client = example("file_client.c", folder);
        client.args(["127.0.0.1", &server.port]).args([&certificate, &copy]);
        let client = output(client.env("TACK_PROFILE", profile));
        let server = server.finish();
        assert!(std::fs::read(&copy).unwrap() == data, "the copy differs");
        assert!(client.contains(is_tack) && server.contains(is_tack), "{client}{server}");
        assert_eq!(client.contains("acknowledgements: 0 TACKs"), profile == "off", "{client}");
    }
}

#[test]
fn the_example_in_c_tells_when_the_server_is_not_the_one_that_it_knows() {
    let folder = tempfile::tempdir().unwrap();
    let (others, own) = (tempfile::tempdir().unwrap(), certificate(folder.path()));
    let (stranger, _) = certificate(others.path());
    let source = folder.path().join("source");
    file(&source, 10);
    let mut server = example("file_server.c", folder.path());
    server.args(["127.0.0.1", "0"]).args([&own.0, &own.1, &source]);
    let server = Server::start(&mut server);
    let mut client = example("file_client.c", folder.path());
    client.args(["127.0.0.1", &server.port]).arg(stranger).arg(folder.path().join("copy"));
    let output = client.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        !output.status.success() && errors.contains("the connection has failed"),
        "{errors}"
    );
}

#[test]
fn the_example_in_cpp_follows_the_rate_and_gives_up_what_is_late() {
    const FRAMES: u64 = 45;
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let (certificate, key) = certificate(folder);
    let mut receiver = example("frame_receiver.cpp", folder);
    receiver.args(["127.0.0.1", "0"]).args([&certificate, &key]);
    let receiver = Server::start(&mut receiver);
    let mut sender = example("frame_sender.cpp", folder);
    sender.args(["127.0.0.1", &receiver.port]).arg(&certificate).arg(FRAMES.to_string());
    let sender = output(&mut sender);
    let receiver = receiver.finish();
    let [given, taken, dropped] = numbers(&sender, "frames: ");
    let [whole, lost, bytes] = numbers(&receiver, "frames: ");
    assert_eq!(given, FRAMES, "{sender}");
    assert!(whole > 0 && whole <= taken && whole + lost <= given, "{sender}{receiver}");
    // What is not delivered was dropped.
    assert!(whole + dropped >= given, "{sender}{receiver}");
    assert!(
        sender.contains("TACK: yes") && receiver.contains("TACK: yes"),
        "{sender}{receiver}"
    );
    let [encoder, path] = numbers(&sender, "rate: ");
    // What it begins with, before it hears of a rate.
    assert_ne!(encoder, 250_000, "{sender}");
    assert!(path > 0, "{sender}");
    assert!(bytes > 0, "{receiver}");
}

#[test]
fn the_example_in_c_sends_pictures_and_sound_and_says_what_each_needs() {
    const PICTURES: u64 = 15;
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let (certificate, key) = certificate(folder);
    let mut receiver = example("live_receiver.c", folder);
    receiver.args(["127.0.0.1", "0"]).args([&certificate, &key]);
    let receiver = Server::start(&mut receiver);
    let mut sender = example("live_sender.c", folder);
    sender.args(["127.0.0.1", &receiver.port]).arg(&certificate).arg(PICTURES.to_string());
    let sender = output(&mut sender);
    let receiver = receiver.finish();
    let [taken, dropped] = numbers(&sender, "frames: ");
    assert!(taken + dropped >= 2 * PICTURES, "{sender}");
    let lines = |about: &str| receiver.lines().filter(|line| line.contains(about)).count();
    let whole = lines("frame ") as u64;
    assert!(whole > 0 && whole + dropped >= 2 * PICTURES, "{sender}{receiver}");
    for (first, kind) in
        [("frame 0: key, 9000 bytes\n", ": key"), ("frame 1: audio, 160 bytes\n", ": audio")]
    {
        assert!(lines(kind) > 0, "{receiver}");
        assert!(receiver.contains(first) || dropped > 0, "{sender}{receiver}");
    }
    let needs = "frame 2: delta, 1500 bytes, needs 0\n";
    assert!(receiver.contains(needs) || dropped > 0, "{sender}{receiver}");
}

/// The numbers in the line that begins so.
fn numbers<const N: usize>(printed: &str, begin: &str) -> [u64; N] {
    let line = printed.lines().find_map(|line| line.strip_prefix(begin)).unwrap_or_default();
    let numbers: Vec<u64> = line
        .split(|c: char| !c.is_ascii_digit())
        .filter_map(|number| number.parse().ok())
        .collect();
    numbers.try_into().unwrap_or_else(|_| panic!("{printed}"))
}
