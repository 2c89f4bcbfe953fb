//! The stream of the CONNECT request, which carries the end of the session.

use std::pin::pin;
use std::sync::Arc;

use tack_tokio::{Connection, ReadError, RecvStream, SendStream};
use web_transport_proto::{Capsule, Frame, VarInt};

use super::capsules::Capsules;
use super::incoming::{discard, end_of_stream};
use super::state::{SessionState, end_of_connection};
use super::{LINGER, codes};
use crate::Error;

/// A longer reason is cut (draft-ietf-webtrans-http3 section 6), bytes.
const MAX_REASON: usize = 1024;

/// Both halves of the stream, the control stream, which has to stay open, and what the session shares.
pub(super) struct ConnectStream {
    pub(super) connection: Connection,
    pub(super) send: SendStream,
    pub(super) receive: RecvStream,
    pub(super) control: SendStream,
    pub(super) state: Arc<SessionState>,
}

/// Ends the session if the task ends before, as it does with its runtime.
struct EndOnDrop(Arc<SessionState>);

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        self.0.end(Error::Connection(tack_tokio::ConnectionError::EndpointStopped));
    }
}

impl ConnectStream {
    /// Waits for either end to close the session, tells the other one, and closes the connection.
    pub(super) async fn run(mut self) {
        let state = EndOnDrop(Arc::clone(&self.state));
        tokio::select! {
            biased;
            end = peers_end(&self.connection, &mut self.send, &mut self.receive) => {
                state.0.end(end);
                self.on_peer_end().await;
            }
            // Only this task ends the session for the peer.
            end = state.0.wait() => self.on_local_end(end).await,
        }
        drop(self.control);
    }

    /// The peer has ended the session: it closes the connection, or else this end does.
    async fn on_peer_end(&mut self) {
        // Fails if the stream was stopped, or the connection is over.
        let _ = self.send.finish();
        let _ = tokio::time::timeout(LINGER, self.connection.closed()).await;
        self.connection.close(codes::NO_ERROR, b"");
    }

    /// This end has: the peer is told, and ends its half once it has understood.
    async fn on_local_end(&mut self, end: Error) {
        let (code, reason) = match end {
            Error::SessionClosed { code, reason } => (code, reason),
            _ => (0, String::new()),
        };
        let frame = close_frame(code, &reason);
        let tell = async {
            self.send.write_all(&frame).await.ok()?;
            self.send.finish().ok()?;
            discard(&mut self.receive).await;
            Some(())
        };
        let _ = tokio::time::timeout(LINGER, tell).await;
        // A peer that has not read the capsule finds the code here.
        self.connection.close(codes::to_wire(code), reason.as_bytes());
    }
}

/// Cuts a reason to what a capsule may carry.
pub(super) fn cut_reason(reason: &str) -> String {
    let mut end = reason.len().min(MAX_REASON);
    while !reason.is_char_boundary(end) {
        end -= 1;
    }
    reason[..end].to_owned()
}

/// The DATA frame with the CLOSE_WEBTRANSPORT_SESSION capsule.
fn close_frame(code: u32, reason: &str) -> Vec<u8> {
    let mut capsule = Vec::new();
    Capsule::CloseWebTransportSession { code, reason: reason.to_owned() }.encode(&mut capsule);
    let mut frame = Vec::new();
    Frame::DATA.encode(&mut frame);
    VarInt::from_u32(capsule.len() as u32).encode(&mut frame);
    frame.extend_from_slice(&capsule);
    frame
}

/// Waits for the peer to end the session: by its half of the stream, or by stopping this end's.
async fn peers_end(
    connection: &Connection,
    send: &mut SendStream,
    receive: &mut RecvStream,
) -> Error {
    let mut end = pin!(read_end(connection, receive));
    let stopped = async {
        match send.stopped().await {
            Ok(Some(code)) => code,
            // The connection is over, which the other half tells.
            _ => std::future::pending().await,
        }
    };
    let code = tokio::select! {
        biased;
        end = &mut end => return end,
        code = stopped => code,
    };
    // What it says on its half may be on its way.
    tokio::time::timeout(LINGER, end).await.unwrap_or(Error::Http3Stream(code))
}

/// Reads the peer's half until it ends the session.
async fn read_end(connection: &Connection, receive: &mut RecvStream) -> Error {
    let mut capsules = Capsules::new(&mut *receive);
    let error = loop {
        match capsules.next().await {
            Ok(Some(Capsule::CloseWebTransportSession { code, reason })) => {
                return Error::SessionClosed { code, reason: cut_reason(&reason) };
            }
            Ok(Some(_)) => {}
            // The end of the stream alone is a close without code or reason
            // (draft-ietf-webtrans-http3 section 6).
            Ok(None) => break None,
            Err(error) => {
                log::debug!("on the CONNECT stream: {error}");
                break Some(error);
            }
        }
    };
    match end_of_stream(receive).await {
        Some(Ok(None)) if error.is_none() => {
            Error::SessionClosed { code: 0, reason: String::new() }
        }
        Some(Err(ReadError::Reset(code))) => Error::Http3Stream(code),
        Some(Err(ReadError::ConnectionLost(error))) => end_of_connection(error),
        // It was not understood, or ends within a capsule (RFC 9297 section 3.3).
        _ => {
            let code = error.map_or(codes::MESSAGE_ERROR, |error| error.code());
            connection.close(code, b"no capsule on the CONNECT stream");
            end_of_connection(connection.closed().await)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_cut_between_two_characters() {
        assert_eq!(cut_reason("why"), "why");
        assert_eq!(cut_reason(&"x".repeat(2000)).len(), MAX_REASON);
        // Three bytes each: 341 of them are 1023 bytes.
        assert_eq!(cut_reason(&"€".repeat(400)), "€".repeat(341));
    }

    #[test]
    fn the_frame_is_that_of_the_draft() {
        let expected = [0x00, 0x09, 0x68, 0x43, 0x06, 0, 0, 0, 7, b'o', b'k'];
        assert_eq!(close_frame(7, "ok"), expected);
    }
}
