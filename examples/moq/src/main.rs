//! `moq`: a publisher, a subscriber, a relay, and a comparison of transports.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::{Parser, Subcommand};
use tack_example_moq::backend::{Listener, Transport, connect};
use tack_example_moq::compare::{Comparison, compare, table};
use tack_example_moq::publisher::{self, Source, new_origin, publish};
use tack_example_moq::relay::serve;
use tack_example_moq::subscriber::{Received, subscribe};

/// Media over QUIC over TACK or quinn, on this machine.
#[derive(Parser)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Publishes a track of frames: to whoever connects, or to a relay
    Publish {
        #[arg(long, value_enum, default_value = "tack")]
        transport: Transport,
        /// Serve subscribers here
        #[arg(long, value_name = "ADDRESS", conflicts_with = "connect")]
        listen: Option<SocketAddr>,
        /// Publish to the relay there
        #[arg(long, value_name = "ADDRESS", required_unless_present = "listen")]
        connect: Option<SocketAddr>,
        #[command(flatten)]
        source: Source,
    },
    /// Subscribes to the track, and tells what has come of it
    Subscribe {
        #[arg(long, value_enum, default_value = "tack")]
        transport: Transport,
        /// The publisher or the relay
        #[arg(long, value_name = "ADDRESS")]
        connect: SocketAddr,
    },
    /// Forwards between the two transports
    Relay {
        /// Where sessions over TACK come in
        #[arg(long, value_name = "ADDRESS")]
        tack: SocketAddr,
        /// Where sessions over quinn come in
        #[arg(long, value_name = "ADDRESS")]
        quinn: SocketAddr,
    },
    /// Runs publisher and subscriber over an emulated link, with each transport
    Compare {
        #[command(flatten)]
        comparison: Comparison,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

#[tokio::main]
async fn main() -> Result<()> {
    env_logger::init();
    match Cli::parse().command {
        Command::Publish { transport, listen, connect, source } => {
            publish_over(transport, listen, connect, source).await
        }
        Command::Subscribe { transport, connect: server } => {
            let origin = new_origin();
            let client = moq_net::Client::new().with_subscriber(origin.clone());
            let _connected = connect(transport, server, &client).await?;
            report(&subscribe(origin.consume()).await?);
            Ok(())
        }
        Command::Relay { tack, quinn } => {
            let origin = new_origin();
            let tack = Listener::bind(Transport::Tack, tack, None)?;
            let quinn = Listener::bind(Transport::Quinn, quinn, None)?;
            println!("tack {}, quinn {}", tack.local_addr(), quinn.local_addr());
            tokio::try_join!(serve(tack, origin.clone()), serve(quinn, origin))?;
            Ok(())
        }
        Command::Compare { comparison, json } => {
            let runs = compare(&comparison).await?;
            if json {
                let all = serde_json::json!({ "comparison": comparison, "runs": runs });
                println!("{all:#}");
            } else {
                print!("{}", table(&runs));
            }
            Ok(())
        }
    }
}

async fn publish_over(
    transport: Transport,
    listen: Option<SocketAddr>,
    server: Option<SocketAddr>,
    source: Source,
) -> Result<()> {
    let (_published, sessions) = if let Some(address) = listen {
        let listener = Listener::bind(transport, address, None)?;
        println!("{}", listener.local_addr());
        publisher::serve(listener, source).await?
    } else {
        let server = server.context("--listen or --connect")?;
        let origin = new_origin();
        let client = moq_net::Client::new().with_publisher(&origin);
        let connected = connect(transport, server, &client).await?;
        (publish(origin, source).await?, vec![connected])
    };
    for session in sessions {
        session.finish().await;
    }
    // The closes leave.
    tokio::time::sleep(Duration::from_millis(100)).await;
    Ok(())
}

fn report(received: &Received) {
    let mut latencies: Vec<u64> =
        received.frames.iter().map(|frame| frame.latency_us).collect();
    latencies.sort_unstable();
    let median = latencies.get(latencies.len() / 2).copied().unwrap_or_default();
    println!(
        "{} groups, {} frames, median latency {:.1} ms",
        received.groups.len(),
        received.frames.len(),
        median as f64 / 1e3
    );
}
