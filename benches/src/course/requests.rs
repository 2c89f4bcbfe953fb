//! Requests and replies, each pair on a stream of its own, one after the other.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use tack_perf::{ORDER_LEN, Order, Reply};
use tacklib::Connection;

/// A request, bytes. It begins with the order for its reply.
const REQUEST: usize = 100;
/// A reply, bytes; the last of a transfer may be shorter.
const REPLY: usize = 10_000;

/// Client-initiated bidirectional streams are so far apart (RFC 9000 section 2.1).
const STREAM_STEP: u64 = 4;

/// The end that asks.
pub struct Client {
    /// What is still to be asked for, bytes.
    rest: usize,
    next_stream: u64,
    /// The stream of a reply that has not ended.
    awaited: Option<u64>,
    read: usize,
    data: Vec<u8>,
}

impl Client {
    pub fn new() -> Self {
        Self { rest: 0, next_stream: 0, awaited: None, read: 0, data: vec![0; REPLY] }
    }

    /// Has it ask for so many bytes more.
    pub const fn ask(&mut self, bytes: usize) {
        self.rest += bytes;
    }

    /// Bytes of replies read so far.
    pub const fn read(&self) -> usize {
        self.read
    }

    /// Reads what has come of a reply, and asks for the next when that has ended.
    pub fn turn(&mut self, connection: &mut Connection) -> Result<()> {
        if let Some(stream) = self.awaited {
            self.read_reply(connection, stream)?;
        }
        if self.awaited.is_none() && self.rest > 0 {
            let len = self.rest.min(REPLY);
            let mut request = [0; REQUEST];
            let order = Order::new(Reply::AfterRequest, len as u64);
            request[..ORDER_LEN].copy_from_slice(&order.encode());
            let taken = connection.stream_send(self.next_stream, &request, true);
            ensure!(taken == Ok(REQUEST), "a request was not taken: {taken:?}");
            self.awaited = Some(self.next_stream);
            self.next_stream += STREAM_STEP;
            self.rest -= len;
        }
        Ok(())
    }

    fn read_reply(&mut self, connection: &mut Connection, stream: u64) -> Result<()> {
        loop {
            match connection.stream_recv(stream, &mut self.data) {
                Ok((len, fin)) => {
                    self.read += len;
                    if fin {
                        self.awaited = None;
                        return Ok(());
                    }
                }
                Err(quiche::Error::Done) => return Ok(()),
                Err(error) => return Err(error).context("reading a reply"),
            }
        }
    }
}

/// The end that replies.
pub struct Server {
    /// Requests that have not ended.
    requests: BTreeMap<u64, Vec<u8>>,
    /// What is left of replies, bytes.
    replies: Vec<(u64, usize)>,
    data: Vec<u8>,
}

impl Server {
    pub fn new() -> Self {
        Self { requests: BTreeMap::new(), replies: Vec::new(), data: vec![0xa5; REPLY] }
    }

    /// Reads requests, and writes what the connection takes of the replies.
    pub fn turn(&mut self, connection: &mut Connection) -> Result<()> {
        for stream in connection.readable() {
            let mut data = [0; REQUEST];
            let (len, fin) = connection.stream_recv(stream, &mut data).context("a request")?;
            let request = self.requests.entry(stream).or_default();
            request.extend_from_slice(&data[..len]);
            if fin {
                let order = request.first_chunk().context("a request is too short")?;
                let len = usize::try_from(Order::decode(order)?.bytes)?;
                ensure!(len <= REPLY, "a request for {len} bytes");
                self.replies.push((stream, len));
                self.requests.remove(&stream);
            }
        }
        for (stream, rest) in &mut self.replies {
            match connection.stream_send(*stream, &self.data[..*rest], true) {
                Ok(taken) => *rest -= taken,
                Err(quiche::Error::Done) => {}
                Err(error) => return Err(error).context("writing a reply"),
            }
        }
        self.replies.retain(|(_, rest)| *rest > 0);
        Ok(())
    }
}
