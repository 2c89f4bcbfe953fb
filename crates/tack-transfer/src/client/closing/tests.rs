use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

use super::*;
use crate::client::producer::Report;
use crate::protocol::{Edited, Encoded, FileEntry, MAX_FILES, Message, Suffix};
use crate::session::Mailbox;

fn path(text: &str) -> WirePath {
    WirePath::new(text).unwrap()
}

fn reporter() -> (Reporter, mpsc::Receiver<Report>) {
    let (reports, heard) = mpsc::channel();
    (Reporter::new(reports, Arc::new(|| {}), Arc::default(), Arc::default()), heard)
}

/// What would be deleted below `tree`, where the source has `R.E.M./a` and the destination this.
fn deleted(directory: &str) -> (Vec<Edit>, Vec<Report>) {
    let options = TransferOptions { delete: true, ..TransferOptions::default() };
    let closing = Closing::new(&options, WirePath::root(), true, None);
    closing.add_tree(&path("tree"), &Filter::all());
    for name in ["tree", "tree/R.E.M.", "tree/R.E.M./a"] {
        closing.add_name(name).unwrap();
        closing.add_expected(&path(name));
    }
    let offer = Offer { size: 1, modified: Mtime::default(), mode: 0o600 };
    let file = |name: &str| vec![FileEntry::new(path(name), offer)];
    let listed = [
        Group { files: file("gone"), ..Group::default() },
        Group { directory: path(directory), files: file("a"), ..Group::default() },
    ];
    closing.collected().extraneous.take(&path("tree"), &listed).unwrap();
    let (told, heard) = reporter();
    let edits = closing.edits(&told, End::Remote, |_, _| true);
    (edits, heard.try_iter().collect())
}

#[test]
fn what_is_not_transferred_is_not_missed_after_a_reconnection() {
    let attempts = crate::client::attempts::Attempts::default();
    let offer = Offer { size: 1, modified: Mtime::default(), mode: 0o600 };
    let group = |directory: &str, names: &[&str], links: &[&str]| {
        let files = names.iter().map(|name| FileEntry::new(path(name), offer)).collect();
        let target = || LinkTarget::new("elsewhere").unwrap();
        let link = |name: &&str| (path(name), target(), Mtime::default());
        let links = links.iter().map(link).collect();
        Group { directory: path(directory), files, links, ..Group::default() }
    };
    let filter = Filter::new(["*.log", "cache"], []).unwrap();
    for (deletes, preserve) in [(false, false), (true, false), (false, true)] {
        let policy = Policy { preserve, ..Policy::default() };
        let options = TransferOptions { delete: deletes, policy, ..TransferOptions::default() };
        let closing = || {
            let attempt = attempts.begin();
            (Closing::new(&options, WirePath::root(), true, Some(&attempt)), attempt)
        };
        let (first, _) = closing();
        let before = [group("", &["kept", "a.log"], &["link"]), group("cache", &["x"], &[])];
        first.add_names(&before, &filter).unwrap();
        first.add_left_out_name(".b.tack-part").unwrap();
        let reserved = WalkItem::Reserved(".c.tack-part".to_owned());
        first.add_left_out(&WirePath::root(), &reserved).unwrap();
        let (second, attempt) = closing();
        second.add_names(&[group("", &["kept"], &[])], &filter).unwrap();
        assert_eq!(attempt.missing(&WirePath::root()), usize::from(preserve));
    }
}

#[test]
fn nothing_is_deleted_where_the_destination_spells_names_otherwise() {
    let (edits, told) = deleted("R.E.M");
    assert_eq!(edits, []);
    let [Report::Skipped { name, reason, failed }] = &told[..] else { panic!() };
    assert_eq!((name.as_str(), *failed), ("tree/gone", Some(End::Remote)));
    assert!(reason.contains("2 names"), "{reason}");
    let (edits, told) = deleted("R.E.M.");
    assert_eq!((edits, told.len()), (vec![Edit::Remove(path("tree/gone"))], 0));
}

#[test]
fn edits_travel_in_no_more_requests_than_their_number_needs() {
    let target = || LinkTarget::new("../elsewhere/of/a/usual/length").unwrap();
    let modified = Mtime { seconds: 1_700_000_000, nanos: 123_456_789 };
    let link = |path| Edit::Symlink(path, target(), modified);
    for edit in [&Edit::Remove as &dyn Fn(WirePath) -> Edit, &link] {
        let edits = (0..2000).map(|n| edit(path(&format!("tree/{n:014}"))));
        let (told, heard) = reporter();
        let requests = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&requests);
        let mailbox = Mailbox::answered_by(move |message| {
            assert!(matches!(&message, Message::Edit { .. }));
            assert!(Encoded::new(message).is_ok());
            counted.fetch_add(1, Ordering::Relaxed);
            vec![Message::Edited { unchanged: Vec::new(), kept: Vec::new() }]
        });
        let options = TransferOptions::default();
        let closing = Closing::new(&options, WirePath::root(), false, None);
        closing.send_edits(&mailbox, edits, &told).unwrap();
        assert_eq!(requests.load(Ordering::Relaxed), 2000usize.div_ceil(MAX_FILES));
        assert_eq!(heard.try_iter().count(), 2000);
    }
}

#[test]
fn what_a_server_has_done_without_an_answer_is_told_by_the_next_attempt() {
    let attempts = crate::client::attempts::Attempts::default();
    let options = TransferOptions { delete: true, ..TransferOptions::default() };
    let link = |name: &str| Edit::HardLink(path(name), path("tree/first"));
    let removals = ["done", "left", "back"].map(|name| path(&format!("tree/{name}")));
    let first = Closing::new(&options, WirePath::root(), false, Some(&attempts.begin()));
    let (told, heard) = reporter();
    let edits = removals.map(Edit::Remove).into_iter().chain([link("tree/a"), link("tree/b")]);
    let lost = first.send_edits(&Mailbox::hearing(Vec::new()), edits, &told);
    assert!(matches!(lost, Err(TransferError::Disconnected)));
    assert_eq!(heard.try_iter().count(), 0);

    let second = Closing::new(&options, WirePath::root(), false, Some(&attempts.begin()));
    second.add_tree(&path("tree"), &Filter::all());
    // One is to be removed still, and the source has another one by now.
    second.add_name("tree/back").unwrap();
    let offer = Offer { size: 1, modified: Mtime::default(), mode: 0o600 };
    let files = vec![FileEntry::new(path("left"), offer)];
    let listed = [Group { files, ..Group::default() }];
    second.collected().extraneous.take(&path("tree"), &listed).unwrap();
    let edits = second.edits(&told, End::Remote, |_, _| true);
    assert_eq!(edits, [Edit::Remove(path("tree/left"))]);
    let told_of = |report| match report {
        Report::Edited { name, result, .. } => (name, result.unwrap()),
        _ => panic!("something else is told"),
    };
    let removed: Vec<_> = heard.try_iter().map(told_of).collect();
    assert_eq!(removed, [("tree/done".to_owned(), Edited::Done)]);
    let mailbox = Mailbox::answered_by(|_| {
        vec![Message::Edited { unchanged: vec![0, 1], kept: Vec::new() }]
    });
    second.send_edits(&mailbox, [link("tree/a"), link("tree/c")], &told).unwrap();
    let linked: Vec<_> = heard.try_iter().map(told_of).collect();
    let expected = [("tree/a", Edited::Done), ("tree/c", Edited::Unchanged)];
    assert_eq!(linked, expected.map(|(name, edited)| (name.to_owned(), edited)));
}

#[test]
fn the_longest_edits_fit_into_their_requests() {
    let long = |n: usize| path(&vec![format!("{n:03}{}", "\u{1}".repeat(252)); 16].join("/"));
    let modified = Mtime { seconds: i64::MIN, nanos: u32::MAX };
    let target = LinkTarget::new("\u{1}".repeat(4095)).unwrap();
    let edits = (0..100).flat_map(|n| {
        [
            Edit::Symlink(long(n), target.clone(), modified),
            Edit::HardLink(long(n), long(n + 1)),
            Edit::RemovePart(path(&format!("\"{n}"))),
            Edit::Directory(long(n), u32::MAX, modified),
        ]
    });
    let backup = Some(Suffix::new("\u{1}".repeat(64)).unwrap());
    let policy = Policy {
        update: true,
        ignore_existing: true,
        backup,
        preserve: true,
        owner: true,
        whole_file: true,
        make_way: true,
        opens_directories: true,
        keeps_links: true,
    };
    let (told, _heard) = reporter();
    let mailbox = Mailbox::answered_by(|message| {
        let encoded = Encoded::new(message);
        assert!(encoded.is_ok(), "{encoded:?}");
        vec![Message::Edited { unchanged: Vec::new(), kept: Vec::new() }]
    });
    let options = TransferOptions { policy, ..TransferOptions::default() };
    let closing = Closing::new(&options, WirePath::root(), false, None);
    closing.send_edits(&mailbox, edits, &told).unwrap();
}
