//! `tack-lab nagle`: requests in two parts, and what a reply to each takes.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, bail};
use clap::ValueEnum;
use serde::Serialize;
use tack_emulator::tcp::{Congestion, ConnectionOptions, SocketOptions};
use tack_link::spec::LinkSpec;

use super::tun::{ChosenLink, LinkArgs};
use crate::application::kernel_tcp::{self, TcpRun};
use crate::application::request_reply::{Client, Requests, Server, Step};
use crate::experiments::median;
use crate::output;
use crate::sim::{self, Flow, Load, Scenario, Stack};
use crate::versions::Versions;

/// The longest message, bytes.
const LONGEST: u32 = 16 << 20;

/// Requests of a header and a body, and what the replies take.
///
/// Over the kernel's TCP (in real time; needs root) Nagle's algorithm keeps the body back until the
/// header is acknowledged, and the receiver delays that. Over a QUIC stack (in virtual time) nothing
/// waits.
#[derive(Clone, Debug, clap::Args, Serialize)]
#[command(after_help = "Example:\n  \
    sudo tack-lab nagle --link pipe:1000 --rtt 0.2 -v\n  \
    sudo tack-lab nagle --link pipe:1000 --rtt 0.2 -D")]
pub struct Args {
    #[command(flatten)]
    #[serde(flatten)]
    link: LinkArgs,
    /// What is below the requests
    #[arg(long, value_enum, default_value_t = Transport::Kernel)]
    stack: Transport,
    /// Bytes of a header
    #[arg(short = 'H', long, default_value_t = 512, value_name = "BYTES",
          value_parser = clap::value_parser!(u32).range(1..=i64::from(LONGEST)))]
    header: u32,
    /// Bytes of a body; 0 for requests of a header alone
    #[arg(short = 'B', long, default_value_t = 512, value_name = "BYTES",
          value_parser = clap::value_parser!(u32).range(0..=i64::from(LONGEST)))]
    body: u32,
    /// Bytes of a reply
    #[arg(short = 'R', long, default_value_t = 1448, value_name = "BYTES",
          value_parser = clap::value_parser!(u32).range(1..=i64::from(LONGEST)))]
    reply: u32,
    /// TCP_NODELAY: without Nagle's algorithm at this end, the client if none is named
    #[arg(short = 'D', long, value_enum, value_name = "END", num_args = 0..=1,
          default_missing_value = "client", require_equals = true)]
    no_delay: Option<Ends>,
    /// TCP_QUICKACK before each read at this end, the server if none is named
    #[arg(short = 'q', long, value_enum, value_name = "END", num_args = 0..=1,
          default_missing_value = "server", require_equals = true)]
    quick_ack: Option<Ends>,
    /// The server does not reply
    #[arg(short = 'N', long)]
    no_reply: bool,
    /// Header and body are written in one call
    #[arg(long)]
    writev: bool,
    /// How many requests
    #[arg(long, default_value_t = 6, value_name = "N",
          value_parser = clap::value_parser!(u32).range(1..=100_000))]
    requests: u32,
    /// Milliseconds from a reply to the next request
    #[arg(long, default_value_t = 1000, value_name = "MS",
          value_parser = clap::value_parser!(u64).range(0..=3_600_000))]
    pause: u64,
    /// Print each call of the client, and how many reads had TCP_QUICKACK in force
    #[arg(short, long)]
    #[serde(skip)]
    verbose: bool,
}

/// What carries the requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
enum Transport {
    /// The kernel's TCP with CUBIC.
    Kernel,
    /// tacklib.
    Tack,
    /// quiche, without our layer.
    Plain,
    /// quinn-proto.
    Quinn,
}

/// One end of a connection, or both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
enum Ends {
    /// The end that asks.
    Client,
    /// The end that replies.
    Server,
    /// Both ends.
    Both,
}

/// What is printed as JSON.
#[derive(Serialize)]
struct Report<'a> {
    /// What each reply took; empty without replies.
    replies_ms: &'a [f64],
    /// Of the client and the server, over TCP.
    delayed_acks: Option<[u64; 2]>,
    /// Reads of the client and the server, and those with `TCP_QUICKACK`, over TCP.
    reads: Option<[(u32, u32); 2]>,
    parameters: Parameters<'a>,
    versions: Versions,
}

#[derive(Serialize)]
struct Parameters<'a> {
    #[serde(flatten)]
    args: &'a Args,
    rtt: f64,
    link_spec: LinkSpec,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<ExitCode> {
    let requests = args.pattern();
    let chosen = args.link.choose()?;
    let (spec, path) = (chosen.spec.clone(), chosen.path);
    let (mut client, mut server) = (Client::new(requests), Server::new(requests));
    let tcp = args.measure(chosen, &mut client, &mut server)?;
    let ms = |took: Duration| took.as_secs_f64() * 1e3;
    let rounds = client.rounds().iter().filter(|_| requests.replies);
    let replies_ms: Vec<_> = rounds.map(|round| ms(round.took)).collect();
    if args.link.json {
        output::json(&Report {
            replies_ms: &replies_ms,
            delayed_acks: tcp.as_ref().map(|tcp| tcp.delayed_acks),
            reads: tcp.as_ref().map(|tcp| tcp.reads),
            parameters: Parameters { args, rtt: ms(path.rtt), link_spec: spec },
            versions: Versions::of_this_build(),
        })?;
    } else {
        output::text(&table(args, &replies_ms, client.steps(), tcp.as_ref()))?;
    }
    match tcp.and_then(|tcp| tcp.invalid) {
        Some(reason) if !args.link.allow_misses => bail!("this run does not count: {reason}"),
        _ => Ok(ExitCode::SUCCESS),
    }
}

impl Args {
    fn pattern(&self) -> Requests {
        Requests {
            header: self.header as usize,
            body: self.body as usize,
            reply: self.reply as usize,
            replies: !self.no_reply,
            gathered: self.writev,
            rounds: self.requests,
            pause: Duration::from_millis(self.pause),
        }
    }

    /// The options of the sockets of client and server.
    fn options(&self) -> [SocketOptions; 2] {
        let has = |ends: Option<Ends>, end| ends == Some(end) || ends == Some(Ends::Both);
        [Ends::Client, Ends::Server].map(|end| SocketOptions {
            no_delay: has(self.no_delay, end),
            quick_ack: has(self.quick_ack, end),
        })
    }

    /// Runs the requests; what TCP did, if it was TCP.
    fn measure(
        &self,
        ChosenLink { spec, path, link }: ChosenLink,
        client: &mut Client,
        server: &mut Server,
    ) -> Result<Option<TcpRun>> {
        // A minute for each request is more than any link of the lab needs.
        let limit = Duration::from_millis(self.pause + 60_000) * (self.requests + 1);
        let stack = match self.stack {
            Transport::Kernel => {
                let [of_client, of_server] = self.options();
                let congestion = Congestion::Cubic;
                let options = ConnectionOptions {
                    link,
                    congestion,
                    client: of_client,
                    server: of_server,
                };
                return Ok(Some(kernel_tcp::run(options, client, server, limit)?));
            }
            Transport::Tack => Stack::Tack,
            Transport::Plain => Stack::Plain,
            Transport::Quinn => Stack::Quinn,
        };
        if self.no_delay.is_some() || self.quick_ack.is_some() {
            bail!("-D and -q are options of TCP: --stack kernel has them, QUIC stacks do not");
        }
        let flow = Flow::new(stack, stack.own_acks(), stack.own_congestion(), path);
        let scenario = Scenario {
            link: spec,
            flows: vec![Flow { load: Load::Applications, ..flow }],
            duration: limit,
            warm_up: Duration::ZERO,
            bin: limit,
            seed: self.link.seed(),
        };
        let report = sim::run_applications(&scenario, client, server)?;
        if report.flows.iter().any(|flow| flow.completion_ms.is_none()) {
            bail!("no reply for {} s", limit.as_secs());
        }
        Ok(None)
    }
}

fn table(args: &Args, replies_ms: &[f64], steps: &[Step], tcp: Option<&TcpRun>) -> String {
    let mut lines = Vec::new();
    if args.verbose {
        lines.extend(steps.iter().map(ToString::to_string));
        lines.push(String::new());
    }
    let mut add = |name: &str, value: String| lines.push(format!("{name:<34}{value:>14}"));
    if let Some(first) = replies_ms.first() {
        add("first reply, ms", format!("{first:.3}"));
    }
    if let Some(later) = median(replies_ms.iter().skip(1).copied()) {
        add("later replies, median, ms", format!("{later:.3}"));
    }
    if let Some(TcpRun { delayed_acks, reads, .. }) = tcp {
        for (end, (delayed, (reads, quick))) in
            ["client", "server"].iter().zip(delayed_acks.iter().zip(reads))
        {
            add(&format!("delayed ACKs of the {end}"), delayed.to_string());
            if args.verbose {
                add(&format!("reads of the {end}"), reads.to_string());
                add("  of these with TCP_QUICKACK", quick.to_string());
            }
        }
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::testing::parse;

    #[test]
    fn options_without_an_end_are_those_that_end_the_stall() {
        let [client, server] = parse::<Args>("-D -q").unwrap().options();
        assert!(client.no_delay && !client.quick_ack, "{client:?}");
        assert!(server.quick_ack && !server.no_delay, "{server:?}");
        let [client, server] = parse::<Args>("-D=both -q=client").unwrap().options();
        assert!(client.no_delay && server.no_delay && client.quick_ack && !server.quick_ack);
    }

    #[test]
    fn sizes_are_those_of_the_note_unless_given() {
        let requests = parse::<Args>("").unwrap().pattern();
        assert_eq!(requests, Requests::DEFAULT);
        let requests = parse::<Args>("-H 1448 -B 0 -R 7 -N --writev").unwrap().pattern();
        assert_eq!((requests.header, requests.body, requests.reply), (1448, 0, 7));
        assert!(!requests.replies && requests.gathered);
        for wrong in ["-H 0", "-R 0", "-B 16777217", "--requests 0"] {
            assert!(parse::<Args>(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn options_of_tcp_are_refused_for_quic_with_what_has_them() {
        let args = parse::<Args>("--stack tack --link pipe:100 --rtt 1 -D").unwrap();
        let error = run(&args).unwrap_err().to_string();
        assert!(error.contains("--stack kernel"), "{error}");
    }

    #[test]
    fn a_quic_stack_answers_in_virtual_time() {
        let line = "--stack tack --link pipe:100 --rtt 20 --requests 3 -v";
        let args = parse::<Args>(line).unwrap();
        let requests = args.pattern();
        let (mut client, mut server) = (Client::new(requests), Server::new(requests));
        let chosen = args.link.choose().unwrap();
        assert!(args.measure(chosen, &mut client, &mut server).unwrap().is_none());
        let text = table(&args, &[20.3, 20.2, 20.2], client.steps(), None);
        assert!(text.contains("0.000000 0.000000 client: will write header"), "{text}");
        assert!(text.contains("first reply, ms") && text.contains("20.300"), "{text}");
    }
}
