//! The commands of docs/embedding.md, run as their reader would, with the program that cargo has built.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

const EMBEDDING: &str = include_str!("../../../docs/embedding.md");

/// The lines of the section that begin with `moq`, split into words.
fn commands() -> Vec<Vec<&'static str>> {
    let (_, section) = EMBEDDING.split_once("\n## From MoQ and WebTransport\n").unwrap();
    let section = section.split_once("\n## ").unwrap().0;
    let is_command = |line: &&str| line.starts_with("moq ");
    section.lines().filter(is_command).map(|line| line.split(' ').collect()).collect()
}

/// Ends the program with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs a command, and returns what it prints; one that ends with `&` goes on beside the others.
fn run(words: &[&str], background: &mut Vec<Running>) -> String {
    let is_background = words.last() == Some(&"&");
    let arguments = if is_background { &words[1..words.len() - 1] } else { &words[1..] };
    let mut command = Command::new(env!("CARGO_BIN_EXE_moq"));
    command.args(arguments).stdout(Stdio::piped());
    if !is_background {
        let output = command.output().unwrap();
        assert!(output.status.success(), "{words:?} fails: {output:?}");
        return String::from_utf8(output.stdout).unwrap();
    }
    let mut child = command.spawn().unwrap();
    if arguments[0] == "relay" {
        // Its first line says that it listens.
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.contains("tack"), "{line:?}");
    }
    background.push(Running(child));
    String::new()
}

#[test]
fn the_commands_of_the_guide_do_what_it_says() {
    let mut background = Vec::new();
    let outputs = commands()
        .iter()
        .map(|words| run(words, &mut background))
        .filter(|output| !output.is_empty())
        .collect::<Vec<_>>();
    let [subscribed, compared] = &outputs[..] else { panic!("{outputs:?}") };
    assert!(subscribed.starts_with("4 groups, 100 frames"), "{subscribed}");
    assert!(EMBEDDING.contains("`4 groups, 100 frames`"));
    let rows = compared.lines().filter(|line| line.contains(" 50/50 ")).collect::<Vec<_>>();
    assert!(rows.len() == 3, "a row of each transport, and all frames: {compared}");
    for (row, name) in rows.iter().zip(["tack ", "quinn ", "quinn-bbr "]) {
        assert!(row.starts_with(name), "{compared}");
    }
}
