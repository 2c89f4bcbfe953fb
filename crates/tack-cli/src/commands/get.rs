//! `tack get`

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc;

use super::jobs::{self, Job, Producer, Run};
use crate::cli::GetArgs;
use crate::error::Error;
use crate::exit::Exit;
use crate::session::{Mailbox, receive_content};
use crate::transfer::{EntryKind, Incoming, Message, Root, TransferError, WirePath};

/// Fetches a file or a directory.
pub fn get(args: &GetArgs) -> Result<(), Error> {
    jobs::run("get", &args.source, &args.client, |run, producer| start(args, run, producer))
}

/// Asks what there is, and lets the listing become jobs.
fn start(args: &GetArgs, run: &mut Run<'_>, producer: Producer) -> Result<(), Error> {
    let remote = args.source.path().clone();
    let (tell, first) = mpsc::channel();
    let (answer, place) = mpsc::channel();
    let listing = Listing { remote: remote.clone(), write_limit: args.write_limit, producer };
    let mailbox = run.open()?;
    let name = remote.to_string();
    let work = Box::new(move |mailbox: &Mailbox| {
        let kind = listing.ask(mailbox)?;
        // Where to put things depends on what they are; the listing waits for that.
        if tell.send(kind).is_err() {
            return Ok(None);
        }
        let Ok((root, base)) = place.recv() else { return Ok(None) };
        listing.follow(mailbox, kind, &root, &base).map(|()| None)
    });
    run.spawn_inquiry(mailbox, Job { name, work });
    // None: the listing failed, which its report tells.
    if let Some(kind) = run.wait_for(&first)? {
        let place = destination(args, kind)?;
        // Fails only if the connection has ended, which the next turn tells.
        let _ = answer.send(place);
    }
    Ok(())
}

struct Listing {
    remote: WirePath,
    write_limit: Option<u64>,
    producer: Producer,
}

impl Listing {
    fn ask(&self, mailbox: &Mailbox) -> Result<EntryKind, TransferError> {
        mailbox.send(Message::List { path: self.remote.clone() })?;
        match mailbox.recv()? {
            Message::Entry { kind, .. } => Ok(kind),
            other => Err(TransferError::unexpected(&other)),
        }
    }

    fn follow(
        &self,
        mailbox: &Mailbox,
        kind: EntryKind,
        root: &Arc<Root>,
        base: &WirePath,
    ) -> Result<(), TransferError> {
        if let EntryKind::File { size } = kind {
            self.fetch(root, self.remote.clone(), base.clone(), size);
        }
        loop {
            match mailbox.recv()? {
                Message::EndOfList => return Ok(()),
                Message::Entry { path, kind } => {
                    let local = base.join(&path)?;
                    match kind {
                        EntryKind::Directory => drop(root.create_directory(&local)?),
                        EntryKind::File { size } => {
                            self.fetch(root, self.remote.join(&path)?, local, size);
                        }
                    }
                }
                Message::Skipped { name, reason, error } => {
                    let name = crate::transfer::printable(&name);
                    let reason = crate::transfer::printable(&reason);
                    self.producer.skip(&name, &reason, error.then_some(Exit::Remote));
                }
                other => return Err(TransferError::unexpected(&other)),
            }
        }
    }

    fn fetch(&self, root: &Arc<Root>, remote: WirePath, local: WirePath, size: u64) {
        let (root, limit) = (Arc::clone(root), self.write_limit);
        let progress = Arc::clone(&self.producer.progress);
        progress.expect(size);
        let name = remote.as_str().to_owned();
        let work = Box::new(move |mailbox: &Mailbox| {
            let incoming = Incoming::open(&root, &local, size, limit)?;
            let resume = incoming.resume;
            mailbox.send(Message::Get { path: remote, resume })?;
            receive_content(mailbox, incoming, None, &progress).map(Some)
        });
        self.producer.submit(Job { name, work });
    }
}

/// The directory to write into, and the path below it that the remote path becomes.
fn destination(args: &GetArgs, kind: EntryKind) -> Result<(Arc<Root>, WirePath), Error> {
    let remote_name = args.source.path().split_last().map(|(_, name)| name.to_owned());
    match kind {
        EntryKind::Directory => {
            let directory = match (&args.dest, remote_name) {
                (Some(dest), _) => dest.clone(),
                (None, Some(name)) => PathBuf::from(name),
                (None, None) => PathBuf::from("."),
            };
            std::fs::create_dir_all(&directory).map_err(Error::local(&directory))?;
            Ok((open(&directory)?, WirePath::root()))
        }
        EntryKind::File { .. } => {
            let dest = args.dest.clone().unwrap_or_else(|| PathBuf::from("."));
            let is_directory = dest.is_dir() || ends_with_slash(&dest);
            let (directory, name) = match (is_directory, remote_name, dest.file_name()) {
                (true, Some(name), _) => (dest.clone(), name),
                (false, _, Some(name)) => {
                    let parent = dest.parent().filter(|parent| *parent != Path::new(""));
                    let directory = parent.unwrap_or(Path::new(".")).to_owned();
                    (directory, name.to_string_lossy().into_owned())
                }
                _ => {
                    return Err(Error::Usage(format!("{}: not a file name", dest.display())));
                }
            };
            std::fs::create_dir_all(&directory).map_err(Error::local(&directory))?;
            let name = WirePath::new(name).map_err(|e| Error::Usage(e.to_string()))?;
            Ok((open(&directory)?, name))
        }
    }
}

fn open(directory: &Path) -> Result<Arc<Root>, Error> {
    Root::open(directory).map(Arc::new).map_err(Error::local(directory))
}

fn ends_with_slash(path: &Path) -> bool {
    path.as_os_str().as_encoded_bytes().ends_with(b"/")
}
