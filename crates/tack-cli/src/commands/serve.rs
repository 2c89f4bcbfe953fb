//! `tack serve`

use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::time::SystemTime;

use serde::Serialize;
use tack_transfer::{Action, Identity, Outcome, Root, ServerEvent, ServerOptions, Workers};

use super::print_json;
use crate::cli::ServeArgs;
use crate::error::Error;
use crate::lb_config;
use crate::progress;
use crate::termination::Termination;
use crate::token;
use crate::units;
use crate::user_directories;

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
    if args.quiet && args.token_file.is_none() && !args.no_token {
        return Err(Error::Usage(
            "with --quiet nobody would learn the access token; pass --token-file FILE, or \
             --no-token to let everybody in"
                .to_owned(),
        ));
    }
    let identity = match (&args.cert, &args.key, &args.identity) {
        (Some(certificate), Some(key), _) => Identity::from_files(certificate, key)?,
        (_, _, Some(directory)) => Identity::in_directory(directory)?,
        _ => Identity::in_directory(&identity_directory()?)?,
    };
    let token = match (&args.token_file, args.no_token) {
        (_, true) => None,
        (Some(file), _) => Some(token::read_or_create(file)?),
        (None, _) => Some(tack_transfer::token::generate()?),
    };
    warn(&identity, token.is_some())?;
    let fingerprint = identity.fingerprint.to_string();
    let root = shared(args, &identity)?;
    let listen = listen_address(args.listen);
    let mut options = ServerOptions::new(listen, root, identity, token.clone());
    options.profile = args.profile.into();
    options.read_only = !args.write;
    options.links = !args.no_links;
    options.owners = !args.no_owners;
    options.write_limit = args.write_limit;
    options.rate = args.bwlimit;
    options.qlog.clone_from(&args.qlog);
    options.careful_resume = !args.no_careful_resume;
    options.early_data = !args.no_early_data;
    options.quic_lb = args
        .lb_config
        .as_ref()
        .map(|file| lb_config::read(file, args.server_id.as_ref()))
        .transpose()?;
    options.report = reporter(args.json, args.quiet);
    let server = Workers::new(options, args.workers)?;
    let ready = Ready {
        event: "ready",
        address: server.local_addr().unwrap_or(args.listen),
        fingerprint,
        // A file keeps it for those who may know; logs and screens need not.
        token: token.filter(|_| args.token_file.is_none()),
        read_only: !args.write,
    };
    let wakers = server.wakers();
    // A server that says that it is ready stops at a signal, and needs no thread any more. Waking fails only where one
    // has ended already.
    stop.on_signal(move || wakers.iter().for_each(|waker| drop(waker.wake())));
    if args.json { print_json(&ready) } else { print_ready(args, &ready) }?;
    Ok(server.run(&stop.flag())?)
}

/// The directory that this user's identity is kept in.
fn identity_directory() -> Result<PathBuf, Error> {
    user_directories::data().ok_or_else(|| {
        Error::Usage("neither XDG_DATA_HOME nor HOME is set; pass --identity DIR".to_owned())
    })
}

/// Where to listen: with IPv4 alone where the system has no IPv6 and any address would do.
pub(super) fn listen_address(wanted: SocketAddr) -> SocketAddr {
    let any = Ipv6Addr::UNSPECIFIED;
    if wanted.ip() == IpAddr::from(any) && UdpSocket::bind((any, 0)).is_err() {
        return SocketAddr::from((Ipv4Addr::UNSPECIFIED, wanted.port()));
    }
    wanted
}

/// The shared directory, without the secrets that may lie in it.
fn shared(args: &ServeArgs, identity: &Identity) -> Result<Root, Error> {
    let mut root = Root::open(&args.dir).map_err(Error::local(&args.dir))?;
    let files = [Some(&identity.key), args.token_file.as_ref(), args.lb_config.as_ref()];
    for secret in files.into_iter().flatten() {
        root.hide(secret).map_err(Error::local(secret))?;
    }
    Ok(root)
}

fn warn(identity: &Identity, has_token: bool) -> Result<(), Error> {
    if rustix::process::geteuid().is_root() {
        let who = if has_token { "has the token" } else { "reaches the port" };
        progress::print(&format!(
            "warning: running as root; whoever {who} reads, and with --write replaces, what only root may"
        ));
    }
    if identity.is_exposed()? {
        progress::print(&format!(
            "warning: {}: other users may read this private key; chmod 600 it",
            identity.key.display()
        ));
    }
    Ok(())
}

fn print_ready(args: &ServeArgs, ready: &Ready) -> Result<(), Error> {
    let host = match ready.address {
        address if !address.ip().is_unspecified() => address.to_string(),
        address => format!("{}:{}", host_name(), address.port()),
    };
    let fingerprint = &ready.fingerprint;
    let (token, variable, option) = match (&ready.token, &args.token_file) {
        // A variable, as other users see the arguments of a command.
        (Some(token), _) => {
            let variable = format!("{}={token} ", token::VARIABLE);
            (format!("Access token: {token}"), variable, String::new())
        }
        (None, Some(file)) => {
            let text = format!("Access token: in {}", file.display());
            (text, String::new(), " --token-file FILE".to_owned())
        }
        (None, None) => {
            let text = "No access token: everybody who can reach the port is let in";
            (text.to_owned(), String::new(), String::new())
        }
    };
    let access = if ready.read_only { ", read-only" } else { ", writable" };
    let options = format!("--fingerprint {fingerprint}{option}");
    let mut lines = vec![
        format!("Serving {} on {}{access}", args.dir.display(), ready.address),
        format!("Certificate fingerprint (SHA-256): {fingerprint}"),
        token,
        String::new(),
        "To fetch everything:".to_owned(),
        format!("  {variable}tack get -r {options} {host}/ DEST"),
    ];
    if !ready.read_only {
        lines.push("To send a file:".to_owned());
        lines.push(format!("  {variable}tack send {options} FILE {host}/"));
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
    Box::new(move |mut event| {
        // A socket for both IP versions has IPv4 addresses within those of IPv6.
        event.client.set_ip(event.client.ip().to_canonical());
        let time = units::timestamp(SystemTime::now());
        if json {
            // Whoever closed standard output does not want to know.
            let _ = print_json(&record(&time, &event));
        }
        let (client, name, path) = (event.client, event.action.name(), &event.path);
        match (&event.result, json || quiet) {
            (Err(error), _) if event.action == Action::LogIn => {
                progress::print(&format!("{time} {client} failed to log in: {error}"));
            }
            (Err(error), _) => {
                progress::print(&format!("{time} {client} {name} {path}: {error}"));
            }
            (Ok(Some(outcome)), false) => progress::print(&format!(
                "{time} {client} {name} {path}: {} {}",
                units::bytes(outcome.size),
                state_of(outcome)
            )),
            _ => {}
        }
    })
}

/// What is known of a file that is in place.
fn state_of(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome { kept: true, .. } => "kept as it is",
        Outcome { equal: true, digest: None, .. } => "already there by size and time",
        Outcome { equal: true, .. } => "verified, was there already",
        _ => "verified",
    }
}

/// One line that `--json` prints.
#[derive(Serialize)]
struct Record<'a> {
    time: &'a str,
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

fn record<'a>(time: &'a str, event: &'a ServerEvent) -> Record<'a> {
    let outcome = event.result.as_ref().ok().and_then(Option::as_ref);
    Record {
        time,
        event: event.action.name(),
        client: event.client,
        path: event.path.as_str(),
        bytes: outcome.map(|outcome| outcome.size),
        transferred_bytes: outcome.map(|outcome| outcome.moved),
        blake3: outcome.and_then(|outcome| outcome.digest).map(|digest| digest.to_string()),
        error: event.result.as_ref().err().map(ToString::to_string),
    }
}

#[cfg(test)]
mod tests {
    use tack_transfer::Digest;

    use super::*;

    #[test]
    fn a_file_counts_as_verified_only_if_it_was_read() {
        let mut outcome = Outcome::default();
        outcome.equal = true;
        assert_eq!(state_of(&outcome), "already there by size and time");
        outcome.digest = Some(Digest::of(b""));
        assert_eq!(state_of(&outcome), "verified, was there already");
        outcome.equal = false;
        assert_eq!(state_of(&outcome), "verified");
        outcome = Outcome::default();
        outcome.kept = true;
        assert_eq!(state_of(&outcome), "kept as it is");
    }
}
