//! `tack serve`

use std::io::Write;
use std::net::SocketAddr;

use serde::Serialize;

use super::print_json;
use crate::cli::ServeArgs;
use crate::error::Error;
use crate::identity::{self, Identity};
use crate::progress;
use crate::quic;
use crate::session::{Server, ServerEvent, ServerOptions};
use crate::termination::Termination;
use crate::token;
use crate::transfer::Root;
use crate::units;

/// What a client needs to know. Serialised, it is the first line that `--json` prints.
#[derive(Serialize)]
struct Ready {
    event: &'static str,
    address: SocketAddr,
    fingerprint: String,
    token: Option<String>,
    read_only: bool,
}

/// Shares a directory, until the process gets a signal to end.
pub fn serve(args: &ServeArgs) -> Result<(), Error> {
    // Before there are other threads, which inherit which signals are blocked.
    let stop = Termination::catch().map_err(Error::local("signals"))?;
    let identity = match (&args.cert, &args.key, &args.identity) {
        (Some(certificate), Some(key), _) => Identity::from_files(certificate, key)?,
        (_, _, Some(directory)) => Identity::in_directory(directory)?,
        _ => Identity::in_directory(&identity::default_directory()?)?,
    };
    let token = match (&args.token_file, args.no_token) {
        (_, true) => None,
        (Some(file), _) => Some(token::read_or_create(file)?),
        (None, _) => Some(token::generate()?),
    };
    let mut server = Server::new(ServerOptions {
        listen: args.listen,
        config: quic::server_config(args.profile.into(), &identity.certificate, &identity.key)?,
        reset_key: identity.reset_key()?,
        root: Root::open(&args.dir).map_err(Error::local(&args.dir))?,
        read_only: args.read_only,
        token: token.clone(),
        write_limit: args.write_limit,
        qlog: args.qlog.clone(),
        report: reporter(args.json, args.quiet),
    })?;
    let ready = Ready {
        event: "ready",
        address: server.local_addr(),
        fingerprint: identity.fingerprint.to_string(),
        token,
        read_only: args.read_only,
    };
    if args.json { print_json(&ready) } else { print_ready(args, &ready) }?;
    let waker = server.waker();
    // Fails only if the server is gone.
    stop.on_signal(move || drop(waker.wake()));
    server.run(|| stop.is_requested())
}

fn print_ready(args: &ServeArgs, ready: &Ready) -> Result<(), Error> {
    let host = match ready.address {
        address if !address.ip().is_unspecified() => address.to_string(),
        address => format!("{}:{}", host_name(), address.port()),
    };
    let fingerprint = &ready.fingerprint;
    let token = match (&ready.token, &args.token_file) {
        (Some(_), Some(file)) => format!("Access token: in {}", file.display()),
        (Some(token), None) => format!("Access token: {token}"),
        (None, _) => "No access token: everybody who can reach the port is let in".to_owned(),
    };
    // A variable, as other users see the arguments of a command.
    let variable = ready
        .token
        .as_ref()
        .map(|token| format!("{}={token} ", token::VARIABLE))
        .unwrap_or_default();
    let access = if ready.read_only { ", read-only" } else { "" };
    let mut lines = vec![
        format!("Serving {} on {}{access}", args.dir.display(), ready.address),
        format!("Certificate fingerprint (SHA-256): {fingerprint}"),
        token,
        String::new(),
        "To fetch everything:".to_owned(),
        format!("  {variable}tack get -r --fingerprint {fingerprint} {host}/ DEST"),
    ];
    if !ready.read_only {
        lines.push("To send a file:".to_owned());
        lines.push(format!("  {variable}tack send --fingerprint {fingerprint} FILE {host}/"));
    }
    let mut out = std::io::stdout().lock();
    writeln!(out, "{}\n", lines.join("\n"))
        .and_then(|()| out.flush())
        .map_err(Error::local("standard output"))
}

fn host_name() -> String {
    let name = rustix::system::uname();
    name.nodename().to_string_lossy().into_owned()
}

/// Prints what clients did: as JSON on standard output, or in words on standard error.
fn reporter(json: bool, quiet: bool) -> Box<dyn Fn(ServerEvent) + Send + Sync> {
    Box::new(move |event| {
        if json {
            // Whoever closed standard output does not want to know.
            let _ = print_json(&record(&event));
        }
        match (&event.result, json || quiet) {
            (Err(error), _) => progress::print(&format!(
                "{} {} {}: {error}",
                event.client,
                event.action.name(),
                event.path
            )),
            (Ok(Some(outcome)), false) => progress::print(&format!(
                "{} {} {}: {} verified{}",
                event.client,
                event.action.name(),
                event.path,
                units::bytes(outcome.size),
                if outcome.equal { ", was there already" } else { "" }
            )),
            _ => {}
        }
    })
}

/// One line that `--json` prints.
#[derive(Serialize)]
struct Record<'a> {
    event: &'static str,
    client: SocketAddr,
    path: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    transferred_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    blake3: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

fn record(event: &ServerEvent) -> Record<'_> {
    let outcome = event.result.as_ref().ok().and_then(Option::as_ref);
    Record {
        event: event.action.name(),
        client: event.client,
        path: event.path.as_str(),
        bytes: outcome.map(|outcome| outcome.size),
        transferred_bytes: outcome.map(|outcome| outcome.moved),
        blake3: outcome.map(|outcome| outcome.digest.to_string()),
        error: event.result.as_ref().err().map(ToString::to_string),
    }
}
