//! Patterns of .gitignore files, written so that the `ignore` crate reads them as git does.
//!
//! The crate takes braces for alternatives, knows neither `[:digit:]` nor escapes inside brackets, and lets what is in
//! brackets stand for a slash.

use std::iter::Peekable;
use std::str::Chars;

/// A character that no name has.
const IN_NO_NAME: char = '\0';

/// Writes a pattern, without the `!` of one that takes names back in. Says what is wrong with it.
pub(super) fn as_git_reads(pattern: &str) -> Result<String, String> {
    let mut written = String::with_capacity(pattern.len());
    let mut rest = pattern.chars().peekable();
    while let Some(character) = rest.next() {
        match character {
            '\\' => {
                written.push(character);
                written.extend(rest.next());
            }
            '{' | '}' => written.extend(['\\', character]),
            '[' => {
                let brackets = Brackets::parse(&mut rest);
                brackets.map_err(|wrong| format!("{pattern}: {wrong}"))?.write(&mut written);
            }
            _ => written.push(character),
        }
    }
    // A slash between brackets counts, too.
    Ok(match (is_anchored(pattern), is_anchored(&written)) {
        (false, true) => format!("**/{written}"),
        (true, false) => format!("/{written}"),
        _ => written,
    })
}

/// Whether a pattern stands for what is at one place, and not for names wherever they are.
fn is_anchored(pattern: &str) -> bool {
    let pattern = pattern.trim_end();
    pattern.strip_suffix('/').unwrap_or(pattern).contains('/')
}

/// What stands between brackets.
struct Brackets {
    is_negated: bool,
    ascii: [bool; 128],
    /// Ranges of other characters. Git and the crate both take them for their bytes.
    others: Vec<(char, char)>,
}

impl Brackets {
    /// Reads up to the closing bracket, as git's `wildmatch.c` does.
    fn parse(rest: &mut Peekable<Chars<'_>>) -> Result<Self, String> {
        let is_negated = rest.next_if(|sign| matches!(sign, '!' | '^')).is_some();
        let mut read = Self { is_negated, ascii: [false; 128], others: Vec::new() };
        let (mut is_first, mut before) = (true, None);
        loop {
            let character = rest.next().ok_or_else(unclosed)?;
            before = match (character, before) {
                (']', _) if !is_first => return Ok(read),
                ('-', Some(first)) if rest.peek().is_some_and(|next| *next != ']') => {
                    let last = rest.next().ok_or_else(unclosed)?;
                    let last = if last == '\\' { escaped(rest)? } else { last };
                    read.add(first, last)?;
                    None
                }
                ('[', _) if read.add_class(rest)? => None,
                (character, _) => {
                    let one = if character == '\\' { escaped(rest)? } else { character };
                    read.add(one, one)?;
                    Some(one)
                }
            };
            is_first = false;
        }
    }

    fn add(&mut self, first: char, last: char) -> Result<(), String> {
        if last < first {
            return Err(format!("the range {first}-{last} has nothing in it"));
        }
        for (byte, is_in) in (0_u8..).zip(&mut self.ascii) {
            *is_in |= (first..=last).contains(&char::from(byte));
        }
        if !last.is_ascii() {
            self.others.push((first.max('\u{80}'), last));
        }
        Ok(())
    }

    /// Adds what a name such as `[:digit:]` stands for; `false` if none follows.
    fn add_class(&mut self, rest: &mut Peekable<Chars<'_>>) -> Result<bool, String> {
        let mut ahead = rest.clone();
        if ahead.next() != Some(':') {
            return Ok(false);
        }
        let mut name = String::new();
        loop {
            match ahead.next().ok_or_else(unclosed)? {
                ']' => break,
                character => name.push(character),
            }
        }
        let Some(name) = name.strip_suffix(':') else { return Ok(false) };
        let is_member = class(name).ok_or_else(|| format!("there is no class [:{name}:]"))?;
        for (byte, is_in) in (0_u8..).zip(&mut self.ascii) {
            *is_in |= is_member(byte);
        }
        *rest = ahead;
        Ok(true)
    }

    fn has(&self, character: char) -> bool {
        self.ascii.get(character as usize).is_some_and(|is_in| *is_in)
    }

    /// Writes it without escapes, which the crate knows none of here: a closing bracket has to be the first character,
    /// and a minus the last.
    fn write(&self, to: &mut String) {
        to.push('[');
        if self.is_negated {
            to.push('!');
        }
        if self.has(']') {
            to.push(']');
        } else {
            // Keeps a ! or ^ from being the sign, and the brackets from being empty.
            to.push(IN_NO_NAME);
        }
        let plain =
            (0..128_u8).map(char::from).filter(|c| !matches!(c, '\0' | '-' | '/' | ']'));
        to.extend(plain.filter(|character| self.has(*character)));
        for (first, last) in &self.others {
            to.extend([*first, '-', *last]);
        }
        if self.is_negated {
            // A slash only ever stands for itself.
            to.push('/');
        }
        if self.has('-') {
            to.push('-');
        }
        to.push(']');
    }
}

fn unclosed() -> String {
    "[ without ]; write \\[ for a bracket in a name".to_owned()
}

fn escaped(rest: &mut Peekable<Chars<'_>>) -> Result<char, String> {
    rest.next().ok_or_else(unclosed)
}

/// The members of a class, of which git takes ASCII characters alone.
fn class(name: &str) -> Option<fn(u8) -> bool> {
    Some(match name {
        "alnum" => |byte| byte.is_ascii_alphanumeric(),
        "alpha" => |byte| byte.is_ascii_alphabetic(),
        "blank" => |byte| matches!(byte, b' ' | b'\t'),
        "cntrl" => |byte| byte.is_ascii_control(),
        "digit" => |byte| byte.is_ascii_digit(),
        "graph" => |byte| byte.is_ascii_graphic(),
        "lower" => |byte| byte.is_ascii_lowercase(),
        "print" => |byte| byte.is_ascii_graphic() || byte == b' ',
        "punct" => |byte| byte.is_ascii_punctuation(),
        "space" => |byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r'),
        "upper" => |byte| byte.is_ascii_uppercase(),
        "xdigit" => |byte| byte.is_ascii_hexdigit(),
        _ => return None,
    })
}
