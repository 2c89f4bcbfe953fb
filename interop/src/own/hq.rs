//! hq-interop: HTTP/0.9 on streams, with a PUT of this runner's own.

use std::collections::HashMap;

use tacklib::Connection;

use super::outgoing::Outgoing;
use super::request::{Request, answer};
use super::settings::Settings;
use super::{Client, LONGEST_REQUEST, OwnError, Service};
use crate::contract::parse_request;

pub struct HqClient {
    exchanges: Vec<(Request, Outgoing)>,
}

impl HqClient {
    pub fn new(requests: Vec<Request>) -> Self {
        let outgoing = |request: &mut Request| {
            let mut bytes =
                format!("{} /{}\r\n", request.method.name(), request.name).into_bytes();
            bytes.append(&mut request.body);
            Outgoing::new(bytes)
        };
        let exchanges = requests.into_iter().map(|mut request| {
            let outgoing = outgoing(&mut request);
            (request, outgoing)
        });
        Self { exchanges: exchanges.collect() }
    }
}

impl Client for HqClient {
    fn pump(&mut self, connection: &mut Connection) -> Result<(), OwnError> {
        let mut buffer = [0; 16 << 10];
        for (at, (request, outgoing)) in self.exchanges.iter_mut().enumerate() {
            if request.is_answered {
                continue;
            }
            let stream = 4 * at as u64; // bidirectional, the client's
            if !connection.is_closed() {
                outgoing.write(connection, stream)?;
            }
            loop {
                match connection.stream_recv(stream, &mut buffer) {
                    Ok((len, fin)) => {
                        request.answer.extend_from_slice(&buffer[..len]);
                        request.is_answered |= fin;
                    }
                    // Nothing more for now, or the stream could not be opened yet, or is
                    // finished.
                    Err(quiche::Error::Done | quiche::Error::InvalidStreamState(_)) => break,
                    Err(error) => return Err(error.into()),
                }
            }
        }
        Ok(())
    }

    fn requests(&self) -> Box<dyn Iterator<Item = &Request> + '_> {
        Box::new(self.exchanges.iter().map(|(request, _)| request))
    }
}

#[derive(Default)]
pub struct HqService {
    exchanges: HashMap<u64, Exchange>,
}

enum Exchange {
    Asking(Vec<u8>),
    Answering(Outgoing),
}

impl Service for HqService {
    fn pump(
        &mut self,
        connection: &mut Connection,
        settings: &Settings,
    ) -> Result<(), OwnError> {
        let mut buffer = [0; 16 << 10];
        for stream in connection.readable() {
            let exchange = self.exchanges.entry(stream);
            let exchange = exchange.or_insert_with(|| Exchange::Asking(Vec::new()));
            while let Ok((len, fin)) = connection.stream_recv(stream, &mut buffer) {
                let Exchange::Asking(request) = exchange else { continue };
                request.extend_from_slice(&buffer[..len]);
                if request.len() > LONGEST_REQUEST {
                    return Err(OwnError::BadRequest);
                }
                if fin {
                    *exchange =
                        Exchange::Answering(Outgoing::new(answered(request, settings)?));
                }
            }
        }
        self.exchanges.retain(|stream, exchange| {
            let Exchange::Answering(answer) = exchange else { return true };
            if let Err(error) = answer.write(connection, *stream) {
                eprintln!("stream {stream}: {error}");
                return false;
            }
            !answer.is_done()
        });
        Ok(())
    }
}

fn answered(request: &[u8], settings: &Settings) -> Result<Vec<u8>, OwnError> {
    let end = request.iter().position(|byte| *byte == b'\n').ok_or(OwnError::BadRequest)?;
    let line =
        std::str::from_utf8(&request[..end]).map_err(|_| OwnError::BadRequest)?.trim_end();
    // What is asked for is the same but for the slash.
    let line = line.replacen(" /", " ", 1);
    let (method, name) = parse_request(&line).ok_or(OwnError::BadRequest)?;
    answer(method, name, &request[end + 1..], settings)
}
