//! Requests as messages in memory.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use super::life::{Claims, Life};
use super::mailbox::{Delivery, Mailbox, Pickup, StreamEnd};
use super::request::Service;
use crate::protocol::{
    Bundle, Content, Digest, EntryKind, Fail, FailCode, FileEntry, Group, GroupCommit, Hasher,
    Message, Mtime, Offer, Policy, Record, Resume, Root, WirePath,
};
use crate::quic::{HOLES, TELLS_EARLY, VERSIONS};

const PATIENCE: Duration = Duration::from_secs(10);

fn path(text: &str) -> WirePath {
    WirePath::new(text).unwrap()
}

/// A request that a worker is serving.
struct Request {
    stream: StreamEnd,
    noticed: mpsc::Receiver<()>,
    /// Whether it went well.
    reports: mpsc::Receiver<bool>,
    client_has_all: Arc<AtomicBool>,
}

impl Request {
    fn begin(served: &Path, message: Message) -> Self {
        Self::of_version(served, message, *VERSIONS.end())
    }

    /// The same of a client that speaks this version of the protocol.
    fn of_version(served: &Path, message: Message, version: usize) -> Self {
        let (report, reports) = mpsc::channel();
        let report = Mutex::new(report);
        let service = Service {
            root: Arc::new(Root::open(served).unwrap()),
            read_only: false,
            links: true,
            owners: false,
            write_limit: None,
            claims: Claims::default(),
            commit: GroupCommit::start(),
            workers: Arc::default(),
            report: Box::new(move |event| {
                // Fails only when the test is over.
                let _ = report.lock().unwrap().send(event.result.is_ok());
            }),
        };
        let (notice, noticed) = mpsc::channel();
        // Fails only when the test is over.
        let (mailbox, stream) = Mailbox::new(Arc::new(move || {
            let _ = notice.send(());
        }));
        let client_has_all = Arc::default();
        let mailbox = mailbox.with_flag(&client_has_all);
        std::thread::spawn(move || {
            let life = Life::new(Arc::new(|| {}));
            life.handshake.open();
            life.version.store(version, Ordering::Relaxed);
            service.serve(&mailbox, &life, SocketAddr::from(([127, 0, 0, 1], 1)));
        });
        let mut request = Self { stream, noticed, reports, client_has_all };
        request.say(message);
        request
    }

    fn say(&mut self, mut message: Message) {
        loop {
            message = match self.stream.deliver(message) {
                Delivery::Taken => return,
                Delivery::Full(message) => message,
                Delivery::Gone => panic!("the worker has ended"),
            };
            self.noticed.recv_timeout(PATIENCE).unwrap();
        }
    }

    fn hear(&mut self) -> Message {
        loop {
            match self.stream.pick_up() {
                Pickup::Message(message) => return message,
                Pickup::Nothing => self.noticed.recv_timeout(PATIENCE).unwrap(),
                Pickup::End => panic!("the stream has ended"),
            }
        }
    }

    fn has_ended(&mut self) -> bool {
        loop {
            match self.stream.pick_up() {
                Pickup::Message(message) => panic!("{message:?}"),
                Pickup::Nothing => self.noticed.recv_timeout(PATIENCE).unwrap(),
                Pickup::End => return true,
            }
        }
    }
}

fn offer(content: &[u8]) -> Offer {
    let modified = Mtime { seconds: 1_000_000_000, nanos: 0 };
    Offer { size: content.len() as u64, modified, mode: 0o644 }
}

/// Offers the file `file` of this content.
fn put_many(content: &[u8], sole: bool, name_within: Option<&str>) -> Message {
    let files = vec![FileEntry::new(path("file"), offer(content))];
    Message::PutMany {
        base: WirePath::root(),
        groups: vec![Group { files, ..Group::default() }],
        checksum: false,
        policy: Policy::default(),
        sole,
        name_within: name_within.map(|name| Box::new(path(name))),
        brief: true,
        ahead: false,
    }
}

#[test]
fn what_makes_way_for_directories_is_told_before_any_content_is_asked_for() {
    let served = tempfile::tempdir().unwrap();
    std::fs::write(served.path().join("directory"), "in the way").unwrap();
    let files = vec![FileEntry::new(path("file"), offer(b"content"))];
    let group = Group { files, ..Group::new(path("directory"), vec![0o755]) };
    let mut message = put_many(b"", false, None);
    if let Message::PutMany { groups, policy, .. } = &mut message {
        *groups = vec![group];
        policy.make_way = true;
    }
    let mut request = Request::begin(served.path(), message);
    let Message::Removed { paths, others: 0 } = request.hear() else { panic!() };
    assert_eq!(paths, ["directory"]);
    let Message::Wanted { files, .. } = request.hear() else { panic!() };
    assert_eq!(files, [0]);
}

/// The content of a file of [`begin_with_one_in_the_way`].
fn bundle(file: u32) -> Message {
    let (offer, digest, bytes) = (offer(b"content"), Digest::of(b"content"), b"content");
    let mut bundle = Bundle::default();
    bundle.push(&Record { file, content: Some(Content { offer, digest, bytes }) });
    bundle.take().unwrap()
}

/// Offers files of these names, for the first of which a directory makes way, until they are wanted.
fn begin_with_one_in_the_way(served: &Path, names: &[&str], version: usize) -> Request {
    std::fs::create_dir_all(served.join(names[0]).join("inside")).unwrap();
    let files: Vec<_> =
        names.iter().map(|name| FileEntry::new(path(name), offer(b"content"))).collect();
    let mut message = put_many(b"", false, None);
    if let Message::PutMany { groups, policy, .. } = &mut message {
        *groups = vec![Group { files, ..Group::default() }];
        policy.make_way = true;
    }
    let mut request = Request::of_version(served, message, version);
    let Message::Wanted { files, .. } = request.hear() else { panic!() };
    assert_eq!(files.len(), names.len());
    request
}

/// Waits until a file is in place.
fn wait_for(file: &Path) {
    let deadline = std::time::Instant::now() + PATIENCE;
    while !file.is_file() {
        assert!(std::time::Instant::now() < deadline);
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn what_makes_way_for_a_file_is_told_while_others_are_still_to_come() {
    let served = tempfile::tempdir().unwrap();
    let mut request =
        begin_with_one_in_the_way(served.path(), &["one", "two"], *VERSIONS.end());
    request.say(bundle(0));
    wait_for(&served.path().join("one"));
    request.say(bundle(1));
    let Message::Removed { paths, others: 0 } = request.hear() else { panic!() };
    assert_eq!(paths, ["one/inside", "one"]);
    request.say(Message::EndOfBundles);
    assert_eq!(request.hear(), Message::Stored);
}

#[test]
fn files_that_wait_while_it_is_told_what_makes_way_are_all_taken() {
    for version in [TELLS_EARLY - 1, TELLS_EARLY] {
        let served = tempfile::tempdir().unwrap();
        let names = ["one", "two", "three", "four"];
        let mut request = begin_with_one_in_the_way(served.path(), &names, version);
        request.say(bundle(0));
        wait_for(&served.path().join("one"));
        for file in 1..4 {
            request.say(bundle(file));
        }
        request.say(Message::EndOfBundles);
        let Message::Removed { paths, others: 0 } = request.hear() else { panic!() };
        assert_eq!(paths, ["one/inside", "one"]);
        assert_eq!(request.hear(), Message::Stored);
        for name in names {
            assert_eq!(std::fs::read(served.path().join(name)).unwrap(), b"content");
        }
    }
}

#[test]
fn a_sole_large_file_takes_one_answer_and_no_further_request() {
    let served = tempfile::tempdir().unwrap();
    let content = vec![7; 300_000];
    let mut request = Request::begin(served.path(), put_many(&content, true, None));
    let Message::Wanted { files, resume: Some(resume), within: false, .. } = request.hear()
    else {
        panic!("the content is not wanted at once");
    };
    assert_eq!((files, resume.part, resume.whole), (vec![0], None, None));
    request.say(Message::Start { offset: 0 });
    let mut hasher = Hasher::default();
    hasher.update(&content);
    for piece in content.chunks(64 * 1024) {
        request.say(Message::Data(piece.to_vec()));
    }
    request.say(Message::End { digest: hasher.digest() });
    assert_eq!(request.hear(), Message::Stored);
    assert_eq!(std::fs::read(served.path().join("file")).unwrap(), content);
    // What is there already is not wanted.
    let mut again = Request::begin(served.path(), put_many(&content, true, None));
    let Message::Wanted { files, resume: None, .. } = again.hear() else {
        panic!("the content is wanted again");
    };
    assert!(files.is_empty(), "{files:?}");
    assert!(again.has_ended(), "nothing has to be said of nothing");
}

#[test]
fn a_file_that_is_fetched_for_the_first_time_follows_its_listing() {
    let served = tempfile::tempdir().unwrap();
    std::fs::write(served.path().join("file"), "content").unwrap();
    std::fs::create_dir(served.path().join("directory")).unwrap();
    let begin = |name: &str| {
        let path = path(name);
        Request::begin(
            served.path(),
            Message::List { path, depth: None, links: false, content: true },
        )
    };
    let mut request = begin("file");
    assert_eq!(request.hear(), Message::Entry { kind: EntryKind::File { size: 7 } });
    assert_eq!(request.hear(), Message::EndOfList);
    assert!(matches!(request.hear(), Message::Offer(Offer { size: 7, .. })));
    assert_eq!(request.hear(), Message::Start { offset: 0 });
    assert_eq!(request.hear(), Message::Data(b"content".to_vec()));
    assert_eq!(request.hear(), Message::End { digest: Digest::of(b"content") });
    request.say(Message::Stored);
    assert!(request.has_ended());
    let mut request = begin("directory");
    assert!(matches!(request.hear(), Message::Entry { kind: EntryKind::Directory { .. } }));
    assert!(matches!(request.hear(), Message::Manifest(_)));
    assert_eq!(request.hear(), Message::EndOfList);
    assert!(request.has_ended(), "a directory has no content");
}

#[test]
fn a_file_has_arrived_if_the_client_leaves_with_everything() {
    for has_all in [true, false] {
        let served = tempfile::tempdir().unwrap();
        std::fs::write(served.path().join("file"), "content").unwrap();
        let get = Message::Get { path: path("file"), resume: Resume::default() };
        let mut request = Request::begin(served.path(), get);
        while !matches!(request.hear(), Message::End { .. }) {}
        request.client_has_all.store(has_all, Ordering::Release);
        drop(request.stream);
        assert_eq!(request.reports.recv_timeout(PATIENCE), Ok(has_all));
    }
}

#[test]
fn earlier_clients_ask_for_a_large_file_once_more() {
    let served = tempfile::tempdir().unwrap();
    let mut request = Request::begin(served.path(), put_many(&vec![7; 300_000], false, None));
    let Message::Wanted { files, resume: None, .. } = request.hear() else {
        panic!("the content would follow on a stream that nothing follows on");
    };
    assert_eq!(files, [0]);
}

#[test]
fn holes_are_sent_to_clients_that_know_them() {
    let served = tempfile::tempdir().unwrap();
    std::fs::File::create(served.path().join("file")).unwrap().set_len(300_000).unwrap();
    for version in [HOLES - 1, HOLES] {
        let get = Message::Get { path: path("file"), resume: Resume::default() };
        let mut request = Request::of_version(served.path(), get, version);
        assert!(matches!(request.hear(), Message::Offer(Offer { size: 300_000, .. })));
        assert_eq!(request.hear(), Message::Start { offset: 0 });
        let first = request.hear();
        let is_hole = first == Message::Hole { bytes: 300_000 };
        assert_eq!(is_hole, version == HOLES, "{version}");
        assert!(is_hole || matches!(first, Message::Data(_)));
    }
}

/// Offers a file under a new name, with its others, and tells what is wanted of it.
fn put_new_name(served: &Path, others: &[&str], policy: Policy) -> (Vec<u32>, Vec<(u32, u32)>) {
    let names = others.iter().map(|name| path(name));
    let file = FileEntry::new(path("new"), offer(b"content")).with_inode(Some(7));
    let mut group = Group::new(path("directory"), vec![0o700]);
    group.add(file.with_names(names));
    let mut request = Request::begin(
        served,
        Message::PutMany {
            base: WirePath::root(),
            groups: vec![group],
            checksum: false,
            policy,
            sole: false,
            name_within: None,
            brief: true,
            ahead: false,
        },
    );
    let mut elsewhere = Vec::new();
    loop {
        match request.hear() {
            Message::Elsewhere(files) => elsewhere = files,
            Message::Wanted { files, .. } => break (files, elsewhere),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_server_says_under_which_of_its_names_it_has_a_file() {
    let served = tempfile::tempdir().unwrap();
    let preserve = || Policy { preserve: true, ..Policy::default() };
    let others = ["missing/a", "deep/other", "deep/one"];
    assert_eq!(put_new_name(served.path(), &others, preserve()), (vec![0], vec![]));
    assert!(!served.path().join("missing").exists(), "nothing is made for a question");
    std::fs::create_dir(served.path().join("deep")).unwrap();
    for (name, content, seconds) in
        [("other", "CONTENT", 1_000_000_001), ("one", "content", 1_000_000_000)]
    {
        let path = served.path().join("deep").join(name);
        std::fs::write(&path, content).unwrap();
        let time = std::time::UNIX_EPOCH + Duration::from_secs(seconds);
        std::fs::File::open(&path).unwrap().set_modified(time).unwrap();
    }
    assert_eq!(put_new_name(served.path(), &others, preserve()), (vec![], vec![(0, 2)]));
    // No link leads out, and none counts as the file.
    let out = served.path().join("out");
    std::os::unix::fs::symlink("deep/one", &out).unwrap();
    assert_eq!(put_new_name(served.path(), &["out"], preserve()), (vec![0], vec![]));
}

#[test]
fn small_files_may_come_ahead_of_the_answer_and_what_is_there_stays() {
    let served = tempfile::tempdir().unwrap();
    let contents: [&[u8]; 3] = [b"zero", b"one", b"two"];
    let files = contents
        .iter()
        .zip(0..)
        .map(|(content, n)| FileEntry::new(path(&format!("file{n}")), offer(content)));
    let offered = |ahead| Message::PutMany {
        base: WirePath::root(),
        groups: vec![Group { files: files.clone().collect(), ..Group::default() }],
        checksum: false,
        policy: Policy { ignore_existing: true, ..Policy::default() },
        sole: false,
        name_within: None,
        brief: true,
        ahead,
    };
    std::fs::write(served.path().join("file1"), "old").unwrap();
    for wanted in [vec![0, 2], vec![]] {
        let mut request = Request::begin(served.path(), offered(true));
        for (content, file) in contents.iter().zip(0..) {
            let (offer, digest) = (offer(content), Digest::of(content));
            let content = Some(Content { offer, digest, bytes: content });
            let mut bundle = Bundle::default();
            bundle.push(&Record { file, content });
            request.say(bundle.take().unwrap());
        }
        request.say(Message::EndOfBundles);
        let Message::Wanted { files, .. } = request.hear() else { panic!("no answer") };
        assert_eq!(files, wanted);
        assert_eq!(request.hear(), Message::Stored);
        assert!(request.has_ended());
        for (name, content) in [("file0", "zero"), ("file1", "old"), ("file2", "two")] {
            assert_eq!(std::fs::read(served.path().join(name)).unwrap(), content.as_bytes());
        }
    }
    let mut request = Request::begin(served.path(), offered(false));
    assert!(matches!(request.hear(), Message::Wanted { .. }));
    assert!(request.has_ended(), "whoever waits for the answer need not say anything more");
}

#[test]
fn a_client_is_not_told_what_it_could_not_send() {
    let served = tempfile::tempdir().unwrap();
    let mut request = Request::begin(served.path(), put_many(b"content", false, None));
    assert!(matches!(request.hear(), Message::Wanted { .. }));
    let fail = Fail { code: FailCode::Io, text: "Permission denied".to_owned() };
    request.say(Message::Fault { file: 0, fail });
    request.say(Message::EndOfBundles);
    assert_eq!(request.hear(), Message::Stored);
    assert!(request.has_ended());
    assert!(!served.path().join("file").exists());
}

#[test]
fn the_only_file_goes_into_a_directory_that_has_its_path() {
    let served = tempfile::tempdir().unwrap();
    let root = Root::open(served.path()).unwrap();
    let within = |name: Option<&str>| {
        let message = put_many(b"small", true, name);
        let Message::Wanted { files, within, .. } =
            Request::begin(served.path(), message).hear()
        else {
            panic!("not wanted");
        };
        (files, within)
    };
    assert_eq!(within(Some("other")), (vec![0], false));
    std::fs::create_dir(served.path().join("file")).unwrap();
    assert_eq!(within(Some("other")), (vec![0], true));
    let taken = served.path().join("file/other");
    std::fs::write(&taken, "small").unwrap();
    let Offer { modified, .. } = offer(b"");
    let times = std::fs::FileTimes::new()
        .set_modified(std::time::UNIX_EPOCH + Duration::from_secs(modified.seconds as u64));
    std::fs::File::options().write(true).open(&taken).unwrap().set_times(times).unwrap();
    assert_eq!(within(Some("other")), (vec![], true), "it is there already");
    assert!(matches!(root.kind(&path("file")), Ok(EntryKind::Directory { .. })));
}
