//! The client: all requests at once, each on a stream of its own.

use std::fs;
use std::net::SocketAddr;
use std::sync::mpsc::{self, Sender};

use msquic::{
    Addr, Configuration, Connection, ConnectionEvent, ConnectionRef, ConnectionShutdownFlags,
    CredentialConfig, CredentialFlags, Registration, RegistrationConfig, SendFlags, Stream,
    StreamOpenFlags, StreamStartFlags, ffi,
};

use crate::stream::{collecting, send};
use crate::{Result, alpn, inside, set_parameter, settings, variable};

/// What msquic's threads tell.
enum News {
    Connected,
    /// The answer to the request of that number.
    Answer(usize, Vec<u8>),
    /// The connection is over.
    Over,
}

pub fn run() -> Result<()> {
    let requests = variable("REQUESTS")?;
    let requests: Vec<_> = requests.split(',').collect();
    let registration = Registration::new(&RegistrationConfig::default())?;
    let configuration = Configuration::open(&registration, &alpn(), Some(&settings()))?;
    // What is tested is not whom to trust.
    let credential = CredentialConfig::new_client()
        .set_credential_flags(CredentialFlags::NO_CERTIFICATE_VALIDATION);
    configuration.load_credential(&credential)?;

    let (tell, news) = mpsc::channel();
    let connection = Connection::open(&registration, on_connection(tell.clone()))?;
    let server: SocketAddr = variable("ADDRESS")?.parse()?;
    // Else it would look the name up.
    // SAFETY: the handle lives as long as `connection`.
    let handle = unsafe { connection.as_raw() };
    set_parameter(Some(handle), ffi::QUIC_PARAM_CONN_REMOTE_ADDRESS, &Addr::from(server))?;
    connection.start(&configuration, "localhost", server.port())?;

    let mut missing = requests.len();
    while missing > 0 {
        match news.recv()? {
            News::Connected => {
                for (number, request) in requests.iter().enumerate() {
                    ask(&connection, request, number, tell.clone())?;
                }
            }
            News::Answer(number, answer) => {
                if let Some(name) = requests[number].strip_prefix("GET ") {
                    fs::write(inside("RECEIVED", name)?, answer)?;
                }
                missing -= 1;
            }
            News::Over => return Err("the connection ended early".into()),
        }
    }
    connection.shutdown(ConnectionShutdownFlags::NONE, 0);
    while !matches!(news.recv()?, News::Over) {}
    Ok(())
}

fn on_connection(
    tell: Sender<News>,
) -> impl FnMut(ConnectionRef, ConnectionEvent<'_>) -> std::result::Result<(), msquic::Status> {
    move |_, event| {
        // Nobody listens any more once everything is done.
        let _ = match event {
            ConnectionEvent::Connected { .. } => tell.send(News::Connected),
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
    send(&stream, bytes, SendFlags::NONE)?;
    // SAFETY: the handler closes it at the stream's end.
    unsafe { stream.into_raw() };
    Ok(())
}
