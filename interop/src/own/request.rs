//! A request of our client, and its answer.

use std::fs;
use std::path::Path;

use super::OwnError;
use super::settings::Settings;
use crate::contract::Method;

pub struct Request {
    pub method: Method,
    pub name: String,
    /// Of a PUT.
    pub body: Vec<u8>,
    pub answer: Vec<u8>,
    pub is_answered: bool,
}

impl Request {
    /// Reads all requests from the environment.
    pub fn all(settings: &Settings) -> Result<Vec<Self>, OwnError> {
        let requests = Settings::requests()?.into_iter();
        requests
            .map(|(method, name)| {
                let body = match method {
                    Method::Get => Vec::new(),
                    Method::Put => {
                        let path = settings.files.join(&name);
                        fs::read(&path).map_err(|error| file_error(&path, error))?
                    }
                };
                Ok(Self { method, name, body, answer: Vec::new(), is_answered: false })
            })
            .collect()
    }

    /// Writes the answer where received files belong.
    pub fn keep(&self, settings: &Settings) -> Result<(), OwnError> {
        if self.method == Method::Put {
            return Ok(());
        }
        let path = settings.received.join(&self.name);
        fs::write(&path, &self.answer).map_err(|error| file_error(&path, error))
    }
}

/// Returns the server's answer to a request.
pub fn answer(
    method: Method,
    name: &str,
    body: &[u8],
    settings: &Settings,
) -> Result<Vec<u8>, OwnError> {
    let file = |error| OwnError::File(name.to_owned(), error);
    match method {
        Method::Get => fs::read(settings.files.join(name)).map_err(file),
        Method::Put => {
            fs::write(settings.received.join(name), body).map_err(file)?;
            Ok(Vec::new())
        }
    }
}

fn file_error(path: &Path, error: std::io::Error) -> OwnError {
    OwnError::File(path.display().to_string(), error)
}
