//! When quiche has a window update to send.
//!
//! What: a mirror of quiche's receive windows. Why: a window update that waits with an acknowledgement
//! stops the peer, and quiche does not say when it has one. quiche's rule is followed from outside: an
//! update is due when less than half of the window is left (0.30, `flowcontrol.rs`). A wrong guess
//! costs one early TACK, or one acknowledgement interval of delay. Upstream: no hook. To delete: when
//! quiche tells whether it has anything to send but an acknowledgement.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use quiche::BufFactory;
use tack_proto::transport_parameters::Parameters;
use tack_proto::varint::Reader;

/// Records of streams before those that quiche has done with are looked for.
const LEAST_RECORDS: usize = 1024;

#[derive(Clone, Copy, Debug, Default)]
struct Window {
    limit: u64,
    size: u64,
    consumed: u64,
}

impl Window {
    fn new(limit: u64) -> Self {
        Self { limit, size: limit, consumed: 0 }
    }

    fn is_due(&self) -> bool {
        self.limit.saturating_sub(self.consumed) < self.size / 2
    }

    fn on_update(&mut self, limit: u64) {
        self.limit = self.limit.max(limit);
        self.size = self.limit.saturating_sub(self.consumed);
    }
}

#[derive(Clone, Copy, Debug)]
struct Stream {
    window: Window,
    /// Highest offset received: what the application can at most have read.
    received: u64,
    /// What counted as read without having been seen to be: it may have been behind a hole,
    /// and is not counted again when it is read.
    ahead: u64,
    /// The peer has finished the stream: quiche updates its window no more.
    finished: bool,
    /// Its end has come.
    ended: bool,
    /// It was reset behind that, and quiche gets the rest of it (`late_resets.rs`).
    filled: bool,
}

/// Whether quiche has done with the half of a stream that is read. With an end that was not read it has not.
pub fn is_over<F: BufFactory>(connection: &quiche::Connection<F>, stream_id: u64) -> bool {
    connection.stream_closed(stream_id) && !connection.stream_readable(stream_id)
}

/// The receive windows of a connection and its streams.
#[derive(Debug)]
pub struct ReceiveWindows {
    connection: Window,
    /// Those that quiche has not done with: the peer may open so many and no more.
    streams: HashMap<u64, Stream>,
    /// Length of that at which the others are forgotten.
    most_records: usize,
    limits: StreamLimits,
    is_server: bool,
    /// Reads may have happened that were not counted.
    unseen_reads: bool,
    /// The application reads in a way that is not counted: what it has read follows from what
    /// has arrived.
    needs_offsets: bool,
    due: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct StreamLimits {
    bidi_local: u64,
    bidi_remote: u64,
    uni: u64,
}

impl ReceiveWindows {
    /// Starts from our own encoded transport parameters.
    pub fn new(parameters: &[u8], is_server: bool) -> Self {
        let mut connection = Window::default();
        let mut limits = StreamLimits::default();
        for (id, value) in Parameters::new(parameters).flatten() {
            let Ok(value) = Reader::new(value).read_varint() else { continue };
            match id {
                0x04 => connection = Window::new(value),
                0x05 => limits.bidi_local = value,
                0x06 => limits.bidi_remote = value,
                0x07 => limits.uni = value,
                _ => {}
            }
        }
        let streams = HashMap::new();
        Self {
            connection,
            streams,
            most_records: LEAST_RECORDS,
            limits,
            is_server,
            unseen_reads: false,
            needs_offsets: false,
            due: false,
        }
    }

    /// Stream data has arrived, up to offset `end`. `is_over` tells whether quiche has done with a stream.
    pub fn on_received(
        &mut self,
        stream_id: u64,
        end: u64,
        fin: bool,
        is_over: &dyn Fn(u64) -> bool,
    ) {
        let Some(stream) = self.stream(stream_id, is_over) else { return };
        stream.received = stream.received.max(end);
        stream.finished |= fin;
        stream.ended |= fin;
    }

    /// How much the application has read of a stream that has come to its end at `final_size`, if that is known for sure.
    pub fn read_of_ended(&self, stream_id: u64, final_size: u64) -> Option<u64> {
        let stream = self.streams.get(&stream_id)?;
        let is_known =
            stream.ended && stream.ahead == 0 && !self.unseen_reads && !self.needs_offsets;
        (is_known && stream.received == final_size).then_some(stream.window.consumed)
    }

    /// Whether the application has read a stream up to `end`, before the stream's end has come; `None` if it may have.
    pub fn was_read(&self, stream_id: u64, end: u64) -> Option<bool> {
        let stream = self.streams.get(&stream_id);
        if stream.is_some_and(|stream| stream.ended) {
            return Some(false);
        }
        if self.unseen_reads || self.needs_offsets {
            return None;
        }
        let stream = stream.filter(|stream| stream.window.consumed >= end);
        stream.map_or(Some(false), |stream| (stream.ahead == 0).then_some(true))
    }

    /// quiche gets the rest of a stream in place of its reset.
    pub fn on_filled(&mut self, stream_id: u64) {
        if let Some(stream) = self.streams.get_mut(&stream_id) {
            stream.filled = true;
        }
    }

    /// Whether it has.
    pub fn is_filled(&self, stream_id: u64) -> bool {
        self.streams.get(&stream_id).is_some_and(|stream| stream.filled)
    }

    /// The peer has reset a stream: quiche counts what was not read of it as read, on the connection.
    pub fn on_reset(&mut self, stream_id: u64, final_size: u64, is_over: &dyn Fn(u64) -> bool) {
        let Some(stream) = self.stream(stream_id, is_over) else { return };
        let read = stream.window.consumed;
        let unread = final_size.saturating_sub(read);
        stream.received = final_size;
        stream.window.consumed = read + unread;
        stream.finished = true;
        self.connection.consumed = self.connection.consumed.saturating_add(unread);
        self.due |= self.connection.is_due();
    }

    /// Whether [`on_received`](Self::on_received) must be told of every packet. While all reads
    /// are seen, only of the ends of streams.
    pub fn needs_offsets(&self) -> bool {
        self.needs_offsets
    }

    /// The application has read `bytes` of a stream.
    pub fn on_read(&mut self, stream_id: u64, bytes: usize, is_over: &dyn Fn(u64) -> bool) {
        let mut read = bytes as u64;
        self.needs_offsets = false;
        if let Some(stream) = self.stream(stream_id, is_over) {
            let counted = read.min(stream.ahead);
            stream.ahead -= counted;
            read -= counted;
            stream.window.consumed = stream.window.consumed.saturating_add(read);
            stream.received = stream.received.max(stream.window.consumed);
            let due = !stream.finished && stream.window.is_due();
            self.due |= due;
        }
        self.connection.consumed = self.connection.consumed.saturating_add(read);
        self.due |= self.connection.is_due();
    }

    /// Bytes that have arrived from the beginning of a stream on, as far as is known for sure.
    pub fn arrived<F: BufFactory>(
        &self,
        stream_id: u64,
        connection: &quiche::Connection<F>,
    ) -> u64 {
        let stream = self.streams.get(&stream_id).filter(|stream| stream.ahead == 0);
        let read = stream.map_or(0, |stream| stream.window.consumed);
        read + connection.stream_readable_len(stream_id, usize::MAX) as u64
    }

    /// The application had the quiche connection in its hands and may have read.
    pub fn on_unseen(&mut self) {
        self.unseen_reads = true;
        self.needs_offsets = true;
    }

    /// Whether quiche has an update to send; says so once, because the packet
    /// that quiche is then asked for takes every due update along.
    pub fn take_due<F: BufFactory>(&mut self, connection: &quiche::Connection<F>) -> bool {
        if std::mem::take(&mut self.unseen_reads) {
            self.count_unseen_reads(connection);
        }
        std::mem::take(&mut self.due)
    }

    /// MAX_DATA has been sent.
    pub fn on_max_data(&mut self, limit: u64) {
        self.connection.on_update(limit);
    }

    /// MAX_STREAM_DATA has been sent.
    pub fn on_max_stream_data(&mut self, stream_id: u64, limit: u64) {
        if let Some(stream) = self.streams.get_mut(&stream_id) {
            stream.window.on_update(limit);
        }
    }

    /// What counts as read, of a stream and in all.
    #[cfg(test)]
    pub fn consumed(&self, stream_id: u64) -> (u64, u64) {
        let stream = self.streams.get(&stream_id).map_or(0, |s| s.window.consumed);
        (stream, self.connection.consumed)
    }

    /// What was received and is not readable any more has been read. Data behind
    /// a hole counts as read here, which makes an update seem due early at worst.
    fn count_unseen_reads<F: BufFactory>(&mut self, connection: &quiche::Connection<F>) {
        let mut due = false;
        for (&id, stream) in &mut self.streams {
            let unread_at_most = stream.received.saturating_sub(stream.window.consumed);
            if unread_at_most == 0 {
                continue;
            }
            let unread = connection.stream_readable_len(id, unread_at_most as usize) as u64;
            let read = unread_at_most - unread.min(unread_at_most);
            stream.window.consumed += read;
            stream.ahead += read;
            self.connection.consumed = self.connection.consumed.saturating_add(read);
            due |= !stream.finished && stream.window.is_due();
        }
        self.due |= due || self.connection.is_due();
    }

    /// The record of a stream. What comes of a stream that quiche has done with does not begin a new one: what was read of
    /// it is not known any more.
    fn stream(&mut self, stream_id: u64, is_over: &dyn Fn(u64) -> bool) -> Option<&mut Stream> {
        if self.streams.len() >= self.most_records {
            self.streams.retain(|id, _| !is_over(*id));
            self.most_records = LEAST_RECORDS.max(2 * self.streams.len());
        }
        let limit = self.initial_limit(stream_id);
        // One look-up: each STREAM frame and each read comes here.
        match self.streams.entry(stream_id) {
            Entry::Occupied(known) => Some(known.into_mut()),
            Entry::Vacant(_) if is_over(stream_id) => None,
            Entry::Vacant(new) => Some(new.insert(Stream {
                window: Window::new(limit),
                received: 0,
                ahead: 0,
                finished: false,
                ended: false,
                filled: false,
            })),
        }
    }

    fn initial_limit(&self, stream_id: u64) -> u64 {
        // RFC 9000 section 2.1: bit 0 is the initiator, bit 1 the direction.
        let by_server = stream_id & 1 == 1;
        match (stream_id & 2 == 0, by_server == self.is_server) {
            (true, true) => self.limits.bidi_local,
            (true, false) => self.limits.bidi_remote,
            (false, _) => self.limits.uni,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    const OPEN: fn(u64) -> bool = |_| false;
    const OVER: fn(u64) -> bool = |_| true;

    fn windows() -> ReceiveWindows {
        let mut blob = Vec::new();
        for (id, limit) in [(0x04, 1000u64), (0x05, 400), (0x06, 400), (0x07, 100)] {
            let mut value = Vec::new();
            tack_proto::varint::put(&mut value, limit);
            tack_proto::transport_parameters::set(&mut blob, id, &value).unwrap();
        }
        ReceiveWindows::new(&blob, true)
    }

    #[test]
    fn an_update_is_due_when_half_of_the_window_is_left() {
        let mut windows = windows();
        windows.on_received(0, 400, false, &OPEN);
        windows.on_read(0, 200, &OPEN);
        assert!(!windows.due);
        windows.on_read(0, 1, &OPEN);
        assert!(windows.due);
        windows.due = false;
        windows.on_max_stream_data(0, 601);
        windows.on_read(0, 199, &OPEN);
        assert!(!windows.due);
    }

    #[test]
    fn the_window_of_the_connection_counts_all_streams() {
        let mut windows = windows();
        for id in [0, 4, 8] {
            windows.on_received(id, 180, true, &OPEN);
            windows.on_read(id, 180, &OPEN);
        }
        assert!(windows.due, "540 of 1,000");
    }

    #[test]
    fn a_stream_of_which_no_packet_was_looked_into_needs_its_window_all_the_same() {
        let mut windows = windows();
        windows.on_read(0, 200, &OPEN);
        assert!(!windows.due);
        windows.on_read(0, 1, &OPEN);
        assert!(windows.due);
    }

    #[test]
    fn offsets_are_needed_from_an_unseen_read_to_the_next_one_that_is_seen() {
        let mut windows = windows();
        assert!(!windows.needs_offsets());
        windows.on_unseen();
        assert!(windows.needs_offsets());
        windows.on_read(0, 1, &OPEN);
        assert!(!windows.needs_offsets());
    }

    #[test]
    fn what_a_reset_stream_had_not_delivered_counts_as_read() {
        let mut windows = windows();
        windows.on_read(0, 100, &OPEN);
        windows.on_reset(0, 400, &OPEN);
        assert!(!windows.due, "400 of 1,000");
        windows.on_reset(4, 101, &OPEN);
        assert!(windows.due, "501 of 1,000");
    }

    #[test]
    fn resets_may_say_anything() {
        let mut windows = windows();
        for id in 0..10 {
            windows.on_reset(4 * id, (1 << 62) - 1, &OPEN);
        }
        windows.on_read(0, 100, &OPEN);
        assert!(windows.due);
    }

    #[test]
    fn what_comes_of_a_stream_that_is_over_counts_for_nothing() {
        let mut windows = windows();
        for id in (0..100).map(|at| 4 * at) {
            windows.on_received(id, 400, true, &OVER);
            windows.on_reset(id, 400, &OVER);
        }
        assert!(windows.streams.is_empty());
        assert_eq!((windows.due, windows.connection.consumed), (false, 0));
        // It was just read to its end.
        windows.on_read(0, 501, &OVER);
        assert!(windows.streams.is_empty() && windows.due);
    }

    #[test]
    fn records_of_streams_that_are_over_make_way_and_those_of_others_stay() {
        let mut windows = windows();
        let (asked, n) = (Cell::new(0), 4 * LEAST_RECORDS as u64);
        let is_over = |_| {
            asked.set(asked.get() + 1);
            false
        };
        (0..n).for_each(|id| windows.on_received(id, 10, false, &is_over));
        assert_eq!(windows.streams.len() as u64, n);
        assert!(asked.get() < 3 * n, "{} questions for {n} streams", asked.get());
        (n..2 * n).for_each(|id| windows.on_received(id, 10, false, &|other| other < id));
        assert!(windows.streams.len() as u64 <= n);
        assert!(windows.streams.contains_key(&(2 * n - 1)));
    }

    #[test]
    fn a_finished_stream_needs_no_window() {
        let mut windows = windows();
        windows.on_received(0, 400, true, &OPEN);
        windows.on_read(0, 400, &OPEN);
        assert!(!windows.due);
    }
}
