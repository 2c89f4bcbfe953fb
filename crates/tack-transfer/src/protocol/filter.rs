//! What of a tree is left out: patterns as in a .gitignore file.

use std::path::Path;

use ignore::gitignore::{Gitignore, GitignoreBuilder};

use super::WirePath;
use super::pattern::as_git_reads;

/// Patterns, held against paths below the directory that is transferred.
#[derive(Clone, Debug)]
pub struct Filter {
    rules: Gitignore,
}

impl Filter {
    /// Leaves out what the lines of `exclude` name, but not what the patterns of `include` do. A directory that
    /// is left out is so with everything in it. Says what is wrong with a pattern.
    pub fn new<'a>(
        exclude: impl IntoIterator<Item = &'a str>,
        include: impl IntoIterator<Item = &'a str>,
    ) -> Result<Self, String> {
        let mut rules = GitignoreBuilder::new("");
        let mut add = |sign: &str, pattern: &str| {
            let line = format!("{sign}{}", as_git_reads(pattern)?);
            rules.add_line(None, &line).map(drop).map_err(|error| error.to_string())
        };
        for line in exclude.into_iter().filter(|line| !line.starts_with('#')) {
            match line.strip_prefix('!') {
                Some(pattern) => add("!", pattern)?,
                None => add("", line)?,
            }
        }
        for pattern in include {
            add("!", &with_blanks(pattern))?;
        }
        Ok(Self { rules: rules.build().map_err(|error| error.to_string())? })
    }

    /// Returns the line for a pattern of a command line, where # begins no comment and blanks at the end count.
    pub fn line_of(pattern: &str) -> String {
        let escape = if pattern.starts_with('#') { "\\" } else { "" };
        format!("{escape}{}", with_blanks(pattern))
    }

    /// One that leaves nothing out.
    pub fn all() -> Self {
        Self { rules: Gitignore::empty() }
    }

    /// Whether nothing is left out.
    pub fn keeps_all(&self) -> bool {
        self.rules.num_ignores() == 0
    }

    /// Whether a file, or a directory, stays, where the directories that it lies in do.
    pub fn keeps(&self, path: &WirePath, is_directory: bool) -> bool {
        path.is_root() || self.keeps_path(Path::new(path.as_str()), is_directory)
    }

    /// The same for a path that may have names which can't be transferred.
    pub fn keeps_path(&self, path: &Path, is_directory: bool) -> bool {
        !self.rules.matched(path, is_directory).is_ignore()
    }

    /// Whether something of this printed name stays, and all directories that it lies in. Its kind is not known.
    pub fn keeps_printed(&self, name: &str) -> bool {
        // What is in a directory could not be listed.
        let path = Path::new(name.strip_suffix("/.").unwrap_or(name));
        let is_named = |path: &&Path| !matches!(path.to_str(), Some("" | "."));
        path.ancestors().filter(is_named).all(|above| self.keeps_path(above, true))
            && (name == "." || self.keeps_path(path, false))
    }

    /// Whether a directory stays, and all that it lies in.
    pub fn keeps_whole(&self, directory: &WirePath) -> bool {
        let mut below = Some(directory.clone());
        while let Some(path) = below {
            if !self.keeps(&path, true) {
                return false;
            }
            below = path.split_last().map(|(parent, _)| parent);
        }
        true
    }
}

/// Writes each blank at the end of a pattern as a class of characters: as a blank it would be cut off.
fn with_blanks(pattern: &str) -> String {
    let start = pattern.trim_end();
    let blanks = pattern.strip_prefix(start).unwrap_or_default();
    let backslashes = start.len() - start.trim_end_matches('\\').len();
    let start = match start.strip_suffix('\\') {
        // The first blank is escaped already.
        Some(shorter) if backslashes % 2 == 1 && !blanks.is_empty() => shorter,
        _ => start,
    };
    let classes: String = blanks.chars().flat_map(|blank| ['[', blank, ']']).collect();
    format!("{start}{classes}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> WirePath {
        WirePath::new(text).unwrap()
    }

    #[test]
    fn braces_stand_for_themselves_as_in_git() {
        let filter = Filter::new(["{a,b}", "x\\{y", "[{]z"], []).unwrap();
        for (name, stays) in
            [("{a,b}", false), ("a", true), ("b", true), ("x{y", false), ("{z", false)]
        {
            assert_eq!(filter.keeps(&path(name), false), stays, "{name}");
        }
    }

    /// Patterns that the crate alone reads otherwise than git.
    const BRACKETS: [&str; 40] = [
        "[[:digit:]].*",
        "[[:digit:]]",
        "/[[:digit:]]",
        "[[:digit:]]/",
        "x/[[:alpha:]]",
        "[![:alnum:]]",
        "[^[:alnum:]x]y",
        "[[:digit:][:upper:]_-]",
        "[[:digit:]-z]",
        "[a-c-e]",
        "[[:x]",
        "[[:x]]",
        "[:digit:]",
        "[\\]]",
        "[\\]]x",
        "[!\\]]",
        "[]]",
        "[!]a-c]",
        "[]-a]",
        "[\\a-\\c]",
        "[+\\--.]",
        "[a\\-c]",
        "[\\\\]",
        "[-a]",
        "[a-]",
        "[!-]",
        "[--0]",
        "[\\!]",
        "[\\^\\!]",
        "[{}]",
        "{[a]}",
        "a[b/]c",
        "a[!b]c",
        "a[+-9]c",
        "[ä]",
        "[ä-ö][!ö]",
        "[a-ö]*",
        "\\[a]",
        "!x[!y]z",
        "#x[",
    ];

    #[test]
    fn brackets_stand_for_the_characters_that_git_takes_them_for() {
        let single = (1..128_u8).map(char::from).filter(|c| !matches!(c, '/' | '.'));
        let mut names: Vec<String> = single.map(String::from).collect();
        let others = [
            "1.txt", "a.txt", "x/1", "x/a", "x/-", "[a]", "{a}", "a/c", "abc", "a+c", "axc",
            "b", "\\]", "]x", ":y", "xy", "ä", "ö", "ä-", "xyz", "x z", ":x", "[:x", "x]",
            ":]", "i]", "a/b/c", "deep/5", "deep/a/c", "x/[b",
        ];
        names.extend(others.map(String::from));
        let repository = tempfile::tempdir().unwrap();
        let Some(_) = git(repository.path(), &["init", "-q"], "") else {
            return eprintln!("skipped: there is no git");
        };
        for class in CLASSES {
            is_as_in_git(repository.path(), &format!("[[:{class}:]]"), &names);
            is_as_in_git(repository.path(), &format!("[![:{class}:]a]"), &names);
        }
        for pattern in BRACKETS {
            is_as_in_git(repository.path(), pattern, &names);
        }
    }

    const CLASSES: [&str; 12] = [
        "alnum", "alpha", "blank", "cntrl", "digit", "graph", "lower", "print", "punct",
        "space", "upper", "xdigit",
    ];

    /// What git prints; `None` if there is none.
    fn git(directory: &Path, arguments: &[&str], input: &str) -> Option<String> {
        use std::io::{Seek, Write};
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(input.as_bytes()).unwrap();
        file.rewind().unwrap();
        let mut command = std::process::Command::new("git");
        command.args(["-c", "core.excludesFile=/dev/null"]).args(arguments);
        let output = command.current_dir(directory).stdin(file).output().ok()?;
        Some(String::from_utf8(output.stdout).unwrap())
    }

    fn is_as_in_git(repository: &Path, pattern: &str, names: &[String]) {
        // Something is left out in any case, so that a pattern that takes it in again shows.
        let lines = ["xyz", pattern];
        std::fs::write(repository.join(".gitignore"), lines.join("\n")).unwrap();
        // A colon at the beginning would mean something else.
        let asked: Vec<_> = names.iter().map(|name| format!("./{name}")).collect();
        let asked = asked.join("\0");
        let told = git(repository, &["check-ignore", "--no-index", "-z", "--stdin"], &asked);
        let told = told.unwrap();
        let theirs = told.split_terminator('\0').filter_map(|name| name.strip_prefix("./"));
        let theirs: Vec<_> = theirs.collect();
        let filter = Filter::new(lines, []).unwrap();
        let is_out = |name: &str| {
            let path = Path::new(name);
            let above = path.ancestors().skip(1).filter(|above| !above.as_os_str().is_empty());
            !filter.keeps_path(path, false)
                || above.into_iter().any(|a| !filter.keeps_path(a, true))
        };
        let ours: Vec<_> =
            names.iter().map(String::as_str).filter(|name| is_out(name)).collect();
        assert_eq!(ours, theirs, "{pattern}");
    }

    #[test]
    fn names_that_begin_with_a_digit_are_left_out_by_their_class() {
        let filter = Filter::new(["[[:digit:]].*", "[\\]]", "a[!b]c"], []).unwrap();
        for (name, stays) in [("1.key", false), ("x.key", true), ("]", false), ("a/c", true)] {
            assert_eq!(filter.keeps(&path(name), false), stays, "{name}");
        }
    }

    #[test]
    fn brackets_that_match_nothing_are_an_error() {
        for pattern in ["a[b", "[[:digit:]", "[[:digits:]]", "[a\\", "[]", "x[z-a]", "![b"] {
            let error = Filter::new([pattern], []).unwrap_err();
            assert!(error.contains(pattern.trim_start_matches('!')), "{error}");
        }
        assert!(Filter::new(["x[z-a]"], []).is_err());
        assert!(Filter::new([], ["[[:digit:]"]).is_err());
    }

    #[test]
    fn patterns_are_those_of_a_gitignore_file() {
        let exclude = ["# comment", "", "*.tmp", "/top", "cache/", "a/**/z"];
        let filter = Filter::new(exclude, []).unwrap();
        for (name, is_directory, stays) in [
            ("x.tmp", false, false),
            ("deep/x.tmp", false, false),
            ("top", false, false),
            ("deep/top", false, true),
            ("deep/cache", true, false),
            ("deep/cache", false, true),
            ("a/b/c/z", false, false),
            ("b/z", false, true),
        ] {
            assert_eq!(filter.keeps(&path(name), is_directory), stays, "{name}");
        }
    }

    #[test]
    fn a_pattern_that_is_no_line_of_a_file_is_taken_as_it_is() {
        let names = ["#x", "b ", "b", " c", "d\\ ", "d ", "e \t", "f"];
        let left_out = |pattern: &str| -> Vec<_> {
            let line = Filter::line_of(pattern);
            let filter = Filter::new([line.as_str()], []).unwrap();
            let is_out = |name: &&str| !filter.keeps_path(Path::new(*name), false);
            names.iter().copied().filter(is_out).collect()
        };
        for name in ["#x", "b ", "b", " c", "e \t"] {
            assert_eq!(left_out(name), [name]);
        }
        assert_eq!(left_out("d\\ "), ["d "], "it is escaped");
        assert_eq!(left_out("d\\\\ "), ["d\\ "]);
        assert_eq!(left_out(""), [""; 0]);
        let filter = Filter::new(["*"], ["b ", "#x"]).unwrap();
        let stays: Vec<_> =
            names.iter().filter(|name| filter.keeps_path(Path::new(name), false)).collect();
        assert_eq!(stays, [&"#x", &"b "]);
    }

    #[test]
    fn what_is_included_stays_whatever_excludes_it() {
        let filter = Filter::new(["*"], ["*/", "*.jpg"]).unwrap();
        assert!(filter.keeps(&path("photos"), true));
        assert!(filter.keeps(&path("photos/a.jpg"), false));
        assert!(!filter.keeps(&path("photos/a.txt"), false));
    }

    #[test]
    fn a_directory_is_left_out_with_everything_in_it() {
        let filter = Filter::new(["/build"], ["*.jpg"]).unwrap();
        assert!(!filter.keeps_whole(&path("build/deep/down")));
        assert!(filter.keeps_whole(&path("src/build")));
        assert!(filter.keeps_whole(&WirePath::root()));
        assert!(
            Filter::new(["*"], []).unwrap().keeps_whole(&WirePath::root()),
            "it was asked for"
        );
    }

    #[test]
    fn what_is_only_known_as_it_is_printed_is_left_out_by_its_name_and_those_above() {
        assert!(Filter::new(["*"], []).unwrap().keeps_printed("."), "it was asked for");
        let filter = Filter::new(["secret/", "odd*", "/top/sub"], []).unwrap();
        for (name, stays) in [
            ("secret", false),
            ("deep/secret/.", false),
            ("odd\u{fffd}", false),
            ("top/sub/deep/x", false),
            ("top/x", true),
            ("secrets", true),
            (".", true),
        ] {
            assert_eq!(filter.keeps_printed(name), stays, "{name}");
        }
    }

    #[test]
    fn a_pattern_that_makes_no_sense_is_an_error() {
        let error = Filter::new(["x[z-a]"], []).unwrap_err();
        assert!(error.contains("x[z-a]"), "{error}");
    }

    #[test]
    fn without_patterns_everything_stays() {
        assert!(Filter::all().keeps(&path("anything"), false));
    }
}
