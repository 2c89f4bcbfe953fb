//! What our end does on a connection besides the requests: a key update, and datagrams.

use tacklib::Connection;

use super::settings::Settings;
use crate::cases::Kind;

/// The keys are updated behind so many bytes: most of the transfer is still to come, and quic-go,
/// which updates them by itself after a hundred packets, has not done so yet.
const UPDATE_KEYS_AFTER: u64 = 32 << 10;
/// DATAGRAM frames that our end sends.
const DATAGRAMS: u32 = 100;
/// Their length in bytes.
const DATAGRAM_LEN: usize = 1000;
/// Datagrams that wait to be sent at most: they share a queue of 25 packets with the transfer.
const WAITING: usize = 2;

/// The actions on one connection.
pub struct Actions {
    updates_keys: bool,
    /// Datagrams that are still to be sent.
    to_send: u32,
    returns_datagrams: bool,
}

impl Actions {
    /// The actions that the test case takes.
    pub fn new(settings: &Settings) -> Self {
        let ours = settings.ours;
        let is_peer = ours.is_none();
        let sends = ours == Some(Kind::Datagrams);
        Self {
            updates_keys: ours == Some(Kind::KeyUpdateByUs)
                || (is_peer && settings.is_test("keyupdate")),
            to_send: if sends { DATAGRAMS } else { 0 },
            returns_datagrams: is_peer && settings.is_test("datagrams"),
        }
    }

    /// Does what can be done now.
    pub fn act(&mut self, connection: &mut Connection) -> quiche::Result<()> {
        if !connection.is_established() || connection.is_closed() {
            return Ok(());
        }
        if self.updates_keys {
            let stats = connection.stats();
            let is_time = stats.sent_bytes + stats.recv_bytes > UPDATE_KEYS_AFTER;
            // It fails until the handshake is confirmed (RFC 9001 section 6.1).
            self.updates_keys = !(is_time && connection.initiate_key_update().is_ok());
        }
        while self.to_send > 0 && connection.dgram_send_queue_len() < WAITING {
            let mut data = [0; DATAGRAM_LEN];
            data[..4].copy_from_slice(&self.to_send.to_be_bytes());
            match connection.dgram_send(&data) {
                Ok(()) => self.to_send -= 1,
                Err(quiche::Error::Done) => break,
                // The verdict says that the peer takes none.
                Err(quiche::Error::InvalidState) => self.to_send = 0,
                Err(error) => return Err(error),
            }
        }
        let mut data = [0; 2 * DATAGRAM_LEN];
        while self.returns_datagrams
            && let Ok(len) = connection.dgram_recv(&mut data)
        {
            match connection.dgram_send(&data[..len]) {
                Ok(()) | Err(quiche::Error::Done) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
