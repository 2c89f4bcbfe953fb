//! What the servers of one port share, each of which has a thread and an endpoint of its own.
//!
//! Limits hold for all of them together: a stranger gains nothing by coming to another one.

use std::hash::Hash;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use tack_endpoint::Network;
use tacklib::CcParameters;

use super::strangers::Strangers;
use crate::cc_parameters::{Cache, Store, path_to_client};

/// Makes a server look at what it has been told.
pub(super) type Wake = Box<dyn Fn() + Send + Sync>;

/// One server's access to the strangers of all; `H` names a connection of one.
pub(super) struct SharedStrangers<H> {
    all: Arc<All<H>>,
    server: usize,
}

struct All<H> {
    state: Mutex<State<H>>,
    /// Strangers, and connections to dismiss. While there are none, which is most of the time, nobody takes
    /// the lock.
    pending: AtomicUsize,
    /// By server.
    wakes: OnceLock<Vec<Wake>>,
}

struct State<H> {
    strangers: Strangers<(usize, H)>,
    /// By server: its connections that have to give way to those of others.
    dismissed: Vec<Vec<H>>,
}

impl<H: Copy + Eq + Hash> SharedStrangers<H> {
    /// For each of as many servers its own.
    pub(super) fn for_servers(count: usize) -> Vec<Self> {
        let dismissed = (0..count).map(|_| Vec::new()).collect();
        let state = State { strangers: Strangers::default(), dismissed };
        let (state, pending) = (Mutex::new(state), AtomicUsize::new(0));
        let all = Arc::new(All { state, pending, wakes: OnceLock::new() });
        (0..count).map(|server| Self { all: Arc::clone(&all), server }).collect()
    }

    /// Says how to reach the servers, in their order.
    pub(super) fn set_wakes(&self, wakes: Vec<Wake>) {
        // They are made once.
        let _ = self.all.wakes.set(wakes);
    }

    /// As [`Strangers::admit`]; another server's connection that has to give way is dismissed there.
    pub(super) fn admit(&self, handle: H, network: Network, now: Instant) -> Option<H> {
        let leaves = self.change(|state| {
            let leaves = state.strangers.admit((self.server, handle), network, now)?;
            if leaves.0 != self.server
                && let Some(dismissed) = state.dismissed.get_mut(leaves.0)
            {
                dismissed.push(leaves.1);
            }
            Some(leaves)
        });
        let (server, handle) = leaves?;
        if server == self.server {
            return Some(handle);
        }
        if let Some(wake) = self.all.wakes.get().and_then(|wakes| wakes.get(server)) {
            wake();
        }
        None
    }

    /// Connections of this server that have given way to another one's.
    pub(super) fn take_dismissed(&self) -> Vec<H> {
        if self.has_none() {
            return Vec::new();
        }
        self.change(|state| {
            state.dismissed.get_mut(self.server).map(std::mem::take).unwrap_or_default()
        })
    }

    /// As [`Strangers::on_activity`].
    pub(super) fn on_activity(&self, handle: H, now: Instant) {
        if !self.has_none() {
            self.change(|state| state.strangers.on_activity((self.server, handle), now));
        }
    }

    /// As [`Strangers::remove`].
    pub(super) fn remove(&self, handle: H) {
        if !self.has_none() {
            self.change(|state| state.strangers.remove((self.server, handle)));
        }
    }

    /// As [`Strangers::late`], of this server.
    pub(super) fn late(&self, limit: Duration, now: Instant) -> Vec<H> {
        self.own(|strangers| strangers.late(limit, now))
    }

    /// As [`Strangers::released`], of this server.
    pub(super) fn released(&self, now: Instant) -> Vec<H> {
        self.own(|strangers| strangers.released(now))
    }

    /// As [`Strangers::is_held`].
    pub(super) fn is_held(&self, handle: H, network: Network, now: Instant) -> bool {
        self.change(|state| state.strangers.is_held((self.server, handle), network, now))
    }

    /// As [`Strangers::on_failure`].
    pub(super) fn on_failure(&self, handle: H, network: Network, now: Instant) {
        self.change(|state| state.strangers.on_failure((self.server, handle), network, now));
    }

    /// As [`Strangers::on_success`].
    pub(super) fn on_success(&self, network: Network) {
        self.change(|state| state.strangers.on_success(network));
    }

    fn own(&self, find: impl FnOnce(&Strangers<(usize, H)>) -> Vec<(usize, H)>) -> Vec<H> {
        if self.has_none() {
            return Vec::new();
        }
        let found = self.change(|state| find(&state.strangers));
        found.into_iter().filter(|found| found.0 == self.server).map(|found| found.1).collect()
    }

    fn has_none(&self) -> bool {
        self.all.pending.load(Ordering::Acquire) == 0
    }

    fn change<T>(&self, change: impl FnOnce(&mut State<H>) -> T) -> T {
        let mut state = lock(&self.all.state);
        let result = change(&mut state);
        let dismissed: usize = state.dismissed.iter().map(Vec::len).sum();
        self.all.pending.store(state.strangers.len() + dismissed, Ordering::Release);
        result
    }
}

/// What connections to any of the servers have observed, by the client's address.
#[derive(Clone)]
pub(super) enum SharedCcParameters {
    InMemory(Arc<Mutex<Cache<IpAddr>>>),
    InFile(Store),
}

impl SharedCcParameters {
    /// In memory alone unless there is a `store`.
    pub(super) fn new(store: Option<Store>) -> Self {
        store.map_or_else(|| Self::InMemory(Arc::default()), Self::InFile)
    }

    /// As [`Cache::take`].
    pub(super) fn take(&self, client: IpAddr, now: SystemTime) -> Option<CcParameters> {
        match self {
            Self::InMemory(cache) => lock(cache).take(&client),
            Self::InFile(store) => store.take(&path_to_client(client), now),
        }
    }

    /// As [`Cache::put`].
    pub(super) fn put(&self, client: IpAddr, observed: CcParameters, now: SystemTime) {
        match self {
            Self::InMemory(cache) => lock(cache).put(client, observed),
            Self::InFile(store) => store.put(path_to_client(client), observed, now),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What is inside is whole whenever the lock is free, even after a panic elsewhere.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;

    fn network(n: u8) -> Network {
        Network::of(IpAddr::from([192, 0, 2, n]))
    }

    fn two() -> [SharedStrangers<u32>; 2] {
        let mut servers = SharedStrangers::for_servers(2).into_iter();
        [servers.next().unwrap(), servers.next().unwrap()]
    }

    #[test]
    fn strangers_of_one_network_give_way_wherever_they_are() {
        let [first, second] = two();
        let woken = Arc::new(AtomicBool::new(false));
        let wake = Arc::clone(&woken);
        first.set_wakes(vec![
            Box::new(move || wake.store(true, Ordering::Relaxed)),
            Box::new(|| panic!("the second has nothing to do")),
        ]);
        let start = Instant::now();
        let at = |n: u32| start + Duration::from_millis(n.into());
        for n in 0..16 {
            let server = if n % 2 == 0 { &first } else { &second };
            assert_eq!(server.admit(n, network(1), at(n)), None);
        }
        assert_eq!(second.admit(16, network(1), at(16)), None, "not one of its own");
        assert!(woken.load(Ordering::Relaxed));
        assert_eq!(first.take_dismissed(), [0]);
        assert!(first.take_dismissed().is_empty() && second.take_dismissed().is_empty());
        assert_eq!(second.admit(17, network(1), at(17)), Some(1), "one of its own");
        assert_eq!(second.admit(18, network(2), at(18)), None, "another network");
    }

    #[test]
    fn a_network_that_guesses_at_one_server_is_held_at_the_others() {
        let [first, second] = two();
        let now = Instant::now();
        second.admit(7, network(1), now);
        first.on_failure(1, network(1), now);
        assert!(second.is_held(7, network(1), now) && !second.is_held(7, network(2), now));
        let later = now + Duration::from_secs(1);
        assert_eq!((second.released(later), first.released(later)), (vec![7], vec![]));
    }

    #[test]
    fn each_server_looks_after_its_own_late_strangers() {
        let [first, second] = two();
        let now = Instant::now();
        first.admit(1, network(1), now);
        second.admit(1, network(1), now + Duration::from_secs(5));
        second.admit(2, network(1), now);
        let (limit, later) = (Duration::from_secs(10), now + Duration::from_secs(11));
        assert_eq!((first.late(limit, later), second.late(limit, later)), (vec![1], vec![2]));
        first.remove(1);
        assert!(first.late(limit, later).is_empty());
        second.remove(1);
        second.remove(2);
        assert!(first.has_none() && second.has_none());
    }
}
