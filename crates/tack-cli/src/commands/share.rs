//! `tack share`

use std::collections::HashSet;
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::SystemTime;

use nix::ifaddrs::getifaddrs;
use nix::net::if_::InterfaceFlags;
use serde::Serialize;

use super::one_time_server::{OneTimeOptions, one_time_server};
use super::print_json;
use crate::cli::{Profile, ShareArgs};
use crate::error::Error;
use crate::exit::Exit;
use crate::progress::print;
use crate::ssh::Wanted;
use crate::termination::Termination;
use crate::ticket::{self, Ticket};
use crate::units;
use tack_transfer::{Action, RootError, ServerEvent, TransferError, WirePath, printable};

/// What `--json` prints first.
#[derive(Serialize)]
struct Ready {
    event: &'static str,
    ticket: String,
}

/// Shares files with whoever has the ticket, until one has received all of it.
pub fn share(args: &ShareArgs) -> Result<(), Error> {
    // Before there are other threads, which inherit which signals are blocked.
    let stop = Termination::catch().map_err(Error::local("signals"))?;
    let mut paths = Vec::new();
    for path in &args.paths {
        let Some(text) = path.to_str() else {
            return Err(Error::Usage(format!("{}: the name is not UTF-8", path.display())));
        };
        // What is neither could not be received. What does not exist is told below.
        if path.metadata().is_ok_and(|found| !found.is_file() && !found.is_dir()) {
            let text = format!("{}: neither a file nor a directory", path.display());
            return Err(Error::Usage(text));
        }
        // Not a home, whatever it is called.
        paths.push(if text.starts_with('~') { format!("./{text}") } else { text.to_owned() });
    }
    let here = std::env::current_dir().map_err(Error::local("."))?;
    let quiet = args.quiet || args.json;
    let how = OneTimeOptions {
        ports: args.udp_port,
        plain: args.profile == Profile::Off,
        retry: true,
        cc_parameters: None,
        gives_session: false,
        report: reporter(quiet),
    };
    let started = one_time_server(&Wanted::Read(paths), &here, how).map_err(at_this_end)?;
    check_names(&started.scope.paths)?;
    let mut server = started.server;
    let port = server.local_addr().port();
    let addresses = match &args.address[..] {
        [] => own_addresses(port),
        given => given.iter().map(|address| SocketAddr::new(*address, port)).collect(),
    };
    let (fingerprint, token) = (started.fingerprint, started.token);
    let is_directory = |path: &WirePath| started.scope.root.join(path.as_str()).is_dir();
    let has_directory = started.scope.paths.iter().any(is_directory);
    let ticket =
        Ticket { addresses, fingerprint, token, paths: started.scope.paths }.to_string();
    if ticket.len() > Ticket::MAX_LENGTH {
        return Err(Error::Usage(
            "the names of so many things make too long a ticket; share the directory that they are in".to_owned(),
        ));
    }
    if args.json {
        print_json(&Ready { event: "ready", ticket })
    } else {
        tell(&ticket, has_directory, quiet)
    }?;
    let waker = server.waker();
    // Fails only if the server is gone.
    stop.on_signal(move || drop(waker.wake()));
    server.run_until(|server| {
        stop.is_requested() || (!args.keep && server.satisfied() > 0 && !server.has_clients())
    })?;
    if server.satisfied() == 0 { Err(Error::Unreceived) } else { Ok(()) }
}

/// What can't be read is at this end here.
fn at_this_end(error: Error) -> Error {
    match error {
        Error::OtherEnd { text, exit: Exit::Remote | Exit::Refused } => {
            Error::OtherEnd { text, exit: Exit::LocalIo }
        }
        other => other,
    }
}

/// Makes sure that everything can be received under its own name.
fn check_names(paths: &[WirePath]) -> Result<(), Error> {
    let mut taken = HashSet::new();
    let names = paths.iter().filter_map(WirePath::split_last);
    match names.map(|(_, name)| name).find(|name| !taken.insert(*name)) {
        Some(name) => Err(Error::Usage(format!(
            "{}: two of what is shared have this name, and would be in each other's way",
            printable(name)
        ))),
        None => Ok(()),
    }
}

fn tell(ticket: &str, has_directory: bool, quiet: bool) -> Result<(), Error> {
    let mut out = std::io::stdout().lock();
    let text = if quiet {
        format!("{ticket}\n")
    } else {
        let recursive = if has_directory { " -r" } else { "" };
        // A variable, as other users see the arguments of a command.
        format!(
            "Whoever has this line can receive it, as long as this command runs:\n\n  \
             {}={ticket} tack receive{recursive}\n\n",
            ticket::VARIABLE
        )
    };
    out.write_all(text.as_bytes())
        .and_then(|()| out.flush())
        .map_err(Error::local("standard output"))
}

fn reporter(quiet: bool) -> Box<dyn Fn(ServerEvent) + Send + Sync> {
    Box::new(move |event| {
        let client = SocketAddr::new(event.client.ip().to_canonical(), event.client.port());
        let time = units::timestamp(SystemTime::now());
        match &event.result {
            Err(error) => print(&format!("{time} {client} {}: {}", event.path, told(error))),
            Ok(Some(outcome)) if !quiet && event.action == Action::Get => {
                print(&format!(
                    "{time} {client} {}: {}",
                    event.path,
                    units::bytes(outcome.size)
                ));
            }
            Ok(_) => {}
        }
    })
}

/// What whoever shares is told of an error: others can't do anything about it, and nothing is served.
fn told(error: &TransferError) -> String {
    match error {
        TransferError::Disconnected => "the receiver left before it had all of this".to_owned(),
        TransferError::Root(RootError::Replaced(path)) => {
            let path = printable(path);
            format!(
                "{path} is another directory now, or gone; end this command, and share it anew"
            )
        }
        other => other.to_string(),
    }
}

/// Addresses of this machine that others may reach it at: none of one link alone.
fn own_addresses(port: u16) -> Vec<SocketAddr> {
    let interfaces = getifaddrs().into_iter().flatten().filter(|interface| {
        let flags = interface.flags;
        flags.contains(InterfaceFlags::IFF_UP) && !flags.contains(InterfaceFlags::IFF_LOOPBACK)
    });
    let address = |interface: nix::ifaddrs::InterfaceAddress| {
        let address = interface.address?;
        let v4 = address.as_sockaddr_in().map(|v4| IpAddr::from(v4.ip()));
        let v6 = address.as_sockaddr_in6().map(nix::sys::socket::SockaddrIn6::ip);
        let is_global = |v6: &std::net::Ipv6Addr| !v6.is_unicast_link_local();
        v4.or_else(|| v6.filter(is_global).map(IpAddr::from))
    };
    let mut addresses: Vec<SocketAddr> =
        interfaces.filter_map(address).map(|address| SocketAddr::new(address, port)).collect();
    if addresses.is_empty() {
        // To another terminal of this machine.
        addresses.push(SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    }
    addresses
}
