//! Puts tack-quiche in quiche's place in a whole dependency tree.
//!
//! `[patch.crates-io]` replaces a package by another of the same name and version. So tack-quiche is copied
//! under quiche's name, and quiche's own source, on which it rests, under another one. [`Tool`] makes both
//! copies and writes the entry; `README.md` says what a user does.

#![forbid(unsafe_code)]

mod copies;
mod digest;
mod error;
mod files;
mod lock;
mod manifest;
mod patch;
mod renamed;
mod source;
mod tool;
mod workspace;

pub use error::Error;
pub use patch::Patch;
pub use tool::{Applied, Check, DEFAULT_FOLDER, Tool};
