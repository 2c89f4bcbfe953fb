//! The CPU time of this process.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// CPU time that this process has used, in user and kernel mode together.
///
/// Unlike wall time it does not grow while the process sleeps, as a paced sender does, nor while
/// other processes have the CPU.
pub fn process_cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    // Neither is negative: the clock starts with the process.
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sleeping_costs_no_cpu_time_and_computing_does() {
        let start = process_cpu_time();
        std::thread::sleep(Duration::from_millis(50));
        let slept = process_cpu_time().saturating_sub(start);
        assert!(slept < Duration::from_millis(25), "{slept:?}");

        let start = process_cpu_time();
        let mut spent = Duration::ZERO;
        for _ in 0..1_000_000 {
            spent = process_cpu_time().saturating_sub(start);
            if spent > Duration::from_millis(5) {
                return;
            }
        }
        panic!("a million readings of the clock took {spent:?}");
    }
}
