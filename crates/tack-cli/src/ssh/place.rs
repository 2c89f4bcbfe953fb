//! Sources and destinations of `tack copy`, as scp's users write them.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::PathBuf;

use tack_transfer::printable;

/// Something to copy, or where to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// A path of this machine.
    Here(PathBuf),
    /// A path of another one.
    There(Login, String),
}

/// Whom ssh logs in as, and where: `[USER@]HOST`, or a name from its configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Login(String);

impl Login {
    /// As ssh takes it.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The host's name or address, as far as it can be told without ssh's configuration.
    pub fn host(&self) -> &str {
        self.0.rsplit_once('@').map_or(self.0.as_str(), |(_, host)| host)
    }
}

impl fmt::Display for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Place {
    /// Reads an argument: what has a colon before any slash is at another machine. The reason why it can
    /// be nothing is for the user.
    pub fn parse(argument: &OsStr) -> Result<Self, String> {
        let here = || Ok(Self::Here(PathBuf::from(argument)));
        let Some((before, path)) = split(argument) else { return here() };
        let Some(path) = path.to_str() else {
            let shown = printable(&argument.to_string_lossy());
            return Err(format!("\"{shown}\": a path of another machine has to be UTF-8"));
        };
        let (user, host) =
            before.rsplit_once('@').map_or((None, before), |(u, h)| (Some(u), h));
        let host = match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
            Some(inner) => inner,
            None => host,
        };
        let login = match user {
            Some(user) => format!("{user}@{host}"),
            None => host.to_owned(),
        };
        let is_host = !host.is_empty() && !host.contains(['[', ']']);
        if !is_host || user == Some("") || login.starts_with('-') {
            let shown = argument.to_string_lossy();
            return Err(format!(
                "\"{shown}\" names no host; expected [USER@]HOST:PATH, and ./ before a file of this \
                 machine whose name has a colon"
            ));
        }
        Ok(Self::There(Login(login), path.to_owned()))
    }
}

/// What is before the colon that ends a host's name, and what is behind it. Brackets count where a host begins, around
/// an IPv6 address: elsewhere they are part of a path, or of no name at all.
fn split(argument: &OsStr) -> Option<(&str, OsString)> {
    use std::os::unix::ffi::{OsStrExt, OsStringExt};
    let bytes = argument.as_bytes();
    let before_slash = bytes.split(|byte| *byte == b'/').next().unwrap_or_default();
    let first_colon = before_slash.iter().position(|byte| *byte == b':')?;
    let user = before_slash[..first_colon].iter().rposition(|byte| *byte == b'@');
    let host_at = user.map_or(0, |at| at + 1);
    let colon = if before_slash[host_at] == b'[' {
        before_slash.windows(2).skip(host_at).position(|pair| pair == b"]:")? + host_at + 1
    } else {
        first_colon
    };
    let host = std::str::from_utf8(&bytes[..colon]).ok()?;
    Some((host, OsString::from_vec(bytes[colon + 1..].to_vec())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Place, String> {
        Place::parse(OsStr::new(text))
    }

    fn there(login: &str, path: &str) -> Place {
        Place::There(Login(login.to_owned()), path.to_owned())
    }

    #[test]
    fn a_colon_before_any_slash_names_another_machine() {
        assert_eq!(parse("host:a/b").unwrap(), there("host", "a/b"));
        assert_eq!(parse("host:").unwrap(), there("host", ""));
        assert_eq!(parse("user@host:/a:b").unwrap(), there("user@host", "/a:b"));
        assert_eq!(parse("[::1]:a").unwrap(), there("::1", "a"));
        assert_eq!(parse("user@[fe80::1%eth0]:/a").unwrap(), there("user@fe80::1%eth0", "/a"));
        for here in ["a", "./a:b", "/a:b", "a/b:c", "../x:y/z", "[x/y:z"] {
            assert_eq!(parse(here), Ok(Place::Here(here.into())), "{here}");
        }
    }

    #[test]
    fn brackets_of_a_path_are_no_brackets_of_a_host() {
        assert_eq!(parse("host:new[1]").unwrap(), there("host", "new[1]"));
        assert_eq!(parse("host:photo[1].jpg").unwrap(), there("host", "photo[1].jpg"));
        assert_eq!(parse("root@host:new[1]:2").unwrap(), there("root@host", "new[1]:2"));
        assert_eq!(parse("host:a@[b]:c").unwrap(), there("host", "a@[b]:c"));
        assert_eq!(parse("host:[1]").unwrap(), there("host", "[1]"));
        assert_eq!(parse("host:a[").unwrap(), there("host", "a["));
        assert_eq!(parse("[::1]:new[1]:2").unwrap(), there("::1", "new[1]:2"));
        assert_eq!(parse("[a]b:c"), Ok(Place::Here("[a]b:c".into())));
        assert!(parse("new[1]:2").unwrap_err().contains("[USER@]HOST:PATH"));
    }

    #[test]
    fn the_host_of_a_login_is_behind_the_user() {
        let host_of = |text| match parse(text) {
            Ok(Place::There(login, _)) => login.host().to_owned(),
            other => panic!("{other:?}"),
        };
        assert_eq!(host_of("a@b@host:x"), "host");
        assert_eq!(host_of("host:x"), "host");
    }

    #[test]
    fn what_ssh_would_take_for_an_option_and_empty_names_are_refused() {
        for text in ["-oProxyCommand=x:y", ":a", "user@:a", "@host:a"] {
            assert!(parse(text).unwrap_err().contains("[USER@]HOST:PATH"), "{text}");
        }
    }
}
