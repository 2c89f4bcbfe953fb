//! The end that gives orders and measures.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use tack_endpoint::{Endpoint, Event, Handle};
use tack_perf::{
    ClientOptions, EndReport, Latency, LatencyHistogram, Mode, Order, Outcome, ProfileName,
    Reply,
};

use crate::setup::{Baseline, client_config, endpoint_config};
use crate::streams::{Outgoing, read};

/// How often to look whether the time is over.
const LONGEST_WAIT: Duration = Duration::from_millis(100);

/// Between the ids of streams that a client opens.
const STREAM_STEP: u64 = 4;

/// Bytes read at once.
const BUFFER: usize = 1 << 16;

struct Client {
    endpoint: Endpoint,
    handle: Handle,
    deadline: Instant,
    next_stream: u64,
    buffer: Vec<u8>,
}

/// An order, and its answer.
struct Exchange {
    stream: u64,
    outgoing: Outgoing,
    received: u64,
    finished: Option<Instant>,
}

pub fn measure(server: SocketAddr, options: &ClientOptions) -> Result<Outcome> {
    let mut client = Client::connect(server, options)?;
    let baseline = Baseline::take(&client.endpoint);
    let start = Instant::now();
    let (down, up, latency) = match options.work.mode {
        Mode::Requests => client.requests(options)?,
        _ => client.bulk(options, start)?,
    };
    let wall = start.elapsed();
    let datagrams = client.endpoint.stats().datagrams_out;
    let connection = client.endpoint.connection(client.handle).context("the connection")?;
    let mut own = baseline.report(datagrams, connection, &options.transport, down.0);
    let mut theirs = client.server_report()?;
    client.close();
    ensure!(theirs.payload_received == up.0, "{} bytes arrived", theirs.payload_received);
    // Plain quiche does not count its ACK frames. All that an end sends which only receives has one.
    match options.work.mode {
        Mode::Down => count_acks(&mut own),
        Mode::Up => count_acks(&mut theirs),
        Mode::Both | Mode::Requests => {}
    }
    Ok(Outcome { down, up, wall, client: own, server: theirs, latency })
}

fn count_acks(end: &mut EndReport) {
    if end.profile.as_deref() == Some(ProfileName::Off.name()) {
        end.ack_packets_sent = end.packets_sent;
    }
}

/// Payload, and how long it took.
type Moved = (u64, Duration);

impl Client {
    fn connect(server: SocketAddr, options: &ClientOptions) -> Result<Self> {
        let local = match server {
            SocketAddr::V4(_) => IpAddr::from(Ipv4Addr::UNSPECIFIED),
            SocketAddr::V6(_) => IpAddr::from(Ipv6Addr::UNSPECIFIED),
        };
        let settings = endpoint_config(&options.transport);
        let mut endpoint = Endpoint::client(SocketAddr::new(local, 0), settings)?;
        let mut config = client_config(&options.transport)?;
        let handle = endpoint.connect(server, Some("localhost"), &mut config)?;
        let mut client = Self {
            endpoint,
            handle,
            deadline: Instant::now() + options.work.patience(),
            next_stream: 0,
            buffer: vec![0; BUFFER],
        };
        loop {
            client.wait()?;
            let connection =
                client.endpoint.connection(handle).context("the handshake failed")?;
            if connection.is_established() {
                return Ok(client);
            }
        }
    }

    fn bulk(
        &mut self,
        options: &ClientOptions,
        start: Instant,
    ) -> Result<(Moved, Moved, Option<Latency>)> {
        let until = options.work.duration().map(|duration| start + duration);
        let orders = options.work.bulk();
        let mut exchanges: Vec<_> =
            orders.iter().map(|(order, payload)| self.order(order, *payload, until)).collect();
        self.drive(&mut exchanges, |_| {})?;
        let (mut down, mut up) = ((0, Duration::ZERO), (0, Duration::ZERO));
        for ((order, _), exchange) in orders.iter().zip(&exchanges) {
            let time = exchange.finished.map_or(Duration::ZERO, |at| at - start);
            if order.reply == Reply::AtOnce {
                ensure!(
                    options.work.seconds.is_some() || exchange.received == order.bytes,
                    "{} of {} bytes arrived",
                    exchange.received,
                    order.bytes
                );
                down = (exchange.received, time);
            } else {
                up = (exchange.outgoing.payload_written(), time);
            }
        }
        Ok((down, up, None))
    }

    fn requests(&mut self, options: &ClientOptions) -> Result<(Moved, Moved, Option<Latency>)> {
        let work = &options.work;
        let order = Order::new(Reply::AfterRequest, work.reply_bytes);
        let mut latency = LatencyHistogram::new()?;
        let start = Instant::now();
        for _ in 0..work.requests {
            let asked = Instant::now();
            let mut exchanges = [self.order(&order, work.request_bytes, None)];
            self.drive(&mut exchanges, |_| {})?;
            latency.record(asked.elapsed());
            ensure!(exchanges[0].received == work.reply_bytes, "a reply is incomplete");
        }
        let wall = start.elapsed();
        let bytes = |each: u64| each * work.requests;
        Ok((
            (bytes(work.reply_bytes), wall),
            (bytes(work.request_bytes), wall),
            Some(latency.summary()),
        ))
    }

    /// What the server has measured.
    fn server_report(&mut self) -> Result<EndReport> {
        let mut report = Vec::new();
        let mut exchanges = [self.order(&Order::new(Reply::Report, 0), 0, None)];
        self.drive(&mut exchanges, |bytes| report.extend_from_slice(bytes))?;
        serde_json::from_slice(&report).context("the server's report")
    }

    fn order(&mut self, order: &Order, payload: u64, until: Option<Instant>) -> Exchange {
        let stream = self.next_stream;
        self.next_stream += STREAM_STEP;
        let outgoing = Outgoing::new(order.encode().to_vec(), payload, until);
        Exchange { stream, outgoing, received: 0, finished: None }
    }

    /// Writes and reads until every answer is complete; `take` gets their bytes.
    fn drive(&mut self, exchanges: &mut [Exchange], mut take: impl FnMut(&[u8])) -> Result<()> {
        let mut is_active = true;
        loop {
            if is_active {
                let connection =
                    self.endpoint.connection_mut(self.handle).context("the connection")?;
                for exchange in exchanges.iter_mut().filter(|each| each.finished.is_none()) {
                    exchange.outgoing.write(connection, exchange.stream)?;
                    let received = &mut exchange.received;
                    let stream = exchange.stream;
                    let is_end = read(connection, stream, &mut self.buffer, |bytes| {
                        *received += bytes.len() as u64;
                        take(bytes);
                    })?;
                    exchange.finished = is_end.then(Instant::now);
                }
            }
            if exchanges.iter().all(|exchange| exchange.finished.is_some()) {
                return Ok(());
            }
            is_active = self.wait()?;
        }
    }

    /// Waits for the network; whether something happened on the connection.
    fn wait(&mut self) -> Result<bool> {
        ensure!(Instant::now() < self.deadline, "the work takes longer than --time-limit");
        self.endpoint.poll(Some(LONGEST_WAIT))?;
        let mut is_active = false;
        while let Some(event) = self.endpoint.next_event() {
            match event {
                Event::Connected(_) | Event::Activity(_) => is_active = true,
                Event::Closed(_, reason) => bail!("the connection is over: {reason}"),
                _ => {}
            }
        }
        Ok(is_active)
    }

    /// Sends the CONNECTION_CLOSE; if it is lost, the server's idle timeout does.
    fn close(&mut self) {
        self.endpoint.shutdown(0, b"done");
    }
}
