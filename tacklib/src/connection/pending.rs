//! What quiche may have to send. It does not tell before it is asked for a packet, and it is asked after whatever may have
//! given it something, until it has nothing.

/// What is not known to have left. It waits for the sender; what must not wait has credits (`send_credits.rs`).
#[derive(Clone, Copy, Debug)]
pub struct Pending {
    /// Stream data, or something else.
    any: bool,
    /// Losses were found since quiche had nothing to send: it may be about to send something again.
    repeats: bool,
    /// quiche's acknowledgement left no room for a PING that is to carry frames of the layer's.
    lacks_room: bool,
    /// DATAGRAMs were waiting when the last packet with data was written.
    has_sent_datagrams: bool,
    /// The end of a stream was written, or it was reset, since quiche was last asked for MAX_STREAMS.
    has_ended_streams: bool,
}

impl Pending {
    /// Of a new connection, which has a handshake to send.
    pub fn new() -> Self {
        Self {
            any: true,
            repeats: false,
            lacks_room: false,
            has_sent_datagrams: false,
            has_ended_streams: false,
        }
    }

    /// Whether quiche is asked as soon as the sender may send.
    #[inline]
    pub fn any(self) -> bool {
        self.any
    }

    /// Something may have given quiche something to send.
    #[inline]
    pub fn add(&mut self) {
        self.any = true;
    }

    /// Something has, if it `may`.
    #[inline]
    pub fn add_if(&mut self, may: bool) {
        self.any |= may;
    }

    /// quiche has found packets to be lost, or its timer has expired.
    pub fn on_losses(&mut self) {
        self.any = true;
        self.repeats = true;
    }

    /// Whether quiche may be about to send something again.
    pub fn may_repeat(self) -> bool {
        self.repeats
    }

    /// quiche has nothing to send.
    pub fn on_nothing(&mut self) {
        self.any = false;
        self.repeats = false;
    }

    /// quiche cannot send: it is asked again after the next event.
    pub fn on_failed(&mut self) {
        self.any = false;
    }

    /// quiche has written a packet: as the next of a packet train of DATAGRAMs if it `continues` one that there is, or
    /// while DATAGRAMs were `waiting`.
    #[inline]
    pub fn on_written(&mut self, waiting: bool, continues: bool) {
        self.has_sent_datagrams = waiting || continues && self.has_sent_datagrams;
    }

    /// Whether the last packets with data were of DATAGRAMs.
    pub fn has_sent_datagrams(self) -> bool {
        self.has_sent_datagrams
    }

    /// A packet is ready to leave. `lacks_room` if quiche wrote an acknowledgement alone where frames of the layer's
    /// wanted a PING beside it.
    #[inline]
    pub fn on_finished(&mut self, lacks_room: bool) {
        self.lacks_room = lacks_room;
        self.any |= lacks_room;
    }

    /// Whether frames of the layer's wait for a packet that has room for a PING.
    pub fn lacks_room(self) -> bool {
        self.lacks_room
    }

    /// Ends of streams have been written, or streams reset, if `ended`.
    #[inline]
    pub fn on_streams_ended(&mut self, ended: bool) {
        self.has_ended_streams |= ended;
    }

    /// All that has left is acknowledged: whether quiche may have MAX_STREAMS to send now. An end that is written and has
    /// not left is acknowledged later.
    pub fn take_ended_streams(&mut self) -> bool {
        let had = self.has_ended_streams;
        self.has_ended_streams &= self.any;
        had
    }
}
