//! Ends of streams that leave without data.
//!
//! What: follows the ends of streams that the application writes behind the data, in a call of its own,
//! and sends those that quiche has forgotten or lost, as the empty STREAM frame that they would have been
//! (RFC 9000 section 13.3). Why: the peer waits in vain for an end that quiche (0.30) drops in two ways.
//! It takes a stream for delivered once all its data is acknowledged, whether or not its end is
//! (`SendBuf::is_complete`): it forgets the end where the acknowledgement of the data comes before the end
//! has left, and does not repeat it where the packet with it is lost. And an end on its own is no data: quiche
//! queues the stream for it, unless the stream is queued already (`stream_send`, and what it does with lost frames).
//! Where that is for lost data before the last, the data leaves without the end. Upstream: cloudflare/quiche issue
//! 2525 is the first; the second is not reported. To delete: when quiche repeats ends as it does data. A peer that is
//! quiche itself does not tell of an end that comes with data which was read (see `read_ends.rs`): an end that was
//! written behind all data leaves alone each time. It also tells which
//! ends must not leave: those that quiche writes for streams that were given up (`SendBuf::reset`, not reported either).

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use tack_proto::varint;

use super::frames_in_flight::FramesInFlight;

/// STREAM with offset, length and the end of the stream (RFC 9000 section 19.8).
const STREAM_OFF_LEN_FIN: u8 = 0x0f;

/// The longest that [`StreamEnds::encode`] makes a frame: type, stream, offset and length.
const FRAME_ROOM: usize = 1 + 8 + 8 + 1;

/// Frames that find room beside stream data.
const MAX_FRAMES: usize = 4;

/// Streams that were given up and are remembered.
const MAX_RESET: usize = 4096;

/// Ends that have not left and of which an acknowledgement asks whether quiche has forgotten them: none costs more for
/// more of them.
const LOOKED_AT: usize = 32;

#[derive(Debug, Default)]
struct End {
    /// The stream's length in bytes.
    len: u64,
    /// Packets on their way with the end.
    packets: Vec<u64>,
    /// All data had left when it was written: what leaves with it is repeated.
    is_behind: bool,
}

/// What is known of a stream when its end is written.
#[derive(Clone, Copy, Debug, Default)]
pub struct WrittenState {
    /// All of its data has left.
    pub has_left: bool,
    /// quiche may have some of it to send again.
    pub is_repeating: bool,
}

/// The streams whose end has been written alone, until it is acknowledged.
#[derive(Debug, Default)]
pub struct StreamEnds {
    /// What has been written to streams without an end yet.
    lengths: BTreeMap<u64, u64>,
    ends: BTreeMap<u64, End>,
    /// Those that have to be sent from here.
    owed: BTreeSet<u64>,
    /// Those that have not left, which quiche may send or forget.
    unsent: BTreeSet<u64>,
    /// The one of these that was looked at last.
    looked_at: u64,
    in_flight: FramesInFlight,
    /// Streams that were given up last. quiche (0.30) writes an end, too, for those of them that waited to send, at what
    /// has left: a peer that has all of that takes the stream for complete.
    reset: BTreeSet<u64>,
    /// In the order in which that was.
    reset_order: VecDeque<u64>,
}

impl StreamEnds {
    /// The most that [`Self::room`] can be, bytes.
    pub const MOST_ROOM: usize = MAX_FRAMES * FRAME_ROOM;

    /// The application has written `bytes` to a stream, and its end if `fin`. `state` is asked for then.
    pub fn on_written(
        &mut self,
        stream_id: u64,
        bytes: usize,
        fin: bool,
        state: impl FnOnce() -> WrittenState,
    ) {
        let bytes = bytes as u64;
        if !fin {
            *self.lengths.entry(stream_id).or_default() += bytes;
            return;
        }
        // An end may be written twice, and then the length is not known any more: a wrong one would
        // break the connection. Without it the end is followed from when quiche sends it.
        let Some(len) = self.lengths.remove(&stream_id) else { return };
        if bytes == 0 {
            let WrittenState { has_left, is_repeating } = state();
            self.ends.insert(stream_id, End { len, packets: Vec::new(), is_behind: has_left });
            let is_owed = has_left && is_repeating;
            (if is_owed { &mut self.owed } else { &mut self.unsent }).insert(stream_id);
        }
    }

    /// How much has been written to a stream whose end has not, bytes.
    pub fn written(&self, stream_id: u64) -> u64 {
        self.lengths.get(&stream_id).copied().unwrap_or_default()
    }

    /// quiche has put the end of a stream into packet `pn`, behind `bytes` of data at `offset`.
    pub fn on_sent(&mut self, pn: u64, stream_id: u64, offset: u64, bytes: u64) {
        if self.reset.contains(&stream_id) {
            return;
        }
        if bytes == 0 {
            self.ends.entry(stream_id).or_default().len = offset;
        }
        // Data that has left before may be acknowledged without the end that leaves with it now.
        self.has_left(pn, stream_id);
    }

    /// An end has left in packet `pn`.
    fn has_left(&mut self, pn: u64, stream_id: u64) {
        let Some(end) = self.ends.get_mut(&stream_id) else { return };
        end.packets.push(pn);
        self.in_flight.on_sent(pn, stream_id);
        self.owed.remove(&stream_id);
        self.unsent.remove(&stream_id);
    }

    /// An end is acknowledged, or is none any more.
    fn remove(&mut self, stream_id: u64) {
        self.ends.remove(&stream_id);
        self.owed.remove(&stream_id);
        self.unsent.remove(&stream_id);
    }

    /// An end has to be sent from here.
    fn owe(&mut self, stream_id: u64) {
        self.owed.insert(stream_id);
        self.unsent.remove(&stream_id);
    }

    /// Whether the end of a stream, written alone, has yet to be acknowledged.
    pub fn is_pending(&self, stream_id: u64) -> bool {
        self.ends.contains_key(&stream_id)
    }

    /// Whether a stream has been written to, and its end has not been written.
    pub fn is_unfinished(&self, stream_id: u64) -> bool {
        self.lengths.contains_key(&stream_id)
    }

    /// Streams that have been written to, and whose end has not been written.
    pub fn unfinished(&self) -> impl Iterator<Item = u64> {
        self.lengths.keys().copied()
    }

    /// The stream has been given up: it has no end any more.
    pub fn on_reset(&mut self, stream_id: u64) {
        self.lengths.remove(&stream_id);
        self.remove(stream_id);
        if !self.reset.insert(stream_id) {
            return;
        }
        self.reset_order.push_back(stream_id);
        if self.reset_order.len() > MAX_RESET
            && let Some(oldest) = self.reset_order.pop_front()
        {
            self.reset.remove(&oldest);
        }
    }

    /// Whether the end of the stream, which quiche has put behind data, leaves alone: it has to be sent from here then.
    pub fn leaves_alone(&self, stream_id: u64) -> bool {
        self.ends.get(&stream_id).is_some_and(|end| end.is_behind)
    }

    /// The end of a stream was taken from its data.
    pub fn on_taken_off(&mut self, stream_id: u64) {
        if self.ends.contains_key(&stream_id) {
            self.owe(stream_id);
        }
    }

    /// Whether an end of the stream must not be sent: the stream was given up (RFC 9000 section 3.1).
    pub fn is_given_up(&self, stream_id: u64) -> bool {
        self.reset.contains(&stream_id)
    }

    /// Something was acknowledged, up to the packet `largest_acked`. `was_delivered` tells what became of a packet,
    /// `is_forgotten` whether quiche knows a stream no more.
    pub fn settle(
        &mut self,
        largest_acked: Option<u64>,
        was_delivered: impl Fn(u64) -> Option<bool>,
        mut is_forgotten: impl FnMut(u64) -> bool,
    ) {
        for settled in self.in_flight.take_settled(largest_acked, was_delivered) {
            let stream_id = settled.stream_id;
            let Some(end) = self.ends.get_mut(&stream_id) else { continue };
            end.packets.retain(|pn| *pn != settled.packet_number);
            let has_none = end.packets.is_empty();
            if settled.is_delivered {
                self.remove(stream_id);
            } else if has_none {
                self.owe(stream_id);
            }
        }
        for stream_id in self.take_turn() {
            if is_forgotten(stream_id) {
                self.owe(stream_id);
            }
        }
    }

    /// Some ends that have not left, the next ones each time.
    fn take_turn(&mut self) -> Vec<u64> {
        let later = self.unsent.range(self.looked_at.saturating_add(1)..);
        let earlier = self.unsent.range(..=self.looked_at);
        let turn: Vec<u64> = later.chain(earlier).take(LOOKED_AT).copied().collect();
        self.looked_at = turn.last().copied().unwrap_or_default();
        turn
    }

    /// A stream was read to its end, and quiche may have forgotten it.
    pub fn settle_stream(
        &mut self,
        stream_id: u64,
        was_delivered: impl Fn(u64) -> Option<bool>,
        is_forgotten: impl FnOnce() -> bool,
    ) {
        let Some(end) = self.ends.get(&stream_id) else { return };
        if end.packets.iter().any(|pn| was_delivered(*pn) == Some(true)) {
            self.remove(stream_id);
        } else if self.unsent.contains(&stream_id) && is_forgotten() {
            self.owe(stream_id);
        }
    }

    /// quiche has nothing to send, and all that was sent is acknowledged: no end that has not left by now will. Whether
    /// there is one.
    pub fn on_idle(&mut self) -> bool {
        self.owed.append(&mut self.unsent);
        self.owes()
    }

    /// The loss detection timer has expired (RFC 9002 section 6.2.4): what is on its way may as well go again. So may
    /// what is not known to be lost here, and to quiche is, where a later packet `has_overtaken` it.
    pub fn on_loss_timer(
        &mut self,
        has_overtaken: impl Fn(u64) -> bool,
        mut is_forgotten: impl FnMut(u64) -> bool,
    ) {
        for (&stream_id, end) in &self.ends {
            let mut packets = end.packets.iter();
            let is_overtaken = !end.packets.is_empty() && packets.all(|pn| has_overtaken(*pn));
            if is_overtaken || is_forgotten(stream_id) {
                self.owed.insert(stream_id);
                self.unsent.remove(&stream_id);
            }
        }
    }

    /// Whether an end has to be sent from here.
    #[inline]
    pub fn owes(&self) -> bool {
        !self.owed.is_empty()
    }

    /// Bytes that quiche has to leave for the frames.
    pub fn room(&self) -> usize {
        self.owed.len().min(MAX_FRAMES) * FRAME_ROOM
    }

    /// Appends frames for a packet, as many as fit into `room` bytes; how many these are. They have left only with
    /// [`Self::on_encoded_sent`].
    pub fn encode(&self, room: usize, out: &mut Vec<u8>) -> usize {
        let mut encoded = 0;
        for stream_id in self.owed.iter().take(room / FRAME_ROOM) {
            out.push(STREAM_OFF_LEN_FIN);
            varint::put(out, *stream_id);
            varint::put(out, self.ends.get(stream_id).map_or(0, |end| end.len));
            varint::put(out, 0);
            encoded += 1;
        }
        encoded
    }

    /// The `encoded` frames that were encoded last have left in packet `pn`.
    pub fn on_encoded_sent(&mut self, pn: u64, encoded: usize) {
        for _ in 0..encoded {
            let Some(stream_id) = self.owed.pop_first() else { break };
            self.has_left(pn, stream_id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPEATING: WrittenState = WrittenState { has_left: true, is_repeating: true };

    /// A stream of 1,000 bytes whose end was written alone.
    fn ended() -> StreamEnds {
        let mut ends = StreamEnds::default();
        ends.on_written(4, 600, false, WrittenState::default);
        ends.on_written(4, 400, false, WrittenState::default);
        ends.on_written(4, 0, true, WrittenState::default);
        ends
    }

    fn settle(ends: &mut StreamEnds, fate: Option<bool>, is_forgotten: bool) -> bool {
        ends.settle(Some(u64::MAX), |_| fate, |_| is_forgotten);
        ends.owes()
    }

    fn encoded(ends: &mut StreamEnds, pn: u64) -> Vec<u8> {
        let mut out = Vec::new();
        let encoded = ends.encode(ends.room(), &mut out);
        ends.on_encoded_sent(pn, encoded);
        out
    }

    /// End of stream 4 at 1,000.
    const FRAME: [u8; 5] = [0x0f, 4, 0x43, 0xe8, 0];

    #[test]
    fn an_end_that_quiche_forgets_is_sent_until_it_is_acknowledged() {
        let mut ends = ended();
        assert!(!settle(&mut ends, None, false), "quiche will send it");
        assert!(settle(&mut ends, None, true));
        assert_eq!(encoded(&mut ends, 7), FRAME);
        assert!(!settle(&mut ends, None, true), "it is on its way");
        assert!(settle(&mut ends, Some(false), true), "it was lost");
        assert_eq!(encoded(&mut ends, 9), FRAME);
        ends.on_loss_timer(|_| false, |_| true);
        assert_eq!(encoded(&mut ends, 11), FRAME);
        ends.settle(Some(9), |pn| (pn == 9).then_some(true), |_| true);
        assert!(ends.ends.is_empty());
    }

    #[test]
    fn an_end_that_quiche_sent_is_repeated_when_it_is_lost_unless_quiche_has_done_so() {
        let mut ends = StreamEnds::default();
        ends.on_sent(3, 4, 1000, 0);
        assert!(!settle(&mut ends, None, true));
        ends.on_sent(5, 4, 1000, 0);
        ends.settle(Some(4), |pn| (pn == 3).then_some(false), |_| false);
        assert!(!ends.owes(), "the second is on its way");
        assert!(
            settle(&mut ends, Some(false), false),
            "quiche may have queued the stream for other data"
        );
        assert_eq!(encoded(&mut ends, 8), FRAME);
    }

    #[test]
    fn an_end_that_left_with_data_in_the_end_is_followed_as_well() {
        let mut ends = ended();
        ends.on_sent(3, 4, 900, 100);
        assert!(!settle(&mut ends, None, false));
        assert!(
            settle(&mut ends, Some(false), false),
            "an older copy of the data may have arrived"
        );
        assert_eq!(encoded(&mut ends, 5), FRAME);
    }

    #[test]
    fn an_end_behind_lost_data_leaves_with_the_next_packet() {
        let mut ends = StreamEnds::default();
        ends.on_written(4, 1000, false, || REPEATING);
        ends.on_written(4, 0, true, || REPEATING);
        assert!(ends.owes());
        assert_eq!(encoded(&mut ends, 5), FRAME);
        assert!(ends.leaves_alone(4), "not with data that has left before");
        ends.on_taken_off(4);
        assert_eq!(encoded(&mut ends, 6), FRAME);
    }

    #[test]
    fn an_end_that_a_later_packet_has_overtaken_goes_again_when_the_loss_timer_expires() {
        let mut ends = StreamEnds::default();
        ends.on_sent(3, 4, 1000, 0);
        ends.on_loss_timer(|pn| pn < 3, |_| false);
        assert!(!ends.owes(), "quiche repeats it, if that was its timer");
        ends.on_loss_timer(|pn| pn < 4, |_| false);
        assert_eq!(encoded(&mut ends, 8), FRAME);
    }

    #[test]
    fn an_end_that_has_not_left_when_all_is_acknowledged_is_owed() {
        let mut ends = ended();
        assert!(ends.on_idle());
        assert_eq!(encoded(&mut ends, 7), FRAME);
        assert!(!ends.on_idle(), "it is on its way");
    }

    #[test]
    fn an_end_with_data_and_a_stream_given_up_are_none_of_its_business() {
        let mut ends = StreamEnds::default();
        ends.on_written(0, 10, true, WrittenState::default);
        ends.on_sent(3, 8, 0, 10);
        assert!(!settle(&mut ends, Some(false), true));
        let mut ends = ended();
        ends.on_reset(4);
        assert!(!settle(&mut ends, Some(false), true));
        assert!(ends.lengths.is_empty() && ends.ends.is_empty());
    }

    #[test]
    fn an_end_that_quiche_writes_for_a_stream_given_up_is_not_repeated() {
        let mut ends = StreamEnds::default();
        ends.on_reset(4);
        ends.on_sent(3, 4, 1000, 0);
        assert!(!settle(&mut ends, Some(false), true));
        assert!(ends.ends.is_empty());
    }

    #[test]
    fn an_end_that_is_written_again_changes_nothing() {
        let mut ends = ended();
        ends.on_written(4, 0, true, WrittenState::default);
        assert!(settle(&mut ends, None, true));
        assert_eq!(encoded(&mut ends, 7), FRAME);
        ends.settle(Some(9), |_| Some(true), |_| true);
        ends.on_written(4, 0, true, WrittenState::default);
        assert!(!settle(&mut ends, None, true), "after its acknowledgement");
        ends.on_written(8, 10, true, WrittenState::default);
        ends.on_written(8, 0, true, WrittenState::default);
        assert!(!settle(&mut ends, None, true), "behind an end with data");
    }

    /// Ten streams whose ends quiche has forgotten.
    fn forgotten() -> StreamEnds {
        let mut ends = StreamEnds::default();
        for stream_id in 0..10 {
            ends.on_written(stream_id * 4, 1, false, WrittenState::default);
            ends.on_written(stream_id * 4, 0, true, WrittenState::default);
        }
        assert!(settle(&mut ends, None, true));
        ends
    }

    #[test]
    fn no_packet_gets_more_ends_than_there_was_room_for() {
        let mut ends = forgotten();
        for pn in 0..3 {
            let room = ends.room();
            assert!(encoded(&mut ends, pn).len() <= room, "packet {pn}");
        }
        assert!(!ends.owes());
    }

    #[test]
    fn a_packet_without_data_gets_as_many_ends_as_fit() {
        let (mut ends, mut out) = (forgotten(), Vec::new());
        let encoded = ends.encode(9 * FRAME_ROOM, &mut out);
        assert_eq!(encoded, 9);
        ends.on_encoded_sent(1, encoded);
        assert_eq!(ends.room(), FRAME_ROOM);
    }

    #[test]
    fn the_end_of_one_stream_that_was_read_is_settled_and_no_other() {
        let mut ends = ended();
        ends.on_written(8, 1, false, WrittenState::default);
        ends.on_written(8, 0, true, WrittenState::default);
        ends.settle_stream(4, |_| None, || true);
        ends.settle_stream(12, |_| None, || true);
        assert_eq!(encoded(&mut ends, 3), FRAME);
        ends.settle_stream(4, |_| Some(true), || true);
        assert!(!ends.is_pending(4) && ends.is_pending(8));
    }

    #[test]
    fn streams_that_wait_to_send_their_ends_cost_an_acknowledgement_no_more() {
        let (mut ends, mut asked) = (StreamEnds::default(), 0);
        for stream_id in 0..10_000 {
            ends.on_written(stream_id, 1, false, WrittenState::default);
            ends.on_written(stream_id, 0, true, WrittenState::default);
        }
        ends.settle(
            Some(9),
            |_| None,
            |_| {
                asked += 1;
                false
            },
        );
        assert_eq!(asked, LOOKED_AT);
        for _ in 0..=10_000 / LOOKED_AT {
            ends.settle(Some(9), |_| None, |id| id == 5000);
        }
        assert!(ends.owes(), "each has its turn");
    }
}
