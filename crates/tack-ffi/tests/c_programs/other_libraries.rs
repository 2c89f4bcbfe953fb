//! Programs that are linked with tacklib and with libraries that have symbols of the same names.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::skip;
use crate::toolchain::{
    Link, STRICT, certificate, compile, has_header, here, output, prefix, program,
};

/// A test that is written in C.
fn source(name: &str) -> PathBuf {
    here().join("tests/c_programs/c").join(name)
}

fn static_library() -> String {
    prefix().join("lib/libtacklib.a").display().to_string()
}

/// Runs a test in C with a certificate, its key, and the folder.
fn run(tests: &Path, folder: &Path) {
    let (certificate, key) = certificate(folder);
    let printed = output(program(tests).arg(certificate).arg(key).arg(folder));
    assert!(printed.contains("all is well"), "{printed}");
}

#[test]
fn a_program_has_openssl_and_tacklib_each_with_its_own_tls() {
    if !has_header("openssl/ssl.h") {
        return skip("OpenSSL's headers are not on this machine (Debian: libssl-dev)");
    }
    let tacklib = static_library();
    let shared = ["-lssl", "-lcrypto"];
    let archives = ["-l:libssl.a", "-l:libcrypto.a"];
    let folder = tempfile::tempdir().unwrap();
    for openssl in [shared, archives] {
        for (link, first) in [
            (Link::Shared, &openssl[..]),
            (Link::Static, &openssl[..]),
            (Link::Static, &[&tacklib, openssl[0], openssl[1]]),
        ] {
            let flags = [&STRICT[..], first].concat();
            let tests = compile(&source("openssl.c"), folder.path(), link, &flags);
            run(&tests, folder.path());
        }
    }
}

/// A library in Rust that allocates, has threads, and catches panics.
const OTHER: &str = r#"
use std::cell::Cell;

thread_local!(static ANSWER: Cell<i32> = const { Cell::new(2) });

#[unsafe(no_mangle)]
pub extern "C" fn other_answer() -> i32 {
    let thread = std::thread::spawn(|| ANSWER.replace(7));
    let caught = std::panic::catch_unwind(|| {
        let words: Vec<String> = std::env::args().collect();
        assert!(words.is_empty(), "a panic that is caught");
    });
    thread.join().unwrap_or_default() + if caught.is_err() { 40 } else { 0 }
}
"#;

#[test]
fn a_program_has_tacklib_and_another_static_library_in_rust() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    std::fs::write(folder.join("other.rs"), OTHER).unwrap();
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let mut rustc = Command::new(rustc);
    rustc.args(["--edition", "2024", "--crate-type", "staticlib", "other.rs"]);
    output(rustc.current_dir(folder));
    let other = folder.join("libother.a").display().to_string();
    let tacklib = static_library();
    for flags in [
        vec![&other[..]],
        vec![&tacklib, &other],
        vec!["-Wl,--whole-archive", &other, "-Wl,--no-whole-archive"],
    ] {
        let flags = [&STRICT[..], &flags].concat();
        let tests = compile(&source("other_rust.c"), folder, Link::Static, &flags);
        run(&tests, folder);
    }
}

#[test]
fn a_program_gets_what_it_calls_of_the_static_library_and_no_more() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("version.c");
    let text = "#include <tacklib.h>\nint main(void) { return tack_version()[0] != '0'; }\n";
    std::fs::write(&source, text).unwrap();
    let [whole, part] = [&["-s"][..], &["-s", "-Wl,--gc-sections"]].map(|flags| {
        let path = compile(&source, folder.path(), Link::Static, flags);
        output(&mut program(&path));
        path.metadata().unwrap().len()
    });
    assert!(part * 10 < whole, "{part} of {whole} bytes");
}

#[test]
fn a_program_is_linked_without_any_shared_library() {
    let libc = output(Command::new("cc").arg("-print-file-name=libc.a"));
    if !Path::new(libc.trim_end()).is_absolute() {
        return skip("there is no libc.a on this machine");
    }
    let folder = tempfile::tempdir().unwrap();
    let flags = [&STRICT[..], &["-static"]].concat();
    let tests = compile(&source("http3.c"), folder.path(), Link::Static, &flags);
    run(&tests, folder.path());
}
