//! Streams that this end has stopped reading.
//!
//! What: asks the peer to stop sending on them (STOP_SENDING), and drops what comes until they end. Why: a stream that
//! quiche (0.30) is told to stop reading is never readable again (`RecvBuf::shutdown`), and quiche forgets a stream
//! when it is read to its end: one that only the peer sends on, or that ends behind this end's half, stays for ever, and
//! the peer may not open another in its place. A viewer that stops frames which come too late gets no more of them
//! once it has stopped as many as may be open. Upstream: not reported. To delete: when quiche gives a stream back whose
//! end comes after it was stopped.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use quiche::BufFactory;
use tack_proto::varint;

use super::frames_in_flight::FramesInFlight;
use super::receive_windows::is_over;
use super::stopped_streams::StoppedStreams;

/// STOP_SENDING (RFC 9000 section 19.5).
const STOP_SENDING: u8 = 0x05;

/// The longest that [`StoppedReads::encode`] makes a frame: type, stream and error code.
const FRAME_ROOM: usize = 1 + 8 + 8;

/// Frames that find room beside stream data.
const MAX_FRAMES: usize = 4;

/// Requests that are remembered after their end. Of those before them `quiche::h3` keeps its entry.
const REMEMBERED: usize = 4096;

/// Requests that are looked at in one call: none takes longer for more of them.
const LOOKED_AT: usize = 16;

#[derive(Debug)]
struct Asked {
    error: u64,
    /// Packets on their way with the frame.
    in_flight: usize,
    /// The peer has it.
    is_told: bool,
}

/// The streams that this end has stopped reading, until they end.
#[derive(Debug, Default)]
pub struct StoppedReads {
    asked: BTreeMap<u64, Asked>,
    /// Those whose frame has to be sent.
    owed: BTreeSet<u64>,
    in_flight: FramesInFlight,
    /// Those of which something has come in the last packet.
    touched: Vec<u64>,
    /// How many there have been.
    count: u64,
}

/// What was dropped of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dropped {
    /// Bytes.
    pub len: usize,
    /// Nothing more comes.
    pub is_over: bool,
}

/// Drops what can be read of a stream.
pub fn drop_readable<F: BufFactory>(
    connection: &mut quiche::Connection<F>,
    stream_id: u64,
) -> Dropped {
    let mut dropped = Dropped { len: 0, is_over: false };
    while !dropped.is_over {
        match connection.stream_discard(stream_id, usize::MAX) {
            Ok((len, fin)) => {
                dropped.len += len;
                dropped.is_over = fin;
            }
            Err(quiche::Error::Done) => {
                // It may have been read to its end before.
                dropped.is_over = connection.stream_finished(stream_id);
                break;
            }
            // It was reset, or is gone.
            Err(_) => dropped.is_over = true,
        }
    }
    dropped
}

/// A request of HTTP/3 that is over and was not read, or not answered, to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GivenUp {
    /// Its stream.
    pub stream_id: u64,
    /// The application may write to it and has to be told then that the peer has stopped it.
    pub may_be_answered: bool,
}

/// Requests of HTTP/3 that this end has stopped reading and of which no more comes, and those whose answer it has reset.
/// `quiche::h3` has an entry for each, which goes when it has both read and written the end, and that it does not do.
#[derive(Debug, Default)]
pub struct GivenUpRequests(VecDeque<GivenUp>);

impl GivenUpRequests {
    /// No more comes of a stream that this end has stopped reading.
    pub fn on_over(&mut self, stream_id: u64) {
        self.remember(GivenUp { stream_id, may_be_answered: true });
    }

    /// This end writes no more to a stream.
    pub fn on_reset(&mut self, stream_id: u64) {
        self.remember(GivenUp { stream_id, may_be_answered: false });
    }

    fn remember(&mut self, request: GivenUp) {
        // Requests are on streams that the client opens and that go both ways (RFC 9114 section 4.1).
        if !request.stream_id.is_multiple_of(4) {
            return;
        }
        if self.0.len() >= REMEMBERED {
            self.0.pop_front();
        }
        self.0.push_back(request);
    }

    /// Takes some that quiche has done with.
    pub fn take_done<F: BufFactory>(
        &mut self,
        connection: &mut quiche::Connection<F>,
        stopped: &StoppedStreams,
    ) -> Vec<GivenUp> {
        let looked_at = self.0.len().min(LOOKED_AT);
        let mut done: Vec<GivenUp> = self.0.drain(..looked_at).collect();
        done.retain_mut(|request| {
            let &mut GivenUp { stream_id, may_be_answered } = request;
            // quiche keeps a stream that the peer has stopped until it is asked about it.
            let is_answered = !may_be_answered || stopped.is_behind_end(stream_id);
            let is_done = if stopped.contains(stream_id) {
                is_answered && is_over(connection, stream_id)
            } else {
                request.may_be_answered = false;
                stopped.is_forgotten(connection, stream_id)
            };
            if !is_done {
                self.0.push_back(GivenUp { stream_id, may_be_answered });
            }
            is_done
        });
        done
    }
}

impl StoppedReads {
    /// The most that [`Self::room`] can be, bytes.
    pub const MOST_ROOM: usize = MAX_FRAMES * FRAME_ROOM;

    /// The application reads a stream no more.
    pub fn insert(&mut self, stream_id: u64, error: u64) {
        self.asked.insert(stream_id, Asked { error, in_flight: 0, is_told: false });
        self.owed.insert(stream_id);
    }

    /// The application has stopped reading one more stream.
    pub fn count(&mut self) {
        self.count += 1;
    }

    /// How many streams the application has stopped reading.
    pub fn counted(&self) -> u64 {
        self.count
    }

    /// Whether this end reads no more of any stream that has not ended.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.asked.is_empty()
    }

    /// Whether this end reads no more of a stream that has not ended.
    #[inline]
    pub fn contains(&self, stream_id: u64) -> bool {
        !self.asked.is_empty() && self.asked.contains_key(&stream_id)
    }

    /// The stream has ended.
    pub fn remove(&mut self, stream_id: u64) {
        self.asked.remove(&stream_id);
        self.owed.remove(&stream_id);
    }

    /// quiche has accepted a packet with something of a stream.
    #[inline]
    pub fn on_received(&mut self, stream_id: u64) {
        if self.contains(stream_id) {
            self.touched.push(stream_id);
        }
    }

    /// quiche has got something of a stream of which nothing is to be read.
    pub fn touch(&mut self, stream_id: u64) {
        self.touched.push(stream_id);
    }

    /// quiche may have got something of any of the streams.
    pub fn touch_all(&mut self) {
        self.touched.extend(self.asked.keys());
    }

    /// Whether there is a stream of which something may have to be dropped.
    #[inline]
    pub fn has_touched(&self) -> bool {
        !self.touched.is_empty()
    }

    /// Takes such a stream.
    pub fn take_touched(&mut self) -> Option<u64> {
        self.touched.pop()
    }

    /// Something was acknowledged, up to the packet `largest_acked`. `was_delivered` tells what became of a packet.
    pub fn settle(
        &mut self,
        largest_acked: Option<u64>,
        was_delivered: impl Fn(u64) -> Option<bool>,
    ) {
        for settled in self.in_flight.take_settled(largest_acked, was_delivered) {
            let stream_id = settled.stream_id;
            let Some(asked) = self.asked.get_mut(&stream_id) else { continue };
            asked.in_flight = asked.in_flight.saturating_sub(1);
            asked.is_told |= settled.is_delivered;
            if asked.is_told {
                self.owed.remove(&stream_id);
            } else if asked.in_flight == 0 {
                self.owed.insert(stream_id);
            }
        }
    }

    /// The loss detection timer has expired (RFC 9002 section 6.2.4): what is on its way may as well go again.
    pub fn on_loss_timer(&mut self) {
        let untold = self.asked.iter().filter(|(_, asked)| !asked.is_told);
        self.owed.extend(untold.map(|(stream_id, _)| *stream_id));
    }

    /// Whether a frame has to be sent.
    #[inline]
    pub fn owes(&self) -> bool {
        !self.owed.is_empty()
    }

    /// Bytes that quiche has to leave for the frames.
    #[inline]
    pub fn room(&self) -> usize {
        self.owed.len().min(MAX_FRAMES) * FRAME_ROOM
    }

    /// Appends frames for a packet, as many as fit into `room` bytes; how many these are. They have left only with
    /// [`Self::on_encoded_sent`].
    pub fn encode(&self, room: usize, out: &mut Vec<u8>) -> usize {
        let mut encoded = 0;
        for stream_id in self.owed.iter().take(room / FRAME_ROOM) {
            out.push(STOP_SENDING);
            varint::put(out, *stream_id);
            varint::put(out, self.asked.get(stream_id).map_or(0, |asked| asked.error));
            encoded += 1;
        }
        encoded
    }

    /// The `encoded` frames that were encoded last have left in packet `pn`.
    pub fn on_encoded_sent(&mut self, pn: u64, encoded: usize) {
        for _ in 0..encoded {
            let Some(stream_id) = self.owed.pop_first() else { break };
            self.in_flight.on_sent(pn, stream_id);
            if let Some(asked) = self.asked.get_mut(&stream_id) {
                asked.in_flight += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(stops: &mut StoppedReads, pn: u64) -> Vec<u8> {
        let mut out = Vec::new();
        let encoded = stops.encode(stops.room(), &mut out);
        stops.on_encoded_sent(pn, encoded);
        out
    }

    #[test]
    fn the_peer_is_asked_until_it_knows() {
        let mut stops = StoppedReads::default();
        assert!(!stops.owes());
        stops.insert(6, 9);
        assert!(stops.owes());
        assert_eq!(encoded(&mut stops, 1), [0x05, 6, 9]);
        stops.settle(Some(1), |_| None);
        assert!(!stops.owes(), "it is on its way");
        stops.settle(Some(2), |_| Some(false));
        assert_eq!(encoded(&mut stops, 3), [0x05, 6, 9], "it was lost");
        stops.on_loss_timer();
        assert_eq!(encoded(&mut stops, 5), [0x05, 6, 9]);
        stops.settle(Some(3), |pn| (pn == 3).then_some(true));
        stops.on_loss_timer();
        assert!(!stops.owes() && stops.contains(6), "it knows, and may not have answered");
        stops.remove(6);
        assert!(stops.is_empty());
    }

    #[test]
    fn requests_that_nobody_asks_for_take_no_memory() {
        let mut requests = GivenUpRequests::default();
        (0..20_000).for_each(|stream_id| requests.on_over(stream_id));
        let last = GivenUp { stream_id: 19_996, may_be_answered: true };
        assert_eq!((requests.0.len(), requests.0.back()), (REMEMBERED, Some(&last)));
    }

    #[test]
    fn no_packet_gets_more_frames_than_there_was_room_for() {
        let mut stops = StoppedReads::default();
        for stream_id in 0..10 {
            stops.insert(stream_id << 40, u64::MAX >> 2);
        }
        for pn in 0..3 {
            let room = stops.room();
            assert!(encoded(&mut stops, pn).len() <= room, "packet {pn}");
        }
        assert!(!stops.owes());
    }

    #[test]
    fn streams_of_a_packet_are_looked_at_if_they_were_stopped() {
        let mut stops = StoppedReads::default();
        stops.on_received(2);
        stops.insert(2, 0);
        stops.on_received(6);
        stops.on_received(2);
        assert_eq!([(); 2].map(|()| stops.take_touched()), [Some(2), None]);
    }
}
