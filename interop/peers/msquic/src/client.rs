//! The client: all requests at once, each on a stream of its own. Where a session is to be
//! resumed, the first request is made on a connection before.

use std::fs;
use std::net::SocketAddr;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::time::Duration;

use msquic::{
    Addr, AllowedCipherSuiteFlags, Configuration, Connection, ConnectionEvent, ConnectionRef,
    ConnectionShutdownFlags, CredentialConfig, CredentialFlags, Registration,
    RegistrationConfig, SendFlags, Status, Stream, StreamOpenFlags, StreamStartFlags, ffi,
};

use crate::stream::{collecting, send};
use crate::{Result, alpn, inside, set_parameter, settings, variable};

/// Changes the keys once the handshake is confirmed; not in msquic's public header.
const FORCE_KEY_UPDATE: u32 = 0x8500_0000;
const TURN: Duration = Duration::from_millis(20);

pub fn run() -> Result<()> {
    let requests = variable("REQUESTS")?;
    let requests: Vec<_> = requests.split(',').collect();
    let registration = Registration::new(&RegistrationConfig::default())?;
    let configuration = Configuration::open(&registration, &alpn(), Some(&settings()))?;
    configuration.load_credential(&credential(&variable("TESTCASE")?))?;
    let client = Client { server: variable("ADDRESS")?.parse()?, configuration, registration };
    match variable("TESTCASE")?.as_str() {
        "resumption" | "retry-resumption" => {
            let ticket = client.exchange(&requests[..1], Session::ToKeep)?;
            client.exchange(&requests[1..], Session::Resumed(&ticket))?;
        }
        "zerortt" => {
            let ticket = client.exchange(&requests[..1], Session::ToKeep)?;
            client.exchange(&requests[1..], Session::Early(&ticket))?;
        }
        "keyupdate" => drop(client.exchange(&requests, Session::WithNewKeys)?),
        _ => drop(client.exchange(&requests, Session::Plain)?),
    }
    Ok(())
}

fn credential(test_case: &str) -> CredentialConfig {
    let credential = CredentialConfig::new_client();
    // Trust is not under test.
    let any = CredentialFlags::NO_CERTIFICATE_VALIDATION;
    if test_case == "chacha20" {
        credential
            .set_credential_flags(any | CredentialFlags::SET_ALLOWED_CIPHER_SUITES)
            .set_allowed_cipher_suites(AllowedCipherSuiteFlags::CHACHA20_POLY1305_SHA256)
    } else {
        credential.set_credential_flags(any)
    }
}

/// What is special about a connection.
#[derive(Clone, Copy)]
enum Session<'a> {
    Plain,
    /// It changes its keys.
    WithNewKeys,
    /// It ends with a ticket.
    ToKeep,
    /// It begins with a ticket.
    Resumed(&'a [u8]),
    /// And with requests in 0-RTT packets.
    Early(&'a [u8]),
}

/// What msquic's threads tell.
enum News {
    Connected,
    /// The answer to the request of that number.
    Answer(usize, Vec<u8>),
    Ticket(Vec<u8>),
    /// The connection is over.
    Over,
}

struct Client {
    server: SocketAddr,
    // Closed in this order: a registration waits until all that was opened with it is closed.
    configuration: Configuration,
    registration: Registration,
}

impl Client {
    /// Makes requests on a connection of their own; returns its ticket, if that is to be kept.
    fn exchange(&self, requests: &[&str], session: Session<'_>) -> Result<Vec<u8>> {
        let (tell, news) = mpsc::channel();
        let connection = Connection::open(&self.registration, on_connection(tell.clone()))?;
        // SAFETY: the handle lives as long as `connection`.
        let handle = unsafe { connection.as_raw() };
        // Else it would look the name up.
        let server = Addr::from(self.server);
        set_parameter(Some(handle), ffi::QUIC_PARAM_CONN_REMOTE_ADDRESS, &server)?;
        if let Session::Resumed(ticket) | Session::Early(ticket) = session {
            set_parameter(Some(handle), ffi::QUIC_PARAM_CONN_RESUMPTION_TICKET, ticket)?;
        }
        let ask_all = |flags| -> Result<()> {
            for (number, request) in requests.iter().enumerate() {
                ask(&connection, request, number, flags, tell.clone())?;
            }
            Ok(())
        };
        let is_early = matches!(session, Session::Early(_));
        if is_early {
            ask_all(SendFlags::ALLOW_0_RTT)?;
        }
        connection.start(&self.configuration, "localhost", self.server.port())?;

        let mut missing = requests.len();
        let mut ticket = Vec::new();
        let mut wants_ticket = matches!(session, Session::ToKeep);
        let mut wants_keys = matches!(session, Session::WithNewKeys);
        while missing > 0 || wants_ticket {
            match news.recv_timeout(TURN) {
                Ok(News::Connected) if is_early => {}
                Ok(News::Connected) => ask_all(SendFlags::NONE)?,
                Ok(News::Answer(number, answer)) => {
                    if let Some(name) = requests[number].strip_prefix("GET ") {
                        fs::write(inside("RECEIVED", name)?, answer)?;
                    }
                    missing -= 1;
                }
                Ok(News::Ticket(new)) => {
                    ticket = new;
                    wants_ticket = false;
                }
                Ok(News::Over) => return Err("the connection ended early".into()),
                Err(RecvTimeoutError::Timeout) => {}
                Err(error) => return Err(error.into()),
            }
            // Refused until the handshake is confirmed.
            wants_keys =
                wants_keys && set_parameter(Some(handle), FORCE_KEY_UPDATE, &()).is_err();
        }
        connection.shutdown(ConnectionShutdownFlags::NONE, 0);
        while !matches!(news.recv()?, News::Over) {}
        Ok(ticket)
    }
}

fn on_connection(
    tell: Sender<News>,
) -> impl FnMut(ConnectionRef, ConnectionEvent<'_>) -> std::result::Result<(), Status> {
    move |_, event| {
        // The receiver is gone once everything is done.
        let _ = match event {
            ConnectionEvent::Connected { .. } => tell.send(News::Connected),
            ConnectionEvent::ResumptionTicketReceived { resumption_ticket } => {
                tell.send(News::Ticket(resumption_ticket.to_vec()))
            }
            ConnectionEvent::ShutdownInitiatedByTransport { status, error_code } => {
                eprintln!("msquic-peer: {status}, error {error_code:#x}");
                Ok(())
            }
            ConnectionEvent::ShutdownComplete { .. } => tell.send(News::Over),
            _ => Ok(()),
        };
        Ok(())
    }
}

/// `request` is `GET name` or `PUT name`.
fn ask(
    connection: &Connection,
    request: &str,
    number: usize,
    flags: SendFlags,
    tell: Sender<News>,
) -> Result<()> {
    let (method, name) = request.split_once(' ').ok_or("not a request")?;
    let mut bytes = format!("{method} /{name}\r\n").into_bytes();
    if method == "PUT" {
        bytes.extend(fs::read(inside("FILES", name)?)?);
    }
    let handler = collecting(move |answer| {
        // As above.
        let _ = tell.send(News::Answer(number, answer.to_vec()));
        Ok(None)
    });
    let stream = Stream::open(connection, StreamOpenFlags::NONE, handler)?;
    stream.start(StreamStartFlags::NONE)?;
    send(&stream, bytes, flags)?;
    // SAFETY: the handler closes it at the stream's end.
    unsafe { stream.into_raw() };
    Ok(())
}
