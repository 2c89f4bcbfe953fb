use std::net::IpAddr;
use std::sync::atomic::AtomicBool;
use std::thread;

use tacklib::CcParameters;

use super::client::MAX_WORKERS_OF_ALL;
use super::*;
use crate::identity::Identity;
use crate::protocol::{Message, Root};
use crate::server_address::ServerAddress;
use crate::session::{ConnectOptions, Link, Trust};

fn server(directory: &std::path::Path) -> Server {
    let identity = Identity::in_directory(&directory.join("identity")).unwrap();
    let listen = SocketAddr::from(([127, 0, 0, 1], 0));
    let root = Root::open(directory).unwrap();
    Server::new(ServerOptions::new(listen, root, identity, None)).unwrap()
}

// TACK-6.7-9
#[test]
fn a_server_that_ends_waits_for_what_its_workers_have_to_remove() {
    let directory = tempfile::tempdir().unwrap();
    let mut server = server(directory.path());
    let (working, ended) =
        (Arc::clone(&server.parts.service), Arc::new(AtomicBool::new(false)));
    let tell = Arc::clone(&ended);
    let worker = thread::spawn(move || {
        thread::sleep(Duration::from_millis(100));
        tell.store(true, Ordering::Relaxed);
        drop(working);
    });
    server.run_until(|_| true).unwrap();
    assert!(ended.load(Ordering::Relaxed));
    worker.join().unwrap();
}

#[test]
fn a_connection_takes_what_its_address_has_left_and_gives_back_what_it_has_not_used() {
    let directory = tempfile::tempdir().unwrap();
    let mut server = server(directory.path());
    let address = IpAddr::from([127, 0, 0, 1]);
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    let saved = CcParameters {
        saved_cwnd: 1_000_000,
        saved_rtt: Duration::from_millis(40),
        saved_at: now.as_secs(),
    };
    server.cc_parameters.as_ref().unwrap().put(address, saved, SystemTime::now());
    let target = ServerAddress::from(server.local_addr());
    let (leave, left) = mpsc::channel();
    let client = thread::spawn(move || {
        let options = ConnectOptions::new(Trust::Anything);
        let mut link = Link::connect(&target, options).unwrap();
        while left.try_recv() == Err(mpsc::TryRecvError::Empty) {
            link.turn(Duration::from_millis(10)).unwrap();
        }
        link.close(CloseCode::Done, "");
    });
    let end = Instant::now() + Duration::from_secs(8);
    while server.clients.is_empty() && Instant::now() < end {
        server.turn(Duration::from_millis(10)).unwrap();
    }
    let shared = server.cc_parameters.as_ref().unwrap();
    assert_eq!(shared.take(address, SystemTime::now()), None, "it is in use");
    leave.send(()).unwrap();
    let end = Instant::now() + Duration::from_secs(8);
    while !server.clients.is_empty() && Instant::now() < end {
        server.turn(Duration::from_millis(10)).unwrap();
    }
    client.join().unwrap();
    let shared = server.cc_parameters.as_ref().unwrap();
    assert_eq!(shared.take(address, SystemTime::now()), Some(saved));
}

/// A request whose worker stays, on a thread of its own; `answered` hears when it is served.
fn lasting_request(link: &mut Link, answered: &mpsc::Sender<()>) -> mpsc::Sender<()> {
    let mailbox = link.open().unwrap().unwrap();
    let (answered, (end, ended)) = (answered.clone(), mpsc::channel());
    thread::spawn(move || {
        mailbox.send(Message::GetDigests { paths: Vec::new() }).unwrap();
        assert_eq!(mailbox.recv().unwrap(), Message::EndOfDigests);
        answered.send(()).unwrap();
        let _ = ended.recv();
    });
    end
}

#[test]
fn where_others_have_all_workers_a_connection_has_two() {
    let directory = tempfile::tempdir().unwrap();
    let server = server(directory.path());
    let of_others = vec![Arc::clone(&server.parts.service.workers); MAX_WORKERS_OF_ALL];
    let target = ServerAddress::from(server.local_addr());
    let server = server.start();
    let mut link = Link::connect(&target, ConnectOptions::new(Trust::Anything)).unwrap();
    let (answered, answers) = mpsc::channel();
    let requests: Vec<_> = (0..3).map(|_| lasting_request(&mut link, &answered)).collect();
    let mut turn_until = |wanted, longest| {
        let (end, mut heard) = (Instant::now() + longest, 0);
        while heard < wanted && Instant::now() < end {
            link.turn(Duration::from_millis(10)).unwrap();
            heard += answers.try_iter().count();
        }
        heard
    };
    assert_eq!(turn_until(2, Duration::from_secs(8)), 2);
    assert_eq!(turn_until(1, 3 * WORKERS_RETRY), 0);
    drop(of_others);
    assert_eq!(turn_until(1, Duration::from_secs(8)), 1);
    drop(requests);
    server.stop().unwrap();
}
