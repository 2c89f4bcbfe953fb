//! The asking end: what a client does over one connection.
//!
//! Each operation becomes jobs, each with a stream and a worker thread of its own; the calling thread drives the
//! connection. What becomes of files is told as [`Event`]s while it happens, and summed up as a [`Summary`].

mod attempts;
mod attributes;
mod closing;
mod comparison;
mod dry_run;
mod event;
mod get;
mod get_batch;
mod jobs;
mod listing;
mod options;
mod planned_edits;
mod producer;
mod put_batch;
mod refused;
mod requests;
mod send;
mod send_stream;
mod server_tree;
mod summary;
mod waiting;

use std::io::{self, Read};
use std::sync::atomic::{AtomicBool, Ordering};

use tack_endpoint::certificate::Fingerprint;

use crate::error::Error;
use crate::protocol::WirePath;
use crate::quic::CloseCode;
use crate::server_address::ServerAddress;
use crate::session::{ConnectOptions, Link, Notify, Transport};

pub use attempts::Attempts;
pub use event::{End, Event};
pub use get::Get;
pub use listing::{Listed, ListedKind};
pub use options::TransferOptions;
pub use send::{Place, Source};
pub use summary::{Failure, MAX_FAILURES, Summary};

/// A connection to a server.
///
/// Operations run one after the other, on the thread that calls them. After an error other than
/// [`Error::Incomplete`] the connection is closed, and what follows fails too: connect again, and run the same
/// operation again to resume. Dropping a client closes the connection.
pub struct Client {
    link: Link,
    /// Something was transferred, and nothing has failed; `None` while nothing was.
    has_all: Option<bool>,
    /// Something was left out by a filter, or stays.
    leaves_out: bool,
    /// See [`Self::expect_nothing_there`].
    is_ahead: bool,
}

impl Client {
    /// Connects to `server`, makes sure that it is the right one, and says the token.
    ///
    /// Whether the token was right shows with the first operation.
    pub fn connect(server: &ServerAddress, options: ConnectOptions) -> Result<Self, Error> {
        let link = Link::connect(server, options)?;
        Ok(Self { link, has_all: None, leaves_out: false, is_ahead: false })
    }

    /// Takes it that the server has nothing yet of what the next operation sends: the content of small files leaves with
    /// their names, and waits for no answer. If that is wrong the result is the same, and what the server has is sent in
    /// vain.
    pub fn expect_nothing_there(&mut self) {
        self.is_ahead = true;
    }

    /// Fetches files and directories. What is there already, or in part, is not fetched again. Two things must not
    /// become one, nor the content of a directory go beside another thing where what is extraneous is deleted: this is
    /// [`Error::Invalid`], before anything is done.
    ///
    /// `observe` hears what happens to each file. If some have failed, the error is [`Error::Incomplete`], and all
    /// others are in place.
    pub fn get(
        &mut self,
        wanted: Vec<Get>,
        options: &TransferOptions,
        observe: &mut dyn FnMut(Event<'_>),
    ) -> Result<Summary, Error> {
        get::check(&wanted, options)?;
        self.transfer(options, observe, |run, producer| {
            wanted.into_iter().try_for_each(|wanted| get::start(wanted, run, producer.clone()))
        })
    }

    /// Sends files and directories; the result is as that of [`get`](Self::get). Directories may become one.
    pub fn send(
        &mut self,
        sources: Vec<Source>,
        place: &Place,
        options: &TransferOptions,
        observe: &mut dyn FnMut(Event<'_>),
    ) -> Result<Summary, Error> {
        let is_ahead = std::mem::take(&mut self.is_ahead);
        self.transfer(options, observe, |run, producer| {
            send::start(sources, (place, is_ahead), run, producer)
        })
    }

    /// Sends what `input` gives until it ends, as the file `path`. Nothing of this can be resumed.
    pub fn send_stream(
        &mut self,
        input: impl Read + Send + 'static,
        path: &WirePath,
        options: &TransferOptions,
        observe: &mut dyn FnMut(Event<'_>),
    ) -> Result<Summary, Error> {
        self.transfer(options, observe, |run, producer| {
            send_stream::start(input, path.clone(), run, producer)
        })
    }

    /// Lists a directory, with everything below it if this is `recursive`, or a file. Symbolic links are told as
    /// left out.
    ///
    /// `take` gets the entries as they arrive, on a thread of its own, and may be slow; its error ends the listing
    /// as [`Error::Output`]. `stop` ends it once it is set.
    pub fn list(
        &mut self,
        path: &WirePath,
        recursive: bool,
        stop: Option<&AtomicBool>,
        take: impl FnMut(&[Listed]) -> io::Result<()> + Send + 'static,
    ) -> Result<(), Error> {
        let is_over = || stop.is_some_and(|stop| stop.load(Ordering::Relaxed));
        let ended = listing::list(&mut self.link, path.clone(), recursive, is_over, take);
        if ended.is_err() {
            self.link.close(CloseCode::Done, "the listing has ended early");
        }
        ended
    }

    /// The fingerprint of the server's certificate.
    pub fn fingerprint(&mut self) -> Option<Fingerprint> {
        self.link.fingerprint()
    }

    /// What the connection measured so far.
    pub fn transport(&mut self) -> Transport {
        self.link.transport()
    }

    /// Has the thread that drives the connection look at [`TransferOptions::stop`] at once, from any thread.
    pub fn waker(&self) -> Notify {
        self.link.notify()
    }

    /// Closes the connection, and tells the server whether everything that was wanted has arrived. Returns what it
    /// has measured.
    pub fn close(mut self) -> Transport {
        let code = match (self.has_all, self.leaves_out) {
            (Some(true), false) => CloseCode::Satisfied,
            (Some(true), true) => CloseCode::SatisfiedInPart,
            _ => CloseCode::Done,
        };
        self.link.close(code, "done");
        self.link.transport()
    }

    fn transfer(
        &mut self,
        options: &TransferOptions,
        observe: &mut dyn FnMut(Event<'_>),
        produce: impl FnOnce(&mut jobs::Run<'_>, producer::Producer) -> Result<(), Error>,
    ) -> Result<Summary, Error> {
        let result = jobs::run(&mut self.link, options, observe, produce);
        let is_whole = result.is_ok() && !options.dry_run;
        self.has_all = Some(self.has_all.unwrap_or(true) && is_whole);
        self.leaves_out |= !options.filter.keeps_all()
            || result.as_ref().is_ok_and(|summary| summary.kept > 0);
        result
    }
}
