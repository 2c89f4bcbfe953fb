//! Streams that are worth nothing after some time.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test may fail anywhere"
)]
#![allow(clippy::disallowed_methods, reason = "a simulation begins at some time")]
#![allow(missing_docs, reason = "nothing here is public")]

mod common;

use std::time::Duration;

use common::network::{Network, Shape, simulate};
use common::{Pair, STREAM_WINDOW, client_config, server_config};
use tack_tokio::{Endpoint, EndpointConfig, ReadError, SendStream, WriteError};
use tacklib::Profile;
use tokio::time::{Instant, timeout};

const MS: Duration = Duration::from_millis(1);
const CLEAN: Shape = Shape { delay: Duration::from_millis(20), loss_percent: 0 };
/// What late streams are reset with.
const LATE: u64 = 77;

async fn pair(network: &Network, profile: Profile) -> Pair {
    let with_code = |mut config: tacklib::Config| {
        config.set_profile(profile);
        let mut tack = *config.tack();
        tack.deadline_error = LATE;
        config.set_tack(tack);
        config
    };
    let endpoint = EndpointConfig::default();
    let server = Some(with_code(server_config()));
    let server = Endpoint::with_socket(network.socket(4433), server, endpoint.clone()).unwrap();
    let client = Endpoint::with_socket(network.socket(1000), None, endpoint).unwrap();
    Pair::connect(client, server, with_code(client_config())).await
}

fn assert_expired<T: std::fmt::Debug>(result: Result<T, WriteError>) {
    let error = result.unwrap_err();
    assert!(matches!(error, WriteError::Expired), "{error}");
}

/// All that a writer is told of a stream that has expired.
async fn assert_is_expired(send: &mut SendStream) {
    assert_expired(send.write(b"more").await);
    assert_expired(timeout(500 * MS, send.stopped()).await.unwrap());
    assert_expired(send.finish());
    assert_expired(timeout(500 * MS, send.stopped()).await.unwrap());
}

#[test]
fn a_writer_that_waits_for_a_reader_that_does_not_read_is_told_at_the_deadline() {
    for profile in [Profile::Default, Profile::Off] {
        simulate(1, async {
            let network = Network::new(1, CLEAN);
            let pair = pair(&network, profile).await;
            let mut send = pair.client.open_uni().await.unwrap();
            send.set_deadline(Some(Instant::now() + 500 * MS)).unwrap();
            let stopped = tokio::spawn(send.stopped());
            let start = Instant::now();
            let data = vec![0; 2 * STREAM_WINDOW as usize];
            assert_expired(timeout(2000 * MS, send.write_all(&data)).await.unwrap());
            let waited = start.elapsed();
            assert!((500 * MS..520 * MS).contains(&waited), "{waited:?}");
            assert_expired(timeout(500 * MS, stopped).await.unwrap().unwrap());
            assert_is_expired(&mut send).await;
            let mut receive = pair.server.accept_uni().await.unwrap();
            // The reader learns of it, too.
            let error = timeout(500 * MS, receive.read_to_end(usize::MAX)).await.unwrap();
            let error = error.unwrap_err().to_string();
            assert_eq!(error, ReadError::Reset(LATE).to_string());
        });
    }
}

#[test]
fn a_stream_that_has_arrived_so_far_and_is_not_finished_expires() {
    simulate(1, async {
        let network = Network::new(1, CLEAN);
        let pair = pair(&network, Profile::Default).await;
        let (mut one_way, mut two_way) =
            (pair.client.open_uni().await.unwrap(), pair.client.open_bi().await.unwrap());
        for send in [&mut one_way, &mut two_way.0] {
            send.set_deadline(Some(Instant::now() + 500 * MS)).unwrap();
            send.write_all(b"part").await.unwrap();
        }
        let stopped = [tokio::spawn(one_way.stopped()), tokio::spawn(two_way.0.stopped())];
        tokio::time::sleep(600 * MS).await;
        for stopped in stopped {
            assert_expired(timeout(MS, stopped).await.unwrap().unwrap());
        }
        assert_is_expired(&mut one_way).await;
        assert_is_expired(&mut two_way.0).await;
        // One that is given up as well is no more than that.
        two_way.0.reset(5).unwrap();
        assert!(matches!(two_way.0.stopped().await, Err(WriteError::ClosedStream)));
    });
}

#[test]
fn a_deadline_that_has_passed_when_it_is_set_takes_effect_at_once() {
    simulate(1, async {
        let network = Network::new(1, CLEAN);
        let pair = pair(&network, Profile::Default).await;
        let mut written = pair.client.open_uni().await.unwrap();
        let mut finished = pair.client.open_uni().await.unwrap();
        let past = Some(Instant::now());
        tokio::time::sleep(MS).await;
        // The driver does not run in between.
        written.set_deadline(past).unwrap();
        assert_expired(written.write(b"data").await);
        finished.set_deadline(past).unwrap();
        assert_expired(finished.finish());
    });
}

#[test]
fn a_deadline_that_was_taken_back_or_that_a_finished_stream_meets_does_nothing() {
    simulate(1, async {
        let network = Network::new(1, CLEAN);
        let pair = pair(&network, Profile::Default).await;
        let (mut kept, mut met) =
            (pair.client.open_uni().await.unwrap(), pair.client.open_uni().await.unwrap());
        for send in [&mut kept, &mut met] {
            send.set_deadline(Some(Instant::now() + 500 * MS)).unwrap();
            send.write_all(b"data").await.unwrap();
        }
        kept.set_deadline(None::<Instant>).unwrap();
        met.finish().unwrap();
        tokio::time::sleep(600 * MS).await;
        kept.write_all(b"more").await.unwrap();
        kept.finish().unwrap();
        for (send, data) in [(kept, &b"datamore"[..]), (met, &b"data"[..])] {
            assert_eq!(send.stopped().await.unwrap(), None);
            let mut receive = pair.server.accept_uni().await.unwrap();
            assert_eq!(receive.read_to_end(10).await.unwrap(), data);
        }
    });
}

/// The layer resets such a stream when a probe timer expires, and does not tell of it if what was written turns out to
/// have arrived before the next one does.
#[test]
fn an_unfinished_stream_whose_acknowledgements_are_late_is_not_delivered() {
    for held_for in (20..=1000).step_by(20) {
        simulate(1, async {
            let network = Network::new(1, CLEAN);
            let pair = pair(&network, Profile::Default).await;
            let client = pair.client_endpoint.local_addr();
            let mut send = pair.client.open_uni().await.unwrap();
            send.set_deadline(Some(Instant::now() + 500 * MS)).unwrap();
            tokio::time::sleep(480 * MS).await;
            network.hold(client);
            send.write_all(b"part").await.unwrap();
            tokio::time::sleep(held_for * MS).await;
            network.release(client);
            tokio::time::sleep(20 * MS).await;
            let finished = send.finish();
            let stopped = timeout(2000 * MS, send.stopped()).await;
            let Ok(stopped) = stopped else { panic!("{held_for} ms: it hangs") };
            assert!(!matches!(stopped, Ok(None)), "{held_for} ms: a part counts as the whole");
            assert_expired(finished);
            assert_is_expired(&mut send).await;
        });
    }
}
