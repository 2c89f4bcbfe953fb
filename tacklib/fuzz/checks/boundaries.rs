//! The layer's frame reader and quiche's: the same frames, and the same verdict.
//!
//! The same payload goes to a plain connection, whose qlog tells the frames that quiche found in it, and
//! to a connection with the layer, towards a peer that knows nothing of TACK.

use quiche::RecvInfo;
use serde_json::Value;
use tack_proto::frame::{DecodeError, Frame, Frames, Located};

use super::ends::{Clock, End, Log, Side, exchange, plain_end, tack_end};
use super::input::Input;
use super::peer::{Header, Peer};

/// What became of a connection: the code that it closed with, or that its peer closed it with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Open,
    Closed(u64),
    ClosedByPeer,
}

/// Panics if the layer reads a payload in another way than quiche.
pub fn check(input: &[u8]) {
    let mut input = Input::new(input);
    let side = if input.byte() & 1 == 0 { Side::Server } else { Side::Client };
    let mut payload = input.rest().to_vec();
    payload.truncate(1150);
    // Header protection needs as much (RFC 9001 section 5.4.2).
    payload.resize(payload.len().max(4), 0);

    let frames: Result<Vec<_>, _> = Frames::new(&payload).collect();
    let of_layer = deliver_to_layer(side, &payload);
    match frames {
        Ok(frames) if !frames.iter().any(|located| located.frame.is_extension()) => {
            let (of_quiche, logged) = deliver_to_quiche(side, &payload);
            compare_frames(&frames, &logged, of_quiche == Verdict::Open);
            compare_verdicts(of_layer, of_quiche, &frames);
        }
        Ok(frames) => check_extensions(side, &frames, &payload, of_layer),
        Err(error) => check_refusal(side, error, &payload, of_layer),
    }
}

fn deliver_to_layer(side: Side, payload: &[u8]) -> Verdict {
    let keys = Log::default();
    let mut connection = tack_end(side, false, &keys);
    deliver(side, &mut connection, payload, &keys, |_| {})
}

/// Returns what quiche has logged of the packet, too.
fn deliver_to_quiche(side: Side, payload: &[u8]) -> (Verdict, Vec<Value>) {
    let (keys, qlog) = (Log::default(), Log::default());
    let mut connection = plain_end(side, &keys);
    let verdict = deliver(side, &mut connection, payload, &keys, |connection| {
        connection.set_qlog(Box::new(qlog.clone()), String::new(), String::new());
    });
    drop(connection);
    (verdict, logged_frames(&qlog.take()))
}

/// Gives a connection a packet after the handshake with a plain peer.
fn deliver<E: End>(
    side: Side,
    connection: &mut E,
    payload: &[u8],
    keys: &Log,
    prepare: impl FnOnce(&mut E),
) -> Verdict {
    let mut clock = Clock::start();
    let mut other = plain_end(side.peer(), &Log::default());
    let seen = if side.is_server() {
        exchange(&mut clock, &mut other, connection)
    } else {
        exchange(&mut clock, connection, &mut other)
    };
    let mut peer = Peer::new(side.peer(), &mut other, keys, &seen);
    prepare(connection);
    let number = peer.next;
    let mut datagram = peer.seal(Header { number, ..Header::default() }, payload);
    let info = RecvInfo { from: side.peer().address(), to: side.address() };
    // What it refuses shows in its state.
    let _ = connection.receive(&mut datagram, info);
    verdict(connection.quic())
}

fn verdict(connection: &quiche::Connection) -> Verdict {
    if let Some(error) = connection.local_error() {
        assert!(!error.is_app);
        return Verdict::Closed(error.error_code);
    }
    if connection.peer_error().is_some() {
        return Verdict::ClosedByPeer;
    }
    assert!(!connection.is_closed(), "closed for no reason");
    Verdict::Open
}

/// The frames of the only packet in a log of quiche's: JSON text sequences (RFC 7464).
fn logged_frames(qlog: &str) -> Vec<Value> {
    for record in qlog.split('\u{1e}').filter(|record| !record.trim().is_empty()) {
        let mut event: Value = serde_json::from_str(record).unwrap();
        if event["name"].as_str().is_some_and(|name| name.ends_with(":packet_received")) {
            return match event["data"]["frames"].take() {
                Value::Array(frames) => frames,
                _ => Vec::new(),
            };
        }
    }
    Vec::new()
}

/// quiche logs the frames up to the one that it refuses, and none of a packet that it cannot read.
fn compare_frames(ours: &[Located<'_>], theirs: &[Value], is_open: bool) {
    assert!(theirs.len() <= ours.len(), "quiche reads more frames: {theirs:?}, {ours:?}");
    if is_open {
        assert_eq!(theirs.len(), ours.len(), "{theirs:?}, {ours:?}");
    }
    for (ours, theirs) in ours.iter().zip(theirs) {
        let (name, fields) = summary(&ours.frame);
        assert_eq!(theirs["frame_type"], name, "{ours:?}");
        for (field, value) in fields {
            let logged = theirs.pointer(field).and_then(Value::as_u64);
            assert_eq!(logged, Some(value), "{field} of {theirs:?}, {ours:?}");
        }
        if let Frame::Ack(ack) = &ours.frame {
            compare_ranges(ack.ranges.iter().collect(), &theirs["acked_ranges"]);
        }
    }
}

fn compare_ranges(mut ours: Vec<std::ops::RangeInclusive<u64>>, theirs: &Value) {
    ours.reverse();
    let read = |range: &Value| {
        let range = range.as_array()?;
        Some(range.first()?.as_u64()?..=range.last()?.as_u64()?)
    };
    let theirs: Option<Vec<_>> = theirs.as_array().unwrap().iter().map(read).collect();
    assert_eq!(theirs, Some(ours));
}

/// The name that a frame has in qlog, and the fields to compare, as JSON pointers.
fn summary(frame: &Frame<'_>) -> (&'static str, Vec<(&'static str, u64)>) {
    const LEN: &str = "/raw/payload_length";
    match frame {
        Frame::Padding { len } => ("padding", vec![(LEN, *len as u64)]),
        Frame::Ping => ("ping", vec![]),
        Frame::Ack(_) => ("ack", vec![]),
        Frame::ResetStream { stream_id, final_size, error_code } => (
            "reset_stream",
            vec![
                ("/stream_id", *stream_id),
                ("/final_size", *final_size),
                ("/error_code", *error_code),
            ],
        ),
        Frame::StopSending { stream_id, error_code } => {
            ("stop_sending", vec![("/stream_id", *stream_id), ("/error_code", *error_code)])
        }
        Frame::Crypto { offset, data_len } => {
            ("crypto", vec![("/offset", *offset), (LEN, *data_len)])
        }
        Frame::NewToken => ("new_token", vec![]),
        Frame::Stream(stream) => (
            "stream",
            vec![
                ("/stream_id", stream.stream_id),
                ("/offset", stream.offset),
                (LEN, stream.len),
            ],
        ),
        Frame::MaxData(max) => ("max_data", vec![("/maximum", *max)]),
        Frame::MaxStreamData { stream_id, max } => {
            ("max_stream_data", vec![("/stream_id", *stream_id), ("/maximum", *max)])
        }
        Frame::MaxStreams { max, .. } => ("max_streams", vec![("/maximum", *max)]),
        Frame::DataBlocked => ("data_blocked", vec![]),
        Frame::StreamDataBlocked => ("stream_data_blocked", vec![]),
        Frame::StreamsBlocked => ("streams_blocked", vec![]),
        Frame::NewConnectionId { sequence, retire_prior_to, cid, .. } => (
            "new_connection_id",
            vec![
                ("/sequence_number", *sequence),
                ("/retire_prior_to", *retire_prior_to),
                ("/connection_id_length", cid.len() as u64),
            ],
        ),
        Frame::RetireConnectionId { sequence } => {
            ("retire_connection_id", vec![("/sequence_number", *sequence)])
        }
        Frame::PathChallenge(_) => ("path_challenge", vec![]),
        Frame::PathResponse(_) => ("path_response", vec![]),
        Frame::ConnectionClose { error_code, .. } => {
            ("connection_close", vec![("/error_code", *error_code)])
        }
        Frame::HandshakeDone => ("handshake_done", vec![]),
        Frame::Datagram { len } => ("datagram", vec![(LEN, *len as u64)]),
        extension => panic!("quiche does not know {extension:?}"),
    }
}

const PROTOCOL_VIOLATION: u64 = 0x0a;

/// Without extension frames the layer and quiche come to the same verdict.
fn compare_verdicts(of_layer: Verdict, of_quiche: Verdict, frames: &[Located<'_>]) {
    // Each has sent packets of its own, so an acknowledgement may be right for one of them alone.
    if !frames.iter().any(|located| matches!(located.frame, Frame::Ack(_))) {
        assert_eq!(of_layer, of_quiche, "{frames:?}");
    }
}

/// With extension frames, quiche must come to the same verdict on the others.
fn check_extensions(side: Side, frames: &[Located<'_>], payload: &[u8], of_layer: Verdict) {
    let needs_tack =
        |located: &Located<'_>| matches!(located.frame, Frame::Tack(_) | Frame::Iack(_));
    if frames.iter().any(needs_tack) {
        assert_eq!(of_layer, Verdict::Closed(PROTOCOL_VIOLATION), "TACK was not negotiated");
        return;
    }
    if of_layer == Verdict::Closed(PROTOCOL_VIOLATION) {
        return; // a delay out of bounds
    }
    let others: Vec<_> =
        frames.iter().filter(|located| !located.frame.is_extension()).cloned().collect();
    let mut rest = vec![0x01];
    for located in &others {
        rest.extend_from_slice(&payload[located.range.clone()]);
    }
    let (of_quiche, _) = deliver_to_quiche(side, &rest);
    compare_verdicts(of_layer, of_quiche, &others);
}

/// What the layer cannot read, quiche must not accept.
fn check_refusal(side: Side, error: DecodeError, payload: &[u8], of_layer: Verdict) {
    let Verdict::Closed(code) = of_layer else { panic!("{of_layer:?} after {error}") };
    // A frame before may have broken a rule.
    assert!(code == error.to_wire() || code == PROTOCOL_VIOLATION, "{code:#x} after {error}");
    let before = Frames::new(payload).flatten();
    let has_extension = before.into_iter().any(|located| located.frame.is_extension());
    // quiche takes types in longer form than needed (RFC 9000 section 12.4 lets it).
    if !has_extension && !matches!(error, DecodeError::LongType(_)) {
        let (of_quiche, _) = deliver_to_quiche(side, payload);
        assert_ne!(of_quiche, Verdict::Open, "quiche accepts it: {error}");
    }
}
