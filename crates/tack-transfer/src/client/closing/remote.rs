//! The end of a transfer into directories of a server: they are listed, and the edits sent, a request behind the other.

use std::collections::{HashMap, HashSet};

use super::Closing;
use crate::End;
use crate::client::jobs::{Job, Kind};
use crate::client::producer::Reporter;
use crate::client::requests::next_request;
use crate::protocol::{
    Edit, EditKind, Edited, Fail, FailCode, Group, Message, TransferError, WirePath, json_len,
    printed_below,
};
use crate::session::Mailbox;

impl Closing {
    /// Plans the end of a transfer into `directories` of the server.
    pub(in crate::client) fn finish_there(
        &self,
        reporter: &Reporter,
        directories: Vec<WirePath>,
    ) {
        let is_needed = !directories.is_empty()
            || self.wanted.anything()
            || self.dry_run
            || !self.collected().hard_links.is_empty();
        if !self.needs_links() || !is_needed {
            return;
        }
        self.look_around(reporter, &directories);
        let looks = self.deletes || self.dry_run;
        for directory in directories.into_iter().filter(|_| looks) {
            let (closing, told) = (self.clone(), reporter.clone());
            let name = directory.to_string();
            let work = Box::new(move |mailbox: &Mailbox| {
                if closing.may_delete(&told) || closing.dry_run {
                    closing.look_there(&told, mailbox, &directory)?;
                }
                Ok(None)
            });
            reporter.at_last(Job { kind: Kind::Inquiry, name, work });
        }
        let (closing, told) = (self.clone(), reporter.clone());
        let work = Box::new(move |mailbox: &Mailbox| {
            let changed = std::mem::take(&mut closing.collected().changed);
            let edits = closing.edits(&told, End::Remote, |first, _| !changed.contains(first));
            if closing.dry_run {
                closing.plan_there(&edits, &told);
                return Ok(None);
            }
            match closing.edit_there(mailbox, edits, &told) {
                // A server that is read-only has said so of every file.
                Err(TransferError::Remote(Fail { code: FailCode::Refused, .. }))
                    if !told.is_faultless() =>
                {
                    Ok(None)
                }
                edited => edited.map(|()| None),
            }
        });
        reporter.at_last(Job { kind: Kind::Inquiry, name: ".".to_owned(), work });
    }

    /// Expects the named files that go below one of these `directories` of the server. If there are several, plans to
    /// find out how they are spelled.
    fn look_around(&self, reporter: &Reporter, directories: &[WirePath]) {
        let mut collected = self.collected();
        for path in std::mem::take(&mut collected.named) {
            if directories.iter().any(|directory| path.below(directory).is_some()) {
                collected.extraneous.expect(&path);
            }
        }
        if !self.deletes || self.dry_run || !collected.extraneous.has_several() {
            return;
        }
        let parents = directories.iter().filter_map(WirePath::split_last);
        let parents: HashSet<_> = parents.map(|(parent, _)| parent).collect();
        for parent in parents {
            let closing = self.clone();
            let name = parent.to_string();
            let work = Box::new(move |mailbox: &Mailbox| {
                closing.see_directories(mailbox, &parent).map(|()| None)
            });
            reporter.at_last(Job { kind: Kind::Inquiry, name, work });
        }
    }

    /// Sees which directories a directory of the server has.
    fn see_directories(
        &self,
        mailbox: &Mailbox,
        parent: &WirePath,
    ) -> Result<(), TransferError> {
        if !ask_for_listing(mailbox, parent, Some(1), false)? {
            return Ok(());
        }
        Reporter::look_at_listing(mailbox, |groups| {
            for group in groups.iter().filter(|group| !group.directory.is_root()) {
                let path = parent.join(&group.directory)?;
                self.collected().extraneous.see(path.as_str());
            }
            Ok(())
        })
    }

    /// Looks for what is to be removed below a directory of the server.
    fn look_there(
        &self,
        told: &Reporter,
        mailbox: &Mailbox,
        directory: &WirePath,
    ) -> Result<(), TransferError> {
        if !ask_for_listing(mailbox, directory, None, true)? {
            return Ok(());
        }
        let links = self.collected().names_of_links();
        let take = |groups: &[Group]| {
            let mut collected = self.collected();
            if self.dry_run {
                for group in groups {
                    collected.look_at(directory, group, &links)?;
                }
            }
            collected.extraneous.take(directory, groups)
        };
        if self.may_delete(told) {
            let stays = |name: &str| {
                let (mut collected, name) = (self.collected(), printed_below(directory, name));
                if self.removes_parts && collected.extraneous.take_part(&name) {
                    return None;
                }
                collected.extraneous.note_stays(&name);
                Some(collected.extraneous.may_go(&name))
            };
            return told.take_destination(mailbox, directory, take, stays);
        }
        Reporter::look_at_listing(mailbox, take)
    }

    fn edit_there(
        &self,
        mailbox: &Mailbox,
        edits: Vec<Edit>,
        told: &Reporter,
    ) -> Result<(), TransferError> {
        self.send_edits(mailbox, edits, told)?;
        self.attributes_there(mailbox, told)?;
        self.send_edits(mailbox, self.directories(), told)
    }

    /// Sends edits, a request behind the other.
    pub(in crate::client) fn send_edits(
        &self,
        mailbox: &Mailbox,
        edits: impl IntoIterator<Item = Edit>,
        told: &Reporter,
    ) -> Result<(), TransferError> {
        let mut edits = edits.into_iter().peekable();
        while edits.peek().is_some() {
            let request = next_request(&mut edits, json_len);
            let (edits, policy) = (request.clone(), self.policy.clone());
            self.note_in_flight(&request);
            mailbox.send(Message::Edit { edits, policy })?;
            let mut failed = HashMap::new();
            let (unchanged, kept) = loop {
                match mailbox.recv()? {
                    Message::Fault { file, fail } => drop(failed.insert(file, fail)),
                    Message::Edited { unchanged, kept } => break (unchanged, kept),
                    other => return Err(TransferError::unexpected(&other)),
                }
            };
            self.note_in_flight(&[]);
            for (number, edit) in (0..).zip(request) {
                let result = match failed.remove(&number) {
                    Some(fail) => Err(TransferError::Remote(fail)),
                    None if unchanged.contains(&number) && !self.has_linked(&edit) => {
                        Ok(Edited::Unchanged)
                    }
                    None if kept.contains(&number) => Ok(Edited::Kept),
                    None => Ok(Edited::Done),
                };
                if result.is_ok() || !self.is_doubtful(&edit) {
                    told.edited(edit.name(), &edit, result);
                }
            }
        }
        Ok(())
    }

    fn note_in_flight(&self, edits: &[Edit]) {
        if let Some(attempt) = &self.attempt {
            attempt.note_in_flight(edits);
        }
    }

    /// Whether a link that is there may be an earlier attempt's.
    fn has_linked(&self, edit: &Edit) -> bool {
        edit.kind() == EditKind::Link
            && self.attempt.as_ref().is_some_and(|attempt| attempt.was_in_flight(edit))
    }

    /// Whether an edit fails because of what has been told already.
    fn is_doubtful(&self, edit: &Edit) -> bool {
        matches!(edit, Edit::Directory(path, ..) if self.collected().doubtful.contains(path))
    }
}

/// Asks for what a directory of the server has; false if it is not there.
fn ask_for_listing(
    mailbox: &Mailbox,
    directory: &WirePath,
    depth: Option<u32>,
    links: bool,
) -> Result<bool, TransferError> {
    let path = directory.clone();
    mailbox.send(Message::List { path, depth, links, content: false })?;
    match mailbox.recv() {
        Ok(Message::Entry { .. }) => Ok(true),
        Ok(other) => Err(TransferError::unexpected(&other)),
        Err(TransferError::Remote(Fail { code: FailCode::NotFound, .. })) => Ok(false),
        Err(error) => Err(error),
    }
}
