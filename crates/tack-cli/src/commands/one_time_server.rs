//! A server that is made for one transfer, with a certificate and a token of its own.

use std::net::{Ipv6Addr, SocketAddr, UdpSocket};
use std::path::Path;

use tack_transfer::{
    CcParametersStore, Fingerprint, Identity, Profile, Root, Server, ServerEvent,
    ServerOptions, token,
};

use super::serve::listen_address;
use crate::error::Error;
use crate::exit::Exit;
use crate::ssh::{Ports, Scope, Wanted};

/// The server, and what a client has to know.
pub(super) struct OneTimeServer {
    pub(super) server: Server,
    pub(super) fingerprint: Fingerprint,
    pub(super) token: String,
    pub(super) scope: Scope,
}

/// How it is to serve.
pub(super) struct OneTimeOptions {
    /// The ports of which one is to be listened on; the system chooses if there are none.
    pub(super) ports: Option<Ports>,
    /// Whether the connection is to be plain QUIC.
    pub(super) plain: bool,
    /// As in [`ServerOptions`]: a server that is there for longer may be found by strangers.
    pub(super) retry: bool,
    /// Where the parameters of paths are kept, if they are: in memory nothing is left for a next time.
    pub(super) cc_parameters: Option<CcParametersStore>,
    /// Whether the client is told of a TLS session, so that its requests can leave with the first packet.
    pub(super) gives_session: bool,
    /// Hears what is done.
    pub(super) report: Box<dyn Fn(ServerEvent) + Send + Sync>,
}

/// Makes a server of what is wanted, and of nothing else; paths are relative to `home`.
pub(super) fn one_time_server(
    wanted: &Wanted,
    home: &Path,
    how: OneTimeOptions,
) -> Result<OneTimeServer, Error> {
    let scope = Scope::find(wanted, home)?;
    let directory = tempfile::Builder::new().prefix("tack-").tempdir();
    let directory = directory.map_err(Error::local(std::env::temp_dir()))?;
    let identity = Identity::in_directory(directory.path())?;
    let token = token::generate()?;
    let mut root = Root::open(&scope.root).map_err(Error::local(&scope.root))?;
    let read_only = matches!(wanted, Wanted::Read(_));
    if read_only {
        root = root.only(&scope.paths);
    }
    let fingerprint = identity.fingerprint;
    let listen = listen_address(SocketAddr::from((Ipv6Addr::UNSPECIFIED, port(how.ports)?)));
    let mut options = ServerOptions::new(listen, root, identity, Some(token.clone()));
    options.profile = if how.plain { Profile::Off } else { Profile::Default };
    options.read_only = read_only;
    options.retry = how.retry;
    options.careful_resume = how.cc_parameters.is_some();
    options.cc_parameters = how.cc_parameters;
    options.early_data = how.gives_session;
    options.gives_session = how.gives_session;
    options.report = how.report;
    Ok(OneTimeServer { server: Server::new(options)?, fingerprint, token, scope })
}

/// The first port that is free; 0 lets the system choose.
fn port(ports: Option<Ports>) -> Result<u16, Error> {
    let Some(ports) = ports else { return Ok(0) };
    let any = listen_address(SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0))).ip();
    let is_free = |port: &u16| UdpSocket::bind((any, *port)).is_ok();
    ports.range().find(is_free).ok_or_else(|| {
        let text = format!("no UDP port of {ports} is free there; name others with --udp-port");
        Error::OtherEnd { text, exit: Exit::Connection }
    })
}
