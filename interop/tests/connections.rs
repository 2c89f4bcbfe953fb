//! Records of our own ends in which connections begin again, follow each other, or move.

#![allow(clippy::unwrap_used, reason = "a test may fail anywhere")]
#![allow(missing_docs, reason = "nothing here is public")]

use std::process::Command;

use serde_json::Value;

#[test]
fn each_connection_of_a_record_is_followed_from_its_first_packet_to_its_last() {
    let target = tempfile::tempdir().unwrap();
    let json = target.path().join("report.json");
    let tests = "retry,retry-resumption,helloretry,resumption,handshakecorruption,\
                 transferdisorder,rebind-port,rebind-addr,ipv6";
    let output = Command::new(env!("CARGO_BIN_EXE_tack-interop"))
        .args(["run", "--peers", "quiche", "--role", "client", "--jobs", "3"])
        .args(["--tests", tests, "--json", json.to_str().unwrap()])
        .env("CARGO_TARGET_DIR", target.path())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));

    let report: Value = serde_json::from_slice(&std::fs::read(json).unwrap()).unwrap();
    let cells = report["cells"].as_array().unwrap();
    assert_eq!(cells.len(), 9);
    for cell in cells {
        let test = cell["test"].as_str().unwrap();
        let seen = &cell["wire"][0][1];
        let connections = seen["connections"].as_array().unwrap();
        let expected = match test {
            "handshakecorruption" => 10,
            "resumption" | "retry-resumption" => 2,
            _ => 1,
        };
        assert_eq!(connections.len(), expected, "{test}");
        for connection in connections {
            // Ours is the server.
            assert_eq!(connection["server"]["tack"], true, "{test}");
            assert_eq!(connection["client"]["tack"], false, "{test}");
            for direction in ["to_server", "to_client"] {
                assert!(connection[direction]["packets"].as_u64().unwrap() > 0, "{test}");
                assert_eq!(connection[direction]["undecryptable"], 0, "{test}");
            }
            let addresses = if test.starts_with("rebind") { 3 } else { 1 };
            // A ClientHello may take several Initials: each without a token is answered by a Retry.
            let count = |of: &str| connection[of].as_u64().unwrap();
            let without_token = count("client_initials") - count("initials_with_token");
            let retries = if test.starts_with("retry") { without_token } else { 0 };
            assert_eq!(count("retries"), retries, "{test}");
            assert_eq!(retries > 0, test.starts_with("retry"), "{test}");
            assert_eq!(connection["paths"].as_array().unwrap().len(), addresses, "{test}");
        }
        let sum = |of: &str| {
            let counts = connections.iter().map(|one| one["to_client"][of].as_u64().unwrap());
            counts.sum::<u64>()
        };
        assert_eq!(seen["to_client"]["packets"], sum("packets"), "{test}");
    }
}
