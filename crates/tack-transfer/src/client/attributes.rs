//! Owners and extended attributes of what is in place, which come behind the files.

use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;

use super::closing::Closing;
use super::producer::Reporter;
use super::requests::{Asked, next_request};
use crate::protocol::{
    Attributes, Digest, Edit, Editor, Hasher, Message, Policy, Root, TransferError, Wanted,
    WirePath, json_len,
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
            let asked = next_request(&mut left, |next| json_len(&next.theirs));
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
        // Read as they are sent: no more than one request's worth is kept at a time.
        let read = |InPlace { theirs, ours }| match ours.read(self.wanted) {
            Ok(attributes) => Some(Edit::Attributes(theirs, attributes)),
            Err(error) => {
                told.file(theirs.as_str().to_owned(), Err(error));
                None
            }
        };
        self.send_edits(mailbox, self.in_place().into_iter().filter_map(read), told)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
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

    /// 2,000 things that are in place, all of them at one path here.
    fn in_place(closing: &Closing, here: &std::path::Path) {
        for n in 0..2000 {
            let theirs = WirePath::new(format!("tree/{n:014}")).unwrap();
            closing.add_in_place(theirs, Ours::At(here.to_owned())).unwrap();
        }
    }

    #[test]
    fn attributes_travel_in_no_more_requests_than_their_number_needs() {
        let here = tempfile::NamedTempFile::new().unwrap();
        let options = TransferOptions { owner: true, ..TransferOptions::default() };
        let closing = Closing::new(&options, WirePath::root(), false, None);
        let (reports, heard) = mpsc::channel();
        let told = Reporter::new(reports, Arc::new(|| {}), Arc::default(), Arc::default());
        let requests = Arc::new(AtomicUsize::new(0));
        let mailbox = || {
            let requests = Arc::clone(&requests);
            Mailbox::answered_by(move |message| {
                requests.fetch_add(1, Ordering::Relaxed);
                let answer = |n| Message::Attributes(vec![(n, Attributes::default())]);
                match message {
                    Message::Edit { .. } => {
                        vec![Message::Edited { unchanged: Vec::new(), kept: Vec::new() }]
                    }
                    Message::GetAttributes { paths, .. } => (0..paths.len() as u32)
                        .map(answer)
                        .chain([Message::EndOfAttributes])
                        .collect(),
                    other => panic!("{other:?}"),
                }
            })
        };
        in_place(&closing, here.path());
        closing.attributes_there(&mailbox(), &told).unwrap();
        assert_eq!(requests.swap(0, Ordering::Relaxed), 2000usize.div_ceil(256));
        assert_eq!(heard.try_iter().count(), 2000);
        in_place(&closing, here.path());
        closing.attributes_here(&mailbox(), &told).unwrap();
        assert_eq!(requests.load(Ordering::Relaxed), 2000usize.div_ceil(256));
    }
}
