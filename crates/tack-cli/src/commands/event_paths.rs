//! What events call things: the paths that a user has typed, at the end where something has happened.

use std::io;
use std::path::{Path, PathBuf};

use tack_transfer::{Event, Fail, RootError, TransferError, WirePath, printable};

use super::run::Observer;

/// Something that is transferred, under its names.
#[derive(Debug)]
pub(super) struct Named {
    /// At the server.
    pub(super) remote: WirePath,
    /// The same as it is shown.
    pub(super) shown: String,
    /// At this end, if it has a path.
    pub(super) local: Option<PathBuf>,
}

/// The names of all that an operation transfers.
#[derive(Debug, Default)]
pub(super) struct EventPaths {
    pub(super) names: Vec<Named>,
    /// Sources that have no name at the server, as they were typed; events of such a one name it so.
    pub(super) bare: Vec<String>,
    /// How the user calls the machine of the server, where the name of the program does not say it.
    pub(super) login: Option<String>,
}

impl EventPaths {
    /// Passes an event on with the paths that it has for the user.
    pub(super) fn pass_on(&self, event: Event<'_>, observe: &mut Observer<'_>) {
        match event {
            Event::File { path, outcome } => {
                observe(Event::File { path: &self.shown(path), outcome });
            }
            Event::Edited { path, edit, edited } => {
                observe(Event::Edited { path: &self.shown(path), edit, edited });
            }
            Event::Planned { path, size, change } => {
                observe(Event::Planned { path: &self.shown(path), size, change });
            }
            Event::Skipped { path, reason, failed } => {
                observe(Event::Skipped { path: &self.shown(path), reason, failed });
            }
            Event::NotDeleted { path, reason } => {
                observe(Event::NotDeleted { path: &self.shown(path), reason });
            }
            Event::Failed { path, others, error } => {
                let told = self.told(path, error);
                let others: Vec<_> = others.iter().map(|path| self.shown(path)).collect();
                let error = told.as_ref().unwrap_or(error);
                observe(Event::Failed { path: &self.shown(path), others: &others, error });
            }
            other => observe(other),
        }
    }

    /// The name that covers most of a path, and what is behind it.
    fn find<'a>(&self, path: &'a str) -> Option<(&Named, &'a str)> {
        let behind = |named: &Named| match named.remote.as_str() {
            "" => Some(path),
            remote => {
                let rest = path.strip_prefix(remote)?;
                if rest.is_empty() { Some(rest) } else { rest.strip_prefix('/') }
            }
        };
        let found = self.names.iter().filter_map(|named| Some((named, behind(named)?)));
        found.min_by_key(|(_, rest)| rest.len())
    }

    fn shown(&self, path: &str) -> String {
        match self.find(path).filter(|_| !self.bare.iter().any(|bare| bare == path)) {
            Some((named, rest)) => below(&named.shown, rest),
            None => path.to_owned(),
        }
    }

    /// The error with the name that has failed, if it is not the one of the event.
    fn told(&self, path: &str, error: &TransferError) -> Option<TransferError> {
        match error {
            TransferError::Shared(error) => self.told(path, error),
            TransferError::Local { action, cause } => {
                Some(TransferError::Local { action, cause: self.of_local(path, cause)? })
            }
            TransferError::Root(RootError::Io(cause)) => {
                Some(TransferError::Root(RootError::Io(self.of_local(path, cause)?)))
            }
            TransferError::Remote(fail) => {
                let text = format!("{}: {}", self.login.as_ref()?, fail.text);
                Some(TransferError::Remote(Fail { code: fail.code, text }))
            }
            _ => None,
        }
    }

    fn of_local(&self, path: &str, cause: &io::Error) -> Option<io::Error> {
        let (named, rest) = self.find(path)?;
        let local = named.local.as_ref()?;
        let local = if rest.is_empty() { local.clone() } else { local.join(rest) };
        let local = printable(&local.to_string_lossy());
        Some(io::Error::new(cause.kind(), format!("{local}: {cause}")))
    }
}

/// `rest` below `path`, which may be that of a home.
pub(super) fn below(path: &str, rest: &str) -> String {
    match (path, rest) {
        (path, "") => path.to_owned(),
        ("", rest) => rest.to_owned(),
        (path, rest) => format!("{}/{rest}", path.trim_end_matches('/')),
    }
}

/// What a path of another machine is called in events: as it was typed, without slashes and dots behind it.
pub(super) fn typed(path: &str) -> String {
    let mut name = path;
    while let Some(shorter) = name.strip_suffix('/').or_else(|| name.strip_suffix("/.")) {
        name = shorter;
    }
    match name {
        "" if path.starts_with('/') => "/".to_owned(),
        "." => String::new(),
        name => name.to_owned(),
    }
}

/// Where something goes that is fetched to `dest`: into it, if it is a directory.
pub(super) fn destination(dest: &Path, name: Option<&str>) -> PathBuf {
    let ends_with_slash = dest.as_os_str().as_encoded_bytes().ends_with(b"/");
    match name {
        Some(name) if ends_with_slash || dest.is_dir() => dest.join(name),
        _ => dest.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use tack_transfer::FailCode;

    use super::*;

    fn paths(names: &[(&str, &str, &str)]) -> EventPaths {
        let name = |(remote, shown, local): &(&str, &str, &str)| Named {
            remote: WirePath::new(*remote).unwrap(),
            shown: (*shown).to_owned(),
            local: Some(PathBuf::from(local)),
        };
        let login = Some("user@host".to_owned());
        EventPaths { names: names.iter().map(name).collect(), bare: Vec::new(), login }
    }

    #[test]
    fn a_path_is_shown_as_typed_whatever_the_server_calls_it() {
        for (remote, shown, path, expected) in [
            ("r1", "r1", "r1/a/f", "r1/a/f"),
            ("", "r1", "a/f", "r1/a/f"),
            ("x", "/proc/x", "x", "/proc/x"),
            ("", "/", "x", "/x"),
            ("", "", "a/f", "a/f"),
            ("r1", "../r1", "r10/f", "r10/f"),
        ] {
            assert_eq!(paths(&[(remote, shown, "")]).shown(path), expected, "{path}");
        }
        let two = paths(&[("a", "one", ""), ("a/b", "two", "")]);
        assert_eq!((two.shown("a/b/c"), two.shown("a/c")), ("two/c".into(), "one/c".into()));
    }

    #[test]
    fn an_error_of_this_end_names_the_path_here_and_one_of_the_other_end_the_machine() {
        let paths = paths(&[("ok", "ok", "s/unr")]);
        let cause = || io::Error::from(io::ErrorKind::PermissionDenied);
        let local = TransferError::Local { action: "reading", cause: cause() };
        let told = paths.told("ok/a", &local).unwrap().to_string();
        assert!(told.starts_with("reading failed: s/unr/a: permission denied; "), "{told}");
        let told = paths.told("ok", &RootError::Io(cause()).into()).unwrap().to_string();
        assert!(told.starts_with("s/unr: permission denied"), "{told}");
        let fail = Fail { code: FailCode::Io, text: "no".to_owned() };
        let told = paths.told("ok", &TransferError::Remote(fail)).unwrap().to_string();
        assert!(told.ends_with("user@host: no"), "{told}");
    }

    #[test]
    fn what_was_typed_loses_slashes_and_dots_at_its_end() {
        for (path, expected) in [
            ("a/b/", "a/b"),
            ("a/.", "a"),
            ("a//./", "a"),
            (".", ""),
            ("", ""),
            ("/", "/"),
            ("~", "~"),
            ("../a", "../a"),
        ] {
            assert_eq!(typed(path), expected, "{path}");
        }
    }
}
