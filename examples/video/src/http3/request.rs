//! What a request asks for: a file, and which bytes of it.

use std::ops::Range;
use std::path::{Component, Path, PathBuf};

/// The media type of pages.
pub const HTML: &str = "text/html; charset=utf-8";

/// The kinds of files that media consist of, and their media types (RFC 8216 section 4, ISO/IEC 23000-19). No
/// others are served, whatever else is in the directory.
const MEDIA_TYPES: [(&str, &str); 4] = [
    ("m3u8", "application/vnd.apple.mpegurl"),
    ("mp4", "video/mp4"),
    ("m4s", "video/iso.segment"),
    ("html", HTML),
];

/// The longest path that is looked at, bytes.
const MAX_PATH: usize = 1024;

/// The file that a path names in the directory of the media, and its media type. `None` if it can name none: names
/// of media need no escapes, and lead nowhere else.
pub fn file(root: &Path, path: &str) -> Option<(PathBuf, &'static str)> {
    let path = path.split(['?', '#']).next()?.strip_prefix('/')?;
    let name = Path::new(path);
    let is_plain = path.len() <= MAX_PATH
        && !path.contains(['%', '\\', '\0'])
        && name.components().all(|part| match part {
            Component::Normal(part) => !part.to_string_lossy().starts_with('.'),
            _ => false,
        });
    let ending = name.extension()?.to_str()?;
    let (_, media_type) = MEDIA_TYPES.iter().find(|(known, _)| *known == ending)?;
    is_plain.then(|| (root.join(name), *media_type))
}

/// What a Range field asks of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// All of it: there is no field, or one that a server may ignore (RFC 9110 section 14.2).
    Whole,
    /// These bytes; they are in the file.
    Bytes(Range<u64>),
    /// Bytes that it has not.
    OutOfRange,
}

/// Reads a Range field for a file of so many bytes. Several ranges at once are ignored: players ask for one.
pub fn range(field: Option<&str>, len: u64) -> Part {
    let Some(spec) = field.and_then(|field| field.trim().strip_prefix("bytes=")) else {
        return Part::Whole;
    };
    let Some((first, last)) = spec.trim().split_once('-') else { return Part::Whole };
    let number = |text: &str| -> Option<u64> {
        text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
    };
    match (first, last) {
        ("", suffix) => match number(suffix) {
            Some(0) => Part::OutOfRange,
            Some(_) if len == 0 => Part::OutOfRange,
            Some(suffix) => Part::Bytes(len.saturating_sub(suffix)..len),
            None => Part::Whole,
        },
        (first, last) => {
            let end = if last.is_empty() { Some(u64::MAX) } else { number(last) };
            match (number(first), end) {
                (Some(first), Some(last)) if last < first => Part::Whole,
                (Some(first), Some(_)) if first >= len => Part::OutOfRange,
                (Some(first), Some(last)) => {
                    Part::Bytes(first..last.saturating_add(1).min(len))
                }
                _ => Part::Whole,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_leads_to_a_file_of_the_media_and_nowhere_else() {
        let root = Path::new("/media");
        let of = |path| file(root, path);
        let playlist = (PathBuf::from("/media/0/index.m3u8"), "application/vnd.apple.mpegurl");
        assert_eq!(of("/0/index.m3u8?x=1"), Some(playlist));
        assert_eq!(of("/0/1.m4s").map(|(_, kind)| kind), Some("video/iso.segment"));
        assert_eq!(of("/0/init.mp4").map(|(_, kind)| kind), Some("video/mp4"));
        for path in [
            "/../secret.mp4",
            "/0/../../secret.mp4",
            "//etc/x.mp4",
            "/./x.mp4",
            "/.ssh/x.mp4",
            "/%2e%2e/x.mp4",
            "/key.pem",
            "/",
            "x.mp4",
            "",
            "/a\\..\\x.mp4",
        ] {
            let found = of(path);
            // A dot alone names the directory itself.
            let is_inside =
                found.as_ref().is_some_and(|(at, _)| at == Path::new("/media/x.mp4"));
            assert!(found.is_none() || is_inside && path == "/./x.mp4", "{path}: {found:?}");
        }
    }

    #[test]
    fn ranges_are_those_of_rfc_9110() {
        let of = |field| range(Some(field), 1000);
        assert_eq!(range(None, 1000), Part::Whole);
        assert_eq!(of("bytes=0-99"), Part::Bytes(0..100));
        assert_eq!(of("bytes=900-"), Part::Bytes(900..1000));
        assert_eq!(of("bytes=900-5000"), Part::Bytes(900..1000));
        assert_eq!(of("bytes=-100"), Part::Bytes(900..1000));
        assert_eq!(of("bytes=-5000"), Part::Bytes(0..1000));
        for out in ["bytes=1000-", "bytes=5000-6000", "bytes=-0"] {
            assert_eq!(of(out), Part::OutOfRange, "{out}");
        }
        for ignored in
            ["bytes=9-1", "bytes=0-1,5-6", "items=0-1", "bytes=x-", "bytes=-", "bytes=+1-2"]
        {
            assert_eq!(of(ignored), Part::Whole, "{ignored}");
        }
        assert_eq!(range(Some("bytes=-1"), 0), Part::OutOfRange);
        let most = format!("bytes=0-{}", u64::MAX);
        assert_eq!(range(Some(&most), 10), Part::Bytes(0..10));
    }
}
