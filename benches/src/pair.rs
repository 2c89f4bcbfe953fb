//! Two connections in one process, and a transfer between them.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use boring::pkey::PKey;
use boring::ssl::{SslContextBuilder, SslMethod};
use boring::x509::X509;
use quiche::{ConnectionId, RecvInfo};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use tacklib::{Config, Connection, Profile};

use crate::process_cpu_time;

const ALPN: &[u8] = b"tack-benches";

/// Bytes of UDP payload in a full packet, of either kind of connection.
pub const DATAGRAM: usize = 1350;

/// The client's first unidirectional stream.
pub const STREAM: u64 = 2;

/// Longest sleep: bounds what a timer that nobody told of can cost.
const LONGEST_WAIT: Duration = Duration::from_millis(10);

/// A run that takes longer has stalled.
const PATIENCE: Duration = Duration::from_secs(120);

/// Two connections and the way between them.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    /// Of both connections; [`Profile::Off`] is plain quiche.
    pub profile: Profile,
    /// Datagrams that the receiver is given before it may answer. An endpoint that reads in
    /// batches has dozens; 2 makes plain quiche acknowledge every second packet, which is what
    /// RFC 9000 section 13.2.2 recommends.
    pub batch: usize,
    /// One way of the path.
    pub delay: Duration,
    /// Share of the sender's datagrams that get lost, 0 to 1.
    pub loss: f64,
    /// Decides which.
    pub seed: u64,
}

/// What a transfer took.
#[derive(Clone, Copy, Debug)]
pub struct Outcome {
    /// CPU time of both ends.
    pub cpu: Duration,
    /// Wall time.
    pub wall: Duration,
    /// Datagrams of the end that sent the data.
    pub data_packets: u64,
    /// Datagrams of the other end: acknowledgements, some with window updates.
    pub ack_packets: u64,
}

impl Setup {
    /// Two connections that have done their handshake.
    pub fn connect(&self) -> Result<Pair> {
        ensure!(self.batch > 0, "a batch has one datagram at least");
        ensure!((0.0..=1.0).contains(&self.loss), "a share of losses is from 0 to 1");
        let mut config = config(self.profile)?;
        let client = SocketAddr::from(([127, 0, 0, 1], 4001));
        let server = SocketAddr::from(([127, 0, 0, 1], 4002));
        let (client_id, server_id) = ([0xc1; 8], [0x5e; 8]);
        let scid = ConnectionId::from_ref(&client_id);
        let sender = tacklib::connect(Some("localhost"), &scid, client, server, &mut config)?;
        let scid = ConnectionId::from_ref(&server_id);
        let receiver = tacklib::accept(&scid, None, server, client, &mut config)?;

        let mut pair = Pair {
            sender: End::new(sender, RecvInfo { from: client, to: server }),
            receiver: End::new(receiver, RecvInfo { from: server, to: client }),
            setup: *self,
            losses: Pcg64Mcg::seed_from_u64(self.seed),
            data: vec![0xa5; 1 << 16],
            buffer: vec![0; 1 << 16],
        };
        pair.handshake()?;
        Ok(pair)
    }
}

/// Two connections that have done their handshake.
pub struct Pair {
    sender: End,
    receiver: End,
    setup: Setup,
    losses: Pcg64Mcg,
    data: Vec<u8>,
    buffer: Vec<u8>,
}

/// A connection and the datagrams on their way from it.
struct End {
    connection: Connection,
    /// Where its datagrams come from and go to.
    info: RecvInfo,
    way: VecDeque<(Instant, Vec<u8>)>,
    /// Buffers to use again.
    spare: Vec<Vec<u8>>,
    sent: u64,
}

impl Pair {
    /// Sends `bytes` from one end to the other, which reads them.
    ///
    /// There is nothing in this loop but the two connections, the copy of a datagram from one
    /// to the other, and a sleep while neither has anything to do.
    pub fn transfer(&mut self, bytes: usize) -> Result<Outcome> {
        let (cpu, wall) = (process_cpu_time(), Instant::now());
        let before = (self.sender.sent, self.receiver.sent);
        let (mut written, mut read) = (0, 0);
        loop {
            ensure!(wall.elapsed() < PATIENCE, "stalled at {read} of {bytes} bytes");
            written += self.write(bytes - written)?;
            let moved = self.step()?;
            let (len, finished) = self.read()?;
            read += len;
            if finished {
                break;
            }
            if !moved && len == 0 {
                self.wait();
            }
        }
        ensure!(read == bytes, "{read} of {bytes} bytes arrived");
        Ok(Outcome {
            cpu: process_cpu_time().saturating_sub(cpu),
            wall: wall.elapsed(),
            data_packets: self.sender.sent - before.0,
            ack_packets: self.receiver.sent - before.1,
        })
    }

    /// Whether both ends speak TACK.
    pub fn is_tack(&self) -> bool {
        self.sender.connection.is_tack() && self.receiver.connection.is_tack()
    }

    fn handshake(&mut self) -> Result<()> {
        let start = Instant::now();
        while !(self.sender.connection.is_established()
            && self.receiver.connection.is_established())
        {
            ensure!(start.elapsed() < PATIENCE, "the handshake stalled");
            if !self.step()? {
                self.wait();
            }
        }
        let tack = self.setup.profile != Profile::Off;
        ensure!(self.is_tack() == tack, "TACK was not negotiated as asked");
        Ok(())
    }

    /// Writes up to `rest` bytes, the last of the stream; how many were taken.
    fn write(&mut self, rest: usize) -> Result<usize> {
        let mut written = 0;
        while written < rest {
            let len = (rest - written).min(self.data.len());
            let fin = written + len == rest;
            match self.sender.connection.stream_send(STREAM, &self.data[..len], fin) {
                Ok(taken) => {
                    written += taken;
                    if taken < len {
                        break;
                    }
                }
                Err(quiche::Error::Done) => break,
                Err(error) => return Err(error).context("writing"),
            }
        }
        Ok(written)
    }

    /// Reads what has arrived; how many bytes, and whether the stream is over.
    fn read(&mut self) -> Result<(usize, bool)> {
        let mut total = 0;
        loop {
            match self.receiver.connection.stream_recv(STREAM, &mut self.buffer) {
                Ok((len, fin)) => {
                    total += len;
                    if fin {
                        return Ok((total, true));
                    }
                }
                // Nothing there; or the stream is yet to be opened.
                Err(quiche::Error::Done | quiche::Error::InvalidStreamState(_)) => {
                    return Ok((total, false));
                }
                Err(error) => return Err(error).context("reading"),
            }
        }
    }

    /// Carries a batch of data one way and what is there the other way; whether anything moved.
    fn step(&mut self) -> Result<bool> {
        let Setup { batch, delay, loss, .. } = self.setup;
        let now = Instant::now();
        self.sender.expire(now);
        self.receiver.expire(now);
        let losses = &mut self.losses;
        let mut moved = self.sender.send(now + delay, batch, || losses.random_bool(loss))?;
        moved |= self.sender.deliver(now, batch, &mut self.receiver)?;
        moved |= self.receiver.send(now + delay, usize::MAX, || false)?;
        moved |= self.receiver.deliver(now, usize::MAX, &mut self.sender)?;
        Ok(moved)
    }

    /// Sleeps until something is due.
    fn wait(&self) {
        let next = [
            self.sender.connection.timeout_instant(),
            self.receiver.connection.timeout_instant(),
            self.sender.way.front().map(|(at, _)| *at),
            self.receiver.way.front().map(|(at, _)| *at),
        ];
        let until_next = next
            .into_iter()
            .flatten()
            .min()
            .map_or(LONGEST_WAIT, |at| at.saturating_duration_since(Instant::now()));
        std::thread::sleep(until_next.min(LONGEST_WAIT));
    }
}

impl End {
    fn new(connection: Connection, info: RecvInfo) -> Self {
        Self { connection, info, way: VecDeque::new(), spare: Vec::new(), sent: 0 }
    }

    fn expire(&mut self, now: Instant) {
        if self.connection.timeout_instant().is_some_and(|at| at <= now) {
            self.connection.on_timeout();
        }
    }

    /// Puts up to `limit` datagrams on their way, but for those that `lost` says get lost.
    fn send(
        &mut self,
        arrival: Instant,
        limit: usize,
        mut lost: impl FnMut() -> bool,
    ) -> Result<bool> {
        for count in 0..limit {
            let mut datagram = self.spare.pop().unwrap_or_default();
            datagram.resize(DATAGRAM, 0);
            match self.connection.send(&mut datagram) {
                Ok((len, _)) => {
                    self.sent += 1;
                    datagram.truncate(len);
                    if lost() {
                        self.spare.push(datagram);
                    } else {
                        self.way.push_back((arrival, datagram));
                    }
                }
                Err(quiche::Error::Done) => {
                    self.spare.push(datagram);
                    return Ok(count > 0);
                }
                Err(error) => return Err(error).context("sending"),
            }
        }
        Ok(true)
    }

    /// Gives up to `limit` datagrams that have arrived to the other end.
    fn deliver(&mut self, now: Instant, limit: usize, other: &mut Self) -> Result<bool> {
        for count in 0..limit {
            if self.way.front().is_none_or(|(arrival, _)| *arrival > now) {
                return Ok(count > 0);
            }
            let Some((_, mut datagram)) = self.way.pop_front() else { bail!("an empty way") };
            other.connection.recv(&mut datagram, self.info).context("receiving")?;
            self.spare.push(datagram);
        }
        Ok(true)
    }
}

/// One configuration for both ends; the profile alone tells the kinds of connection apart.
pub fn config(profile: Profile) -> Result<Config> {
    let mut config =
        Config::with_boring_ssl_ctx_builder(quiche::PROTOCOL_VERSION, tls_context()?)?;
    config.set_application_protos(&[ALPN])?;
    config.verify_peer(false);
    config.set_max_idle_timeout(30_000);
    config.set_max_recv_udp_payload_size(DATAGRAM);
    config.set_max_send_udp_payload_size(DATAGRAM);
    // Windows that do not bind: their updates would hide what is measured.
    config.set_initial_max_data(1 << 26);
    config.set_initial_max_stream_data_uni(1 << 26);
    config.set_max_connection_window(1 << 26);
    config.set_max_stream_window(1 << 26);
    config.set_initial_max_streams_uni(1);
    config.set_profile(profile);
    Ok(config)
}

fn tls_context() -> Result<SslContextBuilder> {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()])?;
    let certificate = X509::from_der(made.cert.der())?;
    let key = PKey::private_key_from_der(&made.signing_key.serialize_der())?;
    let mut context = SslContextBuilder::new(SslMethod::tls())?;
    context.set_certificate(&certificate)?;
    context.set_private_key(&key)?;
    Ok(context)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setup(profile: Profile) -> Setup {
        Setup { profile, batch: 32, delay: Duration::ZERO, loss: 0.0, seed: 1 }
    }

    #[test]
    fn plain_quiche_acknowledges_every_batch() {
        let plain = Setup { batch: 2, ..setup(Profile::Off) };
        let outcome = plain.connect().unwrap().transfer(1 << 20).unwrap();
        assert!(outcome.data_packets > 700, "{outcome:?}");
        let per_ack = outcome.data_packets as f64 / outcome.ack_packets as f64;
        assert!((1.8..2.5).contains(&per_ack), "{outcome:?}");
    }

    #[test]
    fn a_transfer_with_tack_completes_over_a_path_that_delays_and_loses() {
        let delay = Duration::from_millis(5);
        let lossy = Setup { delay, loss: 0.02, ..setup(Profile::Default) };
        let outcome = lossy.connect().unwrap().transfer(1 << 20).unwrap();
        assert!(outcome.wall > 2 * delay, "{outcome:?}");
        assert!(outcome.cpu > Duration::ZERO, "{outcome:?}");
        assert!(outcome.ack_packets * 4 < outcome.data_packets, "{outcome:?}");
    }
}
