//! HTTP/3 (RFC 9114), by quiche's own h3 over the connection that tacklib wraps.

use std::collections::HashMap;

use quiche::h3::{self, Event, Header, NameValue};
use tacklib::Connection;

use super::request::{Request, answer};
use super::settings::Settings;
use super::{Client, LONGEST_REQUEST, OwnError, Service};
use crate::contract::parse_request;

pub struct H3Client {
    /// `None` until the handshake is done.
    h3: Option<h3::Connection>,
    exchanges: Vec<Exchange>,
}

struct Exchange {
    request: Request,
    stream: Option<u64>,
    body: Body,
}

impl H3Client {
    pub fn new(requests: Vec<Request>) -> Self {
        let exchanges = requests.into_iter().map(|mut request| Exchange {
            body: Body::new(std::mem::take(&mut request.body)),
            request,
            stream: None,
        });
        Self { h3: None, exchanges: exchanges.collect() }
    }
}

impl Client for H3Client {
    fn pump(&mut self, connection: &mut Connection) -> Result<(), OwnError> {
        if !connection.is_established() && !connection.is_in_early_data() {
            return Ok(());
        }
        let h3 = started(&mut self.h3, connection)?;
        if !connection.is_closed() {
            for exchange in &mut self.exchanges {
                exchange.ask(h3, connection)?;
            }
        }
        while let Some((stream, event)) = next_event(h3, connection)? {
            let exchange =
                self.exchanges.iter_mut().find(|exchange| exchange.stream == Some(stream));
            let Some(Exchange { request, .. }) = exchange else { continue };
            match event {
                Event::Headers { list, .. } => accepted(&list, &request.name)?,
                Event::Data => receive(h3, connection, stream, &mut request.answer)?,
                Event::Finished => request.is_answered = true,
                Event::Reset(code) => {
                    let what = format!("{} was reset with code {code:#x}", request.name);
                    return Err(OwnError::Ended(what));
                }
                Event::PriorityUpdate | Event::GoAway => {}
            }
        }
        Ok(())
    }

    fn requests(&self) -> Box<dyn Iterator<Item = &Request> + '_> {
        Box::new(self.exchanges.iter().map(|exchange| &exchange.request))
    }
}

impl Exchange {
    fn ask(
        &mut self,
        h3: &mut h3::Connection,
        connection: &mut Connection,
    ) -> Result<(), OwnError> {
        if self.request.is_answered {
            return Ok(());
        }
        let stream = if let Some(stream) = self.stream {
            stream
        } else {
            let path = format!("/{}", self.request.name);
            let head = [
                Header::new(b":method", self.request.method.name().as_bytes()),
                Header::new(b":scheme", b"https"),
                Header::new(b":authority", b"localhost"),
                Header::new(b":path", path.as_bytes()),
            ];
            match h3.send_request(connection, &head, self.body.is_done()) {
                Ok(stream) => *self.stream.insert(stream),
                Err(
                    h3::Error::StreamBlocked
                    | h3::Error::TransportError(quiche::Error::StreamLimit),
                ) => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        };
        self.body.send(h3, connection, stream)
    }
}

/// Whether the answer is the file.
fn accepted(head: &[Header], name: &str) -> Result<(), OwnError> {
    let status = value(head, b":status").unwrap_or_default();
    if status == "200" {
        Ok(())
    } else {
        Err(OwnError::Ended(format!("{name} was answered with status {status:?}")))
    }
}

#[derive(Default)]
pub struct H3Service {
    h3: Option<h3::Connection>,
    exchanges: HashMap<u64, Serving>,
}

enum Serving {
    Asking { line: String, body: Vec<u8> },
    Answering { status: &'static str, head_is_sent: bool, body: Body },
}

impl Service for H3Service {
    fn pump(
        &mut self,
        connection: &mut Connection,
        settings: &Settings,
    ) -> Result<(), OwnError> {
        let h3 = started(&mut self.h3, connection)?;
        while let Some((stream, event)) = next_event(h3, connection)? {
            match event {
                Event::Headers { list, .. } => {
                    let text = |name| value(&list, name).unwrap_or_default();
                    let line = format!("{} {}", text(b":method"), text(b":path"));
                    // Trailers come as headers too, and change nothing.
                    let asking = Serving::Asking { line, body: Vec::new() };
                    self.exchanges.entry(stream).or_insert(asking);
                }
                Event::Data => {
                    if let Some(Serving::Asking { body, .. }) = self.exchanges.get_mut(&stream)
                    {
                        receive(h3, connection, stream, body)?;
                        if body.len() > LONGEST_REQUEST {
                            return Err(OwnError::BadRequest);
                        }
                    }
                }
                Event::Finished => {
                    if let Some(exchange) = self.exchanges.get_mut(&stream) {
                        exchange.answer(settings);
                    }
                }
                Event::Reset(_) => {
                    self.exchanges.remove(&stream);
                }
                Event::PriorityUpdate | Event::GoAway => {}
            }
        }
        self.exchanges.retain(|stream, exchange| {
            exchange.send(h3, connection, *stream).unwrap_or_else(|error| {
                eprintln!("stream {stream}: {error}");
                false
            })
        });
        Ok(())
    }
}

impl Serving {
    fn answer(&mut self, settings: &Settings) {
        let Self::Asking { line, body } = self else { return };
        let answered = parse_request(&line.replacen(" /", " ", 1))
            .ok_or(OwnError::BadRequest)
            .and_then(|(method, name)| answer(method, name, body, settings));
        let (status, body) = match answered {
            Ok(body) => ("200", body),
            // A browser makes requests of its own.
            Err(error) => {
                eprintln!("{line}: {error}");
                ("404", Vec::new())
            }
        };
        *self = Self::Answering { status, head_is_sent: false, body: Body::new(body) };
    }

    /// Whether there is more to do.
    fn send(
        &mut self,
        h3: &mut h3::Connection,
        connection: &mut Connection,
        stream: u64,
    ) -> Result<bool, OwnError> {
        let Self::Answering { status, head_is_sent, body } = self else { return Ok(true) };
        if !*head_is_sent {
            let len = body.bytes.len().to_string();
            let head = [
                Header::new(b":status", status.as_bytes()),
                Header::new(b"content-length", len.as_bytes()),
            ];
            match h3.send_response(connection, stream, &head, body.is_done()) {
                Ok(()) => *head_is_sent = true,
                Err(h3::Error::StreamBlocked) => return Ok(true),
                Err(error) => return Err(error.into()),
            }
        }
        body.send(h3, connection, stream)?;
        Ok(!body.is_done())
    }
}

/// A body on its way into a stream.
struct Body {
    bytes: Vec<u8>,
    sent: usize,
}

impl Body {
    const fn new(bytes: Vec<u8>) -> Self {
        Self { bytes, sent: 0 }
    }

    const fn is_done(&self) -> bool {
        self.sent == self.bytes.len()
    }

    /// Sends as much as the stream takes now.
    fn send(
        &mut self,
        h3: &mut h3::Connection,
        connection: &mut Connection,
        stream: u64,
    ) -> Result<(), OwnError> {
        while !self.is_done() {
            match h3.send_body(connection, stream, &self.bytes[self.sent..], true) {
                Ok(sent) => self.sent += sent,
                Err(h3::Error::Done) => break,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

fn started<'h3>(
    h3: &'h3 mut Option<h3::Connection>,
    connection: &mut Connection,
) -> Result<&'h3 mut h3::Connection, OwnError> {
    if let Some(h3) = h3 {
        return Ok(h3);
    }
    let config = h3::Config::new()?;
    Ok(h3.insert(h3::Connection::with_transport(connection, &config)?))
}

fn next_event(
    h3: &mut h3::Connection,
    connection: &mut Connection,
) -> Result<Option<(u64, Event)>, OwnError> {
    match h3.poll(connection) {
        Ok(event) => Ok(Some(event)),
        Err(h3::Error::Done) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn receive(
    h3: &mut h3::Connection,
    connection: &mut Connection,
    stream: u64,
    body: &mut Vec<u8>,
) -> Result<(), OwnError> {
    let mut buffer = [0; 16 << 10];
    loop {
        match h3.recv_body(connection, stream, &mut buffer) {
            Ok(len) => body.extend_from_slice(&buffer[..len]),
            Err(h3::Error::Done) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
}

fn value<'head>(head: &'head [Header], name: &[u8]) -> Option<&'head str> {
    let header = head.iter().find(|header| header.name() == name)?;
    std::str::from_utf8(header.value()).ok()
}
