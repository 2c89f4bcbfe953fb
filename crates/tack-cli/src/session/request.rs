//! What a server's worker does with one request.

use std::net::SocketAddr;
use std::sync::Arc;

use super::content::{Outcome, Progress, receive_content, send_content, sender_of};
use super::life::{Claims, Life};
use super::mailbox::Mailbox;
use crate::transfer::{
    EntryKind, Incoming, Message, Offer, RESERVED, Resume, Root, TransferError, Walk, WalkItem,
    WirePath,
};

/// What all workers of a server share.
pub(super) struct Service {
    pub(super) root: Arc<Root>,
    pub(super) read_only: bool,
    pub(super) write_limit: Option<u64>,
    pub(super) claims: Claims,
    pub(super) report: Box<dyn Fn(ServerEvent) + Send + Sync>,
}

/// Something worth logging.
#[derive(Debug)]
pub struct ServerEvent {
    /// Whose request it was.
    pub client: SocketAddr,
    /// What was asked.
    pub action: Action,
    /// On what.
    pub path: WirePath,
    /// How it went; `None` for requests without content.
    pub result: Result<Option<Outcome>, TransferError>,
}

/// Kinds of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// A file was sent to the client.
    Get,
    /// A file was received from the client.
    Put,
    /// A directory was listed.
    List,
    /// A directory was created.
    MakeDirectory,
    /// A client said a token.
    LogIn,
}

impl Action {
    /// One word for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::Put => "send",
            Self::List => "list",
            Self::MakeDirectory => "mkdir",
            Self::LogIn => "login",
        }
    }
}

impl Service {
    /// Serves the request that `mailbox` begins with.
    pub(super) fn serve(&self, mailbox: &Mailbox, life: &Arc<Life>, client: SocketAddr) {
        let Ok(request) = mailbox.recv() else { return };
        let (action, path, result) = match request {
            // That there is nothing yet is an ordinary answer, not worth reporting.
            Message::Stat { path } => {
                if let Err(error) = self.stat(mailbox, &path) {
                    mailbox.fail(&error);
                }
                return;
            }
            Message::Get { path, resume } => {
                let result = self.get(mailbox, &path, &resume).map(Some);
                (Action::Get, path, result)
            }
            Message::Put { path, offer } => {
                let result = self.put(mailbox, life, &path, offer).map(Some);
                (Action::Put, path, result)
            }
            Message::List { path } => {
                let result = self.list(mailbox, &path).map(|()| None);
                (Action::List, path, result)
            }
            Message::MakeDirectory { path } => {
                let result = self.make_directory(mailbox, &path).map(|()| None);
                (Action::MakeDirectory, path, result)
            }
            other => return mailbox.fail(&TransferError::unexpected(&other)),
        };
        if let Err(error) = &result {
            mailbox.fail(error);
        }
        (self.report)(ServerEvent { client, action, path, result });
    }

    fn get(
        &self,
        mailbox: &Mailbox,
        path: &WirePath,
        resume: &Resume,
    ) -> Result<Outcome, TransferError> {
        let mut sender = sender_of(self.root.file(path)?)?;
        mailbox.send(Message::Offer(sender.offer()))?;
        send_content(mailbox, &mut sender, resume, &Progress::default())
    }

    fn put(
        &self,
        mailbox: &Mailbox,
        life: &Arc<Life>,
        path: &WirePath,
        offer: Offer,
    ) -> Result<Outcome, TransferError> {
        self.check_writable()?;
        // Held longer than the file's own lock, which another process might hold.
        let _claim = self.claims.claim(path, life)?;
        let incoming = Incoming::open(&self.root, path, offer.size, self.write_limit)?;
        mailbox.send(Message::Resume(incoming.resume))?;
        receive_content(mailbox, incoming, Some(offer), &Progress::default())
    }

    fn list(&self, mailbox: &Mailbox, path: &WirePath) -> Result<(), TransferError> {
        let kind = self.root.kind(path)?;
        mailbox.send(Message::Entry { path: WirePath::root(), kind })?;
        if kind == EntryKind::Directory {
            for item in Walk::new(Arc::clone(&self.root), path.clone()) {
                mailbox.send(match item {
                    WalkItem::Entry(path, kind) => Message::Entry { path, kind },
                    WalkItem::Skipped { name, reason, error } => {
                        Message::Skipped { name, reason, error }
                    }
                    // Most likely what an interrupted transfer to this server has left.
                    WalkItem::Reserved(name) => {
                        let reason = RESERVED.to_owned();
                        Message::Skipped { name, reason, error: false }
                    }
                })?;
            }
        }
        mailbox.send(Message::EndOfList)
    }

    fn stat(&self, mailbox: &Mailbox, path: &WirePath) -> Result<(), TransferError> {
        let kind = self.root.kind(path)?;
        mailbox.send(Message::Entry { path: WirePath::root(), kind })
    }

    fn make_directory(&self, mailbox: &Mailbox, path: &WirePath) -> Result<(), TransferError> {
        self.check_writable()?;
        self.root.create_directory(path)?;
        mailbox.send(Message::Stored)
    }

    fn check_writable(&self) -> Result<(), TransferError> {
        if self.read_only { Err(TransferError::ReadOnly) } else { Ok(()) }
    }
}
