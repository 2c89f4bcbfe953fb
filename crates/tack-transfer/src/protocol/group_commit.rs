//! Makes many files durable at once.
//!
//! The content of a file has to be on disk before the file takes its final name, or a crash could
//! leave a wrong file under the right name. Waiting for the disk costs the same for one small
//! file as for hundreds, so one thread commits together whatever has arrived while it was busy
//! with the files before.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, SendError, Sender, SyncSender};
use std::thread;

use super::part_file::PartFile;
use super::wire::Offer;

/// Files that are committed together at most; as many may wait. Each is an open file.
const MAX_GROUP: usize = 128;
/// Part of the files that the process may open that is committed together at most.
const SHARE: u64 = 8;
/// Files that are synchronised at the same time: a journalling file system commits what all of
/// them wait for at once.
const AT_ONCE: usize = 16;

/// Where finished files are handed in. The thread ends with the last clone.
#[derive(Clone, Debug)]
pub struct GroupCommit {
    queue: SyncSender<Finished>,
}

#[derive(Debug)]
struct Finished {
    part: PartFile,
    offer: Offer,
    file: u32,
    done: Sender<(u32, io::Result<()>)>,
}

impl GroupCommit {
    /// Starts the thread. Where the system has none to spare, whoever hands in a file commits it.
    pub fn start() -> Self {
        let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
        let share = limit.map_or(MAX_GROUP, |limit| (limit / SHARE) as usize);
        let most = share.clamp(1, MAX_GROUP);
        let (queue, finished) = mpsc::sync_channel(most);
        let started = thread::Builder::new().spawn(move || run(&finished, most));
        if let Err(error) = started {
            log::warn!(
                "files are committed one by one, because no thread can be started: {error}"
            );
        }
        Self { queue }
    }

    /// Takes files and drops them, as a thread does that panics.
    #[cfg(test)]
    pub(crate) fn failing() -> Self {
        let (queue, finished) = mpsc::sync_channel(MAX_GROUP);
        thread::spawn(move || finished.iter().for_each(drop));
        Self { queue }
    }

    /// Has no thread, as where the system has none to spare.
    #[cfg(test)]
    pub(crate) fn without_thread() -> Self {
        Self { queue: mpsc::sync_channel(MAX_GROUP).0 }
    }

    /// Hands in a file whose content is complete and verified; waits while too many are waiting.
    /// `done` hears its number and whether it is in place; it hears nothing if the thread panics.
    pub fn submit(
        &self,
        part: PartFile,
        offer: Offer,
        file: u32,
        done: &Sender<(u32, io::Result<()>)>,
    ) {
        let finished = Finished { part, offer, file, done: done.clone() };
        if let Err(SendError(finished)) = self.queue.send(finished) {
            commit(vec![finished]);
        }
    }
}

fn run(finished: &Receiver<Finished>, most: usize) {
    while let Ok(first) = finished.recv() {
        let mut group = vec![first];
        group.extend(finished.try_iter().take(most - 1));
        commit(group);
    }
}

fn commit(group: Vec<Finished>) {
    let mut ready = Vec::with_capacity(group.len());
    for finished in group {
        match finished.part.set_attributes(&finished.offer) {
            Ok(()) => ready.push(finished),
            Err(error) => finished.tell(Err(error)),
        }
    }
    let ready = only_synced(ready);
    let mut named = Vec::with_capacity(ready.len());
    let mut directories: HashMap<(u64, u64), Arc<OwnedFd>> = HashMap::new();
    for finished in ready {
        match finished.part.take_final_name() {
            Ok(()) => {
                let directory = finished.part.directory();
                if let Ok(stat) = rustix::fs::fstat(&directory) {
                    directories.insert((stat.st_dev, stat.st_ino), Arc::clone(&directory));
                }
                named.push(finished);
            }
            Err(error) => finished.tell(Err(error)),
        }
    }
    let directories: Vec<_> = directories.into_values().collect();
    // The names are on disk once the directories are. Should that fail, the files are in place
    // all the same; a crash can at worst bring back what was there before.
    for error in sync_each(&directories).into_iter().filter_map(Result::err) {
        log::warn!("synchronising a directory failed: {error}");
    }
    for finished in named {
        finished.tell(Ok(()));
    }
}

/// Writes the content of all files to disk; those that failed are told so and left out.
fn only_synced(group: Vec<Finished>) -> Vec<Finished> {
    let files: Vec<_> = group.iter().map(|finished| finished.part.file()).collect();
    begin_writing(&files);
    let results = sync_each(&files);
    let mut synced = Vec::new();
    for (mut finished, result) in group.into_iter().zip(results) {
        match result {
            Ok(()) => synced.push(finished),
            Err(error) => {
                finished.part.throw_away();
                finished.tell(Err(error));
            }
        }
    }
    synced
}

/// Has the kernel write the content of all files, and waits for none of them. A journalling file system commits what
/// has been written so far: without this, the first file that is waited for is committed alone, and so on.
fn begin_writing(files: &[impl AsFd]) {
    for file in files {
        // What is not needed any more is written at once, and only what is on disk is forgotten. A file system
        // without advice is as slow as it is.
        let _ = rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::DontNeed);
    }
}

/// Waits until `files` are on disk, and says of each whether it is. Each is synchronised once: the system tells an
/// error of writing only once, and a second attempt would succeed whatever is on disk. The whole file system
/// (`syncfs`) would be faster on a machine that does nothing else, but waits for everything that others write.
fn sync_each(files: &[impl AsFd + Sync]) -> Vec<io::Result<()>> {
    let share = files.len().div_ceil(AT_ONCE).max(1);
    let sync = |files: &[_]| -> Vec<_> {
        files.iter().map(|file| Ok(rustix::fs::fsync(file)?)).collect()
    };
    thread::scope(|scope| {
        let (first, others) = files.split_at(share.min(files.len()));
        let spawn = |share| thread::Builder::new().spawn_scoped(scope, move || sync(share));
        let others: Vec<_> =
            others.chunks(share).map(|share| (share, spawn(share).ok())).collect();
        let mut results = sync(first);
        for (share, other) in others {
            let failed = |_| share.iter().map(|_| Err(rustix::io::Errno::IO.into())).collect();
            results.append(&mut match other {
                Some(other) => other.join().unwrap_or_else(failed),
                // The system has no thread to spare.
                None => sync(share),
            });
        }
        results
    })
}

impl Finished {
    fn tell(self, result: io::Result<()>) {
        let Self { part, file, done, .. } = self;
        // Unlocked first, so that the next transfer into the same name finds it free.
        drop(part);
        // Whoever has given up needs no answer.
        let _ = done.send((file, result));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::{Mtime, Root, Store, WirePath};

    #[test]
    fn files_that_are_handed_in_together_all_take_their_names() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::open(dir.path()).unwrap();
        let commit = GroupCommit::start();
        let (done, results) = mpsc::channel();
        for n in 0..300u32 {
            let path = WirePath::new(format!("{}/{n}", n % 7)).unwrap();
            let mut part = PartFile::open(&root, &path, &Arc::default()).unwrap();
            part.append(&n.to_be_bytes()).unwrap();
            let modified = Mtime { seconds: 5, nanos: 0 };
            commit.submit(part, Offer { size: 4, modified, mode: 0o600 }, n, &done);
        }
        drop(done);
        let mut numbers: Vec<u32> = results
            .iter()
            .map(|(n, result)| {
                result.unwrap();
                n
            })
            .collect();
        numbers.sort_unstable();
        assert!(numbers.into_iter().eq(0..300));
        for n in 0..300u32 {
            let content = std::fs::read(dir.path().join(format!("{}/{n}", n % 7))).unwrap();
            assert_eq!(content, n.to_be_bytes());
        }
        let left = std::fs::read_dir(dir.path().join("0")).unwrap().count();
        assert_eq!(left, 300usize.div_ceil(7));
    }

    #[test]
    fn a_file_that_could_not_be_written_to_disk_takes_no_name_and_holds_up_no_other() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::open(dir.path()).unwrap();
        let (done, results) = mpsc::channel();
        let group = ["good", "bad"].iter().zip(0..).map(|(name, file)| {
            let path = WirePath::new(*name).unwrap();
            let mut part = PartFile::open(&root, &path, &Arc::default()).unwrap();
            part.append(b"content").unwrap();
            if *name == "bad" {
                part.lose_disk();
            }
            let offer = Offer { size: 7, modified: Mtime::default(), mode: 0o600 };
            Finished { part, offer, file, done: done.clone() }
        });
        commit(group.collect());
        let results: Vec<_> = results.try_iter().map(|(n, r)| (n, r.is_ok())).collect();
        assert!(results.contains(&(0, true)) && results.contains(&(1, false)), "{results:?}");
        let names = std::fs::read_dir(dir.path()).unwrap();
        let names: Vec<_> = names.map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["good"], "nothing is left to be resumed");
    }

    #[test]
    fn a_file_that_cannot_take_its_name_does_not_hold_up_the_others() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::open(dir.path()).unwrap();
        let (done, results) = mpsc::channel();
        let group = ["good", "bad"].iter().zip(0..).map(|(name, file)| {
            let part =
                PartFile::open(&root, &WirePath::new(*name).unwrap(), &Arc::default()).unwrap();
            let offer = Offer { size: 0, modified: Mtime::default(), mode: 0o600 };
            Finished { part, offer, file, done: done.clone() }
        });
        let group = group.collect();
        std::fs::create_dir(dir.path().join("bad")).unwrap();
        commit(group);
        let results: Vec<_> = results.try_iter().map(|(n, r)| (n, r.is_ok())).collect();
        assert!(results.contains(&(0, true)) && results.contains(&(1, false)), "{results:?}");
    }
}
