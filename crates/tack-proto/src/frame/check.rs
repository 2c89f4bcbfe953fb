//! Proves the codec on a payload.

use super::{
    DecodeError, Frame, Frames, encode_ack, encode_iack, encode_immediate_ack, encode_tack,
};

/// Decodes a payload and proves the codec on it: the frames lie end to end, and each frame
/// that this crate can write says the same after it was written and decoded again. Returns
/// the number of frames.
///
/// For fuzzing and tests, and to look at a payload that misbehaved elsewhere.
///
/// # Panics
///
/// If the codec contradicts itself, which is a bug in this crate.
pub fn check_payload(payload: &[u8]) -> Result<usize, DecodeError> {
    let mut count = 0;
    let mut end = 0;
    for located in Frames::new(payload) {
        let located = located?;
        assert_eq!(located.range.start, end, "frames overlap or leave a gap");
        assert!(located.range.end > end, "a frame of no bytes");
        end = located.range.end;
        count += 1;
        check_round_trip(&located.frame, located.range.len());
    }
    assert_eq!(end, payload.len(), "frames end before the payload does");
    Ok(count)
}

fn check_round_trip(frame: &Frame<'_>, received_len: usize) {
    let mut bytes = Vec::new();
    if !encode(frame, &mut bytes, received_len) {
        return;
    }
    let mut again = Frames::new(&bytes);
    match again.next() {
        Some(Ok(located)) => assert_eq!(located.frame, *frame, "changed by a round trip"),
        other => panic!("{frame:?} was written as {bytes:x?} and read as {other:?}"),
    }
    assert!(again.next().is_none(), "{frame:?} was written as more than one frame");
}

/// Writes a frame back into at most `budget` bytes; false for those that only quiche writes.
fn encode(frame: &Frame<'_>, out: &mut Vec<u8>, budget: usize) -> bool {
    match frame {
        Frame::Ack(ack) => {
            encode_ack(out, ack.ranges.iter(), ack.ack_delay, ack.ecn, budget);
        }
        Frame::AckFrequency(ack_frequency) => ack_frequency.encode(out),
        Frame::ImmediateAck => encode_immediate_ack(out),
        Frame::Timestamp(timestamp) => timestamp.encode(out),
        Frame::Tack(tack) => {
            let bubbles = tack.bubbles.iter().flatten();
            encode_tack(out, &tack.fields(), tack.ranges.iter(), bubbles, budget);
        }
        Frame::Iack(iack) => {
            encode_iack(out, &iack.fields(), iack.ranges.iter(), budget);
        }
        _ => return false,
    }
    assert!(out.len() <= budget, "longer than the shortest form of what was received");
    true
}
