//! Completions and manual pages.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may panic")]

mod common;

use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};

use clap::CommandFactory;
use common::TACK;
use tack_cli::cli::Cli;

fn completions(shell: &str) -> String {
    let output = Command::new(TACK).args(["completions", shell]).output().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap()
}

/// What a program prints that reads `script`; `None` where it is not installed.
fn read_by(program: &str, script: &str) -> Option<String> {
    let mut child = Command::new(program)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .map_err(|_| common::skip(format_args!("{program} is not installed")))
        .ok()?;
    child.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{program}");
    Some(String::from_utf8(output.stdout).unwrap())
}

#[test]
fn bash_completes_commands_and_options_of_them() {
    let complete = |words: &str, at: usize| {
        let script = format!(
            "{}\nCOMP_WORDS=({words}); COMP_CWORD={at}; _tack tack \"${{COMP_WORDS[$COMP_CWORD]}}\" \
             \"${{COMP_WORDS[$COMP_CWORD-1]}}\"; printf '%s\\n' \"${{COMPREPLY[@]}}\"\n",
            completions("bash")
        );
        read_by("bash", &script)
    };
    let Some(commands) = complete("tack co", 1) else { return };
    assert_eq!(commands.lines().next(), Some("copy"), "{commands}");
    let options = complete("tack send --whole", 2).unwrap();
    assert_eq!(options.trim(), "--whole-file");
}

#[test]
fn all_shells_get_a_script_with_the_commands_that_users_call() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = completions(shell);
        for command in ["serve", "get", "send", "copy", "ls", "demo"] {
            assert!(script.contains(command), "{shell}: {command}");
        }
    }
    if let Some(text) = read_by("zsh", &format!("{}\necho read\n", completions("zsh"))) {
        assert!(text.contains("read"));
    }
}

#[test]
fn every_command_and_option_has_its_place_in_a_manual_page() {
    let dir = tempfile::tempdir().unwrap();
    let made = Command::new(TACK).arg("man").arg(dir.path()).status().unwrap();
    assert!(made.success());
    let page = |name: &str| fs::read_to_string(dir.path().join(format!("{name}.1"))).unwrap();
    let tack = Cli::command();
    let mut pages = 1;
    for command in tack.get_subcommands().filter(|command| !command.is_hide_set()) {
        let text = page(&format!("tack-{}", command.get_name()));
        assert!(page("tack").contains(&format!("tack\\-{}", command.get_name())));
        let shown = command.get_arguments().filter(|argument| !argument.is_hide_set());
        for option in shown.filter_map(|argument| argument.get_long()) {
            let escaped = format!("\\-\\-{}", option.replace('-', "\\-"));
            assert!(text.contains(&escaped), "{}: --{option}", command.get_name());
        }
        pages += 1;
    }
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), pages);
}

#[test]
fn manual_pages_keep_the_lines_of_tables_and_name_codes_and_variables() {
    let dir = tempfile::tempdir().unwrap();
    let made = Command::new(TACK).arg("man").arg(dir.path()).status().unwrap();
    assert!(made.success());
    let page = |name: &str| fs::read_to_string(dir.path().join(format!("{name}.1"))).unwrap();
    for name in ["tack", "tack-get", "tack-serve"] {
        let text = page(name);
        assert!(text.contains(".SH \"EXIT STATUS\"\n.nf\n  0  everything"), "{name}: {text}");
        let environment = text.split(".SH ENVIRONMENT").nth(1).unwrap();
        assert!(environment.contains("TACK_CONFIG"), "{name}: {text}");
        assert!(!text.contains("SH EXTRA"), "{name}: {text}");
    }
    let text = page("tack");
    assert!(text.contains(".SH EXAMPLES\n.nf\n  tack serve ~/outbox "), "{text}");
    assert!(page("tack-get").contains(".SH NOTES\nDEST is the file"));
}
