//! Medians of runs that were kept, and how they compare.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde::Serialize;
use serde_json::Value;

/// Runs of several contenders at the same work.
#[derive(Debug, Serialize)]
pub struct Scenario {
    title: String,
    rows: Vec<Row>,
}

/// The medians of one contender. `None` is what its library does not tell.
#[derive(Debug, Serialize)]
struct Row {
    contender: String,
    runs: usize,
    wall_seconds: Option<f64>,
    goodput_mbit_s: Option<f64>,
    /// Over that of the base.
    goodput_ratio: Option<f64>,
    client_cpu_ns_per_byte: Option<f64>,
    server_cpu_ns_per_byte: Option<f64>,
    /// Of both ends together.
    cpu_ns_per_byte: Option<f64>,
    /// Over that of the base.
    cpu_ratio: Option<f64>,
    client_packets: Option<f64>,
    server_packets: Option<f64>,
    client_ack_packets: Option<f64>,
    server_ack_packets: Option<f64>,
    /// Acknowledgements for each 1,000 packets of the ends that send payload in bulk.
    acks_per_1000_packets: Option<f64>,
    packets_lost: Option<f64>,
    client_rtt_us: Option<f64>,
    server_rtt_us: Option<f64>,
    latency_p50_us: Option<f64>,
    latency_p99_us: Option<f64>,
    /// Versions of the client's library and of what it builds on.
    versions: Value,
    /// What the first run was asked to do.
    parameters: Value,
}

/// The scenarios in a directory, in the order of their names.
pub fn load(directory: &Path, base: &str) -> Result<Vec<Scenario>> {
    let scenarios = sorted(directory)?.into_iter().filter(|path| path.is_dir());
    scenarios.map(|path| scenario(&path, base)).collect()
}

fn sorted(directory: &Path) -> Result<Vec<PathBuf>> {
    let describe = || directory.display().to_string();
    let entries = fs::read_dir(directory).with_context(describe)?;
    let paths = entries.map(|entry| Ok(entry?.path()));
    let mut paths = paths.collect::<std::io::Result<Vec<_>>>().with_context(describe)?;
    paths.sort();
    Ok(paths)
}

fn scenario(directory: &Path, base: &str) -> Result<Scenario> {
    let title = directory.join("title");
    let title = fs::read_to_string(&title).with_context(|| title.display().to_string())?;
    let mut rows = Vec::new();
    for path in sorted(directory)? {
        if path.extension().is_some_and(|extension| extension == "jsonl") {
            rows.push(row(&path).with_context(|| path.display().to_string())?);
        }
    }
    // The base comes first, then the others by name.
    rows.sort_by_key(|row| (row.contender != base, row.contender.clone()));
    if let Some(first) = rows.first().filter(|row| row.contender == base) {
        let (goodput, cpu) = (first.goodput_mbit_s, first.cpu_ns_per_byte);
        for row in &mut rows {
            row.goodput_ratio = ratio(row.goodput_mbit_s, goodput);
            row.cpu_ratio = ratio(row.cpu_ns_per_byte, cpu);
        }
    }
    Ok(Scenario { title: title.trim().to_owned(), rows })
}

fn ratio(value: Option<f64>, base: Option<f64>) -> Option<f64> {
    value.zip(base).filter(|(_, base)| *base > 0.0).map(|(value, base)| value / base)
}

fn row(path: &Path) -> Result<Row> {
    let lines = fs::read_to_string(path)?;
    let runs = lines.lines().map(serde_json::from_str::<Value>);
    let runs = runs.collect::<serde_json::Result<Vec<_>>>()?;
    ensure!(!runs.is_empty(), "no runs");
    let of = |pointer: &str| median(&runs, |run| number(run, pointer));
    Ok(Row {
        contender: path.file_stem().unwrap_or_default().to_string_lossy().into_owned(),
        runs: runs.len(),
        wall_seconds: of("/wall_seconds"),
        goodput_mbit_s: of("/goodput_mbit_s"),
        goodput_ratio: None,
        client_cpu_ns_per_byte: of("/client/cpu_ns_per_byte"),
        server_cpu_ns_per_byte: of("/server/cpu_ns_per_byte"),
        cpu_ns_per_byte: median(&runs, |run| both(run, "cpu_ns_per_byte")),
        cpu_ratio: None,
        client_packets: of("/client/packets_sent"),
        server_packets: of("/server/packets_sent"),
        client_ack_packets: of("/client/ack_packets_sent"),
        server_ack_packets: of("/server/ack_packets_sent"),
        acks_per_1000_packets: median(&runs, acks_per_1000_packets),
        packets_lost: median(&runs, |run| both(run, "packets_lost")),
        client_rtt_us: of("/client/rtt/smoothed_us"),
        server_rtt_us: of("/server/rtt/smoothed_us"),
        latency_p50_us: of("/latency_us/p50"),
        latency_p99_us: of("/latency_us/p99"),
        versions: runs[0].pointer("/client/versions").cloned().unwrap_or_default(),
        parameters: runs[0].get("parameters").cloned().unwrap_or_default(),
    })
}

fn number(run: &Value, pointer: &str) -> Option<f64> {
    run.pointer(pointer).and_then(Value::as_f64)
}

/// The sum over both ends.
fn both(run: &Value, field: &str) -> Option<f64> {
    let of = |end: &str| number(run, &format!("/{end}/{field}"));
    Some(of("client")? + of("server")?)
}

fn acks_per_1000_packets(run: &Value) -> Option<f64> {
    let (acks, packets) = match run.pointer("/parameters/mode").and_then(Value::as_str) {
        Some("down") => {
            (number(run, "/client/ack_packets_sent"), number(run, "/server/packets_sent"))
        }
        Some("up") => {
            (number(run, "/server/ack_packets_sent"), number(run, "/client/packets_sent"))
        }
        _ => (both(run, "ack_packets_sent"), both(run, "packets_sent")),
    };
    ratio(acks, packets).map(|share| share * 1e3)
}

/// The median of what the runs tell; of an even number the mean of the middle two.
fn median(runs: &[Value], value: impl Fn(&Value) -> Option<f64>) -> Option<f64> {
    let mut values: Vec<f64> = runs.iter().filter_map(value).collect();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    let upper = *values.get(middle)?;
    Some(if values.len() % 2 == 1 { upper } else { f64::midpoint(values[middle - 1], upper) })
}

/// Prints a table for each scenario.
pub fn print(scenarios: &[Scenario], markdown: bool) {
    for scenario in scenarios {
        println!("{}{}\n", if markdown { "## " } else { "" }, scenario.title);
        let lines: Vec<_> = scenario.rows.iter().map(cells).collect();
        if markdown {
            println!("| {} |", COLUMNS.join(" | "));
            println!("|---|{}", "---:|".repeat(COLUMNS.len() - 1));
            for cells in &lines {
                println!("| {} |", cells.join(" | "));
            }
        } else {
            print_line(&COLUMNS.map(str::to_owned));
            lines.iter().for_each(print_line);
        }
        println!();
    }
}

const COLUMNS: [&str; 12] = [
    "",
    "runs",
    "Mbit/s",
    "ratio",
    "client ns/B",
    "server ns/B",
    "both ns/B",
    "ratio",
    "acks/1000",
    "lost",
    "p50 us",
    "p99 us",
];

fn cells(row: &Row) -> [String; 12] {
    let with = |value: Option<f64>, digits: usize| {
        value.map_or_else(|| "-".to_owned(), |value| format!("{value:.digits$}"))
    };
    [
        row.contender.clone(),
        row.runs.to_string(),
        with(row.goodput_mbit_s, 0),
        with(row.goodput_ratio, 2),
        with(row.client_cpu_ns_per_byte, 2),
        with(row.server_cpu_ns_per_byte, 2),
        with(row.cpu_ns_per_byte, 2),
        with(row.cpu_ratio, 2),
        with(row.acks_per_1000_packets, 0),
        with(row.packets_lost, 0),
        with(row.latency_p50_us, 0),
        with(row.latency_p99_us, 0),
    ]
}

fn print_line(cells: &[String; 12]) {
    let [first, others @ ..] = cells;
    print!("{first:<14}");
    for cell in others {
        print!("{cell:>12}");
    }
    println!();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(goodput: f64, cpu: f64) -> String {
        format!(
            r#"{{"parameters":{{"mode":"down"}},"goodput_mbit_s":{goodput},
            "client":{{"cpu_ns_per_byte":{cpu},"ack_packets_sent":5,"versions":{{}}}},
            "server":{{"cpu_ns_per_byte":1.0,"packets_sent":100,"packets_lost":null}}}}"#
        )
        .replace('\n', "")
    }

    #[test]
    fn rows_hold_medians_and_ratios_to_the_base() {
        let directory = tempfile::tempdir().unwrap();
        let inside = directory.path().join("1");
        fs::create_dir(&inside).unwrap();
        fs::write(inside.join("title"), "loopback\n").unwrap();
        let base = [run(10.0, 1.0), run(90.0, 9.0), run(20.0, 3.0)].join("\n");
        fs::write(inside.join("quiche.jsonl"), base).unwrap();
        fs::write(inside.join("a.jsonl"), [run(30.0, 1.0), run(50.0, 1.0)].join("\n")).unwrap();

        let scenarios = load(directory.path(), "quiche").unwrap();
        let [scenario] = &scenarios[..] else { panic!("{scenarios:?}") };
        assert_eq!(scenario.title, "loopback");
        let [quiche, other] = &scenario.rows[..] else { panic!("{scenarios:?}") };
        assert_eq!((&*quiche.contender, quiche.runs), ("quiche", 3));
        assert_eq!((quiche.goodput_mbit_s, quiche.cpu_ns_per_byte), (Some(20.0), Some(4.0)));
        assert_eq!((other.goodput_ratio, other.cpu_ratio), (Some(2.0), Some(0.5)));
        assert_eq!(other.acks_per_1000_packets, Some(50.0));
        assert_eq!(other.packets_lost, None);
    }
}
