//! `tack receive`

use std::path::{Path, PathBuf};
use std::time::Duration;

use tack_transfer::{Client, ServerAddress, Trust, printable};

use super::connector::{Access, Attempt, Connector, connect};
use super::fetch_several::{FetchOptions, Thing, fetch_several};
use super::run::refuse;
use crate::cli::{Profile, ReceiveArgs};
use crate::error::Error;
use crate::ticket::Ticket;

/// Receives what somebody shares.
pub fn receive(args: &ReceiveArgs) -> Result<(), Error> {
    let (ticket, dest, things) = match prepare(args) {
        Ok(prepared) => prepared,
        Err(error) => {
            let profile = args.transport.profile;
            return refuse("receive", profile, &args.transfer, (Duration::ZERO, error));
        }
    };
    let to = dest.as_deref().unwrap_or(Path::new("."));
    let paths = || ticket.paths.clone();
    let (recursive, transfer) = (args.recursive, &args.transfer);
    let options = FetchOptions { to, recursive, transfer, login: None };
    let mut server = WithTicket { ticket: &ticket, args };
    fetch_several("receive", &mut server, &things, paths, &options)
}

/// The ticket, where to put what it stands for, and what that is.
fn prepare(args: &ReceiveArgs) -> Result<(Ticket, Option<PathBuf>, Vec<Thing>), Error> {
    let (ticket, dest) = Ticket::find(args.ticket.as_deref(), args.dest.as_deref())?;
    let things: Vec<Thing> = ticket
        .paths
        .iter()
        .map(|path| {
            let name = path.split_last().map(|(_, name)| name.to_owned());
            Thing { shown: printable(path.as_str()), name, typed: None }
        })
        .collect();
    // Somebody else has chosen the names.
    if dest.is_none()
        && let Some(hidden) = things
            .iter()
            .find(|thing| thing.name.as_ref().is_none_or(|name| name.starts_with('.')))
    {
        return Err(Error::Usage(format!(
            "\"{}\" is shared, which would be hidden or have no name of its own here; name the \
             directory that it goes into",
            hidden.shown
        )));
    }
    Ok((ticket, dest, things))
}

/// Connects to the server of a ticket.
struct WithTicket<'a> {
    ticket: &'a Ticket,
    args: &'a ReceiveArgs,
}

impl Connector for WithTicket<'_> {
    fn connect(&mut self, rate: Option<u64>, attempt: Attempt<'_>) -> Result<Client, Error> {
        let ticket = self.ticket;
        let token = Some(ticket.token.clone());
        let trust = Trust::Pinned(ticket.fingerprint);
        let access = Access { trust, token, ended: None, session: None, is_one_time: true };
        let Some(first) = ticket.addresses.first() else {
            return Err(Error::Usage("the ticket has no address".to_owned()));
        };
        let (host, port) = (first.ip().to_string(), first.port());
        let server = ServerAddress::new(host, port).at(ticket.addresses.clone());
        connect(&server, access, &self.args.transport, rate, attempt)
    }

    /// Whoever has a ticket knows of no token and of no `tack serve`.
    fn explain(&self, error: Error) -> Error {
        let text = match &error {
            Error::WrongToken => {
                "the other end does not know this ticket; copy it again, whole, or ask for another one".to_owned()
            }
            Error::Refused { target } => {
                format!("{target} is a closed port: tack share has ended there; ask for another ticket")
            }
            Error::NoAnswer { target, seconds } => format!(
                "no answer from {target} within {seconds} s; check that tack share still runs there, and that UDP is \
                 let through"
            ),
            _ => return error,
        };
        Error::OtherEnd { text, exit: error.exit() }
    }

    fn profile(&self) -> Profile {
        self.args.transport.profile
    }
}
