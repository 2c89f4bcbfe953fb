//! Our own end: hq-interop and HTTP/3 over tack-endpoint, with TACK or without.

mod actions;
mod client;
mod hq;
mod http3;
mod lacks;
mod outgoing;
mod request;
mod server;
mod settings;

use std::process::{self, ExitCode};
use std::{io, thread};

use tacklib::{Connection, LabSwitches, TackConfig};

pub use self::lacks::{lacks, lacks_as_peer};
use self::request::Request;
use self::settings::Settings;
use crate::cases::Kind;
use crate::contract::{REFUSAL, Role, UNSUPPORTED};

/// More than any test case sends in a request.
const LONGEST_REQUEST: usize = 64 << 20;

/// Plays the role that the environment describes, as any other peer's program; as our end in a test
/// case of that kind it also does what only that does.
pub fn run(tack: (TackConfig, LabSwitches), ours: Option<Kind>) -> ExitCode {
    let settings = Settings::from_environment(tack, ours).inspect(|_| end_with_the_runner());
    match settings.and_then(|settings| play(&settings)) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Ends this process once the runner is gone, which holds the other end of its standard input.
fn end_with_the_runner() {
    thread::spawn(|| {
        let _ = io::copy(&mut io::stdin(), &mut io::sink());
        eprintln!("standard input has ended, and this program ends with it");
        process::exit(1);
    });
}

fn play(settings: &Settings) -> Result<ExitCode, OwnError> {
    if crate::cases::by_name(&settings.test_case).is_none() {
        println!("{REFUSAL}");
        return Ok(UNSUPPORTED.into());
    }
    match settings.role {
        Role::Client => client::run(settings)?,
        Role::Server => server::run(settings)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// The client's side of an application protocol, on one connection.
trait Client {
    /// Sends and receives what can be sent and received now.
    fn pump(&mut self, connection: &mut Connection) -> Result<(), OwnError>;

    /// Its requests.
    fn requests(&self) -> Box<dyn Iterator<Item = &Request> + '_>;
}

/// The server's side of an application protocol, on one connection.
trait Service {
    /// Receives, answers and sends what can be now. Fails if the connection is of no more use.
    fn pump(
        &mut self,
        connection: &mut Connection,
        settings: &Settings,
    ) -> Result<(), OwnError>;
}

/// Why our end gave up.
#[derive(Debug, thiserror::Error)]
enum OwnError {
    /// The environment is not what the contract says.
    #[error("{0}: not set, or of no use here; tack-interop sets it when it starts a peer")]
    Environment(&'static str),
    /// A file could not be read or written.
    #[error("{0}: {1}")]
    File(String, io::Error),
    /// The socket failed.
    #[error(transparent)]
    Endpoint(#[from] tack_endpoint::Error),
    /// BoringSSL refused a setting.
    #[error("TLS: {0}")]
    Tls(#[from] boring::error::ErrorStack),
    /// quiche refused a setting or a stream.
    #[error("quiche: {0}")]
    Quiche(#[from] quiche::Error),
    /// quiche's HTTP/3 refused something, or the peer broke its rules.
    #[error("HTTP/3: {0}")]
    Http3(#[from] quiche::h3::Error),
    /// A client sent something else than a request of the contract.
    #[error("not a request")]
    BadRequest,
    /// The connection ended before everything was done.
    #[error("the connection ended early: {0}")]
    Ended(String),
}
