//! The layer's events in quiche's qlog.

#![allow(clippy::unwrap_used)] // a test that cannot be set up has failed

mod common;

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::*;
use serde_json::Value;
use tacklib::Connection;

#[derive(Clone, Default)]
struct File(Arc<Mutex<Vec<u8>>>);

impl Write for File {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl File {
    /// The records, by RFC 7464: each begins with a record separator and ends
    /// with a line feed.
    fn records(&self) -> Vec<Value> {
        let text = String::from_utf8(self.0.lock().unwrap().clone()).unwrap();
        let records = text.strip_prefix('\x1e').unwrap().split('\x1e');
        records
            .map(|record| serde_json::from_str(record.strip_suffix('\n').unwrap()).unwrap())
            .collect()
    }
}

/// Logs of client and server about a lossy upload.
fn logs() -> (Pair<Connection, Connection>, Vec<Value>, Vec<Value>) {
    let (mut client, mut server) =
        (tack_client(&mut tack_config()), tack_server(&mut tack_config()));
    let (up, down) = (File::default(), File::default());
    client.set_qlog(Box::new(up.clone()), "client".into(), String::new());
    server.set_qlog(Box::new(down.clone()), "server".into(), String::new());
    let mut pair = Pair::new(client, server).with_delay(Duration::from_millis(3)).with_rate(40);
    pair.handshake();
    pair.tamper_up(losing(|packet| packet % 50 == 0));
    transfer(&mut pair, 0, 4 << 20, false);
    pair.run_for(Duration::from_millis(100));
    pair.client.write(4, &[0; 100], false);
    pair.run_for(Duration::from_millis(100));
    let logs = (up.records(), down.records());
    (pair, logs.0, logs.1)
}

fn counts(log: &[Value]) -> BTreeMap<&str, usize> {
    let mut counts = BTreeMap::new();
    for name in log.iter().filter_map(|record| record["name"].as_str()) {
        *counts.entry(name).or_default() += 1;
    }
    counts
}

#[test]
fn every_acknowledgement_and_every_change_of_frequency_is_in_the_file() {
    let (pair, client, server) = logs();
    let (sender, receiver) = (pair.client.tack_stats(), pair.server.tack_stats());
    let (client, server) = (counts(&client), counts(&server));
    for (log, name, count) in [
        (&server, "tack:tack_sent", receiver.tacks_sent),
        (&server, "tack:iack_sent", receiver.iacks_sent),
        (&client, "tack:tack_received", sender.tacks_received),
        (&client, "tack:iack_received", sender.iacks_received),
        (&client, "tack:ack_frequency_sent", sender.frequency_updates_sent),
        (&client, "tack:immediate_ack_sent", sender.immediate_acks_sent),
    ] {
        assert!(count > 0, "{name}: {sender:?} {receiver:?}");
        assert_eq!(log.get(name), Some(&(count as usize)), "{name}");
    }
    for name in ["tack:ack_frequency_received", "tack:settling_time_updated"] {
        assert!(server.contains_key(name), "{name}");
    }
    assert!(client["tack:controller_state_updated"] >= 3, "{client:?}");
    // quiche's own are there as before.
    assert!(client["quic:packet_sent"] > 1000, "{client:?}");
}

#[test]
fn events_are_in_order_of_time_with_quiches_own() {
    let (_pair, client, server) = logs();
    for log in [client, server] {
        let mut last = 0.0;
        for record in &log[1..] {
            let time = record["time"].as_f64().unwrap();
            assert!(time >= last, "{record} after {last}");
            last = time;
        }
    }
}

#[test]
fn a_tack_tells_what_it_said_and_a_state_what_it_rests_on() {
    let (pair, client, server) = logs();
    let named = |log: &[Value], name: &str| -> Vec<Value> {
        log.iter().filter(|record| record["name"] == name).map(|r| r["data"].clone()).collect()
    };
    let sent = named(&server, "tack:tack_sent");
    for received in named(&client, "tack:tack_received") {
        assert!(sent.contains(&received), "{received}");
        let ranges = received["acked_ranges"].as_array().unwrap();
        assert!(ranges[0][0].as_u64() <= ranges[0][1].as_u64());
    }
    let last = sent.last().unwrap();
    assert_eq!(last["sequence"], pair.server.tack_stats().tacks_sent - 1);
    let states = named(&client, "tack:controller_state_updated");
    assert_eq!((&states[0]["new"], &states[0]["old"]), (&"startup".into(), &Value::Null));
    for pair in states.windows(2) {
        assert_eq!(pair[0]["new"], pair[1]["old"]);
    }
    let steady = states.last().unwrap();
    assert!(steady["min_rtt"].as_f64().unwrap() >= 6.0, "{steady}");
    // 40 Mbit/s, whatever this machine made of it.
    assert!(steady["bandwidth"].as_u64().unwrap() > 1_000_000, "{steady}");
    let losses = named(&server, "tack:iack_sent");
    assert!(losses.iter().any(|iack| iack["trigger"] == "loss"));
    assert!(losses.iter().any(|iack| iack["trigger"] == "immediate_ack"));
}
