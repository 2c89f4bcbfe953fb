//! The note's own measurement: the kernel's TCP, and its counters of delayed ACKs.

use std::ops::RangeInclusive;
use std::time::Duration;

use tack_emulator::tcp::SocketOptions;

use super::super::kernel_run::KernelRun;
use super::super::median;
use super::super::protocol_run::Route;
use super::{Context, Error};
use crate::application::kernel_tcp::TcpRun;
use crate::application::request_reply::{Client, Requests, Server, Step};
use crate::report::{Check, Colour, Series, Table};

/// A case of the note.
#[derive(Clone, Copy, Debug)]
struct Case {
    label: &'static str,
    requests: Requests,
    client: SocketOptions,
    server: SocketOptions,
}

const PLAIN: SocketOptions = SocketOptions { no_delay: false, quick_ack: false };
const NO_DELAY: SocketOptions = SocketOptions { no_delay: true, ..PLAIN };
const QUICK_ACK: SocketOptions = SocketOptions { quick_ack: true, ..PLAIN };

/// Two writes, without any option.
const STALLING: Case =
    Case { label: "two writes", requests: Requests::DEFAULT, client: PLAIN, server: PLAIN };
/// Where the note has no stall.
const OTHERS: [Case; 6] = [
    Case { label: "client -D", client: NO_DELAY, ..STALLING },
    Case { label: "server -q", server: QUICK_ACK, ..STALLING },
    Case {
        label: "one writev",
        requests: Requests { gathered: true, ..Requests::DEFAULT },
        ..STALLING
    },
    Case { label: "no body", requests: Requests { body: 0, ..Requests::DEFAULT }, ..STALLING },
    Case {
        label: "1448 bytes each",
        requests: Requests { header: 1448, body: 1448, reply: 1448, ..Requests::DEFAULT },
        ..STALLING
    },
    Case {
        label: "no reply (-N)",
        requests: Requests { replies: false, ..Requests::DEFAULT },
        ..STALLING
    },
];

const ROUTE: Route = Route::new(1000.0, 200);
/// The note's replies from the second on, ms, and how near is near: a tick of the kernel's clock each way.
const NOTE_MS: f64 = 40.9;
const NEAR_MS: RangeInclusive<f64> = 36.9..=44.9;
/// A reply that took less waited for no timer.
const NO_STALL_MS: f64 = 10.0;
/// Lines of the log that are shown: three requests.
const LOG: usize = 18;

/// What the kernel did.
#[derive(Default)]
pub(super) struct Kernel {
    pub tables: Vec<Table>,
    pub checks: Vec<Check>,
    pub lines: Vec<Series>,
    /// Why there is nothing.
    pub skipped: Option<String>,
}

struct Run {
    replies_ms: Vec<f64>,
    steps: Vec<Step>,
    tcp: TcpRun,
}

impl Run {
    fn first(&self) -> f64 {
        self.replies_ms.first().copied().unwrap_or(f64::NAN)
    }

    fn later(&self) -> f64 {
        median(self.replies_ms.iter().skip(1).copied()).unwrap_or(f64::NAN)
    }
}

/// The time between two requests: in real time, so the quick form waits less.
pub(super) fn pause(context: &Context) -> Duration {
    Duration::from_millis(context.pick(1000, 250))
}

pub(super) fn measure(context: &Context) -> Result<Kernel, Error> {
    let rounds = context.pick(20, 6);
    let pause = pause(context);
    let mut runs = Vec::new();
    for case in [STALLING].into_iter().chain(OTHERS) {
        let requests = Requests { rounds, pause, ..case.requests };
        let (mut client, mut server) = (Client::new(requests), Server::new(requests));
        let limit = (pause + Duration::from_secs(1)) * (rounds + 1);
        let options = [case.client, case.server];
        let form = (context.seed(), limit);
        let tcp = match ROUTE.run_tcp(case.label, options, form, &mut client, &mut server)? {
            KernelRun::Done(tcp) => tcp,
            KernelRun::Skipped(reason) => {
                return Ok(Kernel { skipped: Some(reason), ..Kernel::default() });
            }
        };
        let ms = |took: Duration| took.as_secs_f64() * 1e3;
        let replies_ms = client.rounds().iter().map(|round| ms(round.took)).collect();
        runs.push((case, Run { replies_ms, steps: client.steps().to_vec(), tcp }));
    }
    Ok(Kernel {
        tables: vec![table(&runs), log(&runs[0].1)],
        checks: checks(&runs),
        lines: lines(&runs),
        skipped: None,
    })
}

fn table(runs: &[(Case, Run)]) -> Table {
    let mut table = Table::new("Replies over kernel TCP, in real time: RTT 0.2 ms")
        .text("case", "case")
        .number("first_ms", "first reply", "ms", 2)
        .number("later_p50_ms", "later, p50", "ms", 2)
        .number("worst_ms", "worst", "ms", 2)
        .number("client_delayed_acks", "client's delayed ACKs", "", 0)
        .number("server_delayed_acks", "server's", "", 0)
        .number("server_reads", "server's reads", "", 0)
        .number("server_quick_reads", "with quick ACK (-v)", "", 0)
        .number("late_packets", "late", "", 0);
    for (case, run) in runs {
        let shown = |ms: f64| Some(ms).filter(|_| case.requests.replies);
        let worst = run.replies_ms.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let [client, server] = run.tcp.delayed_acks;
        let [_, (reads, quick)] = run.tcp.reads;
        table.row([
            case.label.into(),
            shown(run.first()).into(),
            shown(run.later()).into(),
            shown(worst).into(),
            client.into(),
            server.into(),
            reads.into(),
            quick.into(),
            run.tcp.late_packets.into(),
        ]);
    }
    table
}

/// The client's log in the form of the note: seconds since the start and since the line before.
fn log(run: &Run) -> Table {
    let mut table =
        Table::new("Two writes over kernel TCP: the client's log").text("step", "step");
    for step in run.steps.iter().take(LOG) {
        table.row([step.to_string().into()]);
    }
    table
}

fn checks(runs: &[(Case, Run)]) -> Vec<Check> {
    let mut checks = Vec::new();
    for (case, run) in runs {
        let what = |what: &str| format!("kernel TCP, {}: {what}", case.label);
        let (first, later) = (run.first(), run.later());
        if case.label == STALLING.label {
            checks.push(Check::paper(
                what("replies from the second on"),
                format!("{later:.1} ms"),
                format!("{NOTE_MS} ms ± 4 ms"),
                NEAR_MS.contains(&later),
            ));
            checks.push(Check::paper(
                what("the first reply"),
                format!("{first:.1} ms"),
                "no wait",
                first < NO_STALL_MS,
            ));
        } else if case.requests.replies {
            checks.push(Check::paper(
                what("replies from the second on"),
                format!("{later:.1} ms"),
                "no wait",
                later < NO_STALL_MS,
            ));
        } else {
            let delayed = run.tcp.delayed_acks[1];
            checks.push(Check::paper(
                what("delayed ACKs of the server"),
                delayed.to_string(),
                "none",
                delayed == 0,
            ));
        }
    }
    checks
}

/// What the plot shows: the case that stalls, and one that does not.
fn lines(runs: &[(Case, Run)]) -> Vec<Series> {
    let shown = runs.iter().take(2).zip([Colour::Orange, Colour::Pink]);
    let line = |((case, run), colour): (&(Case, Run), Colour)| {
        let points = run.replies_ms.iter().enumerate();
        let points = points.map(|(at, ms)| ((at + 1) as f64, *ms)).collect();
        Series::measured(format!("kernel TCP, {}", case.label), colour, points)
    };
    shown.map(line).collect()
}
