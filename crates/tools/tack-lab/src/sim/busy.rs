//! An end on a machine that has other work: it reads and sends late.

use std::time::Duration;

use rand::RngExt;
use rand_pcg::Pcg64Mcg;
use tack_link::Time;

/// The longest delay, in means: an exponential distribution has no end, and a scheduler's queue has.
const LONGEST: f64 = 10.0;

/// When the process of an end runs.
///
/// Whatever an idle process waits for (a datagram, a timer, the release of a packet) makes it
/// runnable, and it runs a random time later: exponentially distributed, as the wait of a task among
/// others that come and go by themselves. Then it finds all that has come meanwhile, and does all
/// that is due.
#[derive(Debug)]
pub struct BusyProcess {
    mean: Duration,
    random: Pcg64Mcg,
    runs_at: Option<Time>,
    /// Datagrams in its socket.
    inbox: Vec<Vec<u8>>,
}

impl BusyProcess {
    /// A process that runs `mean` late on average; `None` where that is no time.
    pub fn new(mean: Duration, random: Pcg64Mcg) -> Option<Self> {
        (!mean.is_zero()).then(|| Self { mean, random, runs_at: None, inbox: Vec::new() })
    }

    /// A datagram has arrived at its socket.
    pub fn on_datagram(&mut self, datagram: Vec<u8>, now: Time) {
        self.inbox.push(datagram);
        self.wake(now);
    }

    /// Something is due: the process will run.
    pub fn wake(&mut self, now: Time) {
        if self.runs_at.is_none() {
            // One less the draw is above zero, which has no logarithm.
            let means = -(1.0 - self.random.random::<f64>()).ln();
            self.runs_at = Some(now + self.mean.mul_f64(means.min(LONGEST)));
        }
    }

    /// When it runs, if it was woken.
    pub fn runs_at(&self) -> Option<Time> {
        self.runs_at
    }

    /// If it runs now: what its socket holds.
    pub fn run(&mut self, now: Time) -> Option<Vec<Vec<u8>>> {
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
    fn it_runs_late_by_the_mean_on_average_and_ten_times_that_at_most() {
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
        assert!(longest <= 50.0 && longest > 20.0, "{longest}");
    }

    #[test]
    fn it_finds_all_that_has_come_until_it_runs() {
        let mut process = process(5);
        process.on_datagram(vec![1], Time::ZERO);
        let at = process.runs_at().unwrap();
        process.on_datagram(vec![2], at);
        assert_eq!(process.runs_at(), Some(at), "it is awaited already");
        assert_eq!(process.run(Time::ZERO), None);
        assert_eq!(process.run(at), Some(vec![vec![1], vec![2]]));
        assert_eq!(process.run(at), None);
    }

    #[test]
    fn an_idle_machine_needs_no_process() {
        assert!(BusyProcess::new(Duration::ZERO, Pcg64Mcg::seed_from_u64(1)).is_none());
    }
}
