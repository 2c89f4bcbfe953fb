#![expect(clippy::disallowed_methods, reason = "a test needs some instant to start from")]

use super::*;

const MS: Duration = Duration::from_millis(1);

fn error(code: i32) -> io::Error {
    io::Error::from_raw_os_error(code)
}

/// Calls the receive function whenever the schedule says so, and nothing else, until `end`;
/// `outcome` says what each call returns. Returns the number of calls.
fn run(
    schedule: &mut ReceiveSchedule,
    start: Instant,
    end: Instant,
    mut outcome: impl FnMut(&mut ReceiveSchedule, Instant) -> Result<(), Failure>,
) -> (u32, Option<(Instant, Failure)>) {
    let mut now = start;
    let mut calls = 0;
    loop {
        if schedule.may_receive(now) {
            calls += 1;
            if let Err(failure) = outcome(schedule, now) {
                return (calls, Some((now, failure)));
            }
            assert!(calls < 1_000_000, "the schedule spins");
        }
        match schedule.next(now) {
            Some(next) if next <= end => now = now.max(next),
            _ => return (calls, None),
        }
    }
}

#[test]
fn a_single_error_is_followed_by_a_call_at_once() {
    let start = Instant::now();
    for code in [libc::ENOMEM, libc::ENOBUFS, libc::ENETDOWN, libc::EMSGSIZE, libc::EIO] {
        let mut schedule = ReceiveSchedule::new();
        assert_eq!(schedule.on_error(start, &error(code)), Ok(()));
        assert!(schedule.may_receive(start));
        assert_eq!(schedule.next(start), Some(start));
    }
}

#[test]
fn errors_in_a_row_are_spaced_out_up_to_a_tenth_of_a_second() {
    let mut now = Instant::now();
    let mut schedule = ReceiveSchedule::new();
    schedule.on_error(now, &error(libc::ENOMEM)).unwrap();
    for pause in [1, 2, 4, 8, 16, 32, 64, 100, 100] {
        schedule.on_error(now, &error(libc::ENOMEM)).unwrap();
        assert!(!schedule.may_receive(now));
        // A readiness event does not cut the pause short: with an error pending the system reports
        // one after the other.
        schedule.on_readable();
        assert_eq!(schedule.next(now), Some(now + pause * MS));
        now += pause * MS;
        assert!(schedule.may_receive(now));
    }
    schedule.on_received(now, true);
    assert_eq!(schedule.next(now), Some(now), "a datagram ends the pauses");
}

#[test]
fn a_failure_that_lasts_is_reported_with_its_length_after_ten_seconds() {
    let start = Instant::now();
    let mut schedule = ReceiveSchedule::new();
    let end = start + Duration::from_secs(60);
    let failing =
        |schedule: &mut ReceiveSchedule, now| schedule.on_error(now, &error(libc::ENETDOWN));
    let (calls, reported) = run(&mut schedule, start, end, failing);
    let (at, failure) = reported.unwrap();
    assert_eq!(failure, Failure { since: start, calls });
    assert!((PERSISTENT_FOR..PERSISTENT_FOR + MAX_PAUSE).contains(&(at - start)));
    assert!((100..120).contains(&calls), "{calls} calls");
}

#[test]
fn two_errors_long_apart_are_no_failure_that_lasts() {
    let start = Instant::now();
    let mut schedule = ReceiveSchedule::new();
    schedule.on_error(start, &error(libc::EIO)).unwrap();
    let later = start + Duration::from_secs(3600);
    assert_eq!(schedule.on_error(later, &error(libc::EIO)), Ok(()));
}

#[test]
fn a_call_that_finds_nothing_ends_a_row_of_errors() {
    let start = Instant::now();
    let mut schedule = ReceiveSchedule::new();
    for n in 0..10_000 {
        let now = start + n * 10 * MS;
        schedule.on_error(now, &error(libc::ENOMEM)).unwrap();
        schedule.on_empty(now);
    }
}

#[test]
fn an_event_that_finds_nothing_is_followed_by_four_more_looks() {
    let start = Instant::now();
    let mut schedule = ReceiveSchedule::new();
    for event in [start, start + Duration::from_secs(60)] {
        schedule.on_readable();
        let mut looks = Vec::new();
        run(&mut schedule, event, event + Duration::from_secs(59), |schedule, now| {
            looks.push((now - event).as_millis());
            schedule.on_empty(now);
            Ok(())
        });
        assert_eq!(looks, [0, 10, 50, 210, 850]);
    }
}

/// A batch that is not full counts as the last: the call behind it is saved. An error in the middle
/// of a batch makes it look the same.
#[test]
fn the_socket_is_looked_at_again_after_a_batch_that_seemed_to_be_the_last() {
    let start = Instant::now();
    let mut schedule = ReceiveSchedule::new();
    schedule.on_received(start, false);
    assert!(!schedule.may_receive(start));
    assert_eq!(schedule.next(start), Some(start + FIRST_RECHECK));
    assert!(schedule.may_receive(start + FIRST_RECHECK));
}

#[test]
fn an_idle_socket_is_left_alone() {
    let start = Instant::now();
    let mut schedule = ReceiveSchedule::new();
    let end = start + Duration::from_secs(3600);
    let (calls, _) = run(&mut schedule, start, end, |schedule, now| {
        schedule.on_empty(now);
        Ok(())
    });
    assert!(calls <= 1 + RECHECKS, "{calls} calls in an hour");
    assert_eq!(schedule.next(end), None);
}
