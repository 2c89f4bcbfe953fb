//! Properties of the frame codec over generated payloads.

use std::ops::{Range, RangeInclusive};

use proptest::{collection::vec, option, prelude::*};
use tack_proto::{
    frame::{
        AckFrequency, Arrivals, EcnCounts, EncodedTack, Frame, Frames, IackEvent, IackFields,
        MAX_ARRIVALS, Rate, StampedArrival, Stream, TackFields, Timestamp, Timing,
        check_payload, encode_ack, encode_iack, encode_immediate_ack, encode_tack,
    },
    varint,
};

/// A frame to write into a payload, and to find again in it.
#[derive(Clone, Debug)]
enum Sample {
    /// One that this crate only reads: its bytes, and what they say.
    Plain(Vec<u8>, Frame<'static>),
    NewConnectionId {
        sequence: u64,
        retire_prior_to: u64,
        cid: Vec<u8>,
        token: [u8; 16],
    },
    AckFrequency(AckFrequency),
    ImmediateAck,
    Timestamp(Timestamp),
    Ack {
        ranges: Ranges,
        ack_delay: u64,
        ecn: Option<EcnCounts>,
    },
    Tack {
        fields: Box<TackFields>,
        ranges: Ranges,
        bubbles: Bubbles,
    },
    Iack {
        fields: IackFields,
        ranges: Ranges,
    },
}

type Ranges = Vec<RangeInclusive<u64>>;
type Bubbles = Vec<(u64, Range<u64>)>;

impl Sample {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Plain(bytes, _) => out.extend_from_slice(bytes),
            Self::NewConnectionId { sequence, retire_prior_to, cid, token } => {
                for field in [0x18, *sequence, *retire_prior_to, cid.len() as u64] {
                    varint::put(out, field);
                }
                out.extend_from_slice(cid);
                out.extend_from_slice(token);
            }
            Self::AckFrequency(ack_frequency) => ack_frequency.encode(out),
            Self::ImmediateAck => encode_immediate_ack(out),
            Self::Timestamp(timestamp) => timestamp.encode(out),
            Self::Ack { ranges, ack_delay, ecn } => {
                let count =
                    encode_ack(out, ranges.iter().cloned(), *ack_delay, *ecn, usize::MAX);
                assert_eq!(count, ranges.len());
            }
            Self::Tack { fields, ranges, bubbles } => {
                let (ranges_in, bubbles_in) = (ranges.iter().cloned(), bubbles.iter().cloned());
                let encoded = encode_tack(out, fields, ranges_in, bubbles_in, usize::MAX);
                let whole = EncodedTack { ranges: ranges.len(), bubbles: bubbles.len() };
                assert_eq!(encoded, Some(whole));
            }
            Self::Iack { fields, ranges } => {
                let count = encode_iack(out, fields, ranges.iter().cloned(), usize::MAX);
                assert_eq!(count, ranges.len());
            }
        }
    }

    fn assert_is(&self, frame: &Frame<'_>) {
        match (self, frame) {
            (Self::Plain(_, expected), _) => assert_eq!(frame, expected),
            (
                Self::NewConnectionId { sequence, retire_prior_to, cid, token },
                Frame::NewConnectionId {
                    sequence: found_sequence,
                    retire_prior_to: found_retire,
                    cid: found_cid,
                    stateless_reset_token,
                },
            ) => {
                assert_eq!((sequence, retire_prior_to), (found_sequence, found_retire));
                assert_eq!((&cid[..], token), (*found_cid, *stateless_reset_token));
            }
            (Self::AckFrequency(expected), Frame::AckFrequency(found)) => {
                assert_eq!(expected, found);
            }
            (Self::ImmediateAck, Frame::ImmediateAck) => {}
            (Self::Timestamp(expected), Frame::Timestamp(found)) => assert_eq!(expected, found),
            (Self::Ack { ranges, ack_delay, ecn }, Frame::Ack(ack)) => {
                assert!(ack.ranges.iter().eq(ranges.iter().cloned()));
                assert_eq!((ack_delay, ecn), (&ack.ack_delay, &ack.ecn));
            }
            (Self::Tack { fields, ranges, bubbles }, Frame::Tack(tack)) => {
                assert_eq!(TackFields { grease: false, ..**fields }, tack.fields());
                assert!(tack.ranges.iter().eq(ranges.iter().cloned()));
                let found = tack.bubbles.iter().flatten();
                assert!(found.eq(bubbles.iter().cloned()));
            }
            (Self::Iack { fields, ranges }, Frame::Iack(iack)) => {
                assert_eq!(IackFields { grease: false, ..*fields }, iack.fields());
                assert!(iack.ranges.iter().eq(ranges.iter().cloned()));
            }
            _ => panic!("{self:?} was read as {frame:?}"),
        }
    }
}

/// A varint of any length, each as likely as the next.
fn integer() -> impl Strategy<Value = u64> {
    prop_oneof![0..1_u64 << 6, 0..1_u64 << 14, 0..1_u64 << 30, 0..=varint::MAX]
}

/// One to twenty ranges, highest first.
fn ranges() -> impl Strategy<Value = Ranges> {
    let steps = vec((0..1_u64 << 40, 0..1_u64 << 20), 1..20);
    (steps, 0..1_u64 << 20).prop_map(|(steps, smallest)| {
        let mut next = smallest;
        let mut ranges: Ranges = steps
            .into_iter()
            .map(|(length, gap)| {
                let range = next..=next + length;
                next = range.end() + 2 + gap;
                range
            })
            .collect();
        ranges.reverse();
        ranges
    })
}

/// Up to four streams of up to nine bubbles each.
fn bubbles() -> impl Strategy<Value = Bubbles> {
    let stream = (0..varint::MAX >> 2, vec((1..1_u64 << 32, 1..1_u64 << 20), 1..10));
    vec(stream, 0..5).prop_map(|streams| {
        let mut bubbles = Vec::new();
        for (number, (stream_id, steps)) in streams.into_iter().enumerate() {
            let mut end = 0;
            for (block, length) in steps {
                let start = end + block;
                end = start + length;
                bubbles.push((stream_id * 4 + number as u64 % 4, start..end));
            }
        }
        bubbles
    })
}

fn ecn() -> impl Strategy<Value = Option<EcnCounts>> {
    option::of((integer(), integer(), integer()))
        .prop_map(|counts| counts.map(|(ect0, ect1, ce)| EcnCounts { ect0, ect1, ce }))
}

/// Two to as many packets as a block holds.
fn arrivals() -> impl Strategy<Value = Arrivals> {
    let later = vec((1..1_u64 << 20, 0..1_u64 << 30, 0..1_u64 << 30), 1..MAX_ARRIVALS);
    (0..1_u64 << 40, later).prop_map(|(first, later)| {
        let mut arrivals = Arrivals::default();
        let mut arrival = StampedArrival { packet_number: first, ..StampedArrival::default() };
        arrivals.push(arrival);
        for (step, since_last_us, bytes) in later {
            let packet_number = arrival.packet_number + step;
            arrival = StampedArrival { packet_number, since_last_us, bytes };
            arrivals.push(arrival);
        }
        arrivals
    })
}

fn tack_fields() -> impl Strategy<Value = TackFields> {
    let timing = option::of((integer(), integer()));
    let rate = option::of((integer(), any::<u16>()));
    let fields = (integer(), integer(), integer(), timing, rate, ecn(), any::<bool>());
    (fields, option::of(arrivals())).prop_map(
        |((sequence, ack_delay_us, received_bytes, timing, rate, ecn, grease), arrivals)| {
            TackFields {
                sequence,
                ack_delay_us,
                received_bytes,
                timing: timing.map(|(departure, hold_us)| Timing { departure, hold_us }),
                rate: rate.map(|(delivery_rate, loss_rate)| Rate { delivery_rate, loss_rate }),
                ecn,
                arrivals,
                grease,
            }
        },
    )
}

/// Type, varints, then raw bytes.
fn bytes(frame_type: u64, fields: &[u64], tail: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    varint::put(&mut out, frame_type);
    for field in fields {
        varint::put(&mut out, *field);
    }
    out.extend_from_slice(tail);
    out
}

/// The frames of RFC 9000 that hold nothing but integers and bytes.
#[allow(clippy::too_many_lines)] // a list
fn plain() -> impl Strategy<Value = Sample> {
    let data = || vec(any::<u8>(), 0..40);
    let small = || 0..1_u64 << 60;
    prop_oneof![
        Just(Sample::Plain(vec![1], Frame::Ping)),
        (integer(), integer(), integer()).prop_map(|(stream_id, error_code, final_size)| {
            Sample::Plain(
                bytes(0x04, &[stream_id, error_code, final_size], &[]),
                Frame::ResetStream { stream_id, final_size, error_code },
            )
        }),
        (integer(), integer()).prop_map(|(stream_id, error_code)| Sample::Plain(
            bytes(0x05, &[stream_id, error_code], &[]),
            Frame::StopSending { stream_id, error_code }
        )),
        (small(), data()).prop_map(|(offset, data)| {
            let data_len = data.len() as u64;
            Sample::Plain(
                bytes(0x06, &[offset, data_len], &data),
                Frame::Crypto { offset, data_len },
            )
        }),
        vec(any::<u8>(), 1..40).prop_map(|token| Sample::Plain(
            bytes(0x07, &[token.len() as u64], &token),
            Frame::NewToken
        )),
        (integer(), small(), data(), any::<bool>()).prop_map(
            |(stream_id, offset, data, fin)| {
                let len = data.len() as u64;
                Sample::Plain(
                    bytes(0x0e | u64::from(fin), &[stream_id, offset, len], &data),
                    Frame::Stream(Stream { stream_id, offset, len, fin }),
                )
            }
        ),
        integer().prop_map(|max| Sample::Plain(bytes(0x10, &[max], &[]), Frame::MaxData(max))),
        (integer(), integer()).prop_map(|(stream_id, max)| Sample::Plain(
            bytes(0x11, &[stream_id, max], &[]),
            Frame::MaxStreamData { stream_id, max }
        )),
        (small(), any::<bool>()).prop_map(|(max, bidi)| Sample::Plain(
            bytes(if bidi { 0x12 } else { 0x13 }, &[max], &[]),
            Frame::MaxStreams { bidi, max }
        )),
        integer().prop_map(|n| Sample::Plain(bytes(0x14, &[n], &[]), Frame::DataBlocked)),
        integer().prop_map(|n| {
            Sample::Plain(bytes(0x15, &[n, n], &[]), Frame::StreamDataBlocked)
        }),
        small().prop_map(|n| Sample::Plain(bytes(0x17, &[n], &[]), Frame::StreamsBlocked)),
        integer().prop_map(|sequence| Sample::Plain(
            bytes(0x19, &[sequence], &[]),
            Frame::RetireConnectionId { sequence }
        )),
        any::<[u8; 8]>().prop_map(|data| Sample::Plain(
            bytes(0x1a, &[], &data),
            Frame::PathChallenge(data)
        )),
        any::<[u8; 8]>()
            .prop_map(|data| Sample::Plain(bytes(0x1b, &[], &data), Frame::PathResponse(data))),
        (integer(), data()).prop_map(|(error_code, reason)| Sample::Plain(
            bytes(0x1d, &[error_code, reason.len() as u64], &reason),
            Frame::ConnectionClose { application: true, error_code }
        )),
        (integer(), data()).prop_map(|(error_code, reason)| Sample::Plain(
            bytes(0x1c, &[error_code, 0x08, reason.len() as u64], &reason),
            Frame::ConnectionClose { application: false, error_code }
        )),
        Just(Sample::Plain(vec![0x1e], Frame::HandshakeDone)),
        data().prop_map(|data| Sample::Plain(
            bytes(0x31, &[data.len() as u64], &data),
            Frame::Datagram { len: data.len() }
        )),
    ]
}

fn sample() -> impl Strategy<Value = Sample> {
    let event = prop_oneof![2..=4_u64, integer()].prop_map(IackEvent::from_wire);
    prop_oneof![
        10 => plain(),
        1 => (integer(), integer(), vec(any::<u8>(), 1..=20), any::<[u8; 16]>()).prop_map(
            |(a, b, cid, token)| Sample::NewConnectionId {
                sequence: a.max(b), retire_prior_to: a.min(b), cid, token,
            }
        ),
        1 => (integer(), integer(), integer(), integer()).prop_map(|(a, b, c, d)| {
            Sample::AckFrequency(AckFrequency {
                sequence: a,
                ack_eliciting_threshold: b,
                requested_max_ack_delay_us: c,
                reordering_threshold: d,
            })
        }),
        1 => Just(Sample::ImmediateAck),
        1 => integer().prop_map(|value| Sample::Timestamp(Timestamp(value))),
        2 => (ranges(), integer(), ecn())
            .prop_map(|(ranges, ack_delay, ecn)| Sample::Ack { ranges, ack_delay, ecn }),
        2 => (tack_fields().boxed(), ranges(), bubbles())
            .prop_map(|(fields, ranges, bubbles)| {
                let fields = Box::new(fields);
                Sample::Tack { fields, ranges, bubbles }
            }),
        2 => (event, integer(), ranges(), integer(), ecn(), any::<bool>()).prop_map(
            |(event, received_bytes, ranges, ack_delay_us, ecn, grease)| Sample::Iack {
                fields: IackFields { event, received_bytes, ack_delay_us, ecn, grease },
                ranges,
            }
        ),
    ]
}

proptest! {
    #[test]
    fn a_payload_of_mixed_frames_is_read_as_it_was_written(
        samples in vec((sample(), 0_usize..3), 1..12),
        unbounded in option::of(vec(any::<u8>(), 0..40)),
    ) {
        let mut payload = Vec::new();
        let mut ends = Vec::new();
        for (sample, padding) in &samples {
            sample.encode(&mut payload);
            ends.push(payload.len());
            payload.resize(payload.len() + padding, 0);
        }
        if let Some(data) = &unbounded {
            // A STREAM frame without a length runs to the end.
            payload.extend_from_slice(&bytes(0x08, &[4], data));
        }

        prop_assert!(check_payload(&payload).is_ok());
        let mut frames = Frames::new(&payload).map(Result::unwrap);
        for ((sample, padding), end) in samples.iter().zip(ends) {
            let located = frames.next().unwrap();
            sample.assert_is(&located.frame);
            prop_assert_eq!(located.range.end, end);
            if *padding > 0 {
                prop_assert_eq!(frames.next().unwrap().frame, Frame::Padding { len: *padding });
            }
        }
        if let Some(data) = &unbounded {
            let len = data.len() as u64;
            let stream = Stream { stream_id: 4, offset: 0, len, fin: false };
            prop_assert_eq!(frames.next().unwrap().frame, Frame::Stream(stream));
        }
        prop_assert!(frames.next().is_none());
    }

    #[test]
    fn a_frame_cut_short_is_never_read_as_a_whole_one(
        sample in sample(),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut payload = Vec::new();
        sample.encode(&mut payload);
        prop_assume!(payload.len() > 1);
        let end = 1 + cut.index(payload.len() - 1);
        prop_assert!(Frames::new(&payload[..end]).any(|frame| frame.is_err()));
    }

    #[test]
    fn arbitrary_bytes_never_panic_and_end(
        payload in vec(any::<u8>(), 0..200),
    ) {
        let _ = check_payload(&payload);
        prop_assert!(Frames::new(&payload).count() <= payload.len());
    }

    #[test]
    fn arbitrary_bytes_behind_the_type_of_a_list_never_panic(
        frame_type in prop_oneof![Just(0x02_u64), Just(0x03), Just(0x2ac0), Just(0x2ac1)],
        fields in vec(0_u8..64, 0..60),
    ) {
        // Small integers, so that more than the first field is reached.
        let _ = check_payload(&bytes(frame_type, &[], &fields));
    }

    #[test]
    fn a_flipped_bit_never_panics(
        sample in sample(),
        position in any::<prop::sample::Index>(),
        bit in 0..8,
    ) {
        let mut payload = Vec::new();
        sample.encode(&mut payload);
        *position.get_mut(&mut payload) ^= 1_u8 << bit;
        let _ = check_payload(&payload);
    }

    #[test]
    fn a_tack_cut_to_a_budget_holds_the_newest_ranges_and_the_first_bubbles(
        fields in tack_fields(),
        ranges in ranges(),
        bubbles in bubbles(),
        budget in 0_usize..400,
    ) {
        let mut payload = vec![0xee];
        let encoded = encode_tack(
            &mut payload, &fields, ranges.iter().cloned(), bubbles.iter().cloned(), budget,
        );
        let written = payload.len() - 1;
        prop_assert!(written <= budget);
        let Some(encoded) = encoded else {
            prop_assert_eq!(written, 0);
            return Ok(());
        };
        let located = Frames::new(&payload[1..]).next().unwrap().unwrap();
        prop_assert_eq!(located.range.len(), written);
        let Frame::Tack(tack) = located.frame else { panic!("not a TACK") };
        let found = tack.fields();
        prop_assert!(found.arrivals.is_none() || found.arrivals == fields.arrivals);
        let arrivals = found.arrivals;
        prop_assert_eq!(found, TackFields { grease: false, arrivals, ..fields });
        prop_assert!(tack.ranges.iter().eq(ranges.iter().take(encoded.ranges).cloned()));
        let found = tack.bubbles.iter().flatten();
        prop_assert!(found.eq(bubbles.iter().take(encoded.bubbles).cloned()));

        // Something was left out for want of room only.
        if encoded.ranges < ranges.len() || encoded.bubbles < bubbles.len() {
            let mut whole = Vec::new();
            encode_tack(
                &mut whole, &fields, ranges.iter().cloned(), bubbles.iter().cloned(), 5000,
            );
            prop_assert!(whole.len() > budget);
        }
    }

    #[test]
    fn acks_and_iacks_cut_to_a_budget_hold_the_newest_ranges(
        ranges in ranges(),
        delay in integer(),
        ecn in ecn(),
        budget in 0_usize..200,
    ) {
        let mut ack = Vec::new();
        let count = encode_ack(&mut ack, ranges.iter().cloned(), delay, ecn, budget);
        prop_assert!(ack.len() <= budget);
        prop_assert_eq!(count == 0, ack.is_empty());
        if let Some(located) = Frames::new(&ack).next() {
            let Frame::Ack(ack) = located.unwrap().frame else { panic!("not an ACK") };
            prop_assert!(ack.ranges.iter().eq(ranges.iter().take(count).cloned()));
            prop_assert_eq!(ack.ecn, ecn);
        }

        let mut iack = Vec::new();
        let fields = IackFields {
            event: IackEvent::Loss, received_bytes: 7, ack_delay_us: delay, ecn: None, grease: true,
        };
        let count = encode_iack(&mut iack, &fields, ranges.iter().cloned(), budget);
        prop_assert!(iack.len() <= budget);
        prop_assert_eq!(count == 0, iack.is_empty());
        if let Some(located) = Frames::new(&iack).next() {
            let Frame::Iack(iack) = located.unwrap().frame else { panic!("not an IACK") };
            prop_assert!(iack.ranges.iter().eq(ranges.iter().take(count).cloned()));
        }
    }

    #[test]
    fn a_count_that_lies_is_refused(
        frame_type in prop_oneof![Just(0x02_u64), Just(0x2ac0), Just(0x2ac1)],
        claimed in 31..=varint::MAX,
    ) {
        let head: &[u64] = match frame_type {
            0x2ac0 => &[1, 5, 0],     // sequence, largest, delay
            0x2ac1 => &[2, 9, 5, 0],  // event, received bytes, largest, delay
            _ => &[5, 0],             // largest, delay
        };
        let mut payload = bytes(frame_type, head, &[]);
        varint::put(&mut payload, claimed);
        payload.extend([0; 60]);
        prop_assert!(Frames::new(&payload).next().unwrap().is_err());
    }
}
