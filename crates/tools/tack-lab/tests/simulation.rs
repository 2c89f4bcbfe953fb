//! Real stacks in virtual time.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail anywhere")]

use std::thread;
use std::time::Duration;

use tack_lab::sim::{
    Acks, Call, Congestion, EndConfig, Error, Flow, FlowReport, FrameRate, Frames, Load, Media,
    Scenario, Stack, run, run_traced,
};
use tack_link::spec::{LinkSpec, PathSpec};
use tacklib::Profile;

const STACKS: [Stack; 3] = [Stack::Tack, Stack::Plain, Stack::Quinn];

fn path(rtt_ms: u64, loss: f64) -> PathSpec {
    PathSpec { rtt: Duration::from_millis(rtt_ms), loss_forward: loss, loss_reverse: loss }
}

fn own(stack: Stack, path: PathSpec) -> Flow {
    Flow::new(stack, stack.own_acks(), stack.own_congestion(), path)
}

fn scenario(link: &str, flows: Vec<Flow>, seconds: f64) -> Scenario {
    Scenario {
        link: LinkSpec::resolve(link).unwrap(),
        flows,
        duration: Duration::from_secs_f64(seconds),
        warm_up: Duration::ZERO,
        bin: Duration::from_millis(100),
        seed: 7,
    }
}

/// With a queue that holds all that a stack sends in some seconds: nothing is ever lost.
const DEEP: &str = "[[hop]]\nkind = \"pipe\"\nrate_mbps = 20.0\nbuffer_bytes = 50000000\n";

fn over(toml: &str, flow: Flow, seconds: f64) -> Scenario {
    let link = LinkSpec::from_toml(toml, "own").unwrap();
    Scenario { link, ..scenario("n", vec![flow], seconds) }
}

fn trace(scenario: &Scenario) -> Vec<u8> {
    let mut lines = Vec::new();
    run_traced(scenario, Some(&mut lines)).unwrap();
    lines
}

fn single(scenario: &Scenario) -> FlowReport {
    run(scenario).unwrap().flows.remove(0)
}

#[test]
fn the_same_seed_gives_the_same_packets_byte_for_byte_on_any_thread() {
    for stack in STACKS {
        let lossy = scenario("n", vec![own(stack, path(20, 0.005))], 1.5);
        let (first, others) = thread::scope(|scope| {
            let others: Vec<_> = (0..2).map(|_| scope.spawn(|| trace(&lossy))).collect();
            let first = trace(&lossy);
            (first, others.into_iter().map(|other| other.join().unwrap()).collect::<Vec<_>>())
        });
        assert!(first.len() > 5_000, "{stack:?}: {} bytes", first.len());
        assert!(others.iter().all(|other| *other == first), "{stack:?}");
        let other_seed = Scenario { seed: 8, ..lossy };
        assert_ne!(trace(&other_seed), first, "{stack:?}");
    }
}

#[test]
fn every_stack_fills_a_pipe_and_measures_its_delay() {
    for stack in STACKS {
        let report = single(&scenario("pipe:20", vec![own(stack, path(30, 0.0))], 4.0));
        assert!(report.utilisation > 0.85 && report.utilisation <= 1.0, "{stack:?} {report:?}");
        // 15 ms and the time of 1500 bytes at 20 Mbit/s; RTTmin with a packet of either kind.
        let least = report.owd_p95_ms.unwrap() - report.queue_p95_ms.unwrap();
        assert!((15.0..=15.7).contains(&least), "{stack:?}: {least}");
        let min_rtt = report.min_rtt_ms.unwrap();
        assert!((30.0..=31.0).contains(&min_rtt), "{stack:?}: {min_rtt}");
        let headers = 1.0 - report.goodput_mbps / 20.0 / report.utilisation;
        assert!((0.03..0.08).contains(&headers), "{stack:?}: {headers}");
    }
}

#[test]
fn a_queue_that_stands_since_before_the_measurement_counts_in_full() {
    let link = "[[hop]]\nkind = \"pipe\"\nrate_mbps = 10.0\nbuffer_bdp = 4.0\n";
    for seed in 1..=3 {
        let flow =
            Flow::new(Stack::Plain, Stack::Plain.own_acks(), Congestion::Bbr, path(100, 0.0));
        let (warm_up, link) =
            (Duration::from_secs(5), LinkSpec::from_toml(link, "own").unwrap());
        let of = Scenario { link, warm_up, seed, ..scenario("n", vec![flow], 30.0) };
        let report = single(&of);
        let least = report.owd_p95_ms.unwrap() - report.queue_p95_ms.unwrap();
        // 50 ms and the time of 1500 bytes at 10 Mbit/s.
        assert!((50.0..=51.5).contains(&least), "{seed}: {least}");
        let bytes = report.queue_p95_bytes.unwrap() / (report.queue_p95_ms.unwrap() / 1e3);
        assert!((1.2e6..1.3e6).contains(&bytes), "{seed}: {bytes} bytes a second");
    }
}

#[test]
fn what_waits_in_front_of_a_link_that_has_become_slower_is_no_more_than_its_buffer() {
    let link = "[[hop]]\nkind = \"pipe\"\nrate_trace = { steps = [[0, 100.0], [2, 1.0]] }\n\
                buffer_bytes = 100000\n";
    let report = single(&over(link, own(Stack::Tack, path(40, 0.0)), 6.0));
    assert!(report.queue_max_bytes.unwrap() < 101_500.0, "{:?}", report.queue_max_bytes);
}

#[test]
fn tack_loses_less_than_plain_quiche_where_both_ends_run_late() {
    for (link, rtt) in [("pipe:50", 1), ("pipe:50", 10), ("pipe:50", 40), ("n", 10), ("ac", 10)]
    {
        let goodput = |stack, late| {
            let flow = own(stack, path(rtt, 0.0)).with_busy_ends(Duration::from_millis(late));
            single(&scenario(link, vec![flow], 4.0)).goodput_mbps
        };
        let (idle, busy) = (goodput(Stack::Tack, 0), goodput(Stack::Tack, 5));
        let plain = goodput(Stack::Plain, 5);
        println!("{link}, {rtt} ms: {idle:.1}, late {busy:.1}, plain {plain:.1} Mbit/s");
        assert!(busy > 0.85 * idle, "{link}, {rtt} ms: {busy:.1} of {idle:.1} Mbit/s");
        assert!(busy > 0.97 * plain, "{link}, {rtt} ms: {busy:.1}, plain {plain:.1} Mbit/s");
    }
}

#[test]
fn a_short_path_that_loses_acknowledgements_is_filled() {
    for (loss, least) in [(0.1, 0.93), (0.3, 0.9), (0.5, 0.85)] {
        let path = PathSpec { loss_forward: 0.0, ..path(1, loss) };
        let report = single(&scenario("pipe:50", vec![own(Stack::Tack, path)], 5.0));
        println!("{loss}: {:.3}", report.utilisation);
        assert!(report.utilisation > least, "{loss}: {:.3}", report.utilisation);
    }
}

#[test]
fn what_a_path_holds_back_now_and_then_does_not_end_startup() {
    let jitters = "[[hop]]\nkind = \"pipe\"\nrate_mbps = 30.0\nbuffer_bytes = 1100000\n\
                   jitter_ms = 12.0\n";
    let delivered = |toml| {
        let report = single(&over(toml, own(Stack::Tack, path(700, 0.0)), 15.0));
        report.goodput_mbps
    };
    let steady = jitters.replace("jitter_ms = 12.0\n", "");
    let (jitters, steady) = (delivered(jitters), delivered(&steady));
    assert!(jitters > 0.5 * steady, "{jitters:.1} Mbit/s, without jitter {steady:.1}");
}

#[test]
fn startup_doubles_where_packets_are_held_up_for_longer_than_a_round_trip() {
    let delivered = |jitter: &str| {
        let toml = format!(
            "[[hop]]\nkind = \"pipe\"\nrate_mbps = 100.0\nbuffer_bytes = 600000\n{jitter}"
        );
        let of = |seed| {
            let flow = own(Stack::Tack, path(50, 0.0));
            single(&Scenario { seed, ..over(&toml, flow, 4.0) }).goodput_mbps
        };
        (7..11).map(of).sum::<f64>() / 4.0
    };
    let (jitters, steady) = (delivered("jitter_ms = 4.0\n"), delivered(""));
    assert!(
        jitters > 0.6 * steady,
        "TACK-6.2-19: {jitters:.1} Mbit/s, without jitter {steady:.1}"
    );
}

#[test]
fn most_packets_of_plain_quiche_are_full_where_each_contends_for_the_channel() {
    for congestion in [Congestion::Bbr, Congestion::Cubic] {
        let flow = Flow::new(Stack::Plain, Stack::Plain.own_acks(), congestion, path(80, 0.0));
        let warm_up = Duration::from_secs(2);
        let report = single(&Scenario { warm_up, ..scenario("g", vec![flow], 8.0) });
        let bytes = report.goodput_mbps * 1e6 / 8.0 * 6.0;
        let payload = bytes / report.data_packets as f64;
        // A full one has some 1,430 bytes.
        assert!((1200.0..1440.0).contains(&payload), "{congestion:?}: {payload}");
    }
}

#[test]
fn what_is_lost_is_sent_again_and_waits_at_the_receiver() {
    for stack in STACKS {
        let clean = single(&over(DEEP, own(stack, path(20, 0.0)), 1.0));
        let lossy = single(&scenario("pipe:20", vec![own(stack, path(20, 0.05))], 3.0));
        let share = lossy.lost as f64 / lossy.data_packets as f64;
        assert!((0.02..0.1).contains(&share), "{stack:?}: {share}");
        assert!(lossy.retransmitted >= lossy.lost * 9 / 10, "{stack:?} {lossy:?}");
        assert!(lossy.hol_blocked_bytes_p95.unwrap() > 1000.0, "{stack:?} {lossy:?}");
        assert_eq!((clean.lost, clean.hol_blocked_bytes_p95), (0, Some(0.0)), "{stack:?}");
    }
}

#[test]
fn packets_that_are_on_their_way_when_the_measurement_ends_are_not_lost() {
    for stack in STACKS {
        let on_their_way = own(stack, path(200, 0.0));
        let warm_up = Duration::from_secs(1);
        let bulk = single(&Scenario { warm_up, ..over(DEEP, on_their_way.clone(), 2.0) });
        let load = Load::Bulk { stop: Some(Duration::from_secs(1)) };
        let stopped = single(&over(DEEP, Flow { load, ..on_their_way }, 4.0));
        assert!(bulk.data_packets > 500 && stopped.data_packets > 50, "{stack:?}");
        assert_eq!((bulk.lost, stopped.lost), (0, 0), "{stack:?}");
    }
}

#[test]
fn a_packet_is_lost_although_another_one_comes_twice_or_came_from_before_the_measurement() {
    for stack in STACKS {
        let toml = format!("{DEEP}duplicate = 0.2\n");
        let scenario = over(&toml, own(stack, path(20, 0.05)), 3.0);
        let report = single(&Scenario { warm_up: Duration::from_secs(1), ..scenario });
        let share = report.lost as f64 / report.data_packets as f64;
        assert!((0.03..0.08).contains(&share), "{stack:?}: {share}");
    }
}

#[test]
fn utilisation_is_of_what_the_link_could_carry_while_the_flow_was_measured() {
    // Ten megabits pass in the first seconds; the mean over a minute is 1.6 Mbit/s.
    let toml = "[[hop]]\nkind = \"pipe\"\nbuffer_bytes = 100000\n\
                rate_trace = { steps = [[0, 20.0], [2, 1.0]] }\n";
    for stack in STACKS {
        let bytes = Flow { load: Load::Bytes(1_250_000), ..own(stack, path(20, 0.0)) };
        let report = single(&over(toml, bytes, 60.0));
        assert!(report.seconds < 2.0, "{stack:?}: {}", report.seconds);
        assert!((0.6..=1.0).contains(&report.utilisation), "{stack:?}: {}", report.utilisation);
        // From behind the fall on, 1 Mbit/s is all.
        let late = Scenario {
            warm_up: Duration::from_secs(10),
            ..over(toml, own(stack, path(20, 0.0)), 20.0)
        };
        let share = single(&late).utilisation;
        assert!((0.85..=1.0).contains(&share), "{stack:?}: {share}");
    }
}

#[test]
fn a_frame_that_is_dropped_is_later_than_all_that_come() {
    let frames = Frames {
        rate: FrameRate::Constant(4e6),
        fps: 30.0,
        patience: Duration::from_millis(100),
        lifetime: Duration::from_millis(400),
        playout: Duration::from_millis(400),
        as_datagrams: false,
        has_deadlines: false,
        measured_from: Duration::ZERO,
    };
    let frames = |link: &str| {
        let flow = own(Stack::Tack, path(40, 0.0)).with_profile(Profile::Video);
        let flow = Flow { load: Load::Frames(frames), ..flow };
        single(&scenario(link, vec![flow], 6.0)).delivered_frames.unwrap()
    };
    let narrow = frames("pipe:2");
    assert!(narrow.dropped > narrow.made / 10 && narrow.delivered > 10, "{}", narrow.dropped);
    assert!(narrow.delivered_p99_ms.is_some() && narrow.delay_p99_ms.is_none());
    // What was made just before the end had no time to come.
    let wide = frames("pipe:20");
    assert!(wide.dropped == 0 && wide.delivered < wide.made, "{}", wide.delivered);
    assert_eq!(wide.delay_p99_ms, wide.delivered_p99_ms);
}

#[test]
fn a_load_with_an_end_ends_the_run_when_all_of_it_has_arrived() {
    for stack in STACKS {
        for bytes in [0, 1, 300_000] {
            let flow = Flow { load: Load::Bytes(bytes), ..own(stack, path(40, 0.02)) };
            let report = single(&scenario("pipe:10", vec![flow], 60.0));
            let completion = report.completion_ms.unwrap();
            // Two round trips at least: handshake, request.
            assert!((80.0..10_000.0).contains(&completion), "{stack:?} {bytes}: {completion}");
            let arrived = report.goodput_mbps * 1e6 / 8.0 * report.seconds;
            assert!((arrived - bytes as f64).abs() < 1.0, "{stack:?}: {arrived} of {bytes}");
        }
    }
}

#[test]
fn a_flow_that_is_stopped_falls_silent_and_is_measured_until_then() {
    for stack in STACKS {
        let load = Load::Bulk { stop: Some(Duration::from_secs(1)) };
        let flow = Flow { load, ..own(stack, path(20, 0.0)) };
        let report = single(&scenario("pipe:20", vec![flow], 5.0));
        assert!((report.seconds - 1.0).abs() < 1e-9, "{stack:?}: {}", report.seconds);
        assert!((0.5..=1.0).contains(&report.utilisation), "{stack:?}: {}", report.utilisation);
        assert!(report.timeline.iter().all(|bin| bin.at < 1.0), "{stack:?}");
    }
}

#[test]
fn a_source_with_a_rate_is_not_exceeded() {
    for stack in STACKS {
        let flow = Flow { load: Load::Rate(2e6), ..own(stack, path(20, 0.0)) };
        let report = single(&scenario("pipe:20", vec![flow], 4.0));
        assert!((1.85..=2.0).contains(&report.goodput_mbps), "{stack:?} {report:?}");
    }
}

#[test]
fn a_live_source_never_has_much_to_send_and_drops_what_is_old() {
    let media = Media { bps: 4e6, fps: 25.0, patience: Duration::from_millis(100) };
    for stack in STACKS {
        let flow = Flow { load: Load::Media(media), ..own(stack, path(20, 0.0)) };
        // Twice the source's rate: every frame arrives. 20 kB take 20 ms at 8 Mbit/s.
        let wide = single(&scenario("pipe:8", vec![flow.clone()], 4.0));
        assert!((3.8..=4.0).contains(&wide.goodput_mbps), "{stack:?} {}", wide.goodput_mbps);
        assert!(wide.queue_p95_ms.unwrap() < 30.0, "{stack:?} {wide:?}");
        // Half of it: the link is full, and no more than that is sent.
        let narrow = single(&scenario("pipe:2", vec![flow], 8.0));
        assert!((0.85..=1.0).contains(&narrow.utilisation), "{stack:?} {}", narrow.utilisation);
    }
}

#[test]
fn retransmissions_are_counted_in_their_time() {
    for stack in STACKS {
        let lossy = single(&scenario("pipe:20", vec![own(stack, path(20, 0.05))], 3.0));
        let repeated: u64 = lossy.timeline.iter().map(|bin| bin.repeated).sum();
        assert!(repeated >= lossy.retransmitted, "{stack:?}: {repeated}");
        let clean = single(&over(DEEP, own(stack, path(20, 0.0)), 0.5));
        let repeated: u64 = clean.timeline.iter().map(|bin| bin.repeated).sum();
        assert!(clean.lost == 0 && repeated < 10, "{stack:?}: {} {repeated}", clean.lost);
    }
}

#[test]
fn acknowledgements_are_counted_as_the_receiver_was_told_to_send_them() {
    let acks_per_packet = |stack, acks| {
        let flow = Flow::new(stack, acks, Congestion::Bbr, path(40, 0.0));
        let mut scenario = scenario("pipe:20", vec![flow], 4.0);
        scenario.warm_up = Duration::from_secs(2);
        let report = single(&scenario);
        report.ack_packets as f64 / report.data_packets as f64
    };
    for (packets, expected) in [(1, 1.0), (2, 0.5), (8, 0.125)] {
        let ratio = acks_per_packet(Stack::Tack, Acks::Every(packets));
        assert!((ratio / expected - 1.0).abs() < 0.1, "every:{packets}: {ratio}");
    }
    let asked = acks_per_packet(Stack::Quinn, Acks::Every(8));
    assert!((asked / 0.125 - 1.0).abs() < 0.1, "quinn every:8: {asked}");
    // 20 Mbit/s are 1667 packets a second; TACK acknowledges 50 times at 40 ms.
    let tack = acks_per_packet(Stack::Tack, Acks::Tack);
    assert!((tack / 0.03 - 1.0).abs() < 0.15, "TACK: {tack}");
    let periodic = acks_per_packet(Stack::Tack, Acks::Periodic(Duration::from_millis(5)));
    assert!((periodic / 0.12 - 1.0).abs() < 0.1, "periodic:5: {periodic}");
}

#[test]
fn strict_counting_answers_each_packet_of_an_a_mpdu_and_a_delayed_ack_answers_it_once() {
    let acks = |acks| {
        let flow = Flow::new(Stack::Tack, acks, Congestion::Bbr, path(20, 0.0));
        let report = single(&scenario("n", vec![flow], 1.5));
        report.ack_packets as f64 / report.data_packets as f64
    };
    assert!(acks(Acks::Every(2)) > 0.4);
    assert!(acks(Acks::Delayed) < 0.3);
}

#[test]
fn flows_share_a_link_and_start_when_they_are_told_to() {
    let late = Flow { start: Duration::from_secs(2), ..own(Stack::Plain, path(30, 0.0)) };
    let report =
        run(&scenario("pipe:20", vec![own(Stack::Quinn, path(30, 0.0)), late], 6.0)).unwrap();
    let [first, second] = &report.flows[..] else { panic!("{report:?}") };
    let before = |flow: &FlowReport| {
        flow.timeline.iter().take(20).map(|bin| bin.goodput_mbps).sum::<f64>() / 20.0
    };
    assert!(before(first) > 10.0, "{}", before(first));
    assert!(before(second).abs() < f64::EPSILON);
    assert!(second.goodput_mbps > 1.0, "{}", second.goodput_mbps);
    assert!(first.utilisation + second.utilisation * 4.0 / 6.0 <= 1.0);
}

#[test]
fn both_ends_of_a_two_way_flow_send_and_each_direction_is_counted_by_itself() {
    for stack in STACKS {
        let flow = Flow { load: Load::TwoWay, ..own(stack, path(20, 0.0)) };
        let report = single(&scenario("pipe:8/2", vec![flow], 4.0));
        let reverse = report.reverse.as_deref().unwrap();
        assert!(report.goodput_mbps > 1.0 && report.utilisation <= 1.0, "{stack:?} {report:?}");
        assert!(
            reverse.utilisation > 0.5 && reverse.utilisation <= 1.0,
            "{stack:?} {report:?}"
        );
        // 64 KiB wait in front of each direction at most, and a packet is on its way.
        for direction in [&report, reverse] {
            let queue = direction.queue_max_bytes.unwrap();
            assert!(queue <= 65_536.0 + 1_500.0, "{stack:?}: {queue}");
            assert!(direction.queue_p95_bytes.unwrap() <= queue, "{stack:?}");
        }
        let [up_ms, up_bytes] =
            [reverse.queue_max_ms, reverse.queue_max_bytes].map(Option::unwrap);
        // Both are of histograms with three digits.
        assert!((up_bytes / up_ms / 250.0 - 1.0).abs() < 2e-3, "2 Mbit/s: {up_bytes} {up_ms}");
    }
}

#[test]
fn a_two_way_flow_over_a_lossy_path_delivers_what_was_sent_in_both_directions() {
    for stack in STACKS {
        let flow = Flow { load: Load::TwoWay, ..own(stack, path(20, 0.02)) };
        // Contents are compared by the simulation, at both ends.
        let report = single(&scenario("pipe:8/2", vec![flow], 3.0));
        let reverse = report.reverse.as_deref().unwrap();
        for direction in [&report, reverse] {
            assert!(
                direction.lost > 0 && direction.retransmitted > 0,
                "{stack:?} {direction:?}"
            );
            assert!(direction.goodput_mbps > 0.2, "{stack:?} {direction:?}");
        }
    }
}

#[test]
fn the_uploads_of_a_stock_client_do_not_slow_its_download_below_that_of_plain_quiche() {
    // Its ACKs queue for a second behind its data (TACK-8-6).
    let sum = |server| {
        let ends = [server, Stack::Plain].map(EndConfig::own);
        let flow = Flow::between(ends[0], ends[1], path(40, 0.0));
        let flow = Flow { load: Load::TwoWay, ..flow };
        let report = single(&scenario("pipe:20/0.5", vec![flow], 20.0));
        report.goodput_mbps + report.reverse.unwrap().goodput_mbps
    };
    let (tack, plain) = (sum(Stack::Tack), sum(Stack::Plain));
    assert!(tack >= plain, "{tack} instead of {plain} Mbit/s");
}

#[test]
fn each_end_may_have_a_stack_of_its_own() {
    for server in STACKS {
        for client in STACKS {
            let ends = [server, client].map(EndConfig::own);
            let flow = Flow::between(ends[0], ends[1], path(20, 0.0));
            let bytes = Flow { load: Load::Bytes(300_000), ..flow.clone() };
            let report = single(&scenario("pipe:10", vec![bytes], 10.0));
            assert!(report.completion_ms.is_some(), "{client:?} to {server:?}: {report:?}");
            let both_ways = Flow { load: Load::TwoWay, ..flow };
            let report = single(&scenario("pipe:10", vec![both_ways], 1.0));
            let up = report.reverse.unwrap().goodput_mbps;
            assert!(report.goodput_mbps > 0.5 && up > 0.5, "{client:?} to {server:?}: {up}");
        }
    }
}

#[test]
fn what_a_stack_cannot_do_is_refused_with_what_it_can() {
    let refusal = |stack, acks, congestion| {
        let flow = Flow::new(stack, acks, congestion, path(10, 0.0));
        match run(&scenario("pipe:10", vec![flow], 1.0)) {
            Err(error @ Error::Scenario { .. }) => error.to_string(),
            other => panic!("{other:?}"),
        }
    };
    let cubic = refusal(Stack::Tack, Acks::Tack, Congestion::Cubic);
    assert!(cubic.starts_with("--cc") && cubic.contains("bbr"), "{cubic}");
    let plain = refusal(Stack::Plain, Acks::Every(2), Congestion::Cubic);
    assert!(plain.starts_with("--ack") && plain.contains("delayed"), "{plain}");
    let quinn = refusal(Stack::Quinn, Acks::Tack, Congestion::Cubic);
    assert!(quinn.starts_with("--ack") && quinn.contains("every:L"), "{quinn}");
}

#[test]
fn a_connection_that_cannot_live_is_an_error_and_no_result() {
    let error = run(&scenario("pipe:10", vec![own(Stack::Quinn, path(10, 1.0))], 300.0));
    assert!(matches!(error, Err(Error::Closed { flow: 0, .. })), "{error:?}");
}

/// A call of two seconds on a link of so many Mbit/s.
fn call(stack: Stack, link: &str) -> FlowReport {
    let call =
        Call { audio_frames: 100, video_frames: 60, measured_from: Duration::from_millis(200) };
    let flow = Flow { load: Load::Call(call), ..own(stack, path(40, 0.0)) };
    single(&scenario(link, vec![flow], 4.0))
}

#[test]
fn a_call_on_a_fast_link_has_all_frames_in_time_with_every_stack() {
    for stack in STACKS {
        let frames = call(stack, "pipe:100").frames.unwrap();
        // Audio and video from 200 ms on.
        assert_eq!(frames.count, 90 + 54, "{stack:?}");
        assert_eq!((frames.lost_audio, frames.stopped_groups), (0, 0), "{stack:?}");
        let range = 20.0..90.0;
        assert!(
            range.contains(&frames.mean_ms) && range.contains(&frames.max_ms),
            "{frames:?}"
        );
    }
}

#[test]
fn a_slow_link_stops_the_second_video_and_spares_audio_and_the_first_with_every_stack() {
    for stack in STACKS {
        // Audio and the first video need 1.3 Mbit/s, all together need 3.3.
        let frames = call(stack, "pipe:2").frames.unwrap();
        assert_eq!(frames.stopped_groups, 2, "{stack:?}");
        // The first frame of a group takes 150 ms alone.
        assert!(frames.mean_ms < 300.0, "{stack:?}: {frames:?}");
    }
}

#[test]
fn a_source_that_sends_a_tenth_learns_the_rate_of_the_path_and_of_its_steps() {
    const STEPS: [(u64, f64); 3] = [(0, 10e6), (3, 2e6), (6, 40e6)];
    let frames = Frames {
        rate: FrameRate::Share(0.1, &STEPS),
        fps: 30.0,
        patience: Duration::from_millis(33),
        lifetime: Duration::from_millis(400),
        playout: Duration::from_millis(400),
        as_datagrams: false,
        has_deadlines: false,
        measured_from: Duration::ZERO,
    };
    let toml = "[[hop]]\nkind = \"pipe\"\nbuffer_bytes = 125000\n\
                rate_trace = { steps = [[0, 10.0], [3, 2.0], [6, 40.0]] }\n\
                [[hop]]\nkind = \"wlan\"\nprofile = \"n\"\n";
    let flow = own(Stack::Tack, path(40, 0.0)).with_profile(Profile::Video);
    let flow = Flow { load: Load::Frames(frames), ..flow };
    let link = LinkSpec::from_toml(toml, "steps").unwrap();
    let report = single(&Scenario { link, ..scenario("n", vec![flow], 9.0) });
    assert!(report.queue_p95_ms.unwrap() < 20.0, "{:?}", report.queue_p95_ms);
    let frames = report.delivered_frames.unwrap();
    assert!(frames.probing_share.unwrap() < 0.02, "{:?}", frames.probing_share);
    for (from, bps) in STEPS {
        let settled = (from as f64 + 1.0)..(from as f64 + 3.0);
        let of_step = frames.estimates.iter().filter(|(at, _)| settled.contains(at));
        let worst = of_step.map(|(_, found)| (found / bps - 1472.0 / 1500.0).abs());
        let worst = worst.fold(0.0, f64::max);
        assert!(worst < 0.1, "{bps} bit/s: off by {worst}");
    }
}
