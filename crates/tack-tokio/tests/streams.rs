//! Streams over the loopback interface.

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

use common::{Pair, STREAMS, client_config, patiently, pattern, server_config};
use tack_tokio::{CloseReason, ConnectionError, ReadError, WriteError};
use tacklib::Profile;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

#[tokio::test]
async fn a_stream_carries_data_both_ways_to_its_end() {
    patiently(async {
        let pair = Pair::new().await;
        let (there, back) = (pattern(3_000_000, 1), pattern(2_000_000, 2));
        let echo = async {
            let (mut send, mut receive) = pair.server.accept_bi().await.unwrap();
            let received = receive.read_to_end(usize::MAX).await.unwrap();
            send.write_all(&back).await.unwrap();
            send.finish().unwrap();
            received
        };
        let ask = async {
            let (mut send, mut receive) = pair.client.open_bi().await.unwrap();
            send.write_all(&there).await.unwrap();
            send.finish().unwrap();
            receive.read_to_end(usize::MAX).await.unwrap()
        };
        let (received_there, received_back) = tokio::join!(echo, ask);
        assert!(received_there == there && received_back == back);
        assert!(pair.client.is_tack());
    })
    .await;
}

#[tokio::test]
async fn streams_are_readers_and_writers_of_tokio() {
    patiently(async {
        let pair = Pair::new().await;
        let (mut send, receive) = pair.client.open_bi().await.unwrap();
        let data = pattern(1_000_000, 3);
        let copy = async {
            let (mut send, mut receive) = pair.server.accept_bi().await.unwrap();
            tokio::io::copy(&mut receive, &mut send).await.unwrap();
            send.shutdown().await.unwrap();
        };
        let write = async {
            send.write_all_buf(&mut &data[..]).await.unwrap();
            send.flush().await.unwrap();
            send.shutdown().await.unwrap();
            send.shutdown().await.unwrap();
        };
        let mut received = Vec::new();
        let mut receive = receive.take(2_000_000);
        let ((), (), read) = tokio::join!(copy, write, receive.read_to_end(&mut received));
        assert_eq!(read.unwrap(), data.len());
        assert!(received == data);
        assert_eq!(send.written(), data.len() as u64);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_streams_than_the_peer_lets_open_at_once_all_carry_their_own_data() {
    patiently(async {
        let pair = Pair::new().await;
        let count = 10 * STREAMS;
        let server = pair.server.clone();
        let serve = tokio::spawn(async move {
            for _ in 0..count {
                let (mut send, mut receive) = server.accept_bi().await.unwrap();
                tokio::spawn(async move {
                    let data = receive.read_to_end(100_000).await.unwrap();
                    send.write_all(&data).await.unwrap();
                    send.finish().unwrap();
                });
            }
        });
        let tasks: Vec<_> = (0..count)
            .map(|n| {
                let client = pair.client.clone();
                tokio::spawn(async move {
                    let data = pattern(1000 + 300 * n as usize, n);
                    let (mut send, mut receive) = client.open_bi().await.unwrap();
                    send.write_all(&data).await.unwrap();
                    send.finish().unwrap();
                    assert!(receive.read_to_end(100_000).await.unwrap() == data, "stream {n}");
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        serve.await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn streams_are_accepted_in_the_order_in_which_they_were_opened() {
    patiently(async {
        let pair = Pair::new().await;
        let mut streams = Vec::new();
        for _ in 0..5 {
            streams.push(pair.client.open_uni().await.unwrap());
        }
        // Only the last one sends: it opens the others (RFC 9000 section 3.2).
        streams[4].write_all(b"last").await.unwrap();
        let mut accepted = Vec::new();
        for index in 0..5 {
            accepted.push(pair.server.accept_uni().await.unwrap());
            assert_eq!(accepted[index].id(), streams[index].id());
        }
        streams[4].finish().unwrap();
        assert_eq!(accepted[4].read_to_end(10).await.unwrap(), b"last");
        streams[0].write_all(b"first").await.unwrap();
        streams[0].finish().unwrap();
        assert_eq!(accepted[0].read_to_end(10).await.unwrap(), b"first");
    })
    .await;
}

#[tokio::test]
async fn an_answer_on_a_stream_of_which_nothing_has_come_waits_for_it() {
    patiently(async {
        let pair = Pair::new().await;
        let (mut quiet, mut quiet_answer) = pair.client.open_bi().await.unwrap();
        let (mut loud, _loud_answer) = pair.client.open_bi().await.unwrap();
        loud.write_all(b"!").await.unwrap();
        let (mut answer, _question) = pair.server.accept_bi().await.unwrap();
        assert_eq!(answer.id(), quiet.id());
        let answering = async {
            answer.write_all(b"answer").await.unwrap();
            answer.finish().unwrap();
        };
        let asking = async {
            tokio::task::yield_now().await;
            quiet.write_all(b"?").await.unwrap();
            quiet_answer.read_to_end(10).await.unwrap()
        };
        let ((), answer) = tokio::join!(answering, asking);
        assert_eq!(answer, b"answer");
    })
    .await;
}

#[tokio::test]
async fn a_reset_reaches_the_reader_and_a_stop_the_writer() {
    patiently(async {
        let pair = Pair::new().await;
        let (mut send, _answer) = pair.client.open_bi().await.unwrap();
        send.write_all(b"part").await.unwrap();
        let (_back, mut receive) = pair.server.accept_bi().await.unwrap();
        send.reset(77).unwrap();
        assert!(matches!(send.reset(78), Err(WriteError::ClosedStream)));
        assert!(matches!(send.write(b"more").await, Err(WriteError::ClosedStream)));
        let error = loop {
            match receive.read_chunk(100).await {
                Ok(chunk) => assert!(chunk.is_some(), "a stream that is reset has no end"),
                Err(error) => break error,
            }
        };
        assert!(matches!(error, ReadError::Reset(77)), "{error}");
        assert!(matches!(receive.read_chunk(1).await, Err(ReadError::Reset(77))));

        let (mut send, _answer) = pair.client.open_bi().await.unwrap();
        send.write_all(b"data").await.unwrap();
        let (_back, mut receive) = pair.server.accept_bi().await.unwrap();
        receive.stop(99).unwrap();
        assert!(matches!(receive.stop(98), Err(ReadError::ClosedStream)));
        assert!(matches!(receive.read_chunk(1).await, Err(ReadError::ClosedStream)));
        assert_eq!(send.stopped().await.unwrap(), Some(99));
        assert!(matches!(send.write(b"more").await, Err(WriteError::Stopped(99))));
    })
    .await;
}

/// quiche forgets a stream, and the code, when the reset that answers a stop is acknowledged.
#[tokio::test]
async fn a_stop_that_comes_while_nobody_waits_is_told_later() {
    for profile in [Profile::Default, Profile::Off] {
        patiently(async {
            let (mut client, mut server) = (client_config(), server_config());
            client.set_profile(profile);
            server.set_profile(profile);
            let pair = Pair::with(client, server).await;
            let mut writers = Vec::new();
            for _ in 0..3 {
                let mut send = pair.client.open_uni().await.unwrap();
                send.write_all(b"data").await.unwrap();
                writers.push(send);
            }
            for code in 0..3 {
                pair.server.accept_uni().await.unwrap().stop(code).unwrap();
            }
            // Until the stop has come, was answered, and the answer was acknowledged.
            tokio::time::sleep(Duration::from_millis(300)).await;
            for (code, send) in writers.iter_mut().enumerate() {
                let error = send.write(b"more").await.unwrap_err();
                let code = code as u64;
                assert!(matches!(error, WriteError::Stopped(it) if it == code), "{error}");
                assert_eq!(send.stopped().await.unwrap(), Some(code));
            }
        })
        .await;
    }
}

#[tokio::test]
async fn a_stream_can_be_stopped_and_reset_before_anything_of_it_has_come() {
    patiently(async {
        let pair = Pair::new().await;
        let (mut quiet, mut answer) = pair.client.open_bi().await.unwrap();
        let (mut loud, _) = pair.client.open_bi().await.unwrap();
        loud.write_all(b"!").await.unwrap();
        let (mut send, mut receive) = pair.server.accept_bi().await.unwrap();
        assert_eq!(send.id(), quiet.id());
        receive.stop(4).unwrap();
        send.reset(5).unwrap();
        drop((send, receive));
        let error = quiet.write_all(&vec![0; 10_000_000]).await.unwrap_err();
        assert!(matches!(error, WriteError::Stopped(4)), "{error}");
        let error = answer.read_chunk(1).await.unwrap_err();
        assert!(matches!(error, ReadError::Reset(5)), "{error}");
    })
    .await;
}

#[tokio::test]
async fn a_reset_is_told_to_one_who_does_not_read() {
    patiently(async {
        let pair = Pair::new().await;
        let (mut given_up, mut finished) =
            (pair.client.open_uni().await.unwrap(), pair.client.open_uni().await.unwrap());
        given_up.write_all(b"data").await.unwrap();
        let mut receive = pair.server.accept_uni().await.unwrap();
        assert_eq!(receive.read_chunk(1).await.unwrap().unwrap(), b"d"[..]);
        let reset = async {
            tokio::time::sleep(Duration::from_millis(20)).await;
            given_up.reset(31).unwrap();
        };
        assert_eq!(tokio::join!(receive.received_reset(), reset).0.unwrap(), Some(31));
        assert!(matches!(receive.read_chunk(1).await, Err(ReadError::Reset(31))));

        finished.write_all(b"data").await.unwrap();
        let mut receive = pair.server.accept_uni().await.unwrap();
        assert_eq!(receive.read_chunk(9).await.unwrap().unwrap(), b"data"[..]);
        finished.finish().unwrap();
        assert_eq!(receive.received_reset().await.unwrap(), None);
        assert_eq!(receive.read_chunk(1).await.unwrap(), None);
    })
    .await;
}

#[tokio::test]
async fn a_writer_that_waits_for_room_learns_that_the_stream_is_stopped() {
    patiently(async {
        let pair = Pair::new().await;
        let mut send = pair.client.open_uni().await.unwrap();
        let write = async { send.write_all(&vec![1; 10_000_000]).await };
        let stop = async {
            let mut receive = pair.server.accept_uni().await.unwrap();
            receive.read_chunk(1000).await.unwrap();
            receive.stop(5).unwrap();
        };
        let (written, ()) = tokio::join!(write, stop);
        assert!(matches!(written, Err(WriteError::Stopped(5))));
    })
    .await;
}

#[tokio::test]
async fn a_writer_that_is_dropped_finishes_its_stream_and_a_reader_that_is_dropped_stops_it() {
    patiently(async {
        let pair = Pair::new().await;
        let (mut send, receive) = pair.client.open_bi().await.unwrap();
        send.write_all(b"all").await.unwrap();
        drop((send, receive));
        let (back, mut received) = pair.server.accept_bi().await.unwrap();
        assert_eq!(received.read_to_end(10).await.unwrap(), b"all");
        assert_eq!(back.stopped().await.unwrap(), Some(0));
    })
    .await;
}

/// quiche keeps a stream until both halves are read and acknowledged, and counts it until then.
#[tokio::test]
async fn streams_whose_handles_are_dropped_make_room_for_others() {
    patiently(async {
        let pair = Pair::new().await;
        for n in 0..3 * STREAMS {
            let (mut send, receive) = pair.client.open_bi().await.unwrap();
            send.write_all(&[1; 5000]).await.unwrap();
            send.finish().unwrap();
            let (answer, question) = pair.server.accept_bi().await.unwrap();
            match n % 3 {
                0 => drop((question, answer, send, receive)),
                1 => drop((receive, send, answer, question)),
                _ => drop((answer, receive, question, send)),
            }
        }
    })
    .await;
}

#[tokio::test]
async fn streams_that_are_stopped_make_room_for_others() {
    patiently(async {
        let pair = Pair::new().await;
        for n in 0..3 * STREAMS {
            let (mut send, mut answer) = pair.client.open_bi().await.unwrap();
            send.write_all(b"?").await.unwrap();
            send.finish().unwrap();
            let (mut back, mut question) = pair.server.accept_bi().await.unwrap();
            assert_eq!(question.read_to_end(1).await.unwrap(), b"?");
            back.write_all(&vec![1; 100_000]).await.unwrap();
            answer.read_chunk(4).await.unwrap();
            answer.stop(n).unwrap();
            if n % 2 == 0 {
                assert_eq!(back.stopped().await.unwrap(), Some(n));
            }
        }
    })
    .await;
}

#[tokio::test]
async fn a_stream_that_is_longer_than_the_limit_can_still_be_read() {
    patiently(async {
        let pair = Pair::new().await;
        let mut send = pair.client.open_uni().await.unwrap();
        send.write_all(&pattern(5000, 1)).await.unwrap();
        send.finish().unwrap();
        let mut receive = pair.server.accept_uni().await.unwrap();
        for limit in [4999, 4999, 10] {
            let error = receive.read_to_end(limit).await.unwrap_err();
            assert_eq!(error.to_string(), format!("the stream is longer than {limit} bytes"));
        }
        assert!(receive.read_to_end(5000).await.unwrap() == pattern(5000, 1));
        assert_eq!(receive.read_chunk(1).await.unwrap(), None);
        assert_eq!(receive.read(&mut [0; 4]).await.unwrap(), None);
    })
    .await;
}

#[tokio::test]
async fn what_was_delivered_before_a_close_can_be_accepted_and_read_after_it() {
    patiently(async {
        let pair = Pair::new().await;
        let data = pattern(200_000, 9);
        let mut first = pair.client.open_uni().await.unwrap();
        let mut second = pair.client.open_uni().await.unwrap();
        first.write_all(&data).await.unwrap();
        first.finish().unwrap();
        second.write_all(b"end").await.unwrap();
        second.finish().unwrap();
        assert_eq!(first.stopped().await.unwrap(), None);
        assert_eq!(second.stopped().await.unwrap(), None);
        pair.client.close(42, b"done");
        assert!(matches!(pair.client.open_bi().await, Err(ConnectionError::Closed(_))));

        let reason = pair.server.closed().await;
        let ConnectionError::Closed(reason) = reason else { panic!("{reason}") };
        let by_peer =
            CloseReason::Peer { application: true, code: 42, reason: b"done".to_vec() };
        assert_eq!(reason, by_peer);
        // Even when nothing of the connection is left but that.
        pair.server_endpoint.wait_idle().await;
        let mut received = pair.server.accept_uni().await.unwrap();
        assert!(received.read_to_end(usize::MAX).await.unwrap() == data);
        let mut received = pair.server.accept_uni().await.unwrap();
        assert_eq!(received.read_to_end(10).await.unwrap(), b"end");
        let error = pair.server.accept_uni().await.err().unwrap();
        assert!(error.to_string().contains("closed by the peer"), "{error}");
    })
    .await;
}

#[tokio::test]
async fn delivery_is_told_when_the_answer_has_been_read() {
    patiently(async {
        let plain = |mut config: tacklib::Config| {
            config.set_profile(Profile::Off);
            config
        };
        let pair = Pair::with(plain(client_config()), plain(server_config())).await;
        let (mut send, mut receive) = pair.client.open_bi().await.unwrap();
        send.write_all(b"?").await.unwrap();
        send.finish().unwrap();
        let (mut answer, mut question) = pair.server.accept_bi().await.unwrap();
        assert_eq!(question.read_to_end(10).await.unwrap(), b"?");
        answer.write_all(b"!").await.unwrap();
        answer.finish().unwrap();
        // All has arrived, and nothing more comes.
        tokio::time::sleep(Duration::from_millis(300)).await;
        let both = async move { tokio::join!(send.stopped(), receive.read_to_end(10)) };
        let both = tokio::time::timeout(Duration::from_secs(2), tokio::spawn(both)).await;
        let (stopped, read) = both.expect("delivery is not told").unwrap();
        assert_eq!((stopped.unwrap(), read.unwrap()), (None, b"!".to_vec()));
    })
    .await;
}
