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
            request.is_answered |= ended_unnoticed(connection, stream, &request.answer);
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
        for (stream, exchange) in &mut self.exchanges {
            if let Exchange::Asking(request) = exchange
                && ended_unnoticed(connection, *stream, request)
            {
                *exchange = Exchange::Answering(Outgoing::new(answered(request, settings)?));
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

/// Whether the stream has ended behind the data that was read. If a packet brings the end together
/// with data that was read before, quiche 0.30 does not call the stream readable.
fn ended_unnoticed(connection: &Connection, stream: u64, read: &[u8]) -> bool {
    // quiche also calls a stream finished that was never opened.
    !read.is_empty() && connection.stream_finished(stream)
}

fn answered(request: &[u8], settings: &Settings) -> Result<Vec<u8>, OwnError> {
    let end = request.iter().position(|byte| *byte == b'\n').ok_or(OwnError::BadRequest)?;
    let line =
        std::str::from_utf8(&request[..end]).map_err(|_| OwnError::BadRequest)?.trim_end();
    // The environment has the request without the slash.
    let line = line.replacen(" /", " ", 1);
    let (method, name) = parse_request(&line).ok_or(OwnError::BadRequest)?;
    answer(method, name, &request[end + 1..], settings)
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::thread;

    use quiche::{ConnectionId, RecvInfo};
    use tacklib::Profile;

    use super::*;
    use crate::contract::Method;
    use crate::process::Identity;

    const CLIENT: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(LOCALHOST), 1);
    const SERVER: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(LOCALHOST), 2);
    const LOCALHOST: std::net::Ipv4Addr = std::net::Ipv4Addr::LOCALHOST;
    const STREAM: u64 = 0;

    struct Pair {
        client: Connection,
        server: quiche::Connection,
    }

    impl Pair {
        fn connect() -> Self {
            let directory = tempfile::tempdir().unwrap();
            let identity = Identity::create(directory.path()).unwrap();
            let mut config = tacklib::Config::new(quiche::PROTOCOL_VERSION).unwrap();
            config.set_profile(Profile::Off);
            set_up(&mut config);
            let id = ConnectionId::from_ref(&[1; 16]);
            let client =
                tacklib::connect(Some("localhost"), &id, CLIENT, SERVER, &mut config).unwrap();

            let mut config = quiche::Config::new(quiche::PROTOCOL_VERSION).unwrap();
            set_up(&mut config);
            let path = |path: &std::path::Path| path.to_str().unwrap().to_owned();
            config.load_cert_chain_from_pem_file(&path(&identity.certificate)).unwrap();
            config.load_priv_key_from_pem_file(&path(&identity.key)).unwrap();
            let id = ConnectionId::from_ref(&[2; 16]);
            let server = quiche::accept(&id, None, SERVER, CLIENT, &mut config).unwrap();

            let mut pair = Self { client, server };
            while !(pair.client.is_established() && pair.server.is_established()) {
                pair.deliver_to_server();
                pair.deliver_to_client();
            }
            pair
        }

        fn deliver_to_server(&mut self) {
            let mut packet = [0; 1500];
            while let Ok((len, _)) = self.client.send(&mut packet) {
                let info = RecvInfo { from: CLIENT, to: SERVER };
                self.server.recv(&mut packet[..len], info).unwrap();
            }
        }

        fn deliver_to_client(&mut self) {
            let mut packet = [0; 1500];
            while let Ok((len, _)) = self.server.send(&mut packet) {
                let info = RecvInfo { from: SERVER, to: CLIENT };
                self.client.recv(&mut packet[..len], info).unwrap();
            }
        }

        /// Loses the packets of the server.
        fn lose(&mut self) {
            while self.server.send(&mut [0; 1500]).is_ok() {}
        }
    }

    fn set_up(config: &mut quiche::Config) {
        config.set_application_protos(&[b"hq-interop"]).unwrap();
        config.verify_peer(false);
        config.set_initial_max_data(1 << 20);
        config.set_initial_max_stream_data_bidi_local(1 << 20);
        config.set_initial_max_stream_data_bidi_remote(1 << 20);
        config.set_initial_max_streams_bidi(1);
    }

    #[test]
    fn the_end_of_a_stream_is_seen_if_it_comes_with_data_that_was_there_before() {
        let mut pair = Pair::connect();
        let mut client = HqClient::new(vec![Request {
            method: Method::Get,
            name: "file".to_owned(),
            body: vec![],
            answer: vec![],
            is_answered: false,
        }]);
        client.pump(&mut pair.client).unwrap();
        pair.deliver_to_server();
        pair.server.stream_send(STREAM, b"answer", false).unwrap();
        pair.deliver_to_client();
        client.pump(&mut pair.client).unwrap();
        // The acknowledgement does not get through, so that all is sent again.
        pair.server.stream_send(STREAM, b"", true).unwrap();
        pair.lose();
        for _ in 0..5 {
            if client.requests().all(|request| request.is_answered) {
                break;
            }
            thread::sleep(pair.server.timeout().unwrap());
            pair.server.on_timeout();
            pair.deliver_to_client();
            client.pump(&mut pair.client).unwrap();
        }
        let request = client.requests().next().unwrap();
        assert_eq!(request.answer, b"answer");
        assert!(request.is_answered);
    }
}
