//! Results on disk.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::{Embedding, Outcome, render};

/// A directory with one file of JSON for each experiment, and its plots beside it.
#[derive(Clone, Debug)]
pub struct Store {
    dir: PathBuf,
}

/// Why results could not be stored or read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file system refused.
    #[error("{path}: {reason}; check that the directory exists and is yours")]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: io::Error,
    },
    /// Not what `run` writes.
    #[error(
        "{path} is no result of this version ({reason}); run the experiment again, or delete it"
    )]
    Format {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: serde_json::Error,
    },
}

impl Store {
    /// Results in this directory, which is made when the first one is saved.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self { dir: dir.into() }
    }

    /// The directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Writes a result, in place of an older one.
    pub fn save(&self, outcome: &Outcome) -> Result<(), Error> {
        fs::create_dir_all(&self.dir)
            .map_err(|reason| Error::Io { path: self.dir.clone(), reason })?;
        let path = self.path(&outcome.name);
        let mut json = serde_json::to_vec_pretty(outcome)
            .map_err(|reason| Error::Format { path: path.clone(), reason })?;
        json.push(b'\n');
        write(path, &json)?;
        for (index, plot) in outcome.plots.iter().enumerate() {
            let name = format!("{}-{}.svg", outcome.name, index + 1);
            write(self.dir.join(name), render(plot, Embedding::File).as_bytes())?;
        }
        Ok(())
    }

    /// The stored result of an experiment; `None` when there is none.
    pub fn load(&self, name: &str) -> Result<Option<Outcome>, Error> {
        let path = self.path(name);
        let json = match fs::read(&path) {
            Ok(json) => json,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(reason) => return Err(Error::Io { path, reason }),
        };
        serde_json::from_slice(&json).map(Some).map_err(|reason| Error::Format { path, reason })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.join(format!("{name}.json"))
    }
}

fn write(path: PathBuf, bytes: &[u8]) -> Result<(), Error> {
    fs::write(&path, bytes).map_err(|reason| Error::Io { path, reason })
}
