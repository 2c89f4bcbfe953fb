//! Runs two commands, one at each end of a link with a delay, for the tests of that:
//!
//! ```sh
//! sudo target/debug/run_over_link 20 sleep 5 ::: sh -c 'ping -c 3 $TACK_LAB_PEER'
//! ```
//!
//! The first argument is the delay of each direction in milliseconds. It is over when one of the
//! commands has ended; with `--both` in front, when both have.
//!
//! The exit code is the commands', or 75 (`EX_TEMPFAIL`) if they succeeded and the link was late, so that
//! no figure of theirs counts; with `--allow-misses` in front that is only told. `--late-percent P` in front allows so
//! many late packets in a hundred, for figures that show less of it than the lab's. Started as
//! `run_over_link init COMMAND`, it is the process that the library wants between itself and each
//! command.

#[cfg(target_os = "linux")]
fn main() -> std::process::ExitCode {
    let mut arguments: Vec<_> = std::env::args_os().skip(1).collect();
    if arguments.first().is_some_and(|first| first == "init") {
        return tack_emulator::tun::init(&arguments.split_off(1)).into();
    }
    match linux::run(arguments) {
        Ok(code) => code.into(),
        Err(error) => {
            eprintln!("run_over_link: {error}");
            std::process::ExitCode::FAILURE
        }
    }
}

#[cfg(not(target_os = "linux"))]
fn main() {
    eprintln!("run_over_link: needs Linux");
}

#[cfg(target_os = "linux")]
mod linux {
    use std::env;
    use std::error::Error;
    use std::ffi::OsString;
    use std::time::Duration;

    use tack_emulator::tun::{
        CommandOptions, LATE_SHARE_ALLOWED, PunctualitySummary, Until, run_commands,
    };
    use tack_link::compose::Duplex;
    use tack_link::pipe::{PipeConfig, Schedule};

    /// The exit code of a run in which the link was late.
    const LATE: u8 = 75;

    pub fn run(mut arguments: Vec<OsString>) -> Result<u8, Box<dyn Error>> {
        const USAGE: &str = "usage: run_over_link [--both] [--allow-misses | --late-percent P] DELAY_MS COMMAND ::: COMMAND";
        let mut takes = |option: &str| {
            let is_first = arguments.first().is_some_and(|first| first == option);
            is_first.then(|| arguments.remove(0)).is_some()
        };
        let both = takes("--both");
        let allow_misses = takes("--allow-misses");
        let late_percent = if takes("--late-percent") && !arguments.is_empty() {
            arguments.remove(0).to_str().ok_or(USAGE)?.parse()?
        } else {
            100.0 * LATE_SHARE_ALLOWED
        };
        let separator = arguments.iter().position(|argument| argument == ":::").ok_or(USAGE)?;
        let second = arguments.split_off(separator).split_off(1);
        let delay = arguments.first().and_then(|delay| delay.to_str()).ok_or(USAGE)?;
        let delay_ms = delay.parse()?;
        let first = arguments.split_off(1);
        let pipe = PipeConfig {
            delay: Schedule::constant(Duration::from_millis(delay_ms)),
            ..PipeConfig::default()
        };
        let report = run_commands(CommandOptions {
            link: Box::new(Duplex::new(&pipe, &pipe, 1)?),
            commands: [first, second],
            init: vec![env::current_exe()?.into(), "init".into()],
            until: if both { Until::Both } else { Until::First },
        })?;
        eprintln!("{:?}", report.punctuality);
        let counts = allow_misses || counts(&report.punctuality, late_percent);
        match (report.exit_code, report.punctuality.invalid) {
            (0, Some(reason)) if !counts => {
                eprintln!("run_over_link: this run does not count: {reason}");
                Ok(LATE)
            }
            (code, _) => Ok(code),
        }
    }

    /// Whether the figures of a run count where so many packets in a hundred may be late.
    fn counts(punctuality: &PunctualitySummary, late_percent: f64) -> bool {
        let allowed = punctuality.delivered as f64 * late_percent / 100.0;
        punctuality.kernel_drops == 0 && punctuality.deadline_misses as f64 <= allowed
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn a_run_counts_unless_more_packets_were_late_than_may_be_or_the_kernel_dropped_one() {
            let summary = |deadline_misses, kernel_drops| PunctualitySummary {
                delivered: 10_000,
                deadline_misses,
                lateness_p50_us: 40.0,
                lateness_p99_us: 900.0,
                lateness_max_us: 5000.0,
                kernel_drops,
                real_time_priority: true,
                valid: false,
                invalid: Some("late".to_owned()),
            };
            assert!(counts(&summary(100, 0), 1.0));
            assert!(!counts(&summary(101, 0), 1.0));
            assert!(!counts(&summary(0, 1), 1.0));
        }
    }
}
