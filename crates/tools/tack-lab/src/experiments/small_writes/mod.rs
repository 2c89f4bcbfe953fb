//! A file in small writes: what it costs to wait for each of them.

mod kernel;
mod serial;

use std::time::Duration;

use serde_json::json;

use super::protocol_run::{Route, ack_packets};
use super::{Contender, Context, Error, Experiment, Findings, median};
use crate::application::raw_paste::{
    Device, DrainPolicy, Host, Interpreter, Upload, chunk_size,
};
use crate::report::{Axis, BarSeries, Chart, Check, Colour, Plot, Table};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "small-writes",
    title: "Uploads in small writes",
    question: "What does it bring to wait for acknowledgements by threshold, and not after each write?",
    paper: "A plan for uploads to MicroPython boards: a drain after each write of 256 bytes made them \
            slower than blocking writes, a threshold of 2 KiB and larger commands faster by 31 % at \
            10 KB.",
    measure,
};

const KIB: usize = 1 << 10;
/// The file whose figure the plan wants.
const FILE: usize = 10 * KIB;
const FILES: [usize; 5] = [KIB, 5 * KIB, FILE, 50 * KIB, 100 * KIB];
const WRITES: [usize; 4] = [64, 256, KIB, 4 * KIB];
/// The plan's write, and its command before it chose by memory.
const WRITE: usize = 256;
/// What the plan's board has free, and what others may have, bytes.
const FREE_MEMORY: usize = 293 * KIB;
const MEMORIES: [usize; 4] = [10 * KIB, 30 * KIB, 60 * KIB, FREE_MEMORY];
const WINDOWS: [u16; 5] = [128, 512, 2048, 8192, 32_768];
/// No limit for a command of these sizes.
const WIDE_WINDOW: u16 = u16::MAX;

const ROUTE: Route = Route::new(20.0, 20_000);
const TARGET_SAVED: f64 = 31.0;
const LIMIT: Duration = Duration::from_secs(120);
const STACKS: [Contender; 3] = [
    Contender::TACK,
    Contender::DELAYED.coloured(Colour::Grey),
    Contender::EVERY_SECOND.coloured(Colour::Sky),
];

/// A way to write.
#[derive(Clone, Copy, Debug)]
struct Writer {
    label: &'static str,
    drain: DrainPolicy,
}

const SYNC: Writer = Writer { label: "sync", drain: DrainPolicy::EachWrite };
const THRESHOLD: Writer = Writer { label: "threshold", drain: DrainPolicy::THRESHOLD };
const WRITERS: [Writer; 4] = [
    SYNC,
    THRESHOLD,
    Writer { label: "interval", drain: DrainPolicy::Interval(Duration::from_millis(100)) },
    Writer { label: "at the end", drain: DrainPolicy::AtEnd },
];

/// One upload.
#[derive(Clone, Copy, Debug)]
struct Cell {
    stack: Contender,
    writer: Writer,
    file: usize,
    chunk: usize,
    write: usize,
    window: u16,
}

/// What an upload took.
#[derive(Clone, Copy, Debug)]
struct Run {
    ms: f64,
    drains: u32,
    writes: u32,
    acks: u64,
}

impl Cell {
    /// A file of 10 KB as one command.
    const fn whole(stack: Contender, writer: Writer, write: usize) -> Self {
        Self { stack, writer, file: FILE, chunk: FILE, write, window: WIDE_WINDOW }
    }

    /// In commands: of the size that each write has where the writer is sync, by memory otherwise.
    fn commands(stack: Contender, writer: Writer, file: usize, memory: usize) -> Self {
        let by_memory = chunk_size(file, memory);
        let chunk = if writer.label == SYNC.label { WRITE } else { by_memory };
        Self { stack, writer, file, chunk, write: WRITE, window: WIDE_WINDOW }
    }

    fn upload(&self, poll: Duration) -> Upload {
        let Self { writer, file, chunk, write, .. } = *self;
        Upload { bytes: file, chunk, write, drain: writer.drain, poll }
    }

    fn run(&self, seed: u64) -> Result<Run, Error> {
        let interpreter = Interpreter {
            window: self.window,
            per_command: Duration::ZERO,
            per_byte: Duration::ZERO,
        };
        let mut host = Host::new(self.upload(Duration::ZERO));
        let mut device = Device::new(interpreter);
        let flow = ROUTE.run(&self.stack, (seed, LIMIT), &mut host, &mut device)?;
        Ok(Run::of(&host, ack_packets(&flow)))
    }
}

impl Run {
    fn of(host: &Host, acks: u64) -> Self {
        let ms = host.took().map_or(f64::NAN, |took| took.as_secs_f64() * 1e3);
        Self { ms, drains: host.drains(), writes: host.writes(), acks }
    }

    fn median(runs: &[Self]) -> Self {
        let of = |value: fn(&Self) -> f64| median(runs.iter().map(value)).unwrap_or(f64::NAN);
        Self {
            ms: of(|run| run.ms),
            drains: of(|run| run.drains.into()) as u32,
            writes: of(|run| run.writes.into()) as u32,
            acks: of(|run| run.acks as f64) as u64,
        }
    }
}

/// By how much less time the second takes, percent.
fn saved(sync: f64, other: f64) -> f64 {
    (1.0 - other / sync) * 100.0
}

fn run_all(context: &Context, cells: &[Cell], seeds: &[u64]) -> Result<Vec<Run>, Error> {
    let runs = context.each(cells, seeds, Cell::run)?;
    Ok(runs.iter().map(|runs| Run::median(runs)).collect())
}

fn measure(context: &Context) -> Result<Findings, Error> {
    let seeds = context.seeds(5, 1);
    let by_write = by_write(context, &seeds)?;
    let by_file = by_file(context, &seeds)?;
    let by_memory = by_memory(context, &seeds)?;
    let by_window = by_window(context, &seeds)?;
    let over_serial = serial::measure()?;
    let mut checks = vec![
        Check::at_least(
            "tacklib TACK, 10 KB in writes of 256 bytes: time saved by a threshold over sync",
            by_write.of_plan,
            "%",
            TARGET_SAVED,
        ),
        Check::at_least(
            "tacklib TACK, 10 KB in commands: time saved by threshold and size over sync",
            by_file.of_plan,
            "%",
            TARGET_SAVED,
        ),
        Check::at_least(
            "tacklib TACK, all writes and files: least time saved by a threshold over sync",
            by_write.worst.min(by_file.worst),
            "%",
            0.0,
        ),
    ];
    checks.extend(over_serial.checks);
    let mut tables =
        vec![by_write.table, by_file.table, by_memory, by_window, over_serial.table];
    let mut notes = notes();
    match kernel::measure(context)? {
        Ok(table) => tables.push(table),
        Err(reason) => notes.push(reason),
    }
    Ok(Findings {
        parameters: json!({
            "rate_mbps": ROUTE.rate_mbps,
            "rtt_ms": ROUTE.rtt_ms(),
            "write_bytes": WRITE,
            "threshold_bytes": 2048,
            "threshold_ms": 100,
            "free_memory_kib": FREE_MEMORY / KIB,
            "serial_bytes_per_second": serial::SERIAL.bytes_per_second,
            "board_window_bytes": serial::BOARD.window,
            "board_command_ms": serial::BOARD.per_command.as_secs_f64() * 1e3,
            "board_byte_us": serial::BOARD.per_byte.as_secs_f64() * 1e6,
            "poll_ms": serial::TICK.as_secs_f64() * 1e3,
        }),
        seeds,
        tables,
        plots: vec![by_write.plot],
        checks,
        notes,
    })
}

/// What a reader has to know.
fn notes() -> Vec<String> {
    vec![
            "A drain waits until the other end's transport has acknowledged all that was written. Sync \
             waits so after each write; its commands carry 256 bytes. Time saved is a share of \
             the time that sync takes, as in the plan."
                .to_owned(),
            "The board's times are fitted to the plan's table of chunk sizes, and held against another \
             table of it. That a polling writer looks at a clock of 15.6 ms is an assumption: \
             the plan says that it polls, and not how often."
                .to_owned(),
        ]
}

/// A table with what the checks and the plot need of it.
struct Comparison {
    table: Table,
    plot: Plot,
    /// Time saved over sync where the plan wants it, percent.
    of_plan: f64,
    /// The least of TACK.
    worst: f64,
}

fn by_write(context: &Context, seeds: &[u64]) -> Result<Comparison, Error> {
    let mut cells = Vec::new();
    for stack in STACKS {
        for write in WRITES {
            cells.extend(WRITERS.map(|writer| Cell::whole(stack, writer, write)));
        }
    }
    let runs = run_all(context, &cells, seeds)?;
    let mut table = columns(
        Table::new("10 KB as one command, by size of the writes")
            .text("stack", "stack")
            .number("write_bytes", "write", "bytes", 0)
            .text("writer", "writer"),
    );
    let (mut of_plan, mut worst) = (f64::NAN, f64::INFINITY);
    let mut series: Vec<BarSeries> = Vec::new();
    for (cells, runs) in cells.chunks(WRITERS.len()).zip(runs.chunks(WRITERS.len())) {
        for (cell, run) in cells.iter().zip(runs) {
            let front = [cell.stack.label.into(), cell.write.into(), cell.writer.label.into()];
            table.row(row(front, run, runs[0].ms));
            if cell.stack.label != Contender::TACK.label {
                continue;
            }
            let saved = saved(runs[0].ms, run.ms);
            if cell.writer.label == THRESHOLD.label {
                worst = worst.min(saved);
                if cell.write == WRITE {
                    of_plan = saved;
                }
            }
            match series.iter_mut().find(|bars| bars.label == cell.writer.label) {
                Some(bars) => bars.values.push(Some(run.ms)),
                None => series.push(BarSeries::measured(
                    cell.writer.label,
                    Colour::nth(series.len()),
                    [Some(run.ms)],
                )),
            }
        }
    }
    let plot = Plot::new(
        "10 KB over tacklib TACK, 20 Mbit/s and 20 ms, by size of the writes",
        Axis::linear(""),
        Axis::linear("upload, ms"),
        Chart::Bars { groups: WRITES.map(|write| format!("{write} bytes")).to_vec(), series },
    );
    Ok(Comparison { table, plot, of_plan, worst })
}

/// The same for files in commands; there is no plot of it.
struct ByFile {
    table: Table,
    of_plan: f64,
    worst: f64,
}

fn by_file(context: &Context, seeds: &[u64]) -> Result<ByFile, Error> {
    const PAIR: [Writer; 2] = [SYNC, THRESHOLD];
    let mut cells = Vec::new();
    for stack in STACKS {
        for file in FILES {
            cells.extend(PAIR.map(|writer| Cell::commands(stack, writer, file, FREE_MEMORY)));
        }
    }
    let runs = run_all(context, &cells, seeds)?;
    let mut table = columns(
        Table::new(
            "Files in commands: 256 bytes each, and by length and memory (293 KiB free)",
        )
        .text("stack", "stack")
        .number("file_kib", "file", "KiB", 0)
        .text("writer", "writer")
        .number("chunk_bytes", "command", "bytes", 0),
    );
    let (mut of_plan, mut worst) = (f64::NAN, f64::INFINITY);
    for (cells, runs) in cells.chunks(PAIR.len()).zip(runs.chunks(PAIR.len())) {
        for (cell, run) in cells.iter().zip(runs) {
            let front = [
                cell.stack.label.into(),
                (cell.file / KIB).into(),
                cell.writer.label.into(),
                cell.chunk.into(),
            ];
            table.row(row(front, run, runs[0].ms));
        }
        if cells[0].stack.label == Contender::TACK.label {
            let saved = saved(runs[0].ms, runs[1].ms);
            worst = worst.min(saved);
            if cells[0].file == FILE {
                of_plan = saved;
            }
        }
    }
    Ok(ByFile { table, of_plan, worst })
}

fn by_memory(context: &Context, seeds: &[u64]) -> Result<Table, Error> {
    let cells = MEMORIES.map(|memory| Cell::commands(STACKS[0], THRESHOLD, FILE, memory));
    let runs = run_all(context, &cells, seeds)?;
    let title =
        "10 KB over tacklib TACK in commands by the board's memory; saved: of 256 bytes";
    let mut table = columns(Table::new(title).number("memory_kib", "free", "KiB", 0).number(
        "chunk_bytes",
        "command",
        "bytes",
        0,
    ));
    for ((memory, cell), run) in MEMORIES.iter().zip(&cells).zip(&runs) {
        table.row(row([(memory / KIB).into(), cell.chunk.into()], run, runs[0].ms));
    }
    Ok(table)
}

fn by_window(context: &Context, seeds: &[u64]) -> Result<Table, Error> {
    let cells =
        WINDOWS.map(|window| Cell { window, ..Cell::whole(STACKS[0], THRESHOLD, WRITE) });
    let runs = run_all(context, &cells, seeds)?;
    let title =
        "10 KB over tacklib TACK as one command, by window of raw paste; saved: of 128 bytes";
    let mut table = columns(Table::new(title).number("window_bytes", "window", "bytes", 0));
    for (window, run) in WINDOWS.iter().zip(&runs) {
        table.row(row([(*window).into()], run, runs[0].ms));
    }
    Ok(table)
}

/// Adds the columns that all tables have.
fn columns(table: Table) -> Table {
    table
        .number("upload_ms", "upload", "ms", 1)
        .number("saved_percent", "saved", "%", 1)
        .number("writes", "writes", "", 0)
        .number("drains", "drains", "", 0)
        .number("ack_packets", "ACK packets", "", 0)
}

/// Their values, behind some others.
fn row<const N: usize>(
    front: [serde_json::Value; N],
    run: &Run,
    sync_ms: f64,
) -> Vec<serde_json::Value> {
    let values: [serde_json::Value; 5] = [
        run.ms.into(),
        saved(sync_ms, run.ms).into(),
        run.writes.into(),
        run.drains.into(),
        run.acks.into(),
    ];
    front.into_iter().chain(values).collect()
}
