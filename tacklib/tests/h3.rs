//! HTTP/3 through `tacklib::h3`.

#![allow(clippy::unwrap_used)] // a test that cannot be set up has failed

mod common;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use common::*;
use tacklib::h3::{self, NameValue};
use tacklib::{Config, Connection, Profile};

/// A client and a server with HTTP/3 over them.
struct Web {
    pair: Pair<Connection, Connection>,
    client: Side,
    server: Side,
}

/// One end: what it has to send and what has come, by stream.
struct Side {
    http: h3::Connection,
    bodies: BTreeMap<u64, Body>,
    events: Vec<(u64, h3::Event)>,
    received: BTreeMap<u64, Vec<u8>>,
    finished: Vec<u64>,
}

struct Body {
    data: Vec<u8>,
    sent: usize,
    trailers: Option<Vec<h3::Header>>,
}

impl Side {
    fn new(connection: &mut Connection) -> Self {
        let config = h3::Config::new().unwrap();
        Self {
            http: h3::Connection::with_transport(connection, &config).unwrap(),
            bodies: BTreeMap::new(),
            events: Vec::new(),
            received: BTreeMap::new(),
            finished: Vec::new(),
        }
    }

    fn body(&mut self, stream: u64, data: Vec<u8>, trailers: Option<Vec<h3::Header>>) {
        self.bodies.insert(stream, Body { data, sent: 0, trailers });
    }

    /// Reads and writes all that goes.
    fn step(&mut self, connection: &mut Connection) {
        let mut buffer = [0; 10_000];
        loop {
            match self.http.poll(connection) {
                Ok((stream, h3::Event::Data)) => {
                    while let Ok(len) = self.http.recv_body(connection, stream, &mut buffer) {
                        self.received.entry(stream).or_default().extend(&buffer[..len]);
                    }
                }
                Ok((stream, h3::Event::Finished)) => self.finished.push(stream),
                Ok(event) => self.events.push(event),
                Err(h3::Error::Done) => break,
                Err(error) => panic!("{error:?}"),
            }
        }
        let http = &mut self.http;
        self.bodies.retain(|stream, body| !body.write(http, connection, *stream));
    }

    fn head(&self, stream: u64) -> Option<&[h3::Header]> {
        self.events.iter().find_map(|(id, event)| match event {
            h3::Event::Headers { list, .. } if *id == stream => Some(&list[..]),
            _ => None,
        })
    }
}

impl Body {
    /// Whether all of it is written.
    fn write(
        &mut self,
        http: &mut h3::Connection,
        connection: &mut Connection,
        stream: u64,
    ) -> bool {
        let fin = self.trailers.is_none();
        while self.sent < self.data.len() {
            match http.send_body(connection, stream, &self.data[self.sent..], fin) {
                Ok(len) => self.sent += len,
                Err(h3::Error::Done) => return false,
                Err(error) => panic!("{error:?}"),
            }
        }
        let Some(trailers) = &self.trailers else { return true };
        match http.send_additional_headers(connection, stream, trailers, true, true) {
            Ok(()) => true,
            Err(h3::Error::StreamBlocked) => false,
            Err(error) => panic!("{error:?}"),
        }
    }
}

impl Web {
    fn new(client: &mut Config, server: &mut Config) -> Self {
        let mut pair = Pair::new(tack_client(client), tack_server(server))
            .with_delay(Duration::from_millis(5));
        pair.handshake();
        let client = Side::new(&mut pair.client);
        let server = Side::new(&mut pair.server);
        Self { pair, client, server }
    }

    fn plain() -> Self {
        Self::new(&mut tack_config(), &mut tack_config())
    }

    fn run_until(
        &mut self,
        mut done: impl FnMut(&mut Side, &mut Side, &mut Connection) -> bool,
    ) {
        let (client, server) = (&mut self.client, &mut self.server);
        self.pair.run_until(|pair| {
            client.step(&mut pair.client);
            server.step(&mut pair.server);
            done(client, server, &mut pair.server)
        });
    }

    fn request(&mut self, fin: bool) -> u64 {
        let request = request();
        self.client.http.send_request(&mut self.pair.client, &request, fin).unwrap()
    }

    /// The server has the head of the request and answers it.
    fn answer(&mut self, stream: u64) {
        self.run_until(|_, server, _| server.head(stream).is_some());
        let response = [h3::Header::new(b":status", b"200")];
        let (http, connection) = (&mut self.server.http, &mut self.pair.server);
        http.send_response(connection, stream, &response, false).unwrap();
    }
}

fn request() -> [h3::Header; 4] {
    let fields: [(&[u8], &[u8]); 4] = [
        (b":method", b"POST"),
        (b":scheme", b"https"),
        (b":authority", b"localhost"),
        (b":path", b"/video"),
    ];
    fields.map(|(name, value)| h3::Header::new(name, value))
}

#[test]
fn bodies_are_transferred_both_ways_with_few_acknowledgements() {
    const LEN: usize = 3 << 20;
    let mut web = Web::plain();
    let start = Instant::now();
    let stream = web.request(false);
    web.client.body(stream, pattern(LEN), None);
    web.answer(stream);
    web.server.body(stream, pattern(LEN), None);
    web.run_until(|client, server, _| {
        !client.finished.is_empty() && !server.finished.is_empty()
    });
    assert!(web.client.received[&stream] == pattern(LEN));
    assert!(web.server.received[&stream] == pattern(LEN));
    assert_eq!(web.client.head(stream).unwrap()[0].value(), b"200");
    // A TACK for each 5 ms would be twice as many as the schedule has, on any machine; plain quiche
    // sends one for almost every packet.
    let intervals = start.elapsed().as_millis() as u64 / 5;
    for end in [&web.pair.client, &web.pair.server] {
        let stats = end.tack_stats();
        assert!(stats.delayed_acks_instead > 1000, "{stats:?}");
        assert!(stats.tacks_sent < intervals + 100, "{stats:?} after {:?}", start.elapsed());
    }
}

#[test]
fn a_small_window_is_reopened_while_a_body_is_read() {
    let (mut client, mut server) = (tack_config(), tack_config());
    server.set_initial_max_data(60_000);
    server.set_initial_max_stream_data_bidi_remote(40_000);
    server.set_max_stream_window(40_000);
    server.set_max_connection_window(60_000);
    let mut web = Web::new(&mut client, &mut server);
    let stream = web.request(false);
    web.client.body(stream, pattern(600_000), None);
    web.run_until(|_, server, _| !server.finished.is_empty());
    assert!(web.server.received[&stream] == pattern(600_000));
    let stats = web.pair.server.tack_stats();
    assert!(stats.tacks_sent < 400, "{}", stats.tacks_sent);
}

#[test]
fn trailers_follow_a_body() {
    let mut web = Web::plain();
    let stream = web.request(true);
    web.answer(stream);
    let trailers = vec![h3::Header::new(b"x-sum", b"42")];
    web.server.body(stream, pattern(50_000), Some(trailers.clone()));
    web.run_until(|client, _, _| !client.finished.is_empty());
    assert!(web.client.received[&stream] == pattern(50_000));
    let last = web.client.events.iter().rev().find_map(|(_, event)| match event {
        h3::Event::Headers { list, .. } => Some(list),
        _ => None,
    });
    assert_eq!(last, Some(&trailers));
}

#[test]
fn many_requests_are_answered_at_once() {
    let mut web = Web::plain();
    let streams: Vec<u64> = (0..50).map(|_| web.request(true)).collect();
    for &stream in &streams {
        web.answer(stream);
        web.server.body(stream, pattern(20_000 + stream as usize), None);
    }
    web.run_until(|client, _, _| client.finished.len() == streams.len());
    for stream in streams {
        assert!(web.client.received[&stream] == pattern(20_000 + stream as usize));
    }
}

#[test]
fn an_empty_answer_ends() {
    let mut web = Web::plain();
    let stream = web.request(true);
    web.answer(stream);
    let (http, connection) = (&mut web.server.http, &mut web.pair.server);
    http.send_body(connection, stream, b"", true).unwrap();
    web.run_until(|client, _, _| !client.finished.is_empty());
    assert_eq!(web.client.received.get(&stream), None);
}

#[test]
fn a_body_is_taken_as_far_as_the_send_buffer_has_room_and_more_when_there_is_some() {
    const BUFFER: usize = 100_000;
    let (mut client, mut server) = (tack_config(), tack_config());
    let mut tack = *client.tack();
    tack.send_buffer = BUFFER;
    client.set_tack(tack);
    let mut web = Web::new(&mut client, &mut server);
    let stream = web.request(false);
    let data = pattern(BUFFER * 3);
    let (http, connection) = (&mut web.client.http, &mut web.pair.client);
    let first = http.send_body(connection, stream, &data, true).unwrap();
    assert!((BUFFER - 1000..BUFFER).contains(&first), "{first}");
    let mut sent = first;
    while let Ok(more) = http.send_body(connection, stream, &data[sent..], true) {
        sent += more;
    }
    assert!(sent < BUFFER);
    assert_eq!(http.send_body(connection, stream, &data[sent..], true), Err(h3::Error::Done));
    assert_eq!(
        http.send_request(connection, &request(), true),
        Err(h3::Error::StreamBlocked),
        "no room for HEADERS either"
    );
    web.client.body(stream, data.clone(), None);
    web.client.bodies.get_mut(&stream).unwrap().sent = sent;
    web.run_until(|_, server, _| !server.finished.is_empty());
    assert!(web.server.received[&stream] == data);
    assert_eq!(web.request(true), stream + 4, "no stream was skipped");
}

#[test]
fn a_write_that_is_taken_in_part_is_reported_when_there_is_room() {
    let (mut client, mut server) = (tack_config(), tack_config());
    let mut tack = *server.tack();
    tack.send_buffer = 50_000;
    server.set_tack(tack);
    let mut web = Web::new(&mut client, &mut server);
    let stream = web.request(true);
    // A response is not incremental: quiche marks it as writable only where it was short itself.
    web.answer(stream);
    let (http, connection) = (&mut web.server.http, &mut web.pair.server);
    while connection.stream_writable_next().is_some() {}
    let taken = http.send_body(connection, stream, &vec![7; 100_000], true).unwrap();
    assert!(taken < 50_000);
    web.pair.run_until(|pair| pair.server.stream_writable_next() == Some(stream));
}

#[test]
fn after_goaway_there_are_no_more_requests() {
    let mut web = Web::plain();
    let stream = web.request(true);
    web.answer(stream);
    let (http, connection) = (&mut web.server.http, &mut web.pair.server);
    http.send_goaway(connection, stream).unwrap();
    web.run_until(|client, _, _| client.events.contains(&(stream, h3::Event::GoAway)));
    let refused = web.client.http.send_request(&mut web.pair.client, &request(), true);
    assert_eq!(refused, Err(h3::Error::FrameUnexpected));
}

#[test]
fn a_priority_update_gets_to_the_server() {
    let mut web = Web::plain();
    let stream = web.request(false);
    let priority = h3::Priority::new(1, true);
    let (http, connection) = (&mut web.client.http, &mut web.pair.client);
    http.send_priority_update_for_request(connection, stream, &priority).unwrap();
    web.run_until(|_, server, _| server.events.contains(&(stream, h3::Event::PriorityUpdate)));
    assert_eq!(web.server.http.take_last_priority_update(stream).unwrap(), b"u=1,i");
}

#[test]
fn settings_and_datagrams_are_quiches() {
    let (mut client, mut server) = (tack_config(), tack_config());
    for config in [&mut client, &mut server] {
        config.enable_dgram(true, 100, 100);
    }
    let mut web = Web::new(&mut client, &mut server);
    web.run_until(|client, server, _| {
        client.http.peer_settings_raw().is_some() && server.http.peer_settings_raw().is_some()
    });
    assert!(web.client.http.dgram_enabled_by_peer(&web.pair.client));
    assert!(!web.client.http.extended_connect_enabled_by_peer());
    assert_eq!(web.client.http.stats().qpack_encoder_stream_recv_bytes, 0);
    web.pair.client.dgram_send(b"hello").unwrap();
    let mut buffer = [0; 100];
    web.run_until(|_, _, server| server.dgram_recv(&mut buffer) == Ok(5));
}

#[test]
fn a_stream_that_the_peer_stops_is_an_error_and_not_a_wait() {
    let mut web = Web::plain();
    let stream = web.request(false);
    web.run_until(|_, server, _| server.head(stream).is_some());
    web.pair.server.stream_shutdown(stream, quiche::Shutdown::Read, 7).unwrap();
    let (http, mut error) = (&mut web.client.http, None);
    web.pair.run_until(|pair| {
        match http.send_body(&mut pair.client, stream, b"more", false) {
            Ok(_) | Err(h3::Error::Done) => {}
            Err(other) => error = Some(other),
        }
        error.is_some()
    });
    assert_eq!(error, Some(h3::Error::TransportError(quiche::Error::StreamStopped(7))));
}

#[test]
fn each_round_of_requests_gets_new_streams_although_the_answers_go_before_the_bodies_are_read()
{
    const STREAMS: u64 = 4;
    let (mut client, mut server) = (tack_config(), tack_config());
    server.set_initial_max_streams_bidi(STREAMS);
    let mut web = Web::new(&mut client, &mut server);
    let mut buffer = [0; 10_000];
    for round in 0..3 {
        let streams: Vec<u64> = (0..STREAMS).map(|_| web.request(false)).collect();
        assert_eq!(streams[0], round * STREAMS * 4);
        for &stream in &streams {
            web.client.body(stream, pattern(1000), None);
        }
        let (client, http, connection) = (&mut web.client, &mut web.server.http, &mut web.pair);
        let mut answered = 0;
        connection.run_until(|pair| {
            client.step(&mut pair.client);
            while let Ok((stream, event)) = http.poll(&mut pair.server) {
                if matches!(event, h3::Event::Headers { .. }) {
                    let response = [h3::Header::new(b":status", b"200")];
                    http.send_response(&mut pair.server, stream, &response, true).unwrap();
                    answered += 1;
                }
            }
            answered == STREAMS
        });
        web.pair.run_for(Duration::from_millis(200));
        for stream in streams {
            // As programs do that read until there is nothing.
            while web.server.http.recv_body(&mut web.pair.server, stream, &mut buffer).is_ok() {
            }
        }
        web.client.step(&mut web.pair.client);
        web.pair.run_for(Duration::from_millis(200));
        assert_eq!(web.pair.client.peer_streams_left_bidi(), STREAMS, "round {round}");
    }
}

/// Buffers that are sent without a copy.
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

/// A client whose buffers are shared, and its server.
struct Ends {
    client: Connection<Shared>,
    server: Connection,
}

impl Ends {
    fn new() -> Self {
        Self::with(&mut tack_config(), &mut tack_config())
    }

    fn with(client: &mut Config, server: &mut Config) -> Self {
        let scid = quiche::ConnectionId::from_ref(&[0xc1; 16]);
        let (from, to) = (client_address(), server_address());
        let client = tacklib::connect_with_buffer_factory(None, &scid, from, to, client);
        let mut ends = Self { client: client.unwrap(), server: tack_server(server) };
        ends.exchange();
        assert!(ends.client.is_established());
        ends
    }

    /// What both have to say now, and in the next 100 ms.
    fn exchange(&mut self) {
        let mut out = vec![0; 2000];
        for _ in 0..100 {
            while let Ok((len, info)) = self.client.send(&mut out) {
                let info = quiche::RecvInfo { from: info.from, to: info.to };
                self.server.recv(&mut out[..len], info).unwrap();
            }
            while let Ok((len, info)) = self.server.send(&mut out) {
                let info = quiche::RecvInfo { from: info.from, to: info.to };
                self.client.recv(&mut out[..len], info).unwrap();
            }
            advance(Duration::from_millis(1));
        }
    }
}

#[test]
fn a_body_without_a_copy_stays_whole_where_it_is_refused() {
    let mut ends = Ends::new();
    let config = h3::Config::new().unwrap();
    let mut http = h3::Connection::with_transport(&mut ends.client, &config).unwrap();
    let longer_than_the_buffer = pattern(tack_config().tack().send_buffer + 100_000);
    let mut body = bytes::Bytes::from(longer_than_the_buffer.clone());
    let refused = http.send_body_zc(&mut ends.client, 0, &mut body, true);
    assert_eq!(refused, Err(h3::Error::FrameUnexpected), "without HEADERS");
    assert!(body == longer_than_the_buffer);

    let stream = http.send_request(&mut ends.client, &request(), false).unwrap();
    let sent = http.send_body_zc(&mut ends.client, stream, &mut body, true).unwrap();
    assert!(sent > 0 && body == longer_than_the_buffer[sent..]);
}

/// A client writes a body as its stream is told to be writable; how much of it the server has read in a second.
fn upload_without_a_copy(profile: Profile, initial_max_data: u64, bytes: usize) -> usize {
    let (mut client, mut server) = (profile_config(profile), profile_config(profile));
    client.set_initial_congestion_window_packets(100);
    server.set_initial_max_data(initial_max_data);
    let mut ends = Ends::with(&mut client, &mut server);
    let config = h3::Config::new().unwrap();
    let mut http = h3::Connection::with_transport(&mut ends.client, &config).unwrap();
    let mut server = h3::Connection::with_transport(&mut ends.server, &config).unwrap();
    let stream = http.send_request(&mut ends.client, &request(), false).unwrap();
    let mut body = bytes::Bytes::from(pattern(bytes));
    let (mut read, mut buffer) = (0, [0; 10_000]);
    for _ in 0..10 {
        while let Some(writable) = ends.client.stream_writable_next() {
            if writable == stream && !body.is_empty() {
                let written = http.send_body_zc(&mut ends.client, stream, &mut body, true);
                assert!(written.is_ok() || written == Err(h3::Error::Done), "{written:?}");
            }
        }
        ends.exchange();
        while server.poll(&mut ends.server).is_ok() {
            while let Ok(len) = server.recv_body(&mut ends.server, stream, &mut buffer) {
                read += len;
            }
        }
        ends.exchange();
    }
    read
}

#[test]
fn a_body_without_a_copy_goes_on_however_little_room_a_part_of_it_has_left() {
    for profile in [Profile::Default, Profile::Off] {
        // A DATA frame's header is one to three bytes shorter than what is left free for it.
        for room in 0..40 {
            // So many bytes are for the streams of HTTP/3, and for the request.
            let max_data = 16_384 + 90 + room;
            let read = upload_without_a_copy(profile, max_data, 40_000);
            assert_eq!(read, 40_000, "{profile:?}, {max_data}");
        }
    }
}

#[test]
fn a_stream_that_the_peer_stops_is_an_error_for_a_body_without_a_copy_too() {
    let mut ends = Ends::new();
    let config = h3::Config::new().unwrap();
    let mut http = h3::Connection::with_transport(&mut ends.client, &config).unwrap();
    let mut server = h3::Connection::with_transport(&mut ends.server, &config).unwrap();
    let stream = http.send_request(&mut ends.client, &request(), false).unwrap();
    ends.exchange();
    assert!(matches!(server.poll(&mut ends.server), Ok((_, h3::Event::Headers { .. }))));
    let response = [h3::Header::new(b":status", b"400")];
    server.send_response(&mut ends.server, stream, &response, true).unwrap();
    ends.exchange();
    while http.poll(&mut ends.client).is_ok() {}
    // Nothing is left of the stream but what the client would send.
    ends.server.stream_shutdown(stream, quiche::Shutdown::Read, 7).unwrap();
    ends.exchange();
    let mut body = bytes::Bytes::from_static(b"more");
    let refused = http.send_body_zc(&mut ends.client, stream, &mut body, false);
    let stopped = quiche::Error::StreamStopped(7);
    assert_eq!(refused, Err(h3::Error::TransportError(stopped)));
}

#[test]
fn requests_that_a_quiet_client_has_cancelled_let_it_send_others_once_the_server_answers() {
    const STREAMS: u64 = 4;
    let (mut client, mut server) = (tack_config(), tack_config());
    server.set_initial_max_streams_bidi(STREAMS);
    let mut web = Web::new(&mut client, &mut server);
    let streams: Vec<u64> = (0..STREAMS).map(|_| web.request(true)).collect();
    web.run_until(|_, server, _| streams.iter().all(|stream| server.finished.contains(stream)));
    for &stream in &streams {
        web.pair.client.stream_shutdown(stream, quiche::Shutdown::Read, 7).unwrap();
    }
    web.pair.run_for(Duration::from_millis(500));
    assert_eq!(web.pair.client.peer_streams_left_bidi(), 0);
    let stopped = h3::Error::TransportError(quiche::Error::StreamStopped(7));
    for stream in streams {
        let response = [h3::Header::new(b":status", b"200")];
        let answered =
            web.server.http.send_response(&mut web.pair.server, stream, &response, true);
        assert_eq!(answered, Err(stopped));
    }
    web.pair.run_for(Duration::from_millis(500));
    assert_eq!(web.pair.client.peer_streams_left_bidi(), STREAMS);
}

#[test]
fn bodies_that_a_quiet_client_has_stopped_let_it_send_other_requests_once_the_server_knows() {
    const STREAMS: u64 = 4;
    let (mut client, mut server) = (tack_config(), tack_config());
    server.set_initial_max_streams_bidi(STREAMS);
    let mut web = Web::new(&mut client, &mut server);
    let streams: Vec<u64> = (0..STREAMS).map(|_| web.request(true)).collect();
    web.run_until(|_, server, _| streams.iter().all(|stream| server.finished.contains(stream)));
    let response = [h3::Header::new(b":status", b"200")];
    for &stream in &streams {
        let http = &mut web.server.http;
        http.send_response(&mut web.pair.server, stream, &response, false).unwrap();
    }
    web.pair.run_for(Duration::from_millis(500));
    for &stream in &streams {
        web.pair.client.stream_shutdown(stream, quiche::Shutdown::Read, 7).unwrap();
    }
    web.pair.run_for(Duration::from_millis(500));
    let stopped = h3::Error::TransportError(quiche::Error::StreamStopped(7));
    for stream in streams {
        let refused = web.server.http.send_body(&mut web.pair.server, stream, b"more", true);
        assert_eq!(refused, Err(stopped));
    }
    web.pair.run_for(Duration::from_millis(500));
    assert_eq!(web.pair.client.peer_streams_left_bidi(), STREAMS);
}

/// Has many requests answered in some way, one after the other, and runs both ends until `is_over` for each.
fn leaves_nothing_behind(
    mut answer: impl FnMut(&mut Web, u64),
    is_over: impl Fn(&mut Connection, u64) -> bool,
) {
    let mut web = Web::plain();
    let mut answered = Vec::new();
    for _ in 0..100 {
        let stream = web.request(false);
        web.run_until(|_, server, _| server.head(stream).is_some());
        answer(&mut web, stream);
        web.run_until(|_, _, server| is_over(server, stream));
        web.server.events.clear();
        web.client.finished.clear();
        answered.push(stream);
    }
    web.server.finished.clear();
    let until = Instant::now() + Duration::from_millis(100);
    web.run_until(|_, _, _| Instant::now() >= until);
    assert_eq!(web.server.finished, [0; 0], "nobody reads these requests");
    let response = [h3::Header::new(b":status", b"200")];
    for stream in answered {
        // What quiche says of a stream that it does not have.
        let (http, connection) = (&mut web.server.http, &mut web.pair.server);
        let again = http.send_response(connection, stream, &response, true);
        assert_eq!(again, Err(h3::Error::FrameUnexpected), "stream {stream}");
        let again = http.send_body(connection, stream, b"", true);
        assert_eq!(again, Err(h3::Error::FrameUnexpected), "stream {stream}");
        // It would tell of the end of one that it has.
        assert_eq!(http.recv_body(connection, stream, &mut [0]), Err(h3::Error::Done));
        assert_eq!(http.poll(connection), Err(h3::Error::Done), "stream {stream}");
    }
}

/// quiche's own entry of a request goes where it is told of the end, of which the layer says nothing for a request that
/// this end has stopped.
#[test]
fn requests_that_were_stopped_and_answered_leave_nothing_behind() {
    leaves_nothing_behind(
        |web, stream| {
            web.answer(stream);
            let (http, connection) = (&mut web.server.http, &mut web.pair.server);
            connection.stream_shutdown(stream, quiche::Shutdown::Read, 7).unwrap();
            http.send_body(connection, stream, b"no", true).unwrap();
        },
        |server, stream| server.stream_closed(stream),
    );
}

#[test]
fn requests_that_were_stopped_and_answered_with_trailers_leave_nothing_behind() {
    leaves_nothing_behind(
        |web, stream| {
            web.answer(stream);
            let (http, connection) = (&mut web.server.http, &mut web.pair.server);
            connection.stream_shutdown(stream, quiche::Shutdown::Read, 7).unwrap();
            http.send_body(connection, stream, b"no", false).unwrap();
            let trailers = [h3::Header::new(b"x-sum", b"42")];
            http.send_additional_headers(connection, stream, &trailers, true, true).unwrap();
        },
        |server, stream| server.stream_closed(stream),
    );
}

#[test]
fn requests_whose_answer_the_client_stops_behind_its_end_leave_nothing_behind() {
    for has_trailers in [false, true] {
        leaves_nothing_behind(
            |web, stream| {
                web.answer(stream);
                let (http, connection) = (&mut web.server.http, &mut web.pair.server);
                connection.stream_shutdown(stream, quiche::Shutdown::Read, 7).unwrap();
                http.send_body(connection, stream, &pattern(100_000), !has_trailers).unwrap();
                if has_trailers {
                    let trailers = [h3::Header::new(b"x-sum", b"42")];
                    http.send_additional_headers(connection, stream, &trailers, true, true)
                        .unwrap();
                }
                let client = &mut web.pair.client;
                client.stream_shutdown(stream, quiche::Shutdown::Read, 8).unwrap();
            },
            |server, stream| server.stream_closed(stream),
        );
    }
}

#[test]
fn requests_that_were_refused_leave_nothing_behind() {
    for (has_head, is_stopped) in [(false, false), (false, true), (true, true)] {
        leaves_nothing_behind(
            |web, stream| {
                if has_head {
                    web.answer(stream);
                }
                let (server, client) = (&mut web.pair.server, &mut web.pair.client);
                server.stream_shutdown(stream, quiche::Shutdown::Read, 7).unwrap();
                server.stream_shutdown(stream, quiche::Shutdown::Write, 7).unwrap();
                if is_stopped {
                    client.stream_shutdown(stream, quiche::Shutdown::Read, 8).unwrap();
                }
            },
            |server, stream| server.stream_closed(stream),
        );
    }
}

/// What the application is told of such a request is that the client wants no answer.
#[test]
fn requests_that_both_ends_have_stopped_are_errors_when_they_are_answered() {
    for has_head in [false, true] {
        let mut web = Web::plain();
        let stream = web.request(false);
        web.run_until(|_, server, _| server.head(stream).is_some());
        if has_head {
            web.answer(stream);
        }
        web.pair.client.stream_shutdown(stream, quiche::Shutdown::Read, 8).unwrap();
        web.pair.server.stream_shutdown(stream, quiche::Shutdown::Read, 7).unwrap();
        let until = Instant::now() + Duration::from_millis(500);
        web.run_until(|_, _, _| Instant::now() >= until);
        let (http, connection) = (&mut web.server.http, &mut web.pair.server);
        let response = [h3::Header::new(b":status", b"200")];
        let refused = if has_head {
            http.send_body(connection, stream, b"more", true).map(drop)
        } else {
            http.send_response(connection, stream, &response, true)
        };
        let stopped = h3::Error::TransportError(quiche::Error::StreamStopped(8));
        assert_eq!(refused, Err(stopped));
    }
}
