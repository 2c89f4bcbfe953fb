//! Clients that have not said the access token yet, and what they may cost.
//!
//! Whoever reaches the port can complete a handshake. Until the token was right a connection may
//! make the server keep [`MAX_OF_STRANGER`] bytes, and all strangers together [`TOTAL`]. The endpoint drops what comes
//! beyond, and the connection is closed. Flow-control windows of that size would do as well, but quiche doubles them
//! as they are read: an upload over a long path would wait for them for its first ten round trips. Who
//! comes while there are as many gets in: the stranger that has been silent for longest gives
//! way, one from the same network if that has its share already. A client says the token in its
//! first packet after the handshake, so it does not wait among strangers.
//!
//! Guessing tokens is slowed down for each network: after a wrong one, tokens from there are not
//! looked at for a time that doubles with each. What has waited is then looked at together, so that a wrong one does
//! not keep a right one waiting again; as many may wait as there may be strangers of a network. A right one ends the wait.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::{Duration, Instant};

use tack_endpoint::Network;

/// Bytes that a connection may make us keep before the token, the largest message aside.
pub(super) const MAX_OF_STRANGER: u64 = 64 * 1024;
/// Bytes of streams that a client sends before it has heard from the server: few enough for what else is in its
/// packets, for repetitions, and for a probe of the path's MTU.
pub(super) const MAX_UNHEARD: usize = 24 * 1024;
/// The same once a handshake is complete whose early data the server has taken: what has been sent is not repeated as a
/// whole any more. A client that waited to be heard with as little would let a round trip pass.
pub(super) const MAX_UNHEARD_BEHIND_HANDSHAKE: usize = 48 * 1024;
/// Largest opening message, in bytes: holds the longest token, however it is escaped, and what fills early data up.
pub(super) const MAX_HELLO: usize = 12 * 1024;
/// Bytes that all strangers together may make us keep.
const TOTAL: usize = 4 << 20;
/// Strangers at a time.
const MAX_STRANGERS: usize = TOTAL / (MAX_OF_STRANGER as usize + MAX_HELLO);
/// Strangers of one network at a time.
const MAX_OF_NETWORK: usize = 16;
/// How long tokens are not looked at after the first wrong one.
const FIRST_HOLD: Duration = Duration::from_millis(500);
/// The longest such time: shorter than a client may take to say the token.
const LONGEST_HOLD: Duration = Duration::from_secs(8);
/// How soon behind such a time what has waited is looked at: several threads look at theirs.
const TOGETHER: Duration = Duration::from_secs(1);
/// When the failures of a network are forgotten.
const FORGET: Duration = Duration::from_secs(600);
/// Networks whose failures are remembered.
const MAX_REMEMBERED: usize = 1024;

/// The strangers of a server; `H` names a connection.
#[derive(Debug)]
pub(super) struct Strangers<H> {
    present: HashMap<H, Stranger>,
    failures: HashMap<Network, Failures>,
}

#[derive(Debug)]
struct Stranger {
    network: Network,
    since: Instant,
    heard: Instant,
}

#[derive(Debug)]
struct Failures {
    /// Times that began with a wrong token, and when the last but one ended.
    count: u32,
    released: Option<Instant>,
    hold_until: Instant,
}

impl<H> Default for Strangers<H> {
    fn default() -> Self {
        Self { present: HashMap::new(), failures: HashMap::new() }
    }
}

impl<H: Copy + Eq + Hash> Strangers<H> {
    /// Takes in a new connection. Returns the one that has to give way to it, if any.
    pub(super) fn admit(&mut self, handle: H, network: Network, now: Instant) -> Option<H> {
        let of_network = self.present.values().filter(|s| s.network == network).count();
        let leaves = if of_network >= MAX_OF_NETWORK {
            self.most_silent(|stranger| stranger.network == network)
        } else if self.present.len() >= MAX_STRANGERS {
            self.most_silent(|_| true)
        } else {
            None
        };
        if let Some(leaves) = leaves {
            self.present.remove(&leaves);
        }
        self.present.insert(handle, Stranger { network, since: now, heard: now });
        leaves
    }

    fn most_silent(&self, may_leave: impl Fn(&Stranger) -> bool) -> Option<H> {
        let candidates = self.present.iter().filter(|(_, stranger)| may_leave(stranger));
        candidates.min_by_key(|(_, stranger)| stranger.heard).map(|(handle, _)| *handle)
    }

    /// Notes that something was heard from a connection.
    pub(super) fn on_activity(&mut self, handle: H, now: Instant) {
        if let Some(stranger) = self.present.get_mut(&handle) {
            stranger.heard = now;
        }
    }

    /// The connection is over, or no stranger's any more.
    pub(super) fn remove(&mut self, handle: H) {
        self.present.remove(&handle);
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.present.len()
    }

    /// Connections that have been strangers for longer than `limit`.
    pub(super) fn late(&self, limit: Duration, now: Instant) -> Vec<H> {
        let late = |stranger: &Stranger| now.saturating_duration_since(stranger.since) > limit;
        self.present.iter().filter(|(_, s)| late(s)).map(|(handle, _)| *handle).collect()
    }

    /// Strangers whose token may be looked at again.
    pub(super) fn released(&self, now: Instant) -> Vec<H> {
        let released = |s: &Stranger| {
            self.failures.get(&s.network).is_some_and(|failures| failures.hold_until <= now)
        };
        self.present.iter().filter(|(_, s)| released(s)).map(|(handle, _)| *handle).collect()
    }

    /// Whether the token of a stranger is not looked at now.
    pub(super) fn is_held(&self, handle: H, network: Network, now: Instant) -> bool {
        self.failures.get(&network).is_some_and(|failures| {
            now < failures.hold_until && !self.has_waited(handle, failures, now)
        })
    }

    /// Whether a stranger waited for the end of the last but one time, which has just been.
    fn has_waited(&self, handle: H, failures: &Failures, now: Instant) -> bool {
        self.present.get(&handle).zip(failures.released).is_some_and(|(stranger, released)| {
            stranger.since <= released && now <= released + TOGETHER
        })
    }

    /// Notes a right token from `network`.
    pub(super) fn on_success(&mut self, network: Network) {
        self.failures.remove(&network);
    }

    /// Notes a wrong token of a stranger.
    pub(super) fn on_failure(&mut self, handle: H, network: Network, now: Instant) {
        self.failures.retain(|_, failures| now < failures.hold_until + FORGET);
        if self.failures.len() >= MAX_REMEMBERED && !self.failures.contains_key(&network) {
            let oldest = self.failures.iter().min_by_key(|(_, f)| f.hold_until);
            if let Some(oldest) = oldest.map(|(network, _)| *network) {
                self.failures.remove(&oldest);
            }
        }
        let failures = self.failures.get(&network);
        if failures.is_some_and(|failures| {
            now < failures.hold_until && self.has_waited(handle, failures, now)
        }) {
            return;
        }
        let start = Failures { count: 0, released: None, hold_until: now };
        let failures = self.failures.entry(network).or_insert(start);
        let hold = FIRST_HOLD * 2u32.saturating_pow(failures.count.min(16));
        failures.released = (failures.count > 0).then_some(failures.hold_until);
        failures.count += 1;
        failures.hold_until = now + hold.min(LONGEST_HOLD);
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    /// As many networks as one likes.
    fn numbered(n: u64) -> Network {
        Network::of(IpAddr::from(((u128::from(n) << 64) | 1).to_be_bytes()))
    }

    fn network(n: u8) -> Network {
        Network::of(IpAddr::from([192, 0, 2, n]))
    }

    #[test]
    fn all_strangers_together_stay_below_the_limit() {
        assert!(MAX_STRANGERS * (MAX_OF_STRANGER as usize + MAX_HELLO) <= 4 << 20);
        let (mut strangers, now) = (Strangers::default(), Instant::now());
        for n in 0..1000 {
            strangers.admit(n, numbered(n), now + Duration::from_millis(n));
            assert!(strangers.present.len() <= MAX_STRANGERS);
        }
        assert!(strangers.present.contains_key(&999));
    }

    #[test]
    fn the_most_silent_gives_way() {
        let (mut strangers, start) = (Strangers::default(), Instant::now());
        let at = |n: usize| start + Duration::from_millis(n as u64);
        for n in 0..MAX_STRANGERS {
            assert_eq!(strangers.admit(n, numbered(n as u64), at(n)), None);
        }
        strangers.on_activity(0, at(1000));
        assert_eq!(strangers.admit(1000, network(1), at(1001)), Some(1));
        strangers.remove(2);
        assert_eq!(strangers.admit(1001, network(2), at(1002)), None);
    }

    #[test]
    fn a_network_with_its_share_displaces_nobody_else() {
        let (mut strangers, start) = (Strangers::default(), Instant::now());
        strangers.admit(0, network(1), start);
        for n in 1..=100 {
            let leaves = strangers.admit(n, network(2), start + Duration::from_millis(n));
            assert_ne!(leaves, Some(0));
        }
        assert_eq!(strangers.present.len(), 1 + MAX_OF_NETWORK);
    }

    #[test]
    fn wrong_tokens_are_looked_at_ever_more_rarely() {
        let (mut strangers, mut now) = (Strangers::<u64>::default(), Instant::now());
        let mut holds = Vec::new();
        for _ in 0..7 {
            strangers.on_failure(1, network(1), now);
            let start = now;
            while strangers.is_held(1, network(1), now) {
                now += Duration::from_millis(100);
            }
            holds.push((now - start).as_millis());
            assert!(!strangers.is_held(1, network(2), start));
        }
        assert_eq!(holds, [500, 1000, 2000, 4000, 8000, 8000, 8000]);
        now += FORGET + LONGEST_HOLD;
        strangers.on_failure(1, network(2), now);
        assert!(!strangers.failures.contains_key(&network(1)));
    }

    #[test]
    fn tokens_that_have_waited_are_looked_at_together_and_a_right_one_ends_the_wait() {
        let (mut strangers, start) = (Strangers::default(), Instant::now());
        strangers.on_failure(0, network(1), start);
        for waits in 1..4 {
            strangers.admit(waits, network(1), start);
            assert!(strangers.is_held(waits, network(1), start + FIRST_HOLD / 2));
        }
        let later = start + FIRST_HOLD;
        strangers.on_failure(1, network(1), later);
        assert!(!strangers.is_held(2, network(1), later), "it has waited");
        strangers.on_failure(2, network(1), later);
        assert!(!strangers.is_held(3, network(1), later), "all wrong ones count as one");
        strangers.admit(4, network(1), later + TOGETHER / 10);
        assert!(strangers.is_held(4, network(1), later + TOGETHER / 10), "it has not waited");
        assert!(!strangers.is_held(4, network(1), later + 2 * FIRST_HOLD));
        strangers.on_failure(5, network(1), later + 2 * FIRST_HOLD);
        assert!(strangers.is_held(6, network(1), later + 3 * FIRST_HOLD));
        strangers.on_success(network(1));
        assert!(!strangers.is_held(6, network(1), later + 3 * FIRST_HOLD));
    }

    #[test]
    fn the_networks_that_are_remembered_are_limited() {
        let (mut strangers, now) = (Strangers::<u64>::default(), Instant::now());
        for n in 0..5000 {
            strangers.on_failure(n, numbered(n), now);
        }
        assert_eq!(strangers.failures.len(), MAX_REMEMBERED);
    }
}
