//! The end of a stream that is written alone, behind its data.

mod common;

use std::time::{Duration, Instant};

use common::*;
use quiche::RecvInfo;
use tacklib::Connection;

/// The client's first unidirectional stream, and its first in both directions.
const ONE_WAY: u64 = 2;
const BOTH_WAYS: u64 = 0;

fn datagrams(end: &mut impl End) -> Vec<Vec<u8>> {
    let mut out = vec![0; 65536];
    std::iter::from_fn(|| end.transmit(&mut out).map(|(len, _)| out[..len].to_vec())).collect()
}

fn to_server(server: &mut impl End, datagrams: Vec<Vec<u8>>) {
    for mut datagram in datagrams {
        let info = RecvInfo { from: client_address(), to: server_address() };
        server.receive(&mut datagram, info);
    }
}

fn to_client(client: &mut impl End, datagrams: Vec<Vec<u8>>) {
    for mut datagram in datagrams {
        let info = RecvInfo { from: server_address(), to: client_address() };
        client.receive(&mut datagram, info);
    }
}

/// Everything that the server has to say of what it received.
fn acknowledgements(server: &mut impl End) -> Vec<Vec<u8>> {
    let mut all = datagrams(server);
    let until = Instant::now() + Duration::from_millis(100);
    while Instant::now() < until {
        if server.deadline().is_some_and(|at| at <= Instant::now()) {
            server.expire();
        }
        all.extend(datagrams(server));
        advance(Duration::from_millis(1));
    }
    all
}

/// The server has the data, and the client still waits for the acknowledgement that is returned.
fn with_data<S: End>(pair: &mut Pair<Connection, S>, stream_id: u64) -> Vec<Vec<u8>> {
    pair.handshake();
    assert_eq!(pair.client.write(stream_id, &[7; 1000], false), 1000);
    let data = datagrams(&mut pair.client);
    to_server(&mut pair.server, data);
    acknowledgements(&mut pair.server)
}

fn ends<S: End>(pair: &mut Pair<Connection, S>, stream_id: u64) {
    ends_after(pair, stream_id, 1000);
}

fn ends_after<S: End>(pair: &mut Pair<Connection, S>, stream_id: u64, expected: usize) {
    let mut received = 0;
    pair.run_until(|pair| {
        let mut buffer = vec![0; 20_000];
        let (len, fin) = pair.server.read(stream_id, &mut buffer).unwrap_or((0, false));
        received += len;
        fin
    });
    assert_eq!(received, expected);
}

fn tack_to_tack() -> Pair<Connection, Connection> {
    Pair::new(tack_client(&mut tack_config()), tack_server(&mut tack_config()))
}

fn tack_to_stock() -> Pair<Connection, quiche::Connection> {
    Pair::new(tack_client(&mut tack_config()), stock_server(&mut stock_config()))
}

fn arrives_where_the_data_is_acknowledged_first<S: End>(mut pair: Pair<Connection, S>) {
    let acknowledgements = with_data(&mut pair, ONE_WAY);
    pair.client.write(ONE_WAY, &[], true);
    to_client(&mut pair.client, acknowledgements);
    ends(&mut pair, ONE_WAY);
}

fn arrives_where_its_packet_is_lost<S: End>(mut pair: Pair<Connection, S>) {
    let acknowledgements = with_data(&mut pair, ONE_WAY);
    pair.client.write(ONE_WAY, &[], true);
    assert!(!datagrams(&mut pair.client).is_empty(), "the end leaves, and is lost");
    to_client(&mut pair.client, acknowledgements);
    ends(&mut pair, ONE_WAY);
}

#[test]
fn it_arrives_where_the_data_is_acknowledged_before_it_has_left() {
    arrives_where_the_data_is_acknowledged_first(tack_to_tack());
    arrives_where_the_data_is_acknowledged_first(tack_to_stock());
}

#[test]
fn it_arrives_where_its_packet_is_lost() {
    arrives_where_its_packet_is_lost(tack_to_tack());
    arrives_where_its_packet_is_lost(tack_to_stock());
}

/// A stream of several packets, the first of which is lost. It goes both ways: quiche does not forget it when its data
/// is acknowledged.
const SEVERAL_PACKETS: usize = 8000;

/// All of the stream has left, and what arrived is on the server.
fn with_its_first_packet_lost<S: End>(pair: &mut Pair<Connection, S>) {
    pair.handshake();
    assert_eq!(pair.client.write(BOTH_WAYS, &[7; SEVERAL_PACKETS], false), SEVERAL_PACKETS);
    let mut data = datagrams(&mut pair.client);
    assert!(data.len() > 4, "{} packets", data.len());
    data.remove(0);
    to_server(&mut pair.server, data);
}

fn another_stream_arrives<S: End>(pair: &mut Pair<Connection, S>) {
    pair.client.write(BOTH_WAYS + 4, &[8; SEVERAL_PACKETS], false);
    let data = datagrams(&mut pair.client);
    to_server(&mut pair.server, data);
}

fn arrives_where_it_is_lost_with_data_before_the_last<S: End>(mut pair: Pair<Connection, S>) {
    with_its_first_packet_lost(&mut pair);
    pair.client.write(BOTH_WAYS, &[], true);
    assert!(!datagrams(&mut pair.client).is_empty(), "the end leaves, and is lost");
    another_stream_arrives(&mut pair);
    let acknowledgements = acknowledgements(&mut pair.server);
    to_client(&mut pair.client, acknowledgements);
    ends_after(&mut pair, BOTH_WAYS, SEVERAL_PACKETS);
}

#[test]
fn it_arrives_where_it_is_lost_with_data_before_the_last() {
    arrives_where_it_is_lost_with_data_before_the_last(tack_to_tack());
    arrives_where_it_is_lost_with_data_before_the_last(tack_to_stock());
}

fn arrives_where_it_is_written_while_lost_data_waits<S: End>(mut pair: Pair<Connection, S>) {
    with_its_first_packet_lost(&mut pair);
    let acknowledgements = acknowledgements(&mut pair.server);
    to_client(&mut pair.client, acknowledgements);
    pair.client.write(BOTH_WAYS, &[], true);
    ends_after(&mut pair, BOTH_WAYS, SEVERAL_PACKETS);
}

#[test]
fn it_arrives_where_it_is_written_while_lost_data_waits() {
    arrives_where_it_is_written_while_lost_data_waits(tack_to_tack());
    arrives_where_it_is_written_while_lost_data_waits(tack_to_stock());
}

#[test]
fn it_arrives_where_reading_the_other_half_makes_quiche_forget_the_stream() {
    let mut pair = tack_to_tack();
    let acknowledgements = with_data(&mut pair, BOTH_WAYS);
    to_client(&mut pair.client, acknowledgements);
    pair.server.write(BOTH_WAYS, &[], true);
    let end = datagrams(&mut pair.server);
    to_client(&mut pair.client, end);
    pair.client.write(BOTH_WAYS, &[], true);
    let mut buffer = [0; 10];
    assert_eq!(pair.client.read(BOTH_WAYS, &mut buffer), Ok((0, true)));
    ends(&mut pair, BOTH_WAYS);
}

#[test]
fn a_stream_that_is_given_up_while_it_waits_to_send_gets_none() {
    let mut pair = tack_to_tack();
    pair.handshake();
    let (len, urgent) = (3000, ONE_WAY + 4);
    assert_eq!(pair.client.write(ONE_WAY, &vec![7; len], false), len);
    let mut buffer = [0; 1200];
    let (written, _) = pair.client.transmit(&mut buffer).unwrap();
    to_server(&mut pair.server, vec![buffer[..written].to_vec()]);
    pair.client.stream_priority(urgent, 0, false).unwrap();
    pair.client.write(urgent, &[8; 5000], false);
    pair.client.stream_shutdown(ONE_WAY, quiche::Shutdown::Write, 9).unwrap();
    let mut others = datagrams(&mut pair.client);
    assert!(
        others.len() > 3,
        "more urgent data fills the packet with the reset, which is lost"
    );
    others.remove(0);
    to_server(&mut pair.server, others);
    let mut read = 0;
    pair.run_until(|pair| match pair.server.read(ONE_WAY, &mut buffer) {
        Ok((len, is_end)) => {
            read += len;
            assert!(!is_end, "{read} bytes seem to be all of {len}");
            false
        }
        result => result == Err(quiche::Error::StreamReset(9)),
    });
}

#[test]
fn many_of_them_arrive() {
    let mut pair = tack_to_tack();
    pair.handshake();
    let streams = (0..40).map(|n| 2 + 4 * n);
    for stream_id in streams.clone() {
        pair.client.write(stream_id, &[1; 100], false);
    }
    let data = datagrams(&mut pair.client);
    to_server(&mut pair.server, data);
    let acknowledgements = acknowledgements(&mut pair.server);
    for stream_id in streams.clone() {
        pair.client.write(stream_id, &[], true);
    }
    to_client(&mut pair.client, acknowledgements);
    let mut left: Vec<_> = streams.collect();
    pair.run_until(|pair| {
        let mut buffer = [0; 200];
        left.retain(|id| !pair.server.read(*id, &mut buffer).is_ok_and(|(_, fin)| fin));
        left.is_empty()
    });
}

#[test]
fn more_of_them_than_a_packet_takes_arrive_where_quiche_repeats_one_itself() {
    let mut pair = tack_to_tack();
    pair.handshake();
    let streams = [BOTH_WAYS, 2, 6, 10, 14, 18, 22];
    for stream_id in streams {
        assert_eq!(pair.client.write(stream_id, &[7; 100], false), 100);
    }
    let data = datagrams(&mut pair.client);
    to_server(&mut pair.server, data);
    let of_data = acknowledgements(&mut pair.server);
    for stream_id in streams {
        pair.client.write(stream_id, &[], true);
    }
    assert!(!datagrams(&mut pair.client).is_empty(), "the ends leave, and are lost");
    to_client(&mut pair.client, of_data);
    another_stream_arrives(&mut pair);
    let of_other = acknowledgements(&mut pair.server);
    to_client(&mut pair.client, of_other);
    let mut left = streams.to_vec();
    pair.run_until(|pair| {
        let mut buffer = [0; 200];
        left.retain(|id| !pair.server.read(*id, &mut buffer).is_ok_and(|(_, fin)| fin));
        left.is_empty()
    });
}

/// Buffers that quiche takes without a copy.
#[derive(Clone, Debug, Default)]
struct Shared;

impl quiche::BufFactory for Shared {
    type Buf = bytes::Bytes;
    type DgramBuf = Vec<u8>;

    fn buf_from_slice(buf: &[u8]) -> Self::Buf {
        bytes::Bytes::copy_from_slice(buf)
    }

    fn dgram_buf_from_slice(buf: &[u8]) -> Vec<u8> {
        buf.to_vec()
    }
}

#[test]
fn it_arrives_where_it_is_written_as_an_empty_buffer() {
    let scid = quiche::ConnectionId::from_ref(&[0xc1; 16]);
    let (from, to) = (client_address(), server_address());
    let mut config = tack_config();
    let mut client =
        tacklib::connect_with_buffer_factory::<Shared>(None, &scid, from, to, &mut config)
            .unwrap();
    let mut server = tack_server(&mut tack_config());
    let run = |client: &mut Connection<Shared>, server: &mut Connection, returns: bool| {
        let (mut out, mut kept) = ([0; 2000], Vec::new());
        for _ in 0..60 {
            while let Ok((len, _)) = client.send(&mut out) {
                server.recv(&mut out[..len], RecvInfo { from, to }).unwrap();
            }
            while let Ok((len, _)) = server.send(&mut out) {
                kept.push(out[..len].to_vec());
            }
            if returns {
                for mut datagram in kept.drain(..) {
                    client.recv(&mut datagram, RecvInfo { from: to, to: from }).unwrap();
                }
            }
            advance(Duration::from_millis(1));
        }
        kept
    };
    run(&mut client, &mut server, true);
    assert_eq!(client.stream_send(ONE_WAY, &[7; 1000], false), Ok(1000));
    let acknowledgements = run(&mut client, &mut server, false);
    client.stream_send_zc(ONE_WAY, bytes::Bytes::new(), true).unwrap();
    for mut datagram in acknowledgements {
        client.recv(&mut datagram, RecvInfo { from: to, to: from }).unwrap();
    }
    run(&mut client, &mut server, true);
    assert_eq!(server.stream_recv(ONE_WAY, &mut [0; 2000]), Ok((1000, true)));
}

/// Whether the client takes the stream for delivered; the server, which does, has its end then.
fn is_delivered<S: End>(pair: &mut Pair<Connection, S>, stream_id: u64) -> bool {
    let delivered = pair.client.stream_delivered(stream_id);
    if delivered {
        let mut buffer = [0; 2000];
        assert_eq!(pair.server.read(stream_id, &mut buffer), Ok((1000, true)));
    }
    delivered
}

#[test]
fn a_stream_is_delivered_when_its_end_is_and_no_sooner() {
    fn run<S: End>(mut pair: Pair<Connection, S>, stream_id: u64) {
        let acknowledgements = with_data(&mut pair, stream_id);
        assert!(!pair.client.stream_delivered(stream_id), "it is in flight");
        pair.client.write(stream_id, &[], true);
        assert!(!datagrams(&mut pair.client).is_empty(), "the end leaves, and is lost");
        to_client(&mut pair.client, acknowledgements);
        assert!(!pair.client.stream_delivered(stream_id), "its end is lost");
        pair.run_until(|pair| is_delivered(pair, stream_id));
    }
    for stream_id in [ONE_WAY, BOTH_WAYS] {
        run(tack_to_tack(), stream_id);
        run(tack_to_stock(), stream_id);
    }
}

#[test]
fn a_stream_that_was_never_opened_is_not_delivered() {
    let mut pair = tack_to_tack();
    pair.handshake();
    pair.run_for(Duration::from_millis(200));
    for stream_id in [ONE_WAY, BOTH_WAYS] {
        assert!(!pair.client.stream_delivered(stream_id));
    }
}

/// What had not left when the stop came is not sent: the stream is shorter than its end, written alone, says.
#[test]
fn it_is_given_up_with_a_stream_that_the_peer_stops() {
    for stream_id in [ONE_WAY, BOTH_WAYS] {
        let mut pair = tack_to_tack();
        pair.handshake();
        let data = pattern(200_000);
        let written = pair.client.write(stream_id, &data, false);
        pair.client.write(stream_id, &[], true);
        let mut buffer = [0; 100];
        pair.run_until(|pair| pair.server.read(stream_id, &mut buffer).is_ok());
        assert!(pair.client.media_stats().backlog > 0, "all of {written} bytes have left");
        pair.server.stream_shutdown(stream_id, quiche::Shutdown::Read, 7).unwrap();
        if stream_id == BOTH_WAYS {
            pair.server.write(stream_id, &[], true);
        }
        let until = Instant::now() + Duration::from_secs(2);
        pair.run_until(|pair| {
            // quiche forgets the stream when it has told the stop.
            let _ = pair.client.stream_capacity(stream_id);
            let _ = pair.client.read(stream_id, &mut buffer);
            Instant::now() >= until
        });
        for end in [&pair.client, &pair.server] {
            let errors = (end.local_error(), end.peer_error());
            assert_eq!(errors, (None, None), "stream {stream_id}");
        }
    }
}

/// RFC 9000 section 3.2 lets a receiver that has all of a stream ignore that it is reset.
#[test]
fn a_stream_that_goes_both_ways_and_is_reset_behind_its_end_is_read_in_full() {
    let mut pair = tack_to_tack();
    pair.handshake();
    assert_eq!(pair.client.write(BOTH_WAYS, b"a question", true), 10);
    pair.run_for(Duration::from_millis(200));
    pair.client.stream_shutdown(BOTH_WAYS, quiche::Shutdown::Write, 31).unwrap();
    pair.run_for(Duration::from_millis(200));
    let mut buffer = [0; 100];
    assert!(pair.server.stream_readable(BOTH_WAYS));
    assert_eq!(pair.server.read(BOTH_WAYS, &mut buffer[..4]), Ok((4, false)));
    assert_eq!(pair.server.read(BOTH_WAYS, &mut buffer), Ok((6, true)));
    assert_eq!(&buffer[..6], b"estion");
    pair.server.write(BOTH_WAYS, b"an answer", true);
    pair.run_for(Duration::from_millis(200));
    assert_eq!(pair.client.read(BOTH_WAYS, &mut buffer), Ok((9, true)));
    assert_eq!(pair.server.local_error(), None);
}

#[test]
fn of_a_stream_that_is_reset_behind_its_end_nothing_can_be_read_but_the_reset() {
    let mut pair = tack_to_tack();
    pair.handshake();
    // The client does not hear that all has come: a stream of which it had would be over for it.
    pair.tamper_down(Box::new(|_| None));
    assert_eq!(pair.client.write(ONE_WAY, b"a frame", true), 7);
    pair.run_for(Duration::from_millis(20));
    pair.client.stream_shutdown(ONE_WAY, quiche::Shutdown::Write, 7).unwrap();
    pair.run_for(Duration::from_millis(20));
    assert!(pair.server.stream_readable(ONE_WAY));
    assert_eq!(pair.server.stream_readable_len(ONE_WAY, usize::MAX), 0);
    let read = pair.server.read(ONE_WAY, &mut [0; 100]);
    assert_eq!(read, Err(quiche::Error::StreamReset(7)));
}

/// quiche tells a peer that it may open other streams in a packet that it is asked for. The layer asks when the end of
/// a stream has been acknowledged; one that was written when an acknowledgement came has not left yet.
#[test]
fn the_end_of_a_stream_that_leaves_behind_an_acknowledgement_lets_the_peer_open_others() {
    const STREAMS: u64 = 4;
    let mut config = tack_config();
    config.set_initial_max_streams_bidi(STREAMS);
    let mut pair = Pair::new(tack_client(&mut tack_config()), tack_server(&mut config));
    pair.handshake();
    for index in 0..STREAMS {
        assert_eq!(pair.client.write(4 * index, b"question", true), 8);
    }
    pair.run_for(Duration::from_millis(200));
    let mut buffer = [0; 100];
    for index in 0..STREAMS {
        assert_eq!(pair.server.read(4 * index, &mut buffer), Ok((8, true)));
    }
    pair.run_for(Duration::from_millis(200));
    assert_eq!(pair.client.peer_streams_left_bidi(), 0);
    assert_eq!(pair.server.write(0, b"answer", true), 6);
    let answer = datagrams(&mut pair.server);
    to_client(&mut pair.client, answer);
    let first = acknowledgements(&mut pair.client);
    for index in 1..STREAMS {
        assert_eq!(pair.server.write(4 * index, b"answer", true), 6);
    }
    to_server(&mut pair.server, first);
    // Neither end writes anything more.
    pair.run_for(Duration::from_secs(1));
    assert_eq!(pair.client.peer_streams_left_bidi(), STREAMS);
}

/// The client has sent what it may of a stream of `len` bytes, the first packet of it twice. The datagrams that the server
/// does not have.
fn with_a_full_window(
    stream_id: u64,
    len: usize,
) -> (Pair<Connection, quiche::Connection>, Vec<Vec<u8>>) {
    let mut pair = tack_to_stock();
    pair.handshake();
    assert_eq!(pair.client.write(stream_id, &vec![7; len], false), len);
    let mut buffer = [0; 2000];
    let mut next = || pair.client.transmit(&mut buffer).map(|(len, _)| buffer[..len].to_vec());
    let mut first: Vec<_> = (0..4).map_while(|_| next()).collect();
    assert_eq!(first.len(), 4);
    first.remove(0);
    to_server(&mut pair.server, first);
    let acknowledgements = acknowledgements(&mut pair.server);
    to_client(&mut pair.client, acknowledgements);
    let mut later = Vec::new();
    for _ in 0..50 {
        later.extend(datagrams(&mut pair.client));
        advance(Duration::from_millis(1));
    }
    (pair, later)
}

/// Where a stream ends is what was written to it, and not what has left, also where as many bytes have left as were
/// written.
#[test]
fn it_does_not_leave_before_the_last_data_has_where_other_data_was_repeated() {
    const MUCH: usize = 100_000;
    for stream_id in [ONE_WAY, BOTH_WAYS] {
        let (pair, _) = with_a_full_window(stream_id, MUCH);
        let fits = MUCH - pair.client.media_stats().backlog as usize;
        let (mut pair, mut later) = with_a_full_window(stream_id, fits + 1000);
        assert_eq!(pair.client.media_stats().backlog, 1000);
        assert!(pair.client.stats().stream_retrans_bytes > 1000);
        pair.client.write(stream_id, &[], true);
        later.extend(datagrams(&mut pair.client));
        pair.client.stream_shutdown(stream_id, quiche::Shutdown::Write, 9).unwrap();
        to_server(&mut pair.server, later);
        pair.run_for(Duration::from_millis(500));
        assert_eq!(pair.server.local_error(), None, "stream {stream_id}");
    }
}
