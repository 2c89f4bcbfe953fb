//! Owners and extended attributes of what is in place, which come behind the files.

use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;

use super::closing::{Closing, send_edits};
use super::producer::Reporter;
use super::requests::{Asked, next_request};
use crate::protocol::{
    Attributes, Digest, Edit, Editor, Hasher, MAX_FILES, Message, Policy, Root, TransferError,
    Wanted, WirePath,
};
use crate::session::Mailbox;

/// Something that is in place at both ends.
pub(super) struct InPlace {
    /// Its path on the server.
    pub(super) theirs: WirePath,
    pub(super) ours: Ours,
}

/// Where something is on this machine.
pub(super) enum Ours {
    /// Below this directory.
    Below(Arc<Root>, WirePath),
    /// At this path.
    At(PathBuf),
}

impl Ours {
    fn read(&self, wanted: Wanted) -> Result<Attributes, TransferError> {
        match self {
            Self::Below(root, path) => Attributes::read(root, path, wanted),
            Self::At(path) => {
                let file = File::open(path).map_err(TransferError::reading)?;
                Attributes::of_open(&file, wanted)
            }
        }
    }

    /// Digest of a file, which had this size.
    pub(super) fn digest(&self, size: u64) -> Result<Digest, TransferError> {
        let mut file = match self {
            Self::Below(root, path) => root.file(path)?,
            Self::At(path) => File::open(path).map_err(TransferError::reading)?,
        };
        let mut hasher = Hasher::default();
        // One that has grown has another digest.
        hasher.read(&mut file, size.saturating_add(1)).map_err(TransferError::reading)?;
        Ok(hasher.digest())
    }
}

impl Closing {
    /// Gives what is in place on this machine the attributes that it has at the server.
    pub(super) fn attributes_here(
        &self,
        mailbox: &Mailbox,
        told: &Reporter,
    ) -> Result<(), TransferError> {
        let mut left = self.in_place().into_iter().peekable();
        while left.peek().is_some() {
            let asked = next_request(&mut left, |next| next.theirs.as_str().len() + 3);
            let paths = asked.iter().map(|next| next.theirs.clone()).collect();
            mailbox.send(Message::GetAttributes { wanted: self.wanted, paths })?;
            self.take_attributes(mailbox, asked, told)?;
        }
        Ok(())
    }

    fn take_attributes(
        &self,
        mailbox: &Mailbox,
        asked: Vec<InPlace>,
        told: &Reporter,
    ) -> Result<(), TransferError> {
        let mut asked = Asked::new(asked);
        loop {
            match mailbox.recv()? {
                Message::EndOfAttributes if asked.is_answered() => return Ok(()),
                Message::EndOfAttributes => {
                    return Err(TransferError::Protocol("it left out attributes".to_owned()));
                }
                Message::Attributes(answers) if !answers.is_empty() => {
                    for (number, attributes) in answers {
                        let InPlace { theirs, ours } = asked.take(number)?;
                        let Ours::Below(root, path) = ours else { continue };
                        // What was not asked for is not set, whatever the server says.
                        let edit = Edit::Attributes(path, attributes.only(self.wanted));
                        let editor = Editor::new(root, Policy::clone(self.policy()));
                        let result = editor.apply(&edit);
                        told.edited(theirs.as_str().to_owned(), &edit, result);
                    }
                }
                Message::Fault { file, fail } => {
                    let name = asked.take(file)?.theirs.as_str().to_owned();
                    told.file(name, Err(TransferError::Remote(fail)));
                }
                other => return Err(TransferError::unexpected(&other)),
            }
        }
    }

    /// Gives what is in place at the server the attributes that it has on this machine.
    pub(super) fn attributes_there(
        &self,
        mailbox: &Mailbox,
        told: &Reporter,
    ) -> Result<(), TransferError> {
        let mut left = self.in_place().into_iter().peekable();
        while left.peek().is_some() {
            // No more than one request's worth is kept at a time.
            let mut edits = Vec::new();
            for InPlace { theirs, ours } in left.by_ref().take(MAX_FILES) {
                match ours.read(self.wanted) {
                    Ok(attributes) => edits.push(Edit::Attributes(theirs, attributes)),
                    Err(error) => told.file(theirs.as_str().to_owned(), Err(error)),
                }
            }
            send_edits(mailbox, edits, self.policy(), told)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::super::options::TransferOptions;
    use super::*;

    #[test]
    fn each_path_has_to_be_answered() {
        let closing = Closing::new(&TransferOptions::default(), WirePath::root(), false, None);
        let (reports, _heard) = mpsc::channel();
        let told = Reporter::new(reports, Arc::new(|| {}), Arc::default(), Arc::default());
        let asked = |name: &str| {
            let theirs = WirePath::new(name).unwrap();
            InPlace { theirs, ours: Ours::At(PathBuf::from(name)) }
        };
        for (answered, is_whole) in [(2, true), (1, false), (0, false)] {
            let mut answers: Vec<_> = (0..answered)
                .map(|n| Message::Attributes(vec![(n, Attributes::default())]))
                .collect();
            answers.push(Message::EndOfAttributes);
            let mailbox = Mailbox::hearing(answers);
            let taken =
                closing.take_attributes(&mailbox, vec![asked("one"), asked("two")], &told);
            assert_eq!(taken.is_ok(), is_whole, "{answered} answers: {taken:?}");
        }
    }
}
