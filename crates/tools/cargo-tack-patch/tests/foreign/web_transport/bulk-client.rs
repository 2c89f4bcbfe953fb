//! Prints what a server sends on its first stream. Argument: the server's URL, whose certificate is not looked at.

use std::io::Write;

use web_transport_quiche::{ClientBuilder, Settings};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let url: url::Url = std::env::args().nth(1).unwrap_or_default().parse()?;
    let mut settings = Settings::default();
    settings.verify_peer = false;
    let connecting = ClientBuilder::default().with_settings(settings).connect(url).await?;
    let session = connecting.established().await?;
    let mut stream = session.accept_uni().await?;
    let content = stream.read_all(10_000_000).await?;
    session.close(0, "done");
    session.closed().await;
    std::io::stdout().write_all(&content)?;
    Ok(())
}
