//! Uploads to a board on a serial line, as the plan has them, without a transport.

use std::ops::RangeInclusive;
use std::time::Duration;

use super::{
    Cell, Contender, Error, FILE, FREE_MEMORY, KIB, LIMIT, Run, SYNC, THRESHOLD, WRITE, Writer,
    columns, row, saved,
};
use crate::application::cable::Cable;
use crate::application::raw_paste::{Device, Host, Interpreter, chunk_size};
use crate::report::{Check, Table};

/// A clock of Windows, which a polling writer looks at.
pub(super) const TICK: Duration = Duration::from_micros(15_625);
/// A board on USB: what the note calls a serial port.
pub(super) const SERIAL: Cable =
    Cable { bytes_per_second: 1e6, delay: Duration::from_micros(250) };
/// Least squares of the plan's table of chunk sizes (256 to 2048 bytes: 2.393, 1.965, 1.710 and 1.494 s).
pub(super) const BOARD: Interpreter = Interpreter {
    window: 128,
    per_command: Duration::from_micros(24_770),
    per_byte: Duration::from_nanos(139_300),
};
/// What the plan found for 10 KB in the end, seconds: sync and async.
const PLAN: [f64; 2] = [2.242, 1.548];
/// How near a gain has to come to the plan's to agree with it, percentage points.
const NEAR: RangeInclusive<f64> = -6.0..=6.0;

/// What the plan has, with a board and without a transport.
pub(super) struct OverSerial {
    pub table: Table,
    pub checks: Vec<Check>,
}

pub(super) fn measure() -> Result<OverSerial, Error> {
    let run = |writer: Writer, chunk: usize, poll: Duration| {
        let cell = Cell { chunk, ..Cell::whole(Contender::TACK, writer, chunk.min(2 * KIB)) };
        let (mut host, mut device) = (Host::new(cell.upload(poll)), Device::new(BOARD));
        SERIAL.run(&mut host, &mut device, LIMIT)?;
        Ok::<_, Error>(Run::of(&host, 0))
    };
    let by_memory = chunk_size(FILE, FREE_MEMORY);
    let each = Writer { label: "drain after each write", ..SYNC };
    let sync = run(SYNC, WRITE, Duration::ZERO)?;
    let rows = [
        ("sync", WRITE, Duration::ZERO, sync),
        (each.label, WRITE, TICK, run(each, WRITE, TICK)?),
        ("threshold", WRITE, TICK, run(THRESHOLD, WRITE, TICK)?),
        ("threshold", by_memory, TICK, run(THRESHOLD, by_memory, TICK)?),
        ("threshold", by_memory, Duration::ZERO, run(THRESHOLD, by_memory, Duration::ZERO)?),
    ];
    let mut table = columns(
        Table::new("10 KB to a board on a serial line, without a transport")
            .text("writer", "writer")
            .number("chunk_bytes", "command", "bytes", 0)
            .number("poll_ms", "polls", "ms", 1),
    );
    for (label, chunk, poll, run) in &rows {
        let poll_ms = (poll.as_secs_f64() * 1e3).into();
        table.row(row([(*label).into(), (*chunk).into(), poll_ms], run, sync.ms));
    }
    let [_, each, _, _, auto] = rows.map(|(.., run)| run);
    let plan = saved(PLAN[0], PLAN[1]);
    let found = saved(sync.ms, auto.ms);
    let checks = vec![
        Check::paper(
            "board on a serial line: time saved by threshold and size over sync",
            format!("{found:.1} %"),
            format!("{plan:.1} % ± {:.0} points", NEAR.end()),
            NEAR.contains(&(found - plan)),
        ),
        Check::paper(
            "board on a serial line: a polling drain after each write, beside sync",
            format!("{:.0} ms and {:.0} ms", each.ms, sync.ms),
            "slower",
            each.ms > sync.ms,
        ),
    ];
    Ok(OverSerial { table, checks })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fitted_board_agrees_with_the_plan_s_other_table_on_both_sides() {
        let found = measure().unwrap();
        assert!(found.checks.iter().all(|check| check.passed), "{:?}", found.checks);
        assert!(!NEAR.contains(&(saved(1.0, 1.0) - saved(PLAN[0], PLAN[1]))), "no gain is far");
        assert!(!NEAR.contains(&(100.0 - saved(PLAN[0], PLAN[1]))), "no time is far");
    }
}
