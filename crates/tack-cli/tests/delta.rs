//! Files that changed: only what is new of them crosses the network.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may panic")]

mod common;

use std::fs;
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use common::{Finished, Served, finish, noise, run};

/// Bytes of packets in both directions.
fn on_the_wire(finished: &Finished) -> u64 {
    let transport = &finished.summary["transport"];
    ["bytes_sent", "bytes_received"].map(|name| transport[name].as_u64().unwrap()).iter().sum()
}

#[test]
fn one_changed_byte_in_a_hundred_megabytes_moves_less_than_one() {
    let served = Served::new(&[]);
    let mut content = noise(100_000_000, 1);
    let local = served.outside("file");
    fs::write(&local, &content).unwrap();
    content[70_000_000] ^= 1;
    served.write("file", &content);

    let fetched = served.get("file", &local).expect(0);
    assert!(fs::read(&local).unwrap() == content);
    assert!(on_the_wire(&fetched) < 1_000_000, "{}", fetched.summary);
    let (new, known) = (fetched.number("transferred_bytes"), fetched.number("reused_bytes"));
    assert!(new > 0 && new + known == content.len() as u64, "{}", fetched.summary);

    content[30_000_000] ^= 1;
    fs::write(&local, &content).unwrap();
    let sent = served.send(&local, "file").expect(0);
    assert!(fs::read(served.path("file")).unwrap() == content);
    assert!(on_the_wire(&sent) < 1_000_000, "{}", sent.summary);
    let (new, known) = (sent.number("transferred_bytes"), sent.number("reused_bytes"));
    assert!(new > 0 && new + known == content.len() as u64, "{}", sent.summary);
}

/// Files that are written at about the same time may get the same time of modification.
fn make_older(path: &Path) {
    let file = fs::File::options().write(true).open(path).unwrap();
    file.set_modified(UNIX_EPOCH + Duration::from_secs(1_000_000_000)).unwrap();
}

#[test]
fn what_was_put_in_and_taken_out_is_found_in_files_of_another_length() {
    let served = Served::new(&["--no-token"]);
    let old = noise(4_000_000, 2);
    served.write("tree/file", &old);
    let mut new = old.clone();
    new.drain(500_000..700_000);
    new.splice(2_000_000..2_000_000, noise(50_000, 3));
    fs::create_dir(served.outside("tree")).unwrap();
    fs::write(served.outside("tree/file"), &new).unwrap();

    let sent = served.send(&served.outside("tree"), "").expect(0);
    assert!(fs::read(served.path("tree/file")).unwrap() == new);
    assert!(sent.number("transferred_bytes") < 300_000, "{}", sent.summary);
}

#[test]
fn whole_files_are_sent_where_the_user_wants_that_or_nothing_is_alike() {
    let served = Served::new(&[]);
    let (old, new) = (noise(1_000_000, 1), noise(1_000_000, 2));
    let local = served.outside("file");
    served.write("file", &new);
    fs::write(&local, &old).unwrap();
    make_older(&local);
    let fetched = served.get("file", &local).expect(0);
    assert!(fs::read(&local).unwrap() == new);
    assert_eq!(fetched.number("transferred_bytes"), 1_000_000);

    let mut newer = new;
    newer.push(1);
    fs::write(&local, &newer).unwrap();
    let mut whole = served.client("send");
    let sent = run(whole.arg("--whole-file").arg(&local).arg(served.target("file"))).expect(0);
    assert!(fs::read(served.path("file")).unwrap() == newer);
    assert_eq!(sent.number("transferred_bytes"), 1_000_001);
    assert_eq!(sent.number("reused_bytes"), 0);
}

#[test]
fn what_an_interrupted_update_has_left_is_resumed_and_the_rest_updated() {
    let served = Served::new(&[]);
    let old = noise(8_000_000, 1);
    let mut new = old.clone();
    for at in (0..new.len()).step_by(1_000_000) {
        new[at] ^= 1;
    }
    served.write("file", &new);
    let local = served.outside("file");
    fs::write(&local, &old).unwrap();
    make_older(&local);
    let part = served.outside(".file.tack-part");
    let mut client = served.client("get");
    client.args(["--write-limit", "4M"]).arg(served.target("file")).arg(&local);
    let mut child = client.spawn().unwrap();
    while fs::metadata(&part).map_or(0, |part| part.len()) < 1_000_000 {
        assert!(child.try_wait().unwrap().is_none(), "the client ended before it was killed");
        std::thread::sleep(Duration::from_millis(5));
    }
    child.kill().unwrap();
    finish(child);
    assert!(
        fs::read(&local).unwrap() == old,
        "the old version stays until the new one is whole"
    );

    let fetched = served.get("file", &local).expect(0);
    assert!(fs::read(&local).unwrap() == new);
    assert!(fetched.number("resumed_bytes") >= 1_000_000, "{}", fetched.summary);
    assert!(fetched.number("reused_bytes") > 0, "{}", fetched.summary);
    assert!(fetched.number("transferred_bytes") < 1_000_000, "{}", fetched.summary);
}
