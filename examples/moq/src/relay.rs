//! A relay: what is published on either transport can be subscribed to on either.

use anyhow::Result;
use moq_net::origin;

use crate::backend::{Connected, Listener, Request};

/// Serves the sessions that come in until the endpoint is closed: broadcasts of their publishers go to the
/// origin, and those of the origin to their subscribers.
pub async fn serve(mut listener: Listener, origin: origin::Producer) -> Result<()> {
    let moq = moq_net::Server::new().with_origin(origin);
    while let Some(request) = listener.next().await {
        tokio::spawn(serve_session(request, moq.clone()));
    }
    Ok(())
}

/// Serves one session to its end.
async fn serve_session(request: Request, moq: moq_net::Server) {
    match request.accept(&moq).await {
        Ok(Connected { session, .. }) => {
            let end = session.closed().await;
            eprintln!("a session has ended: {end}");
        }
        Err(error) => eprintln!("no session: {error:#}"),
    }
}
