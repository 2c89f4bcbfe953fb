//! The application protocol: a client opens a bidirectional stream for each order, and the server
//! answers it on the same stream.
//!
//! A stream of the client's starts with an [`Order`]. What follows, up to the end of the stream, is
//! payload that the server counts. The answer is payload too, or the server's report.

use std::time::Duration;

use anyhow::{Result, bail};

/// The application protocol's name in TLS.
pub const ALPN: &[u8] = b"tack-perf/1";

/// Bytes of an encoded [`Order`].
pub const ORDER_LEN: usize = 13;

/// What payload consists of, and how much of it a program writes at once.
pub static PAYLOAD: [u8; 1 << 16] = [0xa5; 1 << 16];

/// When and what a server answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Payload, at once.
    AtOnce,
    /// Payload, as soon as the client's stream has ended.
    AfterRequest,
    /// What the server has measured on this connection: an [`EndReport`](crate::EndReport) as
    /// JSON.
    Report,
}

/// What a client asks for on a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Order {
    /// When and what the server answers.
    pub reply: Reply,
    /// Bytes of payload in the answer, at most.
    pub bytes: u64,
    /// How long the server goes on writing payload. Milliseconds on the wire; zero stands for no
    /// limit.
    pub time_limit: Duration,
}

impl Order {
    /// An answer of so many bytes, without a limit in time.
    pub fn new(reply: Reply, bytes: u64) -> Self {
        Self { reply, bytes, time_limit: Duration::ZERO }
    }

    /// The order as it starts a stream.
    pub fn encode(&self) -> [u8; ORDER_LEN] {
        let mut encoded = [0; ORDER_LEN];
        encoded[0] = match self.reply {
            Reply::AtOnce => 0,
            Reply::AfterRequest => 1,
            Reply::Report => 2,
        };
        encoded[1..9].copy_from_slice(&self.bytes.to_be_bytes());
        let milliseconds = u32::try_from(self.time_limit.as_millis()).unwrap_or(u32::MAX);
        encoded[9..].copy_from_slice(&milliseconds.to_be_bytes());
        encoded
    }

    /// Reads an order.
    pub fn decode(encoded: &[u8; ORDER_LEN]) -> Result<Self> {
        let [reply, rest @ ..] = *encoded;
        let reply = match reply {
            0 => Reply::AtOnce,
            1 => Reply::AfterRequest,
            2 => Reply::Report,
            other => bail!("no order starts with {other}"),
        };
        let number =
            |bytes: &[u8]| bytes.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
        let (bytes, milliseconds) = rest.split_at(8);
        Ok(Self {
            reply,
            bytes: number(bytes),
            time_limit: Duration::from_millis(number(milliseconds)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_survives_the_wire() {
        for reply in [Reply::AtOnce, Reply::AfterRequest, Reply::Report] {
            let order =
                Order { reply, bytes: 1 << 40 | 3, time_limit: Duration::from_millis(1500) };
            assert_eq!(Order::decode(&order.encode()).unwrap(), order);
        }
    }

    #[test]
    fn an_unknown_order_is_refused() {
        assert!(Order::decode(&[3; ORDER_LEN]).is_err());
    }
}
