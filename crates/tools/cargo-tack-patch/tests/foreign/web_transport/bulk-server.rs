//! Sends each session five million bytes. Arguments: address, certificate and key in PEM format.

use anyhow::Context;
use web_transport_quiche::{ServerBuilder, h3::Request};

const BYTES: u32 = 5_000_000;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [address, certificate, key] = arguments.as_slice() else { anyhow::bail!("three arguments") };
    let (certificate, key) = (std::fs::read(certificate)?, std::fs::read(key)?);
    let chain = rustls_pemfile::certs(&mut certificate.as_slice()).collect::<Result<_, _>>()?;
    let key = rustls_pemfile::private_key(&mut key.as_slice())?.context("a key")?;
    let address: std::net::SocketAddr = address.parse()?;
    let mut server = ServerBuilder::default().with_bind(address)?.with_single_cert(chain, key)?;
    while let Some(request) = server.accept().await {
        tokio::spawn(async move {
            if let Err(error) = serve(request).await {
                eprintln!("{error:#}");
            }
        });
    }
    Ok(())
}

async fn serve(request: Request) -> anyhow::Result<()> {
    let session = request.ok().await?;
    let mut stream = session.open_uni().await?;
    let content: Vec<u8> = (0..BYTES).map(|n| (n % 251) as u8).collect();
    stream.write_all(&content).await?;
    stream.finish()?;
    session.closed().await;
    Ok(())
}
