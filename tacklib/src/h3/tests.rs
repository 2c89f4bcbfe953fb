//! What the layer is told is what was read and written.

#[path = "../../tests/common/mod.rs"]
mod common;

use super::{Config, Connection, Error, Event, Header};
use common::*;

const HEAD: usize = 4 << 10;

type Ends = Pair<crate::Connection, crate::Connection>;

/// Both ends with HTTP/3, and the client's request to the server.
fn with_request() -> (Ends, Connection, Connection, u64) {
    let (mut client, mut server) = (tack_config(), tack_config());
    let mut pair = Pair::new(tack_client(&mut client), tack_server(&mut server));
    pair.handshake();
    let config = Config::new().unwrap();
    let mut client = Connection::with_transport(&mut pair.client, &config).unwrap();
    let mut server = Connection::with_transport(&mut pair.server, &config).unwrap();
    let stream = client.send_request(&mut pair.client, &request(), false).unwrap();
    pair.run_until(|pair| {
        matches!(server.poll(&mut pair.server), Ok((_, Event::Headers { .. })))
    });
    assert!(pair.client.is_tack());
    (pair, client, server, stream)
}

fn request() -> Vec<Header> {
    let long = vec![b'x'; HEAD];
    let fields: [(&[u8], &[u8]); 5] = [
        (b":method", b"POST"),
        (b":scheme", b"https"),
        (b":authority", b"localhost"),
        (b":path", b"/"),
        (b"x-long", &long),
    ];
    fields.iter().map(|(name, value)| Header::new(name, value)).collect()
}

/// All that quiche knows to be buffered leaves.
fn flush(pair: &mut Ends) {
    pair.run_until(|pair| pair.client.unsent() == 0 && pair.server.unsent() == 0);
}

#[test]
fn the_send_buffer_counts_what_is_written() {
    let (mut pair, mut client, _, stream) = with_request();
    flush(&mut pair);
    let capacity = |pair: &mut Ends| pair.client.followed().stream_capacity(stream).unwrap();
    for (len, fin) in [(1, false), (63, false), (64, false), (20_000, false), (1, true)] {
        let before = (capacity(&mut pair), pair.client.unsent());
        assert_eq!(client.send_body(&mut pair.client, stream, &vec![7; len], fin), Ok(len));
        let written = before.0 - capacity(&mut pair);
        assert_eq!(pair.client.unsent(), before.1 + written, "{len} bytes");
    }
    flush(&mut pair);
    let stream = client.send_request(&mut pair.client, &request(), true).unwrap();
    assert_eq!(stream, 4);
    assert!(pair.client.unsent() > HEAD / 2, "HEADERS count");
}

#[test]
fn reads_are_counted_to_the_byte() {
    let (mut pair, mut client, mut server, stream) = with_request();
    let mut buffer = vec![0; 3000];
    let mut written = 0;
    for len in [10, 100, 5000, 40_000] {
        written += client.send_body(&mut pair.client, stream, &pattern(len), false).unwrap();
    }
    flush(&mut pair);
    let mut read = 0;
    pair.run_until(|pair| {
        while server.poll(&mut pair.server).is_ok() {}
        while let Ok(len) = server.recv_body(&mut pair.server, stream, &mut buffer) {
            read += len;
        }
        read == written
    });
    let initial: usize = 4_000_000;
    let capacity = pair.client.followed().stream_capacity(stream).unwrap();
    let (counted, in_all) = pair.server.counted_reads(stream);
    assert_eq!(counted, (initial - capacity) as u64, "all that was written has been read");
    // And HTTP/3's own streams.
    assert!(in_all > counted && in_all < counted + 256, "{in_all}");
}

#[test]
fn what_http3_does_leaves_the_cheap_path_as_it_is() {
    let (mut pair, mut client, mut server, stream) = with_request();
    client.send_body(&mut pair.client, stream, &pattern(100_000), true).unwrap();
    let mut buffer = vec![0; 3000];
    let mut finished = false;
    pair.run_until(|pair| {
        loop {
            match server.poll(&mut pair.server) {
                Ok((_, Event::Finished)) => finished = true,
                Ok(_) => {}
                Err(Error::Done) => break,
                Err(error) => panic!("{error:?}"),
            }
            while server.recv_body(&mut pair.server, stream, &mut buffer).is_ok() {}
        }
        assert!(!pair.server.reads_all() && !pair.client.reads_all());
        finished
    });
}
