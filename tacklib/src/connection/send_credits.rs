//! Packets that may leave although the sender may not send, and why.
//!
//! Credits come from accepted packets, expired timers and calls of the application only. Those for
//! control frames let quiche be asked for packets without room for stream data, until it has no more
//! that fit; a probe may carry stream data.
//! There are two for each expired timer (RFC 9002 section 6.2.4) and one for each path that is challenged.

/// Probes that an expired timer sends (RFC 9002 section 6.2.4).
pub const PROBES: u8 = 2;

/// Why quiche is asked for a packet that must not wait for the sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum CreditReason {
    /// An accepted packet wants an answer: a path challenge, STOP_SENDING, connection ids to retire.
    Answer = 1,
    /// A receive window has to be announced.
    WindowUpdate = 2,
    /// A handshake packet was accepted, or the handshake has just ended.
    Handshake = 4,
    /// Data goes over another path, or a path is to be validated.
    NewPath = 8,
    /// The application has called for a control frame.
    Application = 16,
    /// quiche has done with a stream of the peer, or may have as all that was sent is acknowledged, and then may have
    /// MAX_STREAMS to send.
    StreamLimit = 32,
}

/// The credits of a connection.
#[derive(Clone, Copy, Debug, Default)]
pub struct SendCredits {
    control: u8,
    probes: u8,
}

impl SendCredits {
    /// Lets control frames leave.
    pub fn grant(&mut self, reason: CreditReason) {
        self.control |= reason as u8;
    }

    /// A timer of quiche's has expired that it sends probes for.
    pub fn grant_probes(&mut self) {
        self.probes = PROBES;
    }

    /// A path has to be challenged: the datagram is to have 1,200 bytes (RFC 9000 section 8.2.1), and
    /// quiche fills it with stream data where there is some. It probes the path as the first packet there.
    pub fn grant_path_probe(&mut self) {
        self.probes = self.probes.max(1);
    }

    /// Whether the next packet may be a probe.
    pub fn has_probe(self) -> bool {
        self.probes > 0
    }

    /// Whether control frames may leave.
    pub fn has_control(self) -> bool {
        self.control != 0
    }

    /// A probe has left.
    pub fn use_probe(&mut self) {
        self.probes = self.probes.saturating_sub(1);
    }

    /// quiche has nothing more to send, or nothing more that may leave.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// quiche has no more control frames that fit, or the last packet was more than control frames.
    pub fn clear_control(&mut self) {
        self.control = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timer_sends_two_probes_however_often_it_is_granted() {
        let mut credits = SendCredits::default();
        credits.grant_probes();
        credits.grant_probes();
        for _ in 0..PROBES {
            assert!(credits.has_probe());
            credits.use_probe();
        }
        assert!(!credits.has_probe());
    }

    #[test]
    fn control_credits_last_until_quiche_has_nothing_left() {
        let mut credits = SendCredits::default();
        credits.grant(CreditReason::Answer);
        credits.grant(CreditReason::WindowUpdate);
        assert!(credits.has_control());
        credits.clear_control();
        assert!(!credits.has_control() && !credits.has_probe());
    }
}
