//! What a packet of quiche's carries, from its first frame.
//!
//! What: tells packets that hold nothing but stream data or DATAGRAMs by the first bytes of their
//! payload. Why: such packets leave as quiche sealed them, without an AEAD pass over the whole packet,
//! and the layer still has to know what they carry. quiche (0.30, `send_single`) writes one STREAM
//! frame, or several DATAGRAM frames, behind everything else and nothing but PADDING behind them. So a
//! packet that begins with one of these, and is no end of a stream, holds nothing else. Upstream: no
//! hook tells the frames of a packet. To delete: when quiche reports the frames that it has written.

/// The first frame of a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FirstFrame {
    /// STREAM without FIN: the rest of the packet is its data.
    Stream,
    /// DATAGRAM: more of them may follow, and nothing else.
    Datagram,
    /// Any other frame: the whole packet has to be read.
    Other,
}

/// The kind of a first frame by its type.
pub fn first_frame(frame_type: u8) -> FirstFrame {
    const FIN: u8 = 0x01;
    match frame_type {
        0x08..=0x0f if frame_type & FIN == 0 => FirstFrame::Stream,
        0x30 | 0x31 => FirstFrame::Datagram,
        _ => FirstFrame::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_stream_and_control_frames_have_to_be_read() {
        assert_eq!(first_frame(0x0e), FirstFrame::Stream);
        assert_eq!(first_frame(0x30), FirstFrame::Datagram);
        for other in [0x0f, 0x09, 0x02, 0x06, 0x10, 0x1a, 0x00] {
            assert_eq!(first_frame(other), FirstFrame::Other, "{other:#x}");
        }
    }
}
