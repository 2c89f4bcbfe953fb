//! A track arrives whole and in order, directly and through a relay between TACK and quinn.

use std::net::SocketAddr;
use std::time::Duration;

use tack_example_moq::backend::{Listener, Transport, connect};
use tack_example_moq::compare::{Comparison, run_over};
use tack_example_moq::publisher::{Source, new_origin, publish};
use tack_example_moq::relay::serve;
use tack_example_moq::subscriber::{Received, subscribe};
use tack_example_moq::wire::Path;

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
            let (accepted, connected) = (accepted.unwrap().unwrap(), connected.unwrap());
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
async fn a_relay_forwards_between_tack_and_quinn() {
    for (from, to) in [(Transport::Quinn, Transport::Tack), (Transport::Tack, Transport::Quinn)]
    {
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[allow(clippy::large_futures, reason = "`patiently` puts it on the heap")]
async fn tack_needs_fewer_ack_packets_than_quinn_for_the_same_track() {
    let path = Path { link: "pipe:40".to_owned(), rtt: 20.0, loss: 0.0, seed: 1 };
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
