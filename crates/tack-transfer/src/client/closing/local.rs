//! The end of a transfer into a directory of this machine: the edits are made here, by the thread that has planned them.

use std::sync::Arc;

use super::{Closing, is_same};
use crate::End;
use crate::client::jobs::{Job, Kind};
use crate::client::producer::Reporter;
use crate::protocol::{
    Edit, Editor, Group, Offer, RESERVED, Root, TransferError, Walk, WalkItem, WirePath,
    printed_below,
};
use crate::session::Mailbox;

impl Closing {
    /// Plans the end of a transfer into a directory of this machine, if there is one already.
    pub(in crate::client) fn finish_here(&self, reporter: &Reporter, root: Option<Arc<Root>>) {
        if !self.needs_links() {
            return;
        }
        let (closing, told) = (self.clone(), reporter.clone());
        let work = Box::new(move |mailbox: &Mailbox| {
            closing.tell_made_way(&told);
            if let (Some(root), true) = (&root, closing.may_delete(&told)) {
                closing.look_here(&told, root)?;
            }
            let is_as_listed = |first: &WirePath, listed: &Offer| {
                if closing.dry_run {
                    return true;
                }
                let found = root.as_ref().and_then(|root| root.offer(first));
                found.is_some_and(|found| is_same(listed, &found))
            };
            let edits = closing.edits(&told, End::Local, is_as_listed);
            let editor = root.clone().map(|root| Editor::new(root, closing.policy.clone()));
            closing.apply_here(edits, editor.as_ref(), &told);
            closing.attributes_here(mailbox, &told)?;
            closing.apply_here(closing.directories(), editor.as_ref(), &told);
            Ok(None)
        });
        reporter.at_last(Job { kind: Kind::Inquiry, name: ".".to_owned(), work });
    }

    fn apply_here(&self, edits: Vec<Edit>, editor: Option<&Editor>, told: &Reporter) {
        if self.dry_run {
            return self.plan_here(&edits, editor, told);
        }
        for edit in edits {
            let name = printed_below(&self.remote, &edit.name());
            if let Some(editor) = editor {
                told.edited(name, &edit, editor.apply(&edit));
            }
        }
    }

    /// Looks for what is to be removed below a directory of this machine.
    fn look_here(&self, told: &Reporter, root: &Arc<Root>) -> Result<(), TransferError> {
        let mut collected = self.collected();
        let mut group = Group::default();
        for item in Walk::new(Arc::clone(root), WirePath::root()).with_links(true) {
            match item {
                WalkItem::Directory(next) => group = next,
                WalkItem::File(file) => group.files = vec![file],
                WalkItem::Link(name, target, time) => group.links = vec![(name, target, time)],
                WalkItem::Reserved(name) => {
                    if !self.removes_parts || !collected.extraneous.take_part(&name) {
                        collected.extraneous.note_stays(&name);
                        told.not_deleted(&printed_below(&self.remote, &name), RESERVED, None);
                    }
                }
                // Nothing that can't be named is removed.
                WalkItem::Skipped { name, reason, unread, .. } => {
                    collected.extraneous.note_stays(&name);
                    let counts = unread && collected.extraneous.may_go(&name);
                    let name = printed_below(&self.remote, &name);
                    told.not_deleted(&name, &reason, counts.then_some(End::Local));
                }
            }
            collected.extraneous.take(&WirePath::root(), std::slice::from_ref(&group))?;
            group.files.clear();
            group.links.clear();
        }
        Ok(())
    }
}
