//! What of a tree is left out: patterns as in a .gitignore file.

use std::path::Path;

use ignore::gitignore::{Gitignore, GitignoreBuilder};

use super::WirePath;

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
        for line in exclude {
            rules.add_line(None, &plain_braces(line)).map_err(|error| error.to_string())?;
        }
        for pattern in include {
            rules
                .add_line(None, &format!("!{}", plain_braces(&with_blanks(pattern))))
                .map_err(|error| error.to_string())?;
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

/// The pattern with braces for themselves, as git takes them: the crate would take them for alternatives.
fn plain_braces(pattern: &str) -> String {
    let mut plain = String::with_capacity(pattern.len());
    let (mut is_escaped, mut is_class) = (false, false);
    for character in pattern.chars() {
        if matches!(character, '{' | '}') && !is_escaped && !is_class {
            plain.push('\\');
        }
        match character {
            _ if is_escaped => {}
            '[' => is_class = true,
            ']' => is_class = false,
            _ => {}
        }
        is_escaped = character == '\\' && !is_escaped;
        plain.push(character);
    }
    plain
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
