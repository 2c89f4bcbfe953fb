//! A track arrives whole and in order, directly and through a relay, with TACK and quinn at either end.

use std::net::SocketAddr;
use std::time::Duration;

use tack_example_moq::backend::{Listener, Transport, connect};
use tack_example_moq::compare::{Comparison, run_over};
use tack_example_moq::publisher::{self, Source, new_origin, publish};
use tack_example_moq::relay::serve;
use tack_example_moq::subscriber::{Received, subscribe};
use tack_example_moq::wire::Path;
use tack_web_transport::http3::{ConnectRequest, Url};
use tokio::task::{JoinHandle, JoinSet};

const SOURCE: Source = Source { groups: 20, frames: 5, fps: 200.0, frame_bytes: 3000 };

async fn patiently<T>(test: impl Future<Output = T>) -> T {
    // On the heap, as the futures of QUIC stacks are large.
    let test = Box::pin(test);
    tokio::time::timeout(Duration::from_mins(1), test).await.expect("the test hangs")
}

fn local() -> SocketAddr {
    ([127, 0, 0, 1], 0).into()
}

fn assert_whole(received: &Received, source: Source) {
    assert_eq!(received.groups, (0..source.groups).collect::<Vec<_>>());
    let expected = (0..source.groups)
        .flat_map(|group| (0..source.frames).map(move |frame| (group, frame)))
        .collect::<Vec<_>>();
    let frames = &received.frames;
    assert_eq!(frames.iter().map(|it| (it.group, it.frame)).collect::<Vec<_>>(), expected);
    assert!(frames.is_sorted_by_key(|it| it.made_us), "frames were made in this order");
    for it in frames {
        let len = if it.frame == 0 { 4 * source.frame_bytes } else { source.frame_bytes };
        assert_eq!(it.len, len, "{it:?}");
    }
}

#[tokio::test]
#[allow(clippy::large_futures, reason = "`patiently` puts it on the heap")]
async fn a_track_arrives_whole_and_in_order_over_each_transport() {
    for transport in [Transport::Tack, Transport::Quinn] {
        patiently(async {
            let mut listener = Listener::bind(transport, local(), None).unwrap();
            let (here, there) = (new_origin(), new_origin());
            let publishing = tokio::spawn(publish(here.clone(), SOURCE));
            let server = moq_net::Server::new().with_publisher(&here);
            let client = moq_net::Client::new().with_subscriber(there.clone());
            let connecting = connect(transport, listener.local_addr(), &client);
            let (accepted, connected) = tokio::join!(listener.accept(&server), connecting);
            let (accepted, connected) = (accepted.unwrap(), connected.unwrap());
            let received = subscribe(there.consume()).await.unwrap();
            assert_whole(&received, SOURCE);
            assert_eq!(connected.session.version(), accepted.session.version());
            drop(publishing.await.unwrap().unwrap());
        })
        .await;
    }
}

#[tokio::test]
#[allow(clippy::large_futures, reason = "`patiently` puts it on the heap")]
async fn a_relay_forwards_whichever_transport_either_end_has() {
    use Transport::{Quinn, Tack};
    for (from, to) in [(Quinn, Tack), (Tack, Quinn), (Tack, Tack)] {
        patiently(async {
            let relayed = new_origin();
            let mut addresses = Vec::new();
            for transport in [from, to] {
                let listener = Listener::bind(transport, local(), None).unwrap();
                addresses.push(listener.local_addr());
                tokio::spawn(serve(listener, relayed.clone()));
            }
            let (here, there) = (new_origin(), new_origin());
            let publishing = tokio::spawn(publish(here.clone(), SOURCE));
            let publisher = moq_net::Client::new().with_publisher(&here);
            let subscriber = moq_net::Client::new().with_subscriber(there.clone());
            let _publisher = connect(from, addresses[0], &publisher).await.unwrap();
            let _subscriber = connect(to, addresses[1], &subscriber).await.unwrap();
            let received = subscribe(there.consume()).await.unwrap();
            assert_whole(&received, SOURCE);
            publishing.abort();
        })
        .await;
    }
}

/// Longer than a track takes, and shorter than a client is waited for.
const SOON: Duration = Duration::from_secs(5);

/// Opens sessions that say nothing of MoQ, one for each of its versions. They last as long as the task.
fn open_mute_sessions(server: SocketAddr) -> JoinHandle<()> {
    tokio::spawn(async move {
        let client = web_transport_quinn::ClientBuilder::new().dangerous();
        let client = client.with_no_certificate_verification().unwrap();
        let mut sessions = JoinSet::new();
        for version in moq_net::ALPNS {
            let url = Url::parse(&format!("https://{server}/moq")).unwrap();
            let (client, request) = (client.clone(), ConnectRequest::new(url));
            sessions.spawn(async move {
                let session = client.connect(request.with_protocol(*version)).await;
                std::future::pending::<()>().await;
                drop(session);
            });
        }
        std::future::pending::<()>().await;
    })
}

/// Subscribes to the track at a server, and reads it.
async fn subscribe_to(transport: Transport, server: SocketAddr) -> Received {
    let origin = new_origin();
    let client = moq_net::Client::new().with_subscriber(origin.clone());
    let _connected = connect(transport, server, &client).await.unwrap();
    subscribe(origin.consume()).await.unwrap()
}

#[tokio::test]
#[allow(clippy::large_futures, reason = "`patiently` puts it on the heap")]
async fn clients_that_say_nothing_keep_no_subscriber_of_a_relay_waiting() {
    for transport in [Transport::Tack, Transport::Quinn] {
        patiently(async {
            let relayed = new_origin();
            let listener = Listener::bind(transport, local(), None).unwrap();
            let relay = listener.local_addr();
            tokio::spawn(serve(listener, relayed));
            let mute = open_mute_sessions(relay);
            tokio::time::sleep(Duration::from_millis(500)).await;
            let publish = tokio::spawn(async move {
                let origin = new_origin();
                let client = moq_net::Client::new().with_publisher(&origin);
                let connected = connect(transport, relay, &client).await.unwrap();
                let published = publish(origin, SOURCE).await.unwrap();
                // The subscriber may be behind.
                std::future::pending::<()>().await;
                drop((published, connected));
            });
            let received = tokio::time::timeout(SOON, subscribe_to(transport, relay)).await;
            assert!(!mute.is_finished(), "the mute sessions are open");
            mute.abort();
            publish.abort();
            assert_whole(&received.expect("the relay serves others"), SOURCE);
        })
        .await;
    }
}

#[tokio::test]
#[allow(clippy::large_futures, reason = "`patiently` puts it on the heap")]
async fn clients_that_say_nothing_keep_no_subscriber_of_a_publisher_waiting() {
    for transport in [Transport::Tack, Transport::Quinn] {
        patiently(async {
            let listener = Listener::bind(transport, local(), None).unwrap();
            let publisher = listener.local_addr();
            let serving = tokio::spawn(publisher::serve(listener, SOURCE));
            let mute = open_mute_sessions(publisher);
            tokio::time::sleep(Duration::from_millis(500)).await;
            let received = tokio::time::timeout(SOON, subscribe_to(transport, publisher)).await;
            mute.abort();
            assert_whole(&received.expect("the publisher serves others"), SOURCE);
            drop(serving.await.unwrap().unwrap());
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[allow(clippy::large_futures, reason = "`patiently` puts it on the heap")]
async fn tack_needs_fewer_ack_packets_than_quinn_for_the_same_track() {
    let path =
        Path { link: "pipe:40".to_owned(), rtt: 20.0, loss: 0.0, ack_loss: 0.0, seed: 1 };
    // Some 16 Mbit/s: what makes quinn acknowledge often is many packets.
    let source = Source { groups: 4, frames: 25, fps: 50.0, frame_bytes: 35_000 };
    let transports = Vec::new();
    let comparison = Comparison { source, path, playout: 150.0, transports, runs: 1 };
    let mut acks = Vec::new();
    for transport in [Transport::Tack, Transport::Quinn] {
        let run = patiently(run_over(transport, &comparison)).await.unwrap();
        assert_eq!(run.frames_received, 100, "{}", transport.name());
        // The tap has opened the packets of both ends.
        assert!(run.passed.to_subscriber.stream_bytes > 3_900_000);
        assert_eq!(run.passed.to_subscriber.undecryptable, 0);
        assert_eq!(run.passed.to_publisher.tacks > 0, transport == Transport::Tack);
        acks.push(run.passed.to_publisher.ack_packets);
    }
    assert!(acks[0] * 2 < acks[1], "ACK packets of TACK and quinn: {acks:?}");
}
