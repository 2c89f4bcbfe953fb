//! Virtual time, and randomness from a seed, for real QUIC stacks.
//!
//! quiche, and our layer around it, ask the operating system what time it is and BoringSSL for
//! random numbers. A program that links this crate answers both questions itself: on a thread
//! that has [entered](Virtual::enter) virtual time, the monotonic clock stands still until it is
//! [set](Virtual::set), and BoringSSL's `RAND_bytes` is a generator with a known seed. On all
//! other threads, and before and after, both are the real ones.
//!
//! - `clock_gettime` is defined here, which takes the place of the C library's in an executable
//!   that is linked dynamically. Only `CLOCK_MONOTONIC` is virtual: `std::time::Instant` on Linux.
//! - `RAND_bytes` is exchanged by the linker's `--wrap`, so **every package whose executables
//!   link this crate needs the same `build.rs` as this one**. BoringSSL draws some of its own
//!   randomness (signature salts) past `RAND_bytes`: contents of handshake messages differ from
//!   run to run for that, and so do keys and ciphertexts; lengths, packet numbers, connection
//!   ids and decisions do not.
//!
//! Never link this into a program that talks to the world: its connections would have keys that
//! anybody can compute, if a thread of it entered virtual time.

mod clock;
mod random;

use std::marker::PhantomData;
use std::time::Duration;

/// Virtual time of the current thread, from [`enter`](Self::enter) until it is dropped.
#[derive(Debug)]
pub struct Virtual {
    /// Bound to its thread.
    not_send: PhantomData<*const ()>,
}

impl Virtual {
    /// Stops the clock of this thread, at the same moment in every run, and seeds its randomness.
    ///
    /// # Panics
    ///
    /// If the thread is in virtual time already: the inner simulation would set the clock of
    /// the outer one.
    pub fn enter(seed: u64) -> Self {
        assert!(!clock::is_virtual(), "this thread is in virtual time already");
        clock::set(Some(Duration::ZERO));
        random::seed(Some(seed));
        Self { not_send: PhantomData }
    }

    /// Sets the clock to a time since [`enter`](Self::enter).
    pub fn set(&self, since_start: Duration) {
        clock::set(Some(since_start));
    }
}

impl Drop for Virtual {
    fn drop(&mut self) {
        clock::set(None);
        random::seed(None);
    }
}

#[cfg(test)]
mod tests {
    use std::thread;
    use std::time::{Duration, Instant};

    use super::Virtual;

    fn draw() -> [u8; 16] {
        let mut bytes = [0; 16];
        crate::random::tests::boringssl_bytes(&mut bytes);
        bytes
    }

    #[test]
    fn the_clock_stands_still_until_it_is_set() {
        let time = Virtual::enter(1);
        let start = Instant::now();
        thread::sleep(Duration::from_millis(2));
        assert_eq!(start.elapsed(), Duration::ZERO);
        time.set(Duration::new(3, 14));
        assert_eq!(start.elapsed(), Duration::new(3, 14));
    }

    #[test]
    fn it_starts_at_the_same_moment_each_time_with_room_before_it() {
        let first = {
            let _time = Virtual::enter(1);
            Instant::now()
        };
        let _time = Virtual::enter(2);
        assert_eq!(Instant::now(), first);
        assert!(first.checked_sub(Duration::from_secs(3600)).is_some());
    }

    #[test]
    fn other_threads_and_later_times_are_real() {
        let time = Virtual::enter(1);
        time.set(Duration::from_secs(5));
        let virtually = Instant::now();
        let elsewhere = thread::spawn(|| {
            let start = Instant::now();
            thread::sleep(Duration::from_millis(2));
            (start, start.elapsed())
        });
        let (start, elapsed) = elsewhere.join().unwrap();
        assert!(elapsed >= Duration::from_millis(2));
        assert_ne!(start, virtually);
        drop(time);
        let start = Instant::now();
        thread::sleep(Duration::from_millis(2));
        assert!(start.elapsed() >= Duration::from_millis(2));
    }

    #[test]
    fn randomness_follows_the_seed_and_is_real_without_one() {
        let drawn = |seed| {
            let _time = Virtual::enter(seed);
            (draw(), draw())
        };
        let (first, second) = drawn(7);
        assert_ne!(first, second);
        assert_eq!(drawn(7), (first, second));
        assert_ne!(drawn(8).0, first);
        assert_ne!(draw(), draw());
    }
}
