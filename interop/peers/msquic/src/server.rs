//! The server: answers until it is ended from outside.

use std::net::SocketAddr;
use std::{fs, ptr, thread};

use msquic::{
    Addr, Api, CertificateFile, Configuration, Connection, ConnectionEvent, ConnectionRef,
    Credential, CredentialConfig, Listener, ListenerEvent, Registration, RegistrationConfig,
    Status, ffi,
};

use crate::stream::collecting;
use crate::{Result, alpn, inside, set_parameter, settings, variable};

pub fn run() -> Result<()> {
    let registration = Registration::new(&RegistrationConfig::default())?;
    if matches!(variable("TESTCASE")?.as_str(), "retry" | "retry-resumption") {
        // The part of the memory that handshakes may take before clients have to prove their
        // address.
        set_parameter(None, ffi::QUIC_PARAM_GLOBAL_RETRY_MEMORY_PERCENT, &0_u16)?;
    }
    let configuration = Configuration::open(&registration, &alpn(), Some(&settings()))?;
    let certificate = CertificateFile::new(variable("KEY")?, variable("CERTIFICATE")?);
    let credential =
        CredentialConfig::new().set_credential(Credential::CertificateFile(certificate));
    configuration.load_credential(&credential)?;

    let listener = Listener::open(&registration, move |_, event| {
        if let ListenerEvent::NewConnection { connection, .. } = event {
            connection.set_callback_handler(on_connection);
            connection.set_configuration(&configuration)?;
        }
        Ok(())
    })?;
    let address: SocketAddr = variable("ADDRESS")?.parse()?;
    listener.start(&alpn(), Some(&Addr::from(address)))?;
    let bound = listener.get_local_addr()?.as_socket().ok_or("no address")?;
    println!("ready {}", SocketAddr::new(address.ip(), bound.port()));
    loop {
        thread::park();
    }
}

fn on_connection(
    connection: ConnectionRef,
    event: ConnectionEvent<'_>,
) -> std::result::Result<(), Status> {
    match event {
        ConnectionEvent::Connected { .. } => send_ticket(&connection)?,
        ConnectionEvent::PeerStreamStarted { stream, .. } => {
            stream.set_callback_handler(collecting(|request| {
                answer(request).map(Some).map_err(|error| error.to_string())
            }));
        }
        // SAFETY: no event follows this one, and nothing else closes the handle.
        ConnectionEvent::ShutdownComplete { .. } => {
            drop(unsafe { Connection::from_raw(connection.as_raw()) });
        }
        _ => {}
    }
    Ok(())
}

fn send_ticket(connection: &Connection) -> std::result::Result<(), Status> {
    let Some(send) = Api::get_ffi().ConnectionSendResumptionTicket else { return Ok(()) };
    // SAFETY: the handle is one of a connection, and there is no data of ours.
    Status::ok_from_raw(unsafe {
        let flags = ffi::QUIC_SEND_RESUMPTION_FLAGS_QUIC_SEND_RESUMPTION_FLAG_NONE;
        send(connection.as_raw(), flags, 0, ptr::null())
    })
}

fn answer(request: &[u8]) -> Result<Vec<u8>> {
    let end = request.iter().position(|byte| *byte == b'\n').ok_or("no request line")?;
    let line = std::str::from_utf8(&request[..end])?.trim_end();
    match line.split_once(" /") {
        Some(("GET", name)) => Ok(fs::read(inside("FILES", name)?)?),
        Some(("PUT", name)) => {
            fs::write(inside("RECEIVED", name)?, &request[end + 1..])?;
            Ok(Vec::new())
        }
        _ => Err(format!("not a request: {line:?}").into()),
    }
}
