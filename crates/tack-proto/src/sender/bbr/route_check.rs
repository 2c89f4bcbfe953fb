//! Whether a path with a queue and low rates has become slower, or longer (TACK-6.1-4): the first packet tells that has
//! left since what queued has drained, or a probe that adds nothing to the queue.

/// What is waited for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Check {
    #[default]
    None,
    /// The queue is to drain.
    Draining,
    /// The acknowledgement of a packet sent since so much was delivered.
    Sent(u64),
}

/// The check, and what it has shown.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RouteCheck {
    check: Check,
    suspects: bool,
}

impl RouteCheck {
    /// The path seems to have become slower.
    pub fn begin(&mut self) {
        self.check = Check::Draining;
    }

    /// The queue has drained when so much was delivered.
    pub fn on_drained(&mut self, delivered: u64) {
        if self.check != Check::None {
            self.check = Check::Sent(delivered);
        }
    }

    /// Whether the acknowledgement of a packet sent when so much was delivered decides.
    pub fn decides(&mut self, prior_delivered: u64) -> bool {
        let decides =
            matches!(self.check, Check::Sent(delivered) if prior_delivered >= delivered);
        if decides {
            self.check = Check::None;
        }
        decides
    }

    /// Whether a packet is on its way that decides. Until it is acknowledged low rates say nothing new.
    pub fn is_waiting(&self) -> bool {
        matches!(self.check, Check::Sent(_))
    }

    /// It has queued, or not.
    pub fn on_decided(&mut self, queued: bool) {
        self.suspects = queued;
    }

    /// Round trips are those of a queue, and what a probe has sent in addition has not made them longer.
    pub fn on_even_probe(&mut self) {
        self.suspects = true;
    }

    /// Whether the route is to be taken for longer. True once.
    pub fn take_suspicion(&mut self) -> bool {
        std::mem::take(&mut self.suspects)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_decides_that_has_left_since_the_queue_drained() {
        let mut route = RouteCheck::default();
        route.on_drained(500);
        assert!(!route.decides(u64::MAX) && !route.is_waiting(), "nothing is to be checked");
        route.begin();
        assert!(!route.decides(u64::MAX) && !route.is_waiting(), "the queue drains");
        route.on_drained(1000);
        assert!(route.is_waiting());
        assert!(!route.decides(999));
        assert!(route.decides(1000));
        assert!(!route.decides(1000), "once");
        route.on_decided(true);
        assert!(route.take_suspicion());
        assert!(!route.take_suspicion());
    }
}
