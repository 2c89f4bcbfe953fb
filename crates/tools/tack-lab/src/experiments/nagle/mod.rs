//! Requests in two parts over stacks that acknowledge late: what does a reply cost?

mod kernel;

use std::time::Duration;

use serde_json::{Value, json};

use super::protocol_run::{Route, ack_packets};
use super::{Contender, Context, Error, Experiment, Findings, median};
use crate::application::request_reply::{Client, Requests, Server};
use crate::report::{Axis, Chart, Check, Colour, Plot, Series, Table};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "nagle",
    title: "Requests in two parts",
    question: "Does a reply to a request of two small writes wait for an acknowledgement?",
    paper: "A note on Nagle's algorithm and delayed ACKs: over TCP every reply but the first is 40 ms \
            late if header and body are written apart and the receiver delays its ACK.",
    measure,
};

/// A pattern of the note.
#[derive(Clone, Copy, Debug)]
struct Pattern {
    label: &'static str,
    requests: Requests,
}

const PATTERNS: [Pattern; 5] = [
    Pattern { label: "two writes", requests: Requests::DEFAULT },
    Pattern { label: "one writev", requests: Requests { gathered: true, ..Requests::DEFAULT } },
    Pattern { label: "no body", requests: Requests { body: 0, ..Requests::DEFAULT } },
    Pattern {
        label: "1448 bytes each",
        requests: Requests { header: 1448, body: 1448, reply: 1448, ..Requests::DEFAULT },
    },
    Pattern {
        label: "no reply (-N)",
        requests: Requests { replies: false, ..Requests::DEFAULT },
    },
];

const ROUTES: [Route; 3] =
    [Route::new(1000.0, 200), Route::new(100.0, 20_000), Route::new(100.0, 100_000)];
/// What the plot shows.
const SHOWN: (usize, usize) = (0, 0);
const STACKS: [Contender; 5] = [
    Contender::TACK,
    Contender::TACK_QUICK.coloured(Colour::Violet),
    Contender::DELAYED.coloured(Colour::Sky),
    Contender::QUICHE_CUBIC,
    Contender::QUINN,
];
/// What a reply over tacklib may take beyond the round trip.
const SLACK_MS: f64 = 2.0;

/// What one run found.
struct Run {
    /// What each reply took beyond the round trip, ms.
    beyond_ms: Vec<f64>,
    acks: u64,
}

/// A path, a pattern and a stack.
type Cell = (Route, Pattern, Contender);

fn measure(context: &Context) -> Result<Findings, Error> {
    let seeds = context.seeds(5, 1);
    let rounds = context.pick(20, 6);
    let mut cells = Vec::new();
    for route in ROUTES {
        for pattern in PATTERNS {
            cells.extend(STACKS.map(|stack| (route, pattern, stack)));
        }
    }
    let runs = context.each(&cells, &seeds, |(route, pattern, stack), seed| {
        let requests = Requests { rounds, ..pattern.requests };
        let (mut client, mut server) = (Client::new(requests), Server::new(requests));
        let limit = (requests.pause + Duration::from_secs(1)) * (rounds + 1);
        let flow = route.run(stack, (seed, limit), &mut client, &mut server)?;
        let beyond = |took: Duration| took.as_secs_f64() * 1e3 - route.rtt_ms();
        Ok(Run {
            beyond_ms: client.rounds().iter().map(|round| beyond(round.took)).collect(),
            acks: ack_packets(&flow),
        })
    })?;
    let kernel = kernel::measure(context)?;
    let mut tables = vec![table(&cells, &runs, rounds)];
    tables.extend(kernel.tables);
    let mut lines = lines(&cells, &runs);
    lines.extend(kernel.lines);
    let mut checks = vec![check(&cells, &runs)];
    checks.extend(kernel.checks);
    let mut notes = vec![
        "Of two writes the stack sends the first before it is given the second: QUIC has no Nagle's \
         algorithm, and no stack here holds a small write back."
            .to_owned(),
    ];
    notes.extend(kernel.skipped);
    Ok(Findings {
        parameters: parameters(context, rounds),
        seeds,
        tables,
        plots: vec![Plot::new(
            "Replies to requests of two writes, RTT 0.2 ms",
            Axis::linear("request"),
            Axis::linear("reply, ms"),
            Chart::Lines { series: lines },
        )],
        checks,
        notes,
    })
}

/// What the slowest reply took beyond the round trip.
fn worst_ms(runs: &[Run]) -> f64 {
    let all = runs.iter().flat_map(|run| run.beyond_ms.iter().copied());
    all.fold(f64::NEG_INFINITY, f64::max)
}

fn table(cells: &[Cell], runs: &[Vec<Run>], rounds: u32) -> Table {
    let mut table =
        Table::new("Replies, in virtual time: what they take beyond the round trip")
            .number("rtt_ms", "RTT", "ms", 1)
            .text("pattern", "pattern")
            .text("stack", "stack")
            .number("first_ms", "first reply", "ms", 2)
            .number("later_p50_ms", "later, p50", "ms", 2)
            .number("worst_ms", "worst", "ms", 2)
            .number("acks_per_request", "ACKs/request", "", 2);
    for ((route, pattern, stack), runs) in cells.iter().zip(runs) {
        let first = runs.iter().filter_map(|run| run.beyond_ms.first().copied());
        let later = runs.iter().flat_map(|run| run.beyond_ms.iter().skip(1).copied());
        let acks = runs.iter().map(|run| run.acks as f64 / f64::from(rounds));
        let shown = |value: Option<f64>| value.filter(|_| pattern.requests.replies);
        table.row([
            route.rtt_ms().into(),
            pattern.label.into(),
            stack.label.into(),
            shown(median(first)).into(),
            shown(median(later)).into(),
            shown(Some(worst_ms(runs))).into(),
            median(acks).into(),
        ]);
    }
    table
}

/// What the plot shows, of the first seed.
fn lines(cells: &[Cell], runs: &[Vec<Run>]) -> Vec<Series> {
    let shown = cells.iter().zip(runs).filter(|((route, pattern, _), _)| {
        *route == ROUTES[SHOWN.0] && pattern.label == PATTERNS[SHOWN.1].label
    });
    let line = |((route, _, stack), runs): (&Cell, &Vec<Run>)| {
        let points = runs[0].beyond_ms.iter().enumerate();
        let points = points.map(|(at, ms)| ((at + 1) as f64, ms + route.rtt_ms()));
        Series::measured(stack.label, stack.colour, points.collect())
    };
    shown.map(line).collect()
}

/// The target: how late the worst reply over TACK may be.
fn check(cells: &[Cell], runs: &[Vec<Run>]) -> Check {
    let of_tack = cells.iter().zip(runs).filter(|((_, pattern, stack), _)| {
        pattern.requests.replies && stack.label == Contender::TACK.label
    });
    let worst = of_tack.map(|(_, runs)| worst_ms(runs)).fold(f64::NEG_INFINITY, f64::max);
    Check::at_most(
        "tacklib TACK: worst reply beyond the round trip, all patterns and paths",
        worst,
        "ms",
        SLACK_MS,
    )
}

fn parameters(context: &Context, rounds: u32) -> Value {
    json!({
        "header_bytes": Requests::DEFAULT.header,
        "body_bytes": Requests::DEFAULT.body,
        "reply_bytes": Requests::DEFAULT.reply,
        "pause_s": Requests::DEFAULT.pause.as_secs_f64(),
        "kernel_pause_s": kernel::pause(context).as_secs_f64(),
        "rounds": rounds,
        "paths": ROUTES.map(|route| json!({
            "rate_mbps": route.rate_mbps,
            "rtt_ms": route.rtt_ms(),
        })),
    })
}
