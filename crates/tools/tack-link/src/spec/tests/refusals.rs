//! What is wrong is named, with where it is and what would be right.

use super::*;

fn error(toml: &str) -> String {
    LinkSpec::from_toml(toml, "test.toml").unwrap_err().to_string()
}

fn pipe_error(fields: &str) -> String {
    error(&format!("[[hop]]\nkind = \"pipe\"\n{fields}"))
}

fn wlan_error(fields: &str) -> String {
    error(&format!("[[hop]]\nkind = \"wlan\"\n{fields}"))
}

#[test]
fn an_unknown_name_is_answered_with_the_known_ones() {
    let error = LinkSpec::resolve("ax").unwrap_err();
    assert!(matches!(error, SpecError::Unknown(_)), "{error}");
    let message = error.to_string();
    assert!(message.contains("`ax`: give b, g, n, ac, pipe:RATE"), "{message}");
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    let error = LinkSpec::resolve("/nonexistent/link.toml").unwrap_err();
    assert!(matches!(error, SpecError::Unreadable { .. }));
    assert!(error.to_string().starts_with("/nonexistent/link.toml: "), "{error}");
    let directory = std::env::temp_dir();
    let error = LinkSpec::resolve(directory.to_str().unwrap()).unwrap_err();
    assert!(matches!(error, SpecError::Unreadable { .. }), "{error}");
}

#[test]
fn a_rate_that_is_none_is_refused() {
    let refused = |name: &str| LinkSpec::resolve(name).unwrap_err().to_string();
    for name in ["pipe:fast", "pipe:10/fast", "pipe:fast/10"] {
        let expected = format!("{name}: RATE is `fast`; allowed: a number of Mbit/s, ");
        assert!(refused(name).starts_with(&expected), "{}", refused(name));
    }
    let up = refused("pipe:10/0");
    assert!(up.starts_with("pipe:10/0: hop 1: reverse.rate_mbps is "), "{up}");
    for rate in ["0", "-5", "NaN", "inf", "1e9", "0.0001"] {
        let error = refused(&format!("pipe:{rate}"));
        assert!(error.ends_with("; allowed: 0.001 to 1000000 Mbit/s"), "{error}");
        assert!(error.starts_with(&format!("pipe:{rate}: hop 1: rate_mbps is ")), "{error}");
    }
}

#[test]
fn malformed_toml_is_reported_with_its_line() {
    let message = error("name = \"x\"\n\n[[hop]\n");
    assert!(message.starts_with("test.toml: "), "{message}");
    assert!(message.contains("line 3"), "{message}");
}

#[test]
fn fields_of_unknown_names_are_reported_with_their_line_and_the_known_names() {
    for (toml, line, known) in [
        ("nam = \"x\"", "line 1", "`name`, `default_rtt_ms`, `hop`"),
        ("[[hop]]\nkind = \"pipe\"\nrate = 1", "line 3", "`rate_mbps`"),
        ("[[hop]]\nkind = \"wlan\"\nprofile = \"n\"\nloss = 0.1", "line 4", "`ampdu_bytes`"),
        ("[[hop]]\nkind = \"pipe\"\n[hop.reverse]\nlos = 0.1", "line 4", "`loss`"),
        ("[[hop]]\nkind = \"pipe\"\nreorder = { p = 1 }", "line 3", "`probability`"),
        (
            "[[hop]]\nkind = \"pipe\"\nqueue = \"red\"",
            "line 3",
            "`codel`, `fq-codel`, `dualpi2`",
        ),
        ("[[hop]]\nkind = \"cable\"", "line 2", "`pipe` or `wlan`"),
        ("[[hop]]\nkind = \"wlan\"\nprofile = \"ax\"", "line 3", "`b`, `g`, `n`, `ac`"),
    ] {
        let message = error(toml);
        assert!(message.starts_with("test.toml: "), "{message}");
        assert!(message.contains(line) && message.contains(known), "{message}");
    }
}

#[test]
fn values_of_wrong_types_are_reported_with_their_line() {
    for (fields, line, expected) in [
        ("rate_mbps = \"fast\"", "line 3", "expected f64"),
        ("\nbuffer_bytes = -1", "line 4", "expected u64"),
        ("rate_trace = { steps = [[0, 1], [1]] }", "line 3", "length 2"),
    ] {
        let message = pipe_error(fields);
        assert!(message.contains(line) && message.contains(expected), "{message}");
    }
    assert!(error("[[hop]]\nrate_mbps = 1").contains("missing field `kind`"));
    assert!(wlan_error("hops = 1").contains("missing field `profile`"));
}

#[test]
fn a_link_without_hops_is_refused() {
    let expected = "test.toml: hop is an empty list; allowed: one [[hop]] or more";
    assert_eq!(error(""), expected);
    assert_eq!(error("hop = []"), expected);
}

#[test]
fn values_out_of_range_are_reported_with_file_hop_field_and_range() {
    let rate = "0.001 to 1000000 Mbit/s";
    let chance = "0 to 1 (a probability)";
    let delay = "0 to 60000 ms";
    for (fields, field, allowed) in [
        ("rate_mbps = 0", "rate_mbps is 0", rate),
        ("rate_mbps = -1", "rate_mbps is -1", rate),
        ("rate_mbps = nan", "rate_mbps is NaN", rate),
        ("rate_mbps = 1e7", "rate_mbps is 10000000", rate),
        ("[hop.reverse]\nrate_mbps = 0", "reverse.rate_mbps is 0", rate),
        ("delay_ms = 60001", "delay_ms is 60001", delay),
        ("delay_ms = -1", "delay_ms is -1", delay),
        ("loss = 1.5", "loss is 1.5", chance),
        ("duplicate = -0.1", "duplicate is -0.1", chance),
        ("corrupt = 2", "corrupt is 2", chance),
        ("[hop.forward]\nloss = 2", "forward.loss is 2", chance),
        ("gilbert_elliott = { p = 2, r = 0 }", "gilbert_elliott.p is 2", chance),
        ("gilbert_elliott = { p = 0, r = 2 }", "gilbert_elliott.r is 2", chance),
        (
            "gilbert_elliott = { p = 0, r = 0, loss_good = 3 }",
            "gilbert_elliott.loss_good is 3",
            chance,
        ),
        (
            "gilbert_elliott = { p = 0, r = 0, loss_bad = 3 }",
            "gilbert_elliott.loss_bad is 3",
            chance,
        ),
        ("reorder = { probability = 2, delay_ms = 1 }", "reorder.probability is 2", chance),
        ("reorder = { probability = 1, delay_ms = 1e6 }", "reorder.delay_ms is 1", delay),
        ("buffer_ms = -1", "buffer_ms is -1", "0 to 60000 ms"),
        ("buffer_bdp = 1001", "buffer_bdp is 1001", "0 to 1000"),
        ("rate_trace = { steps = [[0, -1]] }", "rate_trace.steps is -1", "0 to 1000000 Mbit/s"),
        ("rate_trace = { steps = [] }", "rate_trace.steps is empty", "one step or more"),
        (
            "rate_trace = { steps = [[0, 1], [1, 0]] }",
            "rate_trace.steps is 0 for ever",
            "above 0 in the end",
        ),
        (
            "rate_trace = { steps = [[0, 1]], repeat_s = -1 }",
            "rate_trace.repeat_s is -1",
            "0 to 1000000 s",
        ),
        ("rate_trace = { steps = [[-1, 1]] }", "rate_trace.steps is -1", "0 to 1000000 s"),
        (
            "delay_trace = { steps = [[1, 1]] }",
            "delay_trace.steps is",
            "a first step at time 0",
        ),
        ("delay_trace = { steps = [[0, 70000]] }", "delay_trace.steps is 70000", delay),
    ] {
        let message = pipe_error(fields);
        assert!(message.starts_with(&format!("test.toml: hop 1: {field}")), "{message}");
        assert!(message.contains(&format!("; allowed: {allowed}")), "{message}");
    }
}

#[test]
fn jitter_and_queues_that_no_pipe_can_have_are_reported_alike() {
    let jitter = "0, or 1 to 91 ms";
    for (fields, field, allowed) in [
        ("jitter_ms = -1", "jitter_ms is -1", "0 to 60000 ms"),
        ("jitter_ms = 0.5", "jitter_ms is 0.5 ms", jitter),
        ("jitter_ms = 92", "jitter_ms is 92 ms", jitter),
        ("jitter_trace = { steps = [[0, 92]] }", "jitter_trace.steps is 92", jitter),
        ("[hop.reverse]\njitter_ms = 92", "reverse.jitter_ms is 92 ms", jitter),
        (
            "queue = \"codel\"",
            "forward.queue is codel",
            "drop-tail, unless the pipe has a rate",
        ),
    ] {
        let message = pipe_error(fields);
        assert!(message.starts_with(&format!("test.toml: hop 1: {field}")), "{message}");
        assert!(message.contains(&format!("; allowed: {allowed}")), "{message}");
    }
}

#[test]
fn wlan_options_that_make_no_sense_are_reported_alike() {
    for (fields, field, allowed) in [
        ("profile = \"n\"\nhops = 3", "hops is 3", "1, 2"),
        ("profile = \"n\"\nbackground = 1000", "background is 1000", "0 to"),
        ("profile = \"n\"\nbackground_mbps = 0", "background_mbps is 0", "0.001 to"),
        ("profile = \"n\"\ncw_min = 16", "cw_min is 16", "one less than a power of two"),
        ("profile = \"n\"\ncw_max = 7", "cw_max is 7", "15 (cw_min) or more"),
        ("profile = \"g\"\nampdu_bytes = 9000", "ampdu_bytes is 9000", "with profiles n"),
        ("profile = \"g\"\npreamble = \"long\"", "preamble is set", "with profile b"),
        ("profile = \"b\"\naggregate_acks = true", "aggregate_acks is true", "true with"),
        ("profile = \"n\"\nmpdu_error_rate = 2", "mpdu_error_rate is 2", "0 to 1"),
    ] {
        let message = wlan_error(fields);
        assert!(message.starts_with(&format!("test.toml: hop 1: {field}")), "{message}");
        assert!(message.contains(&format!("; allowed: {allowed}")), "{message}");
    }
}

#[test]
fn the_second_hop_is_called_so() {
    let toml = "[[hop]]\nkind = \"pipe\"\n[[hop]]\nkind = \"pipe\"\nloss = 2";
    assert!(error(toml).starts_with("test.toml: hop 2: loss is 2"));
}

#[test]
fn what_excludes_each_other_is_not_taken_together() {
    for (fields, expected) in [
        ("rate_mbps = 1\nrate_trace = { steps = [[0, 1]] }", "rate_mbps, rate_trace"),
        ("delay_ms = 1\ndelay_trace = { steps = [[0, 1]] }", "delay_ms, delay_trace"),
        ("jitter_ms = 1\njitter_trace = { steps = [[0, 1]] }", "jitter_ms, jitter_trace"),
        ("buffer_bytes = 1\nbuffer_bdp = 1", "buffer_bytes, buffer_ms, buffer_bdp"),
        ("buffer_ms = 1\nbuffer_bdp = 1", "buffer_bytes, buffer_ms, buffer_bdp"),
    ] {
        let message = pipe_error(fields);
        assert!(message.contains(" is given besides "), "{message}");
        assert!(message.ends_with(&format!("allowed: one of {expected}")), "{message}");
    }
    let message = wlan_error("profile = \"n\"\nbuffer_bytes = 1\nbuffer_packets = 1");
    assert!(message.ends_with("allowed: one of buffer_bytes, buffer_packets"), "{message}");
}

#[test]
fn a_direction_inside_a_direction_is_refused() {
    let message = pipe_error("[hop.forward.reverse]\nloss = 0.1");
    assert!(message.contains("forward.reverse is a table; allowed: no"), "{message}");
}

#[test]
fn a_default_round_trip_of_hours_is_refused() {
    let message = error("default_rtt_ms = 1e7\n[[hop]]\nkind = \"pipe\"");
    let expected = "test.toml: default_rtt_ms is 10000000; allowed: 0 to 120000 ms";
    assert_eq!(message, expected);
}

#[test]
fn a_bdp_of_no_round_trip_is_refused() {
    let spec = pipe("rate_mbps = 1\nbuffer_bdp = 1");
    let error = spec.build(&path(0), 1).err().unwrap().to_string();
    assert!(error.contains("hop 1: buffer_bdp is 1; allowed: only with a round"), "{error}");
    assert!(spec.build(&path(1), 1).is_ok());
}

#[test]
fn a_path_that_makes_no_sense_is_refused() {
    let refused = |path| resolve("n").build(&path, 1).err().unwrap().to_string();
    assert_eq!(refused(path(120_001)), "path: rtt is 120.001s; allowed: up to 120s");
    let lossy = PathSpec { loss_forward: 1.5, ..path(0) };
    assert!(refused(lossy).starts_with("path: loss_forward is 1.5; allowed: 0 to 1"));
    let lossy = PathSpec { loss_reverse: f64::NAN, ..path(0) };
    assert!(refused(lossy).starts_with("path: loss_reverse is NaN; allowed: 0 to 1"));
}

#[test]
fn pauses_that_overlap_or_are_of_one_direction_are_refused() {
    let overlap = pipe_error("pauses = [[1.0, 200], [1.1, 50]]");
    assert!(overlap.contains("a pause at 1.1 s") && overlap.contains("after the end"));
    let nothing = wlan_error("profile = \"n\"\npauses = [[1.0, 0.0]]");
    assert!(nothing.contains("a pause of 0"), "{nothing}");
    let one_way = pipe_error("[hop.reverse]\npauses = [[1.0, 200]]");
    assert!(one_way.contains("reverse.pauses"), "{one_way}");
}
