//! A buffer on its way to the peers.

use std::sync::Arc;
use std::time::Instant;

use tack_media::FrameKind;

use crate::payload::BufferMeta;

/// A buffer, as all peers get it.
#[derive(Debug)]
pub(super) struct OutgoingBuffer {
    pub kind: FrameKind,
    pub captured_at: Instant,
    pub meta: BufferMeta,
    pub caps: Arc<str>,
    pub data: gst::MappedBuffer<gst::buffer::Readable>,
}

impl OutgoingBuffer {
    /// Which caps it has.
    pub fn caps_number(&self) -> u64 {
        self.meta.caps_number
    }

    /// Whether what follows may need it.
    pub fn is_needed(&self) -> bool {
        !self.meta.flags.contains(gst::BufferFlags::DROPPABLE)
    }
}
