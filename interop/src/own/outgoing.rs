//! Bytes on their way into a stream.

/// What one side of a stream still has to send.
pub struct Outgoing {
    bytes: Vec<u8>,
    sent: usize,
    fin_sent: bool,
}

/// Enough for a request line: a stream that is not open yet tells no capacity.
const FIRST: usize = 256;

impl Outgoing {
    pub const fn new(bytes: Vec<u8>) -> Self {
        Self { bytes, sent: 0, fin_sent: false }
    }

    pub const fn is_done(&self) -> bool {
        self.fin_sent
    }

    /// Writes as much as the stream takes now.
    pub fn write(
        &mut self,
        connection: &mut tacklib::Connection,
        stream: u64,
    ) -> quiche::Result<()> {
        while !self.fin_sent {
            let rest = &self.bytes[self.sent..];
            // quiche queues a DATA_BLOCKED frame for every write beyond the capacity.
            let room = match connection.stream_capacity(stream) {
                Ok(room) => room,
                Err(quiche::Error::InvalidStreamState(_)) if self.sent == 0 => FIRST,
                Err(error) => return Err(error),
            };
            let chunk = &rest[..rest.len().min(room)];
            let fin = chunk.len() == rest.len();
            if chunk.is_empty() && !fin {
                return Ok(());
            }
            match connection.stream_send(stream, chunk, fin) {
                Ok(written) => {
                    self.fin_sent = fin && written == chunk.len();
                    self.sent += written;
                    if written < chunk.len() {
                        return Ok(());
                    }
                }
                Err(quiche::Error::Done | quiche::Error::StreamLimit) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
