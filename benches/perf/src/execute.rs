//! A program's command, carried out with its QUIC library.

use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::process::{Child, Command as Process, Stdio};

use anyhow::{Context, Result, bail, ensure};

use crate::options::{ClientOptions, Command, ProfileName, ServerOptions};
use crate::report::{Outcome, Report};
use crate::table;

/// What precedes the address in the first line of a server.
const LISTENING: &str = "listening on ";

/// A QUIC library that does the work.
pub trait Stack {
    /// Whether it has the profiles of tacklib.
    const HAS_PROFILES: bool;

    /// Serves until the options say that it is enough. Calls [`announce`] once it listens.
    fn serve(options: &ServerOptions) -> Result<()>;

    /// Does the work against a server.
    fn measure(server: SocketAddr, options: &ClientOptions) -> Result<Outcome>;
}

/// Tells on standard output where a server listens.
pub fn announce(address: SocketAddr) -> Result<()> {
    let mut output = std::io::stdout();
    writeln!(output, "{LISTENING}{address}")?;
    Ok(output.flush()?)
}

/// Carries a command out.
pub fn execute<S: Stack>(command: &Command) -> Result<()> {
    match command {
        Command::Server(options) => {
            check_profile::<S>(options.transport.profile)?;
            S::serve(options)
        }
        Command::Client { address, options } => measure::<S>(*address, options),
        Command::Run { server_profile, options } => {
            check_profile::<S>(*server_profile)?;
            let server = ServerProcess::start(server_profile.as_ref(), options)?;
            measure::<S>(server.address, options)
        }
    }
}

fn check_profile<S: Stack>(profile: Option<ProfileName>) -> Result<()> {
    ensure!(S::HAS_PROFILES || profile.is_none(), "profiles are those of tacklib");
    Ok(())
}

fn measure<S: Stack>(server: SocketAddr, options: &ClientOptions) -> Result<()> {
    options.work.check()?;
    check_profile::<S>(options.transport.profile)?;
    let outcome = S::measure(server, options)?;
    let report = Report::new(options, &outcome);
    if options.json {
        println!("{}", serde_json::to_string(&report)?);
    } else {
        table::print(&report);
    }
    Ok(())
}

/// A server of this same program for one connection; killed when it is dropped.
struct ServerProcess {
    child: Child,
    address: SocketAddr,
}

impl ServerProcess {
    fn start(profile: Option<&ProfileName>, options: &ClientOptions) -> Result<Self> {
        let transport = &options.transport;
        let program = std::env::current_exe().context("this program's own path")?;
        let mut command = Process::new(program);
        command.args(["server", "--listen", "127.0.0.1:0", "--connections", "1"]);
        // The server waits a little longer than the client, and then ends by itself.
        command.args(["--time-limit", &(options.work.time_limit + 30).to_string()]);
        command.args(["--udp-payload", &transport.udp_payload.to_string()]);
        command.args(["--window-mib", &transport.window_mib.to_string()]);
        command.args(["--socket-buffer-kib", &transport.socket_buffer_kib.to_string()]);
        if transport.discover_path_mtu {
            command.arg("--discover-path-mtu");
        }
        if transport.no_gso {
            command.arg("--no-gso");
        }
        if transport.no_arrival_times {
            command.arg("--no-arrival-times");
        }
        if let Some(profile) = profile.or(transport.profile.as_ref()) {
            command.args(["--profile", profile.name()]);
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let child = command.spawn().context("starting the server")?;
        // From here on it is killed whatever happens.
        let mut server = Self { child, address: SocketAddr::from(([127, 0, 0, 1], 0)) };
        server.address = server.read_address()?;
        Ok(server)
    }

    fn read_address(&mut self) -> Result<SocketAddr> {
        let Some(output) = self.child.stdout.take() else { bail!("the server has no output") };
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line).context("reading from the server")?;
        let address = line.trim_end().strip_prefix(LISTENING);
        let address = address.with_context(|| format!("the server said {line:?}"))?;
        address.parse().with_context(|| format!("the server listens on {address:?}"))
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        // It may have ended by itself, which is as good.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
