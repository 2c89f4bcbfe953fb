//! Two plain connections, what they send to each other, and what is in it.

use std::net::SocketAddr;

use quiche::{Connection, RecvInfo, SendInfo};
use tack_packet::{CipherSuite, Opened, ProtectionKeys, ShortHeader, TAG_LEN};
use tack_proto::frame::{Frame, Frames};

use crate::common::log::Log;
use crate::common::*;

/// Length of the connection ids of both ends.
pub const CID_LEN: usize = 16;

/// Fails if quiche has mended what `subject` works around: a file of `quiche_compat`, or of the rest of the layer.
pub fn assert_needed(is_needed: bool, subject: &str) {
    const SEAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/quiche_compat");
    let file = subject.split(' ').next().unwrap_or(subject);
    let is_workaround = std::path::Path::new(SEAM).join(file).exists();
    let what_to_do = if is_workaround {
        "if tacklib can do without that file of tacklib/src/quiche_compat, delete it and this module"
    } else {
        "read in this module what of tacklib depends on it, and adapt or delete both"
    };
    assert!(is_needed, "quiche has changed what {subject} is about: {what_to_do}");
}

/// A client and a server.
pub struct Ends {
    pub client: Connection,
    pub server: Connection,
    pub secrets: Log,
    /// Where the server sees the client.
    pub client_at: SocketAddr,
}

/// The settings of both ends.
pub fn config() -> quiche::Config {
    let mut config = stock_config();
    config.log_keys();
    config.set_max_idle_timeout(0);
    config.set_active_connection_id_limit(4);
    config
}

impl Ends {
    /// Before the handshake.
    pub fn new(client: &mut quiche::Config, server: &mut quiche::Config) -> Self {
        let secrets = Log::default();
        let mut client = stock_client(client);
        client.set_keylog(Box::new(secrets.clone()));
        Self { client, server: stock_server(server), secrets, client_at: client_address() }
    }

    /// After the handshake, with nothing left to say.
    pub fn established() -> Self {
        Self::established_with(&mut config(), &mut config())
    }

    pub fn established_with(client: &mut quiche::Config, server: &mut quiche::Config) -> Self {
        let mut ends = Self::new(client, server);
        ends.exchange();
        assert!(ends.client.is_established() && ends.server.is_established());
        ends
    }

    /// Carries datagrams both ways until there are none. What the server sends to an address that
    /// the client has left is lost.
    pub fn exchange(&mut self) {
        loop {
            let up = sent(&mut self.client);
            let down = sent(&mut self.server);
            if up.is_empty() && down.is_empty() {
                return;
            }
            for (datagram, _) in up {
                let _ = self.deliver_to_server(datagram);
            }
            for (datagram, info) in down {
                if info.to == self.client_at {
                    let _ = self.deliver_to_client(datagram);
                }
            }
        }
    }

    pub fn deliver_to_server(&mut self, mut datagram: Vec<u8>) -> quiche::Result<usize> {
        let info = RecvInfo { from: self.client_at, to: server_address() };
        self.server.recv(&mut datagram, info)
    }

    pub fn deliver_to_client(&mut self, mut datagram: Vec<u8>) -> quiche::Result<usize> {
        let info = RecvInfo { from: server_address(), to: client_address() };
        self.client.recv(&mut datagram, info)
    }

    /// The client writes to a stream; the datagrams that carry it.
    pub fn client_writes(&mut self, stream_id: u64, bytes: &[u8]) -> Vec<Vec<u8>> {
        self.client.stream_send(stream_id, bytes, false).unwrap();
        sent(&mut self.client).into_iter().map(|(datagram, _)| datagram).collect()
    }

    /// What protects the client's packets, and the server's.
    pub fn keys(&mut self) -> (Keys, Keys) {
        let name = self.client.as_mut().current_cipher().unwrap().name().to_owned();
        let suite = CipherSuite::from_name(&name).unwrap();
        let keys = |label| Keys {
            inner: ProtectionKeys::new(suite, &self.secrets.secret(label)).unwrap(),
            expected: 0,
        };
        (keys("CLIENT_TRAFFIC_SECRET_0"), keys("SERVER_TRAFFIC_SECRET_0"))
    }

    /// The server gets a packet with `frames` in the place of one of the client's.
    pub fn inject(&mut self, frames: &[u8]) -> quiche::Result<usize> {
        let (mut keys, _) = self.keys();
        let packet = self.client_writes(2, b"x").remove(0);
        let forged = keys.with_frames(packet, frames, 0);
        self.deliver_to_server(forged)
    }

    /// The client goes on from another address, as behind a NAT that forgot it.
    pub fn rebind(&mut self) {
        self.client_at = SocketAddr::from(([127, 0, 0, 2], 4011));
    }
}

/// All that a connection has to send.
pub fn sent(connection: &mut Connection) -> Vec<(Vec<u8>, SendInfo)> {
    let mut out = vec![0; 65536];
    std::iter::from_fn(|| match connection.send(&mut out) {
        Ok((len, info)) => Some((out[..len].to_vec(), info)),
        Err(_) => None,
    })
    .collect()
}

/// Waits for the connection's timer, and handles it.
pub fn expire(connection: &mut Connection) {
    let Some(at) = connection.timeout_instant() else { return };
    advance_to(at);
    connection.on_timeout();
}

/// The 1-RTT keys of one end.
pub struct Keys {
    inner: ProtectionKeys,
    expected: u64,
}

impl Keys {
    /// Header and frames of a 1-RTT packet; `None` for others.
    pub fn open(&mut self, packet: &[u8]) -> Option<(ShortHeader, Vec<u8>)> {
        let mut packet = packet.to_vec();
        let opened = self.open_in_place(&mut packet)?;
        Some((opened.header, packet[opened.payload].to_vec()))
    }

    /// Whether a packet carries a frame that `wanted` accepts.
    pub fn finds(&mut self, packet: &[u8], wanted: impl Fn(&Frame<'_>) -> bool) -> bool {
        let mut found = false;
        self.each(packet, |frame| found |= wanted(frame));
        found
    }

    /// Shows every frame of a 1-RTT packet.
    pub fn each(&mut self, packet: &[u8], mut show: impl FnMut(&Frame<'_>)) {
        let Some((_, payload)) = self.open(packet) else { return };
        for located in Frames::new(&payload) {
            show(&located.unwrap().frame);
        }
    }

    /// The packet with other frames, and reserved bits.
    pub fn with_frames(&mut self, mut packet: Vec<u8>, frames: &[u8], bits: u8) -> Vec<u8> {
        let opened = self.open_in_place(&mut packet).unwrap();
        packet.truncate(opened.payload.start);
        packet.extend_from_slice(frames);
        packet.resize(packet.len() + TAG_LEN, 0);
        packet[0] |= bits;
        self.inner.seal(opened.generation, &mut packet, &opened.header, frames.len()).unwrap();
        packet
    }

    fn open_in_place(&mut self, packet: &mut [u8]) -> Option<Opened> {
        let opened = self.inner.open(packet, CID_LEN, self.expected).ok()?;
        self.expected = self.expected.max(opened.header.packet_number + 1);
        Some(opened)
    }
}
