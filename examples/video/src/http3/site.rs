//! What is served: the files of media, and a page that plays them.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{Cursor, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use super::request;
use crate::browser;
use crate::ladder::MASTER;

/// What the page is made of.
const PAGE: &str = include_str!("page.html");
/// Of this name, a page of the user's own takes its place.
const INDEX: &str = "index.html";

/// Media, and a page that plays them.
#[derive(Debug)]
pub struct Site {
    root: PathBuf,
    master: String,
    page: Vec<u8>,
}

impl Site {
    /// The site of a directory of media, or of a master playlist.
    pub fn new(media: &Path) -> Result<Self> {
        let media = media.canonicalize().with_context(|| media.display().to_string())?;
        let (root, name) = if media.is_dir() {
            (media.as_path(), OsStr::new(MASTER))
        } else {
            let beside = media.parent().zip(media.file_name());
            beside.with_context(|| format!("{}: not a file", media.display()))?
        };
        let name = Path::new(name);
        ensure!(
            browser::is_plain_name(name) && name.extension() == Some(OsStr::new("m3u8")),
            "{}: a playlist that is served has a name of letters, digits, -, _ and ., which ends in .m3u8",
            name.display()
        );
        let master = name.to_string_lossy().into_owned();
        let page = browser::page(PAGE).replace("__MASTER__", &master);
        Ok(Self { root: root.to_owned(), master, page: page.into_bytes() })
    }

    /// The name of the master playlist.
    pub fn master(&self) -> &str {
        &self.master
    }

    /// What a path names; `None` if that is nothing that is served.
    pub fn open(&self, path: &str) -> Option<Content> {
        if path.split(['?', '#']).next() != Some("/") {
            return self.open_file(path);
        }
        self.open_file(&format!("/{INDEX}")).or_else(|| {
            let len = self.page.len() as u64;
            let source = Source::Memory(Cursor::new(self.page.clone()));
            Some(Content { source, len, media_type: request::HTML })
        })
    }

    /// Opens a file that is in the directory even if links are followed.
    fn open_file(&self, path: &str) -> Option<Content> {
        let (path, media_type) = request::file(&self.root, path)?;
        let path = path.canonicalize().ok()?;
        let file = File::open(&path).ok()?;
        let about = file.metadata().ok()?;
        if !path.starts_with(&self.root) || !about.is_file() {
            return None;
        }
        Some(Content { source: Source::File(file), len: about.len(), media_type })
    }
}

/// What is behind a path.
#[derive(Debug)]
pub struct Content {
    source: Source,
    /// Bytes.
    pub len: u64,
    /// Its media type.
    pub media_type: &'static str,
}

#[derive(Debug)]
enum Source {
    File(File),
    Memory(Cursor<Vec<u8>>),
}

impl Content {
    /// Goes to a byte.
    pub fn seek(&mut self, to: u64) -> std::io::Result<u64> {
        let to = SeekFrom::Start(to);
        match &mut self.source {
            Source::File(file) => file.seek(to),
            Source::Memory(bytes) => bytes.seek(to),
        }
    }

    /// Reads so many bytes.
    pub fn read_exact(&mut self, bytes: &mut [u8]) -> std::io::Result<()> {
        match &mut self.source {
            Source::File(file) => file.read_exact(bytes),
            Source::Memory(own) => own.read_exact(bytes),
        }
    }
}
