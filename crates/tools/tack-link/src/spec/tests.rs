mod refusals;

use super::*;
use crate::{Ecn, Packet, Time};

use Direction::{Forward, Reverse};

/// All that a file can say.
const EVERYTHING: &str = r#"
name = "everything"
default_rtt_ms = 12.5

[[hop]]
kind = "pipe"
rate_mbps = 20
delay_ms = 270.0
jitter_ms = 7.0
queue = "fq-codel"
buffer_bdp = 1.0
loss = 0.01
duplicate = 0.001
corrupt = 0.0001
gilbert_elliott = { p = 0.001, r = 0.2, loss_good = 0.0, loss_bad = 0.9 }
reorder = { probability = 0.01, delay_ms = 5.0 }
[hop.reverse]
rate_trace = { steps = [[0, 2.0], [60, 0.0], [61, 2.0]], repeat_s = 90 }
delay_trace = { steps = [[0, 280.0], [30, 270.0]] }
jitter_trace = { steps = [[0, 1.0], [1, 12.0]], repeat_s = 5 }
queue = "drop-tail"
buffer_ms = 100
[hop.forward]
buffer_bytes = 30000

[[hop]]
kind = "wlan"
profile = "n"
uplink = false
hops = 1
background = 3
background_mbps = 5
buffer_packets = 400
ampdu_bytes = 21700
aggregate_acks = true
mpdu_error_rate = 0.01
cw_min = 15
cw_max = 1023

[[hop]]
kind = "wlan"
profile = "b"
preamble = "long"
buffer_bytes = 100000
"#;

fn spec(toml: &str) -> LinkSpec {
    LinkSpec::from_toml(toml, "test.toml").unwrap()
}

fn pipe(fields: &str) -> LinkSpec {
    spec(&format!("[[hop]]\nkind = \"pipe\"\n{fields}"))
}

fn resolve(name: &str) -> LinkSpec {
    LinkSpec::resolve(name).unwrap()
}

fn path(rtt_ms: u64) -> PathSpec {
    PathSpec::with_rtt(Duration::from_millis(rtt_ms))
}

fn packet(flow: u32, size: u32) -> Packet {
    Packet::new(size, flow, Time::ZERO, Vec::new())
}

/// When one packet arrives that is sent at the start, in ms.
fn transit_ms(link: &mut BoxedLink, direction: Direction, flow: u32, size: u32) -> f64 {
    link.send(direction, packet(flow, size), Time::ZERO);
    arrivals(link).last().unwrap() * 1e3
}

/// When packets arrive, in seconds.
fn arrivals(link: &mut BoxedLink) -> Vec<f64> {
    let mut arrivals = Vec::new();
    while let Some(now) = link.next_event() {
        arrivals.extend(link.arrival(now).map(|arrival| arrival.at.as_secs_f64()));
    }
    arrivals
}

/// How many bytes in packets of 1000 the queue of a direction takes besides the first.
fn queue_bytes(spec: &LinkSpec, path: &PathSpec, direction: Direction) -> u64 {
    let mut link = spec.build(path, 1).unwrap();
    for _ in 0..1000 {
        link.send(direction, packet(0, 1000), Time::ZERO);
    }
    (arrivals(&mut link).len() as u64 - 1) * 1000
}

fn close(one: f64, other: f64) -> bool {
    (one / other - 1.0).abs() < 1e-6
}

#[test]
fn names_are_those_of_the_profiles_and_of_pipes() {
    for name in ["b", "g", "n", "ac", "pipe:100", "pipe:0.5"] {
        let spec = resolve(name);
        assert_eq!(spec.name(), name);
        assert_eq!(spec.default_rtt(), Duration::from_millis(40));
        assert_eq!(spec.own_rtt(), Duration::ZERO);
        assert!(spec.build(&path(40), 1).is_ok());
    }
}

#[test]
fn a_named_pipe_has_its_rate_in_both_directions() {
    for direction in Direction::ALL {
        let mut link = resolve("pipe:8").build(&path(40), 1).unwrap();
        assert!(close(transit_ms(&mut link, direction, 0, 1500), 21.5));
    }
}

#[test]
fn a_file_is_read_and_gives_its_name() {
    let directory = std::env::temp_dir().join(format!("tack-link-{}", std::process::id()));
    fs::create_dir_all(&directory).unwrap();
    let file = directory.join("satellite.toml");
    fs::write(&file, "[[hop]]\nkind = \"pipe\"\nrate_mbps = 1").unwrap();
    let spec = resolve(file.to_str().unwrap());
    fs::remove_dir_all(&directory).unwrap();
    assert_eq!(spec.name(), "satellite");
    assert_eq!(spec.default_rtt(), Duration::ZERO);
}

#[test]
fn everything_that_a_file_can_say_is_understood_and_can_be_shown_again() {
    let spec = spec(EVERYTHING);
    assert_eq!(spec.name(), "everything");
    assert_eq!(spec.default_rtt(), Duration::from_micros(12_500));
    assert_eq!(spec.own_rtt(), Duration::from_millis(540));
    assert!(spec.build(&path(0), 1).is_ok());

    let shown = toml::to_string(&spec).unwrap();
    assert_eq!(LinkSpec::from_toml(&shown, "shown").unwrap(), spec, "{shown}");
    let deserialised: LinkSpec = toml::from_str(&shown).unwrap();
    assert_eq!(deserialised, spec);
}

#[test]
fn the_example_of_the_documentation_is_right() {
    let source = include_str!("../spec.rs");
    let example: String = source
        .lines()
        .skip_while(|line| !line.contains("```toml"))
        .skip(1)
        .take_while(|line| !line.contains("```"))
        .flat_map(|line| [line.trim_start_matches("//!"), "\n"])
        .collect();
    assert_eq!(spec(&example).hops.len(), 2);
}

#[test]
fn a_deserialised_link_makes_sense_too() {
    let error = toml::from_str::<LinkSpec>("name = \"old\"\nhop = []").unwrap_err();
    assert!(error.to_string().contains("old: hop is an empty list"), "{error}");
}

#[test]
fn a_direction_overrides_what_holds_for_both() {
    let spec = pipe("rate_mbps = 8\ndelay_ms = 10\n[hop.reverse]\nrate_mbps = 0.8");
    let mut link = spec.build(&path(0), 1).unwrap();
    assert!(close(transit_ms(&mut link, Forward, 0, 1000), 11.0));
    assert!(close(transit_ms(&mut link, Reverse, 0, 1000), 20.0));
}

#[test]
fn a_trace_of_one_direction_replaces_the_rate_of_both() {
    let spec =
        pipe("rate_mbps = 8\n[hop.forward]\nrate_trace = { steps = [[0, 0], [0.5, 4]] }");
    let mut link = spec.build(&path(0), 1).unwrap();
    assert!(close(transit_ms(&mut link, Forward, 0, 1000), 502.0));
    assert!(close(transit_ms(&mut link, Reverse, 0, 1000), 1.0));
}

#[test]
fn impairments_of_a_file_act_on_packets() {
    for (fields, arrived) in [
        ("loss = 1.0", 0),
        ("gilbert_elliott = { p = 1, r = 0 }", 1),
        ("corrupt = 1.0", 0), // no bytes to corrupt
        ("duplicate = 1.0", 20),
    ] {
        let mut link = pipe(fields).build(&path(0), 1).unwrap();
        for _ in 0..10 {
            link.send(Forward, packet(0, 100), Time::ZERO);
        }
        assert_eq!(arrivals(&mut link).len(), arrived, "{fields}");
    }
    let late = pipe("reorder = { probability = 1, delay_ms = 7 }");
    assert!(close(transit_ms(&mut late.build(&path(0), 1).unwrap(), Forward, 0, 100), 7.0));
}

#[test]
fn the_path_lies_behind_the_link() {
    // Forward losses spare the link nothing, reverse losses do.
    let spec = pipe("rate_mbps = 8\nbuffer_bytes = 1000000");
    let lossy = PathSpec { loss_forward: 0.5, loss_reverse: 0.5, ..path(20) };
    let mut link = spec.build(&lossy, 1).unwrap();
    for direction in Direction::ALL {
        for _ in 0..100 {
            link.send(direction, packet(0, 1000), Time::ZERO);
        }
    }
    let mut last = [0.0; 2];
    while let Some(now) = link.next_event() {
        while let Some(arrival) = link.arrival(now) {
            last[arrival.direction.index()] = arrival.at.as_secs_f64() * 1e3;
        }
    }
    let lost = |direction| link.losses(direction).random as f64;
    assert!(lost(Forward) > 20.0 && lost(Reverse) > 20.0);
    assert!(last[0] > 100.0, "{last:?}");
    assert!(close(last[1], 110.0 - lost(Reverse)), "{last:?}");
}

#[test]
fn flows_share_the_link_and_have_their_own_paths() {
    let spec = pipe("rate_mbps = 8");
    let mut link = spec.build_shared(&[path(20), path(100)], 1).unwrap();
    assert!(close(transit_ms(&mut link, Forward, 0, 1000), 11.0));
    let mut link = spec.build_shared(&[path(20), path(100)], 1).unwrap();
    assert!(close(transit_ms(&mut link, Reverse, 1, 1000), 51.0));
}

#[test]
fn another_hop_or_flow_changes_no_draw_of_the_others() {
    let lossy = PathSpec { loss_forward: 0.4, ..path(0) };
    let fates = |toml: &str, flows: &[PathSpec]| {
        let mut link = spec(toml).build_shared(flows, 5).unwrap();
        let fate = |at| {
            link.send(Forward, packet(0, 100), Time::from_nanos(at));
            let arrived = arrivals(&mut link).len();
            arrived == 1
        };
        (0..200).map(|at| at * 1_000_000).map(fate).collect::<Vec<_>>()
    };
    let hop = "[[hop]]\nkind = \"pipe\"\nloss = 0.3\n";
    let more = format!("{hop}[[hop]]\nkind = \"pipe\"\ndelay_ms = 0.1\nduplicate = 0.0\n");
    let usual = fates(hop, &[lossy]);
    assert_eq!(fates(&more, &[lossy]), usual);
    assert_eq!(fates(hop, &[lossy, lossy]), usual);
    assert!(usual.contains(&true) && usual.contains(&false));
}

#[test]
fn a_pipe_has_a_queue_of_one_bdp_of_link_and_path_but_not_a_tiny_one() {
    // 80 Mbit/s for 30 + 2 * 10 ms.
    let spec = pipe("rate_mbps = 80\ndelay_ms = 10");
    assert_eq!(queue_bytes(&spec, &path(30), Forward), 500_000);
    assert_eq!(spec.buffer_bytes(&path(30)).unwrap(), 500_000);
    assert_eq!(resolve("pipe:1").buffer_bytes(&path(1)).unwrap(), MIN_DEFAULT_PIPE_BUFFER);
}

#[test]
fn every_direction_has_the_queue_that_was_asked_for() {
    let fields = "rate_mbps = 8\nbuffer_bytes = 7000\n[hop.reverse]\n";
    for (reverse, bytes) in [("buffer_ms = 3", 3000), ("buffer_bdp = 0.5", 5000)] {
        let spec = pipe(&format!("{fields}{reverse}"));
        assert_eq!(queue_bytes(&spec, &path(10), Forward), 7000);
        assert_eq!(queue_bytes(&spec, &path(10), Reverse), bytes, "{reverse}");
    }
}

#[test]
fn a_shared_queue_is_made_for_the_longest_path() {
    let spec = pipe("rate_mbps = 80\nbuffer_bdp = 1");
    let mut link = spec.build_shared(&[path(10), path(20)], 1).unwrap();
    for _ in 0..300 {
        link.send(Forward, packet(0, 1000), Time::ZERO);
    }
    assert_eq!(link.losses(Forward).queue, 99, "one is being sent, 200 wait");
}

#[test]
fn a_station_has_a_queue_of_one_bdp_but_not_a_tiny_one() {
    assert_eq!(resolve("n").buffer_bytes(&path(10)).unwrap(), MIN_DEFAULT_WLAN_BUFFER);
    let bytes = resolve("n").buffer_bytes(&path(200)).unwrap() as f64;
    assert!((bytes / (211.88e6 / 8.0 * 0.2) - 1.0).abs() < 1e-3, "{bytes}");
    let packets = spec("[[hop]]\nkind = \"wlan\"\nprofile = \"n\"\nbuffer_packets = 10");
    assert_eq!(packets.buffer_bytes(&path(200)).unwrap(), 15_000);
}

#[test]
fn the_capacity_is_that_of_the_slowest_hop() {
    let span = Duration::from_secs(10);
    assert!(close(resolve("pipe:25").capacity_bps(span), 25e6));
    // 211.88 Mbit/s of payload are 1500 / 1472 of that in IP packets.
    let n = resolve("n").capacity_bps(span);
    assert!((n / 215.9e6 - 1.0).abs() < 1e-3, "{n}");
    let wlan = "[[hop]]\nkind = \"wlan\"\nprofile = \"n\"\n";
    assert!(close(spec(&format!("{wlan}hops = 2")).capacity_bps(span), n / 2.0));
    let both = spec(&format!("{wlan}[[hop]]\nkind = \"pipe\"\nrate_mbps = 100"));
    assert!(close(both.capacity_bps(span), 100e6));
    assert!(pipe("delay_ms = 1").capacity_bps(span).is_infinite());
}

#[test]
fn a_pipe_of_two_rates_has_the_first_forward_and_the_second_in_reverse() {
    let span = Duration::from_secs(10);
    let two = resolve("pipe:100/0.5");
    assert!(close(two.direction_capacity_bps(Forward, span), 100e6));
    assert!(close(two.direction_capacity_bps(Reverse, span), 0.5e6));
    assert_eq!(two.name(), "pipe:100/0.5");
    assert_eq!(two.default_rtt(), Duration::from_millis(40));
    let one = resolve("pipe:100");
    assert!(close(one.direction_capacity_bps(Reverse, span), 100e6));
}

#[test]
fn rate_and_delay_at_a_moment_are_those_of_the_slowest_hop_and_of_all() {
    let text = "[[hop]]\nkind = \"pipe\"\nrate_trace = { steps = [[0, 100.0], [5, 1.0]] }\ndelay_ms = 10\n\
                [[hop]]\nkind = \"pipe\"\nrate_mbps = 50.0\n\
                delay_trace = { steps = [[0, 15.0], [1, 50.0]] }\n";
    let link = spec(text);
    let at = |secs| Time::from(Duration::from_secs(secs));
    assert!(close(link.direction_rate_bps(Forward, at(4)), 50e6));
    assert!(close(link.direction_rate_bps(Forward, at(5)), 1e6));
    let delays = [0, 1].map(|secs| link.direction_delay(Reverse, at(secs)).as_millis());
    assert_eq!(delays, [25, 60]);
    assert!(!link.has_medium() && resolve("n").has_medium());
}

#[test]
fn the_capacity_of_a_trace_is_its_average() {
    let spec = pipe("rate_trace = { steps = [[0, 10], [4, 20]], repeat_s = 10 }");
    assert!(close(spec.capacity_bps(Duration::from_secs(8)), 15e6));
    assert!(close(spec.capacity_bps(Duration::from_secs(20)), 16e6));
}

#[test]
fn a_hop_with_pauses_holds_packets_meanwhile_and_is_written_as_it_was_read() {
    for hop in ["kind = \"pipe\"\nrate_mbps = 12", "kind = \"wlan\"\nprofile = \"g\""] {
        let toml = format!("[[hop]]\n{hop}\npauses = [[0.01, 50.0]]\n");
        let spec = LinkSpec::from_toml(&toml, "test.toml").unwrap();
        let mut link = spec.build(&PathSpec::default(), 1).unwrap();
        let now = Time::from(Duration::from_millis(20));
        let packet = Packet::new(1500, 0, now, Vec::new());
        link.send(Forward, packet, now);
        let mut arrived = None;
        while let Some(next) = link.next_event() {
            arrived = arrived.or(link.arrival(next).map(|arrival| arrival.at));
        }
        let late = arrived.unwrap().since(Time::from(Duration::from_millis(60)));
        assert!(late > Duration::ZERO && late < Duration::from_millis(3), "{late:?}");
        let written = toml::to_string(&spec).unwrap();
        assert_eq!(LinkSpec::from_toml(&written, "written").unwrap(), spec);
    }
}

/// Overload of both directions with ECT(1), for a second: marks and losses of each.
fn marks_and_losses(spec: &LinkSpec) -> [(u64, u64); 2] {
    let mut link = spec.build(&path(0), 1).unwrap();
    for id in 0..2000_u32 {
        let now = Time::from(Duration::from_micros(u64::from(id) * 500));
        for direction in Direction::ALL {
            let packet = Packet::new(1250, 0, now, Vec::new()).with_ecn(Ecn::Ect1);
            link.send(direction, packet, now);
        }
    }
    arrivals(&mut link);
    Direction::ALL.map(|direction| (link.marked(direction), link.losses(direction).queue))
}

#[test]
fn a_queue_marks_where_the_file_says_so() {
    let pipe = |queue: &str| pipe(&format!("rate_mbps = 10\nbuffer_bytes = 10000000\n{queue}"));
    assert_eq!(marks_and_losses(&pipe("")), [(0, 0); 2]);
    assert_eq!(marks_and_losses(&pipe("queue = \"drop-tail\"")), [(0, 0); 2]);
    for queue in ["codel", "fq-codel", "dualpi2"] {
        let both = marks_and_losses(&pipe(&format!("queue = \"{queue}\"")));
        assert!(both.iter().all(|(marked, _)| *marked > 20), "{queue}: {both:?}");
        let [forward, reverse] =
            marks_and_losses(&pipe(&format!("[hop.forward]\nqueue = \"{queue}\"")));
        assert!(forward.0 > 20, "{queue}: {forward:?}");
        assert_eq!(reverse, (0, 0), "{queue}");
    }
}

#[test]
fn jitter_delays_where_the_file_says_so() {
    let spec = pipe("[hop.forward]\njitter_trace = { steps = [[0, 0], [1, 91]] }");
    let mut link = spec.build(&path(0), 1).unwrap();
    assert!(close(transit_ms(&mut link, Forward, 0, 100) + 1.0, 1.0));
    let later = Time::from(Duration::from_secs(2));
    for direction in Direction::ALL {
        link.send(direction, Packet::new(100, 0, later, Vec::new()), later);
    }
    let arrivals = arrivals(&mut link);
    assert!(close(arrivals[0], 2.0), "reverse: {}", arrivals[0]);
    assert!((2.01..2.3).contains(&arrivals[1]), "forward: {}", arrivals[1]);
}
