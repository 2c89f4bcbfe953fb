//! An end on a machine that has other work: it reads and sends late.

use std::time::Duration;

use rand::RngExt;
use rand_pcg::Pcg64Mcg;
use tack_link::{Ecn, Time};

/// When the process of an end runs.
///
/// Whatever an idle process waits for (a datagram, a timer, the release of a packet) makes it
/// runnable, and it runs a random time later, any up to twice the mean: a fair scheduler lets each of
/// the others run for a slice at most. Then it finds all that has come meanwhile, and does all that
/// is due.
#[derive(Debug)]
pub struct BusyProcess {
    mean: Duration,
    random: Pcg64Mcg,
    runs_at: Option<Time>,
    /// Datagrams in its socket.
    inbox: Vec<Waiting>,
}

/// A datagram in a socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// Its payload.
    pub bytes: Vec<u8>,
    /// The ECN field of its packet.
    pub ecn: Ecn,
    /// When it came.
    pub at: Time,
}

impl BusyProcess {
    /// A process that runs `mean` late on average; `None` where that is no time.
    pub fn new(mean: Duration, random: Pcg64Mcg) -> Option<Self> {
        (!mean.is_zero()).then(|| Self { mean, random, runs_at: None, inbox: Vec::new() })
    }

    /// A datagram has arrived at its socket.
    pub fn on_datagram(&mut self, datagram: Vec<u8>, ecn: Ecn, now: Time) {
        self.inbox.push(Waiting { bytes: datagram, ecn, at: now });
        self.wake(now);
    }

    /// Something is due: the process will run.
    pub fn wake(&mut self, now: Time) {
        if self.runs_at.is_none() {
            self.runs_at = Some(now + self.mean.mul_f64(2.0 * self.random.random::<f64>()));
        }
    }

    /// When it runs, if it was woken.
    pub fn runs_at(&self) -> Option<Time> {
        self.runs_at
    }

    /// If it runs now: what its socket holds.
    pub fn run(&mut self, now: Time) -> Option<Vec<Waiting>> {
        self.runs_at.take_if(|at| *at <= now)?;
        Some(std::mem::take(&mut self.inbox))
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    fn process(mean: u64) -> BusyProcess {
        BusyProcess::new(Duration::from_millis(mean), Pcg64Mcg::seed_from_u64(1)).unwrap()
    }

    #[test]
    fn it_runs_late_by_the_mean_on_average_and_twice_that_at_most() {
        let mut process = process(5);
        let (mut total, mut longest) = (0.0, 0.0_f64);
        for _ in 0..10_000 {
            process.wake(Time::ZERO);
            let at = process.runs_at().unwrap();
            let late = at.since(Time::ZERO).as_secs_f64() * 1e3;
            total += late;
            longest = longest.max(late);
            assert!(process.run(at).is_some());
        }
        assert!((total / 10_000.0 - 5.0).abs() < 0.2, "{total}");
        assert!(longest <= 10.0 && longest > 9.9, "{longest}");
    }

    #[test]
    fn it_finds_all_that_has_come_until_it_runs() {
        let mut process = process(5);
        process.on_datagram(vec![1], Ecn::Ect1, Time::ZERO);
        let at = process.runs_at().unwrap();
        process.on_datagram(vec![2], Ecn::Ce, at);
        assert_eq!(process.runs_at(), Some(at), "it is awaited already");
        assert_eq!(process.run(Time::ZERO), None);
        let waiting = |byte, ecn, at| Waiting { bytes: vec![byte], ecn, at };
        let first = waiting(1, Ecn::Ect1, Time::ZERO);
        assert_eq!(process.run(at), Some(vec![first, waiting(2, Ecn::Ce, at)]));
        assert_eq!(process.run(at), None);
    }

    #[test]
    fn an_idle_machine_needs_no_process() {
        assert!(BusyProcess::new(Duration::ZERO, Pcg64Mcg::seed_from_u64(1)).is_none());
    }
}
