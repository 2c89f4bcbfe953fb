//! quiche writes one STREAM frame, and writes it last: so a packet whose first frame is one carries nothing
//! else, which the layer relies on.

use tack_proto::frame::{Frame, Frames};

use crate::harness::*;

#[test]
fn nothing_but_padding_comes_behind_a_stream_frame() {
    let mut server = config();
    server.set_initial_max_data(20_000);
    let mut ends = Ends::established_with(&mut config(), &mut server);
    let (_, mut keys) = ends.keys();
    let mut seen = 0;
    for round in 0..20_u8 {
        ends.client.stream_send(2, &[round; 900], false).unwrap();
        for (datagram, _) in sent(&mut ends.client) {
            ends.deliver_to_server(datagram).unwrap();
        }
        // Acknowledgement, window update, connection id, data of two streams.
        while ends.server.stream_recv(2, &mut [0; 1000]).is_ok() {}
        if round == 3 {
            let id = quiche::ConnectionId::from_vec(vec![0x5f; CID_LEN]);
            ends.server.new_scid(&id, 1, false).unwrap();
        }
        ends.server.stream_send(3, &[round; 300], false).unwrap();
        ends.server.stream_send(7, &[round; 300], false).unwrap();
        for (datagram, _) in sent(&mut ends.server) {
            let (_, payload) = keys.open(&datagram).unwrap();
            let frames: Vec<_> = Frames::new(&payload).map(|f| f.unwrap().frame).collect();
            let stream = frames.iter().position(|frame| matches!(frame, Frame::Stream(_)));
            if let Some(at) = stream {
                seen += usize::from(at > 0);
                let rest = &frames[at + 1..];
                let is_last = rest.iter().all(|frame| matches!(frame, Frame::Padding { .. }));
                assert!(is_last, "the layer must look into every packet now: {frames:?}");
            }
            ends.deliver_to_client(datagram).unwrap();
        }
    }
    assert!(seen > 5, "{seen} STREAM frames behind others");
}
