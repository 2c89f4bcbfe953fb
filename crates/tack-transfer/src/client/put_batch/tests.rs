use std::path::Path;
use std::sync::mpsc;

use super::*;
use crate::client::options::TransferOptions;
use crate::client::producer::Report;
use crate::protocol::FailCode;
use crate::quic::CONTENT_AHEAD;

/// A batch of files of these names and this content, which it writes into `directory`.
fn batch_of(
    names: &[String],
    content: &[u8],
    directory: &Path,
    policy: Policy,
    is_ahead: bool,
) -> PutBatch {
    let (mut files, mut paths) = (Vec::new(), Vec::new());
    for name in names {
        let path = directory.join(name);
        std::fs::write(&path, content).unwrap();
        let name = WirePath::new(name).unwrap();
        files.push(FileEntry::new(name, FileSource::look_at(&path).unwrap()));
        paths.push(path);
    }
    PutBatch {
        base: WirePath::root(),
        groups: vec![Group { files, ..Group::default() }],
        origin: Origin::Files(paths),
        checksum: false,
        policy: Arc::new(policy),
        closing: Closing::new(&TransferOptions::default(), WirePath::root(), false, None),
        name_within: None,
        is_brief: true,
        is_ahead,
        version: CONTENT_AHEAD,
    }
}

/// Sends three files ahead, under this policy, to a server that answers once all have come and wants the first one
/// only. What became of them; `None` if nothing has come before an answer.
fn send_ahead(policy: Policy) -> Option<Vec<(String, Outcome)>> {
    let directory = tempfile::tempdir().unwrap();
    let names: Vec<_> = (0..3).map(|n| format!("file{n}")).collect();
    let batch = batch_of(&names, b"content", directory.path(), policy, true);
    let (report, reports) = mpsc::channel();
    let told = Reporter::new(report, Arc::new(|| {}), Arc::default(), Arc::default());
    let mailbox = Mailbox::answered_by(|message| match message {
        Message::PutMany { ahead: false, .. } => {
            vec![Message::Fail(Fail { code: FailCode::Io, text: "it waits".to_owned() })]
        }
        Message::EndOfBundles => vec![wanted(vec![0]), Message::Stored],
        _ => Vec::new(),
    });
    (batch.into_job(&told).work)(&mailbox).unwrap();
    drop(told);
    let outcome = |report| match report {
        Report::File { name, result } => Some((name, result.ok()?)),
        _ => None,
    };
    reports.into_iter().map(outcome).collect()
}

fn wanted(files: Vec<u32>) -> Message {
    Message::Wanted {
        files,
        compare: Box::default(),
        kept: Box::default(),
        attributes: Box::default(),
        resume: None,
        within: false,
        refused: Box::default(),
    }
}

#[test]
fn what_the_server_is_thought_not_to_have_waits_for_no_answer_and_its_answer_counts() {
    let mut told = send_ahead(Policy::default()).unwrap();
    told.sort_by(|(one, _), (other, _)| one.cmp(other));
    let equal: Vec<_> = told.iter().map(|(name, outcome)| (&name[..], outcome.equal)).collect();
    assert_eq!(equal, [("file0", false), ("file1", true), ("file2", true)]);
}

#[test]
fn what_makes_way_is_heard_while_files_are_still_sent() {
    let directory = tempfile::tempdir().unwrap();
    // More than the queue to the server takes.
    let names: Vec<_> = (0..12).map(|n| format!("file{n}")).collect();
    let content = vec![7; 100_000];
    let batch = batch_of(&names, &content, directory.path(), Policy::default(), false);
    let (report, reports) = mpsc::channel();
    let told = Reporter::new(report, Arc::new(|| {}), Arc::default(), Arc::default());
    let mut has_told = false;
    let mailbox = Mailbox::answered_by(move |message| match message {
        Message::PutMany { .. } => vec![wanted((0..12).collect())],
        Message::Bundle(_) if !std::mem::replace(&mut has_told, true) => {
            vec![Message::Removed { paths: vec!["file0".to_owned()], others: 0 }]
        }
        Message::EndOfBundles => vec![Message::Stored],
        _ => Vec::new(),
    });
    (batch.into_job(&told).work)(&mailbox).unwrap();
    drop(told);
    let (mut removed, mut files) = (Vec::new(), 0);
    for report in reports {
        match report {
            Report::Edited { name, .. } => removed.push(name),
            Report::File { result, .. } => files += u32::from(result.is_ok()),
            _ => panic!("something has failed"),
        }
    }
    assert_eq!((removed, files), (vec!["file0".to_owned()], 12));
}

#[test]
fn what_may_stay_is_asked_for_first() {
    for policy in [
        Policy { update: true, ..Policy::default() },
        Policy { ignore_existing: true, ..Policy::default() },
    ] {
        assert!(send_ahead(policy).is_none());
    }
}
