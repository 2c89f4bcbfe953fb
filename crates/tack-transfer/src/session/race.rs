//! Connecting to a host that has several addresses: the first one that answers is taken (Happy Eyeballs,
//! RFC 8305).

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use crate::error::Error;

/// How long to wait for an address before the next one is tried beside it (RFC 8305 section 5).
const ATTEMPT_DELAY: Duration = Duration::from_millis(250);
/// How long to wait for something to happen, where there is only one attempt.
const WAIT: Duration = Duration::from_millis(100);
/// The same for each of several attempts, which wait in turns.
const SHARED_WAIT: Duration = Duration::from_millis(5);

/// A connection on its way to one address.
pub(super) trait Attempt: Sized {
    /// Waits for up to `wait`. Whether the connection can be used.
    fn advance(&mut self, wait: Duration) -> Result<bool, Error>;
}

/// Begins attempts one after the other until one succeeds. `is_over` says whether the user has had enough.
/// The error is the most telling one; `None` if there are no addresses.
pub(super) fn race<A: Attempt>(
    addresses: &[SocketAddr],
    mut begin: impl FnMut(SocketAddr) -> Result<A, Error>,
    is_over: impl Fn() -> bool,
) -> Result<A, Option<Error>> {
    let mut waiting = interleaved(addresses);
    let mut attempts: Vec<A> = Vec::new();
    let mut failure = None;
    let mut begun: Option<Instant> = None;
    loop {
        if is_over() {
            return Err(Some(Error::Interrupted));
        }
        let is_due = begun.is_none_or(|at| at.elapsed() >= ATTEMPT_DELAY);
        if attempts.is_empty() || is_due {
            match waiting.pop_front().map(&mut begin) {
                Some(Ok(attempt)) => attempts.push(attempt),
                Some(Err(error)) => {
                    note(&mut failure, error);
                    continue;
                }
                None if attempts.is_empty() => return Err(failure),
                None => {}
            }
            begun = Some(Instant::now());
        }
        let wait = if attempts.len() + waiting.len() > 1 { SHARED_WAIT } else { WAIT };
        let mut at = 0;
        while at < attempts.len() {
            match attempts[at].advance(wait) {
                Ok(true) => return Ok(attempts.swap_remove(at)),
                Ok(false) => at += 1,
                Err(error) => {
                    note(&mut failure, error);
                    drop(attempts.swap_remove(at));
                    // The next address need not wait for one that has failed.
                    begun = None;
                }
            }
        }
    }
}

/// Keeps the error that says most: that of a server that did answer.
fn note(failure: &mut Option<Error>, error: Error) {
    let says_little =
        |error: &Error| matches!(error, Error::NoAnswer { .. } | Error::Endpoint(_));
    if failure.as_ref().is_none_or(|failure| says_little(failure) && !says_little(&error)) {
        *failure = Some(error);
    }
}

/// The addresses of both families in turns, that of the first one first (RFC 8305 section 4).
fn interleaved(addresses: &[SocketAddr]) -> VecDeque<SocketAddr> {
    let Some(first) = addresses.first() else { return VecDeque::new() };
    let (mut same, mut other): (VecDeque<_>, VecDeque<_>) =
        addresses.iter().copied().partition(|address| address.is_ipv6() == first.is_ipv6());
    let mut ordered = VecDeque::new();
    while let Some(address) = same.pop_front() {
        ordered.push_back(address);
        ordered.extend(other.pop_front());
    }
    ordered.extend(other);
    ordered
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    /// What an address does: answers after some time, or fails after it.
    #[derive(Clone, Copy)]
    struct Plan {
        after: Duration,
        answers: bool,
    }

    struct Planned {
        address: SocketAddr,
        plan: Plan,
        begun: Instant,
    }

    impl Attempt for Planned {
        fn advance(&mut self, wait: Duration) -> Result<bool, Error> {
            std::thread::sleep(wait.min(Duration::from_millis(1)));
            if self.begun.elapsed() < self.plan.after {
                Ok(false)
            } else if self.plan.answers {
                Ok(true)
            } else {
                Err(no_answer())
            }
        }
    }

    fn no_answer() -> Error {
        Error::NoAnswer { server: String::new(), seconds: 0 }
    }

    fn address(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    /// Which address is taken, and which were tried, in their order.
    fn run(
        plans: &[(&str, u64, bool)],
    ) -> (Result<SocketAddr, Option<Error>>, Vec<SocketAddr>) {
        let plan_of = |wanted: SocketAddr| {
            let (_, after, answers) =
                *plans.iter().find(|(text, ..)| address(text) == wanted).unwrap();
            Plan { after: Duration::from_millis(after), answers }
        };
        let addresses: Vec<_> = plans.iter().map(|(text, ..)| address(text)).collect();
        let tried = RefCell::new(Vec::new());
        let begin = |address| {
            tried.borrow_mut().push(address);
            Ok(Planned { address, plan: plan_of(address), begun: Instant::now() })
        };
        let won = race(&addresses, begin, || false).map(|planned| planned.address);
        (won, tried.into_inner())
    }

    const NEVER: u64 = 1_000_000;

    #[test]
    fn families_take_turns() {
        let addresses = ["[::1]:1", "[::2]:1", "[::3]:1", "1.1.1.1:1"].map(address);
        let expected = ["[::1]:1", "1.1.1.1:1", "[::2]:1", "[::3]:1"].map(address);
        assert_eq!(interleaved(&addresses), expected);
        assert!(interleaved(&[]).is_empty());
    }

    #[test]
    fn an_address_that_does_not_answer_is_passed_by_the_next_one() {
        let (won, tried) = run(&[("[::1]:1", NEVER, true), ("1.1.1.1:1", 1, true)]);
        assert_eq!(won.unwrap(), address("1.1.1.1:1"));
        assert_eq!(tried.len(), 2);
    }

    #[test]
    fn an_address_that_answers_soon_is_the_only_one_tried() {
        let (won, tried) = run(&[("[::1]:1", 1, true), ("1.1.1.1:1", 1, true)]);
        assert_eq!(won.unwrap(), address("[::1]:1"));
        assert_eq!(tried.len(), 1);
    }

    #[test]
    fn a_slow_address_still_wins_if_the_others_fail() {
        let plans = [("[::1]:1", 400, true), ("1.1.1.1:1", 1, false), ("[::2]:1", 1, false)];
        let (won, tried) = run(&plans);
        assert_eq!(won.unwrap(), address("[::1]:1"));
        assert_eq!(tried.len(), 3);
    }

    #[test]
    fn without_an_answer_the_error_that_says_most_is_told() {
        let (won, tried) = run(&[("[::1]:1", 1, false), ("1.1.1.1:1", 1, false)]);
        assert!(matches!(won, Err(Some(Error::NoAnswer { .. }))));
        assert_eq!(tried.len(), 2);
        let begin = |address: SocketAddr| -> Result<Planned, Error> {
            Err(if address.is_ipv4() { Error::WrongToken } else { no_answer() })
        };
        let addresses = ["[::1]:1", "1.1.1.1:1", "[::2]:1"].map(address);
        let failed = race(&addresses, begin, || false).err();
        assert!(matches!(failed, Some(Some(Error::WrongToken))));
        assert!(matches!(race(&[], begin, || false).err(), Some(None)));
    }

    #[test]
    fn a_user_who_has_had_enough_does_not_wait_for_an_answer() {
        let plan = Plan { after: Duration::from_secs(NEVER), answers: true };
        let begin = |address| Ok(Planned { address, plan, begun: Instant::now() });
        let failed = race(&[address("1.1.1.1:1")], begin, || true).err();
        assert!(matches!(failed, Some(Some(Error::Interrupted))));
    }
}
