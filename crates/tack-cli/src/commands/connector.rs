//! How a command connects, for the first time and after a connection is lost.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::cc_parameters::Store;
use crate::cli::{ConnectionArgs, Profile, TransportArgs};
use crate::error::Error;
use crate::session::{ConnectOptions, Link, Trust};
use crate::target::Target;
use crate::termination::Termination;

/// Connects a command to its server.
pub(super) trait Connector {
    /// Connects. `rate` is the most bytes per second in each direction, if there is a limit; `stop` ends
    /// waiting, where signals have been taken over.
    fn connect(&mut self, rate: Option<u64>, stop: Option<&Termination>)
    -> Result<Link, Error>;

    /// What acknowledges the data.
    fn profile(&self) -> Profile;
}

/// Connects to a server that runs already.
pub(super) struct Direct<'a> {
    pub(super) target: &'a Target,
    pub(super) args: &'a ConnectionArgs,
}

impl Connector for Direct<'_> {
    fn connect(
        &mut self,
        rate: Option<u64>,
        stop: Option<&Termination>,
    ) -> Result<Link, Error> {
        let access =
            Access { trust: self.args.trust(), token: self.args.token()?, ended: None };
        connect(self.target, access, &self.args.transport, rate, stop)
    }

    fn profile(&self) -> Profile {
        self.args.transport.profile
    }
}

/// What lets a client in, and tells it the right server.
pub(super) struct Access {
    pub(super) trust: Trust,
    pub(super) token: Option<String>,
    /// Set when the server is known to have ended.
    pub(super) ended: Option<Arc<AtomicBool>>,
}

/// Connects as the user wants it.
pub(super) fn connect(
    target: &Target,
    Access { trust, token, ended }: Access,
    args: &TransportArgs,
    rate: Option<u64>,
    stop: Option<&Termination>,
) -> Result<Link, Error> {
    let (profile, qlog) = (args.profile.into(), args.qlog.clone());
    let cc_parameters = Store::of_user().filter(|_| !args.no_careful_resume);
    let (key_log, stop) = (None, stop.map(Termination::flag));
    let options = ConnectOptions {
        trust,
        token,
        profile,
        key_log,
        qlog,
        cc_parameters,
        rate,
        stop,
        ended,
    };
    Link::connect(target, options)
}
