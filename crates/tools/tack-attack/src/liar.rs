//! What a peer with keys says: the only place that knows tack-proto.

use std::ops::{Range, RangeInclusive};

use tack_proto::frame::{
    AckFrequency, Arrivals, Bubbles, Frame, Frames, IackEvent, IackFields, Rate,
    StampedArrival, Tack, TackFields, Timestamp, Timing, encode_ack, encode_iack, encode_tack,
};
use tack_proto::varint;

/// Room for an acknowledgement: a whole packet's.
const BUDGET: usize = 1100;

/// What an acknowledgement claims.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// Number of the TACK; an IACK and an ACK have none.
    pub sequence: u64,
    /// Packet numbers, highest first.
    pub ranges: Vec<RangeInclusive<u64>>,
    /// Time since the largest arrived, in µs.
    pub ack_delay_us: u64,
    /// Bytes of ack-eliciting packets so far.
    pub received_bytes: u64,
    /// A TIMESTAMP as it came, and how long it has waited in µs.
    pub timing: Option<(u64, u64)>,
    /// Delivery rate in bytes per second, and loss rate in 1/65536.
    pub rate: Option<(u64, u16)>,
    /// Packets with a TIMESTAMP: number, how long behind the one before in µs, and bytes in between.
    pub arrivals: Vec<(u64, u64, u64)>,
    /// What is missing of streams: stream, and offsets.
    pub bubbles: Vec<(u64, Range<u64>)>,
}

impl Report {
    /// The TACK that says this.
    pub fn tack(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let fields = TackFields {
            sequence: self.sequence,
            ack_delay_us: self.ack_delay_us,
            received_bytes: self.received_bytes,
            timing: self.timing.map(|(departure, hold_us)| Timing { departure, hold_us }),
            rate: self.rate.map(|(delivery_rate, loss_rate)| Rate { delivery_rate, loss_rate }),
            ecn: None,
            arrivals: self.arrivals(),
            grease: false,
        };
        let ranges = self.ranges.iter().cloned();
        let bubbles = self.bubbles.iter().cloned();
        encode_tack(&mut out, &fields, ranges, bubbles, BUDGET).unwrap();
        out
    }

    fn arrivals(&self) -> Option<Arrivals> {
        let mut arrivals = Arrivals::default();
        for (packet_number, since_last_us, bytes) in self.arrivals.iter().copied() {
            arrivals.push(StampedArrival { packet_number, since_last_us, bytes });
        }
        arrivals.is_worth_reporting().then_some(arrivals)
    }

    /// The IACK of a loss that says this.
    pub fn iack(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let fields = IackFields {
            event: IackEvent::Loss,
            received_bytes: self.received_bytes,
            ack_delay_us: self.ack_delay_us,
            ecn: None,
            grease: false,
        };
        let ranges = self.ranges.iter().cloned();
        assert!(encode_iack(&mut out, &fields, ranges, BUDGET) > 0);
        out
    }

    /// The ACK that says this.
    pub fn ack(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let ranges = self.ranges.iter().cloned();
        assert!(encode_ack(&mut out, ranges, self.ack_delay_us, None, BUDGET) > 0);
        out
    }
}

/// Changes each acknowledgement among the frames of a packet, and leaves the rest as it is.
/// `None` if there is none.
pub fn rewrite(payload: &[u8], mut lie: impl FnMut(&mut Report)) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    let mut found = false;
    for located in Frames::new(payload) {
        let located = located.ok()?;
        let new = match &located.frame {
            Frame::Tack(tack) => {
                let mut report = Report {
                    sequence: tack.sequence,
                    ranges: tack.ranges.iter().collect(),
                    ack_delay_us: tack.ack_delay_us,
                    received_bytes: tack.received_bytes,
                    timing: tack.timing.map(|timing| (timing.departure, timing.hold_us)),
                    rate: tack.rate.map(|rate| (rate.delivery_rate, rate.loss_rate)),
                    arrivals: arrivals(tack),
                    bubbles: tack.bubbles.iter().flat_map(Bubbles::iter).collect(),
                };
                lie(&mut report);
                Some(report.tack())
            }
            Frame::Iack(iack) => {
                let mut report = Report {
                    ranges: iack.ranges.iter().collect(),
                    ack_delay_us: iack.ack_delay_us,
                    received_bytes: iack.received_bytes,
                    ..Report::default()
                };
                lie(&mut report);
                Some(report.iack())
            }
            Frame::Ack(ack) => {
                let mut report = Report {
                    ranges: ack.ranges.iter().collect(),
                    ack_delay_us: ack.ack_delay,
                    ..Report::default()
                };
                lie(&mut report);
                Some(report.ack())
            }
            _ => None,
        };
        found |= new.is_some();
        match new {
            Some(new) => out.extend(new),
            None => out.extend_from_slice(&payload[located.range]),
        }
    }
    found.then_some(out)
}

fn arrivals(tack: &Tack<'_>) -> Vec<(u64, u64, u64)> {
    let arrivals = tack.arrivals.iter().flat_map(|arrivals| arrivals.get().as_slice().to_vec());
    arrivals.map(|one| (one.packet_number, one.since_last_us, one.bytes)).collect()
}

/// Changes each TIMESTAMP among the frames of a packet, and leaves the rest as it is. `None` if there
/// is none.
pub fn rewrite_timestamps(payload: &[u8], lie: impl Fn(u64) -> u64) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    let mut found = false;
    for located in Frames::new(payload) {
        let located = located.ok()?;
        if let Frame::Timestamp(Timestamp(departure)) = located.frame {
            Timestamp(lie(departure)).encode(&mut out);
            found = true;
        } else {
            out.extend_from_slice(&payload[located.range]);
        }
    }
    found.then_some(out)
}

/// Takes the acknowledgements out of a packet's frames; `None` if nothing but padding is left.
pub fn without_acks(payload: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    let mut content = false;
    for located in Frames::new(payload) {
        let located = located.ok()?;
        if matches!(located.frame, Frame::Tack(_) | Frame::Iack(_) | Frame::Ack(_)) {
            continue;
        }
        content |= !matches!(located.frame, Frame::Padding { .. });
        out.extend_from_slice(&payload[located.range]);
    }
    content.then_some(out)
}

/// What a receiver needs to know of a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Contents {
    /// Whether it must be acknowledged.
    pub ack_eliciting: bool,
    /// Bytes of STREAM frames.
    pub stream_bytes: u64,
    /// Its TIMESTAMP.
    pub timestamp: Option<u64>,
    /// Whether it has a TACK, an IACK or an ACK.
    pub acknowledges: bool,
}

/// Looks at the frames of a packet.
pub fn contents(payload: &[u8]) -> Contents {
    let mut contents = Contents::default();
    for located in Frames::new(payload).map_while(Result::ok) {
        contents.ack_eliciting |= located.frame.is_ack_eliciting();
        match located.frame {
            Frame::Stream(stream) => contents.stream_bytes += stream.len,
            Frame::Timestamp(timestamp) => contents.timestamp = Some(timestamp.0),
            Frame::Tack(_) | Frame::Iack(_) | Frame::Ack(_) => contents.acknowledges = true,
            _ => {}
        }
    }
    contents
}

/// A PING, padded to what header protection needs.
pub fn ping() -> Vec<u8> {
    vec![0x01, 0, 0, 0]
}

/// Data of a stream, without its end.
pub fn stream(id: u64, offset: u64, data: &[u8]) -> Vec<u8> {
    let mut out = vec![0x0e]; // with offset and length
    for value in [id, offset, data.len() as u64] {
        varint::put(&mut out, value);
    }
    out.extend_from_slice(data);
    out
}

/// The end of a stream, without data.
pub fn stream_end(id: u64, offset: u64) -> Vec<u8> {
    let mut out = vec![0x0f]; // with offset and length, and the end
    for value in [id, offset, 0] {
        varint::put(&mut out, value);
    }
    out
}

/// A RESET_STREAM.
pub fn reset_stream(id: u64, final_size: u64) -> Vec<u8> {
    let mut out = vec![0x04];
    for value in [id, 7, final_size] {
        varint::put(&mut out, value);
    }
    out
}

/// A CONNECTION_CLOSE of the transport without an error.
pub fn connection_close() -> Vec<u8> {
    vec![0x1c, 0, 0, 0] // no error, no frame, no reason
}

/// A PATH_CHALLENGE.
pub fn path_challenge(data: u64) -> Vec<u8> {
    let mut out = vec![0x1a];
    out.extend_from_slice(&data.to_be_bytes());
    out
}

/// An ACK_FREQUENCY that asks for what a TACK sender asks for.
pub fn ack_frequency(sequence: u64) -> Vec<u8> {
    let mut out = Vec::new();
    AckFrequency {
        sequence,
        ack_eliciting_threshold: 9,
        requested_max_ack_delay_us: 10_000,
        reordering_threshold: 0,
    }
    .encode(&mut out);
    out
}

/// A MAX_DATA.
pub fn max_data(limit: u64) -> Vec<u8> {
    let mut out = vec![0x10];
    varint::put(&mut out, limit);
    out.resize(out.len().max(4), 0);
    out
}
