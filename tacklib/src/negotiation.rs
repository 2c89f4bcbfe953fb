//! Which extensions the two ends agree on, by transport parameters.

use std::time::Duration;

use tack_proto::transport_parameters::{self as parameters, ParameterError, Parameters};

/// The shortest delay of acknowledgements that ACK_FREQUENCY may ask us for:
/// about what an operating system's timers can do.
pub const MIN_ACK_DELAY: Duration = Duration::from_millis(1);

/// Ids of RFC 9000 section 18.2.
pub(crate) mod id {
    pub const ORIGINAL_DESTINATION_CONNECTION_ID: u64 = 0x00;
    pub const MAX_IDLE_TIMEOUT: u64 = 0x01;
    pub const STATELESS_RESET_TOKEN: u64 = 0x02;
    pub const INITIAL_MAX_STREAMS_BIDI: u64 = 0x08;
    pub const ACK_DELAY_EXPONENT: u64 = 0x0a;
    pub const MAX_ACK_DELAY: u64 = 0x0b;
    pub const ACTIVE_CONNECTION_ID_LIMIT: u64 = 0x0e;
    pub const INITIAL_SOURCE_CONNECTION_ID: u64 = 0x0f;
    pub const RETRY_SOURCE_CONNECTION_ID: u64 = 0x10;
}

/// Changes a parameter that is an integer in encoded parameters.
pub fn set_integer(
    blob: &mut Vec<u8>,
    parameter: u64,
    value: u64,
) -> Result<(), ParameterError> {
    let mut encoded = Vec::new();
    tack_proto::varint::put(&mut encoded, value.min(tack_proto::varint::MAX));
    parameters::set(blob, parameter, &encoded)
}

/// Our own `max_ack_delay` and `ack_delay_exponent`, with the RFC's defaults.
pub fn ack_delays(blob: &[u8]) -> (Duration, u32) {
    let (mut delay, mut exponent) = (25, 3);
    for (id, value) in Parameters::new(blob).flatten() {
        let Ok(value) = tack_proto::varint::Reader::new(value).read_varint() else { continue };
        match id {
            id::MAX_ACK_DELAY => delay = value,
            id::ACK_DELAY_EXPONENT => exponent = value.min(20) as u32,
            _ => {}
        }
    }
    (Duration::from_millis(delay), exponent)
}

/// What we announce as `min_ack_delay` beside this `max_ack_delay`, which it must
/// not exceed.
pub fn min_ack_delay(max_ack_delay: Duration) -> Duration {
    MIN_ACK_DELAY.min(max_ack_delay)
}

/// What was agreed with the peer (TACK-8-2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Agreement {
    /// Both ends speak TACK: TACK, IACK, TIMESTAMP and the packet mark.
    pub tack: bool,
    /// The peer accepts ACK_FREQUENCY and IMMEDIATE_ACK, with this least delay.
    pub min_ack_delay: Option<Duration>,
    /// The peer wants to be told when packets with a TIMESTAMP arrived.
    pub reports_arrivals: bool,
    /// The peer's `max_ack_delay`.
    pub max_ack_delay: Duration,
    /// The peer's `ack_delay_exponent`.
    pub ack_delay_exponent: u32,
}

impl Agreement {
    /// Reads the peer's parameters; an error must close the connection with
    /// TRANSPORT_PARAMETER_ERROR.
    pub fn from_peer(blob: &[u8]) -> Result<Self, ParameterError> {
        let (max_ack_delay, ack_delay_exponent) = ack_delays(blob);
        let announced = parameters::parse(blob, max_ack_delay.as_micros() as u64)?;
        Ok(Self {
            tack: announced.tack_version().is_some(),
            min_ack_delay: announced.min_ack_delay_us.map(Duration::from_micros),
            reports_arrivals: announced.wants_arrivals,
            max_ack_delay,
            ack_delay_exponent,
        })
    }
}
