//! A peer that announces arbitrary transport parameters.
//!
//! An input changes the parameters of a genuine peer: each change names a parameter and its new value, and
//! the rest of the input is put behind all. The handshake is made with the layer and with plain quiche.

use std::time::{Duration, Instant};

use tack_proto::transport_parameters::{self as parameters, Announced, Parameters};
use tack_proto::varint::{self, Reader};

use super::boringssl;
use super::ends::{Clock, End, Log, Side, exchange, plain_end, tack_end};
use super::input::Input;

/// Changes to the parameters.
const CHANGES: usize = 16;

/// The parameters of RFC 9000 section 18.2, RFC 9221, and the extensions'.
const IDS: [u64; 21] = [
    0x00,
    0x01,
    0x02,
    0x03,
    0x04,
    0x05,
    0x06,
    0x07,
    0x08,
    0x09,
    0x0a,
    0x0b,
    0x0c,
    0x0d,
    0x0e,
    0x0f,
    0x10,
    0x20,
    parameters::TACK,
    parameters::MIN_ACK_DELAY,
    parameters::ENABLE_TIMESTAMP,
];

/// How long the connection is watched after the handshake.
const WATCHED: Duration = Duration::from_secs(2);

/// Datagrams that it may send meanwhile.
const MOST_SENT: usize = 2_000;

/// Timers that may expire meanwhile.
const MOST_TIMEOUTS: usize = 20_000;

const TRANSPORT_PARAMETER_ERROR: u64 = 0x08;

/// Ids of RFC 9000 section 18.2.
const ORIGINAL_DESTINATION_CONNECTION_ID: u64 = 0x00;
const INITIAL_SOURCE_CONNECTION_ID: u64 = 0x0f;

/// What became of a handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Established,
    Refused(Option<u64>),
}

/// Panics if the layer takes parameters that quiche refuses, or refuses what it must take.
pub fn check(input: &[u8]) {
    let mut input = Input::new(input);
    let side = if input.byte() & 1 == 0 { Side::Server } else { Side::Client };
    let edits = input.rest();
    let keys = Log::default();

    let mut layered = tack_end(side, false, &keys);
    let (outcome, announced) = shake_hands(side, &mut layered, edits);
    let mut plain = plain_end(side, &keys);
    let (of_quiche, _) = shake_hands(side, &mut plain, edits);
    match (of_quiche, is_acceptable(&announced)) {
        (Outcome::Established, true) => assert_eq!(outcome, Outcome::Established),
        (Outcome::Established, false) => {
            assert_eq!(outcome, Outcome::Refused(Some(TRANSPORT_PARAMETER_ERROR)));
        }
        (refused, _) => assert_eq!(outcome, refused),
    }
}

/// Whether the layer may take the parameters, if quiche does.
fn is_acceptable(announced: &[u8]) -> bool {
    let mut max_ack_delay = 25;
    for (id, value) in Parameters::new(announced).flatten() {
        if id == 0x0b {
            max_ack_delay = Reader::new(value).read_varint().unwrap_or(max_ack_delay);
        }
    }
    parameters::parse(announced, max_ack_delay.saturating_mul(1000)).is_ok()
}

/// Makes the handshake with a peer whose parameters are changed, and watches the connection after it.
/// Returns what the peer has announced, too.
fn shake_hands(side: Side, connection: &mut dyn End, edits: &[u8]) -> (Outcome, Vec<u8>) {
    let mut clock = Clock::start();
    if side.is_server() {
        let mut other = client(edits);
        let mut announced = base();
        put(&mut announced, INITIAL_SOURCE_CONNECTION_ID, &other.quic().source_id());
        edit(&mut announced, edits);
        let ssl = other.quic_mut().as_mut();
        assert!(boringssl::set_transport_parameters(ssl, &announced));
        exchange(&mut clock, &mut *other, connection);
        (watch(&mut clock, connection, &mut *other), announced)
    } else {
        // The layer of a server would set its own parameters after ours.
        let mut other = plain_end(Side::Server, &Log::default());
        let mut announced = base();
        put(&mut announced, INITIAL_SOURCE_CONNECTION_ID, &other.source_id());
        let original = connection.quic().destination_id().to_vec();
        put(&mut announced, ORIGINAL_DESTINATION_CONNECTION_ID, &original);
        edit(&mut announced, edits);
        let copy = announced.clone();
        assert!(boringssl::set_transport_parameters_later(other.as_mut(), copy));
        exchange(&mut clock, connection, &mut other);
        (watch(&mut clock, connection, &mut other), announced)
    }
}

/// A client that uses TACK if the changed parameters offer it, and does not otherwise.
fn client(edits: &[u8]) -> Box<dyn End> {
    let mut announced = base();
    edit(&mut announced, edits);
    let offer = parameters::parse(&announced, 0);
    if offer.is_ok_and(|offer| offer.tack_version().is_some()) {
        Box::new(tack_end(Side::Client, false, &Log::default()))
    } else {
        Box::new(plain_end(Side::Client, &Log::default()))
    }
}

/// What a genuine peer announces, without connection ids.
fn base() -> Vec<u8> {
    let mut announced = Vec::new();
    for (id, value) in [(0x04, 1 << 20), (0x05, 1 << 18), (0x06, 1 << 18), (0x07, 1 << 18)] {
        put_integer(&mut announced, id, value);
    }
    for (id, value) in [(0x08, 100), (0x09, 100), (0x0a, 3), (0x0b, 25), (0x0e, 4)] {
        put_integer(&mut announced, id, value);
    }
    Announced::all(1000, 7).encode(&mut announced);
    announced
}

fn put(announced: &mut Vec<u8>, id: u64, value: &[u8]) {
    parameters::set(announced, id, value).unwrap();
}

fn put_integer(announced: &mut Vec<u8>, id: u64, value: u64) {
    let mut encoded = Vec::new();
    varint::put(&mut encoded, value);
    put(announced, id, &encoded);
}

/// Makes the changes that an input asks for.
fn edit(announced: &mut Vec<u8>, edits: &[u8]) {
    let mut input = Input::new(edits);
    for _ in 0..CHANGES {
        let Some(which) = input.next() else { break };
        let Some(&id) = IDS.get(usize::from(which)) else { break };
        let value = input.bytes();
        if value.is_empty() {
            parameters::remove(announced, id).unwrap();
        } else {
            put(announced, id, value);
        }
    }
    announced.extend_from_slice(input.rest());
}

/// Lets an end that is established send data for a while.
fn watch(clock: &mut Clock, connection: &mut dyn End, other: &mut dyn End) -> Outcome {
    let quic = connection.quic();
    if !quic.is_established() || quic.local_error().is_some() {
        return Outcome::Refused(quic.local_error().map(|error| error.error_code));
    }
    let stream_id = if quic.is_server() { 3 } else { 2 };
    let mut unwritten = 100_000;
    let end = Instant::now() + WATCHED;
    let (mut datagrams, mut timeouts) = (0, 0);
    while Instant::now() < end {
        while unwritten > 0 {
            // Limits may forbid it.
            let Ok(written) = connection.write(stream_id, &vec![0; unwritten], true) else {
                break;
            };
            unwritten -= written;
            if written == 0 {
                break;
            }
        }
        datagrams += exchange(clock, &mut *connection, &mut *other).len();
        assert!(datagrams < MOST_SENT, "{datagrams} datagrams in {WATCHED:?}");
        let deadlines = [connection.deadline(), other.deadline()];
        let Some(next) = deadlines.into_iter().flatten().min() else { break };
        clock.advance_to(next.min(end));
        timeouts += 1;
        assert!(timeouts < MOST_TIMEOUTS, "a timer spins");
    }
    Outcome::Established
}
