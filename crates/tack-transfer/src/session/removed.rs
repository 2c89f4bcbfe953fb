//! Tells a client what a server has removed to make way for what it has received.

use super::mailbox::Mailbox;
use crate::protocol::{MAX_CONTROL, MadeWay, Message, Removed, TransferError, json_len};

/// Bytes of JSON of the paths in one message: the rest of it fits beside them.
const MAX_JSON: usize = MAX_CONTROL - 1024;

/// Tells what has made way since this was called last, unless that is nothing.
pub(super) fn tell_removed(mailbox: &Mailbox, made_way: &MadeWay) -> Result<(), TransferError> {
    let Removed { paths, mut others } = made_way.take();
    let (mut told, mut json) = (Vec::new(), 0);
    for path in paths {
        // With a comma.
        let length = json_len(&path) + 1;
        if length > MAX_JSON {
            others += 1;
            continue;
        }
        if json + length > MAX_JSON {
            mailbox.send(Message::Removed { paths: std::mem::take(&mut told), others: 0 })?;
            json = 0;
        }
        json += length;
        told.push(path);
    }
    if told.is_empty() && others == 0 {
        return Ok(());
    }
    mailbox.send(Message::Removed { paths: told, others })
}

/// Bytes of JSON of the paths that are told before a client is known to listen: they have to fit into what it lets come
/// while it sends.
const EARLY: usize = 8 * 1024;

/// Tells what has made way while the client still sends, as far as it fits.
pub(super) struct EarlyTeller<'a> {
    mailbox: &'a Mailbox,
    made_way: &'a MadeWay,
    left: usize,
}

impl<'a> EarlyTeller<'a> {
    /// The client goes on sending: what comes of it waits.
    pub(super) fn new(mailbox: &'a Mailbox, made_way: &'a MadeWay) -> Self {
        mailbox.hold_messages();
        Self { mailbox, made_way, left: EARLY }
    }

    pub(super) fn tell(&mut self) -> Result<(), TransferError> {
        let left = &mut self.left;
        let paths = self.made_way.take_some(|path| {
            let rest = left.checked_sub(json_len(&path) + 1);
            *left = rest.unwrap_or_default();
            rest.is_some()
        });
        if paths.is_empty() {
            return Ok(());
        }
        self.mailbox.send(Message::Removed { paths, others: 0 })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;
    use crate::protocol::{Encoded, Policy, Root, WirePath};

    #[test]
    fn what_has_made_way_is_told_in_messages_that_fit_however_long_the_names_are() {
        let dir = tempfile::tempdir().unwrap();
        let names: Vec<_> = (0..1000).map(|n| format!("{n}{}", "\u{1}".repeat(200))).collect();
        for name in &names {
            std::fs::write(dir.path().join(name), "in the way").unwrap();
        }
        let (root, made_way) = (Root::open(dir.path()).unwrap(), MadeWay::default());
        let policy = Policy { make_way: true, ..Policy::default() };
        for name in &names {
            let (base, path) = (WirePath::root(), WirePath::new(name).unwrap());
            root.create_directory_below(&base, &path, &[], &policy, &made_way).unwrap();
        }
        let (tell, heard) = mpsc::channel();
        let mailbox = Mailbox::answered_by(move |message| {
            tell.send(message).unwrap();
            Vec::new()
        });
        tell_removed(&mailbox, &made_way).unwrap();
        tell_removed(&mailbox, &made_way).unwrap();
        mailbox.send(Message::Stored).unwrap();
        let mut told = Vec::new();
        while let Message::Removed { paths, others: 0 } = heard.recv().unwrap() {
            told.extend(paths.clone());
            assert!(Encoded::new(Message::Removed { paths, others: 0 }).is_ok());
        }
        assert!(told == names, "each is told once");
    }
}
