//! Frames of streams that the layer repeats until they are acknowledged.
//!
//! What: which packets they are in. Why: quiche repeats its own frames and none of the layer's, and an acknowledgement must
//! cost no more where many streams have one on its way. Upstream: no hook. To delete: with `stream_ends.rs` and
//! `stopped_reads.rs`.

use std::collections::BTreeSet;

/// Packets and the streams of which they carry a frame.
#[derive(Debug, Default)]
pub struct FramesInFlight(BTreeSet<(u64, u64)>);

/// What has become of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settled {
    /// The packet.
    pub packet_number: u64,
    /// The stream.
    pub stream_id: u64,
    /// Whether the packet was acknowledged, and not lost.
    pub is_delivered: bool,
}

impl FramesInFlight {
    /// A packet has left with a frame of a stream.
    pub fn on_sent(&mut self, packet_number: u64, stream_id: u64) {
        self.0.insert((packet_number, stream_id));
    }

    /// Takes the frames of which it is known what has become. `was_delivered` tells that of a packet: of none before one
    /// that was sent later is acknowledged.
    pub fn take_settled(
        &mut self,
        largest_acked: Option<u64>,
        was_delivered: impl Fn(u64) -> Option<bool>,
    ) -> Vec<Settled> {
        let Some(largest) = largest_acked else { return Vec::new() };
        let known = self.0.range(..=(largest, u64::MAX));
        let settled: Vec<Settled> = known
            .filter_map(|&(packet_number, stream_id)| {
                let is_delivered = was_delivered(packet_number)?;
                Some(Settled { packet_number, stream_id, is_delivered })
            })
            .collect();
        for Settled { packet_number, stream_id, .. } in &settled {
            self.0.remove(&(*packet_number, *stream_id));
        }
        settled
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn packets_behind_the_last_acknowledged_one_are_not_asked_about() {
        let (mut frames, asked) = (FramesInFlight::default(), Cell::new(0));
        (0..10_000).for_each(|pn| frames.on_sent(pn, 4 * pn));
        let mut settled = 0;
        for largest in 0..100 {
            settled += frames
                .take_settled(Some(largest), |_| {
                    asked.set(asked.get() + 1);
                    Some(true)
                })
                .len();
        }
        assert_eq!((settled, asked.get(), frames.0.len()), (100, 100, 9900));
        assert!(frames.take_settled(None, |_| Some(true)).is_empty());
    }

    #[test]
    fn what_is_not_known_is_asked_again() {
        let mut frames = FramesInFlight::default();
        frames.on_sent(1, 8);
        frames.on_sent(1, 4);
        frames.on_sent(2, 4);
        let lost = |pn| (pn == 2).then_some(false);
        let settled = |packet_number, stream_id, is_delivered| Settled {
            packet_number,
            stream_id,
            is_delivered,
        };
        assert_eq!(frames.take_settled(Some(2), lost), [settled(2, 4, false)]);
        assert_eq!(frames.take_settled(Some(2), lost), []);
        let all = frames.take_settled(Some(9), |_| Some(true));
        assert_eq!(all, [settled(1, 4, true), settled(1, 8, true)]);
    }
}
