//! The end that answers.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use tack_endpoint::{Endpoint, Event, Handle};
use tack_perf::{ORDER_LEN, Order, Reply, ServerOptions, TransportOptions, announce};
use tacklib::Connection;

use crate::setup::{Baseline, endpoint_config, server_config};
use crate::streams::{Outgoing, read};

/// How often to look whether the time is over.
const LONGEST_WAIT: Duration = Duration::from_millis(100);

/// No answer is written for longer.
const LONGEST_ANSWER: Duration = Duration::from_secs(3600);

/// Bytes read at once.
const BUFFER: usize = 1 << 16;

/// A connection's answers.
struct Served {
    baseline: Baseline,
    received: u64,
    answers: HashMap<u64, Answer>,
}

/// A stream of the client's.
#[derive(Default)]
struct Answer {
    /// What has come of the order.
    order: Vec<u8>,
    request_is_complete: bool,
    outgoing: Option<Outgoing>,
}

pub fn serve(options: &ServerOptions) -> Result<()> {
    let transport = &options.transport;
    let config = server_config(transport)?;
    let mut endpoint = Endpoint::server(options.listen, config, endpoint_config(transport))?;
    announce(endpoint.local_addr())?;

    let mut buffer = vec![0; BUFFER];
    let mut served: HashMap<Handle, Served> = HashMap::new();
    let mut closed = 0;
    let deadline = Instant::now() + Duration::from_secs(options.time_limit);
    while Instant::now() < deadline && options.connections.is_none_or(|limit| closed < limit) {
        endpoint.poll(Some(LONGEST_WAIT))?;
        while let Some(event) = endpoint.next_event() {
            match event {
                Event::Connected(handle) => {
                    served.insert(handle, Served::new(Baseline::take(&endpoint)));
                }
                Event::Activity(handle) => {
                    let datagrams = endpoint.stats().datagrams_out;
                    let Some(connection) = endpoint.connection_mut(handle) else { continue };
                    let Some(served) = served.get_mut(&handle) else { continue };
                    if let Err(error) =
                        served.turn(connection, datagrams, &mut buffer, transport)
                    {
                        eprintln!("tack-perf: {error:#}");
                        // `Done` says that it is closed already.
                        let _ = connection.close(true, 1, b"stream failed");
                    }
                }
                Event::Closed(handle, _) => {
                    served.remove(&handle);
                    closed += 1;
                }
                _ => {}
            }
        }
    }
    Ok(())
}

impl Served {
    fn new(baseline: Baseline) -> Self {
        Self { baseline, received: 0, answers: HashMap::new() }
    }

    /// Reads what has come and writes what there is room for.
    fn turn(
        &mut self,
        connection: &mut Connection,
        datagrams: u64,
        buffer: &mut [u8],
        options: &TransportOptions,
    ) -> Result<()> {
        while let Some(stream) = connection.stream_readable_next() {
            let answer = self.answers.entry(stream).or_default();
            self.received += answer.read(connection, stream, buffer)?;
        }
        let (baseline, received) = (&self.baseline, self.received);
        for (stream, answer) in &mut self.answers {
            let report = |connection: &Connection| {
                let report = baseline.report(datagrams, connection, options, received);
                serde_json::to_vec(&report).context("the report")
            };
            answer.write(connection, *stream, report)?;
        }
        self.answers.retain(|_, answer| !answer.is_finished());
        Ok(())
    }
}

impl Answer {
    /// How much payload has come.
    fn read(
        &mut self,
        connection: &mut Connection,
        stream: u64,
        buffer: &mut [u8],
    ) -> Result<u64> {
        let (order, mut payload) = (&mut self.order, 0);
        self.request_is_complete |= read(connection, stream, buffer, |bytes| {
            let (start, rest) = bytes.split_at(bytes.len().min(ORDER_LEN - order.len()));
            order.extend_from_slice(start);
            payload += rest.len() as u64;
        })?;
        Ok(payload)
    }

    fn write(
        &mut self,
        connection: &mut Connection,
        stream: u64,
        report: impl FnOnce(&Connection) -> Result<Vec<u8>>,
    ) -> Result<()> {
        if self.outgoing.is_none() {
            let Some(order) = self.order.first_chunk() else { return Ok(()) };
            self.outgoing = match Order::decode(order)? {
                order @ Order { reply: Reply::AtOnce, .. } => Some(payload(&order)),
                order if self.request_is_complete => Some(match order.reply {
                    Reply::Report => Outgoing::new(report(connection)?, 0, None),
                    _ => payload(&order),
                }),
                _ => None,
            };
        }
        match &mut self.outgoing {
            Some(outgoing) => outgoing.write(connection, stream),
            None => Ok(()),
        }
    }

    fn is_finished(&self) -> bool {
        self.request_is_complete && self.outgoing.as_ref().is_some_and(Outgoing::is_finished)
    }
}

fn payload(order: &Order) -> Outgoing {
    let limit = match order.time_limit {
        Duration::ZERO => LONGEST_ANSWER,
        limit => limit.min(LONGEST_ANSWER),
    };
    Outgoing::new(Vec::new(), order.bytes, Some(Instant::now() + limit))
}
