//! What another program can do with the library: serve, fetch, send, resume, list, over the loopback interface.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::io::Cursor;
use std::net::{SocketAddr, UdpSocket};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rand::{Rng, SeedableRng};
use tack_transfer::{
    Client, ConnectOptions, Error, Event, Fail, FailCode, Feature, Fingerprint, Get, Identity,
    Listed, ListedKind, Place, Root, RunningServer, Server, ServerAddress, ServerOptions,
    Source, Summary, TransferError, TransferOptions, Trust, WirePath,
};

const TOKEN: &str = "token of the test";

/// A server of a directory, and a directory beside it.
struct Served {
    scratch: tempfile::TempDir,
    server: RunningServer,
    fingerprint: Fingerprint,
}

impl Served {
    fn new(change: impl FnOnce(&mut ServerOptions)) -> Self {
        let scratch = tempfile::tempdir().unwrap();
        fs::create_dir(scratch.path().join("shared")).unwrap();
        fs::create_dir(scratch.path().join("here")).unwrap();
        let identity = Identity::in_directory(&scratch.path().join("identity")).unwrap();
        let fingerprint = identity.fingerprint;
        let root = Root::open(&scratch.path().join("shared")).unwrap();
        let listen = "127.0.0.1:0".parse().unwrap();
        let mut options = ServerOptions::new(listen, root, identity, Some(TOKEN.to_owned()));
        change(&mut options);
        Self { server: Server::new(options).unwrap().start(), scratch, fingerprint }
    }

    fn writable() -> Self {
        Self::new(|options| options.read_only = false)
    }

    fn shared(&self, name: &str) -> PathBuf {
        self.scratch.path().join("shared").join(name)
    }

    fn here(&self, name: &str) -> PathBuf {
        self.scratch.path().join("here").join(name)
    }

    fn address(&self) -> ServerAddress {
        self.server.local_addr().into()
    }

    fn client(&self) -> Client {
        let options = ConnectOptions::new(Trust::Pinned(self.fingerprint)).with_token(TOKEN);
        Client::connect(&self.address(), options).unwrap()
    }
}

fn path(text: &str) -> WirePath {
    WirePath::new(text).unwrap()
}

fn noise(length: usize, seed: u64) -> Vec<u8> {
    let mut bytes = vec![0; length];
    rand_pcg::Pcg64::seed_from_u64(seed).fill_bytes(&mut bytes);
    bytes
}

fn write_tree(at: &Path) {
    fs::create_dir_all(at.join("sub/empty")).unwrap();
    for (name, length) in [("small", 100), ("sub/large", 700_000), ("sub/none", 0)] {
        fs::write(at.join(name), noise(length, length as u64)).unwrap();
    }
}

fn assert_tree(at: &Path) {
    for (name, length) in [("small", 100), ("sub/large", 700_000), ("sub/none", 0)] {
        assert!(fs::read(at.join(name)).unwrap() == noise(length, length as u64), "{name}");
    }
    assert!(at.join("sub/empty").is_dir());
}

fn get(client: &mut Client, wanted: Get) -> Result<Summary, Error> {
    client.get(vec![wanted], &TransferOptions::default(), &mut |_| {})
}

#[test]
fn trees_go_both_ways_over_one_connection_and_are_found_equal_the_second_time() {
    let served = Served::writable();
    write_tree(&served.here("tree"));
    let (mut client, options) = (served.client(), TransferOptions::default());
    let sources = || vec![Source::open(&served.here("tree")).unwrap()];
    let place = Place::Into(path("in"));
    let summary = client.send(sources(), &place, &options, &mut |_| {}).unwrap();
    assert_eq!((summary.files, summary.equal, summary.bytes), (3, 0, 700_100));
    assert_tree(&served.shared("in/tree"));

    let wanted = || Get::new(path("in/tree"), served.here("back")).recursive();
    assert_eq!(get(&mut client, wanted()).unwrap().moved, 700_100);
    assert_tree(&served.here("back"));
    let again = client.send(sources(), &place, &options, &mut |_| {}).unwrap();
    assert_eq!((again.files, again.equal, again.moved), (3, 3, 0));
    assert_eq!(get(&mut client, wanted()).unwrap().equal, 3);
    assert!(client.close().packets_sent > 0);
    served.server.stop().unwrap();
}

#[test]
fn nothing_is_deleted_from_a_protected_directory_whatever_leads_there() {
    let served = Served::new(|_| {});
    write_tree(&served.shared("tree"));
    fs::create_dir(served.here("home")).unwrap();
    fs::write(served.here("home/mine"), "mine").unwrap();
    let home = fs::metadata(served.here("home")).unwrap();
    std::os::unix::fs::symlink("home", served.here("link")).unwrap();
    for (dest, dry_run) in
        [("home", false), ("home/.", true), ("link", false), ("link/../home", true)]
    {
        let mut options = TransferOptions::default();
        (options.delete, options.dry_run) = (true, dry_run);
        options.protected.push((home.dev(), home.ino()));
        let wanted = Get::new(path("tree"), served.here(dest)).recursive();
        let ended = served.client().get(vec![wanted], &options, &mut |_| {});
        assert!(matches!(ended, Err(Error::Invalid(_))), "{dest}: {ended:?}");
        assert_eq!(fs::read_dir(served.here("home")).unwrap().count(), 1, "{dest}");
    }
}

#[test]
fn each_file_is_told_with_its_digest_while_the_operation_runs() {
    let served = Served::new(|_| {});
    fs::write(served.shared("file"), "content").unwrap();
    let (mut told, mut progress) = (Vec::new(), 0);
    let wanted = vec![Get::new(path("file"), served.here("copy"))];
    let mut client = served.client();
    client
        .get(wanted, &TransferOptions::default(), &mut |event| match event {
            Event::File { path, outcome } => told.push((path.to_owned(), outcome.digest)),
            Event::Progress(reached) => progress = reached.moved(),
            other => panic!("{other:?}"),
        })
        .unwrap();
    let digest = tack_transfer::Digest::of(b"content");
    assert_eq!(told, [("file".to_owned(), Some(digest))]);
    assert_eq!(progress, 7);
}

#[test]
fn what_has_failed_is_named_and_all_else_is_in_place() {
    let served = Served::new(|_| {});
    fs::write(served.shared("there"), "content").unwrap();
    let mut client = served.client();
    let wanted =
        ["missing", "there"].map(|name| Get::new(path(name), served.here(name))).into();
    let ended = client.get(wanted, &TransferOptions::default(), &mut |_| {});
    let Err(Error::Incomplete(summary)) = ended else { panic!("{ended:?}") };
    assert_eq!((summary.files, summary.failed), (1, 1));
    assert_eq!(summary.failures[0].path, "missing");
    let error = &summary.failures[0].error;
    assert!(matches!(error, TransferError::Remote(Fail { code: FailCode::NotFound, .. })));
    assert_eq!(fs::read(served.here("there")).unwrap(), b"content");
    // The connection is still good.
    assert!(get(&mut client, Get::new(path("there"), served.here("again"))).is_ok());
}

#[test]
fn a_read_only_server_takes_nothing() {
    let served = Served::new(|_| {});
    fs::write(served.here("file"), "content").unwrap();
    let sources = vec![Source::open(&served.here("file")).unwrap()];
    let place = Place::As(path("file"));
    let ended = served.client().send(sources, &place, &TransferOptions::default(), &mut |_| {});
    let Err(Error::Incomplete(summary)) = ended else { panic!("{ended:?}") };
    let error = &summary.failures[0].error;
    assert!(matches!(error, TransferError::Remote(Fail { code: FailCode::Refused, .. })));
    assert!(!served.shared("file").exists());
}

#[test]
fn a_directory_is_not_fetched_where_a_file_was_expected() {
    let served = Served::new(|_| {});
    write_tree(&served.shared("tree"));
    let ended = get(&mut served.client(), Get::new(path("tree"), served.here("tree")));
    assert!(matches!(ended, Err(Error::Directory(directory)) if directory == path("tree")));
    assert!(!served.here("tree").exists());
}

#[test]
fn wrong_servers_and_wrong_tokens_are_told_apart() {
    let served = Served::new(|_| {});
    let connect = |trust| {
        Client::connect(&served.address(), ConnectOptions::new(trust).with_token("wrong"))
    };
    let wrong = Fingerprint::of(b"another certificate");
    let error = connect(Trust::Pinned(wrong)).err().unwrap();
    assert!(matches!(error, Error::WrongFingerprint { expected, actual }
        if expected == wrong && actual == served.fingerprint));
    let error = connect(Trust::Asked).err().unwrap();
    assert!(matches!(error, Error::UnknownServer(told) if told == served.fingerprint));
    let mut client = connect(Trust::Pinned(served.fingerprint)).unwrap();
    assert_eq!(client.fingerprint(), Some(served.fingerprint));
    let ended = get(&mut client, Get::new(path("file"), served.here("file")));
    assert!(matches!(ended, Err(Error::WrongToken)), "{ended:?}");
}

#[test]
fn an_operation_that_is_stopped_is_resumed_by_the_same_one() {
    const SIZE: usize = 2_000_000;
    let served = Served::new(|_| {});
    fs::write(served.shared("file"), noise(SIZE, 1)).unwrap();
    let wanted = || vec![Get::new(path("file"), served.here("file"))];
    let mut options = TransferOptions::default();
    let stop = Arc::new(AtomicBool::new(false));
    options.stop = Some(Arc::clone(&stop));
    options.write_limit = Some(1_000_000);
    let ended = served.client().get(wanted(), &options, &mut |event| {
        if matches!(event, Event::Progress(progress) if progress.moved() > 300_000) {
            stop.store(true, Ordering::Relaxed);
        }
    });
    assert!(matches!(ended, Err(Error::Interrupted)), "{ended:?}");
    assert!(!served.here("file").exists());
    // The worker of the operation that was stopped lets go of the file when its write is done.
    let deadline = Instant::now() + Duration::from_secs(20);
    let summary = loop {
        match served.client().get(wanted(), &TransferOptions::default(), &mut |_| {}) {
            Err(Error::Incomplete(_)) if Instant::now() < deadline => {
                std::thread::sleep(Duration::from_millis(50));
            }
            ended => break ended.unwrap(),
        }
    };
    assert!(summary.resumed > 0 && summary.moved < SIZE as u64, "{summary:?}");
    assert!(fs::read(served.here("file")).unwrap() == noise(SIZE, 1));
}

#[test]
fn a_lost_server_is_an_error_that_may_pass() {
    let served = Served::new(|_| {});
    let mut client = served.client();
    let wanted = Get::new(path("file"), served.here("file"));
    served.server.stop().unwrap();
    let error = get(&mut client, wanted).unwrap_err();
    assert!(error.may_pass(), "{error}");
}

/// Passes datagrams between one client and a server; the address for the client, and what ends it.
fn relay_to(server: SocketAddr) -> (SocketAddr, Arc<AtomicBool>) {
    let (front, back) =
        (UdpSocket::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
    back.connect(server).unwrap();
    let (address, ends) = (front.local_addr().unwrap(), Arc::<AtomicBool>::default());
    let is_over = Arc::clone(&ends);
    std::thread::spawn(move || {
        let (mut client, mut datagram) = (None, [0; 2048]);
        for socket in [&front, &back] {
            socket.set_nonblocking(true).unwrap();
        }
        while !is_over.load(Ordering::Relaxed) {
            while let Ok((len, from)) = front.recv_from(&mut datagram) {
                client = Some(from);
                let _ = back.send(&datagram[..len]);
            }
            while let Ok(len) = back.recv(&mut datagram) {
                client.map(|client| front.send_to(&datagram[..len], client));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        // Nothing answers there, and nothing refuses.
        std::thread::sleep(Duration::from_secs(30));
    });
    (address, ends)
}

#[test]
fn a_server_that_falls_silent_at_one_of_its_addresses_is_tried_at_the_others() {
    let served = Served::new(|_| {});
    let content = noise(10_000_000, 1);
    fs::write(served.shared("file"), &content).unwrap();
    let relays = [relay_to(served.server.local_addr()), relay_to(served.server.local_addr())];
    let addresses = relays.iter().map(|(address, _)| *address).collect();
    let server = ServerAddress::new("both", 1).at(addresses);
    let connect = || {
        let mut options =
            ConnectOptions::new(Trust::Pinned(served.fingerprint)).with_token(TOKEN);
        options.rate = Some(5_000_000);
        Client::connect(&server, options).unwrap()
    };
    let mut options = TransferOptions::default();
    options.attempts = Some(Arc::default());
    let fetch = |client: &mut Client| {
        let wanted = Get::new(path("file"), served.here("copy"));
        client.get(vec![wanted], &options, &mut |event| {
            if matches!(event, Event::Progress { .. }) {
                relays[0].1.store(true, Ordering::Relaxed);
            }
        })
    };
    let lost = fetch(&mut connect()).unwrap_err();
    assert!(lost.may_pass() && lost.to_string().contains("other addresses"), "{lost}");
    fetch(&mut connect()).unwrap();
    assert!(fs::read(served.here("copy")).unwrap() == content);
}

#[test]
fn a_dry_run_changes_nothing_and_tells_what_it_would() {
    let served = Served::writable();
    write_tree(&served.here("tree"));
    let mut options = TransferOptions::default();
    options.dry_run = true;
    let sources = vec![Source::open(&served.here("tree")).unwrap()];
    let mut planned = Vec::new();
    let summary = served
        .client()
        .send(sources, &Place::Into(WirePath::root()), &options, &mut |event| {
            if let Event::Planned { path, .. } = event {
                planned.push(path.to_owned());
            }
        })
        .unwrap();
    planned.sort();
    assert_eq!(planned, ["tree/small", "tree/sub/large", "tree/sub/none"]);
    assert_eq!((summary.planned, summary.files), (3, 0));
    assert_eq!(fs::read_dir(served.shared("")).unwrap().count(), 0);
}

#[test]
fn what_comes_from_a_reader_becomes_a_file() {
    let served = Served::writable();
    let input = Cursor::new(noise(300_000, 2));
    let (mut client, options) = (served.client(), TransferOptions::default());
    client.send_stream(input, &path("out"), &options, &mut |_| {}).unwrap();
    assert!(fs::read(served.shared("out")).unwrap() == noise(300_000, 2));
    let mut options = TransferOptions::default();
    options.delete = true;
    let refused = client.send_stream(Cursor::new([]), &path("out"), &options, &mut |_| {});
    assert!(matches!(refused, Err(Error::Invalid(_))), "{refused:?}");
}

#[test]
fn a_listing_tells_files_and_directories_and_ends_when_its_reader_has_enough() {
    let served = Served::new(|_| {});
    write_tree(&served.shared(""));
    let listed = |recursive| {
        let names = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&names);
        served
            .client()
            .list(&WirePath::root(), recursive, None, move |entries| {
                for entry in entries {
                    let Listed::Entry { path, kind, mode } = entry else { panic!("{entry:?}") };
                    assert!(mode.is_some());
                    let size = match kind {
                        ListedKind::File { size, .. } => Some(*size),
                        _ => None,
                    };
                    kept.lock().unwrap().push((path.to_string(), size));
                }
                Ok(())
            })
            .unwrap();
        let mut names = names.lock().unwrap().clone();
        names.sort();
        names
    };
    let top = [("small".to_owned(), Some(100)), ("sub".to_owned(), None)];
    assert_eq!(listed(false), top);
    assert_eq!(listed(true).len(), 5);
    let broken = |_: &[Listed]| Err(std::io::ErrorKind::BrokenPipe.into());
    let ended = served.client().list(&WirePath::root(), true, None, broken);
    assert!(matches!(ended, Err(Error::Output(_))), "{ended:?}");
}

#[test]
fn the_server_tells_each_request_and_who_is_satisfied() {
    let told = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&told);
    let served = Served::new(move |options| {
        options.report = Box::new(move |event| {
            let is_good = event.result.is_ok();
            kept.lock().unwrap().push((event.action.name(), event.path.to_string(), is_good));
        });
    });
    fs::write(served.shared("file"), "content").unwrap();
    let mut client = served.client();
    get(&mut client, Get::new(path("file"), served.here("file"))).unwrap();
    client.close();
    served.server.stop().unwrap();
    assert!(told.lock().unwrap().contains(&("get", "file".to_owned(), true)));
}

#[test]
fn what_only_the_current_version_knows_is_named() {
    let error = Error::TooOld { server: "host:1".to_owned(), feature: Feature::Delete };
    assert!(error.to_string().contains("delete"), "{error}");
}

#[test]
fn attributes_are_asked_for_together_with_preserve_alone() {
    let served = Served::new(|_| {});
    let mut options = TransferOptions::default();
    options.owner = true;
    let wanted = vec![Get::new(path("file"), served.here("file"))];
    let ended = served.client().get(wanted, &options, &mut |_| {});
    assert!(matches!(ended, Err(Error::Invalid(_))), "{ended:?}");
}

#[test]
fn directories_that_lead_to_the_same_place_do_not_lose_what_the_other_one_has() {
    let served = Served::new(|_| {});
    for name in ["one", "two"] {
        fs::create_dir(served.shared(name)).unwrap();
        fs::write(served.shared(name).join(name), "content").unwrap();
        fs::create_dir(served.here(name)).unwrap();
        fs::write(served.here(name).join("gone"), "extraneous").unwrap();
    }
    let mut options = TransferOptions::default();
    options.delete = true;
    let wanted = || {
        let wanted = |name| Get::new(path(name), served.here("")).recursive().under_own_name();
        ["one", "two"].map(wanted).into()
    };
    let done = served.client().get(wanted(), &options, &mut |_| {}).unwrap();
    assert_eq!((done.files, done.deleted), (2, 2));
    // As where upper and lower case are the same.
    fs::remove_dir_all(served.here("two")).unwrap();
    std::os::unix::fs::symlink("one", served.here("two")).unwrap();
    let ended = served.client().get(wanted(), &options, &mut |_| {});
    assert!(matches!(ended, Err(Error::Invalid(_))), "{ended:?}");
    assert!(served.here("one/one").exists());
    options.delete = false;
    assert_eq!(served.client().get(wanted(), &options, &mut |_| {}).unwrap().failed, 0);
    assert!(served.here("one/one").exists() && served.here("one/two").exists());
}
