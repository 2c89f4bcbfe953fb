//! quiche has a window update to send when less than half of the window is left, which the layer follows from
//! outside.

use tack_proto::frame::Frame;

use crate::harness::*;

const WINDOW: usize = 20_000;

#[test]
fn an_update_is_due_when_less_than_half_of_the_window_is_left() {
    let mut server = config();
    server.set_initial_max_data(WINDOW as u64);
    let mut ends = Ends::established_with(&mut config(), &mut server);
    let (_, mut keys) = ends.keys();
    let mut written = 0;
    while written < WINDOW {
        match ends.client.stream_send(2, &[7; 1000], false) {
            Ok(len) => written += len,
            Err(quiche::Error::Done) => ends.exchange(),
            Err(error) => panic!("{error:?}"),
        }
    }
    ends.exchange();
    let mut updates = |ends: &mut Ends, bytes: usize| {
        ends.server.stream_recv(2, &mut vec![0; bytes]).unwrap();
        // Something else to say, so that there is a packet in any case.
        ends.server.send_ack_eliciting().unwrap();
        let datagrams = sent(&mut ends.server);
        assert!(!datagrams.is_empty());
        datagrams
            .iter()
            .any(|(packet, _)| keys.finds(packet, |frame| matches!(frame, Frame::MaxData(_))))
    };
    let at_half = updates(&mut ends, WINDOW / 2);
    let below_half = updates(&mut ends, 1);
    assert_needed((at_half, below_half) == (false, true), "flow_control.rs");
}
