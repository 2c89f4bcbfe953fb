//! quiche forgets the answer to a challenge for which a packet has no room.

use tack_proto::frame::Frame;

use crate::harness::*;

/// A packet with an acknowledgement fits, and nothing else.
const NO_ROOM: usize = 1 + CID_LEN + 1 + 16 + 12;

#[test]
fn an_answer_that_does_not_fit_is_lost() {
    let mut ends = Ends::established();
    let (_, mut keys) = ends.keys();
    let challenge = [0x1a, 1, 2, 3, 4, 5, 6, 7, 8];
    ends.inject(&challenge).unwrap();
    let mut packet = [0; NO_ROOM];
    let (len, _) = ends.server.send(&mut packet).unwrap();
    let is_answer = |frame: &Frame<'_>| matches!(frame, Frame::PathResponse(_));
    assert!(!keys.finds(&packet[..len], is_answer), "there is room for it");
    let later = sent(&mut ends.server);
    let is_answered = later.iter().any(|(datagram, _)| keys.finds(datagram, is_answer));
    assert_needed(!is_answered, "path_responses.rs");
}
