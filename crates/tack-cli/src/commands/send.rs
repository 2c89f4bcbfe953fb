//! `tack send`

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc;

use super::jobs::{self, Job, Producer, Run};
use crate::cli::SendArgs;
use crate::error::Error;
use crate::exit::Exit;
use crate::session::{Mailbox, send_content};
use crate::transfer::{
    EntryKind, Fail, FailCode, FileSource, Message, NameError, RESERVED, Root, Sender,
    TransferError, Walk, WalkItem, WirePath, printable,
};

/// Sends files and directories.
pub fn send(args: &SendArgs) -> Result<(), Error> {
    // Before connecting: a mistyped name should not wait for the network.
    let sources: Vec<Source> =
        args.sources.iter().map(|path| Source::look_at(path)).collect::<Result<_, _>>()?;
    jobs::run("send", &args.dest, &args.client, |run, producer| {
        // None: what the server has there can't be found out, which has been reported.
        let Some(place) = Place::find(args, &sources, run)? else { return Ok(()) };
        std::thread::spawn(move || {
            for source in sources {
                source.produce(&place, &producer);
            }
        });
        Ok(())
    })
}

/// Something named on the command line.
struct Source {
    path: PathBuf,
    /// Its name on the server; none for `.` and the like. One bad name must not keep the
    /// others from being sent.
    name: Result<Option<WirePath>, NameError>,
    is_directory: bool,
}

/// Where things go on the server.
enum Place {
    Into(WirePath),
    As(WirePath),
}

impl Place {
    /// A single file may be given a new name. Whether it is one depends on what the server has.
    fn find(
        args: &SendArgs,
        sources: &[Source],
        run: &mut Run<'_>,
    ) -> Result<Option<Self>, Error> {
        let path = args.dest.path().clone();
        let single_file = matches!(sources, [only] if !only.is_directory);
        if !single_file || args.dest.is_directory() {
            return Ok(Some(Self::Into(path)));
        }
        let (tell, answer) = mpsc::channel();
        let mailbox = run.open()?;
        let name = path.to_string();
        let asked = path.clone();
        let work = Box::new(move |mailbox: &Mailbox| {
            let found = look_up(mailbox, asked)?;
            // Fails only if the command has ended.
            let _ = tell.send(found);
            Ok(None)
        });
        run.spawn_inquiry(mailbox, Job { name, work });
        Ok(match run.wait_for(&answer)? {
            Some(Some(EntryKind::Directory)) => Some(Self::Into(path)),
            Some(_) => Some(Self::As(path)),
            None => None,
        })
    }

    fn of(&self, source: &Source) -> Result<WirePath, NameError> {
        match self {
            Self::As(path) => Ok(path.clone()),
            Self::Into(path) => match source.name.as_ref().map_err(Clone::clone)? {
                Some(name) => path.join(name),
                None => Ok(path.clone()),
            },
        }
    }
}

fn look_up(mailbox: &Mailbox, path: WirePath) -> Result<Option<EntryKind>, TransferError> {
    mailbox.send(Message::Stat { path })?;
    match mailbox.recv() {
        Ok(Message::Entry { kind, .. }) => Ok(Some(kind)),
        Ok(other) => Err(TransferError::unexpected(&other)),
        Err(TransferError::Remote(Fail { code: FailCode::NotFound, .. })) => Ok(None),
        Err(error) => Err(error),
    }
}

impl Source {
    fn look_at(path: &Path) -> Result<Self, Error> {
        let metadata = path.metadata().map_err(Error::local(path))?;
        if !metadata.is_dir() && !metadata.is_file() {
            return Err(Error::Usage(format!(
                "{}: neither a file nor a directory",
                path.display()
            )));
        }
        let name = path.file_name().map(|name| match name.to_str() {
            Some(text) => WirePath::new(text),
            None => Err(NameError::NotUtf8(printable(&name.to_string_lossy()))),
        });
        let is_directory = metadata.is_dir();
        Ok(Self { path: path.to_owned(), name: name.transpose(), is_directory })
    }

    fn produce(&self, place: &Place, producer: &Producer) {
        let shown = self.path.display().to_string();
        let remote = match place.of(self) {
            Ok(remote) => remote,
            Err(error) => {
                return producer.skip(&shown, &error.to_string(), Some(Exit::LocalIo));
            }
        };
        if !self.is_directory {
            let path = self.path.clone();
            let size = path.metadata().map_or(0, |metadata| metadata.len());
            let open = move || File::open(path).map_err(TransferError::reading);
            submit_file(producer, remote, size, open);
            return;
        }
        let root = match Root::open(&self.path) {
            Ok(root) => Arc::new(root),
            Err(error) => {
                return producer.skip(&shown, &error.to_string(), Some(Exit::LocalIo));
            }
        };
        let mut empty = true;
        for item in Walk::new(Arc::clone(&root), WirePath::root()) {
            match item {
                WalkItem::Entry(path, kind) => {
                    empty = false;
                    let remote = match remote.join(&path) {
                        Ok(remote) => remote,
                        Err(error) => {
                            let text = error.to_string();
                            producer.skip(path.as_str(), &text, Some(Exit::LocalIo));
                            continue;
                        }
                    };
                    match kind {
                        EntryKind::Directory => submit_directory(producer, remote),
                        EntryKind::File { size } => {
                            let root = Arc::clone(&root);
                            let open = move || root.file(&path).map_err(TransferError::from);
                            submit_file(producer, remote, size, open);
                        }
                    }
                }
                // On this machine it may be a file that the user counts on.
                WalkItem::Reserved(name) => producer.skip(&name, RESERVED, Some(Exit::LocalIo)),
                WalkItem::Skipped { name, reason, error } => {
                    producer.skip(&name, &reason, error.then_some(Exit::LocalIo));
                }
            }
        }
        if empty && !remote.is_root() {
            submit_directory(producer, remote);
        }
    }
}

fn submit_file(
    producer: &Producer,
    remote: WirePath,
    size: u64,
    open: impl FnOnce() -> Result<File, TransferError> + Send + 'static,
) {
    let progress = Arc::clone(&producer.progress);
    progress.expect(size);
    let name = remote.as_str().to_owned();
    let work = Box::new(move |mailbox: &Mailbox| {
        let mut sender = Sender::new(FileSource(open()?)).map_err(TransferError::reading)?;
        mailbox.send(Message::Put { path: remote, offer: sender.offer() })?;
        match mailbox.recv()? {
            Message::Resume(resume) => {
                send_content(mailbox, &mut sender, &resume, &progress).map(Some)
            }
            other => Err(TransferError::unexpected(&other)),
        }
    });
    producer.submit(Job { name, work });
}

fn submit_directory(producer: &Producer, remote: WirePath) {
    let name = remote.as_str().to_owned();
    let work = Box::new(move |mailbox: &Mailbox| {
        mailbox.send(Message::MakeDirectory { path: remote })?;
        match mailbox.recv()? {
            Message::Stored => Ok(None),
            other => Err(TransferError::unexpected(&other)),
        }
    });
    producer.submit(Job { name, work });
}
