//! The transport parameters that negotiate the extensions, and the list that carries them
//! (RFC 9000 section 18): pairs of id and value, each id a varint, each value with its length.

use thiserror::Error;

use crate::varint::{self, Reader, Truncated};

/// `tack`: the versions of TACK, IACK, TIMESTAMP and the packet mark that an end speaks, one
/// varint behind the other. Both ends use the highest that they have in common, and then accept
/// all frames of the extension (TACK-1-3).
pub const TACK: u64 = 0x1acc_2026;
/// The versions of the `tack` extension that this crate speaks.
pub const TACK_VERSIONS: [u64; 1] = [1];
/// An end announces this many versions at most.
const MAX_VERSIONS: usize = 16;
/// `min_ack_delay`, draft-ietf-quic-ack-frequency-14 section 3: ACK_FREQUENCY and
/// IMMEDIATE_ACK are welcome. Varint, microseconds.
pub const MIN_ACK_DELAY: u64 = 0xff04_de1b;
/// `enable_timestamp`, draft-huitema-quic-ts-08. Varint, see [`TimestampMode`].
pub const ENABLE_TIMESTAMP: u64 = 0x7158;

/// `tack_arrivals`: TACKs are to tell when packets with a TIMESTAMP arrived (TACK-1-7). No value.
pub const TACK_ARRIVALS: u64 = 0x1acc_2027;

/// What an end does with TIMESTAMP frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimestampMode {
    /// Wants to receive them.
    Receive = 1,
    /// Can send them.
    Send = 2,
    /// Both.
    Both = 3,
}

/// What one end announces of the extensions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Announced {
    /// Versions of the `tack` extension; empty where it was not announced.
    pub tack_versions: Vec<u64>,
    /// The shortest time, in microseconds, for which it can be made to hold an
    /// acknowledgement back; announcing it welcomes ACK_FREQUENCY and IMMEDIATE_ACK
    /// (TACK-1-4, TACK-8-3).
    pub min_ack_delay_us: Option<u64>,
    /// What it does with TIMESTAMP frames (TACK-8-5).
    pub timestamp: Option<TimestampMode>,
    /// Whether it wants to be told when packets with a TIMESTAMP arrived (TACK-1-7).
    pub wants_arrivals: bool,
}

/// Why transport parameters can't be used.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum ParameterError {
    /// The list ended inside a parameter.
    #[error("the transport parameters end inside a parameter; close the connection")]
    Truncated,
    /// An id came twice.
    #[error("transport parameter {0:#x} came twice; close the connection")]
    Duplicate(u64),
    /// A value is not what its parameter allows.
    #[error("transport parameter {id:#x}: {reason}; close the connection")]
    Malformed {
        /// The parameter.
        id: u64,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// `min_ack_delay` is above `max_ack_delay`.
    #[error(
        "min_ack_delay of {min_ack_delay_us} us exceeds max_ack_delay of {max_ack_delay_us} us; \
         lower the former or raise the latter"
    )]
    MinAckDelayAboveMax {
        /// `min_ack_delay`, microseconds.
        min_ack_delay_us: u64,
        /// `max_ack_delay`, microseconds.
        max_ack_delay_us: u64,
    },
}

impl ParameterError {
    /// The transport error code of RFC 9000 section 20.1 to close the connection with:
    /// TRANSPORT_PARAMETER_ERROR (TACK-7-2).
    pub const fn to_wire(self) -> u64 {
        0x08
    }
}

impl From<Truncated> for ParameterError {
    fn from(_: Truncated) -> Self {
        Self::Truncated
    }
}

impl Announced {
    /// What an end that speaks all of this crate announces. `random` chooses the reserved version
    /// beside the real ones.
    pub fn all(min_ack_delay_us: u64, random: u64) -> Self {
        let mut tack_versions = TACK_VERSIONS.to_vec();
        // One of those that take two bytes.
        tack_versions.push(0x0a0a | random & 0x30f0);
        Self {
            tack_versions,
            min_ack_delay_us: Some(min_ack_delay_us),
            timestamp: Some(TimestampMode::Both),
            wants_arrivals: true,
        }
    }

    /// The highest version of `tack` that this end announced and this crate speaks (TACK-1-1).
    pub fn tack_version(&self) -> Option<u64> {
        let announced = |version: &u64| self.tack_versions.contains(version);
        TACK_VERSIONS.into_iter().filter(announced).max()
    }

    /// Appends the parameters that are announced.
    pub fn encode(&self, out: &mut Vec<u8>) {
        if !self.tack_versions.is_empty() {
            let mut versions = Vec::new();
            for version in &self.tack_versions {
                varint::put(&mut versions, *version);
            }
            put(out, TACK, &versions);
        }
        let mut put_integer = |id, value| {
            let mut integer = Vec::new();
            varint::put(&mut integer, value);
            put(out, id, &integer);
        };
        if let Some(min_ack_delay_us) = self.min_ack_delay_us {
            put_integer(MIN_ACK_DELAY, min_ack_delay_us);
        }
        if let Some(mode) = self.timestamp {
            put_integer(ENABLE_TIMESTAMP, mode as u64);
        }
        if self.wants_arrivals {
            put(out, TACK_ARRIVALS, &[]);
        }
    }
}

/// Whether a version is reserved (TACK-1-2): its low 16 bits are 0x?a?a, where ? is any digit
/// (after RFC 9000 section 15). Ends announce one and none speaks it, so that peers go on to
/// ignore versions that they do not know.
pub const fn is_reserved(version: u64) -> bool {
    version & 0x0f0f == 0x0a0a
}

fn put(out: &mut Vec<u8>, id: u64, value: &[u8]) {
    varint::put(out, id);
    varint::put(out, value.len() as u64);
    out.extend_from_slice(value);
}

/// Reads what a peer announced in its list of parameters, and skips all others.
///
/// `max_ack_delay_us` is the same peer's `max_ack_delay` in microseconds. A peer that speaks no
/// version of `tack` in common is no error, see [`Announced::tack_version`]: plain QUIC goes on.
/// Duplicates are looked for among the extensions only; the others are quiche's to judge.
pub fn parse(blob: &[u8], max_ack_delay_us: u64) -> Result<Announced, ParameterError> {
    let mut announced = Announced::default();
    for parameter in Parameters::new(blob) {
        let (id, value) = parameter?;
        let is_first = match id {
            TACK => {
                let before = std::mem::replace(&mut announced.tack_versions, versions(value)?);
                before.is_empty()
            }
            MIN_ACK_DELAY => announced.min_ack_delay_us.replace(integer(id, value)?).is_none(),
            ENABLE_TIMESTAMP => {
                announced.timestamp.replace(timestamp_mode(integer(id, value)?)?).is_none()
            }
            TACK_ARRIVALS if !value.is_empty() => {
                return Err(ParameterError::Malformed { id, reason: "it has a value" });
            }
            TACK_ARRIVALS => !std::mem::replace(&mut announced.wants_arrivals, true),
            _ => continue,
        };
        if !is_first {
            return Err(ParameterError::Duplicate(id));
        }
    }
    if let Some(min_ack_delay_us) = announced.min_ack_delay_us
        // TACK-1-5
        && min_ack_delay_us > max_ack_delay_us
    {
        return Err(ParameterError::MinAckDelayAboveMax { min_ack_delay_us, max_ack_delay_us });
    }
    Ok(announced)
}

/// One to sixteen versions.
fn versions(value: &[u8]) -> Result<Vec<u64>, ParameterError> {
    let malformed = |reason| ParameterError::Malformed { id: TACK, reason };
    let mut reader = Reader::new(value);
    let mut versions = Vec::new();
    while reader.remaining() > 0 {
        if versions.len() == MAX_VERSIONS {
            return Err(malformed("more than 16 versions"));
        }
        let version = reader.read_varint();
        versions.push(version.map_err(|_| malformed("its value is not a list of varints"))?);
    }
    if versions.is_empty() {
        return Err(malformed("it lists no version"));
    }
    Ok(versions)
}

fn integer(id: u64, value: &[u8]) -> Result<u64, ParameterError> {
    let mut reader = Reader::new(value);
    match (reader.read_varint(), reader.remaining()) {
        (Ok(integer), 0) => Ok(integer),
        _ => Err(ParameterError::Malformed { id, reason: "its value is not one varint" }),
    }
}

fn timestamp_mode(value: u64) -> Result<TimestampMode, ParameterError> {
    match value {
        1 => Ok(TimestampMode::Receive),
        2 => Ok(TimestampMode::Send),
        3 => Ok(TimestampMode::Both),
        _ => Err(ParameterError::Malformed {
            id: ENABLE_TIMESTAMP,
            reason: "its value is not 1, 2 or 3",
        }),
    }
}

/// Iterates over the ids and values of a list of parameters; ends after the first error.
#[derive(Clone, Debug)]
pub struct Parameters<'a> {
    reader: Reader<'a>,
}

impl<'a> Parameters<'a> {
    /// Starts at the first parameter.
    pub const fn new(blob: &'a [u8]) -> Self {
        Self { reader: Reader::new(blob) }
    }

    fn read(&mut self) -> Result<(u64, &'a [u8]), Truncated> {
        Ok((self.reader.read_varint()?, self.reader.take_prefixed()?))
    }
}

impl<'a> Iterator for Parameters<'a> {
    type Item = Result<(u64, &'a [u8]), ParameterError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.reader.remaining() == 0 {
            return None;
        }
        let parameter = self.read();
        if parameter.is_err() {
            self.reader.take_rest();
        }
        Some(parameter.map_err(ParameterError::from))
    }
}

impl std::iter::FusedIterator for Parameters<'_> {}

/// Removes a parameter, every occurrence of it; the bytes of all others stay as they are. A
/// list with an error is left alone.
pub fn remove(blob: &mut Vec<u8>, id: u64) -> Result<(), ParameterError> {
    let mut kept = Vec::with_capacity(blob.len());
    let mut parameters = Parameters::new(blob);
    let mut start = 0;
    while let Some(parameter) = parameters.next() {
        let (found, _) = parameter?;
        let end = parameters.reader.position();
        if found != id {
            kept.extend_from_slice(&blob[start..end]);
        }
        start = end;
    }
    *blob = kept;
    Ok(())
}

/// Replaces the value of a parameter, or adds the parameter. A list with an error is left
/// alone.
pub fn set(blob: &mut Vec<u8>, id: u64, value: &[u8]) -> Result<(), ParameterError> {
    remove(blob, id)?;
    put(blob, id, value);
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MAX_ACK_DELAY_US: u64 = 50_000;

    fn ours() -> Announced {
        Announced::all(1000, 0x0123_4567_89ab_cdef)
    }

    fn encoded(announcement: &Announced) -> Vec<u8> {
        let mut blob = vec![];
        announcement.encode(&mut blob);
        blob
    }

    fn one(id: u64, value: &[u8]) -> Vec<u8> {
        let mut blob = vec![];
        set(&mut blob, id, value).unwrap();
        blob
    }

    #[test]
    fn an_announcement_is_four_parameters() {
        let expected: &[&[u8]] = &[
            &[0x9a, 0xcc, 0x20, 0x26, 3, 1, 0x4a, 0xea],
            &[0xc0, 0, 0, 0, 0xff, 0x04, 0xde, 0x1b, 2, 0x43, 0xe8],
            &[0x80, 0, 0x71, 0x58, 1, 3],
            &[0x9a, 0xcc, 0x20, 0x27, 0],
        ];
        assert_eq!(encoded(&ours()), expected.concat());
        assert_eq!(parse(&encoded(&ours()), MAX_ACK_DELAY_US), Ok(ours()));
        assert_eq!(encoded(&Announced::default()), [0; 0]);
        assert_eq!(parse(&[], MAX_ACK_DELAY_US), Ok(Announced::default()));
    }

    #[test]
    fn the_highest_version_in_common_is_used() {
        for (versions, common) in [
            (&[1_u64][..], Some(1)),
            (&[7, 1, varint::MAX], Some(1)),
            (&[0x1a2a, 1], Some(1)),
            (&[0, 2, 0x0a0a], None),
            (&[], None),
        ] {
            let theirs = Announced { tack_versions: versions.to_vec(), ..ours() };
            let read = parse(&encoded(&theirs), MAX_ACK_DELAY_US).unwrap();
            assert_eq!(read, theirs);
            assert_eq!(read.tack_version(), common, "{versions:?}");
        }
    }

    #[test]
    fn every_announcement_has_a_reserved_version_beside_the_real_ones() {
        let mut seen = std::collections::BTreeSet::new();
        for random in 0..0x4000 {
            let versions = Announced::all(1000, random).tack_versions;
            let reserved: Vec<_> = versions.iter().filter(|v| is_reserved(**v)).collect();
            assert_eq!(reserved.len(), 1);
            assert_eq!(varint::len(*reserved[0]), 2);
            seen.insert(*reserved[0]);
        }
        assert_eq!(seen.len(), 64);
        assert!(!TACK_VERSIONS.into_iter().any(is_reserved));
    }

    #[test]
    fn a_list_of_versions_that_is_empty_cut_or_endless_is_an_error() {
        let reason = |value: &[u8]| match parse(&one(TACK, value), MAX_ACK_DELAY_US) {
            Err(ParameterError::Malformed { id: TACK, reason }) => reason,
            other => panic!("{other:?}"),
        };
        assert_eq!(reason(&[]), "it lists no version");
        assert_eq!(reason(&[1, 0x40]), "its value is not a list of varints");
        assert_eq!(reason(&[1; 17]), "more than 16 versions");
        assert!(parse(&one(TACK, &[1; 16]), MAX_ACK_DELAY_US).is_ok());
    }

    #[test]
    fn a_parameter_that_comes_twice_is_an_error() {
        for id in [TACK, MIN_ACK_DELAY, ENABLE_TIMESTAMP] {
            let blob = [encoded(&ours()), one(id, &[2])].concat();
            assert_eq!(parse(&blob, MAX_ACK_DELAY_US), Err(ParameterError::Duplicate(id)));
        }
    }

    #[test]
    fn a_value_that_is_not_exactly_one_varint_is_an_error() {
        for value in [&[][..], &[1, 1], &[0x40], &[0x40, 1, 1]] {
            for id in [MIN_ACK_DELAY, ENABLE_TIMESTAMP] {
                let error = parse(&one(id, value), MAX_ACK_DELAY_US).unwrap_err();
                assert!(matches!(error, ParameterError::Malformed { .. }), "{error}");
                assert_eq!(error.to_wire(), 0x08);
            }
        }
        assert_eq!(
            parse(&one(TACK, &[0x40, 1]), MAX_ACK_DELAY_US).unwrap().tack_version(),
            Some(1),
            "a longer varint than needed is still one"
        );
    }

    #[test]
    fn a_timestamp_mode_beyond_the_three_is_an_error() {
        for value in [0, 4, 63] {
            assert!(parse(&one(ENABLE_TIMESTAMP, &[value]), MAX_ACK_DELAY_US).is_err());
        }
    }

    #[test]
    fn min_ack_delay_may_reach_max_ack_delay_but_not_exceed_it() {
        let blob = encoded(&ours());
        assert_eq!(parse(&blob, 1000), Ok(ours()));
        assert_eq!(
            parse(&blob, 999),
            Err(ParameterError::MinAckDelayAboveMax {
                min_ack_delay_us: 1000,
                max_ack_delay_us: 999
            })
        );
    }

    #[test]
    fn a_length_beyond_the_list_is_truncation() {
        let blob = encoded(&ours());
        assert_eq!(parse(&blob[..blob.len() - 1], 50_000), Err(ParameterError::Truncated));
        let mut parameters = Parameters::new(&[5, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]);
        assert_eq!(parameters.next(), Some(Err(ParameterError::Truncated)));
        assert_eq!(parameters.next(), None);
    }

    #[test]
    fn greased_and_unknown_parameters_pass_through_byte_for_byte() {
        // Ids 31 * N + 27, RFC 9000 section 18.1; the second in more bytes than it needs.
        let grease: &[&[u8]] =
            &[&[0x1b, 0], &[0x80, 0, 0, 0x3a, 0x40, 3, 9, 9, 9], &[0x59, 0x59, 1, 0xff]];
        let grease = grease.concat();

        let mut blob = [grease.clone(), encoded(&ours())].concat();
        assert_eq!(parse(&blob, MAX_ACK_DELAY_US), Ok(ours()));
        for id in [TACK, MIN_ACK_DELAY, ENABLE_TIMESTAMP, TACK_ARRIVALS] {
            remove(&mut blob, id).unwrap();
        }
        assert_eq!(blob, grease);
    }

    #[test]
    fn set_replaces_and_remove_of_what_is_not_there_changes_nothing() {
        let mut blob = one(4, &[7, 7]);
        set(&mut blob, 3, &[1]).unwrap();
        set(&mut blob, 4, &[]).unwrap();
        assert_eq!(blob, [3, 1, 1, 4, 0]);
        remove(&mut blob, 99).unwrap();
        assert_eq!(blob, [3, 1, 1, 4, 0]);
    }

    #[test]
    fn a_list_with_an_error_is_left_alone() {
        let mut blob = vec![3, 1, 1, 4, 9];
        assert_eq!(set(&mut blob, 3, &[2]), Err(ParameterError::Truncated));
        assert_eq!(remove(&mut blob, 3), Err(ParameterError::Truncated));
        assert_eq!(blob, [3, 1, 1, 4, 9]);
    }

    proptest! {
        #[test]
        fn every_announcement_survives_the_round_trip(
            tack_versions in proptest::collection::vec(0..=varint::MAX, 0..=16),
            min_ack_delay_us in proptest::option::of(0..=MAX_ACK_DELAY_US),
            mode in 0_u64..=3,
            wants_arrivals in any::<bool>(),
        ) {
            let announcement = Announced {
                tack_versions,
                min_ack_delay_us,
                timestamp: timestamp_mode(mode).ok(),
                wants_arrivals,
            };
            prop_assert_eq!(parse(&encoded(&announcement), MAX_ACK_DELAY_US), Ok(announcement));
        }

        #[test]
        fn arbitrary_lists_never_panic_and_edits_keep_the_rest(
            mut blob in proptest::collection::vec(any::<u8>(), 0..64),
            id in 0_u64..64,
        ) {
            let _ = parse(&blob, MAX_ACK_DELAY_US);
            let list = |blob: &[u8]| -> Result<Vec<_>, ParameterError> {
                Parameters::new(blob).map(|p| p.map(|(id, value)| (id, value.to_vec()))).collect()
            };
            let before = list(&blob);
            let edit = set(&mut blob, id, b"new");
            let expected = before.clone().map(|mut expected| {
                expected.retain(|(found, _)| *found != id);
                expected.push((id, b"new".to_vec()));
                expected
            });
            prop_assert_eq!(edit, before.map(drop));
            prop_assert_eq!(list(&blob), expected);
        }
    }
}
