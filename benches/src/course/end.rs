//! One end of a course.

use std::time::Instant;

use anyhow::{Context, Result};
use quiche::RecvInfo;
use tacklib::Connection;

use super::application::Application;
use crate::pair::DATAGRAM;

/// A connection and what is done with it.
pub struct End {
    pub connection: Connection,
    pub application: Application,
    /// Where datagrams come from and go to.
    info: RecvInfo,
    /// How often it had its turn.
    turns: u64,
}

/// Datagrams that go to an end and come from it.
#[derive(Default)]
pub struct Mail {
    /// To be read, in their order.
    pub incoming: Vec<Vec<u8>>,
    /// Written, each with the time at which it is to leave.
    pub outgoing: Vec<(Instant, Vec<u8>)>,
    /// Buffers to use again.
    pub spare: Vec<Vec<u8>>,
}

impl End {
    pub const fn new(connection: Connection, application: Application, info: RecvInfo) -> Self {
        Self { connection, application, info, turns: 0 }
    }

    /// [`turn`](Self::turn), under a name of its own: a profiler that counts from its call to
    /// its return counts this end alone.
    #[inline(never)]
    pub fn counted_client(&mut self, now: Instant, mail: &mut Mail) -> Result<()> {
        let done = self.turn(now, mail);
        // Behind the call, which is a call for that and no jump.
        self.turns += 1;
        done
    }

    /// Everything that is due: timers, datagrams, the application, datagrams.
    pub fn turn(&mut self, now: Instant, mail: &mut Mail) -> Result<()> {
        if self.connection.timeout_instant().is_some_and(|at| at <= now) {
            self.connection.on_timeout();
        }
        for mut datagram in mail.incoming.drain(..) {
            self.connection.recv(&mut datagram, self.info).context("receiving")?;
            mail.spare.push(datagram);
        }
        if self.connection.is_established() {
            self.application.turn(&mut self.connection)?;
        }
        loop {
            let mut datagram = mail.spare.pop().unwrap_or_default();
            datagram.resize(DATAGRAM, 0);
            match self.connection.send(&mut datagram) {
                Ok((len, info)) => {
                    datagram.truncate(len);
                    // Plain quiche leaves the waiting to the caller.
                    mail.outgoing.push((info.at.max(now), datagram));
                }
                Err(error) => {
                    mail.spare.push(datagram);
                    return match error {
                        quiche::Error::Done => Ok(()),
                        error => Err(error).context("sending"),
                    };
                }
            }
        }
    }
}
