//! A relay: what is published on either transport can be subscribed to on either.

use anyhow::Result;
use moq_net::origin;

use crate::backend::{Connected, Listener};

/// Serves the sessions that come in until the endpoint is closed: broadcasts of their publishers go to the
/// origin, and those of the origin to their subscribers.
pub async fn serve(mut listener: Listener, origin: origin::Producer) -> Result<()> {
    let moq = moq_net::Server::new().with_origin(origin);
    loop {
        let Connected { session, .. } = match listener.accept(&moq).await {
            Ok(Some(connected)) => connected,
            Ok(None) => return Ok(()),
            Err(error) => {
                eprintln!("no session: {error:#}");
                continue;
            }
        };
        tokio::spawn(async move {
            let end = session.closed().await;
            eprintln!("a session has ended: {end}");
        });
    }
}
