//! Transfers that ssh starts: the data goes over UDP, everything that makes it safe over ssh.
//!
//! The client runs `tack serve-once` at the other end, with a [`Request`] as its argument and once more on its standard
//! input, where a long one is alone; what it prints is an [`Answer`] with a port, the fingerprint of a certificate and
//! a token, all made for this one transfer. The other end serves as long as its standard input stays open.

mod configuration;
mod dial;
mod place;
mod scope;
mod session;
mod wire;

pub use dial::dial;
pub use place::{Login, Place};
pub use scope::Scope;
pub use session::{Session, SshOptions};
pub use wire::{Answer, Ports, Ready, Refusal, Request, VERSION, Wanted, read_line};

/// The command that is run at the other end.
pub const COMMAND: &str = "serve-once";
