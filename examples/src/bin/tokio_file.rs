//! A server and a client on tokio that move a file.
//!
//! The client sends the file that the command names, or 4 MB of its own; the server writes it to a temporary
//! directory while it comes, as fast as the disk takes it, and answers with its length.

#![forbid(unsafe_code)]

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;

use anyhow::{Context, Result, ensure};
use tack_examples::Certificate;
use tack_tokio::{Connection, Endpoint, EndpointConfig, tacklib};
use tokio::fs::File;

#[tokio::main]
async fn main() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let file = if let Some(file) = std::env::args_os().nth(1) {
        file.into()
    } else {
        let file = directory.path().join("sent");
        std::fs::write(&file, vec![7; 4_000_000])?;
        file
    };
    let certificate = Certificate::new()?;
    let mut server = config()?;
    server.load_cert_chain_from_pem_file(&certificate.chain()?)?;
    server.load_priv_key_from_pem_file(&certificate.key()?)?;
    let local = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let endpoint = Endpoint::server(local, server, EndpointConfig::default())?;
    let address = endpoint.local_addr();
    let received = directory.path().join("received");
    let target = received.clone();
    let serving = tokio::spawn(async move {
        let connection = endpoint.accept().await.context("the endpoint is closed")?;
        receive(&connection, &target).await?;
        // The client closes when it has the answer.
        println!("server: {}", connection.closed().await);
        anyhow::Ok(())
    });

    let ca = certificate.chain()?;
    let len = send(address, &ca, &file).await?;
    serving.await??;
    ensure!(std::fs::read(&file)? == std::fs::read(&received)?, "the copy differs");
    println!("{len} bytes arrived");
    Ok(())
}

fn config() -> Result<tacklib::Config> {
    let mut config = tacklib::Config::new(quiche::PROTOCOL_VERSION)?;
    config.set_application_protos(&[b"file"])?;
    config.set_max_idle_timeout(10_000);
    config.set_initial_max_data(16 << 20);
    config.set_initial_max_stream_data_bidi_local(4 << 20);
    config.set_initial_max_stream_data_bidi_remote(4 << 20);
    config.set_initial_max_streams_bidi(10);
    Ok(config)
}

/// Writes what comes to a file, and answers with its length.
async fn receive(connection: &Connection, target: &Path) -> Result<()> {
    let (mut answer, mut data) = connection.accept_bi().await?;
    let mut file = File::create(target).await?;
    let len = tokio::io::copy(&mut data, &mut file).await?;
    file.sync_all().await?;
    answer.write_all(&len.to_be_bytes()).await?;
    answer.finish()?;
    Ok(())
}

/// Sends a file, and returns how long it is by the server's answer.
async fn send(server: SocketAddr, ca: &str, file: &Path) -> Result<u64> {
    let local = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
    let endpoint = Endpoint::client(local, EndpointConfig::default())?;
    let mut config = config()?;
    config.load_verify_locations_from_file(ca)?;
    config.verify_peer(true);
    let connection = endpoint.connect(server, Some("localhost"), &mut config)?.await?;

    let (mut data, mut answer) = connection.open_bi().await?;
    let mut file = File::open(file).await?;
    tokio::io::copy(&mut file, &mut data).await?;
    data.finish()?;
    let len = answer.read_to_end(8).await?;
    let rate = connection.media_stats().estimated_send_rate;
    println!("client: the path takes {:.0} Mbit/s or more", rate as f64 * 8e-6);
    connection.close(0, b"thank you");
    // The server is told before the program ends.
    endpoint.wait_idle().await;
    Ok(u64::from_be_bytes(len.try_into().ok().context("the answer is too short")?))
}
