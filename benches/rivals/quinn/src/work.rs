//! Streams: payload, and an order with its answer.

use std::time::Instant;

use anyhow::Result;
use bytes::Bytes;
use quinn::{Connection, RecvStream, SendStream};
use tack_perf::{Order, PAYLOAD};

/// Chunks taken from a stream at once.
const CHUNKS: usize = 32;

/// What an order came to.
pub struct Exchanged {
    pub sent: u64,
    pub received: u64,
    pub finished: Instant,
}

/// Gives an order with payload behind it, and hands what answers it to `take`.
pub async fn exchange(
    connection: &Connection,
    order: Order,
    payload: u64,
    until: Option<Instant>,
    mut take: impl FnMut(&[u8]),
) -> Result<Exchanged> {
    let (mut send, mut receive) = connection.open_bi().await?;
    let sending = async {
        send.write_all(&order.encode()).await?;
        let sent = write_payload(&mut send, payload, until).await?;
        send.finish()?;
        anyhow::Ok(sent)
    };
    let mut received = 0;
    let receiving = read_to_end(&mut receive, |chunk| {
        received += chunk.len() as u64;
        take(chunk);
    });
    let (sent, ()) = tokio::try_join!(sending, receiving)?;
    Ok(Exchanged { sent, received, finished: Instant::now() })
}

/// Writes payload without copying it; how much.
pub async fn write_payload(
    send: &mut SendStream,
    bytes: u64,
    until: Option<Instant>,
) -> Result<u64> {
    let mut written = 0;
    while written < bytes && until.is_none_or(|until| Instant::now() < until) {
        let len = (bytes - written).min(PAYLOAD.len() as u64);
        send.write_chunk(Bytes::from_static(&PAYLOAD[..len as usize])).await?;
        written += len;
    }
    Ok(written)
}

/// Reads up to the end of a stream.
pub async fn read_to_end(receive: &mut RecvStream, mut take: impl FnMut(&[u8])) -> Result<()> {
    let mut chunks: [Bytes; CHUNKS] = std::array::from_fn(|_| Bytes::new());
    while let Some(count) = receive.read_chunks(&mut chunks).await? {
        chunks[..count].iter().for_each(|chunk| take(chunk));
    }
    Ok(())
}
