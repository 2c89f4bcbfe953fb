//! A program that is generic over the traits, over the loopback interface.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may fail anywhere")]
#![allow(missing_docs, reason = "nothing here is public")]

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use tack_tokio::{Endpoint, EndpointConfig, tacklib};
// The build script has the linker take its randomness, in every test.
use tack_virtual as _;
use tack_web_transport::Session;
use web_transport_trait::{
    Error as _, RecvStream as _, SendStream as _, Session as _, Stats as _,
};

fn config() -> tacklib::Config {
    let mut config = tacklib::Config::new(tacklib::quiche::PROTOCOL_VERSION).unwrap();
    config.set_application_protos(&[b"moq-test"]).unwrap();
    config.verify_peer(false);
    config.set_max_idle_timeout(20_000);
    config.set_initial_max_data(1 << 20);
    config.set_initial_max_stream_data_bidi_local(1 << 18);
    config.set_initial_max_stream_data_bidi_remote(1 << 18);
    config.set_initial_max_stream_data_uni(1 << 18);
    config.set_initial_max_streams_bidi(10);
    config.set_initial_max_streams_uni(10);
    config.enable_dgram(true, 64, 64);
    config
}

/// Client, server, and the endpoints, which have to stay.
async fn pair() -> (Session, Session, [Endpoint; 2]) {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let (chain, key) = (directory.path().join("cert.pem"), directory.path().join("key.pem"));
    std::fs::write(&chain, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    let mut server = config();
    server.load_cert_chain_from_pem_file(chain.to_str().unwrap()).unwrap();
    server.load_priv_key_from_pem_file(key.to_str().unwrap()).unwrap();
    let local = SocketAddr::from(([127, 0, 0, 1], 0));
    let server = Endpoint::server(local, server, EndpointConfig::default()).unwrap();
    let client = Endpoint::client(local, EndpointConfig::default()).unwrap();
    let connecting =
        client.connect(server.local_addr(), Some("localhost"), &mut config()).unwrap();
    let (there, here) = tokio::join!(connecting, server.accept());
    (Session::new(there.unwrap()), here.unwrap().into(), [client, server])
}

async fn patiently<T>(test: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(60), test).await.expect("the test hangs")
}

/// Sends back what comes on each stream and in each DATAGRAM until the session ends.
async fn echo<S: web_transport_trait::Session>(session: S) -> S::Error {
    loop {
        tokio::select! {
            stream = session.accept_bi() => match stream {
                Ok((mut send, mut receive)) => {
                    let data = receive.read_all().await.unwrap();
                    send.set_priority(5);
                    send.write_chunk(data).await.unwrap();
                    send.finish().unwrap();
                    send.closed().await.unwrap();
                }
                Err(error) => break error,
            },
            datagram = session.recv_datagram() => match datagram {
                Ok(datagram) => session.send_datagram(datagram).unwrap(),
                Err(error) => break error,
            },
        }
    }
}

#[tokio::test]
async fn a_program_of_the_traits_runs_over_it() {
    patiently(async {
        let (client, server, _endpoints) = pair().await;
        assert_eq!(client.protocol(), Some("moq-test"));
        let echo = tokio::spawn(echo(server));
        let data: Bytes = (0..300_000_u32).map(|n| n as u8).collect();
        let (mut send, mut receive) = client.open_bi().await.unwrap();
        let write = async {
            send.write_all_buf(&mut data.clone()).await.unwrap();
            send.finish().unwrap();
        };
        let ((), answer) = tokio::join!(write, receive.read_all());
        assert!(answer.unwrap() == data);
        receive.closed().await.unwrap();

        assert!(client.max_datagram_size() > 1000);
        client.send_datagram(Bytes::from_static(b"there and back")).unwrap();
        assert_eq!(client.recv_datagram().await.unwrap(), b"there and back"[..]);
        let stats = client.stats();
        assert!(stats.estimated_send_rate().unwrap() > 0);
        assert!(stats.bytes_sent().unwrap() > 300_000);
        assert!(stats.rtt().is_some());
        drop(stats);
        client.close(17, "that is all");
        let told = echo.await.unwrap().session_error();
        assert_eq!(told, Some((17, "that is all".to_owned())));
        assert_eq!(client.closed().await.session_error().unwrap().0, 17);
    })
    .await;
}

#[tokio::test]
async fn codes_of_streams_reach_the_other_end() {
    patiently(async {
        let (client, server, _endpoints) = pair().await;
        let mut send = client.open_uni().await.unwrap();
        send.write_all(b"data").await.unwrap();
        let mut receive = server.accept_uni().await.unwrap();
        receive.stop(8);
        assert_eq!(send.closed().await.unwrap_err().stream_error(), Some(8));

        let mut send = client.open_uni().await.unwrap();
        send.write_all(b"data").await.unwrap();
        let mut receive = server.accept_uni().await.unwrap();
        send.reset(9);
        send.closed().await.unwrap();
        assert_eq!(receive.closed().await.unwrap_err().stream_error(), Some(9));

        // What is dropped is no whole stream.
        let mut send = client.open_uni().await.unwrap();
        send.write_all(b"part").await.unwrap();
        let mut receive = server.accept_uni().await.unwrap();
        drop(send);
        assert_eq!(receive.read_all().await.unwrap_err().stream_error(), Some(0));
    })
    .await;
}
