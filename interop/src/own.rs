//! Our own end: hq-interop (HTTP/0.9 on streams) over tack-endpoint, with TACK or without.

mod client;
mod outgoing;
mod server;
mod settings;

use std::process::ExitCode;

use tacklib::Profile;

use self::settings::Settings;
use crate::contract::{Role, UNSUPPORTED};

/// Plays the role that the environment describes, as any other peer's program.
pub fn run(profile: Profile) -> ExitCode {
    match Settings::from_environment(profile).and_then(|settings| play(&settings)) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn play(settings: &Settings) -> Result<ExitCode, OwnError> {
    if crate::cases::by_name(&settings.test_case).is_none() {
        return Ok(UNSUPPORTED.into());
    }
    match settings.role {
        Role::Client => client::run(settings)?,
        Role::Server => server::run(settings)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Why our end gave up.
#[derive(Debug, thiserror::Error)]
enum OwnError {
    /// The environment is not what the contract says.
    #[error("{0}: not set, or of no use here; tack-interop sets it when it starts a peer")]
    Environment(&'static str),
    /// A file could not be read or written.
    #[error("{0}: {1}")]
    File(String, std::io::Error),
    /// The socket failed.
    #[error(transparent)]
    Endpoint(#[from] tack_endpoint::Error),
    /// quiche refused a setting or a stream.
    #[error("quiche: {0}")]
    Quiche(#[from] quiche::Error),
    /// The connection ended before everything was done.
    #[error("the connection ended early: {0}")]
    Ended(String),
}
