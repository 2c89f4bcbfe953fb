//! Application protocols over real stacks in virtual time.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail anywhere")]

#[path = "../../../tack-ffi/tests/skip/mod.rs"]
mod skip;

use std::time::Duration;

use skip::skip;
use tack_emulator::tcp::{Congestion, ConnectionOptions, SocketOptions};
use tack_lab::application::adb::{self, Push};
use tack_lab::application::kernel_tcp::{self, TcpError, TcpRun};
use tack_lab::application::raw_paste::{self, DrainPolicy, Interpreter, Upload};
use tack_lab::application::request_reply::{Client, Requests, Server};
use tack_lab::application::{Application, ApplicationError};
use tack_lab::sim::{self, Error, Flow, FlowReport, Load, Scenario, Stack};
use tack_link::spec::{LinkSpec, PathSpec};

const STACKS: [Stack; 3] = [Stack::Tack, Stack::Plain, Stack::Quinn];
const RTT: Duration = Duration::from_millis(20);

fn scenario(stack: Stack, rtt: Duration, seed: u64) -> Scenario {
    let path = PathSpec::with_rtt(rtt);
    let flow = Flow::new(stack, stack.own_acks(), stack.own_congestion(), path);
    Scenario {
        link: LinkSpec::resolve("pipe:100").unwrap(),
        flows: vec![Flow { load: Load::Applications, ..flow }],
        duration: Duration::from_secs(60),
        warm_up: Duration::ZERO,
        bin: Duration::from_secs(60),
        seed,
    }
}

fn run(
    stack: Stack,
    client: &mut dyn Application,
    server: &mut dyn Application,
) -> Result<FlowReport, Error> {
    run_over(RTT, stack, client, server)
}

fn run_over(
    rtt: Duration,
    stack: Stack,
    client: &mut dyn Application,
    server: &mut dyn Application,
) -> Result<FlowReport, Error> {
    let scenario = scenario(stack, rtt, 7);
    sim::run_applications(&scenario, client, server).map(|mut report| report.flows.remove(0))
}

#[test]
fn no_stack_holds_the_second_of_two_small_writes_back() {
    for stack in STACKS {
        let (mut client, mut server) =
            (Client::new(Requests::DEFAULT), Server::new(Requests::DEFAULT));
        let flow = run(stack, &mut client, &mut server).unwrap();
        assert_eq!((client.rounds().len(), server.requests()), (6, 6), "{stack:?}");
        for round in client.rounds() {
            let beyond = round.took.checked_sub(RTT).unwrap();
            assert!(beyond < Duration::from_millis(2), "{stack:?}: {beyond:?}");
        }
        assert!(flow.completion_ms.unwrap() > 5000.0, "{stack:?}: five pauses of a second");
    }
}

#[test]
fn requests_of_three_packets_do_not_wait_for_their_own_rate_however_many_there_are() {
    let rtt = Duration::from_millis(100);
    let requests = Requests {
        header: 1448,
        body: 1448,
        reply: 1448,
        rounds: 20,
        pause: Duration::from_millis(250),
        ..Requests::DEFAULT
    };
    for stack in STACKS {
        let (mut client, mut server) = (Client::new(requests), Server::new(requests));
        run_over(rtt, stack, &mut client, &mut server).unwrap();
        for (number, round) in client.rounds().iter().enumerate() {
            let beyond = round.took.checked_sub(rtt).unwrap();
            assert!(beyond < Duration::from_millis(2), "{stack:?} {number}: {beyond:?}");
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_times() {
    let times = || {
        let (mut client, mut server) =
            (Client::new(Requests::DEFAULT), Server::new(Requests::DEFAULT));
        run(Stack::Tack, &mut client, &mut server).unwrap();
        client.rounds().to_vec()
    };
    assert_eq!(times(), times());
}

#[test]
fn a_push_arrives_whole_over_every_stack_and_credit_makes_it_faster() {
    for stack in STACKS {
        let push = |wish| {
            let push = Push { bytes: 1 << 20, payload: 64 << 10, wish };
            let (mut host, mut device) =
                (adb::Host::new(push), adb::Device::new(Some(1 << 20)));
            run(stack, &mut host, &mut device).unwrap();
            assert_eq!(device.received(), 1 << 20, "{stack:?}");
            assert_eq!(host.uses_delayed_ack(), wish.is_some(), "{stack:?}");
            host.took().unwrap()
        };
        let (one_at_a_time, credit) = (push(None), push(Some(1 << 20)));
        // Sixteen writes, each of which waits for its answer.
        assert!(one_at_a_time > RTT * 16, "{stack:?}: {one_at_a_time:?}");
        assert!(credit * 2 < one_at_a_time, "{stack:?}: {credit:?} {one_at_a_time:?}");
    }
}

fn upload(stack: Stack, drain: DrainPolicy) -> Result<Duration, Error> {
    let interpreter =
        Interpreter { window: u16::MAX, per_command: Duration::ZERO, per_byte: Duration::ZERO };
    let (bytes, poll) = (10 << 10, Duration::ZERO);
    let upload = Upload { bytes, chunk: bytes, write: 256, drain, poll };
    let mut host = raw_paste::Host::new(upload);
    let mut device = raw_paste::Device::new(interpreter);
    run(stack, &mut host, &mut device)?;
    assert_eq!(device.written(), bytes);
    Ok(host.took().unwrap())
}

#[test]
fn a_drain_waits_for_the_acknowledgements_of_a_tack_stack() {
    let each = upload(Stack::Tack, DrainPolicy::EachWrite).unwrap();
    let threshold = upload(Stack::Tack, DrainPolicy::THRESHOLD).unwrap();
    // 43 writes and 6 drains, a round trip each at least.
    assert!(each > RTT * 43, "{each:?}");
    assert!(threshold > RTT * 7 && threshold * 3 < each, "{threshold:?} {each:?}");
}

#[test]
fn a_drain_fails_where_the_stack_does_not_tell_of_acknowledgements() {
    for stack in [Stack::Plain, Stack::Quinn] {
        let error = upload(stack, DrainPolicy::EachWrite).unwrap_err();
        let unknown =
            matches!(error, Error::Application { error: ApplicationError::DrainUnknown, .. });
        assert!(unknown, "{stack:?}: {error}");
        assert!(upload(stack, DrainPolicy::AtEnd).is_ok(), "{stack:?}");
    }
}

#[test]
fn a_load_without_applications_and_applications_without_the_load_are_refused() {
    let error = sim::run(&scenario(Stack::Tack, RTT, 1)).unwrap_err();
    assert!(matches!(error, Error::Scenario { .. }), "{error}");
    let mut bulk = scenario(Stack::Tack, RTT, 1);
    bulk.flows[0].load = Load::Bytes(1);
    let (mut client, mut server) =
        (Client::new(Requests::DEFAULT), Server::new(Requests::DEFAULT));
    let error = sim::run_applications(&bulk, &mut client, &mut server).unwrap_err();
    assert!(matches!(error, Error::Scenario { .. }), "{error}");
}

/// The protocol over the kernel's TCP; `None`, and says why, where links cannot be emulated.
fn run_tcp(
    options: [SocketOptions; 2],
    client: &mut (dyn Application + Send),
    server: &mut (dyn Application + Send),
) -> Option<TcpRun> {
    let spec = LinkSpec::resolve("pipe:100").unwrap();
    let path = PathSpec::with_rtt(Duration::from_millis(2));
    let options = ConnectionOptions {
        link: spec.build(&path, 1).unwrap(),
        congestion: Congestion::Cubic,
        client: options[0],
        server: options[1],
    };
    match kernel_tcp::run(options, client, server, Duration::from_secs(30)) {
        Ok(run) => Some(run),
        Err(error) if error.is_unavailable() => {
            skip(format_args!("{error}"));
            None
        }
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn nagle_waits_for_delayed_acks_of_kernel_tcp() {
    let requests = Requests { pause: Duration::from_millis(20), ..Requests::DEFAULT };
    let (mut client, mut server) = (Client::new(requests), Server::new(requests));
    let plain = [SocketOptions::default(); 2];
    let Some(run) = run_tcp(plain, &mut client, &mut server) else { return };
    assert_eq!((client.rounds().len(), server.requests()), (6, 6));
    // A body leaves when the header is acknowledged, which from the second request on a timer does.
    assert!(run.delayed_acks[1] >= 4, "{run:?}");
}

#[test]
fn quick_acks_are_in_force_at_each_read_if_asked_for() {
    let requests = Requests { pause: Duration::from_millis(20), ..Requests::DEFAULT };
    let (mut client, mut server) = (Client::new(requests), Server::new(requests));
    let quick = SocketOptions { quick_ack: true, ..SocketOptions::default() };
    let options = [SocketOptions::default(), quick];
    let Some(run) = run_tcp(options, &mut client, &mut server) else { return };
    let (reads, with_quick_ack) = run.reads[1];
    assert!(reads >= 6 && reads == with_quick_ack, "{run:?}");
}

#[test]
fn a_push_and_an_upload_arrive_whole_over_kernel_tcp() {
    let push = Push { bytes: 1 << 20, payload: 64 << 10, wish: Some(1 << 20) };
    let (mut host, mut device) = (adb::Host::new(push), adb::Device::new(Some(1 << 20)));
    let plain = [SocketOptions::default(); 2];
    if run_tcp(plain, &mut host, &mut device).is_none() {
        return;
    }
    assert_eq!(device.received(), 1 << 20);
    let interpreter = Interpreter {
        window: 128,
        per_command: Duration::from_millis(1),
        per_byte: Duration::ZERO,
    };
    let drain = DrainPolicy::THRESHOLD;
    let upload = Upload { bytes: 5000, chunk: 2048, write: 64, drain, poll: Duration::ZERO };
    let mut host = raw_paste::Host::new(upload);
    let mut device = raw_paste::Device::new(interpreter);
    run_tcp(plain, &mut host, &mut device).unwrap();
    assert_eq!((device.written(), device.commands()), (5000, 3));
}

#[test]
fn an_end_that_breaks_the_protocol_is_named_over_kernel_tcp() {
    let push = Push { bytes: 1 << 20, payload: 64 << 10, wish: None };
    let mut host = adb::Host::new(push);
    let mut device = raw_paste::Device::new(Interpreter {
        window: 128,
        per_command: Duration::ZERO,
        per_byte: Duration::ZERO,
    });
    let spec = LinkSpec::resolve("pipe:100").unwrap();
    let options = ConnectionOptions {
        link: spec.build(&PathSpec::default(), 1).unwrap(),
        congestion: Congestion::Cubic,
        client: SocketOptions::default(),
        server: SocketOptions::default(),
    };
    let error =
        kernel_tcp::run(options, &mut host, &mut device, Duration::from_secs(30)).unwrap_err();
    let named = matches!(&error, TcpError::Application(ApplicationError::Protocol { .. }));
    assert!(error.is_unavailable() || named, "{error}");
}
