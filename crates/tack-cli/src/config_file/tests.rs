use std::fs;
use std::path::Path;

use clap::{CommandFactory, FromArgMatches};

use super::*;
use crate::cli::{self, Cli};
use crate::target::Address;

struct Files {
    _dir: tempfile::TempDir,
    paths: Vec<PathBuf>,
}

fn files(texts: &[&str]) -> Files {
    let dir = tempfile::tempdir().unwrap();
    let paths: Vec<_> =
        (0..texts.len()).map(|n| dir.path().join(format!("{n}.toml"))).collect();
    for (path, text) in paths.iter().zip(texts) {
        fs::write(path, text).unwrap();
    }
    Files { _dir: dir, paths }
}

impl Files {
    fn read(&self, typed: &str) -> Result<cli::Command, String> {
        let arguments: Vec<_> = typed.split_whitespace().map(OsString::from).collect();
        match read_with(&Cli::command(), &arguments, &self.paths) {
            Ok(matches) => Ok(Cli::from_arg_matches(&matches).unwrap().command),
            Err(Failure::CommandLine(error)) => Err(error.to_string()),
            Err(Failure::File(error)) => Err(error.to_string()),
        }
    }

    fn get(&self, typed: &str) -> cli::GetArgs {
        match self.read(typed).unwrap() {
            cli::Command::Get(args) => args,
            other => panic!("{other:?}"),
        }
    }
}

fn address(text: &str) -> Address {
    text.parse().unwrap()
}

#[test]
fn options_of_a_file_count_unless_the_command_line_says_otherwise() {
    let files =
        files(&["[get]\nretry = 5\npreserve = true\nupdate = false\nbackup = \".old\"\n\
                         exclude = [\"a\", \"b\"]\n[send]\nretry = 9\n"]);
    let args = files.get("tack get host/x");
    let transfer = &args.transfer;
    assert_eq!((transfer.retry, transfer.preserve, transfer.update), (5, true, false));
    assert!(transfer.backup.is_some());
    assert_eq!(transfer.exclude, ["a", "b"]);
    let args = files.get("tack get --retry 7 --exclude c host/x");
    assert_eq!(args.transfer.retry, 7);
    assert_eq!(args.transfer.exclude, ["c"], "what is typed takes the place of what is set");
}

#[test]
fn what_a_file_sets_can_be_taken_back() {
    let files = files(&["[get]\npreserve = true\nbackup = true\nexclude = [\"a\"]\n\
                         no-early-data = true\n[hosts.nas]\nno-preserve = true\n"]);
    let args = files.get("tack get host/x");
    assert!(args.transfer.preserve && args.connection.transport.no_early_data);
    let taken_back = "--no-preserve --no-backup --no-exclude --early-data";
    let args = files.get(&format!("tack get {taken_back} host/x"));
    assert!(!args.transfer.preserve && !args.connection.transport.no_early_data);
    assert!(args.transfer.backup.is_none() && args.transfer.exclude.is_empty());
    assert!(!files.get("tack get nas:x").transfer.preserve);
    assert!(files.get("tack get --preserve nas:x").transfer.preserve);
    let both = files.read("tack get --preserve --no-preserve host/x").unwrap_err();
    assert!(both.contains("cannot be used with"), "{both}");
}

#[test]
fn an_option_that_wants_another_finds_it_in_a_file() {
    let files = files(&["[get]\npreserve = true\n[send]\nretry = 1\n"]);
    assert!(files.get("tack get --xattrs host/x").transfer.xattrs);
    let lacks = files.read("tack send --xattrs file host:").unwrap_err();
    assert!(lacks.contains("--preserve"), "{lacks}");
    let lacks = files.read("tack get").unwrap_err();
    assert!(lacks.contains("required"), "{lacks}");
    let wrong = files.read("tack get --xattrs --no-such-option host/x").unwrap_err();
    assert!(wrong.contains("--no-such-option"), "{wrong}");
}

#[test]
fn of_two_settings_that_exclude_each_other_the_later_one_counts() {
    let pin = "[hosts.nas]\naddress = \"192.0.2.7\"\nfingerprint = \"";
    let print = "ab".repeat(32);
    let files = files(&[
        "[get]\ninsecure = true\nquiet = true\n",
        &format!("[get]\nverbose = true\n{pin}{print}\"\n"),
    ]);
    let args = files.get("tack get nas:x");
    assert!(!args.connection.insecure && args.connection.fingerprint.is_some());
}

#[test]
fn two_settings_of_one_section_that_exclude_each_other_are_a_mistake() {
    let command = with_opposites(&Cli::command());
    let parse = |section: &str, one: &str, other: &str| {
        let text = format!("[{section}]\n{one} = true\n\n{other} = true\n");
        ConfigFile::parse(Path::new("file"), &text, &command).map_err(|e| e.to_string())
    };
    for name in COMMANDS {
        let subcommand = command.find_subcommand(name).unwrap();
        let sections = match name {
            CLIENT => &[CLIENT, "hosts.nas"][..],
            _ => &[name],
        };
        let options: Vec<_> =
            subcommand.get_arguments().filter(|option| option.get_long().is_some()).collect();
        let (mut excluding, mut known) = (0, false);
        for (one, other) in
            options.iter().flat_map(|one| options.iter().map(move |other| (one, other)))
        {
            let (long, other_long) = (one.get_long().unwrap(), other.get_long().unwrap());
            let excludes = excludes(subcommand, one, other) || excludes(subcommand, other, one);
            if long == other_long || !excludes {
                continue;
            }
            excluding += 1;
            known |= (long, other_long) == ("insecure", "fingerprint");
            for section in sections {
                let error = parse(section, long, other_long).unwrap_err();
                let expected = format!(
                    "file:2 and file:4: {long} and {other_long} exclude each other; remove one"
                );
                assert_eq!(error, expected);
            }
        }
        let has_servers = ["get", "send", "ls"].contains(&name);
        assert!(excluding > 0 && known == has_servers, "{name}: {excluding}");
    }
    assert!(parse("get", "insecure", "preserve").is_ok());
}

#[test]
fn what_is_not_set_takes_the_place_of_nothing_but_itself() {
    let pin = format!("fingerprint = \"{}\"\n", "ab".repeat(32));
    let nothing = ["insecure = false\n", "insecure = []\n"];
    for (trusted, not_set) in [pin.as_str(), "ca = \"ca.pem\"\n"]
        .into_iter()
        .flat_map(|trusted| nothing.map(|not_set| (trusted, not_set)))
    {
        for texts in [
            vec![format!("[ls]\n{trusted}{not_set}")],
            vec![format!("[ls]\n{not_set}{trusted}")],
            vec![format!("[hosts.nas]\n{trusted}{not_set}")],
            vec![format!("[hosts.nas]\n{not_set}{trusted}")],
            vec![format!("[ls]\n{trusted}[hosts.nas]\n{not_set}")],
            vec![format!("[ls]\n{not_set}[hosts.nas]\n{trusted}")],
            vec![format!("[ls]\n{trusted}"), format!("[ls]\n{not_set}")],
            vec![format!("[hosts.nas]\n{not_set}"), format!("[hosts.nas]\n{trusted}")],
        ] {
            let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
            let cli::Command::Ls(args) = files(&texts).read("tack ls nas:").unwrap() else {
                panic!("another command")
            };
            let connection = &args.connection;
            let is_pinned = connection.fingerprint.is_some();
            assert_eq!(is_pinned, trusted == pin, "{texts:?}");
            assert_eq!(connection.ca.is_some(), trusted != pin, "{texts:?}");
            assert!(!connection.insecure, "{texts:?}");
        }
    }
}

#[test]
fn what_is_not_taken_back_stays_and_what_is_set_no_more_goes() {
    for (text, preserve) in [
        ("[get]\npreserve = true\n[hosts.nas]\nno-preserve = false\n", true),
        ("[hosts.nas]\nno-preserve = false\npreserve = true\n", true),
        ("[get]\npreserve = true\n[hosts.nas]\npreserve = false\n", false),
        ("[get]\nno-preserve = true\n[hosts.nas]\npreserve = true\n", true),
        ("[get]\npreserve = true\n[hosts.nas]\nno-preserve = true\n", false),
    ] {
        assert_eq!(files(&[text]).get("tack get nas:x").transfer.preserve, preserve, "{text}");
    }
    let pin = format!("[get]\nfingerprint = \"{}\"\n", "ab".repeat(32));
    let insecure = "[get]\ninsecure = true\n";
    for (texts, typed) in [
        (&[&pin, insecure, "[get]\ninsecure = false\n"][..], "tack get host/x"),
        (&[&pin, insecure], "tack get --no-insecure host/x"),
    ] {
        let connection = files(texts).get(typed).connection;
        assert!(!connection.insecure && connection.fingerprint.is_some(), "{typed}");
    }
}

#[test]
fn a_home_that_is_no_directory_has_no_file() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let path = file.path().join("tack").join(FILE);
    assert!(ConfigFile::read(&path, &Cli::command()).unwrap().is_none());
}

#[test]
fn what_excludes_a_setting_wins_on_the_command_line() {
    let files = files(&["[get]\ninsecure = true\nverbose = true\n"]);
    let fingerprint = "0".repeat(64);
    let args = files.get(&format!("tack get -q --fingerprint {fingerprint} host/x"));
    assert!(!args.connection.insecure && args.connection.fingerprint.is_some());
    assert!(args.transfer.quiet && !args.transfer.verbose);
}

#[test]
fn the_later_file_wins() {
    let files = files(&["[get]\nretry = 1\nparallel = 2\n", "[get]\nretry = 3\n"]);
    let args = files.get("tack get host/x");
    assert_eq!((args.transfer.retry, args.transfer.parallel), (3, 2));
}

#[test]
fn an_option_that_lacks_another_one_is_told_with_that() {
    let files = files(&["[get]\nowner = true\n"]);
    let error = files.read("tack get host/x").unwrap_err();
    assert!(error.contains("were not provided: --preserve (set in "), "{error}");
    assert!(error.ends_with("0.toml:2)"), "{error}");
}

#[test]
fn a_name_in_the_file_stands_for_another_server_and_an_address_only_says_where() {
    let files = files(&["[hosts.nas]\naddress = \"files.example:5\"\n"]);
    let args = files.get("tack get nas:x --address 192.0.2.7:6");
    assert_eq!(args.connection.address, Some(address("192.0.2.7:6")));
    assert!(args.connection.host_address.is_none(), "what is typed wins");
    let args = files.get("tack get nas:x");
    assert!(args.connection.address.is_none());
    assert_eq!(args.connection.host_address, Some(address("files.example:5")));
    let args = files.get("tack get nas:x --no-address");
    assert!(args.connection.host_address.is_none());
}

#[test]
fn a_server_that_is_called_by_its_name_has_its_address_and_options() {
    let fingerprint = "1".repeat(64);
    let text = format!(
        "[get]\ninsecure = true\n[hosts.nas]\naddress = \"192.0.2.7:5\"\nfingerprint = \"{fingerprint}\"\n"
    );
    let files = files(&[&text.replace("insecure = true", "retry = 4")]);
    let args = files.get("tack get nas:x");
    assert_eq!(args.connection.host_address, Some(address("192.0.2.7:5")));
    assert!(args.connection.fingerprint.is_some());
    assert_eq!(args.transfer.retry, 4);
    assert!(files.get("tack get other:x").connection.host_address.is_none());
}

#[test]
fn a_command_goes_without_what_it_has_not_of_a_servers_section() {
    let files = files(&["[hosts.nas]\naddress = \"192.0.2.7:5\"\nbwlimit = \"10M\"\n\
                         recursive = true\nwrite-limit = \"1M\"\nretry = 5\n"]);
    let args = files.get("tack get nas:x");
    assert_eq!((args.transfer.bwlimit, args.transfer.retry), (Some(10_000_000), 5));
    assert!(args.recursive && args.write_limit.is_some());
    let cli::Command::Send(args) = files.read("tack send file nas:").unwrap() else {
        panic!("another command")
    };
    assert_eq!((args.transfer.bwlimit, args.transfer.retry), (Some(10_000_000), 5));
    assert_eq!(args.connection.host_address, Some(address("192.0.2.7:5")));
    let cli::Command::Ls(args) = files.read("tack ls nas:").unwrap() else {
        panic!("another command")
    };
    assert!(args.recursive);
    assert_eq!(args.connection.host_address, Some(address("192.0.2.7:5")));
}

#[test]
fn what_no_command_has_is_a_mistake_in_a_servers_section_for_all() {
    let files = files(&["[hosts.nas]\nbwlimt = \"10M\"\n"]);
    for typed in ["tack get nas:x", "tack send file nas:", "tack ls nas:"] {
        let error = files.read(typed).unwrap_err();
        assert!(error.contains("0.toml:2") && error.contains("--bwlimt"), "{error}");
    }
}

#[test]
fn mistakes_in_a_file_are_told_with_its_line() {
    for (text, line, expected) in [
        ("[get]\nretry = 1\nretri = 2\n", 3, "no option --retri"),
        ("\n[fetch]\n", 2, "no section is called [fetch]"),
        ("retry = 1\n", 1, "outside of a section"),
        ("[hosts]\nnas = 1\n", 2, "[hosts.nas]"),
        ("[hosts.nas]\nname = \"x\"\n", 2, "no option --name"),
        ("[get]\nretry = {}\n", 2, "expected a text"),
        ("[get]\nretry = \n", 2, ""),
        ("[get]\nretry = \"soon\"\n", 2, "invalid value"),
    ] {
        let error = files(&[text]).read("tack get host/x").unwrap_err();
        assert!(error.contains(&format!("0.toml:{line}")), "{text}: {error}");
        assert!(error.contains(expected), "{text}: {error}");
    }
}

#[test]
fn without_files_the_command_line_is_read_as_it_is() {
    let missing =
        Files { _dir: tempfile::tempdir().unwrap(), paths: vec!["/no/such/file".into()] };
    assert_eq!(missing.get("tack get host/x").transfer.retry, 60);
    assert!(missing.read("tack get --retry 1 --retry 2 host/x").is_err());
    assert!(missing.read("tack").is_err());
}
