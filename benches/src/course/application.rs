//! What the ends of a course do with their connection: one sends, the other reads.

use anyhow::{Context, Result};
use quiche::h3;
use tacklib::Connection;

use super::requests;

/// The HTTP/3 connection that is measured.
type Http3Connection = tacklib::h3::Connection;

/// Written and read at once, bytes.
const CHUNK: usize = 1 << 16;

/// How the data is carried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// A unidirectional stream.
    Stream,
    /// The body of an HTTP/3 request: the client sends.
    Http3,
    /// Replies of 10,000 bytes to requests of 100, each pair on a stream of its own, one after the
    /// other: the server sends.
    Requests,
}

/// What an end does.
pub enum Application {
    /// One sends, the other reads.
    Bulk(Box<Bulk>),
    /// It asks.
    Client(requests::Client),
    /// It replies.
    Server(requests::Server),
}

impl Application {
    /// Has a transfer of so many bytes begin at this end; `last` if nothing comes behind it.
    pub fn supply(&mut self, bytes: usize, last: bool) {
        match self {
            Self::Bulk(bulk) => bulk.supply(bytes, last),
            Self::Client(client) => client.ask(bytes),
            Self::Server(_) => {}
        }
    }

    /// Bytes of the transfer read so far.
    pub fn read(&self) -> usize {
        match self {
            Self::Bulk(bulk) => bulk.read,
            Self::Client(client) => client.read(),
            Self::Server(_) => 0,
        }
    }

    /// Whether the end of the stream has been read that all of it comes on.
    pub fn is_finished(&self) -> bool {
        matches!(self, Self::Bulk(bulk) if bulk.finished)
    }

    /// Reads what there is to read, and writes what the connection takes.
    pub fn turn(&mut self, connection: &mut Connection) -> Result<()> {
        match self {
            Self::Bulk(bulk) => bulk.turn(connection),
            Self::Client(client) => client.turn(connection),
            Self::Server(server) => server.turn(connection),
        }
    }
}

/// An end that sends data, or one that reads it.
pub struct Bulk {
    /// The stream of the data. Of HTTP/3 there is none before the request has been sent, or has
    /// come.
    stream: Option<u64>,
    http3: Option<Http3Connection>,
    /// What is left to send, bytes.
    rest: usize,
    /// Whether the stream ends behind what is left to send.
    last: bool,
    read: usize,
    finished: bool,
    data: Vec<u8>,
}

impl Bulk {
    /// On a stream of that number.
    pub fn on_stream(stream: u64) -> Self {
        Self {
            stream: Some(stream),
            http3: None,
            rest: 0,
            last: false,
            read: 0,
            finished: false,
            data: vec![0xa5; CHUNK],
        }
    }

    /// On a connection whose handshake is done.
    pub fn on_http3(connection: &mut Connection) -> Result<Self> {
        let config = h3::Config::new()?;
        let http3 = Http3Connection::with_transport(connection, &config)?;
        Ok(Self { stream: None, http3: Some(http3), ..Self::on_stream(0) })
    }

    /// Gives this end something to send; `last` if nothing comes behind it.
    const fn supply(&mut self, bytes: usize, last: bool) {
        self.rest += bytes;
        self.last = last;
    }

    fn turn(&mut self, connection: &mut Connection) -> Result<()> {
        if self.http3.is_some() {
            self.poll(connection).context("HTTP/3")?;
        } else if !self.finished {
            self.read_stream(connection).context("reading")?;
        }
        self.write(connection).context("writing")
    }

    fn read_stream(&mut self, connection: &mut Connection) -> Result<()> {
        let Some(stream) = self.stream else { return Ok(()) };
        while !self.finished {
            match connection.stream_recv(stream, &mut self.data) {
                Ok((len, fin)) => {
                    self.read += len;
                    self.finished = fin;
                }
                // Nothing there; or the stream is yet to be opened, or this end's own.
                Err(quiche::Error::Done | quiche::Error::InvalidStreamState(_)) => break,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn poll(&mut self, connection: &mut Connection) -> Result<()> {
        let Some(http3) = &mut self.http3 else { return Ok(()) };
        loop {
            match http3.poll(connection) {
                Ok((stream, h3::Event::Headers { .. })) => self.stream = Some(stream),
                Ok((stream, h3::Event::Data)) => {
                    while let Ok(len) = http3.recv_body(connection, stream, &mut self.data) {
                        self.read += len;
                    }
                }
                Ok((_, h3::Event::Finished)) => self.finished = true,
                Ok(_) => {}
                Err(h3::Error::Done) => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn write(&mut self, connection: &mut Connection) -> Result<()> {
        while self.rest > 0 {
            let len = self.rest.min(self.data.len());
            let fin = self.last && len == self.rest;
            let Some(taken) = self.write_chunk(connection, len, fin)? else { break };
            self.rest -= taken;
            if taken < len {
                break;
            }
        }
        Ok(())
    }

    /// How many bytes were taken; none if there is no room.
    fn write_chunk(
        &mut self,
        connection: &mut Connection,
        len: usize,
        fin: bool,
    ) -> Result<Option<usize>> {
        let bytes = &self.data[..len];
        let Some(http3) = &mut self.http3 else {
            let Some(stream) = self.stream else { return Ok(None) };
            return match connection.stream_send(stream, bytes, fin) {
                Ok(taken) => Ok(Some(taken)),
                Err(quiche::Error::Done) => Ok(None),
                Err(error) => Err(error.into()),
            };
        };
        let stream = match self.stream {
            Some(stream) => stream,
            None => match http3.send_request(connection, &request(), false) {
                Ok(stream) => *self.stream.insert(stream),
                Err(h3::Error::StreamBlocked) => return Ok(None),
                Err(error) => return Err(error.into()),
            },
        };
        match http3.send_body(connection, stream, bytes, fin) {
            Ok(taken) => Ok(Some(taken)),
            Err(h3::Error::Done) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

fn request() -> [h3::Header; 4] {
    [
        h3::Header::new(b":method", b"PUT"),
        h3::Header::new(b":scheme", b"https"),
        h3::Header::new(b":authority", b"localhost"),
        h3::Header::new(b":path", b"/data"),
    ]
}
