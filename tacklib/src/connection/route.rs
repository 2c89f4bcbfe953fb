//! Connections that change their path (RFC 9000 section 9).

use std::net::SocketAddr;
use std::time::Instant;

use quiche::SendInfo;
use tack_proto::sender::PathId;

use super::{Connection, Path};
use crate::layer::Plan;

/// Room for a packet with a PING and no other frame that it would matter to
/// lose: the header, the tag and less than a NEW_CONNECTION_ID needs.
const PING_PACKET: usize = 1 + quiche::MAX_CONN_ID_LEN + 4 + 16 + 8;

impl Connection {
    /// Notices when data goes another way: the peer's address has changed, or
    /// the application has migrated.
    pub(super) fn follow_route(&mut self, now: Instant, used: Path) {
        if self.route == Some(used) {
            return;
        }
        let Some(active) = self.inner.path_stats().find(|path| path.active) else { return };
        let active = (active.local_addr, active.peer_addr);
        let Some(left) = self.route.replace(active).filter(|left| *left != active) else {
            return;
        };
        self.left = Some(left);
        self.validation.begin();
        self.passes = self.passes.max(1);
        // RFC 9000 section 9.4; a change of the port alone is most likely a
        // NAT's, and the path the same.
        let hosts = |path: Path| (path.0.ip(), path.1.ip());
        if let Some(layer) = self.layer.as_mut().filter(|_| hosts(left) != hosts(active)) {
            let next = PathId(layer.sender.path().0 + 1);
            layer.sender.set_path(now, next);
        }
    }

    /// Sends a PING over the path that was left, by which quiche will find out
    /// what was lost there: see `Layer::settle_farewells`.
    pub(super) fn leave_path(
        &mut self,
        now: Instant,
        out: &mut [u8],
        from: Option<SocketAddr>,
        to: Option<SocketAddr>,
    ) -> Option<(usize, SendInfo)> {
        let wanted = |path: &mut Path| {
            from.is_none_or(|from| from == path.0) && to.is_none_or(|to| to == path.1)
        };
        let (local, peer) = self.left.take_if(wanted)?;
        self.inner.send_ack_eliciting_on_path(local, peer).ok()?;
        let room = out.len().min(PING_PACKET);
        let (len, mut info) =
            self.inner.send_on_path(&mut out[..room], Some(local), Some(peer)).ok()?;
        info.at = now;
        Some((self.finish_packet(now, out, len, &Plan::farewell(), (local, peer)), info))
    }
}
