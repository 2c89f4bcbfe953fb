//! adb's packets on the wire: a header of six little-endian words, and a payload.

use super::MAX_PAYLOAD;
use crate::application::{ApplicationError, Inbox, Outbox};

/// Bytes of a header.
const HEADER: usize = 24;

/// What a packet is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Opens a stream.
    Open,
    /// The stream is open, or a write has been taken.
    Okay,
    /// Data.
    Write,
    /// Closes a stream, or refuses it.
    Close,
}

impl Command {
    const ALL: [Self; 4] = [Self::Open, Self::Okay, Self::Write, Self::Close];

    /// Name in traces; its last four letters are the word on the wire.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Open => "A_OPEN",
            Self::Okay => "A_OKAY",
            Self::Write => "A_WRTE",
            Self::Close => "A_CLSE",
        }
    }

    const fn word(self) -> u32 {
        u32::from_le_bytes(match self {
            Self::Open => *b"OPEN",
            Self::Okay => *b"OKAY",
            Self::Write => *b"WRTE",
            Self::Close => *b"CLSE",
        })
    }
}

/// A packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// What it is for.
    pub command: Command,
    /// The sender's number of the stream.
    pub arg0: u32,
    /// The receiver's number of the stream; of `A_OPEN` the ASB that is wished for, or 0.
    pub arg1: u32,
    /// What follows the header.
    pub payload: Vec<u8>,
}

impl Packet {
    /// Puts it behind what waits.
    pub fn encode(&self, out: &mut Outbox) {
        let Self { command, arg0, arg1, payload } = self;
        let word = command.word();
        // No checksum since version 0x01000001: transports have their own.
        let len = payload.len() as u32;
        for field in [word, *arg0, *arg1, len, 0, !word] {
            out.push(&field.to_le_bytes());
        }
        out.push(payload);
    }

    /// The next packet, if all of it has come.
    ///
    /// Fails if the bytes are no packet, or one with a larger payload than [`MAX_PAYLOAD`].
    pub fn decode(inbox: &mut Inbox) -> Result<Option<Self>, ApplicationError> {
        let Some(header) = inbox.bytes().first_chunk::<HEADER>() else { return Ok(None) };
        let mut fields = [0; HEADER / 4];
        for (field, bytes) in fields.iter_mut().zip(header.chunks_exact(4)) {
            *field = bytes.iter().rev().fold(0, |word, byte| word << 8 | u32::from(*byte));
        }
        let [word, arg0, arg1, len, _, magic] = fields;
        let command = Command::ALL.into_iter().find(|command| command.word() == word);
        let command = command.filter(|_| magic == !word).ok_or_else(|| {
            violation(format!("a header with command {word:#010x} and magic {magic:#010x}"))
        })?;
        let len = len as usize;
        if len > MAX_PAYLOAD {
            return Err(violation(format!("a payload of {len} bytes; {MAX_PAYLOAD} at most")));
        }
        let packet = inbox.take(HEADER + len);
        let payload = packet.map(|packet| packet[HEADER..].to_vec());
        Ok(payload.map(|payload| Self { command, arg0, arg1, payload }))
    }

    /// An inbox that any packet fits into.
    pub const fn inbox() -> Inbox {
        Inbox::new(HEADER + MAX_PAYLOAD)
    }

    /// The number of bytes in the payload of an `A_OKAY` with delayed ACK; `None` if it has none.
    pub fn acknowledged(&self) -> Result<Option<u32>, ApplicationError> {
        match (self.payload.len(), self.payload.first_chunk()) {
            (0, _) => Ok(None),
            (4, Some(bytes)) => match i32::from_le_bytes(*bytes).try_into() {
                Ok(count) => Ok(Some(count)),
                Err(_) => Err(violation("an A_OKAY of a negative number of bytes".to_owned())),
            },
            (len, _) => Err(violation(format!("an A_OKAY with a payload of {len} bytes"))),
        }
    }
}

/// The other end breaks the rules.
pub fn violation(problem: String) -> ApplicationError {
    ApplicationError::Protocol { protocol: "adb", problem }
}

#[cfg(test)]
mod tests {
    use super::super::super::ByteStream;
    use super::*;

    /// What was written can be read.
    #[derive(Default)]
    struct Loop(Vec<u8>);

    impl ByteStream for Loop {
        fn is_open(&mut self) -> bool {
            true
        }
        fn read(&mut self, out: &mut [u8]) -> usize {
            let count = out.len().min(self.0.len());
            out[..count].copy_from_slice(&self.0[..count]);
            self.0.drain(..count);
            count
        }
        fn write(&mut self, bytes: &[u8]) -> usize {
            self.0.extend_from_slice(bytes);
            bytes.len()
        }
        fn is_drained(&mut self) -> Option<bool> {
            None
        }
    }

    fn wire(packet: &Packet) -> Vec<u8> {
        let (mut out, mut stream) = (Outbox::default(), Loop::default());
        packet.encode(&mut out);
        out.flush(&mut stream);
        stream.0
    }

    fn decode(bytes: &[u8]) -> Result<Option<Packet>, ApplicationError> {
        let mut inbox = Packet::inbox();
        inbox.fill(&mut Loop(bytes.to_vec()));
        Packet::decode(&mut inbox)
    }

    #[test]
    fn a_packet_is_what_it_was_once_all_of_it_has_come() {
        for command in Command::ALL {
            let packet = Packet { command, arg0: 7, arg1: 9, payload: b"data".to_vec() };
            let bytes = wire(&packet);
            assert_eq!(bytes[..4], command.name().as_bytes()[2..]);
            assert_eq!(decode(&bytes[..bytes.len() - 1]).unwrap(), None);
            assert_eq!(decode(&bytes).unwrap(), Some(packet));
        }
    }

    #[test]
    fn what_is_no_packet_is_refused_before_its_payload_is_waited_for() {
        let packet = Packet { command: Command::Write, arg0: 1, arg1: 1, payload: Vec::new() };
        let damaged = |at: usize, byte: u8| {
            let mut bytes = wire(&packet);
            bytes[at] = byte;
            decode(&bytes).unwrap_err().to_string()
        };
        assert!(damaged(0, b'X').contains("command"), "command");
        assert!(damaged(20, 0).contains("magic"), "magic");
        assert!(damaged(15, 1).contains("at most"), "length");
    }

    #[test]
    fn an_okay_of_a_negative_or_odd_number_is_refused() {
        let okay = |payload: &[u8]| Packet {
            command: Command::Okay,
            arg0: 1,
            arg1: 1,
            payload: payload.to_vec(),
        };
        assert_eq!(okay(&[]).acknowledged().unwrap(), None);
        assert_eq!(okay(&[0, 0, 1, 0]).acknowledged().unwrap(), Some(65_536));
        assert!(okay(&[0, 0, 0, 0x80]).acknowledged().is_err());
        assert!(okay(&[1, 2]).acknowledged().is_err());
    }
}
