//! Streams that the peer resets behind their end, and what comes of streams that are over.

#![allow(clippy::unwrap_used)] // a test that cannot be set up has failed

mod common;

use std::cell::RefCell;
use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

use common::log::Log;
use common::*;
use quiche::{Error, Shutdown};
use tack_packet::{CipherSuite, ProtectionKeys, TAG_LEN};
use tack_proto::varint;
use tacklib::{Config, Connection};

/// The client's first unidirectional stream.
const ONE_WAY: u64 = 2;

/// Streams that the client may open at first, of a kind.
const STREAMS: u64 = 40;

const RESET: u64 = 7;

/// What one packet brings of a stream.
const PIECE: u64 = 10_000;

/// A plain client whose packets say what a test wants.
struct Ends {
    pair: Pair<quiche::Connection, Connection>,
    says: Rc<RefCell<VecDeque<Vec<u8>>>>,
}

fn server_config(streams: u64) -> Config {
    let mut config = tack_config();
    config.set_initial_max_streams_uni(streams);
    config.set_initial_max_streams_bidi(streams);
    config
}

impl Ends {
    fn new(streams: u64) -> Self {
        let mut client = stock_config();
        client.log_keys();
        let secrets = Log::default();
        let mut connection = stock_client(&mut client);
        connection.set_keylog(Box::new(secrets.clone()));
        let mut pair = Pair::new(connection, tack_server(&mut server_config(streams)));
        pair.handshake();
        pair.run_for(Duration::from_millis(100));
        let name = pair.client.as_mut().current_cipher().unwrap().name().to_owned();
        let suite = CipherSuite::from_name(&name).unwrap();
        let mut keys =
            ProtectionKeys::new(suite, &secrets.secret("CLIENT_TRAFFIC_SECRET_0")).unwrap();
        let says = Rc::new(RefCell::new(VecDeque::new()));
        let (waiting, mut next) = (Rc::clone(&says), 0);
        pair.tamper_up(Box::new(move |mut packet| {
            let opened = keys.open(&mut packet, 16, next).unwrap();
            next = opened.header.packet_number + 1;
            let Some(frames): Option<Vec<u8>> = waiting.borrow_mut().pop_front() else {
                let len = packet.len() - opened.payload.start - TAG_LEN;
                keys.seal(opened.generation, &mut packet, &opened.header, len).unwrap();
                return Some(packet);
            };
            packet.truncate(opened.payload.start);
            packet.extend_from_slice(&frames);
            packet.resize(packet.len() + TAG_LEN, 0);
            keys.seal(opened.generation, &mut packet, &opened.header, frames.len()).unwrap();
            Some(packet)
        }));
        Self { pair, says }
    }

    /// Has the server get a packet with these frames.
    fn inject(&mut self, frames: Vec<u8>) {
        self.says.borrow_mut().push_back(frames);
        self.pair.client.send_ack_eliciting().unwrap();
        self.pair.run_for(Duration::from_millis(2));
        assert!(self.says.borrow().is_empty());
        assert_eq!(self.pair.server.local_error(), None);
    }

    /// All of a stream of `len` bytes but its first `missing` ones.
    fn inject_stream(&mut self, stream_id: u64, missing: u64, len: u64) {
        let mut at = missing;
        while at < len {
            let end = (at + PIECE).min(len);
            self.inject(stream(stream_id, at, end - at, end == len));
            at = end;
        }
    }

    /// quiche tells the client only where few streams are left.
    fn assert_given_back(&mut self, ids: impl Iterator<Item = u64>) {
        for stream_id in ids {
            let known = self.pair.server.stream_capacity(stream_id);
            assert_eq!(known, Err(Error::InvalidStreamState(stream_id)));
        }
        self.pair.run_for(Duration::from_millis(100));
        let more = self.pair.client.peer_streams_left_uni() - STREAMS;
        assert!(more > STREAMS / 2, "{more} more streams");
    }

    fn read(&mut self, stream_id: u64) -> quiche::Result<(usize, bool)> {
        self.pair.server.stream_recv(stream_id, &mut [0; 2000])
    }
}

/// The client's first unidirectional streams.
fn ids() -> impl Iterator<Item = u64> {
    (0..STREAMS).map(|at| ONE_WAY + 4 * at)
}

/// A STREAM frame with an offset and a length, and the end if `fin`.
fn stream(stream_id: u64, offset: u64, len: u64, fin: bool) -> Vec<u8> {
    let mut frame = vec![0x0e | u8::from(fin)];
    for value in [stream_id, offset, len] {
        varint::put(&mut frame, value);
    }
    frame.resize(frame.len() + usize::try_from(len).unwrap(), b'x');
    frame
}

fn reset(stream_id: u64, final_size: u64) -> Vec<u8> {
    let mut frame = vec![0x04];
    for value in [stream_id, RESET, final_size] {
        varint::put(&mut frame, value);
    }
    frame
}

#[test]
fn a_long_stream_that_lacks_its_first_packet_is_told_and_gives_its_place_back() {
    let mut ends = Ends::new(STREAMS);
    for stream_id in ids() {
        let len = if stream_id == ONE_WAY { 600_000 } else { 10 };
        ends.inject_stream(stream_id, 1, len);
        ends.inject(reset(stream_id, len));
        assert_eq!(ends.read(stream_id), Err(Error::StreamReset(RESET)));
    }
    ends.assert_given_back(ids());
}

#[test]
fn streams_that_are_reset_together_are_told_and_give_their_places_back() {
    let mut ends = Ends::new(STREAMS);
    for stream_id in ids() {
        ends.inject_stream(stream_id, 1, 50_000);
    }
    ends.inject(ids().flat_map(|stream_id| reset(stream_id, 50_000)).collect());
    for stream_id in ids() {
        assert_eq!(ends.read(stream_id), Err(Error::StreamReset(RESET)), "{stream_id}");
    }
    ends.assert_given_back(ids());
}

/// Whether the server knows a stream no more.
fn is_gone(ends: &mut Ends, stream_id: u64) -> bool {
    ends.pair.server.stream_capacity(stream_id) == Err(Error::InvalidStreamState(stream_id))
}

#[test]
fn a_stream_of_which_little_has_come_is_told_of_and_gone_once_as_much_has_as_it_lacks() {
    let mut ends = Ends::new(STREAMS);
    // Of a part of its window a byte has come.
    ends.inject(stream(ONE_WAY, 999_999, 1, true));
    ends.inject(reset(ONE_WAY, 1_000_000));
    assert_eq!(ends.read(ONE_WAY), Err(Error::StreamReset(RESET)));
    // A reset that is repeated changes nothing.
    ends.inject(reset(ONE_WAY, 1_000_000));
    assert_eq!(ends.read(ONE_WAY), Err(Error::Done));
    let readable = |ends: &mut Ends| ends.pair.server.stream_readable_next();
    assert_eq!(readable(&mut ends), None);
    let mut came = 0;
    while !is_gone(&mut ends, ONE_WAY) {
        assert!(came < 2_000_000);
        ends.inject(stream(ONE_WAY + 4, came, PIECE, false));
        came += PIECE;
        assert_eq!(readable(&mut ends), Some(ONE_WAY + 4), "what fills it is not");
        while ends.read(ONE_WAY + 4).is_ok() {}
    }
    assert!(came > 300_000, "gone after {came} bytes");
}

/// What fills a stream goes in with packets, which a client does not send that may open no more streams.
#[test]
fn long_streams_that_lack_all_give_their_places_back_although_the_client_is_silent() {
    let mut ends = Ends::new(STREAMS);
    for stream_id in ids() {
        ends.inject(stream(stream_id, 4_999, 1, true));
    }
    ends.inject(ids().flat_map(|stream_id| reset(stream_id, 5_000)).collect());
    for stream_id in ids() {
        assert_eq!(ends.read(stream_id), Err(Error::StreamReset(RESET)), "{stream_id}");
    }
    ends.pair.run_for(Duration::from_secs(2));
    ends.assert_given_back(ids());
    let sent = ends.pair.packets().1;
    ends.pair.run_for(Duration::from_secs(2));
    assert!(ends.pair.packets().1 <= sent + 2, "it asks for packets for ever");
}

#[test]
fn a_long_stream_that_was_stopped_and_lacks_all_gives_its_place_back() {
    let mut ends = Ends::new(STREAMS);
    for stream_id in ids() {
        // Nothing of it leaves, but it is known.
        ends.pair.client.stream_send(stream_id, b"", false).unwrap();
        ends.inject(stream(stream_id, 4_999, 1, true));
        ends.pair.server.stream_shutdown(stream_id, Shutdown::Read, 9).unwrap();
        ends.inject(reset(stream_id, 5_000));
        assert_eq!(ends.pair.server.stream_readable_next(), None);
    }
    ends.pair.run_for(Duration::from_secs(2));
    for stream_id in ids() {
        assert!(is_gone(&mut ends, stream_id), "{stream_id}");
    }
    let more = ends.pair.client.peer_streams_left_uni();
    assert!(more > STREAMS / 2, "{more} more streams");
}

/// RFC 9000 section 4.5.
#[test]
fn a_reset_with_another_final_size_closes_the_connection() {
    const FINAL_SIZE_ERROR: u64 = 0x06;
    for final_size in [8, 9, 11] {
        let mut ends = Ends::new(STREAMS);
        ends.inject(stream(ONE_WAY, 9, 1, true));
        ends.says.borrow_mut().push_back(reset(ONE_WAY, final_size));
        ends.pair.client.send_ack_eliciting().unwrap();
        ends.pair.run_for(Duration::from_millis(20));
        let error = ends.pair.server.local_error().map(|error| error.error_code);
        assert_eq!(error, Some(FINAL_SIZE_ERROR), "10 and then {final_size}");
    }
}

/// All data was read before the end came, and the end was not.
#[test]
fn a_reset_behind_an_end_that_was_not_read_gives_the_place_back_too() {
    let mut ends = Ends::new(STREAMS);
    for stream_id in ids() {
        ends.inject(stream(stream_id, 0, 10, false));
        assert_eq!(ends.read(stream_id), Ok((10, false)));
        ends.inject(stream(stream_id, 10, 0, true));
        ends.inject(reset(stream_id, 10));
        assert_eq!(ends.read(stream_id), Err(Error::StreamReset(RESET)));
    }
    ends.assert_given_back(ids());
}

#[test]
fn what_is_repeated_of_streams_that_are_over_takes_no_room_from_others() {
    const OVER: u64 = 1100;
    let mut ends = Ends::new(OVER + 10);
    let ids = (0..OVER).map(|at| ONE_WAY + 4 * at);
    let whole = |ids: &[u64]| ids.iter().flat_map(|id| stream(*id, 0, 1, true)).collect();
    for ids in ids.clone().collect::<Vec<_>>().chunks(100) {
        ends.inject(whole(ids));
        for &stream_id in ids {
            assert_eq!(ends.read(stream_id), Ok((1, true)));
        }
    }
    // An acknowledgement was lost, and all is sent again.
    for ids in ids.collect::<Vec<_>>().chunks(100) {
        ends.inject(whole(ids));
    }
    let stream_id = ONE_WAY + 4 * OVER;
    ends.inject(stream(stream_id, 1, 9, true));
    ends.inject(reset(stream_id, 10));
    assert_eq!(ends.read(stream_id), Err(Error::StreamReset(RESET)));
}

/// RFC 9000 section 8.1. quiche counts what it is given.
#[test]
fn what_is_filled_is_not_sent_three_times_to_an_address_that_is_not_proven() {
    let mut ends = Ends::new(STREAMS);
    ends.inject(stream(ONE_WAY, 99_999, 1, true));
    let other = SocketAddr::from((Ipv4Addr::new(127, 0, 0, 2), 5000));
    ends.pair.tamper_down(Box::new(|_| None));
    ends.pair.rebind(other);
    ends.pair.server.stream_send(3, &vec![0; 500_000], true).unwrap();
    ends.inject(vec![0x01; 4]);
    ends.inject(reset(ONE_WAY, 100_000));
    ends.pair.run_for(Duration::from_millis(200));
    let (came, sent) = ends.pair.bytes(other);
    assert!(came > 0 && sent <= 3 * came, "{sent} bytes after {came}");
}
