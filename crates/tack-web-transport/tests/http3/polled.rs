//! The halves of the traits for programs that poll, of both versions.

use std::future::poll_fn;
use std::task::{Context, Poll, Waker};

use super::common::{Pair, patiently};
use super::pair;

/// A test of one version of the traits, for sessions of any kind.
macro_rules! exchange {
    ($name:ident, $traits:ident) => {
        async fn $name<S>(mut client: S, mut server: S)
        where
            S: $traits::poll::Session<Error = tack_web_transport::Error> + Clone,
        {
            use $traits::poll::{RecvStream as _, SendStream as _};

            let mut idle = server.clone();
            let mut cx = Context::from_waker(Waker::noop());
            assert!(idle.poll_accept_uni(&mut cx).is_pending());
            assert!(server.poll_accept_uni(&mut cx).is_pending());

            let open = poll_fn(|cx| client.poll_open_uni(cx)).await;
            let mut send = open.unwrap();
            send.set_priority(7);
            let mut data = &[3; 5000][..];
            while !data.is_empty() {
                let written = poll_fn(|cx| send.poll_write(cx, data)).await.unwrap();
                data = &data[written..];
            }
            send.finish().unwrap();
            // The other handle waits, too, and is not polled again: it holds up nothing.
            let mut receive = poll_fn(|cx| server.poll_accept_uni(cx)).await.unwrap();
            let mut received = 0;
            let mut buffer = [0; 999];
            while let Some(len) =
                poll_fn(|cx| receive.poll_read(cx, &mut buffer)).await.unwrap()
            {
                assert!(buffer[..len].iter().all(|byte| *byte == 3));
                received += len;
            }
            assert_eq!(received, 5000);
            poll_fn(|cx| receive.poll_closed(cx)).await.unwrap();
            poll_fn(|cx| send.poll_closed(cx)).await.unwrap();

            let (mut send, mut receive) = poll_fn(|cx| server.poll_open_bi(cx)).await.unwrap();
            poll_fn(|cx| send.poll_write(cx, b"?")).await.unwrap();
            let (_back, mut question) = poll_fn(|cx| client.poll_accept_bi(cx)).await.unwrap();
            let chunk = poll_fn(|cx| question.poll_read_chunk(cx, 9)).await.unwrap();
            assert_eq!(chunk.unwrap(), b"?"[..]);
            question.stop(6);
            let error = poll_fn(|cx| send.poll_closed(cx)).await.unwrap_err();
            assert_eq!($traits::Error::stream_error(&error), Some(6));

            let sent = poll_fn(|cx| client.poll_send_datagram(cx, b"datagram")).await;
            sent.unwrap();
            let datagram = poll_fn(|cx| server.poll_recv_datagram(cx)).await.unwrap();
            assert_eq!(datagram, b"datagram"[..]);

            // What waits is woken by the end.
            let poll = receive.poll_read(&mut cx, &mut buffer);
            assert!(matches!(poll, Poll::Pending));
            client.close(4, "end");
            let error = poll_fn(|cx| receive.poll_read(cx, &mut buffer)).await.unwrap_err();
            assert_eq!($traits::Error::session_error(&error), Some((4, "end".to_owned())));
            let error = poll_fn(|cx| server.poll_closed(cx)).await;
            assert_eq!($traits::Error::session_error(&error), Some((4, "end".to_owned())));
        }
    };
}

exchange!(exchange_0_5, web_transport_trait);
exchange!(exchange_0_4, web_transport_trait_0_4);

#[tokio::test]
async fn a_program_that_polls_runs_over_http3() {
    patiently(async {
        let (client, accepted, _endpoint, _server) = pair().await;
        exchange_0_5(client, accepted).await;
        let (client, accepted, _endpoint, _server) = pair().await;
        exchange_0_4(client, accepted).await;
    })
    .await;
}

#[tokio::test]
async fn a_program_that_polls_runs_without_http3() {
    patiently(async {
        for version in [4, 5] {
            let pair = Pair::new().await;
            let client = tack_web_transport::Session::new(pair.client);
            let server = tack_web_transport::Session::new(pair.server);
            match version {
                4 => exchange_0_4(client, server).await,
                _ => exchange_0_5(client, server).await,
            }
        }
    })
    .await;
}
