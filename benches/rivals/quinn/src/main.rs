//! The work of `tack-perf` on quinn: the same command line, application protocol and report.
//!
//! Each end has one thread, as tack-endpoint has and as quinn's own benchmark does.

#![forbid(unsafe_code)]

mod setup;
mod work;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::Parser;
use quinn::{Connection, Endpoint};
use tack_perf::{
    ClientOptions, Command, LatencyHistogram, Mode, ORDER_LEN, Order, Outcome, Reply,
    ServerOptions, Stack, announce, execute,
};

use setup::Baseline;
use work::{Exchanged, exchange, read_to_end, write_payload};

/// The work of tack-perf on quinn.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

struct Quinn;

fn main() -> Result<()> {
    execute::<Quinn>(&Arguments::parse().command)
}

impl Stack for Quinn {
    const HAS_PROFILES: bool = false;

    #[tokio::main(flavor = "current_thread")]
    async fn serve(options: &ServerOptions) -> Result<()> {
        let endpoint = setup::server(options)?;
        announce(endpoint.local_addr()?)?;
        let limit = Duration::from_secs(options.time_limit);
        // That the time is over is how a server without a limit of connections ends.
        tokio::time::timeout(limit, serve_all(&endpoint, options)).await.unwrap_or(Ok(()))
    }

    #[tokio::main(flavor = "current_thread")]
    async fn measure(server: SocketAddr, options: &ClientOptions) -> Result<Outcome> {
        let work = run(server, options);
        let done = tokio::time::timeout(options.work.patience(), work).await;
        done.context("the work takes longer than --time-limit")?
    }
}

async fn serve_all(endpoint: &Endpoint, options: &ServerOptions) -> Result<()> {
    let mut served = 0;
    while options.connections.is_none_or(|limit| served < limit) {
        let Some(incoming) = endpoint.accept().await else { break };
        // A handshake that fails concerns its client alone.
        let Ok(connection) = incoming.await else { continue };
        let baseline = Arc::new(Baseline::take(&connection));
        let received = Arc::new(AtomicU64::new(0));
        while let Ok((send, receive)) = connection.accept_bi().await {
            let (connection, baseline) = (connection.clone(), Arc::clone(&baseline));
            let received = Arc::clone(&received);
            tokio::spawn(async move {
                let answered = answer(send, receive, &connection, &baseline, &received).await;
                if let Err(error) = answered {
                    eprintln!("quinn-perf: {error:#}");
                    connection.close(1_u32.into(), b"stream failed");
                }
            });
        }
        served += 1;
    }
    endpoint.wait_idle().await;
    Ok(())
}

async fn answer(
    mut send: quinn::SendStream,
    mut receive: quinn::RecvStream,
    connection: &Connection,
    baseline: &Baseline,
    received: &AtomicU64,
) -> Result<()> {
    let mut order = [0; ORDER_LEN];
    receive.read_exact(&mut order).await?;
    let order = Order::decode(&order)?;
    let until = (!order.time_limit.is_zero()).then(|| Instant::now() + order.time_limit);
    if order.reply == Reply::AtOnce {
        write_payload(&mut send, order.bytes, until).await?;
        send.finish()?;
    }
    let count = |len: usize| {
        received.fetch_add(len as u64, Ordering::Relaxed);
    };
    read_to_end(&mut receive, |chunk| count(chunk.len())).await?;
    match order.reply {
        Reply::AtOnce => return Ok(()),
        Reply::AfterRequest => {
            write_payload(&mut send, order.bytes, until).await?;
        }
        Reply::Report => {
            let report = baseline.report(connection, received.load(Ordering::Relaxed));
            send.write_all(&serde_json::to_vec(&report)?).await?;
        }
    }
    send.finish()?;
    Ok(())
}

async fn run(server: SocketAddr, options: &ClientOptions) -> Result<Outcome> {
    let endpoint = setup::client(server, options)?;
    let connection = endpoint.connect(server, "localhost")?.await?;
    let baseline = Baseline::take(&connection);
    let start = Instant::now();
    let mut outcome = match options.work.mode {
        Mode::Requests => requests(&connection, options).await?,
        _ => bulk(&connection, options, start).await?,
    };
    outcome.wall = start.elapsed();
    outcome.client = baseline.report(&connection, outcome.down.0);
    let mut report = Vec::new();
    let order = Order::new(Reply::Report, 0);
    exchange(&connection, order, 0, None, |chunk| report.extend_from_slice(chunk)).await?;
    outcome.server = serde_json::from_slice(&report).context("the server's report")?;
    connection.close(0_u32.into(), b"done");
    endpoint.wait_idle().await;
    let arrived = outcome.server.payload_received;
    ensure!(arrived == outcome.up.0, "{arrived} bytes arrived");
    Ok(outcome)
}

async fn bulk(
    connection: &Connection,
    options: &ClientOptions,
    start: Instant,
) -> Result<Outcome> {
    let until = options.work.duration().map(|duration| start + duration);
    let orders = options.work.bulk();
    let each = |index: usize| {
        let order = orders.get(index).copied();
        async move {
            let Some((order, payload)) = order else { return Ok(None) };
            let done = exchange(connection, order, payload, until, |_| {}).await?;
            anyhow::Ok(Some((order, done)))
        }
    };
    let (first, second) = tokio::try_join!(each(0), each(1))?;
    let mut outcome = Outcome::default();
    for (order, Exchanged { sent, received, finished }) in [first, second].into_iter().flatten()
    {
        let time = finished - start;
        if order.reply == Reply::AtOnce {
            let is_whole = options.work.seconds.is_some() || received == order.bytes;
            ensure!(is_whole, "{received} of {} bytes arrived", order.bytes);
            outcome.down = (received, time);
        } else {
            outcome.up = (sent, time);
        }
    }
    Ok(outcome)
}

async fn requests(connection: &Connection, options: &ClientOptions) -> Result<Outcome> {
    let work = &options.work;
    let order = Order::new(Reply::AfterRequest, work.reply_bytes);
    let mut latency = LatencyHistogram::new()?;
    let start = Instant::now();
    for _ in 0..work.requests {
        let asked = Instant::now();
        let done = exchange(connection, order, work.request_bytes, None, |_| {}).await?;
        latency.record(asked.elapsed());
        ensure!(done.received == work.reply_bytes, "a reply is incomplete");
    }
    let wall = start.elapsed();
    Ok(Outcome {
        down: (work.reply_bytes * work.requests, wall),
        up: (work.request_bytes * work.requests, wall),
        latency: Some(latency.summary()),
        ..Outcome::default()
    })
}
